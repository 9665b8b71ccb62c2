"""What pyproject.toml cannot say of the package.

The links of the README lead somewhere from the package's page, where nothing stands beside it. And a wheel for Linux
has the program `toolgate`: `tests/release/pack/pack.sh` names the folder that it is in, and the tag of the wheel.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "https://github.com/toolgate/toolgate/blob/main/"


class Readme(MetadataHookInterface):
    """Gives the package the README, with links to the repository."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Adds the README."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": text.replace("](../../", f"]({REPOSITORY}")}


class Program(BuildHookInterface):
    """Puts the program, its manual pages and its completions into a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds what is in the tree, if there is one."""
        tree = os.environ.get("TOOLGATE_WHEEL_TREE")
        if not tree or version != "standard":
            return
        build_data["tag"] = os.environ["TOOLGATE_WHEEL_TAG"]
        build_data["shared_scripts"][f"{tree}/bin/toolgate"] = "toolgate"
        build_data["shared_data"][f"{tree}/share"] = "share"
