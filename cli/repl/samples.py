"""Samples: the keys and values that expressions have in the cluster of a session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice

from cli.expressions import Evaluator, Expression, Failure
from cli.repl.session import FindingsError, ReplSession
from engine.errors import BadObjectError
from engine.program.frame import Frame
from grammar.messages.diagnostics import UserError

# The number of evaluations for one completion, for which the user waits.
_MAX_SAMPLES = 1000


class SessionSamples:
    """The values of an operand on every node, or for every pod or peer, of a session's cluster."""

    def __init__(self, session: ReplSession) -> None:
        self._session = session

    def keys(self, operand: str) -> list[str]:
        """The keys of a map, in order."""
        maps = (found for found in self._samples(operand) if isinstance(found, Mapping))
        return sorted({key for each in maps for key in each if isinstance(key, str)})

    def values(self, operand: str) -> list[str]:
        """The texts that an expression is, the most frequent one first."""
        texts = Counter(found for found in self._samples(operand) if isinstance(found, str))
        return [text for text, _ in texts.most_common()]

    def _samples(self, operand: str) -> Iterator[object]:
        session = self._session
        if not operand or session.cluster is None:
            return
        try:
            expression = session.expression(operand, type_only=True)
            if session.pod is None and {"node", "pod"} <= expression.names:
                return
            evaluator = Evaluator(expression)
            with session.frame(expression) as frame:
                for _ in islice(self._vary(expression, frame), _MAX_SAMPLES):
                    found = evaluator.evaluate(frame)
                    if not isinstance(found, Failure):
                        yield found
        except (FindingsError, UserError):
            return

    def _vary(self, expression: Expression, frame: Frame) -> Iterator[None]:
        cluster = self._session.required_cluster()
        if "node" in expression.names:
            for node in cluster.snapshot().nodes.values():
                frame.node = node
                yield
        elif "pod" in expression.names:
            for body in cluster.pod_bodies.values():
                try:
                    frame.pod, frame.memo = self._session.codec.pod(body), {}
                except BadObjectError:
                    continue
                yield
        elif expression.names & {"peer", "victim"}:
            for peer in cluster.snapshot().pods().values():
                frame.peer = frame.victim = peer
                yield
