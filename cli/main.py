"""The command `placet`: its arguments, and what becomes of its errors."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from cli.exits import CommandError, Exit
from cli.render import print_error
from cli.version import version

# A module of `cli.commands` each. Only the one that was asked for is imported: `check` starts in a
# fraction of the time that the server's libraries take.
COMMANDS = {
    "serve": "answer kube-scheduler",
    "check": "say what is wrong with policy files",
    "fmt": "lay policy files out in the one canonical way",
    "eval": "show the value of an expression for a pod and a node",
    "schema": "show what policies can read of pods and nodes",
    "explain": "say which policies decide about a pod, and why each node passes or fails",
    "test": "run the tests of policy files",
    "analyze": "say what stands in a pod's way, and what would help",
    "repl": "try expressions, clauses and policies on a cluster, line by line",
    "simulate": "say where pods would go, and what other policies would change",
    "crds": "print the definitions of PlacementPolicy and ClusterPlacementPolicy",
    "scheduler-config": "write the configuration of kube-scheduler that asks Placet",
    "doctor": "say what is wrong with the configuration of a kube-scheduler",
}
_EPILOG = "exit codes: 0 all is well, 1 something was found, 2 the command could not be carried out"


class Command(Protocol):
    """What a module of `cli.commands` has."""

    def configure(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, args: argparse.Namespace) -> int: ...


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code; SystemExit after `--help` and wrong arguments."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    wanted = next((a for a in arguments if not a.startswith("-")), "")
    parser = argparse.ArgumentParser(
        prog="placet",
        description="A kube-scheduler extender in which placement is written down.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    command: Command | None = None
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(name, help=summary, description=f"{summary.capitalize()}.")
        sub.formatter_class = argparse.RawDescriptionHelpFormatter
        if name == wanted:
            command = cast("Command", import_module(f"cli.commands.{name.replace('-', '_')}"))
            command.configure(sub)
        sub.epilog = "\n".join(filter(None, (sub.epilog, _EPILOG)))
    args = parser.parse_args(arguments)
    if args.version:
        print(f"placet {version()}")
        return Exit.OK
    if command is None:
        parser.print_help(sys.stderr)
        return Exit.ERROR
    return _run(command, args)


def _run(command: Command, args: argparse.Namespace) -> int:
    try:
        code = command.run(args)
        sys.stdout.flush()
    except CommandError as error:
        print_error(error.message, error.hint)
        return Exit.ERROR
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Whoever read us has enough; closing the stream once more must not raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    return code
