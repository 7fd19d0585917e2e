"""Shares, spreads and limits with bounds of any kind: open where the plain evaluator says so."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.cache.node_table import NodeWithPods
from engine.clauses.programs import compile_policy
from engine.counting.count_clauses import CountClauses
from engine.objects.peer import Peer
from grammar.checker.policy_checker import Checked
from grammar.clauses.limit import Limit
from grammar.clauses.share import Share
from grammar.clauses.spread import Spread
from grammar.meaning.evaluator import evaluate
from grammar.tree.ast import Expr
from grammar.tree.source import Source
from grammar.values.errors import EvaluationError
from policies.validation import check_source
from tests.engine.counting.helpers import Counting, counting_of, node_groups_of
from tests.properties import strategies
from tests.support.books import examples
from tests.support.builders import Object, raw
from tests.support.engines import CODEC, SCHEMA, evaluation_of, frame_of, peer_of
from tests.support.oracle import group_of

Cluster = tuple[list[Object], list[Object]]

_OF_POD = (
    "0",
    "1",
    "2",
    "n",
    "pod.priority",
    "-pod.priority",
    "size(pod.labels)",
    'int(pod.labels["tier"])',
    'int(pod.labels[?"tier"].orValue("3"))',
    "double(pod.priority) / 2.0",
    "1000 / pod.priority",
    "dyn(pod.name)",
    "pod.spec.terminationGracePeriodSeconds",
)
of_pod = st.sampled_from(_OF_POD)
of_domain = st.sampled_from(
    (
        *_OF_POD,
        'dyn(place.value) == "a" ? 1 : 2',
        '{"a": 1, "spot": 3}[dyn(place.value)]',
        "size(string(place.value))",
        "int(dyn(place.value))",
        "dyn(place.value)",
    )
)
of_node = st.one_of(of_domain.filter(lambda text: "place" not in text), strategies.ends)
domains = st.sampled_from(
    ('node.labels["zone"]', 'node.labels[?"pool"].orValue("")', "node.ready", "size(node.labels)")
)
kinds = st.sampled_from(("at most", "at least", "exactly"))
pod_sets = st.sampled_from(
    ('peer.labels["tier"] == "web"', 'peer.labels["tier"] == pod.labels["tier"]')
)


@st.composite
def clauses(draw: st.DrawFn) -> str:
    """A policy's items with one strict clause, and a `let` that it may use."""
    where, bound = f"pods where {draw(pod_sets)}", draw(kinds)
    missing = draw(st.sampled_from(("", " missing pass")))
    made = draw(st.sampled_from(("share", "part", "spread", "node", "domain", "cluster")))
    value = draw(st.sampled_from(("1", "0", "1 + 2", "size(pod.labels)")))
    head = f"let n = {value} "
    if made in ("share", "part"):
        amount = draw(of_pod)
        if made == "part":
            head += f"let part = {amount} "
            amount = "part%" + draw(st.sampled_from(("", " rounding up", " rounding down")))
        on = 'node.labels["pool"] == "spot"'
        body = f'share "c" {{ of {where} on nodes where {on} {bound} {amount} strict{missing} }}'
    elif made == "spread":
        nodes = draw(st.sampled_from(("", "nodes eligible ", "nodes selected ", "nodes all ")))
        least = draw(st.one_of(st.just(""), of_pod.map(lambda text: f" at least {text}")))
        head += f"group place by {draw(domains)} "
        body = (
            f'spread "c" {{ {where} {nodes}over place'
            f" skew at most {draw(of_domain)}{least} strict{missing} }}"
        )
    else:
        per, amount = made, draw(of_node if made == "node" else of_pod)
        if made == "domain":
            head += f"group place by {draw(domains)} "
            per, amount = "place", draw(of_domain)
        body = f'limit "c" {{ {where} per {per} {bound} {amount} strict{missing} }}'
    return head + body


def policy_of(items: str) -> Checked | None:
    """The checked policy; None if it has an error, such as a constant that is no bound."""
    text = f'policy p in namespace "shop" {{ {items} }}'
    file = check_source(Source("p.policy", text), SCHEMA)
    # Errors of types, and constants that are no bounds.
    errors = [d.code for d in file.diagnostics if d.severity == "error"]
    assert all(code.startswith(("P01", "P0204", "P0303")) for code in errors), errors
    (policy,) = file.policies
    return None if any(d.severity == "error" for d in file.diagnostics) else policy


