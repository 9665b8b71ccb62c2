"""Prints the licences of the crates that are in the program, which have to go with it: notices.py TARGET.

A text that several crates have is printed once. A crate without one is listed with what it says of its licence.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from sbom import cargo, linked

NAMES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")


def texts(folder: Path) -> list[str]:
    """The texts that stand beside the manifest of a crate."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name.upper().startswith(NAMES))
    return [path.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n").strip() for path in files]


def main() -> None:
    """Prints them."""
    (target,) = sys.argv[1:]
    metadata = json.loads(cargo("metadata", "--locked", "--format-version", "1", "--filter-platform", target))
    wanted = linked(target)
    users: dict[str, list[str]] = {}
    for package in sorted(metadata["packages"], key=lambda one: (one["name"], one["version"])):
        if (package["name"], package["version"]) not in wanted or not package["source"]:
            continue
        name = f"{package['name']} {package['version']}"
        found = texts(Path(package["manifest_path"]).parent)
        for text in found or [f"{package['license']}, by {', '.join(package['authors']) or 'its authors'}. It comes without a text."]:
            users.setdefault(text, []).append(name)
    print("Toolgate is made of the libraries below, beside its own code. These are their licences.")
    for text, names in users.items():
        print(f"\n{'=' * 80}\n{', '.join(names)}\n{'-' * 80}\n{text}")


if __name__ == "__main__":
    main()
