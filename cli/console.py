"""Where tables are printed: in colour on a terminal, as plain text of a known width elsewhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.table import Table

from cli.render import wants_colour

# Wide enough for a row of a table; whoever reads a pipe can say otherwise with COLUMNS.
PLAIN_WIDTH = 120


# What an answer consists of: lines as they are, and tables.
Part = str | Table


def console() -> Console:
    """Standard output. Texts are printed as they are: nothing in them is markup."""
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
    """Prints a table or a text, without the spaces that fill its last column."""
    to = console()
    with to.capture() as captured:
        to.print(renderable)
    for line in captured.get().splitlines():
        print(line.rstrip())


def put(parts: Iterable[Part]) -> None:
    """Prints an answer as it comes; a line is never broken."""
    for part in parts:
        if isinstance(part, str):
            print(part)
        else:
            show(part)


def table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """A table without lines; the columns in `right` are numbers."""
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
