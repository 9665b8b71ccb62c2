"""Ports of programs, and connections to them, without `async`."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from toolgate.sync import _portal

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from toolgate import ports


class OpenedPort:
    """A port that a program of a call listens on, opened for this client. In `with` it is closed at the end.

    Attributes:
        call_id: The call that keeps it open.
        http_path: The path, at the address of the service, under which a browser reaches the port without other
            credentials, WebSockets included. It ends with the call.
    """

    def __init__(self, port: ports.OpenedPort) -> None:
        self.call_id = port.call_id
        self.http_path = port.http_path
        self._port = port

    def connect(self) -> PortConnection:
        """Makes a connection to the program, and returns when it is made."""
        return PortConnection(_portal.run(self._port.connect()))

    def close(self) -> None:
        """Closes the port and its connections."""
        _portal.run(self._port.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class PortConnection:
    """A connection to a program, with the methods of a socket. When it is lost, they raise `RpcError`."""

    def __init__(self, connection: ports.PortConnection) -> None:
        self._connection = connection

    def recv(self, size: int) -> bytes:
        """Returns the next bytes, at most `size`, when there are any; none when the program has closed its side."""
        return _portal.run(self._connection.read(size))

    def sendall(self, data: bytes) -> None:
        """Sends bytes. Waits while the program does not read."""
        _portal.run(self._connection.write(data))

    def shutdown(self, how: int = socket.SHUT_WR) -> None:
        """Sends the end: the program reads it after what was sent before. What it sends can be received on.

        Args:
            how: `socket.SHUT_WR`, and nothing else.
        """
        if how != socket.SHUT_WR:
            raise ValueError("only the sending side is shut down by itself; close() ends both")
        _portal.run(self._connection.write_eof())

    def close(self) -> None:
        """Ends the connection at once. For the program to get all that was sent, end it by `shutdown` and `recv`."""
        _portal.run(self._connection.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
