"""Flag table: the arguments of a command as a text, from which argparse and its help are told.

A flag is two spaces, its names, the word for its value, and the default behind `=`; below it stands
its help. One with `...` takes many at once, one with `,` may be repeated. An argument without a
name stands at its place, in brackets where nobody has to give any. `or` begins an argument that
excludes the one above. A line with a colon begins a group.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from cli.command import frozen_key, given_path, positive, seconds

Read = Callable[[str], object]
_VALUE = re.compile(r"(.+?)?(\.\.\.|,)?(?:=(\S+))?")
# The types of values, by the word for the value.
TYPES: Mapping[str, Read] = MappingProxyType(
    {
        **dict.fromkeys(("FILE", "FOLDER", "PATH", "SNAPSHOT"), given_path),
        "KEY": frozen_key,
        "N": positive,
        "TIME": seconds,
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
    # Whether it may be left out, and whether it excludes the one above.
    is_optional: bool = True
    is_other: bool = False

    @property
    def name(self) -> str:
        return self.names[-1]

    @property
    def key(self) -> str:
        """Its name in the parsed arguments: `http_timeout`."""
        if self.names:
            return self.name.lstrip("-").replace("-", "_")
        if self.choices is not None:
            return "choice"
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
        if not self.names and self.choices is not None:
            return {"choices": self.choices, "nargs": "?" if self.is_optional else None}
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
    type_ = types.get(names[-1] if names else metavar) or types.get(metavar)
    type_ = type_ or TYPES.get(metavar, str)
    is_optional = bool(names) or value.startswith("[")
    return Flag(names, metavar, many, default or None, "", group, type_, is_optional, is_other)


def add_flags(parser: argparse.ArgumentParser, flags: Sequence[Flag]) -> None:
    """Adds the flags to a parser, in their groups."""
    groups: dict[str, argparse._ActionsContainer] = {"": parser}
    into: argparse._ActionsContainer = parser
    for flag, following in zip(flags, [*flags[1:], None], strict=True):
        if flag.group not in groups:
            groups[flag.group] = parser.add_argument_group(*flag.group.split(", ", 1))
        if not flag.is_other:
            into = groups[flag.group]
            if following is not None and following.is_other:
                into = into.add_mutually_exclusive_group()
        into.add_argument(*(flag.names or (flag.key,)), **flag.options(), help=flag.help)


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
