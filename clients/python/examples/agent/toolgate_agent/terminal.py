"""The terminal: lines in, text out, one line for what runs, and one question at a time."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import threading
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# Control characters and marks that turn the direction of text around. What comes from a model or a program could
# otherwise move the cursor, and show a person something else than what they allow.
_HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Returns a text in which nothing is hidden from whoever reads it."""
    return _HIDDEN.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


class Terminal:
    """Standard input and output, on a terminal or not. Made within a running event loop."""

    def __init__(self) -> None:
        self.is_tty = sys.stdin.isatty() and sys.stdout.isatty()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._dialog = asyncio.Lock()
        self._held: list[tuple[str, bool]] | None = None
        self._running: dict[object, str] = {}
        self._at_start = True
        # A thread, because no other way reads terminals, pipes and files alike.
        reader = threading.Thread(target=self._read, args=(asyncio.get_running_loop(),), daemon=True)
        reader.start()

    def paint(self, code: int, text: str) -> str:
        """Returns the text in a colour of ANSI, where there are colours."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.is_tty and "NO_COLOR" not in os.environ else text

    def write(self, text: str) -> None:
        """Writes text that may go on in the same line. It waits while a person is being asked something."""
        self._emit(text, is_line=False)

    def line(self, text: str) -> None:
        """Writes a line of its own."""
        self._emit(f"{text}\n", is_line=True)

    def running(self, key: object, text: str | None) -> None:
        """Shows what something that runs is doing, below all else; `None` when it has ended."""
        self._running.pop(key, None)
        if text is not None:
            self._running[key] = text
        self._draw()

    @asynccontextmanager
    async def dialog(self) -> AsyncIterator[None]:
        """Has the terminal for questions: other questions and all output wait."""
        async with self._dialog:
            self._emit("", is_line=True)
            self._erase()
            self._held = []
            try:
                yield
            finally:
                held, self._held = self._held, None
                for text, is_line in held:
                    self._emit(text, is_line=is_line)
                self._draw()

    async def ask(self, question: str, *, typed_ahead: bool = False) -> str | None:
        """Returns the line that is typed; `None` at the end of the input. To be used within `dialog`."""
        # What was typed before somebody could read the question is no answer to it.
        if self.is_tty and not typed_ahead:
            while not self._lines.empty():
                if self._lines.get_nowait() is None:
                    self._lines.put_nowait(None)
                    break
        self._put(question)
        try:
            line = await self._lines.get()
        except asyncio.CancelledError:
            self._put("\n")
            raise
        if line is None:
            self._lines.put_nowait(None)
        if line is None or not self.is_tty:
            self._put(f"{line or ''}\n")
        self._at_start = True
        return line

    def say(self, text: str) -> None:
        """Writes a line at once. To be used within `dialog`."""
        self._put(f"{text}\n")

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        rest = b""
        # The loop is closed when the agent ends while a line is awaited; a terminal that is gone is an error.
        with suppress(RuntimeError, OSError):
            # Not `sys.stdin`: a thread that sits in a buffered reader keeps the interpreter from ending well.
            while data := os.read(0, 65536):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    loop.call_soon_threadsafe(self._lines.put_nowait, line.decode(errors="replace"))
        with suppress(RuntimeError):
            if rest:
                loop.call_soon_threadsafe(self._lines.put_nowait, rest.decode(errors="replace"))
            loop.call_soon_threadsafe(self._lines.put_nowait, None)

    def _emit(self, text: str, *, is_line: bool) -> None:
        if self._held is not None:
            self._held.append((text, is_line))
            return
        self._erase()
        self._put(("\n" if is_line and not self._at_start else "") + text)
        self._draw()

    def _put(self, text: str) -> None:
        self._raw(text)
        if text:
            self._at_start = text.endswith("\n")

    def _raw(self, text: str) -> None:
        # A terminal that is gone must not keep the agent from ending its calls.
        with suppress(OSError):
            sys.stdout.write(text)
            sys.stdout.flush()

    def _erase(self) -> None:
        if self.is_tty and self._held is None and self._at_start:
            self._raw("\r\x1b[K")

    def _draw(self) -> None:
        if not self.is_tty or self._held is not None or not self._at_start:
            return
        text = next(reversed(self._running.values()), "")
        more = f" (+{len(self._running) - 1})" if len(self._running) > 1 else ""
        width = shutil.get_terminal_size().columns - len(more) - 1
        self._raw(f"\r\x1b[K{text[:width]}{more}")
