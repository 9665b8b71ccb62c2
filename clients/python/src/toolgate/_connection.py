"""The connection to a server: stubs, deadlines, retries, and streams that notice when nothing comes any more.

*Invariant:* errors of grpcio end here; what leaves is `RpcError`.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import grpc

from toolgate._auth import Token, interceptors
from toolgate._target import Target, Tls
from toolgate.errors import RpcError
from toolgate.v1 import (
    audit_service_pb2_grpc,
    file_service_pb2_grpc,
    host_service_pb2_grpc,
    info_service_pb2_grpc,
    mcp_service_pb2_grpc,
    output_service_pb2_grpc,
    permission_service_pb2_grpc,
    port_service_pb2_grpc,
    session_service_pb2_grpc,
    tool_service_pb2_grpc,
    workspace_service_pb2_grpc,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

T = TypeVar("T")

_FIRST_WAIT = 0.05
_LONGEST_WAIT = 3.0


@dataclass(frozen=True)
class Settings:
    """How a client connects, and how patient it is. Times are in seconds."""

    target: Target
    token: Token | None = None
    tls: Tls = field(default_factory=Tls)
    timeout: float = 30.0
    connect_timeout: float = 10.0
    reconnect_timeout: float | None = 120.0
    # Three heartbeats of the server.
    stall_timeout: float = 45.0


class Stubs:
    """The generated stubs of every service, on the client's own channel and with its credentials.

    They raise the errors of grpcio as they are; `Client.rpc` translates them.
    """

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.tools = tool_service_pb2_grpc.ToolServiceStub(channel)
        self.permissions = permission_service_pb2_grpc.PermissionServiceStub(channel)
        self.hosts = host_service_pb2_grpc.HostServiceStub(channel)
        self.outputs = output_service_pb2_grpc.OutputServiceStub(channel)
        self.sessions = session_service_pb2_grpc.SessionServiceStub(channel)
        self.info = info_service_pb2_grpc.InfoServiceStub(channel)
        self.audit = audit_service_pb2_grpc.AuditServiceStub(channel)
        self.workspaces = workspace_service_pb2_grpc.WorkspaceServiceStub(channel)
        self.files = file_service_pb2_grpc.FileServiceStub(channel)
        self.ports = port_service_pb2_grpc.PortServiceStub(channel)
        self.mcp = mcp_service_pb2_grpc.McpServiceStub(channel)


class Connection:
    """A channel that opens on first use, in the event loop that uses it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.is_closed = False
        self.was_connected = False
        self._channel: grpc.aio.Channel | None = None
        self._stubs: Stubs | None = None

    @property
    def stubs(self) -> Stubs:
        """The generated stubs."""
        if self.is_closed:
            raise closed_error()
        if self._stubs is None:
            settings = self.settings
            self._channel = settings.target.open(settings.tls, interceptors(settings.token))
            self._stubs = Stubs(self._channel)
        return self._stubs

    async def close(self) -> None:
        """Closes the channel; whatever still runs on it ends with an error."""
        self.is_closed = True
        if self._channel is not None:
            await self._channel.close()

    async def unary(
        self, call: Callable[[Stubs, float], Awaitable[T]], *, timeout: float | None = None, retry: bool = True
    ) -> T:
        """Makes a unary request within a deadline; one that may be retried is, when the connection is lost."""
        seconds = self.settings.timeout if timeout is None else timeout
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        return await self._attempt(lambda stubs: call(stubs, max(end - loop.time(), 0.001)), seconds, retry=retry)

    async def make_call(self, call: Callable[[Stubs], Awaitable[T]]) -> T:
        """Makes a request that makes a call, and has its id: it lasts as long as people think, and may be retried."""
        return await self._attempt(call, self.settings.reconnect_timeout, retry=True)

    def stream(self, call: Callable[[Stubs], object], response: type[T]) -> Stream[T]:  # noqa: ARG002 - names the type
        """Opens a stream; what goes wrong is raised when it is read."""
        return Stream(self, cast("grpc.aio.UnaryStreamCall[object, T]", call(self.stubs)))

    async def _attempt(self, call: Callable[[Stubs], Awaitable[T]], limit: float | None, *, retry: bool) -> T:
        patience = Patience(self, limit)
        while True:
            try:
                response = await call(self.stubs)
            except grpc.RpcError as error:
                failure = RpcError.from_grpc(error)
                if not retry:
                    raise failure from None
                await patience.wait(failure)
            except grpc.aio.UsageError:
                # The channel was closed, by whoever closed the client or because the program ends.
                self.is_closed = True
                raise closed_error() from None
            except asyncio.CancelledError:
                if self.is_closed:
                    raise closed_error() from None
                raise
            else:
                self.was_connected = True
                return response


