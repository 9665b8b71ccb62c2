"""The library against the real server."""

from __future__ import annotations

import asyncio
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.conftest import Server
from toolgate import (
    AsyncClient,
    CallFailedError,
    CallState,
    Client,
    Decision,
    FailureReason,
    Prompt,
    ToolContext,
    ToolSource,
    instead,
    once,
    reject,
    tool,
)
from toolgate.v1 import call_pb2


def approve(_prompt: Prompt) -> Decision:
    return once()


async def test_tools_are_listed(server: Server) -> None:
    async with AsyncClient(server.target) as client:
        tools = {one.name: one for one in await client.tools()}
        assert tools["bash"].source is ToolSource.BUILTIN
        assert tools["bash"].input_schema["required"]
        openai, anthropic, gemini = await asyncio.gather(
            client.tools().openai(), client.tools().anthropic(), client.tools().gemini()
        )
        assert {"bash", "read"} <= {one["function"]["name"] for one in openai}
        assert all(one["function"]["parameters"]["additionalProperties"] is False for one in openai)
        assert {"bash", "read"} <= {one["name"] for one in anthropic}
        assert {"bash", "read"} <= {one["name"] for one in gemini[0]["functionDeclarations"]}
        assert (await client.server_info()).limits.max_message_bytes > 0


async def test_a_call_is_approved_and_recorded(server: Server) -> None:
    async with AsyncClient(server.target, session="ses_1") as client, client.approvals(approve):
        command = {"command": "printf hi; touch made", "description": "Makes a file"}
        events = [one async for one in client.execute("bash", command)]
        kinds = [one.kind for one in events]
        assert kinds[:2] == ["pending", "running"]
        assert [one for one in kinds if one in ("waiting", "resumed", "output", "completed")] == [
            "waiting", "resumed", "output", "completed"
        ]  # fmt: skip
        assert (server.work / "made").exists()
        call = await client.get(events[0].call_id)
        assert (call.state, call.tool, call.session) == (CallState.COMPLETED, "bash", "ses_1")
        assert call.result is not None
        assert call.result.output == "hi"
        watched = [one.sequence async for one in client.watch(call.id, after=2)]
        assert watched == [one.sequence for one in events[2:]]
        assert [one.id async for one in client.calls(session="ses_1", tools=["bash"])] == [call.id]


@pytest.mark.permit(bash={"*": "ask", "rm *": "deny"})
async def test_what_is_rejected_or_denied_is_a_result(server: Server) -> None:
    async with AsyncClient(server.target) as client:

        async def handler(_prompt: Prompt) -> Decision:
            return reject("use the other one")

        async with client.approvals(handler):
            rejected = await client.run("bash", {"command": "touch x", "description": "Makes"})
        assert rejected.reason is FailureReason.REJECTED
        assert "use the other one" in rejected.text
        denied = await client.run("bash", {"command": "rm x", "description": "Removes"})
        assert denied.reason is FailureReason.DENIED
        with pytest.raises(CallFailedError, match="DENIED"):
            denied.raise_for_failure()


def running(mark: str) -> list[int]:
    """The processes whose command line has the mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.permit(bash="allow")
async def test_a_cancelled_task_leaves_no_program(server: Server) -> None:
    mark = "sleep 1234.5"
    async with AsyncClient(server.target) as client:
        execution = client.execute("bash", {"command": f"echo begun; {mark} & {mark}", "description": "Sleeps"})
        begun = asyncio.Event()

        async def iterate() -> None:
            async for event in execution:
                if event.kind == "output":
                    begun.set()

        task = asyncio.create_task(iterate())
        await begun.wait()
        assert running(mark)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not running(mark)
        call = await client.get(execution.call_id)
        assert call.result is not None
        assert call.result.reason is FailureReason.CANCELLED


PROGRAM = """
import sys
from toolgate import Client
client = Client(sys.argv[1])
for event in client.execute("bash", {"command": "echo begun; sleep 2345.6", "description": "Sleeps"}):
    if event.kind == "output":
        print("begun", flush=True)
        if sys.argv[2] == "break":
            break
        if sys.argv[2] == "raise":
            raise SystemExit(7)
