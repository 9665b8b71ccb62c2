"""Addresses, errors, tokens, ids, forms: what needs no server, or only a fake one."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.fake import Context, Fake, break_off, refuse
from toolgate import (
    AsyncClient,
    CallState,
    FailureReason,
    FileKind,
    Model,
    PermissionAction,
    RpcError,
    Signal,
    ToolEffect,
    ToolSource,
)
from toolgate._ids import uuid7
from toolgate._json import from_struct, to_struct
from toolgate._target import Target
from toolgate.v1 import (
    call_pb2,
    file_service_pb2,
    output_service_pb2,
    prompt_pb2,
    session_service_pb2,
    terminal_pb2,
    tool_service_pb2,
)


@pytest.mark.parametrize(
    ("text", "address", "is_encrypted"),
    [
        ("unix:/run/toolgate.sock", "unix:/run/toolgate.sock", False),
        ("unix:///run/toolgate.sock", "unix:/run/toolgate.sock", False),
        ("http://127.0.0.1:1234", "127.0.0.1:1234", False),
        ("http://example.com/", "example.com:80", False),
        ("https://example.com", "example.com:443", True),
        ("https://[::1]:7", "[::1]:7", True),
        ("localhost:7", "localhost:7", False),
        ("127.0.0.1", "127.0.0.1:50551", False),
        ("[::1]:7", "[::1]:7", False),
        ("example.com:7", "example.com:7", True),
    ],
)
def test_addresses(text: str, address: str, is_encrypted: bool) -> None:
    assert Target.parse(text) == Target(address, is_encrypted)


@pytest.mark.parametrize("text", ["unix:", "http://", "ftp://x", "http://x:port", "http://x/path", ""])
def test_what_is_no_address_says_so(text: str) -> None:
    with pytest.raises(ValueError, match="is no server address"):
        Target.parse(text)


def test_ids_are_uuids_of_version_7_in_the_order_of_their_making() -> None:
    ids = [uuid.UUID(uuid7()) for _ in range(100)]
    assert {(one.version, one.variant) for one in ids} == {(7, uuid.RFC_4122)}
    assert len(set(ids)) == 100


def test_structs_are_objects() -> None:
    value = {"a": 1, "b": 2.5, "c": [None, True, {"d": "e"}]}
    assert from_struct(to_struct(value)) == value
    assert isinstance(from_struct(to_struct({"n": 3.0}))["n"], int)
    assert from_struct(to_struct({"path": Path("/x")})) == {"path": "/x"}


def test_enumerations_have_every_value_of_the_contract() -> None:
    def names(kind: Any, prefix: str) -> set[str]:
        return {one.removeprefix(prefix) for one, _ in kind.items()} - {"UNSPECIFIED"}

    assert names(call_pb2.CallState, "CALL_STATE_") | {"UNKNOWN"} == set(CallState.__members__)
    assert names(call_pb2.FailureReason, "FAILURE_REASON_") | {"UNKNOWN"} == set(FailureReason.__members__)
    assert names(call_pb2.ToolSource, "TOOL_SOURCE_") | {"UNKNOWN"} == set(ToolSource.__members__)
    assert names(call_pb2.ToolEffect, "TOOL_EFFECT_") == set(ToolEffect.__members__)
    assert names(prompt_pb2.PermissionAction, "PERMISSION_ACTION_") | {"UNKNOWN"} == set(PermissionAction.__members__)
    assert names(file_service_pb2.FileKind, "FILE_KIND_") | {"UNKNOWN"} == set(FileKind.__members__)
    assert names(terminal_pb2.Signal, "SIGNAL_") == set(Signal.__members__)


def definition(name: str) -> call_pb2.ToolDefinition:
    return call_pb2.ToolDefinition(name=name, description="d", input_schema_json='{"type": "object"}')


async def listed(request: Any, _context: Context) -> tool_service_pb2.ListToolsResponse:
    if not request.page_token:
        return tool_service_pb2.ListToolsResponse(tools=[definition("a")], next_page_token="2")  # noqa: S106
    return tool_service_pb2.ListToolsResponse(tools=[definition("b")])


async def test_tools_are_listed_to_the_last_page_and_for_the_provider_of_their_form() -> None:
    async with Fake(ListTools=[listed]) as fake, AsyncClient(fake.target, agent="plan") as client:
        assert [one.name for one in await client.tools()] == ["a", "b"]
        assert [one.agent for one in fake.named("ListTools")] == ["plan", "plan"]
        schema = {"type": "object"}
        openai = await client.tools().openai()
        assert openai[1] == {"type": "function", "function": {"name": "b", "description": "d", "parameters": schema}}
        responses = await client.tools().openai_responses()
        described = {"name": "b", "description": "d", "parameters": schema}
        assert responses[1] == {"type": "function", **described, "strict": False}
        anthropic = await client.tools().anthropic()
        assert anthropic[1] == {"name": "b", "description": "d", "input_schema": schema}
        gemini = await client.tools(model=Model("openrouter", "google/gemini")).gemini()
        declared = [{"name": one, "description": "d", "parameters": schema} for one in "ab"]
        assert gemini == [{"functionDeclarations": declared}]
        providers = [one.model.provider_id for one in fake.named("ListTools")]
        assert providers == ["", "", *["openai"] * 4, "anthropic", "anthropic", "openrouter", "openrouter"]


async def test_the_token_is_shown_with_each_request() -> None:
    tokens = iter(["one", "two\n", "three"])

    async def fresh() -> str:
        return next(tokens)

    async def ended(_request: Any, _context: Context) -> AsyncIterator[Any]:
        yield tool_service_pb2.ExecuteToolResponse(
            event=call_pb2.CallEvent(sequence=1, completed=call_pb2.CallCompleted())
        )

    async def channel(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
        await requests.__anext__()
        await refuse(context, grpc.StatusCode.PERMISSION_DENIED, "no", "SCOPE_MISSING")
        yield None

    async with (
        Fake(ListTools=[listed], ExecuteTool=[ended], Channel=[channel]) as fake,
        AsyncClient(fake.target, token=fresh) as client,
    ):
        await client.run("bash")
        with pytest.raises(RpcError):
            await client.approvals(lambda _: None).run()
        await client.rpc(lambda stubs: stubs.tools.ListTools(tool_service_pb2.ListToolsRequest()))
        assert [one["authorization"] for one in fake.metadata] == ["Bearer one", "Bearer two", "Bearer three"]


async def test_a_token_that_expired_is_renewed_once() -> None:
    tokens = iter(["old", "new", "old", "older"])

    async def checked(request: Any, context: Context) -> tool_service_pb2.ListToolsResponse:
        if ("authorization", "Bearer new") not in context.invocation_metadata():
            await refuse(context, grpc.StatusCode.UNAUTHENTICATED, "get a new one", "CREDENTIALS_EXPIRED")
        return await listed(request, context)

    async with Fake(ListTools=[checked]) as fake, AsyncClient(fake.target, token=lambda: next(tokens)) as client:
        await client.rpc(lambda stubs: stubs.tools.ListTools(tool_service_pb2.ListToolsRequest()), retry=True)
        with pytest.raises(RpcError, match="get a new one"):
            await client.tools()


async def test_plain_requests_are_tried_again_when_the_connection_is_lost() -> None:
    async def lost(_request: Any, context: Context) -> None:
        await break_off(context)

    async with Fake(ListTools=[lost, lost, listed]) as fake, AsyncClient(fake.target) as client:
        assert len(await client.tools()) == 2
        with pytest.raises(RpcError, match="the server is older than this library"):
            await client.rpc(lambda stubs: stubs.sessions.GetSession(session_service_pb2.GetSessionRequest()))


async def test_plain_requests_have_a_deadline() -> None:
    async def hang(_request: Any, _context: Context) -> None:
        await asyncio.Event().wait()

    async with Fake(ListTools=[hang]) as fake, AsyncClient(fake.target, timeout=0.2) as client:
        with pytest.raises(RpcError) as caught:
            await client.tools()
        assert caught.value.code is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_client_that_is_closed_says_so() -> None:
    client = AsyncClient("http://127.0.0.1:1")
    await client.close()
    with pytest.raises(RpcError, match="the client is closed"):
        await client.tools()
    with pytest.raises(RpcError, match="the client is closed"):
        await client.run("bash")


def test_a_program_that_leaves_its_clients_open_ends_without_complaints() -> None:
    program = """
