"""The command `placet`: its arguments, and what becomes of its errors."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Container, Sequence
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from cli.command import CommandError, Exit, version
from cli.render import print_error

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
    "completion": "print a script that has a shell complete commands, flags and files",
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
    parser = parser_of(program(), {wanted})
    args = parser.parse_args(arguments)
    if args.version:
        print(f"placet {version()}")
        return Exit.OK
    if args.command is None:
        parser.print_help(sys.stderr)
        return Exit.ERROR
    return _run(_module(args.command), args)


def program() -> str:
    """What it is called: kubectl has a program `kubectl-placet` as `kubectl placet`."""
    return "kubectl placet" if Path(sys.argv[0]).stem == "kubectl-placet" else "placet"


def parser_of(name: str, wanted: Container[str]) -> argparse.ArgumentParser:
    """All commands; only those that are wanted know their arguments."""
    parser = argparse.ArgumentParser(
        prog=name,
        description="A kube-scheduler extender in which placement is written down.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for command, summary in COMMANDS.items():
        described = f"{summary[0].upper()}{summary[1:]}."
        sub = commands.add_parser(command, help=summary, description=described)
        sub.formatter_class = argparse.RawDescriptionHelpFormatter
        if command in wanted:
            _module(command).configure(sub)
        examples = (sub.epilog or "").replace("placet ", f"{name} ")
        sub.epilog = "\n".join(filter(None, (examples, _EPILOG)))
    return parser


def _module(command: str) -> Command:
    return cast("Command", import_module(f"cli.commands.{command.replace('-', '_')}"))


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
