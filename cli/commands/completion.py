"""Command `completion`: a shell script that completes commands, flags, choices, files and names.

The script asks this command for the names of pods, nodes, namespaces and contexts of the cluster
that the line names, which is that of the kubeconfig.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import shtab

from cli.command import CommandError, Exit
from cli.sources import add_cluster_arguments
from grammar.messages.diagnostics import UserError

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
# The flags of commands that take a folder.
_FOLDERS = {"--output"}
# The arguments that take a name of the cluster, by their destinations.
_NAMES = {
    "pod": "pods",
    "node": "nodes",
    "namespace": "namespaces",
    "context": "contexts",
}
_BASH = """\
_placet_{0}() {{
  compgen -W "$(placet completion --names {0} "${{COMP_WORDS[@]}}" 2>/dev/null)" -- "$1"
}}
"""
_ZSH = """\
_placet_{0}() {{
  local -a names
  names=(${{(f)"$(placet completion --names {0} $words 2>/dev/null)"}})
  compadd -a names
}}
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell", metavar="SHELL", nargs="?", choices=[*_OTHER_NAME], help="bash, zsh or fish"
    )
    # For the scripts: a kind of names, and the words of the line.
    parser.add_argument("--names", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    if args.names is not None:
        kind, *words = args.names or [""]
        if kind not in _NAMES.values():
            kinds = ", ".join(_NAMES.values())
            raise CommandError(f"`{kind}` are not names of a cluster", f"ask for {kinds}")
        _print_names(kind, words)
        return Exit.OK
    if args.shell is None:
        raise CommandError("no shell is given", f"give one of {', '.join(_OTHER_NAME)}")
    # `cli.main` imports this module.
    from cli.main import COMMANDS, parser_of  # noqa: PLC0415

    parser = parser_of("placet", COMMANDS)
    for action in _actions(parser):
        if action.type is Path or action.metavar == "FILE":
            folder = _FOLDERS & {*action.option_strings}
            # shtab reads this attribute; argparse does not declare it.
            vars(action)["complete"] = shtab.DIRECTORY if folder else shtab.FILE
        elif (kind := _NAMES.get(action.dest)) is not None and action.choices is None:
            names = f"_placet_{kind}"
            fish = f"(placet completion --names {kind} (commandline -opc) 2>/dev/null)"
            vars(action)["complete"] = {"bash": names, "zsh": names, "fish": fish}
    form = {"bash": _BASH, "zsh": _ZSH}.get(args.shell, "")
    preamble = "".join(form.format(kind) for kind in _NAMES.values())
    print(shtab.complete(parser, args.shell, preamble=preamble))
    print(_OTHER_NAME[args.shell])
    return Exit.OK


def _print_names(kind: str, words: Sequence[str]) -> None:
    """Prints the names of a kind, as far as they can be read; a completion shows no errors."""
    # These imports take as long as all others together.
    from cli.live import opened  # noqa: PLC0415
    from engine.cluster.connection_configuration import known_contexts  # noqa: PLC0415
    from engine.errors import ClusterConfigurationError  # noqa: PLC0415

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_cluster_arguments(parser)
    known, _ = parser.parse_known_args([w for w in words if not w.startswith("-o")])
    try:
        if kind == "contexts":
            names = known_contexts(known.kubeconfig)
        else:
            with opened(known.kubeconfig, known.context) as live:
                every = "" if known.all_namespaces else known.namespace or live.namespace
                names = live.names(kind, every)
    except (UserError, ClusterConfigurationError):
        names = []
    for name in names:
        print(name)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments of all commands. argparse has no public way to them; shtab does the same."""
    for action in parser._actions:  # noqa: SLF001 - see above
        yield action
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - see above
            for sub in action.choices.values():
                yield from _actions(sub)
