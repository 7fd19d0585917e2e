"""Moves: which rules a pod breaks on the node that it has, and where else it could go now.

Rules hold when a pod is placed; what comes later may break them. Nobody waits for these questions:
each is a step of some milliseconds, for which no policy is charged, and nothing is offered or
recorded. Moves belong to the engine and live as long as it does. A Plan on paper, MovedPods, is of
its caller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from engine.cache.node_table import (
    UNKNOWN_ROW,
    NodeRows,
    NodeTable,
    NodeWithPods,
    with_pods,
    without,
)
from engine.cache.pods_excluding import KnownPods, PodsExcluding
from engine.counting.bounds import Mask
from engine.counting.groups import CountHeadroom
from engine.counting.node_groups import counted_on_the_way
from engine.decision import filtering
from engine.decision.placement import PlacingParts
from engine.decision.plugin_filters import unknown_resources
from engine.decision.verb_call import VerbCall
from engine.decision.verdict import Rejected, full_reason
from engine.objects.eligibility import unfit
from engine.objects.peer import Peer, key_of
from engine.objects.request_pod import RequestPod
from engine.program.program import CardsProgram, FilterProgram

# The nodes that are named.
_MOST_NAMED = 5
# The nodes whose reasons are told.
_MOST_REASONS = 100
NO_OTHER_NODE = "there is no other node"


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A rule that is broken: a clause that would not let a pod on its node now, and why."""

    policy: str
    clause: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class OtherNodes:
    """The nodes where a pod could go: the first of them by our scores, and their number.

    Without any, `reason` says what the nearest nodes lack, and `paper` is a node where the broken
    counts alone would have the pod; it may be empty.
    """

    names: Sequence[str]
    number: int
    reason: str = ""
    paper: str = ""


class MovedPods:
    """Pods that are elsewhere on paper: on another node, or on none."""

    def __init__(self) -> None:
        self._moved: dict[str, tuple[Peer, str]] = {}
        # By node: the pods that leave it, and those that come.
        self._there: dict[str, tuple[set[str], list[Peer]]] = {}
        self._views: dict[str, tuple[NodeWithPods, NodeWithPods]] = {}

    def __len__(self) -> int:
        return len(self._moved)

    def move(self, pod: Peer, node: str) -> None:
        """Moves a pod; an empty `node` is none."""
        self._moved[key_of(pod)] = pod, node
        left, _ = self._there.setdefault(pod.nodeName, (set(), []))
        left.add(pod.uid)
        self._views.pop(pod.nodeName, None)
        if node:
            self._there.setdefault(node, (set(), []))[1].append(replace(pod, nodeName=node))
            self._views.pop(node, None)

    def pods(self, known: KnownPods) -> PodsExcluding:
        """The pods of the cluster as they are on paper; who has gone meanwhile is not there."""
        gone, there = list[Peer](), list[Peer]()
        for key, (pod, node) in self._moved.items():
            now = known.pod(key)
            if now is not None and (now.uid, now.nodeName) == (pod.uid, pod.nodeName):
                gone.append(now)
                there.append(replace(now, nodeName=node))
        return PodsExcluding(known, gone, there)

    @property
    def nodes(self) -> Sequence[str]:
        """The names of the nodes to which pods come on paper; others have no less room."""
        return [name for name, (_, come) in self._there.items() if come]

    def view(self, table: NodeTable, name: str) -> NodeWithPods | None:
        """A node with the pods that it has on paper."""
        known = table.node(name)
        if known is None or name not in self._there:
            return known
        made = self._views.get(name)
        if made is None or made[0] is not known:
            left, come = self._there[name]
            stay = [pod for pod in known.pods or () if pod.uid not in left]
            made = self._views[name] = known, with_pods(known, (*stay, *come))
        return made[1]


