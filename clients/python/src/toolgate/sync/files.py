"""The files of a workspace, without `async`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolgate.sync import _portal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from typing_extensions import Self, Unpack

    from toolgate import file_watch, files
    from toolgate._transfer import LocalFile
    from toolgate.file_info import FileInfo
    from toolgate.options import WriteOptions


class FileReading:
    """A file or a part of it, as an iterator over pieces of bytes; `content()` returns all of them together.

    A lost connection is taken up again. It ends with the reason FILE_CHANGED if somebody writes to the file meanwhile:
    read it again then.
    """

    def __init__(self, reading: files.FileReading) -> None:
        self._reading = reading

    @property
    def info(self) -> FileInfo:
        """The file as it was when it was read.

        Raises:
            RuntimeError: Nothing of it was read yet.
        """
        return self._reading.info

    def content(self) -> bytes:
        """Returns the bytes."""
        return _portal.run(self._reading.content())

    def text(self) -> str:
        """Returns the bytes as text; what is not UTF-8 is replaced."""
        return _portal.run(self._reading.text())

    def __iter__(self) -> Iterator[bytes]:
        return _portal.iterate(self._reading.__aiter__())


class FileWatch:
    """What happens to files, as an iterator. Use it in `with`, and list the folder then.

    A lost connection is taken up again where it was. `CursorTooOldError` means that this cannot be done any more.
    """

    def __init__(self, watch: file_watch.FileWatch) -> None:
        self._watch = watch

    @property
    def cursor(self) -> str:
        """Where the watch is: another one goes on from there. Empty before it has begun."""
        return self._watch.cursor

    @property
    def partial(self) -> bool:
        """Whether there are too many folders to watch: what happens in some of them is not told."""
        return self._watch.partial

    def __iter__(self) -> Iterator[file_watch.FilesEvent]:
        return _portal.iterate(self._watch)

    def __enter__(self) -> Self:
        """Returns when the server watches: what happens from then on is told."""
        _portal.run(self._watch.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _portal.run(self._watch.__aexit__(kind, error, trace))


class Files:
    """The files of a workspace, in the name of a session and an agent, whose rules decide.

    A path is relative to the workspace's folder, or absolute and inside it. Looking asks nobody: what a person would
    have to be asked about is refused with the reason PERMISSION_NEEDED. A change is a call: it may ask a person, is
    recorded, and `Client.revert` takes it back. It is done whole or not at all, and made once, however often the
    connection is lost.
    """

    def __init__(self, files: files.Files) -> None:
        self._files = files

    def stat(self, path: str = "", *, sha256: bool = False) -> FileInfo:
        """Says what is at a path; of a link what it leads to.

        Args:
            path: The path; the workspace's folder if empty.
            sha256: Whether to digest a file, which reads all of it.
        """
        return _portal.run(self._files.stat(path, sha256=sha256))

    def list(
        self, path: str = "", *, depth: int = 1, recursive: bool = False, include_ignored: bool = False
    ) -> Iterator[FileInfo]:
        """Lists a folder in the order of the paths, page by page as they are asked for.

        Args:
            path: The folder; the workspace's if empty.
            depth: How deep to look: 1 for what is in the folder itself.
            recursive: Looks as deep as 64 folders.
            include_ignored: Whether to list what ignore rules name, and `.git`, as well.
        """
        listed = self._files.list(path, depth=depth, recursive=recursive, include_ignored=include_ignored)
        return _portal.iterate(listed)

    def read(self, path: str, offset: int = 0, limit: int = 0, *, sha256: bool = False) -> FileReading:
        """Reads a file: ask for its `content()` or `text()`, or iterate over pieces of bytes.

        Args:
            path: The file.
            offset: The first byte, from 0.
            limit: At most this many; 0 for all that follow.
            sha256: Whether `info` has the digest of the whole file, which reads all of it first.
        """
        return FileReading(self._files.read(path, offset, limit, sha256=sha256))

    def watch(self, path: str = "", *, cursor: str = "") -> FileWatch:
        """Watches a folder and all that is in it, over lost connections.

        Args:
            path: The folder; the workspace's if empty.
            cursor: Where an earlier watch of the workspace was; what happens from now on if empty.
        """
        return FileWatch(self._files.watch(path, cursor=cursor))

    def write(self, path: str, content: bytes | str, **options: Unpack[WriteOptions]) -> files.WrittenFile:
        """Writes a file that fits into one message (32 MiB, unless configured), with the folders above it.

        Args:
            path: The file. A link is followed.
            content: All that it has then.
            **options: The options of `AsyncClient`'s `files().write`.
        """
        return _portal.run(self._files.write(path, content, **options))

    def upload(self, path: str, source: LocalFile, **options: Unpack[WriteOptions]) -> files.WrittenFile:
        """Writes a file of up to 64 MiB from one of this machine. The options are those of `write`.

        Args:
            path: The file.
            source: A path, or a file that is open for bytes, which is read from where it is.
            **options: The options of `write`.
        """
        return _portal.run(self._files.upload(path, source, **options))

    def create_folder(self, path: str, *, call_id: str | None = None) -> files.WrittenFile:
        """Makes a folder, with those above it. One that is there already is left as it is."""
        return _portal.run(self._files.create_folder(path, call_id=call_id))

    def move(self, path: str, new_path: str, *, if_sha256: str = "", call_id: str | None = None) -> str:
        """Moves a file, a link, or a folder with all that is in it.

        Args:
            path: What to move.
            new_path: Its new path, where nothing is; not only the folder that it comes into.
            if_sha256: The digest that the file must have.
            call_id: The call's id.

        Returns:
            The id of the call that did it.
        """
        return _portal.run(self._files.move(path, new_path, if_sha256=if_sha256, call_id=call_id))

    def delete(self, path: str, *, recursive: bool = False, if_sha256: str = "", call_id: str | None = None) -> str:
        """Deletes a file or a link.

        Args:
            path: What to delete.
            recursive: Whether to delete a folder, with all that is in it.
            if_sha256: The digest that the file must have.
            call_id: The call's id.

        Returns:
            The id of the call that did it.
        """
        return _portal.run(self._files.delete(path, recursive=recursive, if_sha256=if_sha256, call_id=call_id))

    def download_archive(
        self, path: str, target: LocalFile, *, include_ignored: bool = False
    ) -> files.DownloadedArchive:
        """Saves a folder as a tar archive, not compressed, of at most 50,000 entries and 1 GiB.

        A target that is a path is there whole or not at all, and an open one gets the archive when all of it has come.

        Args:
            path: The folder, to which the names in the archive are relative; the workspace's if empty.
            target: A path, where a file is replaced, or a file that is open for bytes.
            include_ignored: Whether to send what ignore rules name, and `.git`, as well.
        """
        return _portal.run(self._files.download_archive(path, target, include_ignored=include_ignored))

    def upload_archive(
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
        return _portal.run(self._files.upload_archive(path, source, if_absent=if_absent, call_id=call_id))
