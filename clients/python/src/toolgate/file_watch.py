"""Watching what comes, changes and goes below a folder."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from toolgate._connection import Patience
from toolgate.errors import CursorTooOldError, RpcError
from toolgate.file_info import FileInfo
from toolgate.v1 import file_service_pb2

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from toolgate._connection import Connection, Stream


@dataclass(frozen=True)
class FilesChanged:
    """Files came, changed or went.

    Attributes:
        cursor: Where the watch is then.
        files: What is there now. An entry may come though nothing of it has changed.
        gone: The paths that hold nothing any more; with a folder goes all that is in it.
        raw: The message of the contract.
    """

    cursor: str
    files: list[FileInfo]
    gone: list[str]
    raw: file_service_pb2.FilesChanged = field(repr=False)
    kind: Literal["changed"] = "changed"


@dataclass(frozen=True)
class FilesMissed:
    """Something may have been missed, or what is ignored has changed: list the folder again. The watch goes on.

    Attributes:
        cursor: Where the watch is then.
    """

    cursor: str
    kind: Literal["missed"] = "missed"


FilesEvent: TypeAlias = FilesChanged | FilesMissed
"""What a watch tells."""


class FileWatch:
    """What happens to files, as an asynchronous iterator. Use it in `async with`, and list the folder then.

    A lost connection is taken up again where it was. `CursorTooOldError` means that this cannot be done any more.

    Attributes:
        cursor: Where the watch is: another one goes on from there. Empty before it has begun.
        partial: Whether there are too many folders to watch: what happens in some of them is not told.
    """

    def __init__(self, connection: Connection, request: file_service_pb2.WatchFilesRequest) -> None:
        self.cursor = request.cursor
        self.partial = False
        self._connection = connection
        self._request = request
        self._stream: Stream[file_service_pb2.WatchFilesResponse] | None = None
        self._patience = Patience(connection, connection.settings.reconnect_timeout)
        self._has_begun = False

    def __aiter__(self) -> FileWatch:
        return self

    async def __anext__(self) -> FilesEvent:
        while True:
            event = await self._next()
            if event is not None:
                return event

    async def __aenter__(self) -> Self:
        """Returns when the server watches: what happens from then on is told."""
        while not self._has_begun:
            await self._next()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    async def _next(self) -> FilesEvent | None:
        """Returns what the next message tells; `None` for a beginning and a heartbeat."""
        response = await self._receive()
        self.cursor = response.cursor
        kind = response.WhichOneof("news")
        if kind == "watched":
            self._has_begun = True
            self.partial = response.watched.partial
        elif kind == "changed":
            changed = response.changed
            files = [FileInfo.from_proto(one) for one in changed.files]
            return FilesChanged(self.cursor, files, list(changed.gone_paths), changed)
        elif kind == "missed":
            self.partial = response.missed.partial
            return FilesMissed(self.cursor)
        return None

    async def _receive(self) -> file_service_pb2.WatchFilesResponse:
        while True:
            try:
                response = await self._open().expect()
            except RpcError as error:
                self._close()
                if error.reason == "CURSOR_TOO_OLD":
                    raise CursorTooOldError(
                        error.code, error.message, reason=error.reason, metadata=error.metadata
                    ) from None
                await self._patience.wait(error)
            except asyncio.CancelledError:
                # Whoever gave up waiting may come back.
                self._close()
                raise
            else:
                self._patience.succeeded()
                return response

    def _open(self) -> Stream[file_service_pb2.WatchFilesResponse]:
        if self._stream is None:
            self._request.cursor = self.cursor
            self._stream = self._connection.stream(
                lambda stubs: stubs.files.WatchFiles(self._request), file_service_pb2.WatchFilesResponse
            )
        return self._stream

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
