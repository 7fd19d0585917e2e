"""Parts of programs that are worked out once and kept: per request, or per version of a node."""

from __future__ import annotations

from engine.program.frame import Evaluate, Frame
from grammar.errors import EvaluationError

# A column forgets everything when it has seen this many nodes more than it keeps: names come and
# go.
_MOST_NODES = 100_000


def once_per_pod(evaluate: Evaluate) -> Evaluate:
    """The value, or the error, that the first evaluation for this request had."""
    part = object()

    def run(frame: Frame) -> object:
        memo = frame.memo
        if part not in memo:
            memo[part] = _outcome(evaluate, frame)
        return _value(memo[part])

    return run


class Column:
    """The values of a part that reads the node alone, by node, each with the version it is of.

    It belongs to its program and goes with it. A node's view is immutable, so the view itself is
    the version.
    """

    def __init__(self, evaluate: Evaluate) -> None:
        self._evaluate = evaluate
        self._kept: dict[str, tuple[object, object]] = {}

    def __call__(self, frame: Frame) -> object:
        node = frame.node
        name: str = node.name  # type: ignore[attr-defined]
        kept = self._kept.get(name)
        if kept is not None and kept[0] is node:
            return _value(kept[1])
        outcome = _outcome(self._evaluate, frame)
        if len(self._kept) >= _MOST_NODES:
            self._kept.clear()
        self._kept[name] = (node, outcome)
        return _value(outcome)


def _outcome(evaluate: Evaluate, frame: Frame) -> object:
    try:
        return evaluate(frame)
    except EvaluationError as error:
        return error


def _value(outcome: object) -> object:
    if isinstance(outcome, EvaluationError):
        # A kept error is raised many times: without this its traceback would grow each time.
        raise outcome.with_traceback(None)
    return outcome
