"""Parts of programs that are worked out once and kept: per request, or per version of a node."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from engine.cache.node_table import NodeRows, NodeTable
from engine.program.frame import NODES_PER_LOOK, Evaluate, Frame
from grammar.errors import EvaluationError

# A column forgets everything when it has this many nodes: names come and go.
_MOST_NODES = 100_000

# The value, and the error in its place, None where there is none.
Outcome = tuple[object, EvaluationError | None]


def once_per_pod(evaluate: Evaluate) -> Evaluate:
    """The value, or the error, that the first evaluation for this request had."""
    part = object()

    def run(frame: Frame) -> object:
        kept: Outcome | None = frame.memo.get(part)  # type: ignore[assignment]
        if kept is None:
            kept = frame.memo[part] = _outcome(evaluate, frame)
        value, error = kept
        if error is not None:
            # A kept error is raised many times: its traceback must not grow each time.
            raise error.with_traceback(None)
        return value

    return run


def once_per_node(evaluate: Evaluate) -> Evaluate:
    """The values of a part that reads the node alone, by node, each with the version it is of.

    They belong to the closure and go with it. A node's view is immutable, so the view itself is the
    version.
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


def _outcome(evaluate: Evaluate, frame: Frame) -> Outcome:
    try:
        return evaluate(frame), None
    except EvaluationError as error:
        return None, error


_NEVER = -1


Scalar = TypeVar("Scalar", bound=np.generic)


class Freshness:
    """The version of its node at which each row was last evaluated.

    A `time_dependent` column is never fresh.
    """

    def __init__(self, *, time_dependent: bool = False) -> None:
        self._time_dependent = time_dependent
        self._owner: object = None
        self._versions: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def stale(self, table: NodeTable, rows: NodeRows | None = None) -> list[NodeRows]:
        """The places that must be worked out, in portions between which the clock is looked at.

        They are of `rows`, or of all. Places of another owner are other nodes; new places have
        never been worked out.
        """
        if self._owner is not table.owner:
            self._owner = table.owner
            self._versions = np.empty(0, np.int64)
        self._versions = grown(self._versions, len(table.views), _NEVER)
        if self._time_dependent:
            self.forget()
        # Mostly there is none in the whole cluster, or few.
        changed = (self._versions[: len(table.versions)] != table.versions).nonzero()[0]
        if not len(changed):
            return []
        if rows is not None:
            asked = np.zeros(len(table.versions), np.bool_)
            asked[rows] = True
            changed = changed[asked[changed]]
        return [changed[i : i + NODES_PER_LOOK] for i in range(0, len(changed), NODES_PER_LOOK)]

    def worked_out(self, table: NodeTable, rows: NodeRows) -> None:
        self._versions[rows] = table.versions[rows]

    def forget(self) -> None:
        self._versions[:] = _NEVER


def grown(array: npt.NDArray[Scalar], size: int, fill: float) -> npt.NDArray[Scalar]:
    """The array, or a longer copy with `fill` behind what it has."""
    if len(array) >= size:
        return array
    longer = np.full(size, fill, array.dtype)
    longer[: len(array)] = array
    return longer
