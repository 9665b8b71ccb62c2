"""Following a call over streams that break."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from tests.fake import Context, Fake, break_off, event, executed, refuse, watched
from toolgate import AsyncClient, Client, GapEvent, RpcError
from toolgate.v1 import call_pb2, tool_service_pb2


def execute(*events: call_pb2.CallEvent, breaks: bool = False) -> Any:
    async def script(_request: Any, context: Context) -> AsyncIterator[Any]:
        for one in events:
            yield executed(one)
        if breaks:
            await break_off(context)

    return script


def watch(*events: call_pb2.CallEvent, breaks: bool = False) -> Any:
    async def script(_request: Any, context: Context) -> AsyncIterator[Any]:
        for one in events:
            yield watched(one)
        if breaks:
            await break_off(context)

    return script


async def hang(_request: Any, _context: Context) -> AsyncIterator[Any]:
    yield executed(event(1, "pending"))
    await asyncio.Event().wait()


async def sequences(client: AsyncClient) -> list[int]:
    return [one.sequence async for one in client.execute("bash", {"command": "ls"}, call_id="c")]


async def test_a_broken_stream_is_taken_up_after_the_last_event() -> None:
    ended = [event(4, "output"), event(5, "completed", output="done")]
    async with (
        Fake(
            ExecuteTool=[execute(event(1, "pending"), event(2, "running"), breaks=True)],
            WatchCall=[watch(event(3), breaks=True), watch(breaks=True), watch(*ended)],
        ) as fake,
        AsyncClient(fake.target) as client,
    ):
        assert await sequences(client) == [1, 2, 3, 4, 5]
        assert [one.after_sequence for one in fake.named("WatchCall")] == [2, 3, 3]
        request = fake.named("ExecuteTool")[0]
        assert request.on_disconnect == call_pb2.ON_DISCONNECT_KEEP
        assert request.input_json == '{"command": "ls"}'


async def test_what_was_not_admitted_is_sent_again_as_it_was() -> None:
    async with (
        Fake(ExecuteTool=[execute(breaks=True), execute(), execute(event(1, "failed", error="no"))]) as fake,
        AsyncClient(fake.target) as client,
    ):
        result = await client.execute("bash", "{not json")
        assert (result.ok, result.error) == (False, "no")
        first, *others = fake.named("ExecuteTool")
        assert others == [first, first]
        assert first.input_json == "{not json"


async def test_a_call_whose_record_is_gone_does_not_run_again() -> None:
    async def unknown(_request: Any, context: Context) -> AsyncIterator[Any]:
        await refuse(context, grpc.StatusCode.NOT_FOUND, "there is no call c", "NOT_FOUND")
        yield None

    async with (
        Fake(ExecuteTool=[execute(event(1, "pending"), breaks=True)], WatchCall=[unknown]) as fake,
        AsyncClient(fake.target) as client,
    ):
        with pytest.raises(RpcError, match="there is no call c"):
            await sequences(client)
        assert len(fake.named("ExecuteTool")) == 1


async def test_events_come_once_and_without_holes() -> None:
    gap = event(5, "gap", first_sequence=3, last_sequence=5)
    async with (
        Fake(
            ExecuteTool=[execute(event(1, "pending"), event(0, "heartbeat"), event(1, "pending"), event(3))],
            WatchCall=[watch(event(2), gap, event(4), event(6, "completed"))],
        ) as fake,
        AsyncClient(fake.target) as client,
    ):
        events = [one async for one in client.execute("bash", call_id="c")]
        assert [one.sequence for one in events] == [1, 2, 5, 6]
        assert isinstance(events[2], GapEvent)
        assert [one.after_sequence for one in fake.named("WatchCall")] == [1]


async def test_an_event_that_never_comes_is_an_error() -> None:
    async with (
        Fake(ExecuteTool=[execute(event(1, "pending"), event(3))], WatchCall=[watch(event(3))]) as fake,
        AsyncClient(fake.target) as client,
    ):
        with pytest.raises(RpcError, match="event 2 of call c is missing"):
            await sequences(client)


async def test_a_silent_stream_counts_as_lost() -> None:
    async with (
        Fake(ExecuteTool=[hang], WatchCall=[watch(event(2, "completed"))]) as fake,
        AsyncClient(fake.target, stall_timeout=1.5) as client,
    ):
        assert await sequences(client) == [1, 2]


async def test_a_slow_reader_is_not_a_silent_server() -> None:
    async with (
        Fake(ExecuteTool=[execute(event(1, "pending"), event(2, "completed"))]) as fake,
        AsyncClient(fake.target, stall_timeout=1) as client,
    ):
        seen = []
        async for one in client.execute("bash"):
            await asyncio.sleep(1.5)
            seen.append(one.sequence)
        assert seen == [1, 2]


async def test_patience_ends() -> None:
    async with (
        Fake(ExecuteTool=[execute(event(1, "pending"), breaks=True)], WatchCall=[watch(breaks=True)]) as fake,
        AsyncClient(fake.target, reconnect_timeout=0.3) as client,
    ):
        with pytest.raises(RpcError, match="connection reset"):
            await sequences(client)


async def test_a_server_that_never_answered_is_given_up_soon() -> None:
    async with AsyncClient("http://127.0.0.1:1", connect_timeout=0.2) as client:
        with pytest.raises(RpcError, match="is `toolgate serve` running there") as caught:
            await client.execute("bash")
        assert caught.value.code is grpc.StatusCode.UNAVAILABLE


async def test_a_refusal_is_not_tried_again() -> None:
    async def refused(_request: Any, context: Context) -> AsyncIterator[Any]:
        await refuse(context, grpc.StatusCode.PERMISSION_DENIED, "no", "SCOPE_MISSING")
        yield None

    async with Fake(ExecuteTool=[refused], CancelCall=[cancelled]) as fake:
        async with AsyncClient(fake.target) as client:
            with pytest.raises(RpcError) as caught:
                await client.execute("bash")
        assert (caught.value.reason, caught.value.metadata) == ("SCOPE_MISSING", {"scope": "calls.read"})
        assert len(fake.requests) == 1


async def test_what_the_server_wants_to_be_asked_later_is_asked_later() -> None:
    async def busy(_request: Any, context: Context) -> AsyncIterator[Any]:
        await refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "too many", "TOO_MANY_CALLS", retry=0.1)
        yield None

    async with (
        Fake(ExecuteTool=[busy, execute(event(1, "completed", output="x"))]) as fake,
        AsyncClient(fake.target) as client,
    ):
        begin = asyncio.get_running_loop().time()
        assert (await client.run("bash")).output == "x"
        assert asyncio.get_running_loop().time() - begin >= 0.1


async def cancelled(_request: Any, _context: Context) -> tool_service_pb2.CancelCallResponse:
    return tool_service_pb2.CancelCallResponse(call=call_pb2.Call(call_id="c"))


@pytest.mark.parametrize("way", ["task", "with", "forgotten", "close"])
async def test_leaving_cancels_the_call(way: str) -> None:
    async with Fake(ExecuteTool=[hang], CancelCall=[cancelled]) as fake, AsyncClient(fake.target) as client:
        await leave(client, way, "cancel")
        if way == "forgotten":
            await client.close()
        assert [one.call_id for one in fake.named("CancelCall")] == ["c"]


@pytest.mark.parametrize("way", ["task", "with", "forgotten", "close"])
async def test_leaving_does_not_touch_a_call_that_is_kept(way: str) -> None:
    async with Fake(ExecuteTool=[hang], CancelCall=[cancelled]) as fake, AsyncClient(fake.target) as client:
        await leave(client, way, "keep")
        await client.close()
        assert not fake.named("CancelCall")


async def leave(client: AsyncClient, way: str, on_disconnect: Any) -> None:
    execution = client.execute("bash", call_id="c", on_disconnect=on_disconnect)
    if way == "task":
        begun = asyncio.Event()

        async def iterate() -> None:
            async for _ in execution:
                begun.set()

        task = asyncio.create_task(iterate())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    elif way == "with":
        async with execution:
            await execution.__anext__()
    elif way == "forgotten":
        await execution.__anext__()
        del execution
        await asyncio.sleep(0)
    else:
        await execution.__anext__()
        await client.close()


async def test_a_call_that_never_began_is_not_started_by_its_cancellation() -> None:
    async with Fake(ExecuteTool=[hang]) as fake, AsyncClient(fake.target) as client:
        execution = client.execute("bash")
        assert await execution.cancel() is None
        with pytest.raises(RpcError, match="before it was started"):
            await execution
        assert not fake.requests


async def test_the_service_itself_cancels_if_that_is_wanted() -> None:
    async with (
        Fake(ExecuteTool=[execute(event(1, "completed"))]) as fake,
        AsyncClient(fake.target) as client,
    ):
        await client.run("bash", on_disconnect="cancel_when_lost")
        assert fake.named("ExecuteTool")[0].on_disconnect == call_pb2.ON_DISCONNECT_CANCEL


async def test_plain_programs_see_the_same() -> None:
    def program(target: str) -> list[int]:
        with Client(target) as client:
            return [one.sequence for one in client.execute("bash")]

    async with Fake(
        ExecuteTool=[execute(event(1, "pending"), breaks=True)], WatchCall=[watch(event(2, "completed"))]
    ) as fake:
        assert await asyncio.to_thread(program, fake.target) == [1, 2]
