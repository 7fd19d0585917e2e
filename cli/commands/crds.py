"""Command `crds`: the CustomResourceDefinitions of PlacementPolicy objects."""

from __future__ import annotations

import argparse
from pathlib import Path

from cli.command import Exit, flags_of, write_text
from policies.crds import texts

EXAMPLES = """\
examples:
  placet crds | kubectl apply --server-side -f -
  placet crds --output manifests/
"""


ARGUMENTS = flags_of("""
  --output FOLDER
    write one file each into this folder instead of printing them
""")


def run(args: argparse.Namespace) -> int:
    if args.output is None:
        print("---\n".join(texts().values()), end="")
        return Exit.OK
    folder: Path = args.output
    for name, text in texts().items():
        write_text(folder / name, text)
        print(f"wrote {folder / name}")
    return Exit.OK
