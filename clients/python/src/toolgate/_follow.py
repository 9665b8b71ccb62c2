"""Follows a call to its terminal event over as many streams as it takes.

*Invariant:* events leave in the order of their sequence numbers, none twice and none left out; a call is started again
only as long as nothing of it was seen, so a tool never runs twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import grpc

from toolgate._connection import Connection, Patience, Stream, Stubs
from toolgate.errors import RpcError
from toolgate.v1 import tool_service_pb2

if TYPE_CHECKING:
    from toolgate.v1 import call_pb2

_MAX_HOLES = 3

EventStream: TypeAlias = (
    "Stream[tool_service_pb2.ExecuteToolResponse]"
    " | Stream[tool_service_pb2.RevertCallResponse]"
    " | Stream[tool_service_pb2.WatchCallResponse]"
)


@dataclass(frozen=True)
class Watch:
    """What to follow: a call that exists, from an event on."""

    call_id: str
    after: int
    output: call_pb2.OutputMode.ValueType


Start: TypeAlias = tool_service_pb2.ExecuteToolRequest | tool_service_pb2.RevertCallRequest


class Follower:
    """A cursor over a call's log."""

    def __init__(self, connection: Connection, watch: Watch, start: Start | None = None) -> None:
        self.call_id = watch.call_id
        self.last_sequence = watch.after
        self.has_begun = False
        self.has_ended = False
        self.was_refused = False
        self._connection = connection
        self._output = watch.output
        self._start = start
        self._stream: EventStream | None = None
        self._patience = Patience(connection, connection.settings.reconnect_timeout)
        self._holes = 0

    @property
    def is_admitted(self) -> bool:
        """Whether the call is known to exist."""
        return self._start is None

    async def next(self) -> call_pb2.CallEvent | None:
        """Returns the next event that is no heartbeat; `None` after the terminal one."""
        while not self.has_ended:
            self.has_begun = True
            try:
                event = await self._receive()
            except RpcError as error:
                self.close()
                self.was_refused = not self.is_admitted and not error.is_transient
                await self._patience.wait(error)
                continue
            if self._accept(event):
                return event
        return None

    def close(self) -> None:
        """Gives the stream up, if there is one; the next event is asked for on a new one."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    async def _receive(self) -> call_pb2.CallEvent:
        if self._stream is None:
            self._stream = self._open()
        response = await self._stream.next()
        if response is None:
            raise RpcError(grpc.StatusCode.UNAVAILABLE, "the stream ended before the call did")
        return response.event

    def _open(self) -> EventStream:
        start = self._start
        if isinstance(start, tool_service_pb2.ExecuteToolRequest):
            return self._connection.stream(
                lambda stubs: stubs.tools.ExecuteTool(start), tool_service_pb2.ExecuteToolResponse
            )
        if start is not None:
            return self._connection.stream(
                lambda stubs: stubs.tools.RevertCall(start), tool_service_pb2.RevertCallResponse
            )
        request = tool_service_pb2.WatchCallRequest(
            call_id=self.call_id, after_sequence=self.last_sequence, output=self._output
        )

        def watch(stubs: Stubs) -> object:
            return stubs.tools.WatchCall(request)

        return self._connection.stream(watch, tool_service_pb2.WatchCallResponse)

    def _accept(self, event: call_pb2.CallEvent) -> bool:
        """Notes how far the log was read; says whether the event is new and to be delivered."""
        kind = event.WhichOneof("event")
        self._patience.succeeded()
        if kind == "heartbeat" or event.sequence <= self.last_sequence:
            return False
        first = event.gap.first_sequence if kind == "gap" else event.sequence
        if first > self.last_sequence + 1:
            self._reread(event)
            return False
        self._holes = 0
        self._start = None
        self.last_sequence = event.sequence
        if kind in ("completed", "failed"):
            self.has_ended = True
            self.close()
        return True

    def _reread(self, event: call_pb2.CallEvent) -> None:
        """Watches again from the last event on, because one is missing before this one."""
        self._holes += 1
        if self._holes > _MAX_HOLES:
            missing = f"event {self.last_sequence + 1} of call {self.call_id} is missing before {event.sequence}"
            raise RpcError(grpc.StatusCode.DATA_LOSS, missing)
        self.close()
