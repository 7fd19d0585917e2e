"""Command `more`: the commands that `placet --help` does not list."""

from __future__ import annotations

import argparse

from cli.command import Exit, Flag, program
from cli.commands import MORE

EXAMPLES = """\
examples:
  placet more
"""
ARGUMENTS: tuple[Flag, ...] = ()


def run(_args: argparse.Namespace) -> int:
    for about, commands in MORE.items():
        print(f"{about}:")
        print(*(f"  {name:<18}{summary}" for name, summary in commands.items()), "", sep="\n")
    print(f"`{program()} COMMAND --help` says more of each")
    return Exit.OK
