"""The files of a workspace, shown and changed."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import os
import tarfile
from pathlib import Path

import grpc
import pytest

from tests.conftest import Server, Wire
from toolgate import (
    AsyncClient,
    Client,
    CursorTooOldError,
    FileKind,
    FilesChanged,
    FilesEvent,
    PermissionPrompt,
    RpcError,
    once,
    reject,
)

HELLO = hashlib.sha256(b"hello\n").hexdigest()


async def test_a_tree_is_shown(server: Server) -> None:
    (server.work / "a" / "b").mkdir(parents=True)
    (server.work / "a" / "b" / "c.txt").write_text("hello\n")
    (server.work / "a" / "link").symlink_to("b/c.txt")
    (server.work / "a" / ".ignore").write_text("*.log\n")
    (server.work / "a" / "x.log").touch()
    os.mkfifo(server.work / "a" / "pipe")
    async with AsyncClient(server.target) as client:
        files = client.files()
        folder = await files.stat()
        assert (folder.path, folder.kind) == (".", FileKind.FOLDER)
        file = await files.stat("a/link", sha256=True)
        assert (file.kind, file.size, file.sha256, file.link_target) == (FileKind.FILE, 6, HELLO, "b/c.txt")
        listed = {one.path: one.kind async for one in files.list("a")}
        assert listed == {
            "a/.ignore": FileKind.FILE,
            "a/b": FileKind.FOLDER,
            "a/link": FileKind.LINK,
            "a/pipe": FileKind.OTHER,
        }
        deep = [one.path async for one in files.list("a", recursive=True, include_ignored=True)]
        assert deep == ["a/.ignore", "a/b", "a/b/c.txt", "a/link", "a/pipe", "a/x.log"]
        assert [one.path async for one in files.list(depth=2)] == ["a", *listed, "opencode.json"]


async def test_a_folder_is_listed_to_the_last_page(server: Server) -> None:
    (server.work / "many").mkdir()
    for number in range(1001):
        (server.work / "many" / f"{number:04}").touch()
    async with AsyncClient(server.target) as client:
        paths = [one.path async for one in client.files().list("many")]
        assert paths == [f"many/{number:04}" for number in range(1001)]


async def test_a_file_is_read_whole_in_part_and_in_pieces(server: Server) -> None:
    content = os.urandom(300_000)
    (server.work / "a.bin").write_bytes(content)
    async with AsyncClient(server.target) as client:
        files = client.files()
        assert await files.read("a.bin") == content
        assert await files.read("a.bin", 100_000, 70_000) == content[100_000:170_000]
        assert await files.read("a.bin", 400_000) == b""
        reading = files.read("a.bin", sha256=True)
        with pytest.raises(RuntimeError):
            _ = reading.info
        pieces = [one async for one in reading]
        assert len(pieces) > 1
        assert b"".join(pieces) == content
        assert reading.info.sha256 == hashlib.sha256(content).hexdigest()
        assert reading.info.size == len(content)


@pytest.mark.permit(read={"*": "allow", "secret": "deny"}, edit="allow")
async def test_what_cannot_be_shown_says_why(server: Server) -> None:
    (server.work / "secret").write_text("x")
    os.mkfifo(server.work / "pipe")
    async with AsyncClient(server.target) as client:
        files = client.files()

        async def reason(path: str) -> str:
            with pytest.raises(RpcError) as caught:
                await files.read(path)
            return caught.value.reason

        assert await reason("nowhere") == "NOT_FOUND"
        assert await reason("/etc/passwd") == "OUTSIDE_WORKSPACE"
        assert await reason("secret") == "DENIED_BY_RULE"
        assert await reason(".") == "IS_FOLDER"
        assert await reason("pipe") == "NOT_A_FILE"
        with pytest.raises(RpcError, match="NOT_A_FOLDER"):
            _ = [one async for one in files.list("opencode.json")]
        with pytest.raises(RpcError, match="NOT_FOUND"):
            await files.stat("nowhere")
        with pytest.raises(RpcError, match="NOT_FOUND"):
            await client.files(workspace="nowhere").stat()


@pytest.mark.permit(edit="allow")
async def test_files_are_written_moved_and_deleted(server: Server) -> None:
    async with AsyncClient(server.target, session="ses_f") as client:
        files = client.files()
        written = await files.write("notes/a.txt", "hello\n", mode=0o600, call_id="w")
        assert written.call_id == "w"
        assert written.info is not None
        assert (written.info.path, written.info.size, written.info.mode) == ("notes/a.txt", 6, 0o600)
        assert written.info.sha256 == HELLO
        call = await client.get("w")
        assert (call.tool, call.session) == ("files", "ses_f")
        made = await files.create_folder("notes/sub")
        assert made.info is not None
        assert made.info.kind is FileKind.FOLDER
        await files.move("notes/a.txt", "notes/sub/b.txt", if_sha256=HELLO)
        assert (server.work / "notes/sub/b.txt").read_text() == "hello\n"
        deleted = await files.delete("notes", recursive=True)
        assert not (server.work / "notes").exists()
        assert (await client.revert(deleted)).ok
        assert (server.work / "notes/sub/b.txt").read_text() == "hello\n"
        # The id says that it is the same change: there is nothing to move any more, and nothing is moved.
        call_id = await files.move("notes/sub/b.txt", "c.txt", call_id="m")
        assert await files.move("notes/sub/b.txt", "c.txt", call_id="m") == call_id == "m"


@pytest.mark.permit(edit={"*": "allow", "secret": "deny", "asked": "ask"})
async def test_what_cannot_be_changed_says_why(server: Server) -> None:
    (server.work / "a.txt").write_text("hello\n")
    (server.work / "folder").mkdir()
    async with AsyncClient(server.target) as client:
        files = client.files()
        with pytest.raises(RpcError) as caught:
            await files.write("a.txt", "x", if_sha256="0" * 64, call_id="w")
        assert (caught.value.reason, caught.value.metadata["call_id"]) == ("CONTENT_DIFFERS", "w")
        with pytest.raises(RpcError, match="ALREADY_THERE"):
            await files.write("a.txt", "x", if_absent=True)
        with pytest.raises(RpcError, match="DENIED_BY_RULE"):
            await files.write("secret", "x")
        with pytest.raises(RpcError, match="PERMISSION_NEEDED"):
            await files.write("asked", "x")
        with pytest.raises(RpcError, match="CALL_ID_TAKEN"):
            await files.write("a.txt", "other", call_id="w")
        with pytest.raises(RpcError, match="INVALID_FIELD"):
            await files.write("a.txt", "x", if_sha256="no digest")
        with pytest.raises(RpcError, match="OUTSIDE_WORKSPACE"):
            await files.create_folder("../x")
        with pytest.raises(RpcError, match="ALREADY_THERE"):
            await files.move("a.txt", "folder")
        with pytest.raises(RpcError, match="IS_FOLDER"):
            await files.delete("folder")
        with pytest.raises(RpcError, match="WORKSPACE_FOLDER"):
            await files.delete(".", recursive=True)
        with pytest.raises(RpcError) as caught:
            await files.write("large", bytes(33 << 20))
        assert caught.value.code is grpc.StatusCode.OUT_OF_RANGE
        assert (server.work / "a.txt").read_text() == "hello\n"


@pytest.mark.permit(edit="ask")
async def test_a_person_decides_about_a_change(server: Server) -> None:
    def decide(prompt: object) -> object:
        assert isinstance(prompt, PermissionPrompt)
        return once() if prompt.permission.patterns == ["a.txt"] else reject()

    async with AsyncClient(server.target) as client, client.approvals(decide):  # type: ignore[arg-type]
        await client.files().write("a.txt", "hello\n")
        assert (server.work / "a.txt").exists()
        with pytest.raises(RpcError, match="REJECTED"):
            await client.files().write("b.txt", "hello\n")
    async with AsyncClient(server.target) as client:
        with pytest.raises(RpcError, match="PERMISSION_NEEDED"):
            await client.files(unattended="wait", wait_timeout=0.2).write("c.txt", "hello\n")
        assert [one.name for one in server.work.iterdir() if one.suffix == ".txt"] == ["a.txt"]


class Trickle(io.RawIOBase):
    """A file that can be read only once."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self._content = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        return self._content.readinto(buffer)


