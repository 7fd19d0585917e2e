"""Command `manifests`: the files of deploy/, which the wheel and the image have too."""

from __future__ import annotations

import argparse
from pathlib import Path

from cli.command import CommandError, Exit, unwritable

EXAMPLES = """\
examples:
  placet manifests
  placet manifests rbac | kubectl apply -f -
  placet manifests --output manifests/
"""

FOLDER = Path(__file__).parents[2] / "deploy"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path",
        metavar="PATH",
        nargs="?",
        help="a file or folder to print (default: list all files)",
    )
    parser.add_argument(
        "--output",
        metavar="FOLDER",
        type=Path,
        help="write the files into this folder instead of printing them",
    )


def run(args: argparse.Namespace) -> int:
    chosen = _chosen(args.path)
    if args.output is not None:
        for name in chosen:
            _write(args.output / name, (FOLDER / name).read_bytes())
    elif args.path is None:
        print(*chosen, sep="\n")
    else:
        print("---\n".join((FOLDER / name).read_text(encoding="utf-8") for name in chosen), end="")
    return Exit.OK


def _chosen(path: str | None) -> list[str]:
    """The files at or below a path, or all."""
    files = (file for file in FOLDER.rglob("*") if file.is_file())
    names = sorted(file.relative_to(FOLDER).as_posix() for file in files)
    wanted = (path or "").strip("/")
    chosen = [name for name in names if not wanted or f"{name}/".startswith(f"{wanted}/")]
    if not chosen:
        hint = "`placet manifests` lists the files"
        raise CommandError(f"there is no manifest `{path}`", hint=hint)
    return chosen


def _write(file: Path, content: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    except OSError as error:
        raise unwritable(file, error) from None
    print(f"wrote {file}")
