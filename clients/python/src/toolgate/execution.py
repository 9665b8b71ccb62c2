"""A call that is executed or watched: its events, its result, and its end in Python's own ways."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal, TypeAlias

import grpc

from toolgate import events
from toolgate.errors import RpcError
from toolgate.events import CompletedEvent, Event, FailedEvent
from toolgate.results import Call, Result
from toolgate.v1 import tool_service_pb2

if TYPE_CHECKING:
    from collections.abc import Generator
    from types import TracebackType

    from typing_extensions import Self

    from toolgate._connection import Connection
    from toolgate._follow import Follower
    from toolgate._tasks import Tasks

OnDisconnect: TypeAlias = Literal["cancel", "keep", "cancel_when_lost"]
"""What becomes of a call when whoever executes it is gone.

- `cancel`: a lost connection is taken up again; leaving (a cancelled task, the end of `with`, Ctrl-C, a closed client)
  cancels the call. Since the service is told to keep the call, one whose client dies without a word goes on.
- `keep`: the call goes on whatever happens to the client.
- `cancel_when_lost`: the service itself cancels the call as soon as the connection is lost, whatever the reason.
"""

OutputMode: TypeAlias = Literal["full", "tail", "none"]
"""How much of the running output comes as events: every byte, the end of it for a slow reader, or nothing."""

_LEAVE_TIMEOUT = 10.0


class Execution:
    """A call, as an asynchronous iterator over its events. It begins when the first event or the result is awaited.

    `await execution` is short for `await execution.result()`. Use it in `async with` where it may be left before its
    end; a cancelled task cancels the call in any case.

    Attributes:
        call_id: The call's id.
    """

    def __init__(self, connection: Connection, tasks: Tasks, follower: Follower, *, keep: bool) -> None:
        self.call_id = follower.call_id
        self._connection = connection
        self._tasks = tasks
        self._follower = follower
        self._keep = keep
        self._result: Result | None = None
        self._lock = asyncio.Lock()
        self._was_cancelled = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def last_sequence(self) -> int:
        """The number of the last event seen: from where `Client.watch` goes on."""
        return self._follower.last_sequence

    @property
    def has_ended(self) -> bool:
        """Whether the terminal event was seen."""
        return self._result is not None

    def detach(self) -> None:
        """Lets the call go on when this execution is left: as `on_disconnect="keep"`, from now on."""
        self._keep = True

    def __aiter__(self) -> Execution:
        return self

    async def __anext__(self) -> Event:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._tasks.executions.add(self)
        try:
            async with self._lock:
                event = await self._next()
        except asyncio.CancelledError:
            await self.leave()
            raise
        if event is None:
            raise StopAsyncIteration
        return event

    async def result(self) -> Result:
        """Returns how the call ended, when it has; events that were not iterated over are passed by."""
        async for _ in self:
            pass
        if self._result is None:
            raise RpcError(grpc.StatusCode.CANCELLED, f"call {self.call_id} was cancelled before it was started")
        return self._result

    def __await__(self) -> Generator[object, None, Result]:
        return self.result().__await__()

    async def cancel(self) -> Call | None:
        """Stops the call, and returns when it has ended: its programs are gone then.

        Returns:
            The record of the call; `None` if it was never started.
        """
        if not self._follower.has_begun:
            self._was_cancelled = True
            return None
        # The request that starts the call may still be on its way.
        for wait in (0.05, 0.1, 0.2, 0.4, 0.8):
            try:
                return await self._cancel()
            except RpcError as error:
                if error.code is not grpc.StatusCode.NOT_FOUND or self._follower.is_admitted:
                    raise
            await asyncio.sleep(wait)
        return await self._cancel()

    async def leave(self) -> None:
        """Cancels the call if it still runs and is not kept, and gives the stream up."""
        if self._must_cancel() and not self._connection.is_closed:
            # A second cancellation of the waiting task does not stop what the first one has begun.
            await asyncio.shield(self._tasks.spawn(self._cancel_quietly()))
        self._keep = True
        self._follower.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.leave()

    def __del__(self) -> None:
        loop = self._loop
        if loop is None or loop.is_closed() or not self._must_cancel():
            return
        # Nobody can cancel this call any more, so it is done here. The loop may be another thread's.
        loop.call_soon_threadsafe(self._tasks.abandon, self._connection, self._follower)

    def _must_cancel(self) -> bool:
        follower = self._follower
        return follower.has_begun and not (self._keep or follower.has_ended or follower.was_refused)

    async def _next(self) -> Event | None:
        while self._result is None and not self._was_cancelled:
            message = await self._follower.next()
            if message is None:
                return None
            event = events.from_proto(message)
            if isinstance(event, (CompletedEvent, FailedEvent)):
                self._result = event.result
            if event is not None:
                return event
        return None

    async def _cancel(self) -> Call:
        return await cancel_call(self._connection, self.call_id)

    async def _cancel_quietly(self) -> None:
        try:
            await asyncio.wait_for(self.cancel(), _LEAVE_TIMEOUT)
        except (RpcError, asyncio.TimeoutError) as error:
            self._tasks.log.warning("call %s could not be cancelled: %s", self.call_id, error)


async def cancel_call(connection: Connection, call_id: str) -> Call:
    """Asks a call to stop and returns its record once it has ended."""
    request = tool_service_pb2.CancelCallRequest(call_id=call_id)
    response = await connection.unary(lambda stubs, timeout: stubs.tools.CancelCall(request, timeout=timeout))
    return Call.from_proto(response.call)
