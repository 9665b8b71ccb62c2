"""Commands in the background and their terminals."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from tests.conftest import Server
from tests.fake import Context, Fake, break_off
from toolgate import AsyncClient, Client, FailureReason, RpcError, Signal
from toolgate.v1 import terminal_pb2


async def background(client: AsyncClient, command: str, **terminal: int) -> str:
    """Starts a command in the background and returns its call."""
    given: dict[str, Any] = {"command": command, "description": "Works", "background": True}
    if terminal:
        given["terminal"] = terminal
    children = [one.child_id async for one in client.execute("bash", given) if one.kind == "child"]
    return children[0]


async def until_output(client: AsyncClient, call_id: str, text: str, after: int = 0) -> None:
    seen = ""
    async for event in client.watch(call_id, after=after):
        if event.kind == "output":
            seen += event.text
            if text in seen:
                return
    pytest.fail(f"{text!r} is not in {seen!r}")


@pytest.mark.permit(bash="allow")
async def test_a_terminal_is_shown_typed_to_and_resized(server: Server) -> None:
    async with AsyncClient(server.target, session="ses_t") as client:
        call_id = await background(client, "cat", columns=40, rows=5)
        terminal = client.terminal(call_id)
        await terminal.send_input("hello\r")
        await until_output(client, call_id, "hello\r\nhello")
        picture = await terminal.picture()
        assert (picture.columns, picture.rows) == (40, 5)
        assert picture.contents.count(b"hello") == 2
        assert (picture.cursor_column, picture.cursor_row, picture.cursor_visible) == (0, 2, True)
        assert picture.output_offset == len("hello\r\nhello\r\n")
        await terminal.resize(100, 30)
        assert (await terminal.picture()).columns == 100
        await terminal.send_input("later\r")
        await until_output(client, call_id, "later", after=picture.last_sequence)
        assert (await terminal.send_input(close=True)).closed
        assert (await client.watch(call_id)).ok
        for request in (terminal.picture(), terminal.resize(10, 10), terminal.signal(Signal.INT)):
            with pytest.raises(RpcError, match="CALL_ENDED"):
                await request


@pytest.mark.permit(bash="allow")
async def test_signals_reach_the_program(server: Server) -> None:
    async with AsyncClient(server.target, session="ses_t") as client:
        call_id = await background(client, "trap 'echo got it' USR1; echo ready; while :; do sleep 0.05; done")
        terminal = client.terminal(call_id)
        await until_output(client, call_id, "ready")
        await terminal.signal(Signal.USR1)
        await until_output(client, call_id, "got it")
        with pytest.raises(RpcError, match="NO_TERMINAL"):
            await terminal.picture()
        with pytest.raises(RpcError, match="NO_TERMINAL"):
            await terminal.resize(10, 10)
        await terminal.signal(Signal.TERM)
        result = await client.watch(call_id)
        assert result.exit_code != 0


@pytest.mark.permit(bash="allow")
async def test_what_is_no_terminal_or_no_size_says_why(server: Server) -> None:
    async with AsyncClient(server.target, session="ses_t") as client:
        with pytest.raises(RpcError, match="NOT_FOUND"):
            await client.terminal("nowhere").picture()
        terminal = client.terminal(await background(client, "cat", columns=40, rows=5))
        with pytest.raises(RpcError, match="INVALID_FIELD"):
            await terminal.resize(0, 5)
        await client.cancel(terminal.call_id)


@pytest.mark.permit(bash="allow")
def test_a_plain_program_has_terminals(server: Server) -> None:
    with Client(server.target, session="ses_t") as client:
        given = {
            "command": "cat",
            "description": "Copies",
            "background": True,
            "terminal": {"columns": 40, "rows": 5},
        }
        [call_id] = [one.child_id for one in client.execute("bash", given) if one.kind == "child"]
        terminal = client.terminal(call_id)
        assert terminal.call_id == call_id
        terminal.resize(20, 4)
        assert terminal.picture().columns == 20
        assert terminal.send_input("x\r").next_offset == 2
        terminal.signal(Signal.INT)
        result = client.watch(call_id).result()
        assert result.exit_code != 0 or result.reason is FailureReason.TOOL_ERROR


async def test_a_signal_is_not_sent_twice() -> None:
    async def lost(_request: Any, context: Context) -> None:
        await asyncio.sleep(0)
        await break_off(context)

    async def resized(_request: Any, _context: Context) -> terminal_pb2.ResizeTerminalResponse:
        return terminal_pb2.ResizeTerminalResponse()

    async with Fake(SignalCall=[lost], ResizeTerminal=[lost, resized]) as fake, AsyncClient(fake.target) as client:
        with pytest.raises(RpcError) as caught:
            await client.terminal("c").signal(Signal.INT)
        assert caught.value.code is grpc.StatusCode.UNAVAILABLE
        assert len(fake.named("SignalCall")) == 1
        await client.terminal("c").resize(10, 10)
        assert len(fake.named("ResizeTerminal")) == 2
