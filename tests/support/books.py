"""Books: the folders of docs/ whose pages describe one subject, such as docs/operations/.

The table in the index.md of a book lists its other pages, in the order in which to read them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

DOCS = Path(__file__).parents[2] / "docs"
BOOKS = ("diagnostics", "language", "operations")
_ROW = re.compile(r"(?m)^\| \[[^\]]+\]\(([\w-]+\.md)\) \|")


def pages(name: str) -> tuple[Path, ...]:
    """The index of a book, and the pages of its table in their order."""
    index = DOCS / name / "index.md"
    listed = _ROW.findall(index.read_text(encoding="utf-8"))
    return (index, *(index.with_name(page) for page in listed))


def book(name: str) -> str:
    """The text of all pages of a book."""
    return "\n".join(page.read_text(encoding="utf-8") for page in pages(name))


def section(name: str, heading: str) -> str:
    """The text below the only heading of this name, up to the next one of its level or above.

    Raises:
        AssertionError: if there is no such heading in the book, or more than one.
    """
    found = [text for page in pages(name) for text in _sections(page, heading)]
    assert len(found) == 1, f"{len(found)} headings `{heading}` in docs/{name}/"
    return found[0]


def _sections(page: Path, heading: str) -> Iterator[str]:
    level, fenced, lines = 0, False, list[str]()
    for line in page.read_text(encoding="utf-8").splitlines(keepends=True):
        fenced ^= line.startswith("```")
        marks = re.match(r"(#+) ", line)
        if marks and not fenced and (level == 0 or len(marks[1]) <= level):
            if level:
                yield "".join(lines)
            ours = line[marks.end() :].strip() == heading
            level, lines = (len(marks[1]) if ours else 0), []
        elif level:
            lines.append(line)
    if level:
        yield "".join(lines)


# ---- tables: the cases of a test as text, one row a case


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


# ---- numbers of examples and of random worlds: all of them, or a part, as the hypothesis profile
# says


QUICK, THOROUGH = "quick", "thorough"


def register_profiles() -> None:
    """Makes `quick` the profile, unless `--hypothesis-profile` names the other one."""
    # How long an example takes says something of the machine.
    settings.register_profile(QUICK, max_examples=8, deadline=None)
    settings.register_profile(THOROUGH, max_examples=100, deadline=None)
    settings.load_profile(QUICK)


def examples(number: int) -> int:
    """The part of so many that runs; the number is that of `make thorough`."""
    return max(1, number * settings().max_examples // 100)