from toolgate import Client, RpcError

for _ in range(3):
    client = Client("http://127.0.0.1:1", reconnect_timeout=0.5)
    try:
        client.run("bash")
    except RpcError:
        pass
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "Traceback" not in ended.stderr


class Stored:
    """An output whose streams break after each piece."""

    def __init__(self, content: bytes, sha256: str) -> None:
        self.content = content
        self.sha256 = sha256

    async def read(self, request: Any, context: Context) -> AsyncIterator[Any]:
        offset = request.bytes.offset
        end = offset + request.bytes.limit if request.bytes.limit else len(self.content)
        data = self.content[offset : min(offset + 4, end)]
        yield output_service_pb2.ReadOutputResponse(offset=offset, data=data)
        if offset + len(data) < min(end, len(self.content)):
            await break_off(context)

    async def get(self, _request: Any, _context: Context) -> output_service_pb2.GetOutputResponse:
        output = output_service_pb2.Output(total_bytes=len(self.content), complete=True, sha256=self.sha256)
        return output_service_pb2.GetOutputResponse(output=output)


DIGEST = "84d89877f0d4041efb6bf91a16f0248f2fd573e6af05c19f96bedb9f882f7882"


async def test_outputs_are_read_and_saved_whole_over_broken_streams(tmp_path: Path) -> None:
    stored = Stored(b"0123456789", DIGEST)
    seen = []
    async with (
        Fake(ReadOutput=[stored.read], GetOutput=[stored.get]) as fake,
        AsyncClient(fake.target) as client,
    ):
        output = client.output("o")
        assert await output.content() == b"0123456789"
        assert b"".join([piece async for piece in output.read(1, 6)]) == b"123456"
        path = tmp_path / "saved"
        assert await output.save(path, progress=lambda size, total: seen.append((size, total))) == 10
        assert path.read_bytes() == b"0123456789"
        assert seen == [(4, 10), (8, 10), (10, 10)]
        assert [one.name for one in tmp_path.iterdir()] == ["saved"]


