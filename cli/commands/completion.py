"""Command `completion`: a shell script that completes commands, flags, choices, files and names.

The script asks this command for the names of pods, nodes, namespaces and contexts of the cluster
that the line names, which is that of the kubeconfig. kubectl completes `kubectl placet` without the
script: it runs the program `kubectl_complete-placet`, which is this command with the words behind
`placet` (https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence

import shtab

from cli.command import CommandError, Exit, given_path
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
# What kubectl does beside the candidates, in the last line of an answer: complete files, or
# nothing else, or folders. The numbers are those of cobra's ShellCompDirective.
_FILES, _NOTHING, _DIRECTORIES = 0, 4, 16


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell", metavar="SHELL", nargs="?", choices=[*_OTHER_NAME], help="bash, zsh or fish"
    )
    # For the scripts: a kind of names, and the words of the line.
    parser.add_argument("--names", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    # For kubectl: the words of the line, of which the last one is to be completed.
    parser.add_argument("--kubectl", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    if args.names is not None:
        kind, *words = args.names or [""]
        if kind not in _NAMES.values():
            kinds = ", ".join(_NAMES.values())
            raise CommandError(f"`{kind}` are not names of a cluster", f"ask for {kinds}")
        for name in _names(kind, words):
            print(name)
        return Exit.OK
    if args.kubectl is not None:
        candidates, directive = _answer(args.kubectl or [""])
        print(*candidates, f":{directive}", sep="\n")
        return Exit.OK
    if args.shell is None:
        raise CommandError("no shell is given", f"give one of {', '.join(_OTHER_NAME)}")
    # `cli.main` imports this module.
    from cli.main import COMMANDS, parser_of  # noqa: PLC0415

    parser = parser_of("placet", COMMANDS)
    for action in _actions(parser):
        if _is_file(action):
            # shtab reads this attribute; argparse does not declare it.
            vars(action)["complete"] = shtab.DIRECTORY if _is_folder(action) else shtab.FILE
        elif (kind := _kind(action)) is not None:
            names = f"_placet_{kind}"
            fish = f"(placet completion --names {kind} (commandline -opc) 2>/dev/null)"
            vars(action)["complete"] = {"bash": names, "zsh": names, "fish": fish}
    form = {"bash": _BASH, "zsh": _ZSH}.get(args.shell, "")
    preamble = "".join(form.format(kind) for kind in _NAMES.values())
    print(shtab.complete(parser, args.shell, preamble=preamble))
    print(_OTHER_NAME[args.shell])
    return Exit.OK


def _is_file(action: argparse.Action) -> bool:
    return action.type is given_path or action.metavar == "FILE"


def _is_folder(action: argparse.Action) -> bool:
    return bool(_FOLDERS & {*action.option_strings})


def _kind(action: argparse.Action) -> str | None:
    """The kind of names of the cluster that it takes."""
    return _NAMES.get(action.dest) if action.choices is None else None


def _answer(words: Sequence[str]) -> tuple[list[str], int]:
    """What can be in place of the last word, and what kubectl does beside it."""
    # `cli.main` imports this module.
    from cli.main import COMMANDS, parser_of  # noqa: PLC0415

    *before, last = words
    command = next((word for word in before if not word.startswith("-")), None)
    if command is None:
        flags = ["--help", "--version"]
        named = [f"{name}\t{about}" for name, about in COMMANDS.items()]
        return _beginning(flags if last.startswith("-") else named, last), _NOTHING
    if command not in COMMANDS:
        return [], _NOTHING
    parser = _of_command(parser_of("placet", {command}), command)
    actions = [each for each in _actions(parser) if each.help is not argparse.SUPPRESS]
    by_flag = {flag: each for each in actions for flag in each.option_strings}
    after = before[before.index(command) + 1 :]
    asked, start = _asked(actions, by_flag, after, last)
    if asked is None:
        flags = [*by_flag] if last.startswith("-") else []
        return _beginning(flags, last), _NOTHING
    if asked.choices is not None:
        return _beginning([f"{start}{choice}" for choice in asked.choices], last), _NOTHING
    if _is_file(asked):
        return [], _DIRECTORIES if _is_folder(asked) else _FILES
    kind = _kind(asked)
    found = _names(kind, words) if kind is not None else []
    return _beginning([f"{start}{name}" for name in found], last), _NOTHING


def _asked(
    actions: Sequence[argparse.Action],
    by_flag: Mapping[str, argparse.Action],
    after: Sequence[str],
    last: str,
) -> tuple[argparse.Action | None, str]:
    """The argument whose value the last word is, and what stands before the value in this word."""
    flag, equals, _ = last.partition("=")
    if equals and flag in by_flag:
        return by_flag[flag], f"{flag}="
    if last.startswith("-"):
        return None, ""
    places = [each for each in actions if not each.option_strings]
    waiting: argparse.Action | None = None
    for word in after:
        if word.startswith("-"):
            given = by_flag.get(word)
            waiting = given if given is not None and given.nargs != 0 else None
        elif waiting is not None:
            # A flag with several values takes them until the next flag.
            waiting = waiting if waiting.nargs == "+" else None
        elif places and places[0].nargs not in ("*", "+"):
            places.pop(0)
    return waiting or (places[0] if places else None), ""


def _beginning(candidates: Sequence[str], last: str) -> list[str]:
    return [each for each in candidates if each.startswith(last)]


def _names(kind: str, words: Sequence[str]) -> Sequence[str]:
    """The names of a kind, as far as they can be read; a completion shows no errors."""
    # These imports take as long as all others together.
    from cli.live import opened  # noqa: PLC0415
    from engine.cluster.connection_configuration import known_contexts  # noqa: PLC0415
    from engine.errors import ClusterConfigurationError  # noqa: PLC0415

    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add_cluster_arguments(parser)
    known, _ = parser.parse_known_args([w for w in words if not w.startswith("-o")])
    try:
        if kind == "contexts":
            return [*known_contexts(known.kubeconfig)]
        with opened(known.kubeconfig, known.context) as live:
            every = "" if known.all_namespaces else known.namespace or live.namespace
            return [*live.names(kind, every)]
    except (UserError, ClusterConfigurationError):
        return []


def _of_command(parser: argparse.ArgumentParser, command: str) -> argparse.ArgumentParser:
    """The parser of one command of a parser of all."""
    (commands,) = (
        each
        for each in parser._actions  # noqa: SLF001 - see below
        if isinstance(each, argparse._SubParsersAction)  # noqa: SLF001 - see below
    )
    found: argparse.ArgumentParser = commands.choices[command]
    return found


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments of all commands. argparse has no public way to them; shtab does the same."""
    for action in parser._actions:  # noqa: SLF001 - see above
        yield action
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - see above
            for sub in action.choices.values():
                yield from _actions(sub)