"""


@pytest.mark.permit(bash="allow")
@pytest.mark.parametrize(("way", "code"), [("interrupt", -signal.SIGINT), ("break", 0), ("raise", 7)])
def test_a_plain_program_that_ends_leaves_no_program(server: Server, way: str, code: int) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, server.target, way], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        if way == "interrupt":
            program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=30)
        assert program.returncode == code, errors
        assert not running("sleep 2345.6")
    finally:
        program.kill()


@pytest.mark.permit(bash="allow")
async def test_a_killed_server_loses_the_call_and_the_client_hears_of_it(server: Server) -> None:
    async with AsyncClient(server.target) as client:
        begun = asyncio.Event()
        events = []

        async def iterate() -> None:
            async for event in client.execute("bash", {"command": "echo begun; sleep 600", "description": "Sleeps"}):
                events.append(event)
                if event.kind == "output":
                    begun.set()

        task = asyncio.create_task(iterate())
        await begun.wait()
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        await asyncio.wait_for(task, 40)
        last = events[-1]
        assert last.kind == "failed"
        assert last.result.reason is FailureReason.LOST
        assert [one.sequence for one in events] == list(range(1, len(events) + 1))


async def test_a_host_survives_the_server(server: Server) -> None:
    @tool
    async def shout(context: ToolContext, text: str) -> str:
        """Shouts.

        Args:
            context: The call.
            text: What.
        """
        await context.output("shouting\n")
        return text.upper()

    ready: asyncio.Queue[list[object]] = asyncio.Queue()
    async with AsyncClient(server.target) as client, client.host([shout], on_ready=ready.put_nowait) as host:  # type: ignore[arg-type]
        assert await ready.get() == host.refused == []
        assert (await client.run("shout", {"text": "a"})).output == "A"
        wrong = await client.run("shout", {"text": 1})
        assert wrong.reason is FailureReason.INVALID_ARGUMENTS
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        await asyncio.wait_for(ready.get(), 30)
        assert (await client.run("shout", {"text": "b"})).output == "B"
    async with AsyncClient(server.target) as client:
        assert "shout" not in {one.name for one in await client.tools()}


@pytest.mark.permit(bash="allow")
async def test_an_output_is_read_searched_and_saved(server: Server, tmp_path: Path) -> None:
    async with AsyncClient(server.target) as client:
        result = await client.run("bash", {"command": "seq 1 100000", "description": "Counts"})
        assert result.truncation.truncated
        expected = "".join(f"{number}\n" for number in range(1, 100001)).encode()
        output = client.output(result.truncation.output_id)
        assert await output.content() == expected
        assert b"".join([one async for one in output.tail(2)]) == b"99999\n100000\n"
        assert b"".join([one async for one in output.lines(3, 2)]) == b"3\n4\n"
        found = await output.search("^5000$", before=1)
        assert [(one.line, one.text, one.is_match) for one in found.lines] == [
            (4999, "4999", False),
            (5000, "5000", True),
        ]
        seen: list[tuple[int, int]] = []
        size = await output.save(tmp_path / "saved", progress=lambda *now: seen.append(now))
        assert (tmp_path / "saved").read_bytes() == expected
        assert seen[-1] == (size, len(expected))


async def test_events_of_a_workspace(server: Server) -> None:
    async with AsyncClient(server.target) as client, client.events() as events:
        await client.run("bash", {"command": "echo x", "description": "Says"}, session="ses_e")
        async for event in events:
            assert event.session == "ses_e"
            if event.raw.call_state_changed.state == call_pb2.CALL_STATE_COMPLETED:
                break
        assert event.kind == "call_state_changed"


@pytest.mark.permit(edit="allow")
async def test_a_call_is_reverted(server: Server) -> None:
    path = server.work / "a.txt"
    async with AsyncClient(server.target) as client:
        result = await client.run("write", {"filePath": str(path), "content": "one\n"})
        assert path.read_text() == "one\n"
        reverted = await client.revert(result.call_id)
        assert reverted.ok, reverted.error
        assert not path.exists()


def test_a_plain_program_does_all_of_it(server: Server, tmp_path: Path) -> None:
    prompts: queue.Queue[str] = queue.Queue()

    def handler(prompt: Prompt) -> Decision:
        prompts.put(prompt.title)
        return once()

    @tool
    def double(number: int) -> str:
        """Doubles a number."""
        return str(number * 2)

    with Client(server.target) as client, client.approvals(handler), client.host([double]) as host:
        assert not host.refused
        assert client.run("double", {"number": 21}).output == "42"
        with client.execute("bash", {"command": "seq 1 5000", "description": "Counts"}) as execution:
            kinds = [one.kind for one in execution]
        assert kinds[-1] == "completed"
        assert prompts.get(timeout=10) == "Counts"
        result = execution.result()
        assert client.output(result.truncation.output_id).save(tmp_path / "x") == result.truncation.total_bytes
        assert [one.tool for one in client.calls()] == ["bash", "double"]
        assert "double" in {one.name for one in client.tools()}
        assert client.tools().anthropic()
        assert client.get(execution.call_id).state is CallState.COMPLETED
        assert sum(map(len, client.output(result.truncation.output_id).read())) == result.truncation.total_bytes
        with client.events(after=0) as events:
            assert next(iter(events)).sequence > 0
        waiting = client.execute("bash", {"command": "sleep 99", "description": "Sleeps"})
        canceller = threading.Thread(target=lambda: (prompts.get(timeout=10), waiting.cancel()))
        canceller.start()
        assert waiting.result().reason is FailureReason.CANCELLED
        canceller.join(timeout=10)


def test_an_input_that_does_not_fit_is_asked_about_again(server: Server) -> None:
    problems: list[str] = []

    def handler(prompt: Prompt) -> Decision:
        problems.append(prompt.problem)
        return once() if prompt.problem else instead({"command": 7})

    with Client(server.target) as client, client.approvals(handler):
        result = client.run("bash", {"command": "expr 4 + 4", "description": "Adds"}, session="ses_a")
        assert result.output == "8\n", result.error
        assert client.end_session("ses_a") == 0
    first, second = problems
    assert not first
    assert "command" in second
