"""Prints what the program is made of, as a CycloneDX 1.6 document: sbom.py TARGET.

The crates are those that cargo links into the program for this target, the standard library of Rust aside. Libraries in C
come in crates that build them. The page of the console is made of packages of npm, with the versions of its lock file. The
same sources give the same bytes; SOURCE_DATE_EPOCH says when they were made.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
import uuid
from base64 import b64decode
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def cargo(*arguments: str) -> str:
    """Runs cargo in the repository."""
    return subprocess.run(["cargo", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def linked(target: str) -> set[tuple[str, str]]:
    """Name and version of each crate that is linked."""
    options = ["--package", "toolgate", "--edges", "normal", "--target", target, "--prefix", "none", "--format", "{p}"]
    lines = cargo("tree", "--locked", *options).splitlines()
    return {(words[0], words[1].removeprefix("v")) for line in lines if len(words := line.split()) > 1}


def checksums() -> dict[tuple[str, str], str]:
    """The digests of the archives of crates.io."""
    lock = (ROOT / "Cargo.lock").read_text(encoding="utf-8")
    pattern = r'^name = "(.+)"\nversion = "(.+)"\nsource = ".+"\nchecksum = "(.+)"$'
    return {(name, version): digest for name, version, digest in re.findall(pattern, lock, re.MULTILINE)}


def component(package: dict, digests: dict[tuple[str, str], str]) -> dict:
    """A crate."""
    name, version = package["name"], package["version"]
    found: dict = {"type": "library", "bom-ref": f"pkg:cargo/{name}@{version}", "name": name, "version": version}
    if package["license"]:
        # Old manifests have a stroke between the licences of which one may choose.
        found["licenses"] = [{"expression": re.sub(r"\s*/\s*", " OR ", package["license"])}]
    if package["source"]:
        found["purl"] = found["bom-ref"]
        found["hashes"] = [{"alg": "SHA-256", "content": digests[name, version]}]
    if package["repository"]:
        found["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return found


def crates(target: str) -> tuple[list[dict], list[dict]]:
    """The components, the program first, and what each depends on."""
    metadata = json.loads(cargo("metadata", "--locked", "--format-version", "1", "--filter-platform", target))
    wanted, digests = linked(target), checksums()
    packages = {one["id"]: one for one in metadata["packages"] if (one["name"], one["version"]) in wanted}
    components = {identity: component(package, digests) for identity, package in packages.items()}
    dependencies = []
    for node in metadata["resolve"]["nodes"]:
        if node["id"] not in components:
            continue
        normal = [one["pkg"] for one in node["deps"] if any(kind["kind"] is None for kind in one["dep_kinds"])]
        uses = sorted(components[one]["bom-ref"] for one in normal if one in components)
        dependencies.append({"ref": components[node["id"]]["bom-ref"], "dependsOn": uses})
    root = metadata["resolve"]["root"]
    components[root]["type"] = "application"
    others = sorted((one for one in components if one != root), key=lambda one: components[one]["bom-ref"])
    return [components[one] for one in [root, *others]], sorted(dependencies, key=lambda one: one["ref"])


def page() -> list[dict]:
    """The packages that the page of the console is bundled from: what its sources import, and what that needs."""
    console = ROOT / "clients/console"
    packages = json.loads((console / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    texts = [path.read_text(encoding="utf-8") for path in sorted(console.glob("src/**/*.ts*"))]
    imported = re.findall(r'\bfrom "((?:@[^/"]+/)?[^."/][^"/]*)', "\n".join(texts))
    left, found = sorted(set(imported)), {}
    while left:
        name = left.pop()
        if name in found:
            continue
        package = packages[f"node_modules/{name}"]
        left += package.get("dependencies", {})
        version, (algorithm, digest) = package["version"], package["integrity"].split("-", 1)
        purl = f"pkg:npm/{name.replace('@', '%40')}@{version}"
        found[name] = {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": version,
            "licenses": [{"expression": package["license"]}],
            "hashes": [{"alg": algorithm.upper().replace("SHA", "SHA-"), "content": b64decode(digest).hex()}],
            "purl": purl,
        }
    return [found[name] for name in sorted(found)]


def main() -> None:
    """Prints the document."""
    (target,) = sys.argv[1:]
    (program, *components), dependencies = crates(target)
    components += page()
    made = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    what = json.dumps([target, program, components], sort_keys=True)
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, what)}",
        "version": 1,
        "metadata": {
            "timestamp": made.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": program,
            "properties": [{"name": "cargo:target", "value": target}],
        },
        "components": components,
        "dependencies": dependencies,
    }
    print(json.dumps(document, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
