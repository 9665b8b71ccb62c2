"""A service for each test, with rules that ask."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Server
from tests.conftest import server as a_server
from toolgate import AsyncClient, Client

server = a_server

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
async def client(server: Server) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(server.target) as client:
        yield client


@pytest.fixture
def plain(server: Server) -> Iterator[Client]:
    with Client(server.target) as client:
        yield client


@pytest.fixture
def picture(server: Server) -> Path:
    path = server.work / "dot.png"
    path.write_bytes(PNG)
    return path


@pytest.fixture
def outside(server: Server) -> Path:
    """A file outside of the workspace, which is asked for beside the command that reads it."""
    path = server.folder / "outside.txt"
    path.write_text("from outside\n")
    return path


@pytest.fixture
def guarded(server: Server) -> Server:
    """The service again, with tokens: callers may not answer prompts."""
    server.stop()
    tokens = server.folder / "tokens"
    tokens.write_text(
        "worker token-of-the-worker calls.execute,calls.read\nperson token-of-the-person calls.read,prompts.reply\n"
    )
    tokens.chmod(0o600)
    server.environment["TOOLGATE_AUTH_TOKENS_FILE"] = str(tokens)
    server.start()
    return server


def bash(command: str) -> dict[str, Any]:
    return {"command": command, "description": "Does it"}
