"""Looks at deployed POMs: poms.py REPOSITORY. Maven's central repository refuses artifacts whose POM lacks any of this.

*Invariant:* a POM is judged with what it inherits from a parent in the same repository.
"""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

NAMESPACE = {"m": "http://maven.apache.org/POM/4.0.0"}
REQUIRED = [
    "name",
    "description",
    "url",
    "licenses/license/name",
    "licenses/license/url",
    "developers/developer/name",
    "scm/connection",
    "scm/developerConnection",
    "scm/url",
]
# What every artifact has to say itself.
OWN = ["name", "description"]


def text(pom: ElementTree.Element, path: str) -> str:
    found = pom.find("/".join(f"m:{step}" for step in path.split("/")), NAMESPACE)
    return "" if found is None else (found.text or "").strip()


def main() -> int:
    repository = Path(sys.argv[1])
    poms = {path: ElementTree.parse(path).getroot() for path in repository.rglob("*.pom")}
    named = {text(pom, "artifactId"): pom for pom in poms.values()}
    problems = []
    for path, pom in poms.items():
        parent = named.get(text(pom, "parent/artifactId"))
        for element in REQUIRED:
            inherited = "" if parent is None or element in OWN else text(parent, element)
            if not (text(pom, element) or inherited):
                problems.append(f"{path.name} has no {element}")
        if text(pom, "parent/artifactId") and parent is None:
            problems.append(f"the parent of {path.name} is not deployed with it")
        if text(pom, "version").endswith("-SNAPSHOT"):
            problems.append(f"{path.name} is a snapshot")
    print("\n".join(problems), end="\n" if problems else "", file=sys.stderr)
    return 1 if problems or len(poms) < 4 else 0


if __name__ == "__main__":
    sys.exit(main())
