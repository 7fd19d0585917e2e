"""The keys and texts that an operand comes to in the cluster, on every node or for every pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice

from cli.exits import CommandError
from cli.expressions import Evaluator, Expression, Failure
from cli.repl.answer import RefusedError
from cli.repl.session import Session
from engine.errors import BadObjectError
from engine.program.frame import Frame

# Who completes waits: so many objects show what there is.
_MOST = 1000


def keys(session: Session, operand: str) -> list[str]:
    """The keys of the maps that it comes to, by name."""
    maps = (found for found in _found(session, operand) if isinstance(found, Mapping))
    return sorted({key for each in maps for key in each if isinstance(key, str)})


def values(session: Session, operand: str) -> list[str]:
    """The texts that it comes to, the most frequent first."""
    texts = Counter(found for found in _found(session, operand) if isinstance(found, str))
    return [text for text, _ in texts.most_common()]


def _found(session: Session, operand: str) -> Iterator[object]:
    if not operand or session.cluster is None:
        return
    try:
        expression = session.expression(operand, typed_only=True)
        evaluator = Evaluator(expression)
        with session.looking(expression) as frame:
            for _ in islice(_each(session, expression, frame), _MOST):
                found = evaluator.evaluate(frame)
                if not isinstance(found, Failure):
                    yield found
    except (RefusedError, CommandError):
        return


def _each(session: Session, expression: Expression, frame: Frame) -> Iterator[None]:
    """The frame with one node after the other, or one pod, or one peer."""
    cluster = session.some_cluster()
    if "node" in expression.names:
        for node in cluster.snapshot().nodes.values():
            frame.node = node
            yield
    elif "pod" in expression.names:
        for body in cluster.pod_bodies():
            try:
                frame.pod, frame.memo = session.codec.pod(body), {}
            except BadObjectError:
                continue
            yield
    elif expression.names & {"peer", "victim"}:
        for peer in cluster.snapshot().pods().values():
            frame.peer = frame.victim = peer
            yield
