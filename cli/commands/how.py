"""Command `how`: recipes for what somebody wishes, found by words."""

from __future__ import annotations

import argparse

from cli.command import Exit, flags_of
from policies.recipe_collection import best, listed, recipes, shown

EXAMPLES = """\
examples:
  placet how at most three per zone
  placet how away from databases
  placet how one-per-node
  placet how
"""


ARGUMENTS = flags_of("""
  [WORDS...]
    what is wished, in plain words, or the name of a recipe; without words, all recipes
""")


def run(args: argparse.Namespace) -> int:
    lines = shown(*best(" ".join(args.words))) if args.words else listed(recipes())
    print(*lines, sep="\n")
    return Exit.OK
