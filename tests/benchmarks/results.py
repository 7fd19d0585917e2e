"""What a run has measured: figures against targets, as a table for people and JSON for the rest."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

_WIDTH = 100


class AtLeast(msgspec.Struct, frozen=True):
    """The figure is to be this or more; in JSON `{"at_least": 5}`."""

    at_least: float

    def met_by(self, figure: float) -> bool:
        return figure >= self.at_least

    def __str__(self) -> str:
        return f"≥ {self.at_least:g}"


class AtMost(msgspec.Struct, frozen=True):
    """The figure is to be this or less; in JSON `{"at_most": 0.7}`."""

    at_most: float

    def met_by(self, figure: float) -> bool:
        return figure <= self.at_most

    def __str__(self) -> str:
        return f"≤ {self.at_most:g}"


Target = AtLeast | AtMost


@dataclass(frozen=True, slots=True)
class Result:
    """One measurement.

    `ratio` is a ratio, or where the target is absolute a figure whose unit `detail` begins with.
    `target` and `met` are None where nobody has asked for anything.
    """

    name: str
    ratio: float
    target: Target | None
    met: bool | None
    detail: str


class Record(Protocol):
    """Keeps a figure; the parameters are those of Result."""

    def __call__(self, name: str, ratio: float, target: Target | None, detail: str) -> None: ...


class Results:
    """The measurements of one run, in the order in which they were taken."""

    def __init__(self) -> None:
        self.taken: list[Result] = []

    def record(self, name: str, ratio: float, target: Target | None, detail: str) -> None:
        """Keep a figure, to three digits. A target that is missed is shown and fails nothing."""
        rounded = float(f"{ratio:.3g}")
        met = None if target is None else target.met_by(rounded)
        self.taken.append(Result(name, rounded, target, met, detail))

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self.taken)) + b"\n")


def table(results: Sequence[Result]) -> str:
    """A line for each result and its detail below it."""
    rows = [("", "figure", "target", "met")]
    rows += [(r.name, f"{r.ratio:g}", str(r.target or ""), _word(r.met)) for r in results]
    first, *others = (max(len(row[i]) for row in rows) for i in range(4))
    lines = []
    for row, result in zip(rows, (None, *results), strict=True):
        cells = (cell.rjust(width) for cell, width in zip(row[1:], others, strict=True))
        lines.append("  ".join((row[0].ljust(first), *cells)).rstrip())
        if result is not None:
            lines += textwrap.wrap(
                result.detail, _WIDTH, initial_indent="    ", subsequent_indent="    "
            )
    return "\n".join(lines)


def _word(met: bool | None) -> str:
    return "" if met is None else "yes" if met else "NO"
