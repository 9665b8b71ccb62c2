"""Files of the client's own machine: what is sent from them, and what is saved to them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from toolgate._connection import Connection, Stubs

T = TypeVar("T")
R = TypeVar("R")

LocalFile: TypeAlias = "str | os.PathLike[str] | IO[bytes]"
"""A path, or a file that is open for bytes."""

_PIECE = 256 * 1024


@contextlib.asynccontextmanager
async def whole_file(path: str | os.PathLike[str]) -> AsyncIterator[IO[bytes]]:
    """Opens a file to write that takes the place of the one at the path when it is whole, or is not there at all."""
    path = Path(path)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    file = await asyncio.to_thread(part.open, "xb")
    try:
        yield file
        await asyncio.to_thread(file.close)
        await asyncio.to_thread(part.replace, path)
    except BaseException:
        file.close()
        part.unlink(missing_ok=True)
        raise


@contextlib.asynccontextmanager
async def whole_copy(target: LocalFile) -> AsyncIterator[IO[bytes]]:
    """Opens a file to write whose content comes to the target when it is whole, or not at all."""
    if isinstance(target, (str, os.PathLike)):
        async with whole_file(target) as file:
            yield file
        return
    with tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        await asyncio.to_thread(shutil.copyfileobj, file, target)


@contextlib.asynccontextmanager
async def opened(source: LocalFile) -> AsyncIterator[Source]:
    """Opens what is sent. A file that is open is read from where it is."""
    if isinstance(source, (str, os.PathLike)):
        with await asyncio.to_thread(Path(source).open, "rb") as file:
            yield Source(file)
    elif source.seekable():
        yield Source(source)
    else:
        # What can be read only once may have to be sent twice.
        with tempfile.TemporaryFile() as file:
            await asyncio.to_thread(shutil.copyfileobj, source, file)
            file.seek(0)
            yield Source(file)


class Source:
    """A content that is sent, as often as it must be."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._start = file.tell()
        self._error: Exception | None = None
        # A request that was given up may still read in its thread.
        self._reading = threading.Lock()

    async def send(
        self,
        connection: Connection,
        first: R,
        following: Callable[[bytes], R],
        call: Callable[[Stubs, AsyncIterator[R]], Awaitable[T]],
    ) -> T:
        """Makes a request of a message that begins it, and of others with the content."""
        try:
            return await connection.make_call(lambda stubs: call(stubs, self._requests(first, following)))
        except asyncio.CancelledError:
            # That is how grpcio ends a request whose messages could not be made.
            if self._error is not None:
                raise self._error from None
            raise

    async def _requests(self, first: R, following: Callable[[bytes], R]) -> AsyncIterator[R]:
        yield first
        position = self._start
        try:
            while piece := await asyncio.to_thread(self._read, position):
                yield following(piece)
                position += len(piece)
        except Exception as error:
            self._error = error
            raise

    def _read(self, position: int) -> bytes:
        with self._reading:
            self._file.seek(position)
            return self._file.read(_PIECE)