@pytest.mark.permit(edit="allow")
async def test_files_are_uploaded(server: Server, tmp_path: Path) -> None:
    content = os.urandom(700_000)
    (tmp_path / "local").write_bytes(content)
    # With a token, each request goes through what shows it.
    async with AsyncClient(server.target, token="t") as client:  # noqa: S106
        files = client.files()
        written = await files.upload("a.bin", tmp_path / "local", if_absent=True)
        assert (server.work / "a.bin").read_bytes() == content
        assert written.info is not None
        assert written.info.sha256 == hashlib.sha256(content).hexdigest()
        source = io.BytesIO(content)
        source.seek(699_990)
        await files.upload("b.bin", source, mode=0o640)
        assert (server.work / "b.bin").read_bytes() == content[-10:]
        assert (server.work / "b.bin").stat().st_mode & 0o777 == 0o640
        await files.upload("c.bin", Trickle(content))  # type: ignore[arg-type]
        assert (server.work / "c.bin").read_bytes() == content
        await files.upload("empty", io.BytesIO())
        assert (server.work / "empty").read_bytes() == b""
        with pytest.raises(RpcError, match="ALREADY_THERE"):
            await files.upload("a.bin", tmp_path / "local", if_absent=True)
        with pytest.raises(RpcError, match="FILE_TOO_LARGE"):
            await files.upload("large", io.BytesIO(bytes((64 << 20) + 1)))
        with pytest.raises(FileNotFoundError):
            await files.upload("x", tmp_path / "nowhere")
        with pytest.raises(TypeError):
            await files.upload("x", io.StringIO("text"))  # type: ignore[arg-type]
        assert not (server.work / "x").exists()


