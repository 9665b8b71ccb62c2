"""Toolgate's tools as a toolset of Pydantic AI.

A call that has to ask a person is a *deferred* tool call: the run ends with `DeferredToolRequests` (an output type that
the agent has to have), whose `metadata` has the prompt, and goes on with `DeferredToolResults`. `resolve` makes them of
Toolgate's decisions, also within a run (`HandleDeferredToolCalls`). Plain results do as well: `True` and `ToolApproved`
allow the call once, `override_args` lets it run with other arguments, `False` and `ToolDenied` refuse it.

*Invariant:* an approval is for the prompt that the run was stopped for. If the call asks something else meanwhile, the
run stops again. What has not this toolset's mark, `toolgate` in the metadata, is never approved here.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_ai import (
    ApprovalRequired,
    BinaryContent,
    CustomEvent,
    DeferredToolRequests,
    DeferredToolResults,
    ImageUrl,
    RunContext,
    ToolApproved,
    ToolDefinition,
    ToolFailed,
    ToolReturn,
)
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from toolgate.adapters._calls import PROMPTS, AnyClient, CallOptions, Calls, Run, call_id_of, session_of
from toolgate.adapters._content import facts_of
from toolgate.adapters._people import prompt_json
from toolgate.errors import ToolgateError
from toolgate.events import MetadataEvent, OutputEvent
from toolgate.forms import is_image, is_pdf, text_of
from toolgate.prompts import Decision, PermissionPrompt, Prompt, instead, once, reject
from toolgate.results import Attachment, Result

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from typing_extensions import Unpack

    from toolgate._json import JsonObject

__all__ = ["Decide", "ToolgateOutput", "ToolgateToolset"]

Decide = Callable[[Prompt], "Decision | Awaitable[Decision | None] | None"]
"""Decides about a prompt, as a handler of `Client.approvals` does; `None` leaves it to others."""

_log = logging.getLogger("toolgate")

_FIRST = "first"

# Toolgate checks what the model wrote, and says what is wrong with it.
_ANYTHING = SchemaValidator(core_schema.dict_schema())


@dataclass(kw_only=True)
class ToolgateOutput(CustomEvent):
    """What a running call has printed, or its new title, in the agent's stream of events.

    Attributes:
        call_id: The call.
        text: A piece of its output; empty if the title has changed.
        title: The title; empty if it has not changed.
    """

    call_id: str
    text: str = ""
    title: str = ""


class ToolgateToolset(AbstractToolset[Any]):
    """The tools of a Toolgate server.

    Args:
        client: Makes the calls. A `Client` works in any event loop, an `AsyncClient` in that of the agent only.
        approver: The client that replies to prompts, where `client` may not.
        id: The name of the toolset, for durable execution, and to tell its calls from those of other toolsets: two in
            one agent need two names.
        **options: In whose name calls are made. Without a `session`, and if the client has none, it is the conversation
            of the run.
    """

    def __init__(
        self,
        client: AnyClient,
        *,
        approver: AnyClient | None = None,
        id: str | None = "toolgate",  # noqa: A002 - the word of Pydantic AI
        **options: Unpack[CallOptions],
    ) -> None:
        self._calls = Calls(client, approver, options)
        self._id = id
        # What runs of this process were stopped for: the prompt of each call.
        self._shown: dict[str, str] = {}
        # The arguments that they began with, which are not always what the model wrote.
        self._begun: dict[str, dict[str, Any]] = {}
        # And the calls, by the model's ids of them.
        self._stopped: dict[str, str] = {}

    @property
    def id(self) -> str | None:
        """The name of the toolset."""
        return self._id

    @property
    def _mark(self) -> JsonObject:
        return {"toolset": self._id}

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Lists the tools, at each step of a run."""
        definitions = await self._calls.tools()
        await self._pass_denials_on(ctx, {one.name for one in definitions})
        return {
            one.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=one.name,
                    description=one.description,
                    parameters_json_schema=one.input_schema,
                    metadata={"source": one.source.value, "effects": [effect.value for effect in one.effects]},
                ),
                max_retries=max(ctx.max_retries, 1),
                args_validator=_ANYTHING,
            )
            for one in definitions
        }

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[Any],
        tool: ToolsetTool[Any],  # noqa: ARG002 - what the framework hands over
    ) -> Any:
        """Runs a call, or goes on with it.

        Raises:
            ApprovalRequired: It waits for a person.
            ToolFailed: It failed; the text is for the model.
        """
        call = _call_of(ctx, ctx.tool_call_id or "")
        # What the model wrote makes the id: toolsets around this one, and people, may change the arguments.
        given = _arguments(call) if call is not None else tool_args
        session = self._session(ctx)
        call_id = self._call_id(ctx, session, name, given)
        calls = self._calls
        self._stopped.pop(ctx.tool_call_id or "", None)
        shown = await self._shown_before(call_id, ctx)
        # An approved call may have begun, and what it began with is not to be begun again with anything else.
        has_begun = ctx.tool_call_approved and await calls.here(calls.exists(call_id))
        run = calls.follow(call_id) if has_begun else calls.start(name, tool_args, call_id, session)
        begun = self._begun.pop(call_id, given) if has_begun else tool_args
        try:
            while True:
                stop = await self._stop(run, ctx)
                if isinstance(stop, Result):
                    return _returned(stop)
                if stop.id != shown and not (shown == _FIRST and run.prompts == 1):
                    run.detach()
                    self._shown[call_id] = stop.id
                    self._begun[call_id] = begun
                    self._stopped[ctx.tool_call_id or ""] = call_id
                    raise ApprovalRequired(metadata={**prompt_json(stop), "toolgate": self._mark})
                is_same = tool_args == begun or (isinstance(stop, PermissionPrompt) and tool_args == stop.input)
                decision = once() if is_same else instead(tool_args)
                await calls.here(run.reply(stop, decision))
                shown = ""
        finally:
            await calls.here(run.leave())

    async def resolve(self, requests: DeferredToolRequests, decide: Decide) -> DeferredToolResults:
        """Asks about what a run was stopped for, and returns what it goes on with.

        Calls of other toolsets are left out, and so is what `decide` leaves to others: a run cannot go on without them,
        but the same requests can be resolved again.

        Args:
            requests: The output of the run.
            decide: Decides about each prompt, also about those that come up after the first one of a call.
        """
        approvals: dict[str, bool | ToolApproved | Any] = {}
        for one in requests.approvals:
            shown = requests.metadata.get(one.tool_call_id, {})
            call_id = shown.get("call_id")
            if shown.get("toolgate") != self._mark or not isinstance(call_id, str):
                continue
            if await self._resolve(call_id, decide):
                # The call goes on by itself, whatever was decided; the run only comes back for its result.
                approvals[one.tool_call_id] = ToolApproved()
        return requests.build_results(approvals=approvals, metadata={name: {"id": ""} for name in approvals})

    async def _resolve(self, call_id: str, decide: Decide) -> bool:
        prompt = await self._calls.here(self._calls.open_prompt(call_id))
        if prompt is None:
            # Somebody else decided; if there is no such call, nothing was.
            return await self._calls.here(self._calls.exists(call_id))
        decided = decide(prompt)
        decision = await decided if inspect.isawaitable(decided) else decided
        if decision is None:
            return False
        await self._calls.here(self._calls.reply(prompt, decision))
        return True

    async def _shown_before(self, call_id: str, ctx: RunContext[Any]) -> str:
        """Returns the id of the prompt that an approval is for: `_FIRST` for the call's first one, empty for none."""
        if not ctx.tool_call_approved:
            return ""
        metadata = ctx.tool_call_metadata
        named = metadata.get("id") if isinstance(metadata, Mapping) else None
        if isinstance(named, str):
            return named
        if call_id in self._shown:
            return self._shown.pop(call_id)
        # The run was stopped by another process. A call that does not wait was not what it was stopped for.
        waits = await self._calls.here(self._calls.open_prompt(call_id))
        return _FIRST if waits is not None else ""

    async def _stop(self, run: Run, ctx: RunContext[Any]) -> Prompt | Result:
        while True:
            step = await self._calls.here(run.open_step())
            if isinstance(step, OutputEvent):
                await ctx.emit(ToolgateOutput(call_id=step.call_id, text=step.text))
            elif isinstance(step, MetadataEvent):
                if step.title:
                    await ctx.emit(ToolgateOutput(call_id=step.call_id, title=step.title))
            elif isinstance(step, (Result, *PROMPTS)):
                return step

    async def _pass_denials_on(self, ctx: RunContext[Any], names: set[str]) -> None:
        """Refuses in Toolgate what was denied in the framework, which does not run the tool then."""
        last = ctx.messages[-1] if ctx.messages else None
        for part in last.parts if isinstance(last, ModelRequest) else ():
            if not isinstance(part, ToolReturnPart) or part.outcome != "denied":
                continue
            call = _call_of(ctx, part.tool_call_id)
            # Toolsets around this one may have given the tool another name, which only this process can know.
            call_id = self._stopped.pop(part.tool_call_id, "")
            if not call_id and call is not None and part.tool_name in names:
                call_id = self._call_id(ctx, self._session(ctx), part.tool_name, _arguments(call), part.tool_call_id)
            if not call_id:
                continue
            try:
                prompt = await self._calls.here(self._calls.open_prompt(call_id))
                if prompt is not None:
                    await self._calls.here(self._calls.reply(prompt, reject(str(part.content))))
            except ToolgateError as error:
                # Nothing was allowed, so the call waits until its prompt expires.
                _log.warning("call %s was denied, and still waits: %s", call_id, error)

    def _session(self, ctx: RunContext[Any]) -> str:
        return self._calls.session or session_of(ctx.conversation_id or "")

    def _call_id(
        self, ctx: RunContext[Any], session: str, name: str, given: Mapping[str, Any], tool_call_id: str | None = None
    ) -> str:
        wanted = tool_call_id or ctx.tool_call_id or ""
        response = _response_of(ctx, wanted)
        # Ids of tool calls are not always unique in a conversation; the message that made the call is.
        moment = response.timestamp.isoformat() if response is not None else ""
        return call_id_of("pydantic-ai", session, moment, wanted, name, given)