def closed_error() -> RpcError:
    """Returns the error of whoever uses a client that was closed."""
    return RpcError(grpc.StatusCode.CANCELLED, "the client is closed", reason="CLIENT_CLOSED")


class Stream(Generic[T]):
    """The server's side of a stream. One that is silent for too long counts as lost."""

    def __init__(self, connection: Connection, call: grpc.aio.UnaryStreamCall[object, T]) -> None:
        self._connection = connection
        self._call = call
        self._messages: AsyncIterator[T] = call.__aiter__()
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()
        self._is_reading = False
        self._is_stalled = False
        self._is_closed = False
        self._watchdog = self._loop.call_later(connection.settings.stall_timeout, self._look)

    async def opened(self) -> None:
        """Returns when the server has accepted the request; what it refuses is raised by `next`."""
        await self._call.initial_metadata()

    async def next(self) -> T | None:
        """Returns the next message, or `None` when the server has ended the stream in order."""
        self._heard = self._loop.time()
        self._is_reading = True
        try:
            message = await self._messages.__anext__()
        except StopAsyncIteration:
            self.close()
            return None
        except grpc.RpcError as error:
            self.close()
            raise RpcError.from_grpc(error) from None
        except asyncio.CancelledError:
            was_closed = self._is_closed or self._connection.is_closed
            self.close()
            if self._is_stalled:
                seconds = self._connection.settings.stall_timeout
                raise RpcError(grpc.StatusCode.UNAVAILABLE, f"nothing was heard for {seconds:g} s") from None
            if was_closed:
                raise closed_error() from None
            raise
        finally:
            self._is_reading = False
        self._connection.was_connected = True
        return message

    async def expect(self) -> T:
        """Returns the next message of a stream that must not end now: its end is an error as a lost connection is."""
        message = await self.next()
        if message is None:
            raise RpcError(grpc.StatusCode.UNAVAILABLE, "the server ended the stream before its time")
        return message

    def close(self) -> None:
        """Gives the stream up, if it has not ended; whoever waits for its next message gets an error."""
        self._is_closed = True
        self._watchdog.cancel()
        self._call.cancel()

    def allow_silence(self) -> None:
        """Lets the stream be silent from now on, for as long as it likes."""
        self._watchdog.cancel()

    def when_ended(self, act: Callable[[], None]) -> None:
        """Has a function called when the stream has ended, in whatever way."""
        self._call.add_done_callback(lambda _: act())

    def _look(self) -> None:
        # Between two reads it is the reader that is slow, not the server.
        patience = self._connection.settings.stall_timeout
        left = self._heard + patience - self._loop.time() if self._is_reading else patience
        if left > 0:
            self._watchdog = self._loop.call_later(left, self._look)
        else:
            self._is_stalled = True
            self._call.cancel()


class Patience:
    """How long to go on after failures: waits grow, are spread at random, and end some time after the last success."""

    def __init__(self, connection: Connection, limit: float | None) -> None:
        self._connection = connection
        self._limit = limit
        self._attempts = 0
        self._since = 0.0

    def succeeded(self) -> None:
        """Notes that the server has answered."""
        self._attempts = 0

    async def wait(self, error: RpcError) -> None:
        """Returns when it is time for another attempt, or raises the error if there is no sense in one."""
        now = asyncio.get_running_loop().time()
        if self._attempts == 0:
            self._since = now
        if self._connection.is_closed or not (error.is_transient or self._is_renewable(error)):
            raise error
        delay = min(_FIRST_WAIT * 2.0 ** min(self._attempts, 16), _LONGEST_WAIT) * random.uniform(0.5, 1.0)
        delay = max(delay, error.retry_delay or 0.0)
        self._attempts += 1
        limit = self._limit
        if not self._connection.was_connected:
            connect = self._connection.settings.connect_timeout
            limit = connect if limit is None else min(limit, connect)
        if limit is not None and now + delay - self._since > limit:
            raise error
        await asyncio.sleep(delay)

    def _is_renewable(self, error: RpcError) -> bool:
        """Says whether a function that gives tokens may give a better one: it is asked once."""
        is_expired = error.code is grpc.StatusCode.UNAUTHENTICATED and error.reason == "CREDENTIALS_EXPIRED"
        return is_expired and callable(self._connection.settings.token) and self._attempts == 0