async def test_what_is_not_what_was_stored_is_not_saved(tmp_path: Path) -> None:
    stored = Stored(b"9999999999", DIGEST)
    async with (
        Fake(ReadOutput=[stored.read], GetOutput=[stored.get]) as fake,
        AsyncClient(fake.target) as client,
    ):
        with pytest.raises(RpcError, match="was not saved"):
            await client.output("o").save(tmp_path / "saved")
        assert list(tmp_path.iterdir()) == []


async def test_input_is_sent_in_pieces_and_waits_for_the_program() -> None:
    received = bytearray()
    refusals = iter([True, False])

    async def send(request: Any, context: Context) -> tool_service_pb2.SendInputResponse:
        if request.data and next(refusals, False):
            await refuse(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "full", "INPUT_NOT_READ", retry=0.05)
        if request.data:
            received[request.offset :] = request.data
        return tool_service_pb2.SendInputResponse(next_offset=len(received), closed=request.close)

    async with Fake(SendInput=[send]) as fake, AsyncClient(fake.target) as client:
        await client.send_input("c", "first ")
        state = await client.send_input("c", b"x" * 600_000, close=True)
        assert (state.next_offset, state.closed) == (600_006, True)
        assert received == b"first " + b"x" * 600_000


async def test_inputs_are_written_as_json() -> None:
    async def ended(_request: Any, _context: Context) -> AsyncIterator[Any]:
        yield tool_service_pb2.ExecuteToolResponse(
            event=call_pb2.CallEvent(sequence=1, completed=call_pb2.CallCompleted())
        )

    async with Fake(ExecuteTool=[ended]) as fake, AsyncClient(fake.target, model="a/b/c") as client:
        await client.run("t", {"é": [1, 2.5, Path("/x")]}, timeout=1.5, extra={"k": 1})
        await client.run("t", "{")
        await client.run("t")
        first, second, third = fake.named("ExecuteTool")
        assert json.loads(first.input_json) == {"é": [1, 2.5, "/x"]}
        assert first.timeout.ToTimedelta().total_seconds() == 1.5
        assert (first.context.model.provider_id, first.context.model.model_id) == ("a", "b/c")
        assert second.input_json == "{"
        assert not third.HasField("input_json")
