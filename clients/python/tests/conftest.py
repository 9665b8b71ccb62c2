"""A server of its own for each test that wants one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import Self

BINARY = os.environ.get("TOOLGATE_BIN", "")
_START_TIMEOUT = 30.0

# A shell without job control has what it starts in the background ignore Ctrl-C, and programs inherit that.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)


class Server:
    """A Toolgate server in a folder of its own, which can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        self.roots = folder / "roots"
        self.roots.mkdir()
        self.target = f"unix:{folder}/s"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "TOOLGATE_WORKSPACE_ROOTS": str(self.roots),
        }
        self._process: subprocess.Popen[str] | None = None

    def permit(self, rules: dict[str, Any]) -> None:
        (self.work / "opencode.json").write_text(json.dumps({"permission": rules}))

    def start(self) -> None:
        command = [BINARY, "serve", "--json", "--no-tcp", "--socket", str(self.folder / "s")]
        command += ["--data-dir", str(self.folder / "data"), "--workspace", f"default={self.work}"]
        with (self.folder / "log").open("a") as log:
            self._process = subprocess.Popen(
                command, env=self.environment, stdout=subprocess.PIPE, stderr=log, text=True
            )
        lines: queue.Queue[str] = queue.Queue()
        stdout = self._process.stdout
        assert stdout is not None
        threading.Thread(target=lambda: lines.put(stdout.readline()), daemon=True).start()
        assert "listening" in lines.get(timeout=_START_TIMEOUT), (self.folder / "log").read_text()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=30)
            self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None


class Wire:
    """What stands between a client and a server: it can be cut, and carries what is sent afterwards."""

    def __init__(self, server: Server) -> None:
        self.target = f"unix:{server.folder}/w"
        self.connections = 0
        # Answers are lost.
        self.is_deaf = False
        self._folder = server.folder
        self._writers: set[asyncio.StreamWriter] = set()
        self._carrying: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_unix_server(self._connected, self._folder / "w")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        self._listener.close()
        self.cut()
        if self._carrying:
            await asyncio.wait(self._carrying)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.create_task(self._carry(reader, writer))
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_unix_connection(self._folder / "s")
        self._writers |= {writer, far_writer}
        await asyncio.gather(self._pipe(reader, far_writer), self._pipe(far_reader, writer, is_answer=True))
        self._writers -= {writer, far_writer}

    async def _pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool = False
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                if not (is_answer and self.is_deaf):
                    writer.write(data)
                    await writer.drain()
        writer.close()


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server whose rules are those of the test's mark `permit`."""
    if not Path(BINARY).is_file():
        pytest.fail("TOOLGATE_BIN names no server")
    # The paths of sockets are short, and those of pytest are not.
    folder = Path(tempfile.mkdtemp(prefix="tg-"))
    server = Server(folder)
    mark = request.node.get_closest_marker("permit")
    server.permit(mark.kwargs if mark is not None else {"bash": {"*": "ask", "echo *": "allow"}})
    server.start()
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
