"""What programs of a call listen on: ports that are opened, and connections to them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc

from toolgate._connection import Patience
from toolgate._feed import Outbox
from toolgate.errors import RpcError
from toolgate.execution import cancel_call
from toolgate.v1 import port_service_pb2

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from toolgate._connection import Connection, Stream

_PIECE = 64 * 1024
_MAX_WAITING = 4


async def open_port(connection: Connection, request: port_service_pb2.OpenPortRequest) -> OpenedPort:
    """Opens a port, and returns when that was allowed."""
    response = await connection.make_call(lambda stubs: stubs.ports.OpenPort(request))
    return OpenedPort(connection, response)


class OpenedPort:
    """A port that a program of a call listens on, opened for this client. In `async with` it is closed at the end.

    Attributes:
        call_id: The call that keeps it open.
        http_path: The path, at the address of the service, under which a browser reaches the port without other
            credentials, WebSockets included. It ends with the call.
    """

    def __init__(self, connection: Connection, message: port_service_pb2.OpenPortResponse) -> None:
        self.call_id = message.call_id
        self.http_path = message.http_path
        self._connection = connection

    async def connect(self) -> PortConnection:
        """Makes a connection to the program, and returns when it is made."""
        patience = Patience(self._connection, self._connection.settings.timeout)
        while True:
            connection = PortConnection(self._connection, self.call_id)
            try:
                await connection._made()
            except RpcError as error:
                # Nothing was sent to the program, so another connection is as good.
                await patience.wait(error)
            else:
                return connection

    async def close(self) -> None:
        """Closes the port and its connections."""
        await cancel_call(self._connection, self.call_id)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class PortConnection:
    """A connection to a program. It is not made again when it is lost: `read` raises `RpcError` then."""

    def __init__(self, connection: Connection, call_id: str) -> None:
        self._outbox: Outbox[port_service_pb2.ConnectPortRequest] = Outbox(limit=_MAX_WAITING)
        requests = self._outbox.attach(port_service_pb2.ConnectPortRequest(call_id=call_id))
        self._stream: Stream[port_service_pb2.ConnectPortResponse] = connection.stream(
            lambda stubs: stubs.ports.ConnectPort(requests), port_service_pb2.ConnectPortResponse
        )
        self._stream.when_ended(self._ended)
        self._receiving: asyncio.Future[port_service_pb2.ConnectPortResponse | None] | None = None
        self._unread = b""
        self._has_ended = False
        self._has_sent_all = False

    async def read(self, limit: int = _PIECE) -> bytes:
        """Returns the next bytes, at most `limit`, when there are any; none when the program has closed its side.

        Nothing is lost when waiting for them is given up.
        """
        while not self._unread:
            if self._receiving is None:
                self._receiving = asyncio.ensure_future(self._stream.next())
                # That nobody comes back for it is no fault.
                self._receiving.add_done_callback(lambda one: one.cancelled() or one.exception())
            # grpcio ends a stream whose reader is cancelled.
            await asyncio.wait([self._receiving])
            response = self._receiving.result()
            if response is None:
                return b""
            self._receiving = None
            self._unread = response.data
        piece, self._unread = self._unread[:limit], self._unread[limit:]
        return piece

    async def write(self, data: bytes) -> None:
        """Sends bytes. Waits while the program does not read.

        Raises:
            RpcError: With the reason CONNECTION_LOST if the connection has ended; `read` says why.
        """
        if self._has_sent_all:
            raise RuntimeError("the end of what is sent was sent already")
        for start in range(0, len(data), _PIECE):
            await self._outbox.put(port_service_pb2.ConnectPortRequest(data=data[start : start + _PIECE]))
            if self._has_ended:
                raise RpcError(grpc.StatusCode.ABORTED, "the connection has ended", reason="CONNECTION_LOST")

    async def write_eof(self) -> None:
        """Sends the end: the program reads it after what was written before. What it sends can be read on."""
        self._has_sent_all = True
        self._outbox.finish()

    async def close(self) -> None:
        """Ends the connection at once.

        For the program to get all that was written, `write_eof` first, and `read` until it has closed its side.
        """
        self._stream.close()
        self._ended()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _made(self) -> None:
        """Returns when the connection is made."""
        try:
            await self._stream.expect()
        except BaseException:
            await self.close()
            raise
        # Both sides may be silent as long as they like.
        self._stream.allow_silence()

    def _ended(self) -> None:
        self._has_ended = True
        # Whoever waits to write goes on, and hears of it.
        self._outbox.clear()
        self._outbox.release()
