"""Answering prompts: a handler for each, over a channel that is opened again when it breaks.

*Invariant:* a prompt is handled once, however often it is shown, and again only when its reply was not taken; a reply
is sent until the server has said what became of it, under the same id.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from toolgate._feed import Outbox
from toolgate._ids import uuid7
from toolgate._service import Service
from toolgate._tasks import Tasks, in_thread
from toolgate.errors import ToolgateError
from toolgate.prompts import Decision, Prompt, ReplyOutcome, ReplyResult, prompt_of, reply_result_of
from toolgate.v1 import permission_service_pb2, prompt_pb2

if TYPE_CHECKING:
    from toolgate._connection import Connection

Handler: TypeAlias = Callable[[Prompt], "Awaitable[Decision | None]"] | Callable[[Prompt], "Decision | None"]
"""Decides about a prompt, or returns `None` to leave it to others. A function that is not `async` runs in a thread."""

# After these the prompt is open, and whoever gave the reply can give a better one.
_NOT_TAKEN = (ReplyResult.INVALID, ReplyResult.DIGEST_MISMATCH)
_MAX_AGAIN = 5


@dataclass(frozen=True)
class ApprovalCallbacks:
    """What is told of approvals, beside the handler. All are called in the event loop and must not block.

    Attributes:
        on_ready: The prompts that were open are known; again after each reconnection. The number is how many.
        on_reply: What became of a reply.
        on_gone: A prompt whose handler still worked has ended otherwise.
        on_error: A handler raised, or its replies were not taken time after time; the prompt stays open.
    """

    on_ready: Callable[[int], None] | None = None
    on_reply: Callable[[ReplyOutcome], None] | None = None
    on_gone: Callable[[Prompt], None] | None = None
    on_error: Callable[[Prompt, Exception], None] | None = None


@dataclass
class _Reply:
    prompt: Prompt
    decision: Decision
    message: permission_service_pb2.PromptReply


@dataclass
class _Handled:
    """A prompt that is open; the task is gone when its handler has decided."""

    task: asyncio.Task[None] | None = None
    not_taken: int = 0


class Approvals(Service):
    """Answers prompts while it is open: `async with client.approvals(handler):`, or `await approvals.run()`."""

    def __init__(
        self,
        connection: Connection,
        tasks: Tasks,
        handler: Handler,
        opening: permission_service_pb2.ChannelOpen,
        callbacks: ApprovalCallbacks,
    ) -> None:
        super().__init__(connection, tasks)
        self._handler = handler
        self._opening = opening
        self._callbacks = callbacks
        self._outbox: Outbox[permission_service_pb2.ChannelRequest] = Outbox()
        # The prompts that are open, as far as they were given to the handler.
        self._handled: dict[str, _Handled] = {}
        self._replies: dict[str, _Reply] = {}
        self._shown: set[str] | None = None
        self._all_answered = asyncio.Event()
        self._all_answered.set()

    async def _converse(self) -> None:
        self._shown = set()
        first = permission_service_pb2.ChannelRequest(open=self._opening)
        again = [permission_service_pb2.ChannelRequest(reply=one.message) for one in self._replies.values()]
        self._outbox = Outbox()
        requests = self._outbox.attach(first, *again)
        stream = self._connection.stream(
            lambda stubs: stubs.permissions.Channel(requests), permission_service_pb2.ChannelResponse
        )
        try:
            while (response := await stream.next()) is not None:
                self._take(response)
        finally:
            self._outbox.release()
            stream.close()

    async def _flush(self, task: asyncio.Task[None]) -> None:  # noqa: ARG002 - the channel has no end of its own
        await self._all_answered.wait()

    def _give_up(self) -> None:
        for handled in self._handled.values():
            if handled.task is not None:
                handled.task.cancel()

    def _take(self, response: permission_service_pb2.ChannelResponse) -> None:
        kind = response.WhichOneof("message")
        if kind == "prompt_added":
            self._add(prompt_of(response.prompt_added.prompt))
        elif kind == "prompt_resolved":
            self._remove(response.prompt_resolved.prompt.prompt_id)
        elif kind == "snapshot_end":
            self._compare(response.snapshot_end.prompts)
        elif kind == "reply_result":
            self._report(response.reply_result)

    def _add(self, prompt: Prompt) -> None:
        if self._shown is not None:
            self._shown.add(prompt.id)
        if prompt.id not in self._handled and not self._is_stopping:
            self._handled[prompt.id] = _Handled(self._tasks.spawn(self._handle(prompt)))

    def _compare(self, prompts: int) -> None:
        """Forgets what ended while the channel was broken."""
        shown, self._shown = self._shown or set(), None
        for prompt_id in [one for one in self._handled if one not in shown]:
            self._remove(prompt_id)
        self._answered()
        if self._callbacks.on_ready is not None:
            self._callbacks.on_ready(prompts)

    def _remove(self, prompt_id: str) -> None:
        handled = self._handled.pop(prompt_id, None)
        if handled is not None and handled.task is not None:
            handled.task.cancel()

    async def _handle(self, prompt: Prompt) -> None:
        try:
            decision = await self._decide(prompt)
        except asyncio.CancelledError:
            if not self._is_stopping and self._callbacks.on_gone is not None:
                self._callbacks.on_gone(prompt)
            raise
        except Exception as error:
            decision = None
            self._failed(prompt, error)
        if prompt.id in self._handled:
            self._handled[prompt.id].task = None
        if decision is not None:
            self._reply(prompt, decision)

    async def _decide(self, prompt: Prompt) -> Decision | None:
        if inspect.iscoroutinefunction(self._handler):
            return _checked(await self._handler(prompt))
        decision = await in_thread(self._handler, prompt)
        return _checked(await decision if inspect.isawaitable(decision) else decision)

    def _reply(self, prompt: Prompt, decision: Decision) -> None:
        message = decision.reply_to(prompt, uuid7())
        self._replies[message.reply_id] = _Reply(prompt, decision, message)
        self._all_answered.clear()
        self._outbox.put_now(permission_service_pb2.ChannelRequest(reply=message))

    def _report(self, result: permission_service_pb2.PromptReplyResult) -> None:
        reply = self._replies.pop(result.reply_id, None)
        if not self._replies:
            self._all_answered.set()
        if reply is None:
            return
        outcome = ReplyOutcome(
            prompt=reply.prompt,
            decision=reply.decision,
            result=reply_result_of(result.result),
            message=result.message,
            raw=result,
        )
        if outcome.message:
            self._tasks.log.info("the reply to prompt %s: %s", reply.prompt.id, outcome.message)
        if self._callbacks.on_reply is not None:
            self._callbacks.on_reply(outcome)
        if outcome.result in _NOT_TAKEN:
            self._ask_again(outcome)

    def _ask_again(self, outcome: ReplyOutcome) -> None:
        handled = self._handled.get(outcome.prompt.id)
        # A reply that cannot be read at all is answered without the prompt, which is as it was then.
        prompt = outcome.raw.prompt if outcome.raw.HasField("prompt") else outcome.prompt.raw
        if handled is None or self._is_stopping or prompt.state != prompt_pb2.PROMPT_STATE_OPEN:
            return
        problem = outcome.message or f"the reply was not taken: {outcome.result.value}"
        again = prompt_of(prompt, problem)
        handled.not_taken += 1
        if handled.not_taken > _MAX_AGAIN:
            self._failed(again, ToolgateError(f"{handled.not_taken} replies were not taken: {problem}"))
            return
        handled.task = self._tasks.spawn(self._handle(again))

    def _failed(self, prompt: Prompt, error: Exception) -> None:
        self._tasks.log.error("no decision about prompt %s, which stays open", prompt.id, exc_info=error)
        if self._callbacks.on_error is not None:
            self._callbacks.on_error(prompt, error)


def _checked(decision: object) -> Decision | None:
    if decision is None or isinstance(decision, Decision):
        return decision
    raise TypeError(f"a handler returns once(), always(), reject(), answer(), instead() or None, and not {decision!r}")
