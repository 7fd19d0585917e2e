"""Tables: the cases of a test as text, one row a case.

The first row has the names of the columns. The first column, `case`, is what the case shows: it is
the id of the test, so that a failure names its row. The other columns are arguments of the test. A
`|` between spaces is between two cells, so that `||` is none. A line that begins with one continues
the row above. A line after `#` is a heading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

_BAR = re.compile(r"(?<=\s)\|(?=\s|$)")
_MARKED = re.compile("«(.*?)»")
Reader = Callable[[str], Any]


def table(text: str, **readers: Reader) -> pytest.MarkDecorator:
    """Runs the test once for each row. An argument is a str where no reader of its column is given.

    Raises ValueError where a row has another number of cells, or the case of another row.
    """
    names, *rows = _rows(text)
    if names[0] != "case" or not readers.keys() <= set(names):
        raise ValueError(f"the columns are {names}, and the readers of {list(readers)}")
    if len({row[0] for row in rows}) < len(rows):
        raise ValueError(f"two rows have the same case: {[row[0] for row in rows]}")
    found = []
    for row in rows:
        if len(row) != len(names):
            raise ValueError(f"this row has {len(row)} cells, not {len(names)}: {row}")
        cells = zip(names[1:], row[1:], strict=True)
        values = [readers.get(name, str)(cell) for name, cell in cells]
        found.append(pytest.param(*values, id=row[0]))
    return pytest.mark.parametrize(names[1:], found)


def _rows(text: str) -> Iterator[Sequence[str]]:
    lines: list[str] = []
    for line in map(str.strip, text.splitlines()):
        if line.startswith("|"):
            lines[-1] += f" {line}"
        elif line and not line.startswith("#"):
            lines.append(line)
    for line in lines:
        yield [cell.strip() for cell in _BAR.split(line)]


def integers(text: str) -> list[int]:
    """The numbers of a cell: `0 2`."""
    return [int(each) for each in text.split()]


def optional(reader: Reader) -> Reader:
    """None for an empty cell."""
    return lambda text: reader(text) if text else None


def marked(text: str) -> tuple[str, list[str]]:
    """A text without the marks « and », and the parts between them, in order."""
    return _MARKED.sub(r"\1", text), _MARKED.findall(text)
