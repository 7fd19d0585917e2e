"""The parts that all commands share: exit codes, errors, files, and a table of their flags.

The table is a text, from which argparse and its help are told. A flag is two spaces, its names, the
word for its value, and the default behind `=`; below it stands its help. One with `...` takes many
at once, one with `,` may be repeated. An argument without a name stands at its place, in brackets
where nobody has to give any. `or` begins an argument that excludes the one above. A line with a
colon begins a group.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, cast

from grammar.messages.diagnostics import UserError
from grammar.messages.texts import escaped, os_hint, os_reason
from grammar.tree.source import Source
from grammar.values.errors import EvaluationError
from grammar.values.object_names import is_label, is_qualified, is_subdomain
from grammar.values.quantity import NANO, Quantity
from grammar.values.time import SECOND, Duration
from policies.disk import MOST_OF_TEXT, contents, standard_input
from server.settings import SettingsError, parse_address


class Exit(IntEnum):
    """The exit codes of every command."""

    OK = 0
    # The command did its work and found a problem in its input.
    FINDINGS = 1
    # The command could not do its work: wrong arguments, a missing file, a port in use.
    ERROR = 2
    # Ctrl-C, as shells report it. A server that was serving ends with OK.
    INTERRUPTED = 130


class CommandError(UserError):
    """An error that ends a command with `Exit.ERROR`, as every UserError does."""


def read_file(name: str, hint: str) -> bytes:
    """The content of a file. Raises CommandError with the hint for an unreadable file."""
    try:
        return contents(Path(name))
    except OSError as error:
        raise unreadable(name, error, hint) from None


def unreadable(name: str, error: OSError, hint: str) -> CommandError:
    """The error about a file that cannot be read; with the hint, where rights do not lack."""
    return CommandError(f"cannot read `{name}`: {os_reason(error)}", os_hint(error, hint))


def read_text(name: str, hint: str) -> str:
    """The text of a file. Raises CommandError with the hint for an unreadable file."""
    try:
        return read_file(name, hint).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CommandError(f"`{name}` is not UTF-8 text", "save it as UTF-8") from None


STANDARD_INPUT = Path("-")


def read_input() -> str:
    """The text of standard input. Raises CommandError."""
    try:
        return standard_input().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CommandError("standard input is not UTF-8 text", "save it as UTF-8") from None
    except OSError as error:
        raise unreadable("-", error, "write it to a file") from None


def input_lines() -> Iterator[str]:
    """The lines of standard input as they come. Raises CommandError."""
    try:
        while line := sys.stdin.readline(MOST_OF_TEXT + 1):
            if len(line) > MOST_OF_TEXT:
                message = f"a line of standard input has more than {MOST_OF_TEXT:,} characters"
                raise CommandError(message, "divide it into several lines")
            yield line
    except UnicodeDecodeError:
        raise CommandError("standard input is not UTF-8 text", "save it as UTF-8") from None


def input_source(paths: Sequence[Path]) -> Source | None:
    """The text of standard input, if `-` is the path; its name says whether it has manifests.

    Raises CommandError.
    """
    if STANDARD_INPUT not in paths:
        return None
    if len(paths) > 1:
        raise CommandError("`-` must be the only path", "name the files alone, or pipe them in")
    text = read_input()
    # A policy of the language begins with one of these words.
    has_manifests = "apiVersion" in text and _LANGUAGE.match(text) is None
    suffix = ".json" if text.lstrip().startswith("{") else ".yaml"
    return Source(f"stdin{suffix}" if has_manifests else "-", text)


_LANGUAGE = re.compile(r"(?:\s|(?:#|//).*\n)*(?:cluster\s+policy|policy|test)\b(?!\s*:)")


def replace_text(file: Path, text: str) -> None:
    """Writes a file in one step: a concurrent reader sees the old text or the new one.

    Raises CommandError.
    """
    target = file.resolve()  # a link stays a link
    made: Path | None = None
    try:
        mode = target.stat().st_mode
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        made = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as out:
            out.write(text)
        made.chmod(mode)
        made.replace(target)
    except OSError as error:
        if made is not None:
            made.unlink(missing_ok=True)
        raise unwritable(file, error) from None


def write_text(file: Path, text: str) -> None:
    """Writes a file, in a folder that is made if there is none. Raises CommandError."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise unwritable(file, error) from None


def unwritable(file: Path, error: OSError) -> CommandError:
    hint = os_hint(error, "give another path")
    return CommandError(f"cannot write `{file}`: {os_reason(error)}", hint)


def given_path(text: str) -> Path:
    """The path of a file or a folder: an empty one would be the current folder."""
    if not text:
        raise ArgumentTypeError("the path is empty")
    if "\0" in text:
        raise ArgumentTypeError(f"`{escaped(text)}` is not a path")
    return Path(text)


def address(text: str) -> tuple[str, int]:
    """A host and a port. An empty host means all interfaces, port 0 means any free port."""
    try:
        return parse_address(text)
    except SettingsError as error:
        raise ArgumentTypeError(f"{error}, as in 127.0.0.1:12345") from None


