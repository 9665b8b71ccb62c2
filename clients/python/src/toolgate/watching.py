"""Watching what happens in the workspaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolgate.events import WorkspaceEvent
from toolgate.v1 import session_service_pb2

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from toolgate._connection import Connection, Stream


class WorkspaceEvents:
    """What happens in the workspaces, as an asynchronous iterator.

    It ends with an error when the connection is lost: begin again after `last_sequence` then.

    Attributes:
        last_sequence: The number of the last event seen; `None` before the first.
    """

    def __init__(self, connection: Connection, request: session_service_pb2.WatchEventsRequest) -> None:
        self.last_sequence: int | None = None
        self._connection = connection
        self._request = request
        self._stream: Stream[session_service_pb2.WatchEventsResponse] | None = None

    def __aiter__(self) -> WorkspaceEvents:
        return self

    async def __anext__(self) -> WorkspaceEvent:
        stream = self._open()
        while (response := await stream.next()) is not None:
            self.last_sequence = response.event.sequence
            if response.event.WhichOneof("event") != "heartbeat":
                return WorkspaceEvent.from_proto(response.event)
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        """Returns when the server watches: what happens from then on is seen."""
        await self._open().opened()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            self._stream.close()

    def _open(self) -> Stream[session_service_pb2.WatchEventsResponse]:
        if self._stream is None:
            self._stream = self._connection.stream(
                lambda stubs: stubs.sessions.WatchEvents(self._request), session_service_pb2.WatchEventsResponse
            )
        return self._stream
