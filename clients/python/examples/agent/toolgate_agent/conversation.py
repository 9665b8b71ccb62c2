"""The loop: the model speaks, its calls are executed, it reads what came of them, and so on until it calls no more."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolgate import (
    CompletedEvent,
    FailedEvent,
    FailureReason,
    MetadataEvent,
    OutputEvent,
    Result,
    ResumedEvent,
    RunningEvent,
    ToolFailure,
    WaitingEvent,
    WarningEvent,
)

from toolgate_agent.model import Model, ModelError, Reply
from toolgate_agent.terminal import Terminal, visible

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolgate import AsyncClient, Event, SubagentRun, ToolContext

    from toolgate_agent.model import Json, ToolCall

_NO_RESULT = "The user stopped this call before it had a result."


@dataclass(frozen=True)
class Parts:
    """What all conversations of one program share. `host` is the name of the host that runs their subagents."""

    client: AsyncClient
    model: Model
    terminal: Terminal
    host: str


@dataclass(frozen=True)
class Role:
    """In whose name calls are made. `parent` is the call of `task` that a subagent works for."""

    agent: str
    session: str
    parent: str = ""


class Conversation:
    """One agent and what was said to it and by it."""

    def __init__(self, parts: Parts, role: Role, system: str, say: Callable[[str], Awaitable[None]]) -> None:
        self._parts = parts
        self._role = role
        self._say = say
        self._messages: list[Json] = [{"role": "system", "content": system}]

    async def turn(self, text: str, role: Role | None = None) -> str:
        """Has the agent work on a message until it is done, and returns its last text. May be cancelled."""
        self._role = role or self._role
        self._messages.append({"role": "user", "content": text})
        # Listed anew for each turn: MCP servers and hosts come and go.
        tools = await self._parts.client.tools(agent=self._role.agent, parent=self._role.parent).openai()
        while True:
            reply = await self._listen(tools)
            if not reply.calls or not await self._execute_all(reply.calls):
                return reply.text

    async def _listen(self, tools: list[dict[str, Any]]) -> Reply:
        reply = Reply()
        complete = False
        try:
            async with aclosing(self._parts.model.stream(self._messages, tools, reply)) as stream:
                async for text in stream:
                    await self._say(text)
            complete = True
        finally:
            # Calls of a message that broke off may lack a part.
            if not complete:
                reply.calls.clear()
            if reply.text or reply.calls:
                self._messages.append(reply.message())
        return reply

    async def _execute_all(self, calls: list[ToolCall]) -> bool:
        """Executes the calls of one message side by side. Returns whether the model is to go on."""
        results: dict[int, Result] = {}
        feedback: list[str] = []

        async def execute(index: int, call: ToolCall) -> None:
            results[index] = await self._execute(call, feedback)

        try:
            # Cancelled, it cancels every call and waits until their programs are gone.
            ends = await asyncio.gather(*(execute(*one) for one in enumerate(calls)), return_exceptions=True)
        finally:
            # Each call needs an answer, or the endpoint refuses the next request.
            for index, call in enumerate(calls):
                content = results[index].text if index in results else _NO_RESULT
                self._messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
        for end in ends:
            if end is not None:
                raise end
        # Who refuses and says nothing wants to be asked what to do; who says something has answered that.
        refused = any(one.reason is FailureReason.REJECTED for one in results.values())
        return not refused or any(feedback)

    async def _execute(self, call: ToolCall, feedback: list[str]) -> Result:
        role = self._role
        execution = self._parts.client.execute(
            call.name,
            call.arguments or "{}",  # as the model wrote it: the service explains to it what is no JSON
            agent=role.agent,
            session=role.session,
            parent=role.parent,
            extra={"host": self._parts.host},
            output="tail",
        )
        view = CallView(self._parts.terminal, call.name, is_nested=bool(role.parent))
        try:
            async with execution:
                async for event in execution:
                    view.show(event)
                    if isinstance(event, ResumedEvent):
                        feedback.append(event.resolution.message)
                return await execution.result()
        finally:
            view.close()


class CallView:
    """A call, as the person sees it: a line that changes while it runs, and one that stays."""

    def __init__(self, terminal: Terminal, name: str, *, is_nested: bool) -> None:
        self._terminal = terminal
        self._indent = "  " if is_nested else ""
        self._name = visible(name)
        self._title = self._output = ""

    def show(self, event: Event) -> None:
        """Shows what has become of it."""
        if isinstance(event, RunningEvent):
            self._title = event.title or _subject(event.input_json)
        elif isinstance(event, MetadataEvent):
            self._title = event.title or self._title
        elif isinstance(event, OutputEvent):
            self._output = (self._output + event.text)[-1000:]
        elif isinstance(event, WaitingEvent | ResumedEvent):
            self._output = "waits for an answer" if event.kind == "waiting" else ""
        elif isinstance(event, WarningEvent):
            self._stay(33, "!", event.text)
        elif isinstance(event, CompletedEvent):
            cut = " (shortened for the model)" if event.result.truncation.truncated else ""
            return self._stay(32, "✓", event.result.title + cut)
        elif isinstance(event, FailedEvent):
            return self._stay(31, "✗", f"{self._title}: {_first_line(event.result.error)}")
        else:
            return None
        tail = self._output.rstrip().rpartition("\n")[2]
        return self._terminal.running(self, self._line("…", f"{self._title}  {tail}"))

    def close(self) -> None:
        """Takes the line away that changes."""
        self._terminal.running(self, None)

    def _stay(self, code: int, mark: str, text: str) -> None:
        self._terminal.line(self._line(self._terminal.paint(code, mark), text))

    def _line(self, mark: str, text: str) -> str:
        return f"{self._indent}{mark} {self._name}  {visible(' '.join(text.split()))[:200]}"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _subject(input_json: str) -> str:
    """Returns what a call is about, for tools that give themselves a title only at the end."""
    values = json.loads(input_json)
    return values.get("description") or next((one for one in values.values() if isinstance(one, str)), "")


class Subagents:
    """Runs what the tool `task` starts: the service owns the tools, and whoever has the model runs the agents."""

    def __init__(self, parts: Parts, sessions: set[str], system: str) -> None:
        self._parts = parts
        self._sessions = sessions
        self._system = system
        self._known: dict[str, Conversation] = {}

    async def run(self, run: SubagentRun, context: ToolContext) -> str:
        """Runs a subagent, and returns its last text. It is cancelled with the call of `task`."""
        # Its calls have its own session and name the call of `task`, which bounds what they may do.
        role = Role(run.agent, run.session, run.call_id)
        self._sessions.add(run.session)
        if run.session not in self._known:
            system = run.agent_prompt or self._system
            # What it says is the output of `task` while it runs, for everybody who watches that call.
            self._known[run.session] = Conversation(self._parts, role, system, context.output)
        try:
            return await self._known[run.session].turn(run.prompt, role)
        except ModelError as error:
            raise ToolFailure(f"The subagent could not go on: {error}") from error
