"""What programs of calls listen on, and connections to it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from tests.conftest import Server
from toolgate import AsyncClient, Client, ListeningEvent, ListeningPort, Prompt, RpcError, reject

# Answers each connection, when its client has said all, with what was said in capitals.
SHOUT = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
while True:
    connection, _ = listener.accept()
    said = b""
    while piece := connection.recv(65536):
        said += piece
    connection.sendall(said.upper())
    connection.close()
"""
INPUT = {"command": "exec python3 shout.py", "description": "Shouts", "background": True}


@contextlib.asynccontextmanager
async def listening(server: Server, client: AsyncClient) -> AsyncIterator[tuple[str, ListeningPort]]:
    """Runs a program that listens, as a call and on a port."""
    (server.work / "shout.py").write_text(SHOUT)
    [call_id] = [one.child_id async for one in client.execute("bash", INPUT) if one.kind == "child"]
    try:
        async for event in client.watch(call_id):
            if event.kind == "listening":
                yield call_id, event.ports[0]
                return
        pytest.fail("the program does not listen")
    finally:
        await client.cancel(call_id)


@pytest.mark.permit(bash="allow", port="allow")
async def test_a_port_is_opened_and_connected_to(server: Server) -> None:
    async with (
        AsyncClient(server.target) as client,
        client.events() as events,
        listening(server, client) as (call_id, port),
    ):
        assert port.address == "127.0.0.1"
        assert "shout.py" in port.command
        assert (await client.get(call_id)).listening == [port]
        async for event in events:
            if event.kind == "listening_changed":
                assert event.raw.listening_changed.call_id == call_id
                break
        opened = await client.open_port(call_id, port.port, port_call_id="p")
        assert opened.call_id == "p"
        assert opened.http_path.startswith("/ports/")
        async with await opened.connect() as connection:
            said = b"hello " * 100_000
            await connection.write(said)
            await connection.write_eof()
            heard = b""
            while piece := await connection.read():
                heard += piece
            assert heard == said.upper()
            assert await connection.read() == b""
        assert (await client.get("p")).tool == "port"
        # The id says that it is the same port.
        assert (await client.open_port(call_id, port.port, port_call_id="p")).http_path == opened.http_path
        await opened.close()
        with pytest.raises(RpcError, match="PORT_CLOSED"):
            await opened.connect()


@pytest.mark.permit(bash="allow", port="allow")
async def test_a_port_is_closed_with_its_connections(server: Server) -> None:
    async with AsyncClient(server.target) as client, listening(server, client) as (call_id, port):
        async with await client.open_port(call_id, port.port) as opened:
            connection = await opened.connect()
            await connection.write(b"x")
            reading = asyncio.create_task(connection.read())
        with pytest.raises(RpcError, match="PORT_CLOSED"):
            await reading


@pytest.mark.permit(bash="allow", port="allow")
async def test_a_program_that_ends_listens_no_more(server: Server) -> None:
    async with AsyncClient(server.target) as client, listening(server, client) as (call_id, port):
        await client.cancel(call_id)
        events = [one async for one in client.watch(call_id) if isinstance(one, ListeningEvent)]
        assert events[0].ports == [port]
        with pytest.raises(RpcError, match="NOT_LISTENING"):
            await client.open_port(call_id, port.port)


@pytest.mark.permit(bash="allow", port="deny")
async def test_a_rule_denies_a_port(server: Server) -> None:
    async with AsyncClient(server.target) as client, listening(server, client) as (call_id, port):
        with pytest.raises(RpcError, match="DENIED_BY_RULE"):
            await client.open_port(call_id, port.port)


@pytest.mark.permit(bash="allow", port="ask")
async def test_what_cannot_be_opened_says_why(server: Server) -> None:
    async with AsyncClient(server.target) as client, listening(server, client) as (call_id, port):
        with pytest.raises(RpcError, match="PERMISSION_NEEDED"):
            await client.open_port(call_id, port.port)
        with pytest.raises(RpcError, match="PERMISSION_NEEDED"):
            await client.open_port(call_id, port.port, unattended="wait", wait_timeout=0.2)

        async def refuse(_prompt: Prompt) -> object:
            return reject()

        async with client.approvals(refuse):  # type: ignore[arg-type]
            with pytest.raises(RpcError, match="REJECTED"):
                await client.open_port(call_id, port.port)
        with socket.create_server(("127.0.0.1", 0)) as foreign, pytest.raises(RpcError, match="NOT_LISTENING"):
            await client.open_port(call_id, foreign.getsockname()[1])
        with pytest.raises(RpcError, match="INVALID_FIELD"):
            await client.open_port(call_id, 0)
        with pytest.raises(RpcError, match="NOT_FOUND"):
            await client.open_port("nowhere", port.port)


@pytest.mark.permit(bash="allow", port="allow")
def test_a_plain_program_connects(server: Server) -> None:
    (server.work / "shout.py").write_text(SHOUT)
    with Client(server.target) as client:
        [call_id] = [one.child_id for one in client.execute("bash", INPUT) if one.kind == "child"]
        ports = next(one.ports for one in client.watch(call_id) if one.kind == "listening")
        with client.open_port(call_id, ports[0].port) as port:
            assert port.http_path.startswith("/ports/")
            with port.connect() as connection:
                connection.sendall(b"hello")
                with pytest.raises(ValueError, match="only the sending side"):
                    connection.shutdown(socket.SHUT_RD)
                connection.shutdown()
                heard = b"".join(iter(lambda: connection.recv(2), b""))
                assert heard == b"HELLO"
        with pytest.raises(RpcError, match="PORT_CLOSED"):
            port.connect()
        client.cancel(call_id)
