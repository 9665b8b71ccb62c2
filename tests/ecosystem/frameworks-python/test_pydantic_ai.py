"""Pydantic AI, with a model that says what a script says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    BinaryContent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelMessagesTypeAdapter,
    RunContext,
    ToolApproved,
    ToolDenied,
)
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.toolsets import ToolsetTool, WrapperToolset

from conftest import bash
from tests.conftest import Server
from toolgate import AsyncClient, Client, Decision, FailureReason, Prompt, instead, once, reject
from toolgate.adapters.pydantic_ai import ToolgateToolset, ToolgateOutput


def says(*calls: tuple[str, dict[str, Any]]) -> FunctionModel:
    """Calls tools first, and says that it is done when it has their results."""

    def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        last = messages[-1]
        if isinstance(last, ModelRequest) and any(isinstance(one, ToolReturnPart) for one in last.parts):
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart(name, args, f"call_{i}") for i, (name, args) in enumerate(calls)])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        for index, part in enumerate(answer(messages, info).parts):
            if isinstance(part, ToolCallPart):
                yield {index: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)}
            elif isinstance(part, TextPart):
                yield part.content

    return FunctionModel(answer, stream_function=stream)


def agent_of(client: AsyncClient | Client, *calls: tuple[str, dict[str, Any]], **options: Any) -> Any:
    toolset = ToolgateToolset(client)
    return toolset, Agent(says(*calls), toolsets=[toolset], output_type=[str, DeferredToolRequests], **options)


def results(run: Any) -> list[ToolReturnPart]:
    return [part for message in run.all_messages() for part in message.parts if isinstance(part, ToolReturnPart)]


async def test_tools_are_told_as_they_are(client: AsyncClient) -> None:
    told: dict[str, Any] = {}

    def listen(_: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        told.update({one.name: one for one in info.function_tools})
        return ModelResponse([TextPart("done")])

    await Agent(FunctionModel(listen), toolsets=[ToolgateToolset(client)]).run("hello")
    for definition in await client.tools():
        tool = told[definition.name]
        assert tool.description == definition.description
        assert tool.parameters_json_schema == definition.input_schema


async def test_output_comes_while_it_runs(client: AsyncClient) -> None:
    said: list[ToolgateOutput] = []

    async def listen(_: RunContext[Any], events: AsyncIterable[AgentStreamEvent]) -> None:
        said.extend([event async for event in events if isinstance(event, ToolgateOutput)])

    _, agent = agent_of(client, ("bash", bash("echo one; echo two")))
    run = await agent.run("count", event_stream_handler=listen)
    assert "".join(one.text for one in said) == "one\ntwo\n"
    assert {one.tool_call_id for one in said} == {"call_0"}
    (result,) = results(run)
    assert (result.outcome, result.content, result.metadata["exit_code"]) == ("success", "one\ntwo\n", 0)


@pytest.mark.parametrize("approval", [True, ToolApproved()])
async def test_a_prompt_is_a_deferred_call(client: AsyncClient, server: Server, approval: Any) -> None:
    _, agent = agent_of(client, ("bash", bash("touch made")))
    stopped = await agent.run("make it")
    requests = stopped.output
    assert isinstance(requests, DeferredToolRequests)
    shown = requests.metadata["call_0"]
    assert (shown["tool"], shown["patterns"]) == ("bash", ["touch made"])
    assert not (server.work / "made").exists()

    # Another program goes on with it.
    stored = stopped.all_messages_json()
    async with AsyncClient(server.target) as other:
        _, again = agent_of(other, ("bash", bash("touch made")))
        run = await again.run(
            message_history=ModelMessagesTypeAdapter.validate_json(stored),
            deferred_tool_results=DeferredToolResults(approvals={"call_0": approval}),
        )
    assert run.output == "done"
    assert (server.work / "made").exists()
    (call,) = [one async for one in client.calls()]
    assert call.session == shown["session"]


@pytest.mark.parametrize("prefix", ["", "tg"])
async def test_what_is_denied_is_refused_in_toolgate(client: AsyncClient, server: Server, prefix: str) -> None:
    toolset: Any = ToolgateToolset(client)
    name = f"{prefix}_bash" if prefix else "bash"
    model = says((name, bash("touch made")))
    toolsets = [toolset.prefixed(prefix) if prefix else toolset]
    agent = Agent(model, toolsets=toolsets, output_type=[str, DeferredToolRequests])
    stopped = await agent.run("make it")
    run = await agent.run(
        message_history=stopped.all_messages(),
        deferred_tool_results=DeferredToolResults(approvals={"call_0": ToolDenied("not today")}),
    )
    assert [one.content for one in results(run)] == ["not today"]
    assert isinstance(stopped.output, DeferredToolRequests)
    call = await client.watch(stopped.output.metadata["call_0"]["call_id"]).result()
    assert "not today" in call.error
    assert not (server.work / "made").exists()


async def test_an_approval_with_other_arguments(client: AsyncClient, server: Server) -> None:
    _, agent = agent_of(client, ("bash", bash("touch made")))
    stopped = await agent.run("make it")
    await agent.run(
        message_history=stopped.all_messages(),
        deferred_tool_results=DeferredToolResults(
            approvals={"call_0": ToolApproved(override_args=bash("touch other"))}
        ),
    )
    assert [(server.work / name).exists() for name in ("made", "other")] == [False, True]


@pytest.mark.parametrize(
    ("decision", "made", "said"),
    [(once(), True, ""), (reject("not today"), False, "not today"), (instead(bash("echo no")), False, "no")],
)
async def test_decisions_of_toolgate(
    client: AsyncClient, server: Server, decision: Decision, made: bool, said: str
) -> None:
    toolset, agent = agent_of(client, ("bash", bash("touch made")))
    stopped = await agent.run("make it")
    resolved = await toolset.resolve(stopped.output, lambda _: decision)
    run = await agent.run(message_history=stopped.all_messages(), deferred_tool_results=resolved)
    assert run.output == "done"
    (result,) = results(run)
    assert said in str(result.content)
    assert result.outcome == ("failed" if "today" in said else "success")
    assert (server.work / "made").exists() is made


@pytest.mark.permit(bash="ask", external_directory="ask")
async def test_each_prompt_of_a_call_is_asked_about(client: AsyncClient, outside: Path) -> None:
    _, agent = agent_of(client, ("bash", bash(f"cat {outside}")))
    run = await agent.run("look")
    asked = []
    for _ in range(2):
        asked.append(run.output.metadata["call_0"]["permission"])
        approved = DeferredToolResults(approvals={"call_0": True})
        run = await agent.run(message_history=run.all_messages(), deferred_tool_results=approved)
    assert sorted(asked) == ["bash", "external_directory"]
    assert [one.content for one in results(run)] == ["from outside\n"]


async def test_people_are_asked_within_a_run(client: AsyncClient, server: Server) -> None:
    toolset = ToolgateToolset(client)

    async def decide(prompt: Prompt) -> Decision | None:
        return once() if prompt.tool == "bash" else None

    async def ask(_: RunContext[Any], requests: DeferredToolRequests) -> DeferredToolResults:
        return await toolset.resolve(requests, decide)

    model = says(("bash", bash("touch made")))
    agent = Agent(model, toolsets=[toolset], capabilities=[HandleDeferredToolCalls(ask)])
    assert (await agent.run("make it")).output == "done"
    assert (server.work / "made").exists()


async def test_calls_of_other_toolsets_are_not_resolved(client: AsyncClient, server: Server) -> None:
    toolset: Any = ToolgateToolset(client)

    def pay(ctx: RunContext[Any], amount: int) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired(metadata={"call_id": ctx.tool_call_id, "amount": amount})
        return "paid"

    model = says(("pay", {"amount": 5}))
    agent: Any = Agent(model, tools=[pay], toolsets=[toolset], output_type=[str, DeferredToolRequests])
    stopped = await agent.run("pay")
    assert not (await toolset.resolve(stopped.output, lambda _: once())).approvals

    # Nor those of another Toolgate, even if its calls are the same, nor one that nobody knows.
    _, agent = agent_of(client, ("bash", bash("touch made")))
    stopped = await agent.run("make it")
    other = ToolgateToolset(client, id="other")
    assert not (await other.resolve(stopped.output, lambda _: once())).approvals
    stopped.output.metadata["call_0"]["call_id"] = "another"
    assert not (await toolset.resolve(stopped.output, lambda _: once())).approvals
    assert not (server.work / "made").exists()


class Careful(WrapperToolset[Any]):
    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        careful = {**tool_args, "command": tool_args["command"].replace("made", "careful")}
        return await self.wrapped.call_tool(name, careful, ctx, tool)


@pytest.mark.parametrize("is_elsewhere", [False, True])
async def test_what_a_toolset_around_it_changes_is_what_runs(
    client: AsyncClient, server: Server, is_elsewhere: bool
) -> None:
    toolset: Any = ToolgateToolset(client)
    model = says(("bash", bash("touch made")))
    agent: Any = Agent(model, toolsets=[Careful(toolset)], output_type=[str, DeferredToolRequests])
    run = await agent.run("make it")
    assert run.output.metadata["call_0"]["patterns"] == ["touch careful"]
    toolset = ToolgateToolset(client) if is_elsewhere else toolset
    agent = Agent(model, toolsets=[Careful(toolset)], output_type=[str, DeferredToolRequests])
    approved = DeferredToolResults(approvals={"call_0": True})
    run = await agent.run(message_history=run.all_messages(), deferred_tool_results=approved)
    assert run.output == "done"
    assert [(server.work / name).exists() for name in ("made", "careful")] == [False, True]
    assert len([one async for one in client.calls()]) == 1
    assert "replaced" not in str(results(run)[0].content)

    # It is also what runs where nobody is asked.
    agent = Agent(says(("bash", bash("echo made"))), toolsets=[Careful(toolset)])
    assert [one.content for one in results(await agent.run("say it"))] == ["careful\n"]


async def test_pictures_are_shown(client: AsyncClient, picture: Path) -> None:
    _, agent = agent_of(client, ("read", {"filePath": str(picture)}))
    (result,) = results(await agent.run("look"))
    assert isinstance(result.content, list)
    assert [isinstance(one, BinaryContent) for one in result.content] == [False, True]


async def test_failures_are_results(client: AsyncClient) -> None:
    _, agent = agent_of(client, ("read", {"filePath": "missing.txt"}))
    run = await agent.run("look")
    (result,) = results(run)
    assert run.output == "done"
    assert result.outcome == "failed"
    assert "missing.txt" in str(result.content)


@pytest.mark.permit(bash="allow")
async def test_cancelling_the_run_cancels_the_call(client: AsyncClient) -> None:
    begun = asyncio.Event()

    async def listen(_: RunContext[Any], events: AsyncIterable[AgentStreamEvent]) -> None:
        async for event in events:
            if isinstance(event, ToolgateOutput):
                begun.set()

    _, agent = agent_of(client, ("bash", bash("echo begun; sleep 60")))
    task = asyncio.create_task(agent.run("wait", event_stream_handler=listen))
    await asyncio.wait_for(begun.wait(), 20)
    task.cancel()
    await asyncio.wait([task])
    (call,) = [one async for one in client.calls()]
    ended = await asyncio.wait_for(client.watch(call.id).result(), 20)
    assert ended.reason is FailureReason.CANCELLED


def test_plain_programs(plain: Client, server: Server) -> None:
    _, agent = agent_of(plain, ("bash", bash("touch made")))
    stopped = agent.run_sync("make it")
    approved = DeferredToolResults(approvals={"call_0": True})
    assert agent.run_sync(message_history=stopped.all_messages(), deferred_tool_results=approved).output == "done"
    assert (server.work / "made").exists()
