"""Stored outputs: what is known of one, its bytes and lines, searching it, saving it to a file."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, TypeAlias

import grpc

from toolgate._connection import Patience
from toolgate._transfer import whole_file
from toolgate.errors import RpcError
from toolgate.results import time_of
from toolgate.v1 import output_service_pb2

if TYPE_CHECKING:
    import os
    from datetime import datetime

    from toolgate._connection import Connection

Progress: TypeAlias = Callable[[int, int], None]
"""Is told how many bytes are saved, and how many there are in all."""


@dataclass(frozen=True)
class OutputInfo:
    """What is known of a stored output.

    Attributes:
        id: Its id.
        call_id: The call that wrote it.
        path: Its file on the service's machine.
        total_bytes: Bytes so far.
        total_lines: Lines; 0 while it is being written.
        sha256: Its digest; empty while it is being written.
        complete: Whether its writer is done.
        created: When it was begun.
        expires: When it may be deleted; `None` if that is not known.
        raw: The message of the contract.
    """

    id: str
    call_id: str
    path: str
    total_bytes: int
    total_lines: int
    sha256: str
    complete: bool
    created: datetime
    expires: datetime | None
    raw: output_service_pb2.Output = field(repr=False)

    @classmethod
    def from_proto(cls, message: output_service_pb2.Output) -> OutputInfo:
        """Reads the message of the contract."""
        return cls(
            id=message.output_id,
            call_id=message.call_id,
            path=message.path,
            total_bytes=message.total_bytes,
            total_lines=message.total_lines,
            sha256=message.sha256,
            complete=message.complete,
            created=time_of(message.create_time),
            expires=time_of(message.expire_time) if message.HasField("expire_time") else None,
            raw=message,
        )


@dataclass(frozen=True)
class FoundLine:
    """One line that a search gave.

    Attributes:
        line: Its number, from 1.
        offset: The offset of its first byte.
        text: Its text, without the line ending.
        is_match: Whether it matches, or is context.
    """

    line: int
    offset: int
    text: str
    is_match: bool


@dataclass(frozen=True)
class SearchResult:
    """What a search found.

    Attributes:
        lines: Matching lines and their context, in order.
        matches: How many lines matched, counted up to the cap.
        truncated: Whether there are more matches than the cap.
        raw: The message of the contract.
    """

    lines: list[FoundLine]
    matches: int
    truncated: bool
    raw: output_service_pb2.SearchOutputResponse = field(repr=False)


class Output:
    """A stored output, by its id.

    Attributes:
        id: Its id.
    """

    def __init__(self, connection: Connection, output_id: str) -> None:
        self.id = output_id
        self._connection = connection

    async def info(self) -> OutputInfo:
        """Returns what is known of the output."""
        request = output_service_pb2.GetOutputRequest(output_id=self.id)
        response = await self._connection.unary(
            lambda stubs, timeout: stubs.outputs.GetOutput(request, timeout=timeout)
        )
        return OutputInfo.from_proto(response.output)

    def read(self, offset: int = 0, limit: int = 0) -> AsyncIterator[bytes]:
        """Reads bytes, in pieces.

        Args:
            offset: The first byte, from 0.
            limit: At most this many; 0 for all that follow.
        """
        span = output_service_pb2.ByteRange(offset=offset, limit=limit)
        return self._pieces(output_service_pb2.ReadOutputRequest(output_id=self.id, bytes=span))

    def lines(self, first: int = 1, limit: int = 0) -> AsyncIterator[bytes]:
        """Reads whole lines, in pieces of bytes.

        Args:
            first: The first line, from 1.
            limit: At most this many; 0 for all that follow.
        """
        span = output_service_pb2.LineRange(first_line=first, limit=limit)
        return self._pieces(output_service_pb2.ReadOutputRequest(output_id=self.id, lines=span))

    def tail(self, lines: int) -> AsyncIterator[bytes]:
        """Reads the last lines, in pieces of bytes."""
        span = output_service_pb2.Tail(lines=lines)
        return self._pieces(output_service_pb2.ReadOutputRequest(output_id=self.id, tail=span))

    async def content(self) -> bytes:
        """Returns the whole output, as the tool wrote it."""
        return b"".join([piece async for piece in self.read()])

    async def text(self) -> str:
        """Returns the whole output as text; what is not UTF-8 is replaced."""
        return (await self.content()).decode(errors="replace")

    async def search(self, pattern: str, *, before: int = 0, after: int = 0, max_matches: int = 0) -> SearchResult:
        """Searches the output line by line.

        Args:
            pattern: A regular expression in the syntax of Rust.
            before: Lines to show before each match, at most 20.
            after: Lines to show after each match, at most 20.
            max_matches: At most this many matching lines; 0 for 100.
        """
        request = output_service_pb2.SearchOutputRequest(
            output_id=self.id, pattern=pattern, before_context=before, after_context=after, max_matches=max_matches
        )
        response = await self._connection.unary(
            lambda stubs, timeout: stubs.outputs.SearchOutput(request, timeout=timeout)
        )
        lines = [FoundLine(one.line, one.offset, one.text, one.is_match) for one in response.lines]
        return SearchResult(lines, response.matches, response.truncated, response)

    async def delete(self) -> None:
        """Deletes the output. The record of its call stays."""
        request = output_service_pb2.DeleteOutputRequest(output_id=self.id)
        await self._connection.unary(
            lambda stubs, timeout: stubs.outputs.DeleteOutput(request, timeout=timeout), retry=False
        )

    async def save(self, path: str | os.PathLike[str], *, progress: Progress | None = None) -> int:
        """Saves the output to a file, which is there whole or not at all; a lost connection is taken up again.

        Args:
            path: The file. One that is there is replaced.
            progress: Is told how far it is, after each piece.

        Returns:
            The number of bytes.

        Raises:
            RpcError: With the code DATA_LOSS if what came is not what the service has stored.
        """
        async with whole_file(path) as file:
            return await self._write(file, progress)

    async def _write(self, file: IO[bytes], progress: Progress | None) -> int:
        info = await self.info()
        digest = hashlib.sha256()
        size = 0
        while True:
            before = size
            async for piece in self.read(size):
                await asyncio.to_thread(file.write, piece)
                digest.update(piece)
                size += len(piece)
                if progress is not None:
                    progress(size, max(size, info.total_bytes))
            # The tool may have gone on writing while its output was read.
            info = await self.info()
            if size == before or not info.complete or size >= info.total_bytes:
                break
        if info.complete and (size != info.total_bytes or info.sha256 != digest.hexdigest()):
            text = f"output {self.id} was not saved: what came is not what the service has stored"
            raise RpcError(grpc.StatusCode.DATA_LOSS, text)
        return size

    async def _pieces(self, request: output_service_pb2.ReadOutputRequest) -> AsyncIterator[bytes]:
        patience = Patience(self._connection, self._connection.settings.reconnect_timeout)
        reached: int | None = None
        while True:
            current = _from(request, reached)
            if current is None:
                return
            stream = self._connection.stream(
                lambda stubs, current=current: stubs.outputs.ReadOutput(current),  # type: ignore[misc]
                output_service_pb2.ReadOutputResponse,
            )
            try:
                while (response := await stream.next()) is not None:
                    patience.succeeded()
                    # Lines and tails begin anew after a lost connection; what was read before is passed over.
                    skip = max((reached or 0) - response.offset, 0)
                    if skip < len(response.data):
                        reached = response.offset + len(response.data)
                        yield response.data[skip:]
            except RpcError as error:
                await patience.wait(error)
            else:
                return
            finally:
                stream.close()


def _from(
    request: output_service_pb2.ReadOutputRequest, reached: int | None
) -> output_service_pb2.ReadOutputRequest | None:
    """Returns the request for what is still missing; `None` if nothing is."""
    if reached is None or not request.HasField("bytes"):
        return request
    span = rest_of(request.bytes, reached)
    return None if span is None else output_service_pb2.ReadOutputRequest(output_id=request.output_id, bytes=span)


def rest_of(span: output_service_pb2.ByteRange, reached: int) -> output_service_pb2.ByteRange | None:
    """Returns what is still missing of a range; `None` if nothing is."""
    end = span.offset + span.limit
    if span.limit and reached >= end:
        return None
    return output_service_pb2.ByteRange(offset=reached, limit=end - reached if span.limit else 0)
