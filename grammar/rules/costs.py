"""Costs: expressions that can take too many steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from grammar.meaning.costs import Estimator, expressions
from grammar.messages.diagnostics import Diagnostic
from grammar.rules.rule import Tree, finding, rule

# An expression that is evaluated once for a call may take the steps of this many nodes. They are
# few, since a call about few nodes takes them, too.
_NODES_OF_A_CALL = 10


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
