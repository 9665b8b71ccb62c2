"""What MCP servers have beside tools: listed, read and completed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import grpc
import pytest

from tests.conftest import Server
from tests.fake import Context, Fake, break_off
from toolgate import AsyncClient, Client, Decision, PermissionPrompt, Prompt, RpcError, once, reject
from toolgate.v1 import error_reason_pb2, mcp_service_pb2

SERVER = Path(__file__).parents[2] / "mcp-server.py"
RULES = pytest.mark.permit(
    read={
        "*": "allow",
        "mcp:notes:notes://7": "deny",
        "mcp:notes:notes://8": "ask",
        "mcp:notes:prompt:private": "ask",
    }
)


async def with_notes(server: Server, client: AsyncClient) -> None:
    """Gives the service two servers, one of which does not start, and returns when the other one is ready."""
    config = server.folder / ".config" / "opencode" / "opencode.json"
    config.parent.mkdir(parents=True)
    notes = {"type": "local", "command": ["python3", str(SERVER)]}
    gone = {"type": "local", "command": ["false"]}
    config.write_text(json.dumps({"mcp": {"notes": notes, "gone": gone}}))
    while True:
        try:
            await client.mcp().prompts("notes")
        except RpcError as error:
            if error.reason not in {"NOT_FOUND", "MCP_SERVER_NOT_READY"}:
                raise
            await asyncio.sleep(0.05)
        else:
            return


async def refused(code: grpc.StatusCode, reason: str, work: object) -> RpcError:
    with pytest.raises(RpcError, match=reason) as caught:
        await work  # type: ignore[misc]
    assert (caught.value.code, caught.value.reason) == (code, reason)
    return caught.value


@RULES
async def test_what_servers_have_is_listed_and_read(server: Server) -> None:
    async with AsyncClient(server.target) as client:
        await with_notes(server, client)
        mcp = client.mcp()
        resources = mcp.resources()
        with pytest.raises(RuntimeError):
            _ = resources.omitted
        # All pages, without what a rule denies.
        sizes = [(one.server, one.size_bytes) async for one in resources]
        assert sizes == [("notes", day) for day in range(120) if day != 7]
        [omitted] = resources.omitted
        assert (omitted.server, omitted.reason) == ("gone", error_reason_pb2.ERROR_REASON_MCP_SERVER_NOT_READY)
        assert [one.uri_template for one in await mcp.templates("notes")] == ["notes://{day}"]
        plan, private = await mcp.prompts("notes")
        assert (plan.name, private.name) == ("plan", "private")
        assert [(one.name, one.required) for one in plan.arguments] == [("day", True)]

        read = await mcp.read("notes", "notes://new", call_id="reading")
        assert read.call_id == "reading"
        text, blob = read.contents
        assert (text.text, text.mime_type) == ("This is notes://new.", "text/plain")
        assert (blob.WhichOneof("content"), blob.blob) == ("blob", b"\0\1\2")
        assert (await client.get("reading")).tool == "mcp-read_notes"
        got = await mcp.prompt("notes", "plan", {"day": "today"})
        assert [(one.role, one.text) for one in got.messages] == [(mcp_service_pb2.MCP_ROLE_USER, '{"day": "today"}')]
        hints = await mcp.complete("notes", "day", "to", prompt="plan", arguments={"week": "48"})
        assert (list(hints.values), hints.total, hints.has_more) == (["today", "plan", "48"], 7, True)
        hints = await mcp.complete("notes", "day", uri_template="notes://{day}")
        assert list(hints.values) == ["day", "notes://{day}"]
        with pytest.raises(ValueError, match="name one of them"):
            await mcp.complete("notes", "day")


@RULES
async def test_what_is_not_read_says_why(server: Server) -> None:
    async with AsyncClient(server.target) as client:
        await with_notes(server, client)
        mcp = client.mcp()
        denied, missing = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.NOT_FOUND
        error = await refused(denied, "DENIED_BY_RULE", mcp.read("notes", "notes://7"))
        assert (await client.get(error.metadata["call_id"])).tool == "mcp-read_notes"
        # Nobody is there to ask.
        await refused(denied, "PERMISSION_NEEDED", mcp.read("notes", "notes://8"))
        await refused(denied, "PERMISSION_NEEDED", mcp.complete("notes", "x", prompt="private"))
        await refused(missing, "NOT_FOUND", mcp.read("nobody", "notes://1"))
        await refused(missing, "NOT_FOUND", mcp.resources("nobody").all())
        error = await refused(
            grpc.StatusCode.INVALID_ARGUMENT, "MCP_ARGUMENT_MISSING", mcp.prompt("notes", "plan", call_id="p")
        )
        assert error.metadata["argument"] == "day"
        not_ready = grpc.StatusCode.FAILED_PRECONDITION
        await refused(not_ready, "MCP_SERVER_NOT_READY", client.mcp(agent="plan").templates("gone").all())


@RULES
def test_people_are_waited_for_as_long_as_they_think(server: Server) -> None:
    async def decide(prompt: Prompt) -> Decision:
        # Longer than a plain request may take.
        await asyncio.sleep(6)
        assert isinstance(prompt, PermissionPrompt)
        return once() if prompt.permission.patterns == ["mcp:notes:notes://8"] else reject("not that")

    async def prepare() -> None:
        async with AsyncClient(server.target) as client:
            await with_notes(server, client)

    asyncio.run(prepare())
    with Client(server.target, timeout=5) as client:
        mcp = client.mcp(unattended="wait", wait_timeout=120)
        with client.approvals(decide):
            read = mcp.read("notes", "notes://8", call_id="asked")
            assert read.call_id == "asked"
            assert read.contents[0].text == "This is notes://8."
            with pytest.raises(RpcError, match="not that") as caught:
                mcp.prompt("notes", "private")
            assert caught.value.reason == "REJECTED"
        listing = mcp.resources()
        assert next(iter(listing)).uri == "notes://0"
        assert [one.server for one in listing.omitted] == ["gone"]
        assert len(mcp.resources("notes").all()) == 119
        assert [one.name for one in mcp.templates()] == ["day"]
        assert [one.name for one in mcp.prompts()] == ["plan", "private"]
        assert mcp.complete("notes", "day", "sun", prompt="plan").values[0] == "sunday"


async def test_a_reading_whose_answer_is_lost_is_asked_for_again_by_the_same_id() -> None:
    async def cut(_request: object, context: Context) -> None:
        await break_off(context)

    async def answered(
        request: mcp_service_pb2.ReadMcpResourceRequest, _context: Context
    ) -> mcp_service_pb2.ReadMcpResourceResponse:
        return mcp_service_pb2.ReadMcpResourceResponse(call_id=request.call.call_id)

    async with Fake(ReadMcpResource=[cut, answered]) as fake, AsyncClient(fake.target) as client:
        read = await client.mcp().read("notes", "notes://1")
        assert [one.call.call_id for one in fake.named("ReadMcpResource")] == [read.call_id] * 2
