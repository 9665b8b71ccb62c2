"""What the adapters share: calls that stop where a person has to decide, and go on from there in whatever process.

*Invariant:* a call is started once, however often a framework runs its tool again; and only a decision of a person
about this very prompt is sent as one.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, TypeVar

import grpc

from toolgate._follow import Watch
from toolgate._ids import uuid7
from toolgate._json import to_text
from toolgate.calls import output_mode
from toolgate.client import AsyncClient
from toolgate.errors import RpcError, ToolgateError
from toolgate.evaluation import PermissionAction
from toolgate.prompts import (
    Decision,
    PermissionPrompt,
    Prompt,
    QuestionPrompt,
    ReplyResult,
    prompt_of,
    reject,
    reply_result_of,
)
from toolgate.results import Result
from toolgate.sync import _portal
from toolgate.sync.client import Client
from toolgate.v1 import permission_service_pb2

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from datetime import timedelta

    from toolgate.definitions import Model, ToolDefinition
    from toolgate.events import Event
    from toolgate.execution import Execution

T = TypeVar("T")
AnyClient: TypeAlias = AsyncClient | Client
"""Either kind of client; one for plain programs works in any thread and in any event loop."""

PROMPTS = (PermissionPrompt, QuestionPrompt)

_MAX_SESSION = 128


class CallOptions(TypedDict, total=False):
    """In whose name an adapter makes its calls; what is left out is what the client was made with."""

    session: str
    workspace: str
    agent: str
    model: Model | str
    timeout: float | timedelta


class Calls:
    """The calls of an adapter, and the replies to their prompts.

    Args:
        client: Makes the calls.
        approver: Replies to prompts; the client itself if there is none. Where callers may not answer their own prompts
            it is a client with a token of the person who decides.
        options: In whose name the calls are made.
    """

    def __init__(self, client: AnyClient, approver: AnyClient | None, options: CallOptions) -> None:
        if approver is not None and isinstance(approver, Client) != isinstance(client, Client):
            raise TypeError("client and approver have to be of one kind: two of Client, or two of AsyncClient")
        self._client = _inner(client)
        self._approver = self._client if approver is None else _inner(approver)
        self._options = options
        self.is_sync = isinstance(client, Client)
        self.session = options.get("session") or self._client._defaults.session

    async def tools(self) -> list[ToolDefinition]:
        """Lists the tools."""
        return await self.here(self.listed())

    async def listed(self) -> list[ToolDefinition]:
        """Lists the tools, in the loop of the client."""
        options = self._options
        return await self._client.tools(
            workspace=options.get("workspace"), agent=options.get("agent"), model=options.get("model")
        )

    def start(self, tool: str, arguments: Mapping[str, Any] | str, call_id: str, session: str) -> Run:
        """Starts a call, or attaches to the one that has this id."""
        options: dict[str, Any] = {**self._options, "session": session or None}
        return Run(self, self._client.execute(tool, arguments, call_id=call_id or None, **options))

    def follow(self, call_id: str) -> Run:
        """Goes on with a call that exists. It is cancelled when it is left, as one that was started here."""
        return Run(self, self._client._follow(Watch(call_id, 0, output_mode("full")), None, keep=False))

    async def exists(self, call_id: str) -> bool:
        """Says whether there is such a call."""
        try:
            await self._client.get(call_id)
        except RpcError as error:
            if error.code is grpc.StatusCode.NOT_FOUND:
                return False
            raise
        return True

    async def may_ask(self, tool: str, arguments: Mapping[str, Any] | str, session: str) -> bool:
        """Says whether a call would ask a person before it does anything, as far as that is known."""
        options = self._options
        evaluation = await self._client.evaluate(
            tool,
            arguments,
            session=session or None,
            workspace=options.get("workspace"),
            agent=options.get("agent"),
            model=options.get("model"),
        )
        return evaluation.action is PermissionAction.ASK

    async def here(self, work: Coroutine[Any, Any, T]) -> T:
        """Awaits what belongs to the client's loop."""
        return await (_portal.run_from_loop(work) if self.is_sync else work)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits, in a plain thread, for what belongs to the client's loop."""
        if not self.is_sync:
            work.close()
            raise ToolgateError("these tools were made with an AsyncClient: run the agent with await, or use a Client")
        return _portal.run(work)

    async def open_prompt(self, call_id: str) -> Prompt | None:
        """Returns what a call waits for; `None` if it does not wait, or if there is no such call."""
        request = permission_service_pb2.ListPromptsRequest(call_id=call_id, page_size=1)
        response = await self._client._connection.unary(
            lambda stubs, timeout: stubs.permissions.ListPrompts(request, timeout=timeout)
        )
        return prompt_of(response.prompts[0]) if response.prompts else None

    async def open_prompts(self, session: str) -> list[Prompt]:
        """Returns what the calls of a session wait for."""
        found: list[Prompt] = []
        chosen = permission_service_pb2.PromptFilter(workspace="-", session_ids=[session])
        request = permission_service_pb2.ListPromptsRequest(filter=chosen)
        while True:
            response = await self._client._connection.unary(
                lambda stubs, timeout: stubs.permissions.ListPrompts(request, timeout=timeout)
            )
            found.extend(prompt_of(one) for one in response.prompts)
            if not response.next_page_token:
                return found
            request.page_token = response.next_page_token

    async def reply(self, prompt: Prompt, decision: Decision) -> None:
        """Sends what a person decided. A reply that is too late is none: the call says what became of it.

        Raises:
            ToolgateError: The reply may not come from this client.
        """
        result, message = await self._reply(prompt, decision)
        if result in (ReplyResult.INVALID, ReplyResult.DIGEST_MISMATCH):
            # Nobody is there to give a better one, and what the person meant is not known.
            result, message = await self._reply(
                prompt, reject(f"The reply to the prompt could not be taken: {message}")
            )
        if result in (ReplyResult.NOT_ALLOWED, ReplyResult.OTHER_INSTANCE):
            raise ToolgateError(
                f"the reply to {prompt.title!r} was not taken: {message}; pass approver=…, a client that may reply"
            )

    async def _reply(self, prompt: Prompt, decision: Decision) -> tuple[ReplyResult, str]:
        request = permission_service_pb2.ReplyPromptRequest(
            reply=decision.reply_to(prompt, uuid7()), name=self._approver._defaults.client_name
        )
        response = await self._approver._connection.unary(
            lambda stubs, timeout: stubs.permissions.ReplyPrompt(request, timeout=timeout)
        )
        return reply_result_of(response.result.result), response.result.message


