"""Command `completion`: a shell script that completes commands, flags, choices and files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import shtab

from cli.command import Exit

EXAMPLES = """\
examples:
  source <(placet completion bash)      # in ~/.bashrc
  eval "$(placet completion zsh)"       # in ~/.zshrc, after compinit
  placet completion fish | source       # in ~/.config/fish/config.fish
"""
# The name of the kubectl plugin, which shtab does not know.
_OTHER_NAME = {
    "bash": "complete -o bashdefault -F _shtab_placet kubectl-placet",
    "zsh": "if [[ $zsh_eval_context[-1] == eval ]]; then compdef _shtab_placet kubectl-placet; fi",
    "fish": "complete --command kubectl-placet --wraps placet",
}
# The flags that take a folder.
_FOLDERS = {"--output"}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=[*_OTHER_NAME], help="bash, zsh or fish")


def run(args: argparse.Namespace) -> int:
    # `cli.main` imports this module.
    from cli.main import COMMANDS, parser_of  # noqa: PLC0415

    parser = parser_of("placet", COMMANDS)
    for action in _actions(parser):
        if action.type is Path or action.metavar == "FILE":
            folder = _FOLDERS & {*action.option_strings}
            # shtab reads this attribute; argparse does not declare it.
            vars(action)["complete"] = shtab.DIRECTORY if folder else shtab.FILE
    print(shtab.complete(parser, args.shell))
    print(_OTHER_NAME[args.shell])
    return Exit.OK


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments of all commands. argparse has no public way to them; shtab does the same."""
    for action in parser._actions:  # noqa: SLF001 - see above
        yield action
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - see above
            for sub in action.choices.values():
                yield from _actions(sub)
