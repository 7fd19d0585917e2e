"""Which nodes a pod may run on: every clause over every candidate that is left."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from engine.program.frame import Frame
from engine.program.program import FilterProgram
from engine.registry import Selection
from engine.verdict import Failed, Feasible, Rejected, Verdict
from grammar.errors import EvaluationError, MissingError

FEASIBLE = Feasible()
# How many nodes are evaluated between two looks at the clock.
NODES_PER_LOOK = 512
UNKNOWN_NODE = "node not yet known"

Node = object
CheckDeadline = Callable[[], None]


def feasible(
    selection: Selection, frame: Frame, nodes: Sequence[Node | None], check: CheckDeadline
) -> list[Verdict]:
    """A verdict per node, in order; None is a node that the cache does not know.

    The first clause that does not hold gives the reason: guardrails first, then as written. `check`
    raises DeadlineExceededError; it is called between clauses and every 512 nodes.
    """
    verdicts: list[Verdict] = [FEASIBLE] * len(nodes)
    for broken in selection.unselectable:
        reason = f"policy {broken.program.name}: its `for` cannot be evaluated"
        return [Failed(reason, broken.program.address, "for", broken.error)] * len(nodes)
    left = list(range(len(nodes)))
    for program in selection.enforced:
        for clause in program.filters:
            left = _apply(clause, frame, nodes, left, verdicts, check)
    return verdicts


def _apply(
    clause: FilterProgram,
    frame: Frame,
    nodes: Sequence[Node | None],
    left: list[int],
    verdicts: list[Verdict],
    check: CheckDeadline,
) -> list[int]:
    """Evaluates a clause on the nodes that are left; returns those that pass it."""
    check()
    if not left:
        return left
    per_node = clause.reads_node or (clause.when is not None and clause.when.per_node)
    if not per_node:
        verdict = judge(clause, frame)
        if verdict is FEASIBLE:
            return left
        for i in left:
            verdicts[i] = verdict
        return []
    if clause.when is not None and not clause.when.per_node and not _holds(clause, frame):
        return left
    passed: list[int] = []
    rejected: Verdict | None = None
    for count, i in enumerate(left):
        if not count % NODES_PER_LOOK:
            check()
        node = nodes[i]
        if node is None:
            verdicts[i] = Rejected(UNKNOWN_NODE, clause.policy, clause.name)
            continue
        frame.node = node
        verdict = judge(clause, frame)
        if verdict is FEASIBLE:
            passed.append(i)
        elif isinstance(verdict, Rejected):
            # One object for all rejected nodes: the reason is the same text for the whole call.
            rejected = rejected or verdict
            verdicts[i] = rejected
        else:
            verdicts[i] = verdict
    return passed


def judge(clause: FilterProgram, frame: Frame) -> Verdict:
    """What one clause says of the frame's node."""
    try:
        if clause.when is not None and clause.when.evaluate(frame) is not True:
            return FEASIBLE
    except MissingError:
        return FEASIBLE
    except EvaluationError as error:
        return FEASIBLE if clause.ignores_errors else clause.failed(frame, error)
    try:
        for require in clause.requires:
            if require(frame) is not True:
                return clause.rejected(frame)
    except MissingError:
        return FEASIBLE if clause.passes_missing else clause.rejected(frame)
    except EvaluationError as error:
        return FEASIBLE if clause.ignores_errors else clause.failed(frame, error)
    return FEASIBLE


def _holds(clause: FilterProgram, frame: Frame) -> bool:
    """Whether a condition about the pod lets the clause apply; an error is judged per node."""
    assert clause.when is not None
    try:
        return clause.when.evaluate(frame) is True
    except MissingError:
        return False
    except EvaluationError:
        return True