class Run:
    """A call as a framework's run sees it: events, prompts, and its end. To be left in any case."""

    def __init__(self, calls: Calls, execution: Execution) -> None:
        self.call_id = execution.call_id
        # How many prompts of the call were seen.
        self.prompts = 0
        self._calls = calls
        self._execution = execution

    async def step(self) -> Event | Prompt | Result:
        """Returns the next event, or where the call stops: a prompt, which may be decided by now, or how it ended."""
        async for event in self._execution:
            if event.kind == "waiting":
                self.prompts += 1
                return event.prompt
            if event.kind in ("completed", "failed"):
                break
            return event
        return await self._execution.result()

    async def open_step(self) -> Event | Prompt | Result:
        """Returns the next event, or where the call stops: a prompt that is open now, or how it ended."""
        while True:
            step = await self.step()
            if not isinstance(step, PROMPTS):
                return step
            now = await self._calls.open_prompt(self.call_id)
            if now is not None and now.id == step.id:
                return now

    async def is_open(self, prompt: Prompt) -> bool:
        """Says whether a prompt of the call still waits for a decision."""
        now = await self._calls.open_prompt(self.call_id)
        return now is not None and now.id == prompt.id

    async def reply(self, prompt: Prompt, decision: Decision) -> None:
        """Sends what a person decided about a prompt, unless it is decided."""
        if await self.is_open(prompt):
            await self._calls.reply(prompt, decision)

    def detach(self) -> None:
        """Lets the call go on when this is left: somebody will come back for it."""
        self._execution.detach()

    async def leave(self) -> None:
        """Cancels the call if it still runs and was not detached."""
        await self._execution.leave()


def call_id_of(framework: str, *parts: str | Mapping[str, Any]) -> str:
    """Makes the id of a call out of what stays the same when a framework runs its tool again."""
    texts = [part if isinstance(part, str) else to_text(dict(sorted(part.items()))) for part in parts]
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    return f"{framework}-{digest[:32]}"


def session_of(name: str) -> str:
    """Makes a session of a framework's name for a conversation, which may have characters that a session may not."""
    is_plain = 0 < len(name) <= _MAX_SESSION and name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if is_plain or not name else f"conversation-{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def _inner(client: AnyClient) -> AsyncClient:
    return client._client if isinstance(client, Client) else client
