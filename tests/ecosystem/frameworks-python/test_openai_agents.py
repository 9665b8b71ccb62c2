"""The OpenAI Agents SDK, with the scripted model that it brings."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, RunConfig, Runner, RunState
from agents.items import ToolCallOutputItem
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

from conftest import bash
from tests.conftest import Server
from toolgate import AsyncClient, Client, Decision, Event, FailureReason, Prompt, instead, once, reject
from toolgate.adapters.openai_agents import ToolgateTools

CONFIG = RunConfig(tracing_disabled=True)


def says(*calls: tuple[str, dict[str, Any]]) -> ScriptedModel:
    made = [function_call(name, args, call_id=f"call_{i}") for i, (name, args) in enumerate(calls)]
    return ScriptedModel([ModelStep(output=made), ModelStep(output=[assistant_message("done")])])


async def agent_of(tools: ToolgateTools, model: ScriptedModel) -> Agent[Any]:
    return Agent("worker", model=model, tools=[*await tools.tools()])


def outputs(run: Any) -> list[Any]:
    return [one.output for one in run.new_items if isinstance(one, ToolCallOutputItem)]


async def test_tools_are_told_as_they_are(client: AsyncClient) -> None:
    found = {one.name: one for one in await ToolgateTools(client).tools()}
    for definition in await client.tools():
        tool = found[definition.name]
        assert tool.description == definition.description
        assert tool.params_json_schema == definition.input_schema


async def test_output_comes_while_it_runs(client: AsyncClient) -> None:
    said: list[Event] = []
    agent = await agent_of(ToolgateTools(client, on_event=said.append), says(("bash", bash("echo one; echo two"))))
    run = await Runner.run(agent, "count", run_config=CONFIG)
    assert "one\ntwo\n" in "".join(one.text for one in said if one.kind == "output")
    assert outputs(run) == ["one\ntwo\n"]
    assert run.final_output == "done"


async def test_a_prompt_is_an_interruption(client: AsyncClient, server: Server) -> None:
    model = says(("bash", bash("touch made")))
    stopped = await Runner.run(
        await agent_of(ToolgateTools(client, session="shared"), model), "make it", run_config=CONFIG
    )
    assert [one.name for one in stopped.interruptions] == ["bash"]
    assert not (server.work / "made").exists()

    # Another program goes on with it.
    stored = stopped.to_state().to_json()
    async with AsyncClient(server.target) as other:
        agent = await agent_of(ToolgateTools(other, session="shared"), model)
        state = await RunState.from_json(agent, json.loads(json.dumps(stored)))
        for item in state.get_interruptions():
            state.approve(item)
        run = await Runner.run(agent, state, run_config=CONFIG)
    assert run.final_output == "done"
    assert (server.work / "made").exists()
    assert len([one async for one in client.calls()]) == 1


async def test_what_is_rejected_is_refused_in_toolgate(client: AsyncClient, server: Server) -> None:
    tools = ToolgateTools(client)
    agent = await agent_of(tools, says(("bash", bash("touch made"))))
    stopped = await Runner.run(agent, "make it", run_config=CONFIG)
    state = stopped.to_state()
    state.reject(stopped.interruptions[0], rejection_message="not today")
    run = await Runner.run(agent, state, run_config=CONFIG)
    assert outputs(run) == ["not today"]
    (call,) = [one async for one in client.calls()]
    assert "not today" in (await client.watch(call.id).result()).error
    assert not (server.work / "made").exists()


@pytest.mark.parametrize(
    ("decision", "made", "said"),
    [(once(), True, ""), (reject("not today"), False, "not today"), (instead(bash("echo no")), False, "no")],
)
async def test_decisions_of_toolgate(
    client: AsyncClient, server: Server, decision: Decision, made: bool, said: str
) -> None:
    tools = ToolgateTools(client)
    agent = await agent_of(tools, says(("bash", bash("touch made"))))
    stopped = await Runner.run(agent, "make it", run_config=CONFIG)
    ((_, prompt),) = await tools.prompts(stopped.interruptions)
    assert prompt is not None
    assert prompt.title
    state = await tools.resolve(stopped.to_state(), stopped.interruptions, lambda _: decision)
    run = await Runner.run(agent, state, run_config=CONFIG)
    (output,) = outputs(run)
    assert said in output
    assert (server.work / "made").exists() is made


async def test_what_was_approved_for_good_is_asked_about_again(client: AsyncClient, server: Server) -> None:
    """The SDK's `always_approve` is about a tool, whatever it does; nobody was shown the second command."""
    tools = ToolgateTools(client)
    first, second = (function_call("bash", bash(f"touch {name}"), call_id=name) for name in ("one", "two"))
    model = ScriptedModel(
        [ModelStep(output=[first]), ModelStep(output=[second]), ModelStep(output=[assistant_message("done")])]
    )
    agent = await agent_of(tools, model)
    stopped = await Runner.run(agent, "make them", run_config=CONFIG)
    state = stopped.to_state()
    state.approve(stopped.interruptions[0], always_approve=True)
    asked: list[str] = []

    def decide(prompt: Any) -> Decision:
        asked.append(prompt.permission.patterns[0])
        return once() if prompt.permission.patterns == ["touch one"] else instead(bash("echo other"))

    async with client.approvals(decide):
        run = await Runner.run(agent, state, run_config=CONFIG)
    assert asked == ["touch one", "touch two"]
    assert outputs(run)[-1].startswith("other\n")
    assert [(server.work / name).exists() for name in ("one", "two")] == [True, False]


