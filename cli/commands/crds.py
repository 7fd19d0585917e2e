"""Command `crds`: the CustomResourceDefinitions of PlacementPolicy objects."""

from __future__ import annotations

import argparse
from pathlib import Path

from cli.command import Exit, Flag
from cli.streams import put_text

# The same place in a checkout and in the wheel.
FOLDER = Path(__file__).parents[2] / "deploy" / "chart" / "files" / "crds"
EXAMPLES = """\
examples:
  placet crds | kubectl apply --server-side -f -
"""
ARGUMENTS: tuple[Flag, ...] = ()


def run(_args: argparse.Namespace) -> int:
    put_text("---\n".join(file.read_text("utf-8") for file in sorted(FOLDER.iterdir())))
    return Exit.OK
