"""Command `completion`: a shell script that completes commands, flags, choices, files and names.

The script asks this command at each word, as cobra's scripts do. kubectl completes `kubectl placet`
without a script: it runs the program `kubectl_complete-placet`, which is the same question
(https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from cli.command import CommandError, Exit, given_path
from cli.sources import add_cluster_arguments
from grammar.messages.diagnostics import UserError

EXAMPLES = """\
examples:
  source <(placet completion bash)      # in ~/.bashrc
  eval "$(placet completion zsh)"       # in ~/.zshrc, after compinit
  placet completion fish | source       # in ~/.config/fish/config.fish
"""
# The last line of an answer says what to do beside the candidates.
_SCRIPTS = {
    "bash": r"""
_placet() {
  local IFS=$'\n' rows
  rows=($(placet completion --words "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  case ${rows[-1]} in
    :0) COMPREPLY=($(compgen -f -- "$2")); compopt -o filenames 2>/dev/null ;;
    :16) COMPREPLY=($(compgen -d -- "$2")); compopt -o filenames 2>/dev/null ;;
    *) unset 'rows[-1]'; COMPREPLY=("${rows[@]%%$'\t'*}") ;;
  esac
  true
}
complete -F _placet placet kubectl-placet
""",
    "zsh": r"""
_placet() {
  local -a rows
  rows=("${(@f)$(placet completion --words "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  case ${rows[-1]} in
    :0) _files ;;
    :16) _files -/ ;;
    *)
      rows=("${(@)rows[1,-2]//:/\\:}")
      rows=("${(@)rows/$'\t'/:}")
      _describe placet rows
      ;;
  esac
}
compdef _placet placet kubectl-placet
""",
    "fish": r"""
function __placet
  set -l words (commandline -opc) "$(commandline -ct)"
  set -l rows (placet completion --words $words[2..] 2>/dev/null)
  switch "$rows[-1]"
    case :0
      __fish_complete_path $words[-1]
    case :16
      __fish_complete_directories $words[-1]
    case '*'
      set -e rows[-1]
      printf '%s\n' $rows
  end
end
complete -c placet -f -a '(__placet)'
complete -c kubectl-placet -f -a '(__placet)'
""",
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
# What is completed beside the candidates: files, or nothing else, or folders. The numbers are those
# of cobra's ShellCompDirective, which kubectl knows.
_FILES, _NOTHING, _DIRECTORIES = 0, 4, 16


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell", metavar="SHELL", nargs="?", choices=[*_SCRIPTS], help="bash, zsh or fish"
    )
    # For the scripts and kubectl: the words of the line, of which the last one is to be completed.
    parser.add_argument("--words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    if args.words is not None:
        candidates, directive = _answer(args.words or [""])
        print(*candidates, f":{directive}", sep="\n")
    elif args.shell is not None:
        print(_SCRIPTS[args.shell].strip())
    else:
        raise CommandError("no shell is given", f"give one of {', '.join(_SCRIPTS)}")
    return Exit.OK


def _is_file(action: argparse.Action) -> bool:
    return action.type is given_path or action.metavar in ("FILE", "FOLDER", "PATH", "SNAPSHOT")


def _is_folder(action: argparse.Action) -> bool:
    return bool(_FOLDERS & {*action.option_strings})


def _answer(words: Sequence[str]) -> tuple[list[str], int]:
    """The candidates for the last word, and the number that says what else is completed."""
    # `cli.main` imports this module.
    from cli.main import COMMANDS, module_of  # noqa: PLC0415

    *before, last = words
    command = next((word for word in before if not word.startswith("-")), None)
    if command is None:
        flags = ["--help", "--version"]
        named = [f"{name}\t{about}" for name, about in COMMANDS.items()]
        return _beginning(flags if last.startswith("-") else named, last), _NOTHING
    if command not in COMMANDS:
        return [], _NOTHING
    parser = argparse.ArgumentParser()
    module_of(command).configure(parser)
    # argparse has no public way to the arguments.
    every = parser._actions  # noqa: SLF001 - see above
    actions = [each for each in every if each.help is not argparse.SUPPRESS]
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
    kind = _NAMES.get(asked.dest)
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