@pytest.mark.permit(edit="allow")
async def test_folders_are_carried_as_archives(server: Server, tmp_path: Path) -> None:
    (server.work / "from" / "sub").mkdir(parents=True)
    (server.work / "from" / "sub" / "a.txt").write_text("hello\n")
    (server.work / "from" / ".env").write_text("secret")
    async with AsyncClient(server.target) as client:
        files = client.files()
        saved = await files.download_archive("from", tmp_path / "a.tar")
        assert saved.omitted == ["from/.env"]
        with pytest.raises(RpcError, match="PERMISSION_NEEDED"):
            await files.read("from/.env")
        with tarfile.open(tmp_path / "a.tar") as archive:
            assert [one.rstrip("/") for one in archive.getnames()] == ["sub", "sub/a.txt"]
            assert saved.entries == 2
        held = io.BytesIO()
        await files.download_archive("from", held)
        assert held.getvalue() == (tmp_path / "a.tar").read_bytes()
        call_id = await files.upload_archive("to", tmp_path / "a.tar")
        assert (server.work / "to/sub/a.txt").read_text() == "hello\n"
        with pytest.raises(RpcError, match="ALREADY_THERE"):
            await files.upload_archive("to", tmp_path / "a.tar", if_absent=True)
        assert (await client.revert(call_id)).ok
        assert not (server.work / "to/sub/a.txt").exists()
        held.seek(0)
        await files.upload_archive("again", held)
        assert (server.work / "again/sub/a.txt").exists()
        with pytest.raises(RpcError, match="BAD_ARCHIVE"):
            await files.upload_archive("to", io.BytesIO(b"no archive" * 100))
        with pytest.raises(RpcError, match="NOT_A_FOLDER"):
            await files.download_archive("opencode.json", tmp_path / "b.tar")
        assert [one.name for one in tmp_path.iterdir()] == ["a.tar"]


def changed(events: list[FilesEvent]) -> set[str]:
    return {file.path for event in events if isinstance(event, FilesChanged) for file in event.files}


async def test_files_are_watched_over_a_lost_connection(server: Server) -> None:
    events: list[FilesEvent] = []
    async with Wire(server) as wire, AsyncClient(wire.target) as client:
        async with client.files().watch() as watch:
            assert watch.cursor
            assert not watch.partial
            (server.work / "a").touch()
            async for event in watch:
                events.append(event)
                if "a" in changed(events):
                    break
            wire.cut()
            (server.work / "b").touch()
            (server.work / "a").unlink()
            async for event in watch:
                events.append(event)
                gone = [path for one in events if isinstance(one, FilesChanged) for path in one.gone]
                if "b" in changed(events) and "a" in gone:
                    break
            assert wire.connections == 2
            # Giving up waiting loses nothing.
            with contextlib.suppress(asyncio.TimeoutError):
                while True:
                    await asyncio.wait_for(watch.__anext__(), 0.5)
            (server.work / "c").touch()
            async for event in watch:
                if "c" in changed([event]):
                    break
        (server.work / "d").touch()
        async with client.files().watch(cursor=watch.cursor) as later:
            async for event in later:
                assert isinstance(event, FilesChanged)
                if "d" in changed([event]):
                    assert event.cursor == later.cursor
                    break


async def test_what_cannot_be_watched_any_more_is_an_error_of_its_own(server: Server) -> None:
    async with AsyncClient(server.target) as client:
        async with client.files().watch() as watch:
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            with pytest.raises(CursorTooOldError) as caught:
                await watch.__anext__()
            assert caught.value.reason == "CURSOR_TOO_OLD"
        with pytest.raises(RpcError, match="NOT_FOUND"):
            await client.files().watch("nowhere").__anext__()
        with pytest.raises(RpcError, match="INVALID_FIELD"):
            await client.files().watch(cursor="no cursor").__anext__()


@pytest.mark.permit(edit="allow")
def test_a_plain_program_does_all_of_it(server: Server, tmp_path: Path) -> None:
    with Client(server.target) as client:
        files = client.files()
        with files.watch() as watch:
            written = files.write("a/b.txt", "hello\n")
            for event in watch:
                if "a/b.txt" in changed([event]):
                    break
            assert watch.cursor
            assert not watch.partial
        assert written.info is not None
        assert files.stat("a/b.txt", sha256=True).sha256 == written.info.sha256
        reading = files.read("a/b.txt")
        assert (reading.text(), reading.info.size) == ("hello\n", 6)
        assert files.read("a/b.txt", 1, 2).content() == b"el"
        assert b"".join(files.read("a/b.txt")) == b"hello\n"
        assert [one.path for one in files.list("a")] == ["a/b.txt"]
        assert files.download_archive("a", tmp_path / "a.tar").entries == 1
        assert files.upload_archive("c", tmp_path / "a.tar")
        assert files.create_folder("d").info is not None
        assert files.move("c/b.txt", "d/e.txt")
        assert files.upload("f", io.BytesIO(b"x")).info is not None
        assert files.delete("f", if_sha256=hashlib.sha256(b"x").hexdigest())
        assert (server.work / "d/e.txt").read_text() == "hello\n"
        with pytest.raises(RpcError, match="IS_FOLDER"):
            files.delete("d")
