"""Toolgate's tools for LangChain and LangGraph.

A call that has to ask a person is an *interrupt* of LangGraph, and the value of `Command(resume=…)` is the reply. The
graph needs a checkpointer, as for any interrupt. Outside of a graph nobody can be asked that way: the call waits for an
approver.

*Invariant:* an interrupt for each prompt of a call, in their order, since LangGraph finds answers by counting; and a
decision is taken for the prompt that it names, or that the graph was stopped for (`_langgraph`), never by the count.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, ToolException
from pydantic import PrivateAttr

from toolgate._ids import uuid7
from toolgate.adapters._calls import PROMPTS, AnyClient, CallOptions, Calls, Run, call_id_of, session_of
from toolgate.adapters._content import facts_of
from toolgate.adapters._langgraph import Saved, Task, count
from toolgate.adapters._people import decision_of, description_of, prompt_json
from toolgate.events import MetadataEvent, OutputEvent
from toolgate.forms import is_image, is_pdf, text_of
from toolgate.prompts import PermissionPrompt, Prompt, QuestionPrompt, answer, instead, once, reject
from toolgate.results import Attachment, Result

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from typing_extensions import Unpack

    from toolgate._json import JsonObject
    from toolgate.definitions import ToolDefinition
    from toolgate.events import Event

__all__ = ["ToolgateTool", "atools", "prompt_of", "tools"]

Steps: TypeAlias = Generator["Coroutine[Any, Any, Any] | Saved", Any, Any]
"""What a tool does: it yields what is to be awaited, and returns its output. So it is written once for both kinds."""


class _Invocation:
    """One invocation of a tool by LangChain."""

    def __init__(self, tool_call_id: str | None, config: RunnableConfig | None) -> None:
        configured: Mapping[str, Any] = (config or {}).get("configurable") or {}
        self.configurable = configured
        self.tool_call_id = tool_call_id or ""
        # LangGraph's name for the task, which stays the same when a graph is resumed. Elsewhere there is none.
        self.task = str(configured.get("checkpoint_ns") or "")
        self.thread = str(configured.get("thread_id") or "")

    def count(self, call_id: str) -> str:
        """Makes another id for each call that a node makes of itself: no call of the model tells them apart."""
        times = count(self.configurable, call_id) if not self.tool_call_id else 0
        if times is None:
            self.task = ""
            return uuid7()
        return f"{call_id}-{times}" if times else call_id


_invocation: ContextVar[_Invocation | None] = ContextVar("toolgate_invocation", default=None)


def tools(
    client: AnyClient, *, approver: AnyClient | None = None, **options: Unpack[CallOptions]
) -> list[ToolgateTool]:
    """Returns the tools, for plain programs.

    Args:
        client: A `Client`, whose tools work in `invoke` and in `ainvoke`.
        approver: The client that replies to prompts, where `client` may not.
        **options: In whose name calls are made. Without a `session`, and if the client has none, it is the thread of
            the graph.
    """
    calls = Calls(client, approver, options)
    return [_tool(calls, one) for one in calls.wait(calls.listed())]


async def atools(
    client: AnyClient, *, approver: AnyClient | None = None, **options: Unpack[CallOptions]
) -> list[ToolgateTool]:
    """Returns the tools, for asyncio; those of an `AsyncClient` work in `ainvoke` and `astream` only.

    Args:
        client: Makes the calls.
        approver: The client that replies to prompts, where `client` may not.
        **options: As for `tools`.
    """
    calls = Calls(client, approver, options)
    return [_tool(calls, one) for one in await calls.tools()]


def prompt_of(value: object) -> JsonObject | None:
    """Returns the prompt that the value of an interrupt is about; `None` for one that is not Toolgate's."""
    shown = value.get("toolgate") if isinstance(value, Mapping) else None
    return dict(shown) if isinstance(shown, Mapping) else None


