"""Cluster costs: how long one call about a pod can take in a cluster of a given size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from grammar.checker.policy_checker import Checked
from grammar.checks.costs import Costs
from grammar.messages.diagnostics import Diagnostic
from grammar.tree.ast import Expr
from grammar.tree.clause_parts import ClauseVerb, PodSet, Template
from grammar.tree.clauses import Clause
from grammar.tree.walk import Definitions, children, reads

# What a verb may spend on the clauses of one policy, and the time of a step.
VERB_SECONDS = 0.1
_STEP_SECONDS = 1e-7
_VERBS: tuple[ClauseVerb, ...] = ("filter", "prioritize")


@dataclass(frozen=True, slots=True)
class ClusterSize:
    """The number of nodes and pods of a cluster."""

    nodes: int
    pods: int


UNKNOWN_SIZE = ClusterSize(0, 0)


def with_estimates(checked: Checked, size: ClusterSize) -> Checked:
    """The policy with a warning if it can be slow in a cluster of this size."""
    if checked.broken:
        return checked
    found = tuple(slow_in_cluster(checked, size))
    return replace(checked, diagnostics=(*checked.diagnostics, *found)) if found else checked


def slow_in_cluster(checked: Checked, size: ClusterSize) -> Iterator[Diagnostic]:
    """A warning (P0402) if the first call about a pod can take longer than a verb may.

    It is at the clause that takes most. The first call evaluates each clause on each node, and the
    `where` of a count for each pod; later calls about equal pods find stored results.
    """
    steps = _clause_steps(checked, size)
    # Preemption asks about few nodes.
    for name in _VERBS:
        verb = [(clause, n) for clause, n in steps if clause.verb == name]
        seconds = sum(n for _, n in verb) * _STEP_SECONDS
        if seconds <= VERB_SECONDS:
            continue
        clause, most = max(verb, key=lambda pair: pair[1])
        message = (
            f"this policy can take {_shown(seconds)} for one pod in this cluster of"
            f" {size.nodes:,} {'node' if size.nodes == 1 else 'nodes'}, more than {VERB_SECONDS} s"
        )
        label = f"{_shown(most * _STEP_SECONDS)} of them here"
        hint = (
            "its pods then wait, so make this clause cheaper: look keys up instead of nesting"
            " macros; `placet check --cost` shows what costs most"
        )
        yield Diagnostic("P0402", "warning", message, clause.name_span, label, hint)


def _clause_steps(checked: Checked, size: ClusterSize) -> list[tuple[Clause, int]]:
    """The greatest number of steps of each clause for one pod."""
    costs, reads_node = Costs(checked.environment), _node_readers(checked)
    found: list[tuple[Clause, int]] = []
    for clause in checked.policy.clauses:
        steps = 0
        for expr in children(clause, skip=(Template, PodSet)):
            steps += costs.steps(expr) * (size.nodes if reads_node(expr) else 1)
        if clause.counted is not None:
            steps += sum(map(costs.steps, children(clause.counted))) * size.pods
        found.append((clause, steps))
    return found


def _node_readers(checked: Checked) -> Callable[[Expr], bool]:
    """Whether an expression reads the node or its domain; any other is the same for all nodes."""
    environment = checked.environment
    definitions = Definitions(environment.lets, environment.defs)
    return lambda expr: any(read.path[0] in ("node", "domain") for read in reads(expr, definitions))


def _shown(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
