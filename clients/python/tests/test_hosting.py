"""Lending tools: schemas of functions, and hosts whose streams break."""

from __future__ import annotations

import asyncio
import json
import queue
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from tests.fake import Context, Fake, break_off
from toolgate import (
    AsyncClient,
    Hook,
    LentTool,
    PermissionRefused,
    SubagentRun,
    SyncToolContext,
    ToolContext,
    ToolEffect,
    ToolFailure,
    ToolResult,
    tool,
)
from toolgate.v1 import host_service_pb2

Response = host_service_pb2.HostResponse
Event = host_service_pb2.HostEvent


class Unit(Enum):
    METRE = "m"
    FOOT = "ft"


class Place(BaseModel):
    city: str
    zip: str | None = None


@dataclass
class Size:
    width: int


@tool
async def greet(context: ToolContext, name: str, times: int = 1) -> ToolResult:
    """Greets somebody.

    Args:
        context: The call.
        name: Who is greeted.
        times: How often.
    """
    for number in range(1, times + 1):
        await context.progress(metadata={"greeted": number})
    return ToolResult(output="\n".join([f"Hello, {name}!"] * times), title=f"Greeting {name}")


def test_the_schema_comes_from_hints_and_docstring() -> None:
    assert greet.name == "greet"
    assert greet.description == "Greets somebody."
    assert greet.input_schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Who is greeted."},
            "times": {"type": "integer", "description": "How often.", "default": 1},
        },
        "required": ["name"],
        "additionalProperties": False,
    }


def test_hints_of_all_kinds_have_schemas() -> None:
    @tool(name="measure", description="Measures.", effects=[ToolEffect.READS])
    def function(
        unit: Unit,
        mode: Literal["fast", "exact"],
        place: Place,
        size: Size,
        tags: list[str],
        weights: dict[str, float],
        limit: Annotated[int, Field(ge=1, le=9, description="At most.")] = 3,
        note: str | None = None,
    ) -> str:
        return f"{unit.name} {mode} {place.city} {size.width} {tags} {weights} {limit} {note}"

    schema: Any = function.input_schema
    assert (function.name, function.description) == ("measure", "Measures.")
    assert function.to_proto().effects == [ToolEffect.READS.to_proto()]
    assert schema["properties"]["limit"] == {
        "type": "integer", "minimum": 1, "maximum": 9, "default": 3, "description": "At most."
    }  # fmt: skip
    assert schema["properties"]["mode"]["enum"] == ["fast", "exact"]
    assert schema["required"] == ["unit", "mode", "place", "size", "tags", "weights"]
    given = {"unit": "ft", "mode": "fast", "place": {"city": "Oslo"}, "size": {"width": 2}, "tags": [], "weights": {}}
    assert function.run(given, None) == "FOOT fast Oslo 2 [] {} 3 None"
    assert function(Unit.METRE, "exact", Place(city="X"), Size(1), [], {}) == "METRE exact X 1 [] {} 3 None"


def test_functions_that_cannot_be_lent_say_why() -> None:
    def unhinted(name) -> str:  # type: ignore[no-untyped-def] # noqa: ANN001
        return str(name)

    def starred(*names: str) -> str:
        return str(names)

    def wrong_context(context: ToolContext) -> str:
        return context.call_id

    wrong: list[tuple[Callable[..., str], str]] = [
        (unhinted, "no type hint"),
        (starred, "another kind"),
        (wrong_context, "SyncToolContext"),
    ]
    for function, problem in wrong:
        with pytest.raises(TypeError, match=problem):
            tool(function)


def welcome(*, resumed: bool = False) -> Response:
    return Response(event=Event(welcome=host_service_pb2.HostWelcome(token="t", resumed=resumed)))  # noqa: S106


def invoke(tool_name: str, invocation_id: str = "i1", /, *, resent: bool = False, **arguments: Any) -> Response:
    content = host_service_pb2.HostInvoke(
        invocation_id=invocation_id, call_id="c", tool=tool_name, input_json=json.dumps(arguments), resent=resent
    )
    return Response(event=Event(invoke=content))


