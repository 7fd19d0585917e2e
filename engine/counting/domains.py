"""Domains: the value of an expression that each node has, as a column of numbers by row.

Node groups have them for what they are by. A node is evaluated again only after it has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress

import numpy as np
import numpy.typing as npt

from engine.cache.node_table import NodeRows, NodeTable
from engine.counting.bounds import Mask
from engine.program.columns import Freshness, grown
from engine.program.frame import Evaluate, Frame
from grammar.values.errors import EvaluationError

Ints = npt.NDArray[np.int64]

_NONE = -1
# So many values of earlier nodes are kept.
_MOST_GONE = 1000


def shared_value(value: object) -> tuple[str, Hashable]:
    """A value that pods or nodes share: 1 and true are equal in Python, but not in the language."""
    return type(value).__name__, value


class Domains:
    """The domains of nodes: the numbers of the values of one expression."""

    def __init__(self, value: Evaluate, frame: Frame) -> None:
        """`frame` is for evaluations of `value`."""
        self._value = value
        self._frame = frame
        self._fresh = Freshness()
        self._numbers: dict[tuple[str, Hashable], int] = {}
        self._of: Ints = np.empty(0, np.int64)
        self.texts: list[str] = []
        self.values: list[Hashable] = []

    def of(self, table: NodeTable, check: Callable[[], None]) -> Ints:
        """The number of each row's value, below 0 where it has none; `texts` has these values.

        `check` raises an EngineError when the time is over; the next call continues.
        """
        if len(self.texts) > _MOST_GONE + 2 * len(table.nodes):
            # Most of the values are gone.
            self._numbers, self.texts, self.values = {}, [], []
            self._fresh.forget()
        self._of = grown(self._of, len(table.nodes), _NONE)
        for portion in self._fresh.stale(table, lambda: 0):
            for row in portion.tolist():
                self._of[row] = self.number(table, row)
            self._fresh.worked_out(table, portion)
            check()
        return self._of

    def number(self, table: NodeTable, row: int) -> int:
        """The number of a row's value, below 0 where it has none; evaluated now."""
        frame = self._frame
        frame.node = table.nodes[row]
        if frame.node is None:
            return _NONE
        frame.refill()
        # A node without a value is in no domain, nor is one with a list or a map.
        with suppress(EvaluationError, TypeError):
            value = shared_value(self._value(frame))
            if value not in self._numbers:
                self._numbers[value] = len(self.texts)
                self.texts.append(str(value[1]))
                self.values.append(value[1])
            return self._numbers[value]
        return _NONE


def shared(numbers: Ints, rows: NodeRows, others: NodeRows) -> Mask:
    """Which of the rows have a value that one of the others has, too."""
    found = numbers[others]
    mask: Mask = np.isin(numbers[rows], found[found >= 0])
    return mask
