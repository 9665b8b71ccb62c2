"""LangChain and LangGraph, with a model that says what a script says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, interrupt

from conftest import PNG, bash
from tests.conftest import Server
from toolgate import AsyncClient, CallState, Client, FailureReason, RpcError, once
from toolgate.adapters.langchain import atools, prompt_of, tools

THREAD: Any = {"configurable": {"thread_id": "a conversation"}}


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:  # noqa: ARG002 - the script has the calls
        return self


def says(*calls: tuple[str, dict[str, Any]], then: str = "done") -> Scripted:
    call = AIMessage("", tool_calls=[{"name": n, "args": a, "id": f"call_{i}"} for i, (n, a) in enumerate(calls)])
    return Scripted(messages=iter([call, AIMessage(then)]))


def asks(command: str) -> Any:
    return {"messages": [{"role": "user", "content": command}]}


def results(state: dict[str, Any]) -> list[ToolMessage]:
    return [one for one in state["messages"] if isinstance(one, ToolMessage)]


async def the_only_call(client: AsyncClient) -> Any:
    (call,) = [one async for one in client.calls()]
    return call


async def test_tools_are_told_as_they_are(client: AsyncClient) -> None:
    found = {one.name: one for one in await atools(client)}
    for definition in await client.tools():
        told = convert_to_openai_tool(found[definition.name])["function"]
        assert (told["name"], told["description"]) == (definition.name, definition.description)
        assert told["parameters"].get("properties", {}) == definition.input_schema.get("properties", {})


async def test_output_comes_while_it_runs(client: AsyncClient) -> None:
    agent = create_agent(says(("bash", bash("echo one; echo two"))), await atools(client), checkpointer=InMemorySaver())
    said = [one["toolgate"] async for one in agent.astream(asks("count"), THREAD, stream_mode="custom")]
    assert "".join(one.get("output", "") for one in said) == "one\ntwo\n"
    assert {one["tool_call_id"] for one in said} == {"call_0"}
    (result,) = results((await agent.aget_state(THREAD)).values)
    assert (result.status, result.content, result.artifact["exit_code"]) == ("success", "one\ntwo\n", 0)


@pytest.mark.parametrize(
    "reply",
    [
        True,
        "once",
        {"decision": "once"},
        {"decisions": [{"type": "approve"}]},
        {"decision": "always", "reach": "session"},
    ],
)
async def test_a_prompt_is_an_interrupt(client: AsyncClient, server: Server, reply: Any) -> None:
    saved = InMemorySaver()
    agent = create_agent(says(("bash", bash("touch made"))), await atools(client), checkpointer=saved)
    stopped = await agent.ainvoke(asks("make it"), THREAD)
    (interrupt,) = stopped["__interrupt__"]
    prompt = prompt_of(interrupt.value)
    assert prompt is not None
    assert (prompt["tool"], prompt["patterns"], prompt["tool_call_id"]) == ("bash", ["touch made"], "call_0")
    assert interrupt.value["action_requests"][0]["name"] == "bash"
    assert not (server.work / "made").exists()

    # Another program goes on with it.
    async with AsyncClient(server.target) as other:
        again = create_agent(Scripted(messages=iter([AIMessage("done")])), await atools(other), checkpointer=saved)
        state = await again.ainvoke(Command(resume=reply), THREAD)
    assert (server.work / "made").exists()
    assert [one.status for one in results(state)] == ["success"]
    call = await the_only_call(client)
    assert (call.session, call.state) == (prompt["session"], CallState.COMPLETED)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ({"decision": "reject", "message": "not today"}, "not today"),
        ({"decisions": [{"type": "reject", "message": "not today"}]}, "not today"),
        (False, "rejected"),
        ({"approve": "maybe"}, "not a decision"),
        ({"decision": "instead", "input": {"command": 7}}, "could not be taken"),
    ],
)
async def test_what_is_not_allowed_does_not_run(client: AsyncClient, server: Server, reply: Any, said: str) -> None:
    agent = create_agent(says(("bash", bash("touch made"))), await atools(client), checkpointer=InMemorySaver())
    await agent.ainvoke(asks("make it"), THREAD)
    (result,) = results(await agent.ainvoke(Command(resume=reply), THREAD))
    assert result.status == "error"
    assert said in str(result.content)
    assert not (server.work / "made").exists()


async def test_a_person_may_give_another_input(client: AsyncClient, server: Server) -> None:
    agent = create_agent(says(("bash", bash("touch made"))), await atools(client), checkpointer=InMemorySaver())
    await agent.ainvoke(asks("make it"), THREAD)
    edited = {"type": "edit", "edited_action": {"name": "bash", "args": bash("touch other")}}
    (result,) = results(await agent.ainvoke(Command(resume={"decisions": [edited]}), THREAD))
    assert result.status == "success"
    assert [(server.work / name).exists() for name in ("made", "other")] == [False, True]


@pytest.mark.parametrize("by_id", [False, True])
@pytest.mark.permit(bash="ask", external_directory="ask")
async def test_each_prompt_of_a_call_is_an_interrupt(client: AsyncClient, outside: Path, by_id: bool) -> None:
    agent = create_agent(says(("bash", bash(f"cat {outside}"))), await atools(client), checkpointer=InMemorySaver())
    stopped = await agent.ainvoke(asks("look"), THREAD)
    first = prompt_of(stopped["__interrupt__"][0].value)
    reply: Any = {stopped["__interrupt__"][0].id: "once"} if by_id else "once"
    stopped = await agent.ainvoke(Command(resume=reply), THREAD)
    second = prompt_of(stopped["__interrupt__"][0].value)
    assert first is not None
    assert second is not None
    assert {first["permission"], second["permission"]} == {"bash", "external_directory"}
    # LangGraph gives what was said about the first one once more.
    stopped = await agent.ainvoke(None, THREAD)
    again = prompt_of(stopped["__interrupt__"][0].value)
    assert again is not None
    assert again["id"] == second["id"]
    assert '"prompt"' in again["note"]
    reply = {stopped["__interrupt__"][0].id: "once"} if by_id else {"decision": "once", "prompt": second["id"]}
    (result,) = results(await agent.ainvoke(Command(resume=reply), THREAD))
    assert result.content == "from outside\n"
    await the_only_call(client)


async def test_calls_of_one_message_are_asked_about_each(client: AsyncClient, server: Server) -> None:
    calls = [("bash", bash(f"touch {name}")) for name in ("one", "two")]
    agent = create_agent(says(*calls), await atools(client), checkpointer=InMemorySaver())
    stopped = await agent.ainvoke(asks("make them"), THREAD)
    replies = {}
    for interrupt in stopped["__interrupt__"]:
        prompt = prompt_of(interrupt.value)
        assert prompt is not None
        other = {"decision": "instead", "input": bash("touch three")}
        replies[interrupt.id] = "once" if prompt["patterns"] == ["touch two"] else other
    assert len(replies) == 2
    state = await agent.ainvoke(Command(resume=replies), THREAD)
    assert [one.status for one in results(state)] == ["success", "success"]
    assert [(server.work / name).exists() for name in ("one", "two", "three")] == [False, True, True]


def by_hand(found: Sequence[Any], *calls: tuple[str, dict[str, Any]]) -> Any:
    """A graph whose node runs all calls of a message in one task."""
    made = AIMessage("", tool_calls=[{"name": n, "args": a, "id": f"call_{i}"} for i, (n, a) in enumerate(calls)])

    def model(state: MessagesState) -> dict[str, Any]:
        return {"messages": [made if len(state["messages"]) == 1 else AIMessage("done")]}

    graph = StateGraph(MessagesState)
    graph.add_node("agent", model)
    graph.add_node("tools", ToolNode(found))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", tools_condition)
    graph.add_edge("tools", "agent")
    return graph.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("is_named", [True, False])
async def test_a_decision_is_for_the_prompt_that_was_shown(
    client: AsyncClient, plain: Client, server: Server, is_named: bool
) -> None:
    """Also where several calls race for it, in one task."""
    in_threads, in_a_loop = tools(plain), await atools(client)
    for index in range(20):
        thread: Any = {"configurable": {"thread_id": f"conversation-{index}"}}
        calls = [("bash", bash(f"touch {name}{index}")) for name in ("yes", "no")]
        graph = by_hand(in_a_loop if index % 2 else in_threads, *calls)

        async def go_on(said: Any, graph: Any = graph, thread: Any = thread, index: int = index) -> Any:
            return await (graph.ainvoke(said, thread) if index % 2 else asyncio.to_thread(graph.invoke, said, thread))

        state = await go_on(asks("make one"))
        for _ in range(6):
            if "__interrupt__" not in state:
                break
            (stopped,) = state["__interrupt__"]
            prompt = prompt_of(stopped.value)
            assert prompt is not None
            # A refusal would refuse both: it is for all that a session waits for.
            other = {"decision": "instead", "input": bash("echo other")}
            reply: dict[str, Any] = {"decision": "once"} if prompt["patterns"] == [f"touch yes{index}"] else other
            state = await go_on(Command(resume={**reply, "prompt": prompt["id"]} if is_named else reply))
        assert str(results(state)[1].content).startswith("other\n")
        assert [(server.work / f"{name}{index}").exists() for name in ("yes", "no")] == [True, False]


async def test_a_decision_about_another_prompt_decides_nothing(client: AsyncClient, server: Server) -> None:
    graph = by_hand(await atools(client), ("bash", bash("touch one")))
    (first,) = (await graph.ainvoke(asks("make it"), THREAD))["__interrupt__"]
    (again,) = (await graph.ainvoke(Command(resume={"decision": "once", "prompt": "another"}), THREAD))["__interrupt__"]
    shown, now = prompt_of(first.value), prompt_of(again.value)
    assert shown is not None
    assert now is not None
    assert shown["id"] == now["id"]
    # What was said before is not taken up later.
    assert "__interrupt__" in await graph.ainvoke(None, THREAD)
    assert not (server.work / "one").exists()
    state = await graph.ainvoke(Command(resume={"decisions": [{"type": "approve"}], "prompt": now["id"]}), THREAD)
    assert [one.status for one in results(state)] == ["success"]
    assert (server.work / "one").exists()


def test_the_reply_to_another_tool_is_no_decision(plain: Client, server: Server) -> None:
    @tool
    def confirm(what: str) -> str:
        """Asks a person by itself."""
        return str(interrupt(what))

    for index in range(10):
        calls = [("confirm", {"what": "may I?"}), ("bash", bash(f"touch made{index}"))]
        graph = by_hand([*tools(plain), confirm], *calls)
        thread: Any = {"configurable": {"thread_id": f"conversation-{index}"}}
        (stopped,) = graph.invoke(asks("make it"), thread)["__interrupt__"]
        assert stopped.value == "may I?"
        graph.invoke(Command(resume=True), thread)
        graph.invoke(None, thread)
        assert not (server.work / f"made{index}").exists()


async def test_a_node_may_make_the_same_call_again(client: AsyncClient, server: Server) -> None:
    found = {one.name: one for one in await atools(client)}
    said: list[str] = []

    async def node(state: MessagesState) -> dict[str, Any]:
        del state
        said.clear()
        while len(said) < 2:
            said.append(str(await found["bash"].ainvoke(bash("echo once more | tee -a log"))))
        return {"messages": []}

    graph = StateGraph(MessagesState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    app = graph.compile(checkpointer=InMemorySaver())
    stopped: Any = await app.ainvoke(asks("say it"), THREAD)
    for _ in range(2):
        prompt = prompt_of(stopped["__interrupt__"][0].value)
        assert prompt is not None
        stopped = await app.ainvoke(Command(resume={"decision": "once", "prompt": prompt["id"]}), THREAD)
    assert "__interrupt__" not in stopped
    assert said == ["once more\n"] * 2
    assert (server.work / "log").read_text() == "once more\n" * 2


async def test_a_question_is_an_interrupt(client: AsyncClient) -> None:
    question = {"question": "Which?", "header": "Which", "options": [{"label": "A", "description": "first"}]}
    agent = create_agent(
        says(("question", {"questions": [question]})), await atools(client), checkpointer=InMemorySaver()
    )
    stopped = await agent.ainvoke(asks("ask"), THREAD)
    prompt = prompt_of(stopped["__interrupt__"][0].value)
    assert prompt is not None
    assert prompt["questions"][0]["question"] == "Which?"
    (result,) = results(await agent.ainvoke(Command(resume={"decision": "answer", "answers": ["A"]}), THREAD))
    assert "A" in str(result.content)


async def test_pictures_are_shown(client: AsyncClient, picture: Path) -> None:
    agent = create_agent(says(("read", {"filePath": str(picture)})), await atools(client))
    (result,) = results(await agent.ainvoke(asks("look")))
    assert isinstance(result.content, list)
    text, image = result.content
    assert isinstance(text, dict)
    assert isinstance(image, dict)
    assert (text["type"], image["type"], image["mime_type"]) == ("text", "image", "image/png")
    assert len(image["base64"]) >= len(PNG)


async def test_failures_are_results(client: AsyncClient) -> None:
    agent = create_agent(says(("read", {"filePath": "missing.txt"})), await atools(client))
    (result,) = results(await agent.ainvoke(asks("look")))
    assert result.status == "error"
    assert "missing.txt" in str(result.content)


@pytest.mark.permit(bash="allow")
async def test_cancelling_the_run_cancels_the_call(client: AsyncClient) -> None:
    command = "echo begun; echo on; sleep 60"
    agent = create_agent(says(("bash", bash(command))), await atools(client))
    begun = asyncio.Event()

    async def run() -> None:
        async for _ in agent.astream(asks("wait"), stream_mode="custom"):
            begun.set()

    task = asyncio.create_task(run())
    await asyncio.wait_for(begun.wait(), 20)
    task.cancel()
    await asyncio.wait([task])
    ended = await asyncio.wait_for(client.watch((await the_only_call(client)).id).result(), 20)
    assert ended.reason is FailureReason.CANCELLED


async def test_a_reply_comes_from_the_approver(guarded: Server) -> None:
    async with (
        AsyncClient(guarded.target, token="token-of-the-worker") as worker,
        AsyncClient(guarded.target, token="token-of-the-person") as person,
    ):
        for approver, allowed in ((None, False), (person, True)):
            model = says(("bash", bash(f"touch {allowed}")))
            agent = create_agent(model, await atools(worker, approver=approver), checkpointer=InMemorySaver())
            await agent.ainvoke(asks("make it"), THREAD)
            if allowed:
                await agent.ainvoke(Command(resume="once"), THREAD)
            else:
                with pytest.raises(RpcError, match=r"prompts\.reply"):
                    await agent.ainvoke(Command(resume="once"), THREAD)
            assert (guarded.work / str(allowed)).exists() is allowed


def test_plain_programs(plain: Client, server: Server) -> None:
    agent = create_agent(says(("bash", bash("touch made"))), tools(plain), checkpointer=InMemorySaver())
    stopped = agent.invoke(asks("make it"), THREAD)
    assert prompt_of(stopped["__interrupt__"][0].value)
    (result,) = results(agent.invoke(Command(resume="once"), THREAD))
    assert result.status == "success"
    assert (server.work / "made").exists()


async def test_a_plain_client_in_a_loop(plain: Client, server: Server) -> None:
    agent = create_agent(says(("bash", bash("touch made"))), await atools(plain), checkpointer=InMemorySaver())
    await agent.ainvoke(asks("make it"), THREAD)
    (result,) = results(await agent.ainvoke(Command(resume="once"), THREAD))
    assert result.status == "success"
    assert (server.work / "made").exists()


async def test_outside_of_a_graph_a_call_waits_for_an_approver(client: AsyncClient, server: Server) -> None:
    found = {one.name: one for one in await atools(client)}
    async with client.approvals(lambda _: once()):
        assert await found["bash"].ainvoke(bash("touch made")) is not None
    assert (server.work / "made").exists()
