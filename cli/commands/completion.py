"""`placet completion`: a script that has a shell complete commands, flags, choices and files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import shtab

from cli.command import Exit

_EXAMPLES = """\
examples:
  source <(placet completion bash)      # in ~/.bashrc
  eval "$(placet completion zsh)"       # in ~/.zshrc, after compinit
  placet completion fish | source       # in ~/.config/fish/config.fish
"""
# As a plugin of kubectl it is called by another name, which shtab does not know of.
_OTHER_NAME = {
    "bash": "complete -o bashdefault -F _shtab_placet kubectl-placet",
    "zsh": "if [[ $zsh_eval_context[-1] == eval ]]; then compdef _shtab_placet kubectl-placet; fi",
    "fish": "complete --command kubectl-placet --wraps placet",
}
# What these name are folders.
_FOLDERS = {"--output"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    parser.add_argument("shell", metavar="SHELL", choices=[*_OTHER_NAME], help="bash, zsh or fish")


def run(args: argparse.Namespace) -> int:
    # It has this module's commands, so it cannot be imported by it.
    from cli.main import COMMANDS, parser_of  # noqa: PLC0415

    parser = parser_of("placet", COMMANDS)
    for action in _actions(parser):
        if action.type is Path or action.metavar == "FILE":
            folder = _FOLDERS & {*action.option_strings}
            # This is how shtab is told; argparse does not declare it.
            vars(action)["complete"] = shtab.DIRECTORY if folder else shtab.FILE
    print(shtab.complete(parser, args.shell))
    print(_OTHER_NAME[args.shell])
    return Exit.OK


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments of all commands. There is no public way to them; shtab goes this one too."""
    for action in parser._actions:  # noqa: SLF001 - see above
        yield action
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - see above
            for sub in action.choices.values():
                yield from _actions(sub)