class ToolgateTool(BaseTool):
    """A tool of Toolgate. Made by `tools` and `atools`."""

    handle_tool_error: Any = True
    _calls: Calls = PrivateAttr()

    def _run(self, /, *_: Any, **arguments: Any) -> Any:
        steps = self._steps(arguments)
        wait = self._calls.wait
        try:
            work = next(steps)
            while True:
                try:
                    done = work.read() if isinstance(work, Saved) else wait(work)
                except BaseException as error:
                    work = steps.throw(error)
                else:
                    work = steps.send(done)
        except StopIteration as end:
            return end.value

    async def _arun(self, /, *_: Any, **arguments: Any) -> Any:
        steps = self._steps(arguments)
        here = self._calls.here
        try:
            work = next(steps)
            while True:
                try:
                    done = await (work.aread() if isinstance(work, Saved) else here(work))
                except BaseException as error:
                    work = steps.throw(error)
                else:
                    work = steps.send(done)
        except StopIteration as end:
            return end.value

    def run(self, *arguments: Any, **options: Any) -> Any:
        """Runs the tool, as LangChain does."""
        token = _invocation.set(_Invocation(options.get("tool_call_id"), options.get("config")))
        try:
            return super().run(*arguments, **options)
        finally:
            _invocation.reset(token)

    async def arun(self, *arguments: Any, **options: Any) -> Any:
        """Runs the tool, as LangChain does."""
        token = _invocation.set(_Invocation(options.get("tool_call_id"), options.get("config")))
        try:
            return await super().arun(*arguments, **options)
        finally:
            _invocation.reset(token)

    def _steps(self, arguments: dict[str, Any]) -> Steps:
        invocation = _invocation.get() or _Invocation(None, None)
        session = self._calls.session or session_of(invocation.thread)
        call_id = uuid7()
        if invocation.task:
            call_id = invocation.count(
                call_id_of("langgraph", session, invocation.task, invocation.tool_call_id, self.name, arguments)
            )
        run = self._calls.start(self.name, arguments, call_id, session)
        tell = self._teller(invocation, run.call_id)
        try:
            while True:
                step: Event | Prompt | Result = yield run.step()
                if isinstance(step, Result):
                    return self._output(step, invocation)
                if not isinstance(step, PROMPTS):
                    tell(step)
                elif invocation.task:
                    decision = yield from _asked(step, invocation, run)
                    if decision is not None:
                        yield run.reply(step, decision)
        finally:
            yield run.leave()

    def _output(self, result: Result, invocation: _Invocation) -> Any:
        content: list[Any] = [{"type": "text", "text": text_of(result, _is_carried)}]
        content += [_block(one) for one in result.attachments if _is_carried(one)]
        plain = content[0]["text"]
        if not invocation.tool_call_id:
            if not result.ok:
                raise ToolException(plain)
            return content if len(content) > 1 else plain
        return ToolMessage(
            content if len(content) > 1 else plain,
            tool_call_id=invocation.tool_call_id,
            name=self.name,
            status="success" if result.ok else "error",
            artifact=facts_of(result),
        )

    def _teller(self, invocation: _Invocation, call_id: str) -> Callable[[Event], None]:
        """Returns what tells LangGraph's stream `custom` of progress."""
        write = _writer() if invocation.task else None

        def tell(event: Event) -> None:
            said = {"call_id": call_id, "tool_call_id": invocation.tool_call_id, "tool": self.name}
            if isinstance(event, OutputEvent):
                said["output"] = event.text
            elif isinstance(event, MetadataEvent) and event.title:
                said["title"] = event.title
            else:
                return
            if write is not None:
                write({"toolgate": said})

        return tell


def _tool(calls: Calls, definition: ToolDefinition) -> ToolgateTool:
    tool = ToolgateTool(
        name=definition.name,
        description=definition.description,
        args_schema=definition.input_schema,
        metadata={
            "toolgate": {"source": definition.source.value, "effects": [one.value for one in definition.effects]}
        },
    )
    tool._calls = calls
    return tool


def _writer() -> Callable[[Any], None] | None:
    from langgraph.config import get_stream_writer

    try:
        return get_stream_writer()
    except (RuntimeError, KeyError):
        # In Python 3.10 a task does not know the graph that it belongs to.
        return None


def _asked(prompt: Prompt, invocation: _Invocation, run: Run) -> Steps:
    """Interrupts the graph, or returns what its resumption said about this prompt; `None` if somebody else decided."""
    from langgraph.errors import GraphBubbleUp

    is_question = isinstance(prompt, QuestionPrompt)
    allowed = ["respond", "reject"] if is_question else ["approve", "reject"]
    if isinstance(prompt, PermissionPrompt) and prompt.editable:
        allowed.insert(1, "edit")
    arguments = prompt.input if isinstance(prompt, PermissionPrompt) and prompt.input is not None else {}
    value = {
        # What LangChain's own middleware for people says, so that pages made for it can show this.
        "action_requests": [{"name": prompt.tool, "args": arguments, "description": description_of(prompt)}],
        "review_configs": [{"action_name": prompt.tool, "allowed_decisions": allowed}],
        "toolgate": {**prompt_json(prompt), "tool_call_id": invocation.tool_call_id},
    }
    is_open = yield run.is_open(prompt)
    task = Task()
    try:
        if not is_open:
            task.pass_one(value)
            return None
        said = task.answer(value, (yield task.saved) if task.is_resumed else None)
    except GraphBubbleUp:
        run.detach()
        raise
    try:
        return decision_of(_plain(said), prompt)
    except ValueError as error:
        # LangGraph gives the same value again whenever the graph goes on, so nothing better will come.
        return reject(f"The reply to the prompt was {error}")


def _plain(said: object) -> object:
    """Reads the decisions of LangChain's own middleware for people; what is none of them stays as it is."""
    if isinstance(said, Mapping) and isinstance(said.get("decisions"), list) and len(said["decisions"]) == 1:
        said = said["decisions"][0]
    kind = said.get("type") if isinstance(said, Mapping) else None
    if not isinstance(said, Mapping) or kind is None:
        return said
    if kind == "approve":
        return once()
    if kind == "reject":
        return reject(str(said.get("message") or ""))
    if kind == "respond":
        return answer(str(said.get("message") or ""))
    edited = said.get("edited_action")
    if kind == "edit" and isinstance(edited, Mapping) and isinstance(edited.get("args"), Mapping):
        return instead(edited["args"])
    return said


def _is_carried(attachment: Attachment) -> bool:
    return is_image(attachment) or (is_pdf(attachment) and attachment.base64 is not None)


def _block(attachment: Attachment) -> JsonObject:
    kind = "image" if is_image(attachment) else "file"
    if attachment.base64 is not None:
        return {"type": kind, "base64": attachment.base64, "mime_type": attachment.mime}
    return {"type": kind, "url": attachment.link, "mime_type": attachment.mime}
