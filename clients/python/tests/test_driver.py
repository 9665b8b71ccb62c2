"""The driver against the real server, as the tests of the repository use it."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import message

from tests.conftest import Server
from toolgate.v1 import (
    call_pb2,
    host_service_pb2,
    permission_service_pb2,
    prompt_pb2,
    session_service_pb2,
    tool_service_pb2,
)


def encode(content: message.Message) -> str:
    return base64.b64encode(content.SerializeToString()).decode()


def decode(kind: Any, text: str) -> Any:
    return kind.FromString(base64.b64decode(text))


class Driver:
    """A driver, with what it reported on each command."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count(1)
        self._reports: dict[int, asyncio.Queue[dict[str, Any]]] = {}
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            report = json.loads(line)
            self._reports[report.pop("id")].put_nowait(report)

    def begin(self, do: str, **fields: Any) -> int:
        number = next(self._numbers)
        self._reports[number] = asyncio.Queue()
        assert self._process.stdin is not None
        self._process.stdin.write((json.dumps({"id": number, "do": do, **fields}) + "\n").encode())
        return number

    async def next(self, number: int, key: str) -> Any:
        """Returns the next report with this key."""
        while True:
            report = await asyncio.wait_for(self._reports[number].get(), 30)
            if key in report:
                return report[key]
            assert "error" not in report, report
            assert "done" not in report, (key, report)

    async def report(self, number: int) -> dict[str, Any]:
        return await self._reports[number].get()

    async def do(self, do: str, **fields: Any) -> Any:
        return await self.next(self.begin(do, **fields), "done")

    async def finish(self) -> int:
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = await asyncio.wait_for(self._process.wait(), 30)
        await self._reading
        return code


@asynccontextmanager
async def driving(target: str) -> AsyncIterator[Driver]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("driver.py")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 26,
    )
    try:
        driver = Driver(process)
        await driver.do("connect", client="c", target=target)
        yield driver
        assert await driver.finish() == 0
    finally:
        if process.returncode is None:
            process.kill()


def executing(command: str, call_id: str = "") -> str:
    text = json.dumps({"command": command, "description": "Does it"})
    return encode(tool_service_pb2.ExecuteToolRequest(tool="bash", input_json=text, call_id=call_id))


async def test_a_call_is_driven_from_prompt_to_end(server: Server) -> None:
    async with driving(server.target) as driver:
        approvals = driver.begin("approvals", client="c", name="me")
        assert await driver.next(approvals, "ready") is True
        call = driver.begin("execute", client="c", request=executing("printf x; printf y"))
        prompt = decode(prompt_pb2.Prompt, await driver.next(approvals, "prompt"))
        reply = permission_service_pb2.PromptReply(prompt_id=prompt.prompt_id, decision=prompt_pb2.PROMPT_DECISION_ONCE)
        assert await driver.do("reply", approvals=approvals, reply=encode(reply)) == {}
        assert await driver.next(approvals, "result") == {"prompt_id": prompt.prompt_id, "result": "ACCEPTED"}
        event = decode(call_pb2.CallEvent, await driver.next(call, "event"))
        assert (event.sequence, event.WhichOneof("event")) == (1, "pending")
        done = decode(call_pb2.Call, (await driver.next(call, "done"))["call"])
        assert done.completed.output == "xy"
        assert await driver.do("stop", command=approvals) == {}
        assert await driver.next(approvals, "done") == {}
        error = await driver.next(driver.begin("reply", approvals=approvals, reply=encode(reply)), "error")
        assert error["code"] == "NOT_FOUND"
        request = encode(session_service_pb2.GetSessionRequest(session_id=prompt.session_id))
        method = "toolgate.v1.SessionService/GetSession"
        answer = await driver.do("unary", client="c", method=method, request=request)
        session = decode(session_service_pb2.GetSessionResponse, answer["response"]).session
        assert [one.call_id for one in session.recent_calls] == [done.call_id]


