"""The service, in folders of its own, with a repository to work in."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

LIMIT = 30.0

RULES = {
    "permission": {
        "bash": {"*": "ask", "sleep *": "allow", "echo *": "allow"},
        "edit": {"*": "ask", "test_*": "deny"},
    }
}

FILES = {
    "pricing.py": '''"""Prices of an order."""

from decimal import ROUND_DOWN, Decimal


def total(prices, discount):
    """Returns the sum of the prices, less a discount in percent."""
    whole = sum(prices, Decimal(0)) * (100 - discount) / 100
    return whole.quantize(Decimal("0.01"), rounding=ROUND_DOWN)
''',
    "test_pricing.py": """import unittest
from decimal import Decimal

from pricing import total


class Total(unittest.TestCase):
    def test_nothing_taken_off(self):
        self.assertEqual(total([Decimal("1.10"), Decimal("2.20")], 0), Decimal("3.30"))

    def test_half_a_cent(self):
        self.assertEqual(total([Decimal("0.15")], 10), Decimal("0.14"))
""",
    "ROUNDING.md": "Amounts are rounded to cents. Half a cent is rounded up.\n",
    ".gitignore": "__pycache__/\n",
    "opencode.json": json.dumps(RULES),
}


class Service:
    """A service and its repository. To be stopped in any case."""

    def __init__(self, toolgate: str) -> None:
        self._toolgate = toolgate
        self._folder = tempfile.TemporaryDirectory(prefix="agents-")
        self.folder = Path(self._folder.name).resolve()
        self.repository = self.folder / "shop"
        self.target = f"unix:{self.folder / 'toolgate.sock'}"
        home = self.folder / "home"
        for path in (home, self.repository):
            path.mkdir()
        keep = {name: os.environ[name] for name in ("PATH", "LANG", "LD_LIBRARY_PATH") if name in os.environ}
        self._process: subprocess.Popen[bytes] | None = None
        self.environment = {**keep, "HOME": str(home), "TOOLGATE_SERVER": self.target}

    def start(self) -> None:
        self._make_repository()
        command = [self._toolgate, "serve", "--no-tcp", "--socket", self.target.removeprefix("unix:")]
        command += ["--workspace", f"shop={self.repository}", "--data-dir", str(self.folder / "data")]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )
        deadline = time.monotonic() + LIMIT
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < deadline, self.log()
            time.sleep(0.02)

    def stop(self) -> None:
        """Stops it; fails if it leaves a process behind."""
        try:
            if self._process is not None:
                self._process.send_signal(signal.SIGTERM)
                self._process.wait(LIMIT)
        finally:
            if self._process is not None:
                self._process.kill()
            left = self.processes()
            for process in left:
                with contextlib.suppress(OSError):
                    os.kill(process, signal.SIGKILL)
            self._folder.cleanup()
        assert not left, f"processes that the service left: {left}"

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def runs_its_tests(self) -> None:
        """Fails unless the repository's own tests pass."""
        tests = ["python3", "-m", "unittest", "-q"]
        ran = subprocess.run(tests, cwd=self.repository, capture_output=True, text=True, timeout=LIMIT)
        assert ran.returncode == 0, ran.stderr

    def changed_files(self) -> list[str]:
        """What git says was changed."""
        status = self._run("git", "-C", str(self.repository), "status", "--porcelain")
        return sorted(line[3:] for line in status.splitlines())

    def calls(self) -> list[dict]:
        """The calls, oldest first, as the service lists them."""
        listed = self._run(self._toolgate, "calls", "--json", "--all")
        return [json.loads(line) for line in reversed(listed.splitlines())]

    def audit(self) -> list[dict]:
        """The records of the audit, whose chain is whole."""
        exported = self.folder / "audit.jsonl"
        exported.write_text(self._run(self._toolgate, "audit", "export"))
        self._run(self._toolgate, "audit", "verify", str(exported))
        return [json.loads(line) for line in exported.read_text().splitlines()]

    def processes(self, argument: str = "") -> list[int]:
        """The processes that work in the repository, or only those with this argument."""
        found = []
        for process in Path("/proc").iterdir():
            if not process.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                inside = Path(os.readlink(process / "cwd")).is_relative_to(self.repository)
                arguments = (process / "cmdline").read_bytes().split(b"\0")
                if inside and (not argument or argument.encode() in arguments):
                    found.append(int(process.name))
        return found

    def _make_repository(self) -> None:
        for name, text in FILES.items():
            (self.repository / name).write_text(text)
        git = ["git", "-C", str(self.repository), "-c", "user.name=Test", "-c", "user.email=test@example.com"]
        self._run(*git, "init", "-q")
        self._run(*git, "add", ".")
        self._run(*git, "commit", "-q", "-m", "A shop with a wrong cent")

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as one:
            with contextlib.suppress(OSError):
                one.connect(self.target.removeprefix("unix:"))
                return True
        return False

    def _run(self, *command: str) -> str:
        ran = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=LIMIT)
        assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"
        return ran.stdout
