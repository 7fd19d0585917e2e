"""The version of the newest release: `RELEASE` in cli/version.py, and the files that repeat it.

`python -m tests.support.release_version 0.2.0` writes a new one into all of them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "cli" / "version.py"
# Files for tools that cannot ask cli/version.py, and commands that readers copy.
COPIES = (
    "cli/commands/manifests.py",
    "deploy/chart/Chart.yaml",
    "deploy/editors/vscode/package.json",
    "deploy/krew/placet.yaml",
    "deploy/kustomize/base/kustomization.yaml",
    "deploy/kustomize/base/placet.yaml",
    "docs/editors.md",
    "docs/gitops.md",
    "docs/install.md",
    "docs/kind.md",
    "docs/operations/image.md",
)
# What stands before the version: a name of an image, a file, a tag, or a key.
_VERSION = re.compile(
    r"""(?mx) ( \bplacet[:-] | \brev:[ ]v | action@v | newTag:[ ] | ^(?:appV|[ ]*v)ersion:[ ]v?
    | /download/v | ^[ ]+"version":[ ]" | kubernetes\.io/version:[ ]" | ^RELEASE[ ]=[ ]" )
    (\d+\.\d+\.\d+) """
)


def named(text: str) -> list[str]:
    """The versions of Placet that a text names."""
    return [version for _, version in _VERSION.findall(text)]


def main() -> None:
    """Write the version of the command line into the source and its copies."""
    (version,) = sys.argv[1:]
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        sys.exit(f"no version of a release: {version}")
    for path in (SOURCE, *(ROOT / copy for copy in COPIES)):
        text = path.read_text(encoding="utf-8")
        path.write_text(_VERSION.sub(rf"\g<1>{version}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
