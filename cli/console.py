"""Console: tables on standard output, coloured on a terminal; and JSON or YAML."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from typing import Any

import msgspec
import yaml
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from cli.render import wants_colour
from cli.streams import beneath
from engine.facts import Cell, PartOf
from grammar.messages.texts import escaped, escaped_json, named

# Wide enough for a row of a table; the variable COLUMNS overrides it.
PLAIN_WIDTH = 120
# The names in a cell.
_NAMED = 5

# A part of an answer: one line, which is escaped as it is printed, or a table.
Part = str | Table


def lines(texts: Iterable[str]) -> Text:
    """A cell with several lines."""
    return Text("\n".join(map(escaped, texts)))


def show(renderable: RenderableType) -> None:
    """Prints a table without the spaces that fill its last column; escaped texts are unchanged."""
    colour, width, made = wants_colour(sys.stdout), None, StringIO()
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS", "").isdecimal():
        width = PLAIN_WIDTH
    Console(
        file=made,
        force_terminal=colour,
        color_system="auto" if colour else None,
        width=width,
        markup=False,
        emoji=False,
        highlight=False,
    ).print(renderable)
    for line in made.getvalue().splitlines():
        print(line.rstrip(), file=beneath(sys.stdout))


def put(parts: Iterable[Part]) -> None:
    """Prints the parts as they come; lines are not wrapped."""
    for part in parts:
        if isinstance(part, str):
            print(escaped(part))
        else:
            show(part)


def table(
    *columns: str, rows: Iterable[Sequence[Cell | Text]] = (), right: tuple[str, ...] = ()
) -> Table:
    """A table without borders; the columns in `right` hold numbers, as those with nothing else.

    A cell is one line, which is escaped, or a Text with several.
    """
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    listed = list(rows)
    for number, column in enumerate(columns):
        alike = [isinstance(row[number], int | float | PartOf | None) for row in listed]
        numbers = column in right or (bool(alike) and all(alike))
        made.add_column(
            column, justify="right" if numbers else "left", no_wrap=numbers, overflow="fold"
        )
    for row in listed:
        made.add_row(*map(_cell, row))
    return made


def first_rows(
    *columns: str, rows: Sequence[Sequence[Cell | Text]], most: int, right: tuple[str, ...] = ()
) -> Iterator[Part]:
    """A table of at most so many rows, of which data has all; nothing without rows."""
    if rows:
        yield table(*columns, rows=rows[:most], right=right)
    if len(rows) > most:
        yield f"and {len(rows) - most} more; -o json has them all"


def _cell(value: Cell | Text) -> str | Text:
    match value:
        case Text():
            return value
        case PartOf():
            return f"{value.part} of {value.whole}"
        case str():
            return escaped(value)
        case Sequence():
            return escaped(named(value, _NAMED))
        case float():
            return f"{value:.0f}"
        case _:
            return str("" if value is None else value)


# ---- data, for programs


def put_document(value: Any, form: str) -> None:
    """Prints a value, also one with structs, as JSON or YAML, which escape what is not printed."""
    if form == "json":
        text = msgspec.json.format(msgspec.json.encode(value)).decode()
        print(escaped_json(text), flush=True)
        return
    plain = msgspec.to_builtins(value)
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    if not text.replace("\n", "").isprintable():
        text = yaml.safe_dump(plain, sort_keys=False)
    print(text, end="")
