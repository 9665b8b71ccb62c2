"""The files of a workspace: to look at, to watch, to change, to carry to and fro."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc

from toolgate._connection import Patience
from toolgate._transfer import LocalFile, opened, whole_copy
from toolgate.calls import Unattended, call_options
from toolgate.errors import RpcError
from toolgate.file_info import FileInfo
from toolgate.file_watch import FileWatch
from toolgate.outputs import rest_of
from toolgate.v1 import file_service_pb2, output_service_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator
    from datetime import timedelta
    from typing import IO

    from toolgate._connection import Connection
    from toolgate.v1 import call_pb2

_ALL_LEVELS = 64


@dataclass(frozen=True)
class WrittenFile:
    """What a change has made.

    Attributes:
        call_id: The call that did it, for `Client.revert`.
        info: The file or folder as it is now, a file with its digest; `None` if it may not be shown or is gone.
    """

    call_id: str
    info: FileInfo | None


@dataclass(frozen=True)
class DownloadedArchive:
    """What is in an archive.

    Attributes:
        entries: How many entries it has.
        omitted: What was left out, as far as it is named: paths relative to the workspace's folder, at most 1000.
    """

    entries: int
    omitted: list[str]


class FileReading:
    """A file or a part of it, as an asynchronous iterator over pieces of bytes. `await` it for all of them together.

    A lost connection is taken up again. It ends with the reason FILE_CHANGED if somebody writes to the file meanwhile:
    read it again then.
    """

    def __init__(self, connection: Connection, request: file_service_pb2.ReadFileRequest) -> None:
        self._connection = connection
        self._request = request
        self._info: FileInfo | None = None

    @property
    def info(self) -> FileInfo:
        """The file as it was when it was read.

        Raises:
            RuntimeError: Nothing of it was read yet.
        """
        if self._info is None:
            raise RuntimeError("what is known of the file comes with its first bytes; read it first, or use stat()")
        return self._info

    async def content(self) -> bytes:
        """Returns the bytes."""
        return b"".join([piece async for piece in self])

    async def text(self) -> str:
        """Returns the bytes as text; what is not UTF-8 is replaced."""
        return (await self.content()).decode(errors="replace")

    def __await__(self) -> Generator[object, None, bytes]:
        return self.content().__await__()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        patience = Patience(self._connection, self._connection.settings.reconnect_timeout)
        self._info = None
        span: output_service_pb2.ByteRange | None = self._request.range
        while span is not None:
            request = file_service_pb2.ReadFileRequest(
                context=self._request.context,
                path=self._request.path,
                range=span,
                with_sha256=self._request.with_sha256,
            )
            stream = self._connection.stream(
                lambda stubs, request=request: stubs.files.ReadFile(request),  # type: ignore[misc]
                file_service_pb2.ReadFileResponse,
            )
            try:
                while (response := await stream.next()) is not None:
                    if response.HasField("file"):
                        self._begin(FileInfo.from_proto(response.file))
                    if response.data:
                        patience.succeeded()
                        span = rest_of(self._request.range, response.offset + len(response.data))
                        yield response.data
            except RpcError as error:
                await patience.wait(error)
            else:
                return
            finally:
                stream.close()

    def _begin(self, info: FileInfo) -> None:
        """Notes which file it is, or that the connection was lost and the file is another one now."""
        before = self._info
        if before is not None and (before.size, before.modified) != (info.size, info.modified):
            text = f"{info.path} has changed while it was read"
            raise RpcError(grpc.StatusCode.ABORTED, text, reason="FILE_CHANGED")
        self._info = info


class Files:
    """The files of a workspace, in the name of a session and an agent, whose rules decide.

    A path is relative to the workspace's folder, or absolute and inside it. Looking asks nobody: what a person would
    have to be asked about is refused with the reason PERMISSION_NEEDED. A change is a call: it may ask a person, is
    recorded, and `Client.revert` takes it back. It is done whole or not at all, and made once, however often the
    connection is lost.
    """

    def __init__(
        self,
        connection: Connection,
        context: call_pb2.CallContext,
        unattended: Unattended,
        wait_timeout: float | timedelta | None,
    ) -> None:
        self._connection = connection
        self._context = context
        self._unattended = unattended
        self._wait_timeout = wait_timeout

    async def stat(self, path: str = "", *, sha256: bool = False) -> FileInfo:
        """Says what is at a path; of a link what it leads to.

        Args:
            path: The path; the workspace's folder if empty.
            sha256: Whether to digest a file, which reads all of it.
        """
        request = file_service_pb2.StatFileRequest(context=self._context, path=path, with_sha256=sha256)
        response = await self._connection.unary(lambda stubs, timeout: stubs.files.StatFile(request, timeout=timeout))
        return FileInfo.from_proto(response.file)

    async def list(
        self, path: str = "", *, depth: int = 1, recursive: bool = False, include_ignored: bool = False
    ) -> AsyncIterator[FileInfo]:
        """Lists a folder in the order of the paths, page by page as they are asked for.

        Args:
            path: The folder; the workspace's if empty.
            depth: How deep to look: 1 for what is in the folder itself.
            recursive: Looks as deep as 64 folders.
            include_ignored: Whether to list what ignore rules name, and `.git`, as well.
        """
        request = file_service_pb2.ListFilesRequest(
            context=self._context,
            path=path,
            depth=_ALL_LEVELS if recursive else depth,
            include_ignored=include_ignored,
        )
        while True:
            response = await self._connection.unary(
                lambda stubs, timeout: stubs.files.ListFiles(request, timeout=timeout)
            )
            for file in response.files:
                yield FileInfo.from_proto(file)
            if not response.next_page_token:
                return
            request.page_token = response.next_page_token

    def read(self, path: str, offset: int = 0, limit: int = 0, *, sha256: bool = False) -> FileReading:
        """Reads a file: `await` it for its bytes, or iterate over pieces of them.

        Args:
            path: The file.
            offset: The first byte, from 0.
            limit: At most this many; 0 for all that follow.
            sha256: Whether `info` has the digest of the whole file, which reads all of it first.
        """
        span = output_service_pb2.ByteRange(offset=offset, limit=limit)
        request = file_service_pb2.ReadFileRequest(context=self._context, path=path, range=span, with_sha256=sha256)
        return FileReading(self._connection, request)

    def watch(self, path: str = "", *, cursor: str = "") -> FileWatch:
        """Watches a folder and all that is in it, over lost connections.

        Args:
            path: The folder; the workspace's if empty.
            cursor: Where an earlier watch of the workspace was; what happens from now on if empty.
        """
        request = file_service_pb2.WatchFilesRequest(context=self._context, path=path, cursor=cursor)
        return FileWatch(self._connection, request)

    async def write(
        self,
        path: str,
        content: bytes | str,
        *,
        mode: int | None = None,
        if_sha256: str = "",
        if_absent: bool = False,
        call_id: str | None = None,
    ) -> WrittenFile:
        """Writes a file that fits into one message (32 MiB, unless configured), with the folders above it.

        Args:
            path: The file. A link is followed.
            content: All that it has then.
            mode: The permission bits; `None` for those that it has, or that the system gives to new files.
            if_sha256: The digest that the file must have before; otherwise the reason is CONTENT_DIFFERS.
            if_absent: Nothing may be there; otherwise the reason is ALREADY_THERE.
            call_id: The call's id; a UUIDv7 is made if there is none.
        """
        request = file_service_pb2.WriteFileRequest(
            call=self._call(call_id),
            target=_write_target(path, mode, if_sha256, if_absent=if_absent),
            content=content.encode() if isinstance(content, str) else content,
        )
        response = await self._connection.make_call(lambda stubs: stubs.files.WriteFile(request))
        return _written(response)

    async def upload(
        self,
        path: str,
        source: LocalFile,
        *,
        mode: int | None = None,
        if_sha256: str = "",
        if_absent: bool = False,
        call_id: str | None = None,
    ) -> WrittenFile:
        """Writes a file of up to 64 MiB from one of this machine. The options are those of `write`.

        Args:
            path: The file.
            source: A path, or a file that is open for bytes, which is read from where it is.
            mode: The permission bits.
            if_sha256: The digest that the file must have before.
            if_absent: Nothing may be there.
            call_id: The call's id.
        """
        first = file_service_pb2.UploadFileRequest(
            call=self._call(call_id), target=_write_target(path, mode, if_sha256, if_absent=if_absent)
        )
        async with opened(source) as content:
            response = await content.send(
                self._connection,
                first,
                lambda piece: file_service_pb2.UploadFileRequest(content=piece),
                lambda stubs, requests: stubs.files.UploadFile(requests),
            )
        return _written(response)

    async def create_folder(self, path: str, *, call_id: str | None = None) -> WrittenFile:
        """Makes a folder, with those above it. One that is there already is left as it is."""
        request = file_service_pb2.CreateFolderRequest(call=self._call(call_id), path=path)
        response = await self._connection.make_call(lambda stubs: stubs.files.CreateFolder(request))
        return _written(response)

    async def move(self, path: str, new_path: str, *, if_sha256: str = "", call_id: str | None = None) -> str:
        """Moves a file, a link, or a folder with all that is in it.

        Args:
            path: What to move.
            new_path: Its new path, where nothing is; not only the folder that it comes into.
            if_sha256: The digest that the file must have.
            call_id: The call's id.

        Returns:
            The id of the call that did it.
        """
        request = file_service_pb2.MoveFileRequest(
            call=self._call(call_id), path=path, new_path=new_path, if_sha256=if_sha256
        )
        response = await self._connection.make_call(lambda stubs: stubs.files.MoveFile(request))
        return response.call_id

    async def delete(
        self, path: str, *, recursive: bool = False, if_sha256: str = "", call_id: str | None = None
    ) -> str:
        """Deletes a file or a link.

        Args:
            path: What to delete.
            recursive: Whether to delete a folder, with all that is in it.
            if_sha256: The digest that the file must have.
            call_id: The call's id.

        Returns:
            The id of the call that did it.
        """
        request = file_service_pb2.DeleteFileRequest(
            call=self._call(call_id), path=path, recursive=recursive, if_sha256=if_sha256
        )
        response = await self._connection.make_call(lambda stubs: stubs.files.DeleteFile(request))
        return response.call_id

    async def download_archive(
        self, path: str, target: LocalFile, *, include_ignored: bool = False
    ) -> DownloadedArchive:
        """Saves a folder as a tar archive, not compressed, of at most 50,000 entries and 1 GiB.

        A target that is a path is there whole or not at all, and an open one gets the archive when all of it has come.

        Args:
            path: The folder, to which the names in the archive are relative; the workspace's if empty.
            target: A path, where a file is replaced, or a file that is open for bytes.
            include_ignored: Whether to send what ignore rules name, and `.git`, as well.
        """
        request = file_service_pb2.DownloadArchiveRequest(
            context=self._context, path=path, include_ignored=include_ignored
        )
        async with whole_copy(target) as file:
            end = await self._download(request, file)
        return DownloadedArchive(end.entries, [*end.omitted_paths])

    async def upload_archive(
        self, path: str, source: LocalFile, *, if_absent: bool = False, call_id: str | None = None
    ) -> str:
        """Writes the files and folders of a tar archive into a folder: all of them, or none.

        Args:
            path: The folder, made if it is not there; the workspace's if empty.
            source: The archive, at most 64 MiB and not compressed: a path, or a file that is open for bytes, which is
                read from where it is.
            if_absent: No file of the archive may be there; without, such files are replaced.
            call_id: The call's id.

        Returns:
            The id of the call that did it.
        """
        first = file_service_pb2.UploadArchiveRequest(
            call=self._call(call_id), target=file_service_pb2.ArchiveTarget(path=path, if_absent=if_absent)
        )
        async with opened(source) as archive:
            response = await archive.send(
                self._connection,
                first,
                lambda piece: file_service_pb2.UploadArchiveRequest(data=piece),
                lambda stubs, requests: stubs.files.UploadArchive(requests),
            )
        return response.call_id

    async def _download(
        self, request: file_service_pb2.DownloadArchiveRequest, file: IO[bytes]
    ) -> file_service_pb2.ArchiveEnd:
        patience = Patience(self._connection, self._connection.settings.reconnect_timeout)
        while True:
            await asyncio.to_thread(file.truncate, 0)
            file.seek(0)
            stream = self._connection.stream(
                lambda stubs: stubs.files.DownloadArchive(request), file_service_pb2.DownloadArchiveResponse
            )
            try:
                while not (response := await stream.expect()).HasField("end"):
                    await asyncio.to_thread(file.write, response.data)
            except RpcError as error:
                await patience.wait(error)
            else:
                return response.end
            finally:
                stream.close()

    def _call(self, call_id: str | None) -> call_pb2.CallStart:
        return call_options(self._context, call_id, self._unattended, self._wait_timeout)


def _write_target(path: str, mode: int | None, if_sha256: str, *, if_absent: bool) -> file_service_pb2.WriteTarget:
    return file_service_pb2.WriteTarget(path=path, mode=mode, if_sha256=if_sha256, if_absent=if_absent)


def _written(
    response: (
        file_service_pb2.WriteFileResponse | file_service_pb2.UploadFileResponse | file_service_pb2.CreateFolderResponse
    ),
) -> WrittenFile:
    info = FileInfo.from_proto(response.file) if response.HasField("file") else None
    return WrittenFile(response.call_id, info)