class Moves:
    """Moves: the questions of one engine about pods on nodes, made of the engine's parts.

    Each raises DeadlineExceededError at the end of its step, and goes on when it is asked again.
    Raises other EngineErrors where there would be no decision.
    """

    def __init__(self, parts: PlacingParts) -> None:
        self._calls, self._placement, self._plugins, self._pods = parts

    def read(self, pod: bytes) -> RequestPod:
        """A pod of which others are. Raises BadObjectError."""
        return self._pods.other(pod)

    def call(self, pod: RequestPod) -> VerbCall:
        """A step about a pod."""
        return self._calls.aside(pod)

    def suspects(self, call: VerbCall, nodes: Sequence[str]) -> Mask:
        """On which of these nodes a pod of a template may break a rule; it breaks none elsewhere.

        The pod of the call is one more of the template, and nowhere.
        """
        plan, table = call.plan, call.snapshot.table
        rows = table.find(nodes)
        found = np.zeros(len(rows), np.bool_)
        if plan.empty or plan.selection.unselectable:
            return found
        # A pod that is there is a part of what a filter reads of the pods of a node.
        filters = plan.selection.of(FilterProgram)
        if any(each.resolvable or each.groups.pods for each in filters):
            return ~found
        decided = plan.filters.decide(table, rows, call.evaluation, on_the_way="bound")
        found |= decided.codes != 0
        if plan.counts.strict:
            for headroom in self._placement.headrooms(call, rows, self._placement.pods):
                # Where one more has room, so has each that is there, unless it needs the others.
                found |= ~headroom.open | headroom.clause.needs_company
        return found

    def broken(self, pod: RequestPod, there: Peer, moved: MovedPods) -> list[BrokenRule]:
        """The rules that a pod breaks where it is; none for a pod on an unknown node."""
        call = self._calls.aside(pod)
        plan, table = call.plan, call.snapshot.table
        view = moved.view(table, there.nodeName)
        if view is None or plan.empty or plan.selection.unselectable:
            return []
        found, frame = list[BrokenRule](), call.evaluation.frame()
        # It may not hold itself up, nor be in its own way.
        left = without(view, [there])
        with counted_on_the_way(frame, "bound"):
            for program in plan.selection.enforced:
                cards = {each.name for each in program.of(CardsProgram)}
                for clause in program.of(FilterProgram):
                    (rejection,) = filtering.rejections([clause], call.evaluation, [left])
                    if rejection is not None:
                        kind = "cards" if clause.name in cards else clause.kind
                        text = rejection.error or rejection.text(call.evaluation)
                        found.append(BrokenRule(clause.policy, clause.name, kind, text))
        if plan.counts.strict:
            rows = table.find([there.nodeName])
            for each in self._headrooms(call, rows, moved):
                if not each.open[0] and not each.hopeful[0]:
                    rule, text = each.rule, each.rule.message(call.evaluation)
                    word = each.clause.count.word
                    found.append(BrokenRule(rule.policy, rule.name, word, text))
        return found

    def others(self, pod: RequestPod, there: Peer, moved: MovedPods) -> OtherNodes:
        """The other nodes where a pod could go: by all rules, and kube-scheduler's own filters."""
        call = self._calls.aside(pod)
        plan, table = call.plan, call.snapshot.table
        rows = np.fromiter(table.rows.values(), np.intp, len(table.rows))
        rows = rows[rows != table.rows.get(there.nodeName, UNKNOWN_ROW)]
        if not len(rows):
            return OtherNodes((), 0, NO_OTHER_NODE)
        headrooms = self._headrooms(call, rows, moved) if plan.counts.strict else ()
        opened = np.ones(len(rows), np.bool_)
        for headroom in headrooms:
            opened &= headroom.open
        allowed, reason = self._filtered(call, table, rows, moved)
        if not allowed.any():
            return OtherNodes((), 0, reason, _first(table, rows, opened))
        if not (allowed & opened).any():
            return OtherNodes((), 0, _closed(headrooms, allowed, call), _first(table, rows, opened))
        left = rows[allowed & opened]
        fits, reasons = self._fitting(pod, call, table, left, moved)
        if not fits.any():
            (why, number), *_ = reasons.most_common(1)
            looked = min(len(left), _MOST_REASONS)
            text = f"{why}, on {number} of {looked} nodes that its policies allow"
            return OtherNodes((), 0, text, _first(table, left, fits | True))
        passing = left[fits]
        points = np.zeros(len(passing))
        if plan.scorer.applies:
            points = plan.scorer.scores(table, passing, call.evaluation).astype(float)
        order = passing[np.argsort(-points, kind="stable")][:_MOST_NAMED]
        return OtherNodes(list(_names(table, order)), len(passing))

    def _headrooms(
        self, call: VerbCall, rows: NodeRows, moved: MovedPods
    ) -> Sequence[CountHeadroom]:
        known = self._placement.pods
        return self._placement.headrooms(call, rows, moved.pods(known) if moved else known)

    def _filtered(
        self, call: VerbCall, table: NodeTable, rows: NodeRows, moved: MovedPods
    ) -> tuple[Mask, str]:
        """The nodes that filters allow, and what most of the others are rejected for."""
        decided = call.plan.filters.decide(table, rows, call.evaluation)
        allowed: Mask = decided.codes == 0
        clauses = call.plan.selection.of(FilterProgram)
        for at, view in _on_paper(table, rows, moved) if clauses else ():
            (rejection,) = filtering.rejections(clauses, call.evaluation, [view])
            allowed[at] = rejection is None
        if allowed.any():
            return allowed, ""
        counts = Counter(dict(zip(decided.verdicts, decided.counts(), strict=True)))
        worst = next((v for v, _ in counts.most_common() if isinstance(v, Rejected)), None)
        if worst is None:
            return allowed, NO_OTHER_NODE
        return allowed, full_reason(worst.policy, worst.clause, worst.reason)

    def _fitting(
        self, pod: RequestPod, call: VerbCall, table: NodeTable, rows: NodeRows, moved: MovedPods
    ) -> tuple[Mask, Counter[str]]:
        """The nodes that kube-scheduler's own filters allow, and what the others lack."""
        fits = self._plugins.allowed(pod, table, rows, call.evaluation.time.check)
        ignored = unknown_resources(pod.pod, table)
        for at, view in _on_paper(table, rows, moved):
            fits[at] = all(reason in ignored for reason in unfit(pod.pod, view))
        reasons = Counter[str]()
        if not fits.any():
            for row in rows[:_MOST_REASONS].tolist():
                if (found := table.nodes[row]) is not None:
                    view = moved.view(table, found.name) or found
                    reasons.update(r for r in unfit(pod.pod, view)[:1] if r not in ignored)
        return fits, reasons


def _on_paper(
    table: NodeTable, rows: NodeRows, moved: MovedPods
) -> Iterator[tuple[int, NodeWithPods]]:
    """Those of some nodes that have other pods on paper, by their index."""
    if not moved:
        return
    at = {row: index for index, row in enumerate(rows.tolist())}
    for name in moved.nodes:
        view = moved.view(table, name)
        if view is not None and (index := at.get(table.rows[name])) is not None:
            yield index, view


def _closed(headrooms: Sequence[CountHeadroom], allowed: Mask, call: VerbCall) -> str:
    """The count that is in the way on most of the nodes that filters allow."""
    worst = max(headrooms, key=lambda each: int((allowed & ~each.open).sum()))
    rule = worst.rule
    return full_reason(rule.policy, rule.name, rule.message(call.evaluation))


def _names(table: NodeTable, rows: NodeRows) -> Iterator[str]:
    views = (table.nodes[row] for row in rows.tolist())
    return (view.name for view in views if view is not None)


def _first(table: NodeTable, rows: NodeRows, mask: Mask) -> str:
    return next(_names(table, rows[mask][:1]), "")