class Server:
    """The server's side: what it sends on each stream, and what it is told."""

    def __init__(self) -> None:
        self.hellos: list[host_service_pb2.HostHello] = []
        self.reports: asyncio.Queue[host_service_pb2.HostReport] = asyncio.Queue()
        self.send: asyncio.Queue[Response | None] = asyncio.Queue()

    async def play(self, requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
        self.hellos.append((await requests.__anext__()).hello)

        async def read() -> None:
            async for request in requests:
                self.reports.put_nowait(request.report)
            self.send.put_nowait(Response())

        reading = asyncio.create_task(read())
        try:
            while (response := await self.send.get()) is not None:
                if not response.HasField("event"):
                    return
                yield response
            await break_off(context)
        finally:
            reading.cancel()

    async def told(self) -> host_service_pb2.HostReport:
        return await asyncio.wait_for(self.reports.get(), 20)


async def test_a_call_is_answered_with_what_the_function_returns() -> None:
    server = Server()
    server.send.put_nowait(welcome())
    async with Fake(Host=[server.play]) as fake, AsyncClient(fake.target) as client:
        async with client.host([greet], name="h"):
            server.send.put_nowait(invoke("greet", name="Ann", times=2))
            assert (await server.told()).progress.metadata["greeted"] == 1
            assert (await server.told()).progress.metadata["greeted"] == 2
            report = await server.told()
            assert report.invocation_id == "i1"
            assert (report.completed.title, report.completed.output) == ("Greeting Ann", "Hello, Ann!\nHello, Ann!")
        assert [one.name for one in server.hellos[0].tools] == ["greet"]


async def test_what_functions_return_and_raise() -> None:
    async def nothing() -> None:
        pass

    async def value() -> dict[str, int]:
        return {"a": 1}

    def plain() -> str:
        return "plain"

    async def fails() -> str:
        raise ToolFailure("try the other one")

    async def breaks() -> str:
        raise ZeroDivisionError

    server = Server()
    server.send.put_nowait(welcome())
    tools = [tool(one) for one in (nothing, value, plain, fails, breaks)]
    async with Fake(Host=[server.play]) as fake, AsyncClient(fake.target) as client, client.host(tools):
        for number, one in enumerate(tools):
            server.send.put_nowait(invoke(one.name, str(number)))
        told = {(report := await server.told()).invocation_id: report for _ in tools}
        assert not told["0"].completed.HasField("output")
        assert told["1"].completed.output == '{"a": 1}'
        assert told["2"].completed.output == "plain"
        assert told["3"].failed.error == "try the other one"
        assert told["4"].failed.error == "ZeroDivisionError"


async def test_invocations_run_once_over_reconnections() -> None:
    server = Server()
    runs = []
    go_on = asyncio.Event()

    @tool
    async def work(name: str) -> str:
        runs.append(name)
        if name == "slow":
            await go_on.wait()
        return name

    server.send.put_nowait(welcome())
    async with Fake(Host=[server.play]) as fake, AsyncClient(fake.target) as client, client.host([work]):
        server.send.put_nowait(invoke("work", "quick", name="quick"))
        server.send.put_nowait(invoke("work", "slow", name="slow"))
        assert (await server.told()).completed.output == "quick"
        # The connection breaks before the server has heard of it, so it asks again for both.
        server.send.put_nowait(None)
        server.send.put_nowait(welcome(resumed=True))
        server.send.put_nowait(invoke("work", "quick", resent=True, name="quick"))
        server.send.put_nowait(invoke("work", "slow", resent=True, name="slow"))
        assert (await server.told()).completed.output == "quick"
        go_on.set()
        assert (await server.told()).completed.output == "slow"
        assert runs == ["quick", "slow"]
        assert [one.token for one in server.hellos] == ["", "t"]


@pytest.mark.parametrize("way", ["told", "a new host", "not sent again"])
async def test_an_invocation_that_is_given_up_is_cancelled(way: str) -> None:
    server = Server()
    begun, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    server.send.put_nowait(welcome())
    async with Fake(Host=[server.play]) as fake, AsyncClient(fake.target) as client, client.host([work]):
        server.send.put_nowait(invoke("work"))
        await begun.wait()
        if way == "told":
            server.send.put_nowait(Response(event=Event(cancel=host_service_pb2.HostCancel(invocation_id="i1"))))
        else:
            server.send.put_nowait(None)
            server.send.put_nowait(welcome(resumed=way == "not sent again"))
            server.send.put_nowait(Response(event=Event(heartbeat=host_service_pb2.HostHeartbeat())))
        await asyncio.wait_for(ended.wait(), 20)


async def test_a_new_host_is_not_answered_from_an_earlier_one() -> None:
    runs = []

    @tool
    async def work(name: str) -> str:
        runs.append(name)
        return name

    server = Server()
    server.send.put_nowait(welcome())
    async with Fake(Host=[server.play]) as fake, AsyncClient(fake.target) as client, client.host([work]):
        for name in ("before", "after"):
            server.send.put_nowait(invoke("work", name=name))
            assert (await server.told()).completed.output == name
            server.send.put_nowait(None)
            server.send.put_nowait(welcome(resumed=False))
    assert runs == ["before", "after"]


async def test_permissions_are_asked_for_and_asked_again() -> None:
    server = Server()

    @tool
    async def work(context: ToolContext) -> str:
        await context.ask("deploy", "prod", always=["*"], title="Deploys")
        try:
            await context.ask("erase", "prod")
        except PermissionRefused as error:
            return f"refused: {error}"
        return "erased"

    def answer(ask_id: str, *, allowed: bool) -> Response:
        result = host_service_pb2.HostAskResult(invocation_id="i1", ask_id=ask_id, allowed=allowed, error="no")
        return Response(event=Event(ask_result=result))

    server.send.put_nowait(welcome())
    async with Fake(Host=[server.play]) as fake, AsyncClient(fake.target) as client, client.host([work]):
        server.send.put_nowait(invoke("work"))
        ask = (await server.told()).ask
        assert (ask.permission, list(ask.patterns), list(ask.always)) == ("deploy", ["prod"], ["*"])
        server.send.put_nowait(None)
        server.send.put_nowait(welcome(resumed=True))
        server.send.put_nowait(invoke("work", resent=True))
        assert (await server.told()).ask == ask
        server.send.put_nowait(answer(ask.ask_id, allowed=True))
        server.send.put_nowait(answer((await server.told()).ask.ask_id, allowed=False))
        assert (await server.told()).completed.output == "refused: no"


async def test_subagents_and_hooks() -> None:
    server = Server()

    async def subagent(run: SubagentRun, context: ToolContext) -> str:
        await context.progress(title=run.description)
        return f"{run.agent} did {run.prompt} in {run.session}"

    async def before(hook: Hook) -> None:
        hook.output["args"]["command"] = hook.input["tool"]

    def refuses(_hook: Hook) -> None:
        raise ToolFailure("not today")

    run = host_service_pb2.HostRunSubagent(
        invocation_id="s", call_id="c", session_id="ses_2", agent="explore", description="Looks", prompt="it"
    )

    def hook(point: str) -> Response:
        content = host_service_pb2.HostHook(
            invocation_id=point, point=point, input_json='{"tool": "bash"}', output_json='{"args": {"n": 1.0}}'
        )
        return Response(event=Event(hook=content))

    server.send.put_nowait(welcome())
    hooks: Any = {"tool.execute.before": before, "shell.env": refuses}
    async with Fake(Host=[server.play]) as fake, AsyncClient(fake.target) as client:
        async with client.host(subagent=subagent, subagents=["explore"], hooks=hooks):
            server.send.put_nowait(Response(event=Event(run_subagent=run)))
            assert (await server.told()).progress.title == "Looks"
            assert (await server.told()).completed.output == "explore did it in ses_2"
            server.send.put_nowait(hook("tool.execute.before"))
            assert json.loads((await server.told()).hook_result.output_json) == {"args": {"n": 1.0, "command": "bash"}}
            server.send.put_nowait(hook("shell.env"))
            assert (await server.told()).failed.error == "not today"
        assert server.hellos[0].runs_subagents
        assert list(server.hellos[0].hooks) == ["tool.execute.before", "shell.env"]


async def test_functions_in_threads_report_as_well_and_see_that_they_are_cancelled() -> None:
    server = Server()
    seen: queue.Queue[bool] = queue.Queue()

    @tool
    def work(context: SyncToolContext, name: str) -> str:
        context.output(f"working on {name}\n")
        seen.put(context.cancelled.wait(20))
        return "ignored"

    server.send.put_nowait(welcome())
    async with Fake(Host=[server.play]) as fake, AsyncClient(fake.target) as client, client.host([work]):
        server.send.put_nowait(invoke("work", name="it"))
        assert (await server.told()).output.data == b"working on it\n"
        server.send.put_nowait(Response(event=Event(cancel=host_service_pb2.HostCancel(invocation_id="i1"))))
        assert await asyncio.to_thread(seen.get, timeout=20)


async def test_tools_may_be_made_by_hand() -> None:
    async def run(given: dict[str, Any], context: ToolContext) -> str:
        return f"{context.call_id} {given}"

    server = Server()
    server.send.put_nowait(welcome())
    lent = LentTool("raw", "Takes anything.", '{"type":"object"}', run)
    async with Fake(Host=[server.play]) as fake, AsyncClient(fake.target) as client, client.host([lent]):
        server.send.put_nowait(invoke("raw", x=1))
        assert (await server.told()).completed.output == "c {'x': 1}"
    assert server.hellos[0].tools[0].input_schema_json == '{"type":"object"}'
