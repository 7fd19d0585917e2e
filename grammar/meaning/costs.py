"""Costs: how many steps an expression can take at most, computed before it runs.

The lengths are the limits of the API and of the kubelet, not guesses about usual sizes; what has no
limit counts as 100 items or 256 characters. `grammar.meaning.steps` works them out. The second half
estimates how long one call about a pod can take in a cluster of a given size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from grammar.meaning.environment import Environment
from grammar.meaning.folding import constant
from grammar.meaning.peers import kept
from grammar.meaning.steps import USUAL, Assumptions, Estimator
from grammar.tree import ast
from grammar.tree.ast import Expr
from grammar.tree.clause_parts import Bounds, PodSet, Template, WaitUntil
from grammar.tree.clauses import Cards, Clause, ForPods, Gang, Limit, Policy, Share, of_kind
from grammar.tree.groups import Count, Group
from grammar.tree.source import Span
from grammar.tree.walk import children, reads, roots, walk
from grammar.values.sizes import STEPS

# The most steps that an expression may take for one node: as many as it gets when it runs.
LIMIT = STEPS


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


def expressions(policy: Policy, environment: Environment) -> Iterator[ast.Expr]:
    """The outermost expressions of a policy, of messages and details too; no constant ranges."""
    groups = environment.groups.values()
    for item in policy.items:
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


def describe(policy: Policy, environment: Environment, most: int = 3) -> Iterator[Described]:
    """Each expression, the most expensive first, with its `most` most expensive parts."""
    costs = Costs(environment)
    whole = sorted(
        ((costs.steps(e), e) for e in expressions(policy, environment)), key=lambda c: -c[0]
    )
    for steps, expr in whole:
        parts: list[Cost] = []
        for part in costs.table(expr):
            # All parts of a short form have its span.
            if part.span != expr.span and part.span not in [p.span for p in parts]:
                parts.append(part)
        yield Described(expr, steps, tuple(parts[:most]))


# The budget of a policy: the seconds that a verb may spend on all its clauses at once.
POLICY_SECONDS = 0.1
# The budget is for 500 nodes, and grows with their number. Above 5,000 nodes it grows by a fifth
# of that, because kube-scheduler offers only a part of them; above 65,000 it stays the same.
_NODES, _MANY_NODES, _MOST_NODES, _PART = 500, 5_000, 65_000, 0.2
# The time of a step, and the steps of what a pod takes beside a rule that is evaluated for it:
# where it is counted, and where its cards are.
STEP_SECONDS = 1e-7
_COUNTED_STEPS, _CARD_STEPS = 20, 80
# A mutual limit cannot tell this many pods apart, unless it reads the name or uid of each.
_ALIKE = 150
_OF_ONE_POD = frozenset({("name",), ("uid",)})


@dataclass(frozen=True, slots=True)
class ClusterSize:
    """The number of nodes and pods of a cluster."""

    nodes: int
    pods: int


UNKNOWN_SIZE = ClusterSize(0, 0)


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """One cluster: the number of nodes by label key, of all nodes, and its size.

    `replicas` gives the replicas of each workload that a share is about, by name; None leaves out
    what is found by them.
    """

    labels: Mapping[str, int]
    nodes: int
    size: ClusterSize
    replicas: Callable[[Share], Mapping[str, int]] | None = None


def budget_factor(nodes: int) -> float:
    """How many times larger the budgets are in a cluster of so many nodes."""
    many = min(max(nodes, _NODES), _MANY_NODES)
    beyond = max(0, min(nodes, _MOST_NODES) - _MANY_NODES)
    return (many + _PART * beyond) / _NODES


def clause_steps(
    policy: Policy, environment: Environment, size: ClusterSize
) -> list[tuple[Clause, int]]:
    """The greatest number of steps of each clause for the first pod of its kind."""
    definitions = environment.definitions
    costs, reads_node = Costs(environment, _with_pods(size)), _node_readers(environment)
    items, selector = policy.items, policy.selector
    pairs = {c.name_span: _pairs(c, environment, size) for c in of_kind(items, Limit) if c.mutual}
    taken = {c.name_span: (selector, c.when, c.take, c.number) for c in of_kind(items, Cards)}
    members = {c.name_span: c.by for c in of_kind(items, Gang)}
    found: list[tuple[Clause, int]] = []
    for clause in policy.clauses:
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


def _pairs(clause: Limit, environment: Environment, size: ClusterSize) -> int:
    """For how many pairs of pods a mutual limit is evaluated, of those that differ to it."""
    where = clause.pods.where if clause.pods is not None else None
    if where is None:
        return 0
    definitions = environment.definitions

    def paths(expr: Expr, root: str) -> set[tuple[str, ...]]:
        return {r.path[1:] for r in reads(expr, definitions) if r.path[0] == root}

    tells = {kept(path) or path for path in paths(where, "pod")} | paths(where, "peer")
    kinds = size.pods if any(path[:1] in _OF_ONE_POD for path in tells) else size.pods // _ALIKE

    def is_equality(expr: Expr) -> bool:
        """Whether an expression compares reads of the pod with reads of the peer."""
        if not isinstance(expr, ast.Binary) or expr.op != "==":
            return False
        sides = (expr.left, expr.right)
        return not any(paths(side, "pod") and paths(side, "peer") for side in sides)

    conditions = where.operands if isinstance(where, ast.Chain) and where.op == "&&" else (where,)
    # Then all pods that keep a pod out have the limit count the same pods.
    has_one_kind = all(is_equality(each) or not paths(each, "pod") for each in conditions)
    if has_one_kind or constant(clause.bound.amount, environment) == 0:
        return kinds
    return kinds**2


def _node_readers(environment: Environment) -> Callable[[Expr], bool]:
    """Whether an expression reads the node or its domain; any other is the same for all nodes."""
    definitions = environment.definitions
    counts = {c.name for c in environment.counts.values() if c.per.scope != "cluster"}
    of_nodes = {"node", "domain", *environment.groups, *counts}
    return lambda expr: not roots([expr], definitions).isdisjoint(of_nodes)
