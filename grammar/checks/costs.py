"""Costs: how many steps an expression can take at most, computed before it runs.

The lengths are the limits of the API and of the kubelet, not guesses about usual sizes; what has no
limit counts as 100 items or 256 characters. `grammar.meaning.steps` works them out. The second half
estimates how long one call about a pod can take in a cluster of a given size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from grammar.checker.policy_checker import Checked
from grammar.checks.clause_numbers import constant
from grammar.checks.mutual import kept
from grammar.meaning.environment import Environment
from grammar.meaning.steps import USUAL, Assumptions, Estimator
from grammar.messages.diagnostics import Diagnostic
from grammar.tree import ast
from grammar.tree.ast import Expr
from grammar.tree.clause_parts import Bounds, ClauseVerb, PodSet, Template, WaitUntil
from grammar.tree.clauses import Cards, Clause, ForPods, Gang, Limit, of_kind
from grammar.tree.groups import Count, Group
from grammar.tree.source import Span
from grammar.tree.walk import children, reads, roots, walk
from grammar.values.sizes import STEPS

# The most steps that an expression may take for one node: as many as it gets when it runs.
LIMIT = STEPS
# Of what is evaluated once for a call, the steps of so many nodes are allowed: a few, since a call
# about few nodes takes them too.
_NODES_OF_A_CALL = 10


@dataclass(frozen=True, slots=True)
class Cost:
    """The greatest number of steps of one sub-expression."""

    span: Span
    steps: int


class Costs:
    """Costs of the expressions of one environment."""

    def __init__(self, environment: Environment, assumptions: Assumptions = USUAL) -> None:
        self._estimator = Estimator(environment, assumptions, by_call=True)

    def steps(self, expr: ast.Expr) -> int:
        """The greatest number of steps of an expression, or of a part of one that was computed."""
        return self._estimator.of(expr).steps

    def table(self, expr: ast.Expr) -> Iterator[Cost]:
        """Every part that costs something, the most expensive first."""
        self.steps(expr)
        parts = (Cost(part.span, self.steps(part)) for part in walk(expr))
        yield from sorted((p for p in parts if p.steps), key=lambda c: -c.steps)

    def dearest(self, expr: ast.Expr) -> ast.Expr:
        """The innermost part that causes more than half of the cost."""
        total = self.steps(expr)
        for child in children(expr):
            if self.steps(child) * 2 > total:
                return self.dearest(child)
        return expr


def expensive_expressions(checked: Checked, limit: int) -> Iterator[Diagnostic]:
    """An error (P0401) for each expression above the limit, at its most expensive part."""
    costs, definitions = Costs(checked.environment), checked.environment.definitions
    for expr in expressions(checked):
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


def expressions(checked: Checked) -> Iterator[ast.Expr]:
    """The outermost expressions of a policy, of messages and details too; no constant ranges."""
    groups = checked.environment.groups.values()
    for item in checked.policy.items:
        if isinstance(item, ForPods):
            yield item.where
        elif isinstance(item, Group):
            yield item.by
        elif isinstance(item, Count):
            yield from children(item.pods)
        elif isinstance(item, Clause):
            # What a group is by is an expression of the policy once.
            parts = children(item, skip=(Bounds,))
            yield from (e for e in parts if not any(e is g.by for g in groups))
            yield from (end for end in item.ends if not isinstance(end, ast.Literal))


@dataclass(frozen=True, slots=True)
class Described:
    """An expression, its greatest number of steps for one node, and its most expensive parts."""

    expr: ast.Expr
    steps: int
    parts: tuple[Cost, ...]


def describe(checked: Checked, most: int = 3) -> Iterator[Described]:
    """Each expression, the most expensive first, with its `most` most expensive parts."""
    costs = Costs(checked.environment)
    whole = sorted(((costs.steps(e), e) for e in expressions(checked)), key=lambda c: -c[0])
    for steps, expr in whole:
        parts: list[Cost] = []
        for part in costs.table(expr):
            # All parts of a short form have its span.
            if part.span != expr.span and part.span not in [p.span for p in parts]:
                parts.append(part)
        yield Described(expr, steps, tuple(parts[:most]))


# What the budget of a policy holds, which is what a verb may spend on its clauses at once.
POLICY_SECONDS = 0.1
# It is larger in proportion in a cluster of more nodes, up to that of the second number; for the
# nodes beyond, up to the third number, by a fifth of that: of these, kube-scheduler offers a part.
_NODES, _MANY_NODES, _MOST_NODES, _PART = 500, 5_000, 65_000, 0.2
# The time of a step, and the steps of what a pod takes beside a rule that is evaluated for it:
# where it is counted, and where its cards are.
_STEP_SECONDS = 1e-7
_COUNTED_STEPS, _CARD_STEPS = 20, 80
# So many pods are alike to the rules of a mutual limit, unless these tell every pod from others.
_ALIKE = 150
_OF_ONE_POD = frozenset({("name",), ("uid",)})
_VERBS: tuple[ClauseVerb, ...] = ("filter", "prioritize")


@dataclass(frozen=True, slots=True)
class ClusterSize:
    """The number of nodes and pods of a cluster."""

    nodes: int
    pods: int


UNKNOWN_SIZE = ClusterSize(0, 0)


def budget_factor(nodes: int) -> float:
    """How many times larger the budgets are in a cluster of so many nodes."""
    many = min(max(nodes, _NODES), _MANY_NODES)
    beyond = max(0, min(nodes, _MOST_NODES) - _MANY_NODES)
    return (many + _PART * beyond) / _NODES


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
    steps = _clause_steps(checked, size)
    at_once = POLICY_SECONDS * budget_factor(size.nodes)
    # Preemption asks about few nodes.
    for name in _VERBS:
        verb = [(clause, n) for clause, n in steps if clause.verb == name]
        seconds = sum(n for _, n in verb) * _STEP_SECONDS
        if seconds <= at_once:
            continue
        clause, most = max(verb, key=lambda pair: pair[1])
        message = (
            f"this policy can take {_shown(seconds)} for one pod in this cluster of"
            f" {size.nodes:,} {'node' if size.nodes == 1 else 'nodes'}, more than {at_once:.2g} s"
        )
        label = f"{_shown(most * _STEP_SECONDS)} of them here"
        hint = (
            "its pods then wait, so make this clause cheaper: look keys up instead of nesting"
            " macros; `placet check --cost` shows what costs most"
        )
        yield Diagnostic("P0402", "warning", message, clause.name_span, label, hint)


def _clause_steps(checked: Checked, size: ClusterSize) -> list[tuple[Clause, int]]:
    """The greatest number of steps of each clause for one pod."""
    environment, definitions = checked.environment, checked.environment.definitions
    costs, reads_node = Costs(environment, _with_pods(size)), _node_readers(checked)
    items, selector = checked.policy.items, checked.policy.selector
    pairs = {c.name_span: _pairs(c, checked, size) for c in of_kind(items, Limit) if c.mutual}
    taken = {c.name_span: (selector, c.when, c.take, c.number) for c in of_kind(items, Cards)}
    members = {c.name_span: c.by for c in of_kind(items, Gang)}
    found: list[tuple[Clause, int]] = []
    for clause in checked.policy.clauses:
        steps = 0
        for expr in children(clause, skip=(Template, PodSet, WaitUntil)):
            steps += costs.steps(expr) * (size.nodes if reads_node(expr) else 1)
        named = roots(children(clause), definitions) & environment.counts.keys()
        for pods in (clause.counted, *(environment.counts[name].pods for name in sorted(named))):
            each = sum(map(costs.steps, children(pods)))
            compared = size.pods + (pairs.get(clause.name_span, 0) if pods is clause.counted else 0)
            steps += (each + _COUNTED_STEPS) * compared if pods is not None else 0
        if (by := members.get(clause.name_span)) is not None:
            steps += (costs.steps(by) + _COUNTED_STEPS) * size.pods
        if (rules := taken.get(clause.name_span)) is not None:
            each = sum(costs.steps(expr) for expr in rules if expr is not None)
            steps += _CARD_STEPS * size.pods + each * (size.pods // _ALIKE)
        found.append((clause, steps))
    return found


def _with_pods(size: ClusterSize) -> Assumptions:
    """The usual sizes, with as many pods on each node as there are in a cluster of this size."""
    most = USUAL.lengths["pods"]
    mean = -(-size.pods // size.nodes) if size.nodes else most
    return replace(USUAL, lengths={**USUAL.lengths, "pods": min(most, max(1, mean))})


def _pairs(clause: Limit, checked: Checked, size: ClusterSize) -> int:
    """For how many pairs of pods a mutual limit is evaluated, of those that differ to it."""
    where = clause.pods.where if clause.pods is not None else None
    if where is None:
        return 0
    definitions = checked.environment.definitions

    def paths(expr: Expr, root: str) -> set[tuple[str, ...]]:
        return {r.path[1:] for r in reads(expr, definitions) if r.path[0] == root}

    tells = {kept(path) or path for path in paths(where, "pod")} | paths(where, "peer")
    kinds = size.pods if any(path[:1] in _OF_ONE_POD for path in tells) else size.pods // _ALIKE

    def is_equality(expr: Expr) -> bool:
        """Whether it compares what it reads of the pod with what it reads of the peer."""
        if not isinstance(expr, ast.Binary) or expr.op != "==":
            return False
        sides = (expr.left, expr.right)
        return not any(paths(side, "pod") and paths(side, "peer") for side in sides)

    conditions = where.operands if isinstance(where, ast.Chain) and where.op == "&&" else (where,)
    # Then all pods that keep a pod out have the limit count the same pods.
    has_one_kind = all(is_equality(each) or not paths(each, "pod") for each in conditions)
    if has_one_kind or constant(clause.bound.amount, checked.environment) == 0:
        return kinds
    return kinds**2


def _node_readers(checked: Checked) -> Callable[[Expr], bool]:
    """Whether an expression reads the node or its domain; any other is the same for all nodes."""
    definitions = checked.environment.definitions
    counts = {c.name for c in checked.environment.counts.values() if c.per.scope != "cluster"}
    of_nodes = {"node", "domain", *checked.environment.groups, *counts}
    return lambda expr: not roots([expr], definitions).isdisjoint(of_nodes)


def _shown(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