def seconds(text: str) -> float:
    """A duration greater than 0, such as `5s`."""
    if not (found := pause(text)):
        raise ArgumentTypeError(f"`{text}` must be greater than 0")
    return found


def pause(text: str) -> float:
    """A duration of 0 or more, such as `0s`."""
    try:
        found = Duration.parse(text).nanos / SECOND
    except EvaluationError as error:
        raise ArgumentTypeError(f"`{text}` is not a duration: {error}") from None
    if found < 0:
        raise ArgumentTypeError(f"`{text}` must not be negative")
    return found


def size(text: str) -> int:
    """A number of bytes greater than 0, such as `64Mi`."""
    try:
        found = Quantity.parse(text).nanos // NANO
    except EvaluationError as error:
        raise ArgumentTypeError(f"`{text}` is not a size: {error}") from None
    if found <= 0:
        raise ArgumentTypeError(f"`{text}` must be greater than 0")
    return found


def lease(text: str) -> tuple[str, str] | None:
    """The namespace and name of a Lease, or None for `none`."""
    return None if text == "none" else namespaced(text)


def namespaced(text: str) -> tuple[str, str]:
    """The namespace and name of an object."""
    before, slash, name = text.partition("/")
    if not slash:
        raise ArgumentTypeError(f"`{text}` is not NAMESPACE/NAME, such as kube-system/placet")
    return namespace(before), object_name(name)


