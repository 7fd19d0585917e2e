"""Books: the folders of docs/ whose pages describe one subject, such as docs/operations/.

The table in the index.md of a book lists its other pages, in the order in which to read them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

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
