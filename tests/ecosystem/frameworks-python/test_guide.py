"""The programs of `docs/guides/frameworks.md`, run for real, each with a model that says what a script says."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.conftest import Server
from tests.test_readme import run

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "frameworks.md").read_text()
PRINTED = "".join(re.findall(r"^```text\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL))
PROGRAMS = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
# The model that a program names, and the one that it gets here.
MODELS = {"langchain": '"openai:gpt-5"', "pydantic_ai": '"openai:gpt-5"', "openai_agents": '"gpt-5"'}


@pytest.mark.permit(bash="ask")
@pytest.mark.parametrize("framework", MODELS)
def test_the_program(server: Server, framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (program,) = [one for one in PROGRAMS if f"toolgate.adapters.{framework} " in one]
    assert program.count(MODELS[framework]) == 1
    program = program.replace(MODELS[framework], f"scripted.{framework}()")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]))
    assert run(server, f"import scripted\n\n{program}") == PRINTED
