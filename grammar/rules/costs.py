"""Costs: expressions that can take too many steps, and policies that are slow in a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from grammar.meaning.costs import (
    POLICY_SECONDS,
    STEP_SECONDS,
    Estimator,
    budget_factor,
    clause_steps,
    expressions,
)
from grammar.messages.diagnostics import Diagnostic
from grammar.rules.rule import Tree, finding, rule
from grammar.tree.clause_parts import ClauseVerb

# An expression that is evaluated once for a call may take the steps of this many nodes. They are
# few, since a call about few nodes takes them, too.
_NODES_OF_A_CALL = 10
_VERBS: tuple[ClauseVerb, ...] = ("filter", "prioritize")


@rule("P0401")
def expensive_expression(tree: Tree) -> Iterator[Diagnostic]:
    """An expression that can take too many steps."""
    estimator = Estimator(tree.environment)
    for expr in expressions(tree.written, tree.environment):
        steps = estimator.steps(expr)
        if steps <= tree.cost_limit:
            continue
        # The compiler keeps what reads the pod alone, so all nodes of a call share its cost.
        once = tree.read_by(expr) == {"pod"}
        most = tree.cost_limit * _NODES_OF_A_CALL if once else tree.cost_limit
        if steps > most:
            dearest = estimator.dearest(expr)
            scope = "call" if once else "node"
            message = f"this can take {steps:,} steps for one {scope}, more than {most:,}"
            label = f"{estimator.steps(dearest):,} of them here"
            nest = "nest fewer macros and `def`s inside each other"
            hint = f"{nest}, or make shorter texts and lists"
            found = finding(message, dearest.span, hint, severity="error")
            yield replace(found, label=label)


@rule("P0402")
def slow_policy(tree: Tree) -> Iterator[Diagnostic]:
    """A policy that can take more time for one pod in a cluster than a verb may at once.

    The warning is at the clause that takes most. The first call evaluates each clause on each node,
    with as many pods as a node of the cluster has, and the `where` of a count for each pod. Later
    calls about equal pods find stored results.
    """
    if tree.cluster is None or tree.checked.broken:
        return
    size = tree.cluster.size
    steps = clause_steps(tree.written, tree.environment, size)
    at_once = POLICY_SECONDS * budget_factor(size.nodes)
    # Preemption asks about few nodes.
    for name in _VERBS:
        verb = [(clause, n) for clause, n in steps if clause.verb == name]
        seconds = sum(n for _, n in verb) * STEP_SECONDS
        if seconds <= at_once:
            continue
        clause, most = max(verb, key=lambda pair: pair[1])
        nodes = f"{size.nodes:,} {'node' if size.nodes == 1 else 'nodes'}"
        message = (
            f"this policy can take {_shown(seconds)} for one pod in this cluster of"
            f" {nodes}, more than {at_once:.2g} s"
        )
        hint = (
            "its pods then wait, so make this clause cheaper: look keys up instead of nesting"
            " macros; `placet check --cost` shows what costs most"
        )
        label = f"{_shown(most * STEP_SECONDS)} of them here"
        yield replace(finding(message, clause.name_span, hint), label=label)


def _shown(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
