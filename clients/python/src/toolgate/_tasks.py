"""What a client runs in the background, and who waits for it.

*Invariant:* no task is started without an owner that waits for it.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import weakref
from typing import TYPE_CHECKING, Any, TypeVar

from toolgate.errors import ToolgateError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from toolgate._connection import Connection
    from toolgate._follow import Follower
    from toolgate._service import Service
    from toolgate.execution import Execution

T = TypeVar("T")

_FINISH_TIMEOUT = 10.0


class Tasks:
    """The tasks of one client, and what has to be ended when it is closed."""

    log = logging.getLogger("toolgate")

    def __init__(self) -> None:
        self.executions: weakref.WeakSet[Execution] = weakref.WeakSet()
        self.services: weakref.WeakSet[Service] = weakref.WeakSet()
        self._running: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Starts a task that `finish` waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def abandon(self, connection: Connection, follower: Follower) -> None:
        """Cancels a call whose execution was forgotten."""
        follower.close()
        if not connection.is_closed:
            self.spawn(self._cancel(connection, follower.call_id))

    async def finish(self) -> None:
        """Stops the services, leaves the executions, and waits for what was started."""
        ends = [*(one.stop() for one in list(self.services)), *(one.leave() for one in list(self.executions))]
        await asyncio.gather(*ends, return_exceptions=True)
        running = self._running - {asyncio.current_task()}
        if running:
            _, late = await asyncio.wait(running, timeout=_FINISH_TIMEOUT)
            for task in late:
                task.cancel()

    async def _cancel(self, connection: Connection, call_id: str) -> None:
        from toolgate.execution import cancel_call

        try:
            await cancel_call(connection, call_id)
        except ToolgateError as error:
            if connection.is_closed:
                return
            self.log.warning("call %s could not be cancelled: %s", call_id, error)


async def in_thread(function: Callable[..., T], *arguments: object) -> T:
    """Runs a blocking function in a thread of its own, which does not keep the program from ending.

    The pool of asyncio is joined at exit, and a function that waits for a person may wait for ever.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = context.run(function, *arguments)
        except BaseException as raised:
            error = RuntimeError("the function stopped its iteration") if isinstance(raised, StopIteration) else raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="toolgate-function", daemon=True).start()
    return await future
