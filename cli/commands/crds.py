"""Command `crds`: the CustomResourceDefinitions of PlacementPolicy objects."""

from __future__ import annotations

import argparse
from pathlib import Path

from cli.command import Exit, unwritable
from cli.flag_table import flags_of
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
        file = folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        except OSError as error:
            raise unwritable(file, error) from None
        print(f"wrote {file}")
    return Exit.OK