@dataclass(frozen=True, slots=True)
class Plain:
    """Decides by docs/language/ with the plain evaluator, without anything that is kept."""

    checked: Checked
    pod: Any
    peer: Peer
    nodes: Sequence[NodeWithPods]

    @property
    def clause(self) -> Share | Spread | Limit:
        (clause,) = self.checked.policy.clauses
        assert isinstance(clause, Share | Spread | Limit)
        return clause

    def value(self, expr: Expr, variables: Mapping[str, object]) -> object:
        return evaluate(expr, {"pod": self.pod, **variables}, self.checked.environment)

    def number(
        self, number: float | Expr, variables: Mapping[str, object], *, percent: bool = False
    ) -> float | None:
        if not isinstance(number, Expr):
            return number
        try:
            value = self.value(number, variables)
        except EvaluationError:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        if not math.isfinite(value) or (not percent and value != math.floor(value)):
            return None
        return max(0, value)

    def counts(self, peer: Peer) -> int:
        pods = self.clause.pods
        assert pods is not None
        assert pods.where is not None
        try:
            return int(self.value(pods.where, {"peer": peer}) is True)
        except EvaluationError:
            return 0

    def there(self, nodes: Sequence[NodeWithPods]) -> int:
        return sum(self.counts(peer) for node in nodes for peer in node.pods or ())

    def group(self, node: NodeWithPods) -> tuple[type, object] | None:
        """What a node has in common with the others of its group; None outside of all."""
        clause = self.clause
        match clause:
            case Share():
                try:
                    return bool, self.value(clause.on, {"node": node}) is True
                except EvaluationError:
                    return bool, False
            case Spread(over=domain):
                pass
            case Limit(per=per):
                if per.domain is None:
                    return str, node.name if per.place == "node" else ""
                domain = per.domain
        try:
            value = self.value(domain, {"node": node})
        except EvaluationError:
            return None
        return type(value), value

    def bound(self, node: NodeWithPods) -> float | None:
        """The number for the node's group; None outside of all."""
        group, clause = self.group(node), self.clause
        if group is None:
            return None
        variables: dict[str, object] = {"node": node}
        if self.checked.environment.groups:
            alike = [each for each in self.nodes if self.group(each) == group]
            variables["place"] = group_of(group[1], alike)
        if isinstance(clause, Spread):
            least = clause.min_domains
            if least is not None and self.number(least, variables) is None:
                return None
            return self.number(clause.skew, variables)
        bound = clause.bound
        return self.number(bound.amount, variables, percent=bound.percent)

    def is_counted(self, node: NodeWithPods) -> bool:
        """Whether a spread counts the node. The pod tolerates nothing and has no affinity."""
        assert isinstance(self.clause, Spread)
        nodes = self.clause.nodes or "eligible"
        selector = self.pod.spec.nodeSelector or {}
        if nodes == "all":
            return True
        if any(node.labels.get(key) != value for key, value in selector.items()):
            return False
        spec = node.spec
        return nodes == "selected" or spec is None or not (spec.unschedulable or spec.taints)

    def opened(self, node: NodeWithPods) -> bool:
        number, group, clause = self.bound(node), self.group(node), self.clause
        if number is None:
            return clause.missing == "pass"
        alike = [n for n in self.nodes if self.bound(n) is not None and self.group(n) == group]
        own = self.counts(self.peer)
        match clause:
            case Share():
                return self.side(clause, number, on=group == (bool, True), own=own)
            case Spread():
                counted = [
                    n for n in self.nodes if self.bound(n) is not None and self.is_counted(n)
                ]
                found: dict[object, list[NodeWithPods]] = {}
                for each in counted:
                    found.setdefault(self.group(each), []).append(each)
                here = self.there(found.get(group, ()))
                fewest = min(map(self.there, found.values()), default=0)
                least = clause.min_domains
                if least is not None and len(found) < (self.number(least, {}) or 0):
                    fewest = 0
                return here + own - fewest <= number
            case Limit():
                here = self.there(alike)
                anywhere = self.there([n for n in self.nodes if self.bound(n) is not None])
                most = here + own <= number
                enough = here >= number or (bool(own) and not anywhere)
                kind = clause.bound.kind
                return (kind == "at least" or most) and (kind == "at most" or enough)

    def side(self, clause: Share, number: float, *, on: bool, own: int) -> bool:
        total = self.there(self.nodes) + own
        wanted = min(number, total)
        if clause.bound.percent:
            part = Fraction(number) * total / 100
            up = clause.bound.rounding == "up"
            up |= clause.bound.rounding is None and clause.bound.kind == "at least"
            rounded = math.ceil(part) if up else math.floor(part)
            wanted = min(rounded, total)
        placed = {
            side: self.there([n for n in self.nodes if self.group(n) == (bool, side)])
            for side in (True, False)
        }
        match clause.bound.kind:
            case "at most":
                return not on or placed[True] + own <= wanted
            case "at least":
                return on or not own or placed[False] + own <= total - wanted
            case "exactly":
                return placed[on] + own <= (wanted if on else total - wanted)


def opened(policy: Checked, counting: Counting, asked: Object) -> list[bool]:
    """The nodes that the only clause leaves open, asked twice: what is kept is used too."""
    program, frame = compile_policy(policy), frame_of(asked)
    (clause,) = program.counts
    frame.groups = node_groups_of(program, counting.table)
    evaluation = evaluation_of(frame, report=lambda *_: None)
    clauses, table = CountClauses([clause], evaluation), counting.table
    rows = table.find(list(table.rows))
    found = []
    for _ in range(2):
        (headroom,) = clauses.headrooms(counting.counter(asked), table, rows, evaluation)
        found.append([bool(is_open) for is_open in headroom.open])
    assert found[0] == found[1]
    return found[0]


@settings(max_examples=examples(150))
@given(clauses(), strategies.pods(), strategies.clusters(), st.booleans())
def test_open_nodes_are_those_of_the_plain_evaluator(
    items: str, asked: Object, cluster: Cluster, selects: bool
) -> None:
    policy = policy_of(items)
    assume(policy is not None)
    assert policy is not None
    asked["metadata"].setdefault("labels", {})
    if selects:
        asked["spec"]["nodeSelector"] = {"zone": "a"}
    counting = counting_of(*cluster)
    views = [counting.table.node(name) for name in counting.table.rows]
    nodes = [view for view in views if view is not None]
    plain = Plain(policy, CODEC.pod(raw(asked)), peer_of(asked), nodes)
    assert opened(policy, counting, asked) == [plain.opened(node) for node in nodes]
