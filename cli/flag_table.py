"""Flag table: the flags of a command as a text, from which argparse and its help are told.

A flag is two spaces, its name, the word for its value, and the default behind `=`; below it stands
its help. One with `...` takes many at once, one with `,` may be repeated. A line with a colon
begins a group.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from cli.command import given_path, positive, seconds

Read = Callable[[str], object]
_ROW = re.compile(r"  (?:(-\w) )?(--[\w-]+)(?: (\S+?)(\.\.\.|,)?(?:=(\S+))?)?")
# The types of values, by the word for the value.
TYPES: Mapping[str, Read] = MappingProxyType(
    {
        **dict.fromkeys(("FILE", "FOLDER", "PATH", "SNAPSHOT"), given_path),
        "N": positive,
        "TIME": seconds,
    }
)


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of a table: its names, the word for a value, the help, and the group."""

    names: tuple[str, ...]
    metavar: str
    # `...` takes many at once, and `,` may be repeated.
    many: str
    default: str | None
    help: str
    group: str
    type: Read

    @property
    def name(self) -> str:
        return self.names[-1]

    @property
    def key(self) -> str:
        """Its name in the parsed arguments: `http_timeout`."""
        return self.name.removeprefix("--").replace("-", "_")

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
        if self.many:
            many = {"action": "extend", "nargs": "+"} if self.many != "," else {"action": "append"}
            return {**many, "metavar": self.metavar, "default": [], "type": self.type}
        if self.choices is not None:
            return {"choices": self.choices, "default": self.default}
        return {"metavar": self.metavar, "default": self.default, "type": self.type}


def flags_of(table: str, types: Mapping[str, Read] = TYPES) -> Iterator[Flag]:
    """The flags of a table; `types` are by the flag, or by the word for its value."""
    group = ""
    for part in re.split(r"\n(?=\S|  -)", table.strip("\n")):
        head, _, rest = part.partition("\n")
        row = _ROW.fullmatch(head)
        if row is None:
            group = head.removesuffix(":")
            continue
        short, name, metavar, many, default = row.groups()
        text = " ".join(rest.split())
        text += f" (default: {default})" if default else ""
        names = (short, name) if short else (name,)
        type_ = types.get(name) or types.get(metavar or "") or TYPES.get(metavar or "", str)
        yield Flag(names, metavar or "", many or "", default, text, group, type_)


def add_flags(parser: argparse.ArgumentParser, flags: Iterable[Flag]) -> None:
    """Adds the flags to a parser, in their groups."""
    groups: dict[str, argparse._ActionsContainer] = {"": parser}
    for flag in flags:
        if flag.group not in groups:
            groups[flag.group] = parser.add_argument_group(*flag.group.split(", ", 1))
        groups[flag.group].add_argument(*flag.names, **flag.options(), help=flag.help)
