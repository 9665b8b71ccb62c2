"""Somebody at a terminal: reads what a program shows, and types.

*Invariant:* every wait is bounded, and its failure shows the whole screen.
"""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

LIMIT = 60.0
INTERRUPT = "\x03"
END = "\x04"
_STYLE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

# Makes the terminal the controlling one, so that Ctrl-C is what it is for a person.
_TAKE_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""


class Person:
    """A program on a pseudo terminal, and whoever sits there."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path, failures: list[str]) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.program = subprocess.Popen(
            [sys.executable, "-c", _TAKE_TERMINAL, *command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**environment, "TERM": "xterm"},
            cwd=folder,
        )
        os.close(slave)
        # What the model did not expect explains why something is not shown.
        self._failures = failures
        self._raw = b""
        self._seen = 0

    @property
    def screen(self) -> str:
        """Everything that was shown, without colours; a line that was wiped and written anew stands there again."""
        text = self._raw.decode(errors="replace").replace("\r\x1b[K", "\n")
        return _STYLE.sub("", text).replace("\r", "")

    def sees(self, *texts: str) -> str:
        """Waits until one of these texts is shown after the last one; returns which."""
        deadline = time.monotonic() + LIMIT
        while True:
            found = [(self.screen.find(text, self._seen), text) for text in texts]
            found = sorted(one for one in found if one[0] >= 0)
            if found:
                place, text = found[0]
                self._seen = place + len(text)
                return text
            if not self._read(deadline):
                raise AssertionError("\n".join([f"{texts} is not shown:", self.screen, *self._failures]))

    def types(self, line: str) -> None:
        os.write(self._master, line.encode() + b"\n")

    def presses(self, key: str) -> None:
        os.write(self._master, key.encode())

    def hangs_up(self) -> int:
        """Closes the terminal; returns the exit code of the program."""
        os.close(self._master)
        self._master = -1
        return self.program.wait(LIMIT)

    def sees_the_end(self) -> int:
        """Waits until the program has ended; returns its exit code."""
        deadline = time.monotonic() + LIMIT
        while self._read(deadline):
            pass
        return self.program.wait(max(1.0, deadline - time.monotonic()))

    def leave(self) -> None:
        if self.program.poll() is None:
            self.program.kill()
            self.program.wait()
        if self._master >= 0:
            os.close(self._master)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:
            # The terminal's last user is gone.
            return False
        self._raw += data
        return bool(data)
