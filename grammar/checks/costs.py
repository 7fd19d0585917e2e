"""Costs: expressions that can take too many steps, and policies that are slow in a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from grammar.checker.policy_checker import Checked
from grammar.meaning.costs import (
    POLICY_SECONDS,
    STEP_SECONDS,
    ClusterSize,
    Costs,
    budget_factor,
    clause_steps,
    expressions,
)
from grammar.messages.diagnostics import Diagnostic
from grammar.tree.clause_parts import ClauseVerb
from grammar.tree.walk import roots

# An expression that is evaluated once for a call may take the steps of this many nodes. They are
# few, since a call about few nodes takes them, too.
_NODES_OF_A_CALL = 10
_VERBS: tuple[ClauseVerb, ...] = ("filter", "prioritize")


def expensive_expressions(checked: Checked, limit: int) -> Iterator[Diagnostic]:
    """An error (P0401) for each expression above the limit, at its most expensive part."""
    costs, definitions = Costs(checked.environment), checked.environment.definitions
    for expr in expressions(checked.policy, checked.environment):
        steps = costs.steps(expr)
        if steps <= limit:
            continue
        # The compiler keeps what reads the pod alone, so all nodes of a call share its cost.
        once = roots([expr], definitions) == {"pod"}
        most = limit * _NODES_OF_A_CALL if once else limit
        if steps > most:
            dearest = costs.dearest(expr)
            scope = "call" if once else "node"
            message = f"this can take {steps:,} steps for one {scope}, more than {most:,}"
            label = f"{costs.steps(dearest):,} of them here"
            hint = "nest fewer macros and `def`s inside each other, or make shorter texts and lists"
            yield Diagnostic("P0401", "error", message, dearest.span, label, hint)


def with_estimates(checked: Checked, size: ClusterSize) -> Checked:
    """The policy with a warning if it can be slow in a cluster of this size."""
    if checked.broken:
        return checked
    found = tuple(slow_in_cluster(checked, size))
    return replace(checked, diagnostics=(*checked.diagnostics, *found)) if found else checked


def slow_in_cluster(checked: Checked, size: ClusterSize) -> Iterator[Diagnostic]:
    """A warning (P0402) if the first call about a pod can take longer than a verb may at once.

    It is at the clause that takes most. The first call evaluates each clause on each node, with as
    many pods as a node of the cluster has, and the `where` of a count for each pod; later calls
    about equal pods find stored results.
    """
    steps = clause_steps(checked.policy, checked.environment, size)
    at_once = POLICY_SECONDS * budget_factor(size.nodes)
    # Preemption asks about few nodes.
    for name in _VERBS:
        verb = [(clause, n) for clause, n in steps if clause.verb == name]
        seconds = sum(n for _, n in verb) * STEP_SECONDS
        if seconds <= at_once:
            continue
        clause, most = max(verb, key=lambda pair: pair[1])
        message = (
            f"this policy can take {_shown(seconds)} for one pod in this cluster of"
            f" {size.nodes:,} {'node' if size.nodes == 1 else 'nodes'}, more than {at_once:.2g} s"
        )
        label = f"{_shown(most * STEP_SECONDS)} of them here"
        hint = (
            "its pods then wait, so make this clause cheaper: look keys up instead of nesting"
            " macros; `placet check --cost` shows what costs most"
        )
        yield Diagnostic("P0402", "warning", message, clause.name_span, label, hint)


def _shown(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
