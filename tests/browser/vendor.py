"""Vendor: brings the libraries of the page from npm: `make vendor`, with versions and hashes.

`server/ui/vendor/versions.json` says what is there. Another version is written into PACKAGES here.
npm checks the integrity that its registry names, and this script the one that is written here.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "server" / "ui" / "vendor"
VERSIONS = FOLDER / "versions.json"


@dataclass(frozen=True)
class Package:
    """A version of a package, its licence, and its files with their names here."""

    name: str
    version: str
    integrity: str
    licence: str
    files: Mapping[str, str]


PACKAGES = (
    # The file has Preact, its hooks and htm together.
    Package(
        "htm",
        "3.1.1",
        "sha512-983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==",
        "Apache-2.0",
        {"preact/standalone.module.js": "preact-htm.js", "LICENSE": "LICENSE-htm.txt"},
    ),
    # Only its licence: which version of Preact is in that file is up to htm.
    Package(
        "preact",
        "10.5.15",
        "sha512-5chK29n6QcJc3m1lVrKQSQ+V7K1Gb8HeQY6FViQ5AxCAEGu3DaHffWNDkC9+miZgsLvbvU9rxbV1qinGHMHzqA==",
        "MIT",
        {"LICENSE": "LICENSE-preact.txt"},
    ),
)


def integrity(content: bytes) -> str:
    """The hash as npm writes it."""
    return "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()


def fetch(package: Package, folder: Path) -> Mapping[str, bytes]:
    """The files of a package by their names here."""
    named = f"{package.name}@{package.version}"
    subprocess.run(["npm", "pack", "--silent", named], cwd=folder, check=True)  # noqa: S607
    archive = folder / f"{package.name}-{package.version}.tgz"
    found = integrity(archive.read_bytes())
    if found != package.integrity:
        raise SystemExit(f"{named} has the integrity {found}, and not {package.integrity}")
    with tarfile.open(archive) as members:
        contents = {}
        for path, name in package.files.items():
            member = members.extractfile(f"package/{path}")
            assert member is not None, path
            contents[name] = member.read()
        return contents


def main() -> None:
    known = []
    with tempfile.TemporaryDirectory() as folder:
        for package in PACKAGES:
            contents = fetch(package, Path(folder))
            for name, content in contents.items():
                (FOLDER / name).write_bytes(content)
            files = {name: integrity(content) for name, content in contents.items()}
            known.append(
                {
                    "package": package.name,
                    "version": package.version,
                    "integrity": package.integrity,
                    "licence": package.licence,
                    "files": files,
                }
            )
    VERSIONS.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
