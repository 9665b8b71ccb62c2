"""Toolgate's tools for the OpenAI Agents SDK.

A call that has to ask a person is an *interruption* of the run. `prompts` says what is asked, and `resolve` brings
decisions to Toolgate and to the run's state. Plain decisions do as well: `state.approve(item)` allows the call once,
and `state.reject(item)` refuses it when the run goes on. `always_approve` reaches no further than the SDK: what nobody
was shown waits for an approver.

*Invariant:* an approval is for the prompt that the run was stopped for, and of that very call, not of its tool. What
else the call asks waits for an approver.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agents import (
    FunctionTool,
    RunContextWrapper,
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
)
from agents.items import ToolApprovalItem
from agents.tool_context import ToolContext

from toolgate._ids import uuid7
from toolgate.adapters._calls import PROMPTS, AnyClient, CallOptions, Calls, Run, call_id_of
from toolgate.forms import is_image, is_pdf, text_of
from toolgate.prompts import Decision, Prompt, once, reject
from toolgate.results import Attachment, Result

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from agents import RunState
    from typing_extensions import Unpack

    from toolgate.definitions import ToolDefinition
    from toolgate.events import Event

__all__ = ["Decide", "OnEvent", "ToolgateTools"]

Decide = Callable[[Prompt], "Decision | Awaitable[Decision | None] | None"]
"""Decides about a prompt, as a handler of `Client.approvals` does; `None` leaves it to others."""

OnEvent = Callable[["Event"], None]
"""Is told what happens to running calls: their output, for instance. The SDK has no stream for it."""


@dataclass(frozen=True)
class _Waiting:
    tool: str
    call_id: str
    prompt: Prompt


class ToolgateTools:
    """The tools of a Toolgate server.

    Args:
        client: Makes the calls. A `Client` works in any event loop, an `AsyncClient` in that of the run only.
        approver: The client that replies to prompts, where `client` may not.
        on_event: Is told what happens to calls while they run.
        **options: In whose name calls are made. Without a `session`, and if the client has none, these tools have one
            of their own; a run that goes on in another process needs one that both name.
    """

    def __init__(
        self,
        client: AnyClient,
        *,
        approver: AnyClient | None = None,
        on_event: OnEvent | None = None,
        **options: Unpack[CallOptions],
    ) -> None:
        self._calls = Calls(client, approver, options)
        self._session = self._calls.session or f"openai-agents-{uuid7()}"
        self._on_event = on_event
        # What runs were stopped for, by the ids of the model.
        self._waiting: dict[str, _Waiting] = {}
        # What was refused in the SDK, and is in Toolgate.
        self._refused: set[str] = set()

    async def tools(self) -> list[FunctionTool]:
        """Returns the tools for `Agent(tools=…)`."""
        return [self._tool(one) for one in await self._calls.tools()]

    async def prompts(self, interruptions: Iterable[ToolApprovalItem]) -> list[tuple[ToolApprovalItem, Prompt | None]]:
        """Returns what each interruption waits for; `None` if it is not Toolgate's, or does not wait any more."""
        return [(item, await self._prompt(item)) for item in interruptions]

    async def resolve(
        self, state: RunState[Any], interruptions: Iterable[ToolApprovalItem], decide: Decide
    ) -> RunState[Any]:
        """Asks about what a run was stopped for, and returns its state, to go on with.

        What `decide` leaves to others stays an interruption. Interruptions of other tools are not touched.

        Args:
            state: The state of the run.
            interruptions: What it was stopped for.
            decide: Decides about each prompt.
        """
        for item in interruptions:
            prompt = await self._prompt(item)
            if prompt is None:
                continue
            decided = decide(prompt)
            decision = await decided if inspect.isawaitable(decided) else decided
            if decision is not None:
                await self._calls.here(self._calls.reply(prompt, decision))
                self._waiting.pop(item.call_id or "", None)
                # The call goes on by itself, whatever was decided; the run only comes back for its result.
                state.approve(item)
        return state

    def _tool(self, definition: ToolDefinition) -> FunctionTool:
        name = definition.name

        async def needs_approval(_: RunContextWrapper[Any], arguments: dict[str, Any], call_id: str) -> bool:
            return await self._begin(name, json.dumps(arguments), call_id)

        async def invoke(context: ToolContext[Any], arguments: str) -> Any:
            call_id = context.tool_call_id
            return await self._finish(name, _same(arguments), call_id, is_approved=call_id in _decided(context)[0])

        async def is_enabled(context: RunContextWrapper[Any], _: object) -> bool:
            # The SDK looks at this before each turn of the model, and so after each refusal.
            await self._pass_refusals_on(context)
            return True

        return FunctionTool(
            name=name,
            description=definition.description,
            params_json_schema=definition.input_schema,
            on_invoke_tool=invoke,
            strict_json_schema=False,
            is_enabled=is_enabled,
            needs_approval=needs_approval,
        )

    async def _begin(self, name: str, arguments: str, tool_call_id: str) -> bool:
        """Begins a call that may ask, which the tool takes up when it is invoked. Says whether it waits for one."""
        if not await self._calls.here(self._calls.may_ask(name, arguments, self._session)):
            return False
        run = self._start(name, arguments, tool_call_id)
        try:
            stop = await self._stop(run)
            if isinstance(stop, Result):
                return False
            # What was shown first is what an approval is for.
            self._waiting.setdefault(tool_call_id, _Waiting(name, run.call_id, stop))
            run.detach()
            return True
        finally:
            await self._calls.here(run.leave())

    async def _finish(self, name: str, arguments: str, tool_call_id: str, *, is_approved: bool) -> Any:
        waiting = self._waiting.pop(tool_call_id, None)
        call_id = self._call_id(name, arguments, tool_call_id)
        # A run that another process stopped was stopped for the first prompt of the call, or the call does not wait.
        first = waiting is None and await self._calls.here(self._calls.open_prompt(call_id)) is not None
        run = self._start(name, arguments, tool_call_id)
        try:
            while True:
                stop = await self._stop(run)
                if isinstance(stop, Result):
                    return _output(stop)
                is_shown = (waiting is not None and waiting.prompt.id == stop.id) or (first and run.prompts == 1)
                if is_shown and is_approved:
                    await self._calls.here(run.reply(stop, once()))
        finally:
            await self._calls.here(run.leave())

    async def _stop(self, run: Run) -> Prompt | Result:
        while True:
            step = await self._calls.here(run.open_step())
            if isinstance(step, (Result, *PROMPTS)):
                return step
            if self._on_event is not None:
                self._on_event(step)

    async def _prompt(self, item: ToolApprovalItem) -> Prompt | None:
        name, arguments, tool_call_id = item.name, item.arguments, item.call_id
        if name is None or arguments is None or tool_call_id is None:
            return None
        call_id = self._call_id(name, _same(arguments), tool_call_id)
        prompt = await self._calls.here(self._calls.open_prompt(call_id))
        if prompt is not None:
            self._waiting[tool_call_id] = _Waiting(name, call_id, prompt)
        return prompt

    async def _pass_refusals_on(self, context: RunContextWrapper[Any]) -> None:
        """Refuses in Toolgate what was refused in the SDK, which does not invoke the tool then."""
        for tool_call_id, waiting in list(self._waiting.items()):
            if context.is_tool_approved(waiting.tool, tool_call_id) is False:
                del self._waiting[tool_call_id]
                await self._refuse(context, tool_call_id, waiting.prompt)
        # What another process has stopped is known by the beginning of its id.
        unknown = _decided(context)[1] - self._refused
        if not unknown:
            return
        for prompt in await self._calls.here(self._calls.open_prompts(self._session)):
            begins = {self._call_begins(prompt.tool, one): one for one in unknown}
            tool_call_id = begins.get(prompt.call_id.rpartition("-")[0], "")
            if tool_call_id:
                await self._refuse(context, tool_call_id, prompt)
        self._refused |= unknown

    async def _refuse(self, context: RunContextWrapper[Any], tool_call_id: str, prompt: Prompt) -> None:
        self._refused.add(tool_call_id)
        message = context.get_rejection_message(prompt.tool, tool_call_id) or ""
        await self._calls.here(self._calls.reply(prompt, reject(message)))

    def _start(self, name: str, arguments: str, tool_call_id: str) -> Run:
        return self._calls.start(name, arguments, self._call_id(name, arguments, tool_call_id), self._session)

    def _call_id(self, name: str, arguments: str, tool_call_id: str) -> str:
        return call_id_of(self._call_begins(name, tool_call_id), arguments)

    def _call_begins(self, name: str, tool_call_id: str) -> str:
        return call_id_of("openai-agents", self._session, tool_call_id, name)


