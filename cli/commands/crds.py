"""`placet crds`: what an API server must know to take PlacementPolicy objects."""

from __future__ import annotations

import argparse
from pathlib import Path

from cli.command import CommandError, Exit
from policies.crds import texts

_EXAMPLES = """\
examples:
  placet crds | kubectl apply -f -
  placet crds --output manifests/
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument(
        "--output",
        metavar="FOLDER",
        type=Path,
        help="write a file each into this folder instead of printing them",
    )


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
            reason = (error.strerror or str(error)).lower()
            hint = "check who may write there"
            raise CommandError(f"cannot write `{file}`: {reason}", hint) from None
        print(f"wrote {file}")
    return Exit.OK
