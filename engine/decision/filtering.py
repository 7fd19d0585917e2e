"""Which nodes a pod may run on: every clause over every candidate that is left."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engine.decision.verdict import Failed, Rejected
from engine.program.frame import NODES_PER_LOOK, CheckDeadline, Frame, LazyFrame
from engine.program.program import FilterProgram
from grammar.errors import EvaluationError, MissingError

UNKNOWN_NODE = "node not yet known"

Node = object


class Rejection(msgspec.Struct, frozen=True):
    """Why a node is refused: a clause does not hold, cannot be evaluated, or needs the node."""

    clause: FilterProgram
    error: str | None = None
    known: bool = True

    def verdict(self, frame: LazyFrame) -> Rejected | Failed:
        """What is said of it to the frame's pod."""
        clause = self.clause
        if not self.known:
            return Rejected(UNKNOWN_NODE, clause.policy, clause.name, waits=True)
        reason = clause.message(frame)
        if self.error is not None:
            return Failed(reason, clause.policy, clause.name, self.error)
        return Rejected(reason, clause.policy, clause.name, clause.resolvable)


def rejections(
    clauses: Sequence[FilterProgram],
    frame: Frame,
    nodes: Sequence[Node | None],
    check: CheckDeadline,
) -> list[Rejection | None]:
    """Why each node is refused, in order, or None; a node that is None is not known.

    The first clause that does not hold decides. `check` raises DeadlineExceededError; it is called
    between clauses and every 512 nodes.
    """
    found: list[Rejection | None] = [None] * len(nodes)
    left = list(range(len(nodes)))
    for clause in clauses:
        left = _apply(clause, frame, nodes, left, found, check)
    return found


def _apply(
    clause: FilterProgram,
    frame: Frame,
    nodes: Sequence[Node | None],
    left: list[int],
    found: list[Rejection | None],
    check: CheckDeadline,
) -> list[int]:
    """Evaluates a clause on the nodes that are left; returns those that pass it."""
    check()
    if not left:
        return left
    per_node = clause.reads_node or (clause.when is not None and clause.when.per_node)
    if not per_node:
        finding = judge(clause, frame)
        if finding is None:
            return left
        for i in left:
            found[i] = finding
        return []
    if clause.when is not None and not clause.when.per_node and not _holds(clause, frame):
        return left
    passed: list[int] = []
    unknown = Rejection(clause, known=False)
    for count, i in enumerate(left):
        if not count % NODES_PER_LOOK:
            check()
        node = nodes[i]
        if node is None:
            found[i] = unknown
            continue
        frame.node = node
        finding = judge(clause, frame)
        if finding is None:
            passed.append(i)
        else:
            found[i] = finding
    return passed


def judge(clause: FilterProgram, frame: Frame) -> Rejection | None:
    """What one clause has against the frame's node."""
    try:
        if clause.when is not None and clause.when.evaluate(frame) is not True:
            return None
    except MissingError:
        return None
    except EvaluationError as error:
        return None if clause.ignores_errors else Rejection(clause, str(error))
    try:
        for require in clause.requires:
            if require(frame) is not True:
                return Rejection(clause)
    except MissingError:
        return None if clause.passes_missing else Rejection(clause)
    except EvaluationError as error:
        return None if clause.ignores_errors else Rejection(clause, str(error))
    return None


def _holds(clause: FilterProgram, frame: Frame) -> bool:
    """Whether a condition about the pod lets the clause apply; an error is judged per node."""
    assert clause.when is not None
    try:
        return clause.when.evaluate(frame) is True
    except MissingError:
        return False
    except EvaluationError:
        return True
