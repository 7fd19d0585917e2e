"""Command `completion`: a shell script that completes commands, flags, choices, files and names.

The script asks this command at each word, as cobra's scripts do. kubectl completes `kubectl placet`
without a script: it runs the program `kubectl_complete-placet`, which is the same question
(https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/).
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from cli.command import RUNNING, CommandError, Exit, Flag, add_flags, flags_of, given_path
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
# The arguments that take a name of the cluster.
_NAMES = ("pod", "node", "namespace", "context")
# What is completed beside the candidates: files, or nothing else, or folders. The numbers are those
# of cobra's ShellCompDirective, which kubectl knows.
_FILES, _NOTHING, _FOLDERS = 0, 4, 16

ARGUMENTS = flags_of(f"""
  [{"|".join(_SCRIPTS)}]
    the shell
""")


def run(args: argparse.Namespace) -> int:
    """Prints a script; or what can be the last of the `words` of a line, as scripts ask."""
    if "words" in args:
        candidates, directive = _answer(args.words or [""])
        print(*candidates, f":{directive}", sep="\n")
        return Exit.OK
    if args.choice is None:
        raise CommandError("no shell is given", f"give one of {', '.join(_SCRIPTS)}")
    print(_SCRIPTS[args.choice].strip())
    return Exit.OK


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
    arguments = module_of(command).ARGUMENTS
    by_name = {name: each for each in arguments for name in each.names}
    after = before[before.index(command) + 1 :]
    asked, start = _asked(arguments, by_name, after, last)
    if asked is None:
        flags = ["--help", *by_name] if last.startswith("-") else []
        return _beginning(flags, last), _NOTHING
    if asked.choices is not None:
        return _beginning([f"{start}{choice}" for choice in asked.choices], last), _NOTHING
    if asked.metavar == "FOLDER":
        return [], _FOLDERS
    if asked.type is given_path or asked.metavar == "FILE":
        return [], _FILES
    found = _names(f"{asked.key}s", words) if asked.key in _NAMES else []
    return _beginning([f"{start}{name}" for name in found], last), _NOTHING


def _asked(
    arguments: Sequence[Flag], by_name: Mapping[str, Flag], after: Sequence[str], last: str
) -> tuple[Flag | None, str]:
    """The argument whose value the last word is, and what stands before the value in this word."""
    name, equals, _ = last.partition("=")
    if equals and name in by_name:
        return by_name[name], f"{name}="
    if last.startswith("-"):
        return None, ""
    places = [each for each in arguments if not each.names]
    waiting: Flag | None = None
    for word in after:
        if word.startswith("-"):
            given = by_name.get(word)
            waiting = None if given is None or given.is_switch else given
        elif waiting is not None:
            # A flag with several values takes them until the next flag.
            waiting = waiting if waiting.many == "..." else None
        elif places and not places[0].many:
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
    add_flags(parser, flags_of(RUNNING))
    known, _ = parser.parse_known_args([w for w in words if not w.startswith("-o")])
    try:
        if kind == "contexts":
            return [*known_contexts(known.kubeconfig)]
        with opened(known.kubeconfig, known.context) as live:
            every = "" if known.all_namespaces else known.namespace or live.namespace
            return [*live.names(kind, every)]
    except (UserError, ClusterConfigurationError):
        return []
