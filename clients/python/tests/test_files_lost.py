"""The files of a workspace, over connections that are lost."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import IO, Any

import pytest

from tests.conftest import Server, Wire
from tests.fake import Context, Fake, break_off
from toolgate import AsyncClient, Call, CallState, Decision, FailureReason, Prompt, RpcError, once
from toolgate.v1 import file_service_pb2


async def lost(_request: Any, context: Context) -> None:
    await break_off(context)


async def test_a_change_is_repeated_as_the_same_call() -> None:
    async def written(request: Any, _context: Context) -> file_service_pb2.WriteFileResponse:
        return file_service_pb2.WriteFileResponse(call_id=request.call.call_id)

    async with Fake(WriteFile=[lost, lost, written]) as fake, AsyncClient(fake.target) as client:
        result = await client.files(agent="plan").write("a", "x")
        first, *others = fake.named("WriteFile")
        assert others == [first, first]
        assert (first.call.context.agent, first.call.call_id) == ("plan", result.call_id)
        assert result.info is None


@pytest.mark.permit(edit="allow")
async def test_a_change_whose_answer_is_lost_is_made_once(server: Server) -> None:
    (server.work / "a").touch()
    async with Wire(server) as wire, AsyncClient(wire.target) as client:
        await client.files().stat("a")
        wire.is_deaf = True
        moving = asyncio.create_task(client.files().move("a", "b"))
        call = await ended(server)
        wire.is_deaf = False
        wire.cut()
        assert await moving == call.id
        assert wire.connections == 2
        assert [one.id async for one in client.calls()] == [call.id]
        assert (server.work / "b").exists()


async def ended(server: Server) -> Call:
    """Returns the first call that has completed."""
    async with AsyncClient(server.target) as client:
        while True:
            async for call in client.calls(states=[CallState.COMPLETED]):
                return call
            await asyncio.sleep(0.02)


@pytest.mark.permit(edit="ask")
async def test_a_change_that_waits_for_a_person_outlives_the_connection(server: Server) -> None:
    asked, lost = asyncio.Event(), asyncio.Event()

    async def late(_prompt: Prompt) -> Decision:
        asked.set()
        await lost.wait()
        return once()

    async with (
        Wire(server) as wire,
        AsyncClient(wire.target) as client,
        AsyncClient(server.target) as other,
        other.approvals(late, everybody=True),
    ):
        writing = asyncio.create_task(client.files().write("a.txt", "x"))
        await asked.wait()
        wire.cut()
        lost.set()
        change = await writing
        assert [one.id async for one in client.calls()] == [change.call_id]
        assert (server.work / "a.txt").read_text() == "x"


@pytest.mark.permit(edit="ask")
async def test_a_change_that_is_left_is_cancelled(server: Server) -> None:
    asked = asyncio.Event()
    gone = asyncio.Event()

    async def never(_prompt: Prompt) -> None:
        asked.set()
        await asyncio.Event().wait()

    async with (
        AsyncClient(server.target) as client,
        client.approvals(never, on_gone=lambda _: gone.set()),
    ):
        writing = asyncio.create_task(client.files().write("a.txt", "x", call_id="w"))
        await asked.wait()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        await gone.wait()
        result = await client.watch("w")
        assert result.reason is FailureReason.CANCELLED


async def test_an_upload_is_repeated_from_its_beginning() -> None:
    received: list[bytes] = []

    async def cut(requests: AsyncIterator[Any], context: Context) -> None:
        await requests.__anext__()
        await requests.__anext__()
        await break_off(context)

    async def uploaded(requests: AsyncIterator[Any], _context: Context) -> file_service_pb2.UploadFileResponse:
        first = await requests.__anext__()
        received.extend([one.content async for one in requests])
        return file_service_pb2.UploadFileResponse(call_id=first.call.call_id)

    source = io.BytesIO(b"-" + b"0123456789" * 100_000)
    source.seek(1)
    async with Fake(UploadFile=[cut, uploaded]) as fake, AsyncClient(fake.target) as client:
        assert (await client.files().upload("a", source, call_id="u")).call_id == "u"
        assert len(received) > 1
        assert b"".join(received) == b"0123456789" * 100_000


class Torn(io.BytesIO):
    """A file that cannot be read to its end."""

    def read(self, _size: int | None = -1) -> bytes:
        raise OSError("the disk is gone")


async def test_what_cannot_be_read_is_not_uploaded() -> None:
    async def uploaded(requests: AsyncIterator[Any], _context: Context) -> file_service_pb2.UploadFileResponse:
        _ = [one async for one in requests]
        return file_service_pb2.UploadFileResponse()

    async with Fake(UploadFile=[uploaded]) as fake, AsyncClient(fake.target) as client:
        with pytest.raises(OSError, match="the disk is gone"):
            await client.files().upload("a", Torn())


def reading(size: int, *, breaks: bool) -> Any:
    async def script(request: Any, context: Context) -> AsyncIterator[Any]:
        offset, end = request.range.offset, request.range.offset + request.range.limit
        yield file_service_pb2.ReadFileResponse(file=file_service_pb2.FileInfo(path="a", size_bytes=size))
        for start in range(offset, min(end, 10) if request.range.limit else 10, 4):
            yield file_service_pb2.ReadFileResponse(offset=start, data=b"0123456789"[start : min(start + 4, end or 10)])
            if breaks:
                await break_off(context)

    return script


async def test_a_file_is_read_on_from_where_it_was() -> None:
    async with Fake(ReadFile=[reading(10, breaks=True)]) as fake, AsyncClient(fake.target) as client:
        assert await client.files().read("a", 1, 6) == b"123456"
        assert [(one.range.offset, one.range.limit) for one in fake.named("ReadFile")] == [(1, 6), (5, 2)]


async def test_a_file_that_has_changed_meanwhile_is_not_read_on() -> None:
    scripts = [reading(10, breaks=True), reading(11, breaks=False)]
    async with Fake(ReadFile=scripts) as fake, AsyncClient(fake.target) as client:
        file = client.files().read("a")
        with pytest.raises(RpcError, match="FILE_CHANGED"):
            await file
        assert await file.content() == b"0123456789"
        assert file.info.size == 11


def archive(*pieces: bytes, whole: bool) -> Any:
    async def script(_request: Any, context: Context) -> AsyncIterator[Any]:
        for piece in pieces:
            yield file_service_pb2.DownloadArchiveResponse(data=piece)
        if whole:
            yield file_service_pb2.DownloadArchiveResponse(end=file_service_pb2.ArchiveEnd(entries=1))
        elif len(pieces) > 1:
            await break_off(context)

    return script


@pytest.mark.parametrize("is_open", [False, True])
async def test_an_archive_begins_anew_and_is_there_whole(tmp_path: Path, is_open: bool) -> None:
    scripts = [archive(b"12345", b"6", whole=False), archive(b"1", whole=False), archive(b"ab", b"c", whole=True)]
    path = tmp_path / "a.tar"
    async with Fake(DownloadArchive=scripts) as fake, AsyncClient(fake.target) as client:
        if is_open:
            file: IO[bytes]
            with path.open("wb") as file:
                file.write(b"-")
                await client.files().download_archive("", file)
        else:
            await client.files().download_archive("", path)
        assert path.read_bytes() == (b"-abc" if is_open else b"abc")
        assert list(tmp_path.iterdir()) == [path]


async def test_an_archive_that_does_not_come_leaves_nothing(tmp_path: Path) -> None:
    scripts = [archive(b"12345", b"6", whole=False)]
    async with (
        Fake(DownloadArchive=scripts) as fake,
        AsyncClient(fake.target, reconnect_timeout=0.2) as client,
    ):
        with pytest.raises(RpcError, match="connection reset"):
            await client.files().download_archive("", tmp_path / "a.tar")
        held = io.BytesIO(b"before")
        with pytest.raises(RpcError, match="connection reset"):
            await client.files().download_archive("", held)
        assert held.getvalue() == b"before"
        assert list(tmp_path.iterdir()) == []
