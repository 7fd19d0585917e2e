"""Columns: parts of programs that are evaluated once and kept, per request or per node version."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from engine.cache.node_table import NodeRows, NodeTable
from engine.program.frame import Evaluate, Frame
from grammar.errors import EvaluationError

# A column of so many nodes is cleared, because node names come and go.
_MOST_NODES = 100_000


def once_per_pod(evaluate: Evaluate) -> Evaluate:
    """The closure, evaluated once per request. Its value or error is kept in the frame."""
    part = object()

    def run(frame: Frame) -> object:
        kept: tuple[object, EvaluationError | None] | None
        kept = frame.memo.get(part)  # type: ignore[assignment]
        if kept is None:
            try:
                kept = evaluate(frame), None
            except EvaluationError as error:
                kept = None, error
            frame.memo[part] = kept
        value, error_ = kept
        if error_ is not None:
            # A kept error is raised many times; its traceback must not grow each time.
            raise error_.with_traceback(None)
        return value

    return run


def once_per_node(evaluate: Evaluate) -> Evaluate:
    """The closure of a part that reads only the node, evaluated once per version of the node.

    The closure owns the values. A node's view is immutable, so the view itself is the version.
    """
    column: dict[str, tuple[object, object, EvaluationError | None]] = {}

    def run(frame: Frame) -> object:
        node = frame.node
        name: str = node.name  # type: ignore[attr-defined]
        kept = column.get(name)
        if kept is not None and kept[0] is node:
            if kept[2] is not None:
                raise kept[2].with_traceback(None)
            return kept[1]
        if len(column) >= _MOST_NODES:
            column.clear()
        try:
            value = evaluate(frame)
        except EvaluationError as error:
            column[name] = node, None, error.with_traceback(None)
            raise
        column[name] = node, value, None
        return value

    return run


_NEVER = -1
# The most rows that are evaluated before the results are kept.
_PORTION = 512
Scalar = TypeVar("Scalar", bound=np.generic)


class Freshness:
    """The version of its node at which each row of a column was last evaluated.

    A `time_dependent` column is never fresh at the next call.
    """

    def __init__(self, *, time_dependent: bool = False) -> None:
        self.time_dependent = time_dependent
        self._owner: object = None
        self._versions: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._portion = _PORTION
        self._is_finished = True

    def stale(self, table: NodeTable, rows: NodeRows | None = None) -> list[NodeRows]:
        """The rows that must be evaluated, in portions whose results are kept.

        If none of the last portions was finished, because the time was over, these are smaller.

        They are among `rows`, or among all. The rows of another owner are all stale, because they
        are other nodes.
        """
        if self._owner is not table.owner:
            self._owner = table.owner
            self._versions = np.empty(0, np.int64)
        self._versions = grown(self._versions, len(table.views), _NEVER)
        if self.time_dependent:
            self.forget()
        # In most calls no node of the cluster has changed, or few have.
        changed = (self._versions[: len(table.versions)] != table.versions).nonzero()[0]
        if not len(changed):
            return []
        if rows is not None:
            asked = np.zeros(len(table.versions), np.bool_)
            asked[rows] = True
            changed = changed[asked[changed]]
        if not self._is_finished:
            self._portion = max(1, self._portion // 8)
        self._is_finished, size = False, self._portion
        return [changed[i : i + size] for i in range(0, len(changed), size)]

    def worked_out(self, table: NodeTable, rows: NodeRows) -> None:
        self._is_finished = True
        self._versions[rows] = table.versions[rows]

    def forget(self) -> None:
        self._versions[:] = _NEVER


def grown(array: npt.NDArray[Scalar], size: int, fill: float) -> npt.NDArray[Scalar]:
    """The array, or a copy that is extended to `size` with `fill`."""
    if len(array) >= size:
        return array
    longer = np.full(size, fill, array.dtype)
    longer[: len(array)] = array
    return longer
