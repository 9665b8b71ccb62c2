"""Commands in the background, as a front end shows them, without `async`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolgate.sync import _portal

if TYPE_CHECKING:
    from toolgate import terminals
    from toolgate.results import InputState


class Terminal:
    """A command in the background, and its terminal if it was given one.

    Attributes:
        call_id: The call of the tool `background` that runs it.
    """

    def __init__(self, terminal: terminals.Terminal) -> None:
        self.call_id = terminal.call_id
        self._terminal = terminal

    def picture(self) -> terminals.TerminalPicture:
        """Returns what the terminal shows, for who comes to it late or again."""
        return _portal.run(self._terminal.picture())

    def resize(self, columns: int, rows: int) -> None:
        """Gives the terminal another size: 1 to 500 columns and 1 to 200 rows."""
        _portal.run(self._terminal.resize(columns, rows))

    def send_input(self, data: bytes | str = b"", *, offset: int | None = None, close: bool = False) -> InputState:
        """Sends what a keyboard would: as `Client.send_input`, which says what the options mean."""
        return _portal.run(self._terminal.send_input(data, offset=offset, close=close))

    def signal(self, signal: terminals.Signal) -> None:
        """Sends a signal to the programs, in a terminal to those in the foreground.

        It is not sent again when the connection is lost: with the code UNAVAILABLE it may have been sent.
        """
        _portal.run(self._terminal.signal(signal))
