"""The event loop in the background, and the way into it.

*Invariant:* one thread for the whole process. grpcio's loops in several threads wake each other for nothing.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator

    from toolgate.client import AsyncClient

T = TypeVar("T")

# How long an interrupted program waits for its call to be cancelled.
_LEAVE_TIMEOUT = 12.0

# How often a waiting thread looks whether it was interrupted.
_LOOK = 0.5


class _Portal:
    def __init__(self) -> None:
        self.process = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._serve, name="toolgate", daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    def stop(self) -> None:
        """Closes the clients, cancels what still runs, and ends the thread."""
        if self.process != os.getpid() or not self.thread.is_alive():
            return
        ended = asyncio.run_coroutine_threadsafe(self._cancel_all(), self.loop)
        concurrent.futures.wait([ended], timeout=_LEAVE_TIMEOUT)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(timeout=1.0)

    async def _cancel_all(self) -> None:
        await asyncio.gather(*(client.close() for client in list(_clients)), return_exceptions=True)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_LEAVE_TIMEOUT)


_lock = threading.Lock()
_clients: weakref.WeakSet[AsyncClient] = weakref.WeakSet()
_portal: _Portal | None = None


def _current() -> _Portal:
    global _portal
    with _lock:
        # A forked process has no copy of the thread.
        if _portal is None or _portal.process != os.getpid():
            _portal = _Portal()
            atexit.register(_portal.stop)
        return _portal


def keep(client: AsyncClient) -> None:
    """Has a client closed when the program ends, if nobody does it earlier."""
    _clients.add(client)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in the loop and returns what it returns.

    Whoever is interrupted meanwhile (Ctrl-C) waits until the coroutine has noticed: it cancels its call.
    """
    portal = _current()
    if threading.current_thread() is portal.thread:
        work.close()
        raise RuntimeError("this waits for the event loop that it runs in; use AsyncClient in `async` functions")
    return _Work(work).run(portal.loop)


async def run_from_loop(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine in the loop for a task of any loop. Cancelling the task cancels it, and waits for its end."""
    portal = _current()
    own = asyncio.get_running_loop()
    if own is portal.loop:
        return await work
    started: list[asyncio.Task[T]] = []
    over = asyncio.Event()

    def tell(_: asyncio.Task[T]) -> None:
        # The loop may be closed by now: then nobody waits any more.
        with contextlib.suppress(RuntimeError):
            own.call_soon_threadsafe(over.set)

    def start() -> None:
        started.append(portal.loop.create_task(work))
        started[0].add_done_callback(tell)

    portal.loop.call_soon_threadsafe(start)
    try:
        await over.wait()
    except asyncio.CancelledError:
        portal.loop.call_soon_threadsafe(lambda: started[0].cancel())
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(over.wait(), _LEAVE_TIMEOUT)
        raise
    return started[0].result()


class _Work(Generic[T]):
    """A coroutine that runs in the loop while another thread waits for it.

    The thread waits on a plain lock: an interrupt inside the methods of `Future` or `Event` can leave their inner lock
    taken, which then stops the loop.
    """

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._task: asyncio.Task[T] | None = None
        self._is_over = False
        self._running = threading.Lock()
        self._running.acquire()

    def run(self, loop: asyncio.AbstractEventLoop) -> T:
        try:
            loop.call_soon_threadsafe(self._start)
            # Not for ever: Python does not see a signal that comes just before it begins to wait.
            while not self._running.acquire(timeout=_LOOK):
                pass
        except BaseException:
            loop.call_soon_threadsafe(self._cancel)
            if not self._is_over:
                self._running.acquire(timeout=_LEAVE_TIMEOUT)
            raise
        if self._task is None or self._task.cancelled():
            raise concurrent.futures.CancelledError
        return self._task.result()

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._work)
        self._task.add_done_callback(self._over)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:
            self._work.close()
            self._over()

    def _over(self, _task: object = None) -> None:
        self._is_over = True
        self._running.release()


def iterate(source: AsyncIterator[T]) -> Iterator[T]:
    """Iterates over what the loop iterates over."""

    async def advance() -> tuple[T] | None:
        try:
            return (await source.__anext__(),)
        except StopAsyncIteration:
            return None

    async def finish() -> None:
        close = getattr(source, "aclose", None)
        if close is not None:
            await close()

    try:
        while (item := run(advance())) is not None:
            yield item[0]
    finally:
        run(finish())
