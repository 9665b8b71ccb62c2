"""What approvals and hosts have in common: they serve in the background, until they are stopped, over many streams.

*Invariant:* a lost stream is opened again; any other error ends the service and reaches whoever waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import grpc
from typing_extensions import Self

from toolgate._connection import Connection, Patience
from toolgate.errors import RpcError

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from toolgate._tasks import Tasks

_STOP_TIMEOUT = 5.0


class Service(ABC):
    """Something that serves in the background of `async with`, or in the foreground of `run`."""

    def __init__(self, connection: Connection, tasks: Tasks) -> None:
        self._connection = connection
        self._tasks = tasks
        self._patience = Patience(connection, connection.settings.reconnect_timeout)
        self._task: asyncio.Task[None] | None = None
        self._is_ready = asyncio.Event()
        self._is_stopping = False

    async def start(self) -> None:
        """Begins to serve, and returns when the server has answered."""
        if self._task is not None:
            raise RuntimeError("this has been started before; make another one")
        self._task = self._tasks.spawn(self._serve())
        self._task.add_done_callback(self._ended)
        self._tasks.services.add(self)
        try:
            await self._is_ready.wait()
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        if self._task.done():
            await self.wait()

    async def wait(self) -> None:
        """Returns when this was stopped; raises what ended it otherwise."""
        if self._task is not None:
            await asyncio.wait([self._task])
            if not self._task.cancelled():
                self._task.result()

    async def run(self) -> None:
        """Serves until the task that waits here is cancelled."""
        try:
            await self.start()
            await self.wait()
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Ends in order: what was decided or finished is delivered, and the rest is given up."""
        task = self._task
        if task is None or task.done():
            return
        self._is_stopping = True
        await asyncio.shield(self._tasks.spawn(self._stop(task)))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()
        if error is None:
            await self.wait()

    async def _stop(self, task: asyncio.Task[None]) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._flush(task), _STOP_TIMEOUT)
        task.cancel()
        await asyncio.wait([task])

    async def _serve(self) -> None:
        try:
            while not self._is_stopping:
                try:
                    await self._converse()
                except RpcError as error:
                    if self._is_stopping:
                        return
                    await self._patience.wait(error)
                else:
                    if not self._is_stopping:
                        await self._patience.wait(RpcError(grpc.StatusCode.UNAVAILABLE, "the server ended the stream"))
        finally:
            self._is_stopping = True
            self._give_up()

    def _answered(self) -> None:
        """Notes that the server has taken this in."""
        self._patience.succeeded()
        self._is_ready.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None and self._is_ready.is_set():
            self._tasks.log.error("%s ended: %s", type(self).__name__.lower(), error)
        self._is_ready.set()

    @abstractmethod
    async def _converse(self) -> None:
        """Serves on one stream, until it ends."""

    @abstractmethod
    async def _flush(self, task: asyncio.Task[None]) -> None:
        """Returns when what was decided or finished is delivered."""

    @abstractmethod
    def _give_up(self) -> None:
        """Cancels the functions that still run."""