async def test_what_is_always_approved_is_not_what_else_was_asked(client: AsyncClient, server: Server) -> None:
    tools = ToolgateTools(client)
    agent = await agent_of(tools, says(("bash", bash("touch one")), ("bash", bash("touch two"))))
    stopped = await Runner.run(agent, "make one", run_config=CONFIG)
    state = stopped.to_state()
    state.approve(stopped.interruptions[0], always_approve=True)
    asked: list[str] = []

    def decide(prompt: Any) -> Decision:
        asked.append(prompt.permission.patterns[0])
        return instead(bash("echo other"))

    going = asyncio.create_task(Runner.run(agent, state, run_config=CONFIG))
    # It would have ended long before.
    assert not (await asyncio.wait([going], timeout=2))[0]
    assert [(server.work / name).exists() for name in ("one", "two")] == [False, False]
    async with client.approvals(decide):
        run = await going
    assert run.final_output == "done"
    assert sorted(asked) == ["touch one", "touch two"]
    assert [(server.work / name).exists() for name in ("one", "two")] == [False, False]


async def test_what_is_rejected_elsewhere_is_refused_in_toolgate(client: AsyncClient, server: Server) -> None:
    model = says(("bash", bash("touch made")))
    stopped = await Runner.run(
        await agent_of(ToolgateTools(client, session="shared"), model), "make it", run_config=CONFIG
    )
    stored = json.loads(json.dumps(stopped.to_state().to_json()))
    async with AsyncClient(server.target) as other:
        agent = await agent_of(ToolgateTools(other, session="shared"), model)
        state = await RunState.from_json(agent, stored)
        for item in state.get_interruptions():
            state.reject(item, rejection_message="not today")
        await Runner.run(agent, state, run_config=CONFIG)
    (call,) = [one async for one in client.calls()]
    assert "not today" in (await client.watch(call.id).result()).error
    assert not (server.work / "made").exists()


@pytest.mark.permit(bash="ask", external_directory="ask")
async def test_what_else_a_call_asks_waits_for_an_approver(client: AsyncClient, outside: Path) -> None:
    tools = ToolgateTools(client)
    agent = await agent_of(tools, says(("bash", bash(f"cat {outside}"))))
    stopped = await Runner.run(agent, "look", run_config=CONFIG)
    state = stopped.to_state()
    state.approve(stopped.interruptions[0])
    ((_, first),) = await tools.prompts(stopped.interruptions)
    assert first is not None
    asked: list[str] = []

    def decide(prompt: Prompt) -> Decision | None:
        if prompt.id == first.id:
            return None
        asked.append(prompt.title)
        return once()

    async with client.approvals(decide):
        run = await Runner.run(agent, state, run_config=CONFIG)
    assert len(asked) == 1
    assert outputs(run) == ["from outside\n"]


async def test_pictures_are_shown(client: AsyncClient, picture: Path) -> None:
    agent = await agent_of(ToolgateTools(client), says(("read", {"filePath": str(picture)})))
    (output,) = outputs(await Runner.run(agent, "look", run_config=CONFIG))
    assert [one.type for one in output] == ["text", "image"]


async def test_failures_are_results(client: AsyncClient) -> None:
    agent = await agent_of(ToolgateTools(client), says(("read", {"filePath": "missing.txt"})))
    (output,) = outputs(await Runner.run(agent, "look", run_config=CONFIG))
    assert "missing.txt" in output


@pytest.mark.permit(bash="allow")
async def test_cancelling_the_run_cancels_the_call(client: AsyncClient) -> None:
    begun = asyncio.Event()

    def listen(event: Event) -> None:
        if event.kind == "output":
            begun.set()

    agent = await agent_of(ToolgateTools(client, on_event=listen), says(("bash", bash("echo begun; sleep 60"))))
    task = asyncio.create_task(Runner.run(agent, "wait", run_config=CONFIG))
    await asyncio.wait_for(begun.wait(), 20)
    task.cancel()
    await asyncio.wait([task])
    (call,) = [one async for one in client.calls()]
    ended = await asyncio.wait_for(client.watch(call.id).result(), 20)
    assert ended.reason is FailureReason.CANCELLED


def test_plain_programs(plain: Client, server: Server) -> None:
    tools = ToolgateTools(plain)
    agent = asyncio.run(agent_of(tools, says(("bash", bash("touch made")))))
    stopped = Runner.run_sync(agent, "make it", run_config=CONFIG)
    state = stopped.to_state()
    state.approve(stopped.interruptions[0])
    assert Runner.run_sync(agent, state, run_config=CONFIG).final_output == "done"
    assert (server.work / "made").exists()
