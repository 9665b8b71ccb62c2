"""Ports and their connections, where servers and networks misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from tests.fake import Context, Fake, break_off, refuse
from toolgate import AsyncClient, RpcError
from toolgate.v1 import port_service_pb2


async def opened(request: Any, _context: Context) -> port_service_pb2.OpenPortResponse:
    return port_service_pb2.OpenPortResponse(call_id=request.call.call_id, http_path="/ports/x/")


async def echo(requests: AsyncIterator[Any], _context: Context) -> AsyncIterator[Any]:
    yield port_service_pb2.ConnectPortResponse()
    async for request in requests:
        yield port_service_pb2.ConnectPortResponse(data=request.data)


async def test_a_port_is_opened_again_as_the_same_call() -> None:
    async def lost(_request: Any, context: Context) -> None:
        await break_off(context)

    async with Fake(OpenPort=[lost, opened]) as fake, AsyncClient(fake.target) as client:
        port = await client.open_port("c", 80, unattended="wait", wait_timeout=1.5)
        first, second = fake.named("OpenPort")
        assert first == second
        assert (first.call_id, first.port, first.call.call_id) == ("c", 80, port.call_id)
        assert first.call.wait_timeout.ToTimedelta().total_seconds() == 1.5


async def test_a_connection_is_made_as_soon_as_there_is_room() -> None:
    async def full(_requests: Any, context: Context) -> AsyncIterator[Any]:
        await refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "256 are open", "TOO_MANY_CONNECTIONS", retry=0.05)
        yield None

    async def closed(_requests: Any, context: Context) -> AsyncIterator[Any]:
        await refuse(context, grpc.StatusCode.FAILED_PRECONDITION, "it has ended", "PORT_CLOSED")
        yield None

    async with (
        Fake(OpenPort=[opened], ConnectPort=[full, echo, closed]) as fake,
        AsyncClient(fake.target) as client,
    ):
        port = await client.open_port("c", 80)
        async with await port.connect() as connection:
            await connection.write(b"x")
            assert await connection.read() == b"x"
        with pytest.raises(RpcError, match="PORT_CLOSED"):
            await port.connect()


async def test_a_connection_may_be_silent_and_is_not_made_again() -> None:
    go_on = asyncio.Event()

    async def broken(_requests: Any, context: Context) -> AsyncIterator[Any]:
        yield port_service_pb2.ConnectPortResponse()
        await go_on.wait()
        yield port_service_pb2.ConnectPortResponse(data=b"late")
        await refuse(context, grpc.StatusCode.ABORTED, "the program has broken it", "CONNECTION_LOST")

    async with (
        Fake(OpenPort=[opened], ConnectPort=[broken]) as fake,
        AsyncClient(fake.target, stall_timeout=0.1) as client,
    ):
        port = await client.open_port("c", 80)
        connection = await port.connect()
        # Giving up waiting loses nothing.
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(connection.read(), 0.3)
        go_on.set()
        assert await connection.read(3) == b"lat"
        assert await connection.read() == b"e"
        for _ in range(2):
            with pytest.raises(RpcError, match="the program has broken it"):
                await connection.read()
        with pytest.raises(RpcError, match="CONNECTION_LOST"):
            await connection.write(b"x")
        assert len(fake.named("ConnectPort")) == 1


async def test_writing_waits_for_the_program_and_ends_with_the_connection() -> None:
    given_up = asyncio.Event()

    async def deaf(_requests: Any, context: Context) -> AsyncIterator[Any]:
        yield port_service_pb2.ConnectPortResponse()
        await given_up.wait()
        await break_off(context)

    # With a token, each request goes through what shows it.
    async with Fake(OpenPort=[opened], ConnectPort=[deaf]) as fake, AsyncClient(fake.target, token="t") as client:  # noqa: S106
        connection = await (await client.open_port("c", 80)).connect()
        writing = asyncio.create_task(connection.write(bytes(64 << 20)))
        _, waiting = await asyncio.wait([writing], timeout=0.5)
        assert waiting
        given_up.set()
        with pytest.raises(RpcError, match="CONNECTION_LOST"):
            await asyncio.wait_for(writing, 10)
        await connection.write_eof()
        with pytest.raises(RuntimeError):
            await connection.write(b"x")
