"""Makes the links of the README lead somewhere from a package's page, where nothing stands beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

REPOSITORY = "https://github.com/toolgate/toolgate/blob/main/"


class Readme(MetadataHookInterface):
    """Gives the package the README, with links to the repository."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Adds the README."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": text.replace("](../../", f"]({REPOSITORY}")}
