"""The programs of the guides in `docs/guides/`, run for real."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import Server
from tests.test_readme import run

# The programs of one guide need frameworks, and are run with them: tests/ecosystem/frameworks-python.sh.
PAGES = sorted((Path(__file__).parents[3] / "docs" / "guides").glob("*.md"))
GUIDES = [page for page in PAGES if page.stem != "frameworks"]
# A program, and what the page says that the programs before it print.
BLOCK = re.compile(r"^```python\n(.*?)^```$.*?^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = [pytest.param(*block, id=guide.stem) for guide in GUIDES for block in BLOCK.findall(guide.read_text())]


def test_there_are_guides() -> None:
    assert len(PROGRAMS) >= 8


@pytest.mark.permit(bash={"*": "ask", "seq *": "allow", "sleep *": "allow"})
@pytest.mark.parametrize(("program", "printed"), PROGRAMS)
def test_a_program_of_the_guides(server: Server, program: str, printed: str) -> None:
    assert run(server, program) == printed