def _decided(context: RunContextWrapper[Any]) -> tuple[set[str], set[str]]:
    """Returns the calls that were approved and rejected themselves, not by a decision about all calls of their tool.

    The SDK does not tell the two apart. If it keeps them in another way one day, nothing counts as approved.
    """
    approved: set[str] = set()
    rejected: set[str] = set()
    for record in getattr(context, "_approvals", {}).values():
        for kept, said in (("approved", approved), ("rejected", rejected)):
            ids = getattr(record, kept, None)
            said.update(ids if isinstance(ids, list) else ())
    return approved, rejected


def _same(arguments: str) -> str:
    """Writes arguments in one way, since the SDK hands them over read here and as text there."""
    try:
        return json.dumps(json.loads(arguments))
    except ValueError:
        return arguments


def _output(result: Result) -> Any:
    text = text_of(result, _is_carried)
    files = [_file(one) for one in result.attachments if _is_carried(one)]
    return [ToolOutputText(text=text), *files] if files else text


def _is_carried(attachment: Attachment) -> bool:
    return is_image(attachment) or is_pdf(attachment)


def _file(attachment: Attachment) -> ToolOutputImage | ToolOutputFileContent:
    if is_image(attachment):
        return ToolOutputImage(image_url=attachment.link)
    if attachment.base64 is None:
        return ToolOutputFileContent(file_url=attachment.link)
    return ToolOutputFileContent(file_data=attachment.link, filename=attachment.filename or "file.pdf")
