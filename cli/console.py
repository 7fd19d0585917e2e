"""Standard output: tables, coloured on a terminal and plain elsewhere; and JSON or YAML."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from typing import Any

import msgspec
import yaml
from rich.console import Console, RenderableType
from rich.table import Table

from cli.render import wants_colour

# Wide enough for a row of a table; the variable COLUMNS overrides it.
PLAIN_WIDTH = 120

# A part of an answer: a line or a table.
Part = str | Table


def console() -> Console:
    """Standard output, on which texts are printed unchanged: no markup."""
    colour = wants_colour(sys.stdout)
    width = None
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS", "").isdecimal():
        width = PLAIN_WIDTH
    return Console(
        file=sys.stdout,
        color_system="auto" if colour else None,
        width=width,
        markup=False,
        emoji=False,
        highlight=False,
    )


def show(renderable: RenderableType) -> None:
    """Prints a table without the spaces that fill its last column."""
    to = console()
    with to.capture() as captured:
        to.print(renderable)
    for line in captured.get().splitlines():
        print(line.rstrip())


def put(parts: Iterable[Part]) -> None:
    """Prints the parts as they come; lines are not wrapped."""
    for part in parts:
        if isinstance(part, str):
            print(part)
        else:
            show(part)


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """An empty table without borders; the columns in `right` hold numbers."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        numbers = column in right
        made.add_column(
            column,
            justify="right" if numbers else "left",
            no_wrap=numbers,
            overflow="fold",
        )
    return made


# ---- data, for programs


def add_output_argument(parser: argparse.ArgumentParser, *forms: str) -> None:
    parser.add_argument(
        "-o", "--output", metavar="FORM", choices=forms, help=f"one of {', '.join(forms)}"
    )


def document(value: msgspec.Struct) -> Any:
    """A struct as plain values."""
    return msgspec.to_builtins(value)


def put_document(value: Any, form: str) -> None:
    """Prints a value as JSON or YAML."""
    if form == "json":
        print(msgspec.json.format(msgspec.json.encode(value)).decode())
    else:
        print(_yaml(value), end="")


def put_item(value: Any, form: str) -> None:
    """Prints one value of a stream at once: a line of JSON, or a document of YAML."""
    if form == "json":
        print(msgspec.json.encode(value).decode(), flush=True)
    else:
        print(f"---\n{_yaml(value)}", end="", flush=True)


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
