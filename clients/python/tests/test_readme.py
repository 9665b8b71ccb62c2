"""The examples of the README, run for real."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Server

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
FIRST, ASYNC, *OTHERS = BLOCKS


def run(server: Server, program: str, *, given: str = "") -> str:
    environment = {**os.environ, "TOOLGATE_SERVER": server.target}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=server.work,
        input=given,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


@pytest.mark.permit(bash="ask")
@pytest.mark.parametrize(("given", "said"), [("y\n", "opencode.json"), ("n\n", "ask me first")])
def test_the_first_example(server: Server, given: str, said: str) -> None:
    assert FIRST.count("\n") <= 20
    assert said in run(server, FIRST, given=given)


def test_the_example_for_asyncio(server: Server) -> None:
    assert ASYNC.startswith("import asyncio")
    assert "completed" in run(server, ASYNC)


@pytest.mark.permit(bash={"*": "allow", "sudo *": "ask"}, edit="allow", port="ask")
def test_the_other_examples_in_their_order(server: Server) -> None:
    said = run(server, "\n".join(OTHERS))
    for text in [
        "no sudo here",
        "Oslo: rain",
        "588895/588895",
        "NOT_FOUND",
        "ReplyResult.ACCEPTED",
        "b'99999",
        "it would be: ask [['sudo ls']]",
        "['notes/today.md']\nhello\n True\n",
        "changed: ['notes/today.md'] gone: []\nTrue\n",
        "80 columns, 24 rows",
        "a browser opens /ports/",
        "HTTP/1.0 200 OK",
    ]:
        assert text in said, said
