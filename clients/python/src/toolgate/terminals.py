"""Commands in the background, as a front end shows them: what they draw, what is typed, signals."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from toolgate import calls
from toolgate.v1 import terminal_pb2

if TYPE_CHECKING:
    from toolgate._connection import Connection
    from toolgate.results import InputState


class Signal(str, Enum):
    """A signal that the programs of a call can be sent."""

    INT = "int"
    TERM = "term"
    HUP = "hup"
    QUIT = "quit"
    USR1 = "usr1"
    USR2 = "usr2"

    def to_proto(self) -> terminal_pb2.Signal.ValueType:
        """Makes the value of the contract."""
        return terminal_pb2.Signal.Value(f"SIGNAL_{self.name}")


@dataclass(frozen=True)
class TerminalPicture:
    """What a terminal shows at one moment.

    Attributes:
        columns: Its width, in characters.
        rows: Its height, in characters.
        contents: Text and escape sequences that draw it, in a terminal of this size that was just reset.
        cursor_column: The cursor's column, from 0.
        cursor_row: The cursor's row, from 0.
        cursor_visible: Whether the cursor is shown.
        title: The title that the programs gave the terminal.
        output_offset: How many bytes of the call's output are in the picture: what follows begins at this offset.
        last_sequence: Where to go on: `Client.watch` after it brings everything from `output_offset` on, and possibly
            what is before it, which is to be skipped.
        raw: The message of the contract.
    """

    columns: int
    rows: int
    contents: bytes
    cursor_column: int
    cursor_row: int
    cursor_visible: bool
    title: str
    output_offset: int
    last_sequence: int
    raw: terminal_pb2.GetTerminalResponse = field(repr=False)

    @classmethod
    def from_proto(cls, message: terminal_pb2.GetTerminalResponse) -> TerminalPicture:
        """Reads the message of the contract."""
        return cls(
            columns=message.size.columns,
            rows=message.size.rows,
            contents=message.contents,
            cursor_column=message.cursor_column,
            cursor_row=message.cursor_row,
            cursor_visible=message.cursor_visible,
            title=message.title,
            output_offset=message.output_offset,
            last_sequence=message.last_sequence,
            raw=message,
        )


class Terminal:
    """A command in the background, and its terminal if it was given one.

    Attributes:
        call_id: The call of the tool `background` that runs it.
    """

    def __init__(self, connection: Connection, call_id: str) -> None:
        self.call_id = call_id
        self._connection = connection

    async def picture(self) -> TerminalPicture:
        """Returns what the terminal shows, for who comes to it late or again."""
        request = terminal_pb2.GetTerminalRequest(call_id=self.call_id)
        response = await self._connection.unary(
            lambda stubs, timeout: stubs.tools.GetTerminal(request, timeout=timeout)
        )
        return TerminalPicture.from_proto(response)

    async def resize(self, columns: int, rows: int) -> None:
        """Gives the terminal another size: 1 to 500 columns and 1 to 200 rows."""
        size = terminal_pb2.TerminalSize(columns=columns, rows=rows)
        request = terminal_pb2.ResizeTerminalRequest(call_id=self.call_id, size=size)
        await self._connection.unary(lambda stubs, timeout: stubs.tools.ResizeTerminal(request, timeout=timeout))

    async def send_input(
        self, data: bytes | str = b"", *, offset: int | None = None, close: bool = False
    ) -> InputState:
        """Sends what a keyboard would: as `Client.send_input`, which says what the options mean."""
        return await calls.send_input(self._connection, self.call_id, data, offset, close=close)

    async def signal(self, signal: Signal) -> None:
        """Sends a signal to the programs, in a terminal to those in the foreground.

        It is not sent again when the connection is lost: with the code UNAVAILABLE it may have been sent.
        """
        request = terminal_pb2.SignalCallRequest(call_id=self.call_id, signal=signal.to_proto())
        await self._connection.unary(
            lambda stubs, timeout: stubs.tools.SignalCall(request, timeout=timeout), retry=False
        )