async def test_a_prompt_that_ends_otherwise_is_gone(server: Server) -> None:
    async with driving(server.target) as driver:
        approvals = driver.begin("approvals", client="c")
        call = driver.begin("execute", client="c", request=executing("sleep 9"))
        prompt = decode(prompt_pb2.Prompt, await driver.next(approvals, "prompt"))
        assert await driver.do("cancel", execution=call) == {}
        assert (await driver.next(call, "error"))["code"] == "CANCELLED"
        assert await driver.next(approvals, "gone") == prompt.prompt_id


async def test_tools_are_lent(server: Server) -> None:
    lent = host_service_pb2.LentTool(name="lent", description="d", input_schema_json='{"type":"object"}')
    hello = encode(host_service_pb2.HostHello(name="h", tools=[lent, host_service_pb2.LentTool(name="bash")]))
    async with driving(server.target) as driver:
        host = driver.begin("host", client="c", hello=hello)
        refused = (await driver.next(host, "ready"))["refused"]
        assert [decode(host_service_pb2.HostRefused, one).name for one in refused] == ["bash"]
        request = tool_service_pb2.ExecuteToolRequest(tool="lent")
        call = driver.begin("execute", client="c", request=encode(request))
        invoke = decode(host_service_pb2.HostInvoke, await driver.next(host, "invoke"))
        for report in [
            host_service_pb2.HostReport(output=host_service_pb2.HostOutput(data=b"out")),
            host_service_pb2.HostReport(completed=host_service_pb2.HostCompleted(title="t")),
        ]:
            report.invocation_id = invoke.invocation_id
            assert await driver.do("report", host=host, report=encode(report)) == {}
        done = decode(call_pb2.Call, (await driver.next(call, "done"))["call"])
        assert (done.completed.title, done.completed.output) == ("t", "out")
        greeter = driver.begin("greeter", client="c")
        assert await driver.next(greeter, "ready") == {"refused": []}
        greet = tool_service_pb2.ExecuteToolRequest(tool="greet", input_json='{"name": "Ann", "times": 2}')
        call = driver.begin("execute", client="c", request=encode(greet))
        done = decode(call_pb2.Call, (await driver.next(call, "done"))["call"])
        assert (done.completed.title, done.completed.output) == ("Greeting Ann", "Hello, Ann!\nHello, Ann!")


class Cutter:
    """Stands between a client and a server, and cuts connections at random."""

    def __init__(self, path: str, chance: random.Random) -> None:
        self._path = path
        self._chance = chance
        self.cuts = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_unix_connection(self._path)
        except OSError:
            writer.close()
            return
        both = [asyncio.ensure_future(self._copy(reader, back)), asyncio.ensure_future(self._copy(there, writer))]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in both:
                one.cancel()
            for end in (writer, back):
                end.transport.abort()

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        left = self._chance.randrange(200, 60_000)
        while data := await source.read(4096):
            if (left := left - len(data)) < 0:
                self.cuts += 1
                return
            sink.write(data)
            await sink.drain()


@pytest.mark.permit(bash="allow")
async def test_connections_that_break_at_random_change_nothing(server: Server) -> None:
    cutter = Cutter(server.target.removeprefix("unix:"), random.Random(7))
    proxy = await asyncio.start_server(cutter.serve, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    async with driving(f"http://127.0.0.1:{port}") as driver:
        command = "for i in $(seq 1 40); do seq 1 200; sleep 0.005; done"
        for number in range(8):
            call = driver.begin("execute", client="c", request=executing(command, f"call-{number}"))
            sequences, output = [], b""
            while True:
                report = await asyncio.wait_for(driver.report(call), 30)
                assert "error" not in report
                if "done" in report:
                    break
                event = decode(call_pb2.CallEvent, report["event"])
                sequences.append(event.sequence)
                output += event.output.data
            assert sequences == list(range(1, len(sequences) + 1))
            assert output == b"".join(b"%d\n" % one for one in range(1, 201)) * 40
    proxy.close()
    assert cutter.cuts > 5
