"""Parts of programs that are worked out once and kept: per request, or per version of a node."""

from __future__ import annotations

from engine.program.frame import Evaluate, Frame
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