def _valid(is_valid: Callable[[str], bool], otherwise: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not is_valid(text):
            raise ArgumentTypeError(f"`{text}` {otherwise}")
        return text

    return read


namespace = _valid(is_label, "is not a valid namespace name")
object_name = _valid(is_subdomain, "is not a valid name of an object")
# The key of a label or an annotation that nobody can change in a pod.
frozen_key = _valid(is_qualified, "cannot be the key of a label or an annotation")


def positive(text: str) -> int:
    """A whole number from 1 to 2147483647, the largest weight of an extender."""
    if not (text.isdecimal() and 1 <= int(text[:11]) < 2**31):
        raise ArgumentTypeError(f"`{text}` is not a whole number from 1 to {2**31 - 1}")
    return int(text)


def port(text: str) -> int:
    """The number of a port."""
    if not (text.isdecimal() and text.isascii() and 1 <= int(text[:9]) <= 65535):
        raise ArgumentTypeError(f"`{text}` is not a port")
    return int(text)


Read = Callable[[str], object]
_VALUE = re.compile(r"(.+?)?(\.\.\.|,)?(?:=(\S+))?")
# The types of values, by the word for the value, or by the flag.
TYPES: Mapping[str, Read] = MappingProxyType(
    {
        **dict.fromkeys(("FILE", "FOLDER", "PATH", "SNAPSHOT"), given_path),
        "HOST:PORT": address,
        "KEY": frozen_key,
        "N": positive,
        "NAMESPACE/NAME": namespaced,
        "NS": namespace,
        "PORT": port,
        "SIZE": size,
        "TIME": seconds,
        "--lease": lease,
        **dict.fromkeys(("--lameduck", "--permit-timeout"), pause),
        "--webhook-configuration": object_name,
    }
)


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of a table, or an argument without a name: the word for its value, help, and group."""

    names: Sequence[str]
    metavar: str
    # `...` takes many at once, and `,` may be repeated.
    many: str
    default: str | None
    help: str
    group: str
    type: Read
    # Whether it may be left out, excludes the one above, and is not in the short help.
    is_optional: bool = True
    is_other: bool = False
    is_rare: bool = False

    @property
    def name(self) -> str:
        return self.names[-1]

    @property
    def key(self) -> str:
        """Its name in the parsed arguments: `http_timeout`."""
        if self.names:
            return self.name.lstrip("-").replace("-", "_")
        plural = "s" if self.many and not self.metavar.endswith("S") else ""
        return f"{self.metavar.lower()}{plural}"

    @property
    def field(self) -> str:
        """Its name in a file: `httpTimeout`."""
        first, *others = self.key.split("_")
        return first + "".join(word.capitalize() for word in others)

    @property
    def variable(self) -> str:
        return f"PLACET_{self.key.upper()}"

    @property
    def is_switch(self) -> bool:
        return not self.metavar

    @property
    def choices(self) -> list[str] | None:
        return self.metavar.split("|") if "|" in self.metavar else None

    def read(self, text: str) -> object:
        """The value of a text. Raises ArgumentTypeError."""
        if self.choices is not None and text not in self.choices:
            raise argparse.ArgumentTypeError(f"`{text}` is not one of {', '.join(self.choices)}")
        return self.type(text)

    def options(self) -> dict[str, Any]:
        """How argparse takes it."""
        if self.is_switch:
            return {"action": "store_true"}
        named = {"metavar": self.metavar, "type": self.type}
        if not self.names:
            number = {"...": "*", "": "?"} if self.is_optional else {"...": "+", "": None}
            return {**named, "nargs": number[self.many]}
        if " " in self.metavar:
            words = tuple(self.metavar.split())
            return {"nargs": len(words), "metavar": words, "type": self.type}
        if self.many:
            many = {"action": "extend", "nargs": "+"} if self.many != "," else {"action": "append"}
            return {**many, **named, "default": []}
        if self.choices is not None:
            return {"choices": self.choices, "default": self.default}
        return {**named, "default": self.default}


def flags_of(table: str, types: Mapping[str, Read] = TYPES) -> tuple[Flag, ...]:
    """The flags of a table; `types` are by the flag, or by the word for its value."""
    found: list[Flag] = []
    group = ""
    for line in filter(str.strip, table.splitlines()):
        if line.startswith("    "):
            found[-1] = replace(found[-1], help=f"{found[-1].help} {line.strip()}".lstrip())
        elif line.startswith("  "):
            found.append(_flag(line.split(), group, types))
        else:
            group = line.removesuffix(":")
    return tuple(
        replace(each, help=f"{each.help} (default: {each.default})") if each.default else each
        for each in found
    )


def _flag(words: Sequence[str], group: str, types: Mapping[str, Read]) -> Flag:
    """The flag of the words of its line."""
    is_other = words[0] == "or"
    names = tuple(word for word in words if word.startswith("-"))
    value = " ".join(words[is_other + len(names) :])
    row = _VALUE.fullmatch(value.strip("[]"))
    assert row is not None, value
    metavar, many, default = row.groups("")
    known = {**TYPES, **types}
    type_ = known.get(names[-1] if names else metavar) or known.get(metavar, str)
    is_optional = bool(names) or value.startswith("[")
    return Flag(names, metavar, many, default or None, "", group, type_, is_optional, is_other)


def add_flags(parser: argparse.ArgumentParser, flags: Sequence[Flag], *, rare: bool) -> None:
    """Adds the flags to a parser, in their groups; its help has the rare ones only if asked."""
    if any(flag.is_rare for flag in flags):
        text = "show all flags; those that only this shows are better kept in the file of --config"
        parser.add_argument("--help-all", action="help", help=text)
    groups: dict[str, argparse._ActionsContainer] = {"": parser}
    into: argparse._ActionsContainer = parser
    for flag, following in pairwise([*flags, None]):
        assert flag is not None, "only the last one is nobody"
        if flag.group not in groups:
            groups[flag.group] = parser.add_argument_group(*flag.group.split(", ", 1))
        if not flag.is_other:
            into = groups[flag.group]
            if following is not None and following.is_other:
                into = into.add_mutually_exclusive_group()
        shown = argparse.SUPPRESS if flag.is_rare and not rare else flag.help
        into.add_argument(*(flag.names or (flag.key,)), **flag.options(), help=shown)


class CommandModule(Protocol):
    """The interface of a module in `cli.commands`.

    A command that a session can ask about its world has `ask`, with the arguments of QUESTION: none
    of them names a world.
    """

    EXAMPLES: str
    ARGUMENTS: Sequence[Flag]
    QUESTION: Sequence[Flag]

    def run(self, args: argparse.Namespace) -> int: ...

    def ask(self, args: argparse.Namespace, world: Any) -> int: ...


def module_of(command: str) -> CommandModule:
    """The module of a command; only those that are asked for are imported."""
    return cast("CommandModule", import_module(f"cli.commands.{command.replace('-', '_')}"))


# ---- arguments of several commands

OUTPUT = """
  -o --output json|yaml
    print data
"""
POD = """
  [POD]
    NAMESPACE/NAME, the name alone if it is unique, or a workload such as deploy/web
"""
POD_FILE = """
  --pod-file FILE
    the manifest of a pod to be created, or of a workload, whose pod is taken; `-` reads standard
    input
"""
SNAPSHOTS = """
  --cluster SNAPSHOT,
    the output of `kubectl get nodes,pods,replicasets -A -o json` (or yaml); may be given again
"""
POLICIES = """
  --policies PATH,
    a policy file or a folder of them; may be given again
"""
DATA = """
  --data ROWS,
    NAME=FILE: the rows of `data "NAME"`, in CSV, JSON or YAML; may be given again
"""
WORLD = f"{SNAPSHOTS}{POLICIES}{DATA}"
FROZEN = """
  --frozen-label KEY,
    the key of a label of pods that the cluster lets nobody change, so that portable policies may
    depend on it; may be given again
  --frozen-annotation KEY,
    such a key of an annotation; may be given again
"""
CONTEXT = """
  --kubeconfig FILE
    how to reach the cluster (default: $KUBECONFIG, ~/.kube/config)
  --context NAME
    a context of the kubeconfig (default: its current one)
"""
RUNNING = f"""
a running cluster:
{CONTEXT}
  -n --namespace NAME
    the namespace of the pod (default: that of the context)
  or -A --all-namespaces
    the pods of all namespaces
"""


def program() -> str:
    """The name in help texts: kubectl runs the program `kubectl-placet` as `kubectl placet`."""
    return "kubectl placet" if Path(sys.argv[0]).stem == "kubectl-placet" else "placet"
