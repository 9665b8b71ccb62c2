"""Answering prompts: a handler for each, over a channel that is opened again when it breaks.

*Invariant:* a prompt is handled once, however often it is shown; a reply is sent until the server has said what became
of it, under the same id.
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
from toolgate.prompts import Decision, Prompt, ReplyOutcome, reply_result_of
from toolgate.v1 import permission_service_pb2

if TYPE_CHECKING:
    from toolgate._connection import Connection

Handler: TypeAlias = Callable[[Prompt], "Awaitable[Decision | None]"] | Callable[[Prompt], "Decision | None"]
"""Decides about a prompt, or returns `None` to leave it to others. A function that is not `async` runs in a thread."""


@dataclass(frozen=True)
class ApprovalCallbacks:
    """What is told of approvals, beside the handler. All are called in the event loop and must not block.

    Attributes:
        on_ready: The prompts that were open are known; again after each reconnection. The number is how many.
        on_reply: What became of a reply.
        on_gone: A prompt whose handler still worked has ended otherwise.
        on_error: A handler raised; the prompt stays open.
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
        # The prompts that are open, as far as they were given to the handler; the task is gone when it has decided.
        self._handled: dict[str, asyncio.Task[None] | None] = {}
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
        for task in self._handled.values():
            if task is not None:
                task.cancel()

    def _take(self, response: permission_service_pb2.ChannelResponse) -> None:
        kind = response.WhichOneof("message")
        if kind == "prompt_added":
            self._add(Prompt.from_proto(response.prompt_added.prompt))
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
            self._handled[prompt.id] = self._tasks.spawn(self._handle(prompt))

    def _compare(self, prompts: int) -> None:
        """Forgets what ended while the channel was broken."""
        shown, self._shown = self._shown or set(), None
        for prompt_id in [one for one in self._handled if one not in shown]:
            self._remove(prompt_id)
        self._answered()
        if self._callbacks.on_ready is not None:
            self._callbacks.on_ready(prompts)

    def _remove(self, prompt_id: str) -> None:
        task = self._handled.pop(prompt_id, None)
        if task is not None:
            task.cancel()

    async def _handle(self, prompt: Prompt) -> None:
        try:
            decision = await self._decide(prompt)
        except asyncio.CancelledError:
            if not self._is_stopping and self._callbacks.on_gone is not None:
                self._callbacks.on_gone(prompt)
            raise
        except Exception as error:
            decision = None
            self._tasks.log.exception("the handler of prompt %s failed; it stays open", prompt.id)
            if self._callbacks.on_error is not None:
                self._callbacks.on_error(prompt, error)
        if prompt.id in self._handled:
            self._handled[prompt.id] = None
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


def _checked(decision: object) -> Decision | None:
    if decision is None or isinstance(decision, Decision):
        return decision
    raise TypeError(f"a handler returns once(), always(), reject(), answer(), instead() or None, and not {decision!r}")
