"""Oracle: the answers of filter and prioritize by the plain evaluator alone."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.cards.fragmentation import with_cards
from engine.objects.peer import ENDED, Peer
from grammar.checker.policy_checker import Checked
from grammar.clauses.filter import Filter
from grammar.clauses.score import Score
from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
from grammar.tree.ast import Expr
from grammar.tree.clause_parts import Bounds
from grammar.tree.policy import Count, Group, Policy
from grammar.tree.types import INT
from grammar.values.errors import EvaluationError, MissingError
from grammar.values.nodes import GroupOfNodes
from grammar.values.quantity import Quantity, Resources
from grammar.values.time import SECOND, Timestamp


@dataclass(frozen=True, slots=True)
class Oracle:
    """Decides by the language reference, one pod and one node at a time."""

    policies: Sequence[Checked]

    def verdict(self, variables: Mapping[str, Any]) -> tuple[str, str, str] | None:
        """How the node is refused (`rejected` or `failed`, policy, clause), or None."""
        enforced = self.enforced(variables)
        for checked in enforced:
            if isinstance(checked, tuple):
                return ("failed", checked[0].policy.address, "for")
            for clause in checked.policy.clauses:
                if isinstance(clause, Filter):
                    said = _filter(clause, checked, variables)
                    if said is not None:
                        return (said, checked.policy.address, clause.name)
        return None

    def scores(self, variables: Mapping[str, Any], nodes: Sequence[Any]) -> list[int] | None:
        """0..10 per node; None where no score applies."""
        terms: list[tuple[float, list[float]]] = []
        for checked in self.enforced(variables):
            if isinstance(checked, tuple):
                continue
            clauses = (c for c in checked.policy.clauses if isinstance(c, Score))
            terms.extend((abs(_weight(c)), _score(c, checked, variables, nodes)) for c in clauses)
        if not terms:
            return None
        total = sum(w for w, _ in terms)
        means = [sum(w * points[i] for w, points in terms) / total for i in range(len(nodes))]
        return [math.floor(m / 10 + 0.5) for m in means]

    def groups(self, nodes: Sequence[Any]) -> Mapping[str, Mapping[str, GroupOfNodes | None]]:
        """The groups of each of these nodes, which are all there are, by the names of both."""
        names = {name for checked in self.policies for name in checked.environment.groups}
        found: dict[str, dict[str, GroupOfNodes | None]] = {
            node.name: dict.fromkeys(names) for node in nodes
        }
        for checked in self.policies:
            for name, group in checked.environment.groups.items():
                values = [_value_of(group, checked, node) for node in nodes]
                for node, value in zip(nodes, values, strict=True):
                    alike = [n for n, v in zip(nodes, values, strict=True) if v == value]
                    found[node.name][name] = value and group_of(value[1], alike)
        return found

    def counts(
        self, asked: Mapping[str, Any], peers: Sequence[Peer], node: Any, groups: Mapping[str, Any]
    ) -> Mapping[str, object]:
        """The named counts for a node, of all pods that there are; None where it has none.

        `groups` has the groups of each node by its name.
        """
        own = groups.get(node.name, {})
        found: dict[str, object] = {}
        for checked in self.policies:
            for name, count in checked.environment.counts.items():
                there = set(groups)
                if count.per.place == "node":
                    there = {node.name}
                elif count.per.group:
                    known = own.get(count.per.group)
                    if known is None:
                        found[name] = None
                        continue
                    there = {each.name for each in known.members}
                found[name] = _counted(count, checked, asked, peers, there)
        return found

    def enforced(self, variables: Mapping[str, Any]) -> list[Checked | tuple[Checked]]:
        """The policies that concern the pod, guardrails first; one whose `for` fails in a tuple."""
        matching: list[Checked] = []
        broken: list[tuple[Checked]] = []
        for checked in self.policies:
            policy = checked.policy
            if policy.namespace not in (None, variables["pod"].namespace):
                continue
            selected = _selects(policy, checked.environment, variables)
            if selected:
                matching.append(checked)
            elif selected is None and policy.setting("missing", "fail") == "fail":
                broken.append((checked,))
        broken.sort(key=lambda each: each[0].policy.namespace is not None)
        guardrails = [c for c in matching if c.policy.cluster]
        governing = sorted((c for c in matching if not c.policy.cluster), key=_precedence)[:1]
        return [*broken, *guardrails, *governing]


def _counted(
    count: Count,
    checked: Checked,
    asked: Mapping[str, Any],
    peers: Sequence[Peer],
    there: Container[str],
) -> object:
    environment, pods = with_cards(checked.environment), count.pods
    numbers: list[Any] = []
    for peer in peers:
        lives, goes = peer.phase not in ENDED, peer.deletionTimestamp is not None
        is_in = {
            "": bool(peer.nodeName) and lives,
            "pending": not peer.nodeName and not peer.is_gated and lives and not goes,
            "ready": peer.ready and lives and not goes,
            "ended": not lives and _is_new(peer, asked["now"]),
        }
        is_own = peer.uid == asked["pod"].uid
        inside = pods.all or peer.namespace == asked["pod"].namespace
        placed = pods.state == "pending" or peer.nodeName in there
        if is_own or not inside or not placed or not is_in[pods.state]:
            continue
        assert pods.where is not None, "a count has a condition"
        try:
            if evaluate(pods.where, {**asked, "peer": peer}, environment) is not True:
                continue
            amount = pods.amount and evaluate(pods.amount, {"peer": peer}, environment)
        except EvaluationError:
            continue
        numbers.append(1 if amount is None else amount)
    if pods.amount is None or count.type == INT:
        return sum(numbers)
    # A sum is in thousandths, and each amount is rounded up.
    return Quantity(sum(-(-each.nanos // 1_000_000) for each in numbers) * 1_000_000)


def _is_new(peer: Peer, now: Timestamp) -> bool:
    return peer.ended is None or peer.ended.nanos + 3600 * SECOND > now.nanos


def _value_of(group: Group, checked: Checked, node: object) -> tuple[type, object] | None:
    """What a node has in common with others, with its type; None if it has nothing."""
    try:
        value = evaluate(group.by, {"node": node}, with_cards(checked.environment))
    except EvaluationError:
        return None
    return type(value), value


def group_of(value: object, nodes: Sequence[Any]) -> GroupOfNodes:
    """The group of these nodes, with what they have in common."""
    shared = set.intersection(*(set(node.labels.items()) for node in nodes))
    requested = None
    if all(node.requested is not None for node in nodes):
        requested = _total(node.requested for node in nodes)
    return GroupOfNodes(
        value,
        lambda: sorted(nodes, key=lambda node: node.name),
        len(nodes),
        sum(_is_ready(node) for node in nodes),
        dict(shared),
        _total(node.allocatable for node in nodes),
        _total((node.status and node.status.capacity) or {} for node in nodes),
        requested,
    )


def _is_ready(node: Any) -> bool:
    conditions = (node.status and node.status.conditions) or ()
    return any((each.type, each.status) == ("Ready", "True") for each in conditions)


def _total(amounts: Iterable[Mapping[str, Quantity]]) -> Resources:
    total = Resources()
    for each in amounts:
        for resource, amount in each.items():
            total[resource] = Quantity(total[resource].nanos + amount.nanos, amount.suffix)
    return total


def _precedence(checked: Checked) -> tuple[int, bool, bool, str]:
    policy = checked.policy
    strict = any(isinstance(c, Filter) for c in policy.clauses)
    return (-int(policy.setting("weight", 101)), not strict, policy.namespace is None, policy.name)


def _selects(policy: Policy, environment: Environment, variables: Mapping[str, Any]) -> bool | None:
    """Whether the policy selects the pod; None for an error that is no missing value."""
    if policy.selector is None:
        return True
    try:
        return evaluate(policy.selector, variables, with_cards(environment)) is True
    except MissingError:
        return False
    except EvaluationError:
        return None


def _filter(clause: Filter, checked: Checked, variables: Mapping[str, Any]) -> str | None:
    def value(expr: Expr) -> object:
        return evaluate(expr, variables, with_cards(checked.environment))

    passes = checked.policy.passes_missing(clause)
    try:
        if clause.when is not None and value(clause.when) is not True:
            return None
    except MissingError:
        return None
    except EvaluationError:
        return None if passes else "failed"
    for require in clause.requires:
        try:
            if value(require) is not True:
                return "rejected"
        except MissingError:
            if not passes:
                return "rejected"
        except EvaluationError:
            if not passes:
                return "failed"
    return None


def _score(
    clause: Score, checked: Checked, variables: Mapping[str, Any], nodes: Sequence[Any]
) -> list[float]:
    of_nodes = variables.get("groups", {})
    by_node = [{**variables, "node": node, **of_nodes.get(node.name, {})} for node in nodes]
    numbers = [_number(clause.value, checked, each) for each in by_node]
    if isinstance(clause.range, Bounds):
        numbers = [
            None if n is None else _between(n, clause.range, checked, each)
            for n, each in zip(numbers, by_node, strict=True)
        ]
    known = sorted({n for n in numbers if n is not None})
    missing = float(clause.missing or 0)
    points = []
    for number in numbers:
        if number is None:
            points.append(missing)
            continue
        placed = _placed(clause, number, known)
        points.append(100 - placed if _weight(clause) < 0 else placed)
    return points


def _weight(clause: Score) -> float:
    """The weight, which is a number once the parameters are filled."""
    assert isinstance(clause.weight, int | float)
    return clause.weight


def _placed(clause: Score, number: float, known: list[float]) -> float:
    if isinstance(clause.range, str):
        if clause.range == "greatest":
            return 100 * max(0.0, number) / known[-1] if known[-1] > 0 else 0
        if len(known) == 1:
            return 50
        if clause.range == "minmax":
            return 100 * (number - known[0]) / (known[-1] - known[0])
        return 100 * known.index(number) / (len(known) - 1)
    return min(100.0, max(0.0, number))


def _between(
    number: float, bounds: Bounds, checked: Checked, variables: Mapping[str, Any]
) -> float | None:
    low, high = (_number(end, checked, variables) for end in (bounds.low, bounds.high))
    if low is None or high is None or low == high:
        return None
    return 100 * (number - low) / (high - low)


def _number(expr: Expr, checked: Checked, variables: Mapping[str, Any]) -> float | None:
    try:
        value: Any = evaluate(expr, variables, with_cards(checked.environment))
    except EvaluationError:
        return None
    if isinstance(value, bool):
        return 100.0 if value else 0.0
    return float(value) if math.isfinite(value) else None