def _response_of(ctx: RunContext[Any], tool_call_id: str) -> ModelResponse | None:
    for message in reversed(ctx.messages):
        if isinstance(message, ModelResponse) and _part_of(message, tool_call_id) is not None:
            return message
    return None


def _call_of(ctx: RunContext[Any], tool_call_id: str) -> ToolCallPart | None:
    response = _response_of(ctx, tool_call_id)
    return _part_of(response, tool_call_id) if response is not None else None


def _part_of(response: ModelResponse, tool_call_id: str) -> ToolCallPart | None:
    calls = (part for part in response.parts if isinstance(part, ToolCallPart))
    return next((part for part in calls if part.tool_call_id == tool_call_id), None)


def _arguments(call: ToolCallPart) -> dict[str, Any]:
    return call.args_as_dict()


def _returned(result: Result) -> ToolReturn[Any]:
    text = text_of(result, _is_carried)
    if not result.ok:
        raise ToolFailed(text)
    files = [_file(one) for one in result.attachments if _is_carried(one)]
    return ToolReturn([text, *files] if files else text, metadata=facts_of(result))


def _is_carried(attachment: Attachment) -> bool:
    return is_image(attachment) or (is_pdf(attachment) and attachment.data is not None)


def _file(attachment: Attachment) -> BinaryContent | ImageUrl:
    if attachment.data is not None:
        return BinaryContent(attachment.data, media_type=attachment.mime)
    return ImageUrl(attachment.link)
