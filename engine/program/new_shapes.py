"""New shapes: how much longer a call takes that is the first about pods of a shape.

What reads the node alone, or the pod alone, is kept, and so are kinds of pods. The rest is
evaluated once for each node, or for each pod. The figures are multiples of a call about a shape
that is known, whose results are all kept, and hold for a cluster of 5,000 nodes with 30 pods on
each. `make bench` measures some (`tests/benchmarks/test_rules.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from engine.program.compiler import Stages
from engine.program.pod_shape import PodReads
from grammar.checker.policy_checker import Checked
from grammar.meaning.steps import USUAL, Estimator
from grammar.tree import ast
from grammar.tree.clause_parts import ClauseVerb, PodSet, Template, WaitUntil
from grammar.tree.source import Span
from grammar.tree.walk import children, roots

NODES, PODS_ON_NODE = 5_000, 30
# A call may take so many times as long as one about a known shape before it is named.
LIMIT = 30
# A step on each node takes about as long as a call about a known shape; so does the rest here.
_CLAUSE = 20
_KINDS = 5
_PATTERN = 80
_PATTERN_FUNCTIONS = frozenset({"matches", "find", "findAll"})
# A count that tells the pods by their labels; beyond it, the time for each pod that it looks at.
_COUNT = 17
_PER_POD = 10


@dataclass(frozen=True, slots=True)
class NewShape:
    """The part of a clause in the time of a verb: how many times a call about a known shape."""

    verb: ClauseVerb
    clause: str
    span: Span
    times: int


def new_shapes(checked: Checked) -> Iterator[NewShape]:
    """The clauses of a policy that are evaluated for a new shape."""
    environment = checked.environment
    definitions = environment.definitions
    peer_reads = PodReads(definitions, "peer")
    estimates = _Estimates(checked)
    for clause in checked.policy.clauses:
        # Cards are looked at again with each pod that comes to a node, or leaves it.
        if clause.verb == "preempt" or "binding with cards" in clause.scheduler_needs:
            continue
        times = 0
        for expr in children(clause, skip=(Template, PodSet, WaitUntil)):
            if "node" in roots([expr], definitions):
                times += _CLAUSE + estimates.steps(expr)
        if clause.counts_pods:
            # Domains and sides are kept or shared.
            times = _COUNT
            where = clause.counted.where if clause.counted is not None else None
            read = peer_reads.written(where) if where is not None else frozenset()
            if where is not None and any(path[:1] != ("labels",) for path in read):
                times = PODS_ON_NODE * (_PER_POD + estimates.whole(where))
        yield NewShape(clause.verb, clause.name, clause.name_span, times)


class _Estimates:
    """Estimates of expressions in steps on one node."""

    def __init__(self, checked: Checked) -> None:
        self._stages = Stages(checked.environment)
        lengths = {**USUAL.lengths, "pods": PODS_ON_NODE}
        self._estimator = Estimator(
            checked.environment, replace(USUAL, lengths=lengths), by_call=True
        )

    def whole(self, expr: ast.Expr) -> int:
        """The steps of an expression of which nothing is kept."""
        return self._estimator.of(expr).steps

    def steps(self, expr: ast.Expr) -> int:
        """The steps of what is not kept of an expression."""
        self._estimator.of(expr)
        return self._steps(expr)

    def _steps(self, expr: ast.Expr) -> int:
        if self._stages.stage(expr, ()) is not None:
            return 1
        match expr:
            case ast.Comprehension():
                return self._steps_of_macro(expr)
            case ast.Call(function, _, (pattern, *_)) if function in _PATTERN_FUNCTIONS:
                known = isinstance(pattern, ast.Literal)
                return (0 if known else _PATTERN) + sum(map(self._steps, children(expr)))
            case ast.LetReference() | ast.DefCall():
                return self.whole(expr)
            case _:
                return 1 + sum(map(self._steps, children(expr)))

    def _steps_of_macro(self, expr: ast.Comprehension) -> int:
        target = self._steps(expr.target)
        if self._stages.item_parts(expr, ()) is not None:
            return target + _KINDS
        length = self._estimator.of(expr.target).size.length
        return target + length * (1 + sum(map(self._steps, expr.body)))
