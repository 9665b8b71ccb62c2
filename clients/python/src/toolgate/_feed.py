"""What is still to be sent on a stream that may break and be opened again."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

T = TypeVar("T")


class Outbox(Generic[T]):
    """Messages in the order in which they are sent; `put` waits while too many are in front."""

    def __init__(self, limit: int = 64) -> None:
        self._limit = limit
        self._waiting: deque[T] = deque()
        self._changed = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_held = False
        self._is_finished = False
        self._feed: object = None

    async def put(self, message: T) -> None:
        """Queues a message, when there is room."""
        await self._has_room.wait()
        self.put_now(message)

    def put_now(self, message: T) -> None:
        """Queues a message, whatever is in front."""
        self._waiting.append(message)
        if len(self._waiting) >= self._limit:
            self._has_room.clear()
        self._changed.set()

    def finish(self) -> None:
        """Ends the requests when all that is queued was sent."""
        self._is_finished = True
        self._changed.set()

    def go_on(self) -> None:
        """Sends what is queued, if that was held."""
        self._is_held = False
        self._changed.set()

    def clear(self) -> None:
        """Forgets what is queued."""
        self._waiting.clear()
        self._has_room.set()

    def release(self) -> None:
        """Ends the requests of the stream that was attached last."""
        self._feed = None
        self._changed.set()

    def attach(self, *first: T, hold: bool = False) -> AsyncIterator[T]:
        """Returns the requests of a new stream: what it begins with, then what is queued. An earlier one has ended.

        With `hold`, what is queued waits for `go_on`.
        """
        feed = object()
        self._feed = feed
        self._is_held = hold
        self._changed.set()
        return self._requests(feed, first)

    async def _requests(self, feed: object, first: tuple[T, ...]) -> AsyncIterator[T]:
        for message in first:
            yield message
        while self._feed is feed:
            if self._waiting and not self._is_held:
                message = self._waiting.popleft()
                if len(self._waiting) < self._limit:
                    self._has_room.set()
                yield message
            elif self._is_finished and not self._waiting:
                return
            else:
                self._changed.clear()
                await self._changed.wait()
