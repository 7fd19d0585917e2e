"""Main command `placet`: finds the command that is asked for, runs it, and reports errors."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Container, Sequence
from functools import partial

from cli.command import Exit, add_flags, module_of, program
from cli.commands import COMMANDS, FIRST
from cli.render import print_error
from cli.streams import OutputError, close_output, escaped_streams
from cli.version import version
from grammar.messages.diagnostics import UserError, nearest

_EPILOG = "exit codes: 0 success, 1 problems found, 2 the command could not run"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code. Raises SystemExit after `--help` and bad usage."""
    try:
        try:
            with escaped_streams():
                return _main(sys.argv[1:] if argv is None else argv)
        finally:
            if not sys.stdout.closed:
                sys.stdout.flush()
    except BrokenPipeError:
        close_output()
        return Exit.OK
    except OutputError as error:
        close_output()
        print_error(error.message, error.hint)
        return Exit.ERROR


def _main(arguments: Sequence[str]) -> int:
    wanted = next((a for a in arguments if not a.startswith("-")), "")
    if wanted and wanted not in COMMANDS:
        close = nearest(wanted, COMMANDS)
        all_of_them = f"`{program()} --help` and `{program()} more` list them"
        hint = f"a similar one exists: `{close}`" if close else all_of_them
        return _misused(parser_of(program(), ()), f"there is no command `{wanted}`", hint)
    parser = parser_of(program(), {wanted, *({"--help-all"} & {*arguments})})
    args, unknown = parser.parse_known_args(arguments)
    if unknown:
        return _misused(parser, *_unknown_argument(wanted, unknown[0]))
    if args.version:
        print(f"placet {version()}")
        return Exit.OK
    if args.command is None:
        parser.print_help(sys.stderr)
        return Exit.ERROR
    command = module_of(args.command)
    try:
        if "config" in args:
            args = _configured(parser, args, arguments)
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            # Everything is imported: from now on a command ends in its own way.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return command.run(args)
    except OutputError:
        raise
    except UserError as error:
        print_error(error.message, error.hint)
        return Exit.ERROR
    except KeyboardInterrupt:
        return Exit.INTERRUPTED


def _misused(parser: argparse.ArgumentParser, message: str, hint: str) -> int:
    """Prints the usage and an error."""
    parser.print_usage(sys.stderr)
    print_error(message, hint)
    return Exit.ERROR


def _unknown_argument(command: str, given: str) -> tuple[str, str]:
    """The message and the hint about an argument that the command does not take."""
    flag = given.partition("=")[0]
    helped = f"{program()} {command}".rstrip()
    if flag == "-" or not flag.startswith("-"):
        return f"`{given}` is one argument too many", f"see {helped} --help"
    known = module_of(command).ARGUMENTS if command else ()
    names = ["--help", "--version", *(name for each in known for name in each.names)]
    begun = (name for name in names if name.startswith(flag))
    close = next(begun, None) or nearest(flag, names)
    hint = f"a similar one exists: `{close}`" if close else f"see {helped} --help"
    return f"there is no flag `{flag}`", hint


def parser_of(name: str, wanted: Container[str]) -> argparse.ArgumentParser:
    """The parser of all commands; only the wanted ones have their arguments.

    Rare flags are in the help if `--help-all` is wanted.
    """
    parser = argparse.ArgumentParser(
        prog=name,
        description="A kube-scheduler extender that filters and scores nodes from policy files.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for command, summary in COMMANDS.items():
        described = f"{summary[0].upper()}{summary[1:]}."
        # Without a help text, a command is not listed.
        add = partial(commands.add_parser, command, description=described, allow_abbrev=False)
        sub = add(help=summary) if command in FIRST else add()
        sub.formatter_class = argparse.RawDescriptionHelpFormatter
        sub.epilog = _EPILOG
        if command in wanted:
            module = module_of(command)
            add_flags(sub, module.ARGUMENTS, rare="--help-all" in wanted)
            sub.epilog = f"{module.EXAMPLES.replace('placet ', f'{name} ')}\n{_EPILOG}"
    return parser


def _configured(
    parser: argparse.ArgumentParser, args: argparse.Namespace, arguments: Sequence[str]
) -> argparse.Namespace:
    """The arguments, with the values of the environment and of the configuration file.

    Raises CommandError.
    """
    # Only one command needs it.
    from cli.placet_configuration import placet_configuration  # noqa: PLC0415

    start = arguments.index(args.command) + 1
    found = placet_configuration(arguments[start:], os.environ)
    configured = parser.parse_args([*arguments[:start], *found.words()])
    configured.configuration, configured.print_config = found, args.print_config
    configured.config = args.config
    return configured
