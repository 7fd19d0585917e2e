"""Overview: the cluster at a glance, for whoever opens the page; on the event loop that decides.

It reads the last snapshot a few milliseconds at a time. What it has found serves everybody who asks
within a second or a few. Nothing is worked out while nobody asks.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

import msgspec
from aiohttp import web

from engine.cache.node_table import NodeTable, NodeWithPods, Snapshot, is_ready
from engine.decision.card_questions import Sums
from engine.decision.verb_call import ClusterState
from engine.engine import Engine
from engine.errors import EngineError, NotSyncedError
from engine.explanation.document import Cause
from engine.explanation.fills import BoundFill, FilledBound, fill_of_cards, selects
from engine.objects.peer import Peer, key_of
from engine.program.frame import Frame
from engine.program.program import Program
from engine.work import Work
from grammar.messages.texts import shown
from grammar.values.time import Timestamp
from server.answers.overview_answers import (
    FillList,
    NodesInShort,
    ReplicaOverview,
    SelectedPod,
    SelectedPods,
    WaitingList,
    WaitingPods,
)
from server.view.explaining import Explainer
from server.view.policy_states import PolicyStates
from server.view.routes import Answer, ViewQuestion
from server.view.turns import STEP_SECONDS, done, waiting_first

T = TypeVar("T")
# For so long the nodes, the labels, the causes, and the fills serve those who ask.
_NODES_SECONDS, _LABELS_SECONDS, _CAUSE_SECONDS, _FILLS_SECONDS = 1.0, 15.0, 15.0, 15.0
# The workloads whose waiting pods are listed, and for how long one answer works out causes.
_MOST_WAITING, _WORK_SECONDS = 20, 0.5
# The causes that are kept of pods that may wait no longer.
_MOST_CAUSES = 200
# The pods of one policy from which its bounds are seen, those of all, and the bounds in an answer.
_PODS_OF_POLICY, _PODS_OF_ALL, _MOST_BOUNDS = 6, 40, 200
# The pods of a policy that are listed.
_MOST_SELECTED = 20
# A label by which nodes are grouped has at most so many values; so many labels are offered.
_MOST_GROUPS, _MOST_LABELS = 200, 60
# Nodes are grouped by the first of these that some node has.
_USUAL_LABELS = (
    "topology.kubernetes.io/zone",
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "node.kubernetes.io/instance-type",
)
_HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class _NodeFigures:
    """What is shown of one version of a node; percentages are -1 where there is nothing."""

    version: int
    cpu: int
    memory: int
    pods: int
    cards: int
    state: int
    sums: Mapping[str, Sums]


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The fills of all bounds that were seen, at a time of the clock."""

    seen_at: float
    at: str
    bounds: Sequence[FilledBound]


@dataclass(slots=True)
class _KnownCause:
    """Why a pod waits, as it was at a time of the clock, under one set of policies."""

    at: float
    policies: object
    cause: Cause | None
    problem: str


@dataclass(slots=True)
class _WaitingGroup:
    """The pods of one workload that wait, and the one that waits longest."""

    first: Peer
    pods: int = 1

    @property
    def order(self) -> tuple[bool, int, str]:
        created = self.first.created
        nanos = created.nanos if created is not None else 0
        return self.first.is_gated, nanos, key_of(self.first)


@dataclass(slots=True)
class _KeptAnswers:
    """What was found for those who ask, with the time of the clock."""

    nodes: dict[str, tuple[float, NodesInShort]] = field(default_factory=dict)
    labels: tuple[float, Sequence[str]] = (-1e9, ())
    figures: dict[int, _NodeFigures] = field(default_factory=dict)
    figures_of: tuple[object, object] = (None, None)
    causes: dict[str, _KnownCause] = field(default_factory=dict)
    bounds: _Bounds | None = None


class Overview:
    """The overview of one replica."""

    def __init__(
        self,
        replica: str,
        engine: Engine,
        cluster: ClusterState,
        explainer: Explainer,
        states: PolicyStates,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._replica = replica
        self._engine = engine
        self._cluster = cluster
        self._explainer = explainer
        self._states = states
        self._clock = clock
        self._kept = _KeptAnswers()
        # Each kind of question is worked out once at a time; the next one finds the answer.
        self._looking, self._causing, self._filling = (asyncio.Lock() for _ in range(3))

    @property
    def answers(self) -> Mapping[str, Answer]:
        return {
            "overview": self.at_a_glance,
            "waiting": self.waiting,
            "fills": self.fills,
            "selected": self.selected,
        }

    async def at_a_glance(self, asked: ViewQuestion) -> ReplicaOverview:
        """The nodes by a label, and how full a bound is there; the policy, clause and workload."""
        label, query, bound = asked.query.get("label"), asked.query, None
        if "policy" in query and "clause" in query:
            bound = query["policy"], query["clause"], query.get("of", "")
        at, edits = Timestamp.now().to_second(), self._states.edits()
        try:
            snapshot = self._cluster.snapshot()
        except NotSyncedError as error:
            return ReplicaOverview(
                replica=self._replica,
                at=at,
                problem=str(error),
                nodes=None,
                pods=0,
                waiting=0,
                edits=edits,
            )
        async with self._looking:
            nodes = await self._done(self._nodes(snapshot.table, label))
        if bound is not None:
            nodes = _with_bound(nodes, await self._bounds(), bound)
        return ReplicaOverview(
            replica=self._replica,
            at=at,
            problem="",
            nodes=nodes,
            pods=sum(nodes.pods) + len(snapshot.strays),
            waiting=len(snapshot.pending),
            edits=edits,
        )

    async def waiting(self, _asked: ViewQuestion) -> WaitingList:
        """The pods that wait, and why, as far as that is worked out."""
        try:
            snapshot = self._cluster.snapshot()
        except NotSyncedError:
            return WaitingList(self._replica, (), 0, complete=True)
        async with self._causing:
            groups = await self._done(_groups(snapshot))
            listed = groups[:_MOST_WAITING]
            ends, complete = self._clock() + _WORK_SECONDS, True
            for group in listed:
                if self._is_due(group.first):
                    complete = self._clock() < ends
                    if not complete:
                        break
                    await self._find_cause(group.first)
        more = sum(group.pods for group in groups[_MOST_WAITING:])
        found = [self._waiting_pods(group) for group in listed]
        return WaitingList(self._replica, found, more, complete=complete)

    async def fills(self, _asked: ViewQuestion) -> FillList:
        """The bounds, the fullest first."""
        known = await self._bounds()
        return FillList(self._replica, known.at, [each.fill for each in known.bounds])

    async def fullest(self) -> Sequence[BoundFill]:
        """The same for a history."""
        return [each.fill for each in (await self._bounds()).bounds]

    async def selected(self, asked: ViewQuestion) -> SelectedPods:
        """The pods that a policy selects. Raises HTTPException and NotSyncedError."""
        address, registry = asked.query.get("policy", ""), self._engine.registry
        program = next((p for p in registry.programs if p.address == address), None)
        if program is None:
            raise web.HTTPNotFound(text=f"no policy `{shown(address)}` is in force\n")
        return await self._done(self._selected(program, self._cluster.snapshot()))

    def _selected(self, program: Program, snapshot: Snapshot) -> Work[SelectedPods]:
        frame = Frame(None, Timestamp.now(), slots=self._engine.registry.slots)
        listed, number, waiting = list[SelectedPod](), 0, 0
        for pod in waiting_first(snapshot):
            if selects(program, pod, frame) and not self._engine.exemptions.exempts(pod):
                number += 1
                waiting += not pod.nodeName
                if len(listed) < _MOST_SELECTED:
                    listed.append(SelectedPod(key_of(pod), pod.nodeName or None, pod.phase))
            yield
        exactly = program.select is None or program.selects_by is not None
        return SelectedPods(self._replica, program.address, number, waiting, exactly, listed)

    async def _done(self, work: Work[T]) -> T:
        return await done(work, 0.0, self._clock, STEP_SECONDS)

    # ---- nodes

    def _nodes(self, table: NodeTable, label: str | None) -> Work[NodesInShort]:
        labels = yield from self._labels(table)
        if label is None:
            label = next((each for each in _USUAL_LABELS if each in labels), "")
        kept, now = self._kept.nodes, self._clock()
        if label in kept and now - kept[label][0] < _NODES_SECONDS:
            return kept[label][1]
        figures = yield from self._figures(table)
        names = sorted(table.rows)
        groups: dict[str, int] = {}
        group: list[int] = []
        for name in names:
            view = table.node(name)
            value = view.labels.get(label) if view is not None else None
            group.append(-1 if value is None else groups.setdefault(value, len(groups)))
            yield
        each = [figures[table.rows[name]] for name in names]
        found = NodesInShort(
            label=label,
            labels=labels,
            groups=list(groups),
            names=names,
            group=group,
            cpu=[one.cpu for one in each],
            memory=[one.memory for one in each],
            pods=[one.pods for one in each],
            cards=[one.cards for one in each] if self._engine.cards.are_used else None,
            state=[one.state for one in each],
            bound=None,
        )
        # A few labels at most are asked for within a second.
        self._kept.nodes = {k: v for k, v in kept.items() if now - v[0] < _NODES_SECONDS}
        self._kept.nodes[label] = now, found
        return found

    def _figures(self, table: NodeTable) -> Work[Mapping[int, _NodeFigures]]:
        """By row; only of nodes that have changed they are worked out again."""
        kept, of = self._kept, (table.owner, self._engine.registry)
        if kept.figures_of != of:
            kept.figures, kept.figures_of = {}, of
        figures = kept.figures
        for row in table.rows.values():
            version, view = int(table.versions[row]), table.nodes[row]
            known = figures.get(row)
            if view is not None and (known is None or known.version != version):
                figures[row] = self._figures_of(view, version)
            yield
        return figures

    def _figures_of(self, node: NodeWithPods, version: int) -> _NodeFigures:
        found: Mapping[str, Sums] = {}
        if self._engine.cards.are_used:
            (found,) = self._engine.cards.sums([node])
        cards = max((100 * used // total for total, used in found.values() if total), default=-1)
        pods = len(node.pods or ())
        state = 2 if not is_ready(node) else 1 if node.spec and node.spec.unschedulable else 0
        return _NodeFigures(
            version, _percent(node, "cpu"), _percent(node, "memory"), pods, cards, state, found
        )

    def _labels(self, table: NodeTable) -> Work[Sequence[str]]:
        """The labels of few enough values, those of most nodes first."""
        at, known = self._kept.labels
        if self._clock() - at < _LABELS_SECONDS:
            return known
        values: dict[str, set[str]] = {}
        nodes = Counter[str]()
        for view in table.nodes:
            for key, value in view.labels.items() if view is not None else ():
                found = values.setdefault(key, set())
                if len(found) <= _MOST_GROUPS:
                    found.add(value)
                nodes[key] += 1
            yield
        few = [k for k, found in values.items() if len(found) <= _MOST_GROUPS and k != _HOSTNAME]
        ordered = sorted(few, key=lambda key: (key not in _USUAL_LABELS, -nodes[key], key))
        self._kept.labels = self._clock(), ordered[:_MOST_LABELS]
        return self._kept.labels[1]

    # ---- the pods that wait

    def _is_due(self, pod: Peer) -> bool:
        known = self._kept.causes.get(pod.uid)
        if known is None or known.policies is not self._engine.registry:
            return True
        return self._clock() - known.at >= _CAUSE_SECONDS

    async def _find_cause(self, pod: Peer) -> None:
        registry, cause, problem = self._engine.registry, None, ""
        try:
            document = await self._explainer.explain(pod.namespace, pod.name)
            cause = (await asyncio.to_thread(document)).cause
        except web.HTTPException as error:
            problem = (error.text or "").strip()
        except EngineError as error:
            problem = str(error)
        causes = self._kept.causes
        causes.pop(pod.uid, None)
        causes[pod.uid] = _KnownCause(self._clock(), registry, cause, problem)
        for old in list(islice(causes, max(0, len(causes) - _MOST_CAUSES))):
            del causes[old]

    def _waiting_pods(self, group: _WaitingGroup) -> WaitingPods:
        pod, known = group.first, self._kept.causes.get(group.first.uid)
        return WaitingPods(
            key_of(pod),
            group.pods,
            None if pod.created is None else str(pod.created),
            pod.unscheduled is not None and bool(pod.unscheduled.message),
            None if known is None else known.cause,
            "" if known is None else known.problem,
        )

    # ---- bounds

    async def _bounds(self) -> _Bounds:
        async with self._filling:
            known = self._kept.bounds
            if known is None or self._clock() - known.seen_at >= _FILLS_SECONDS:
                found = await self._seen_bounds()
                known = self._kept.bounds = _Bounds(
                    self._clock(), Timestamp.now().to_second(), found
                )
            return known

    async def _seen_bounds(self) -> Sequence[FilledBound]:
        found: dict[tuple[object, ...], FilledBound] = {}
        for namespace, name in await self._done(self._sample()):
            try:
                bounds = await self._explainer.fills(namespace, name)
            except (web.HTTPException, EngineError, TimeoutError):
                # What cannot be decided about a pod is told where one asks about it.
                continue
            for each in bounds:
                # Pods of different values may count others by the same clause.
                fill = each.fill
                found.setdefault((fill.policy, fill.clause, fill.of, *fill.groups[:3]), each)
        async with self._looking:
            every = [*found.values(), *await self._done(self._cards())]
        return sorted(every, key=lambda each: -each.fill.part)[:_MOST_BOUNDS]

    def _cards(self) -> Work[Sequence[FilledBound]]:
        """The cards of each clause, by amount."""
        programs = self._engine.registry.programs
        policies = {c.name: p.address for p in reversed(programs) for c in p.cards}
        if not policies:
            return ()
        try:
            table = self._cluster.snapshot().table
        except NotSyncedError:
            return ()
        figures = yield from self._figures(table)
        found = dict[str, dict[str, Sums]]()
        for name, row in table.rows.items():
            for key, its in figures[row].sums.items():
                if its[0]:
                    found.setdefault(key, {})[name] = its
            yield
        names = {key: tuple(key.rsplit("/", 1)) for key in found}
        return [
            fill_of_cards(policies[clause], clause, amount, found[key])
            for key, (clause, amount) in names.items()
            if clause in policies
        ]

    def _sample(self) -> Work[Sequence[tuple[str, str]]]:
        """Pods of each policy that counts: those that wait, then one of each workload."""
        try:
            snapshot = self._cluster.snapshot()
        except NotSyncedError:
            return ()
        registry = self._engine.registry
        programs = [p for p in registry.programs if any(c.count.weight is None for c in p.counts)]
        if not programs:
            return ()
        one_of_each: dict[tuple[str, str], Peer] = {}
        for pod in waiting_first(snapshot):
            one_of_each.setdefault(_owner(pod), pod)
            yield
        frame = Frame(None, Timestamp.now(), slots=registry.slots)
        chosen: dict[tuple[str, str], None] = {}
        for program in programs:
            of_policy = 0
            for pod in one_of_each.values():
                yield
                if selects(program, pod, frame):
                    chosen[pod.namespace, pod.name] = None
                    of_policy += 1
                    if of_policy >= _PODS_OF_POLICY:
                        break
            if len(chosen) >= _PODS_OF_ALL:
                break
        return list(chosen)


def _groups(snapshot: Snapshot) -> Work[Sequence[_WaitingGroup]]:
    found: dict[tuple[str, str], _WaitingGroup] = {}
    for pod in snapshot.pending.values():
        known = found.setdefault(_owner(pod), one := _WaitingGroup(pod))
        if known is not one:
            known.pods += 1
            if one.order < known.order:
                known.first = pod
        yield
    return sorted(found.values(), key=lambda group: group.order)


def _owner(pod: Peer) -> tuple[str, str]:
    """What pods of one workload have in common."""
    return pod.namespace, pod.uid if pod.workload is None else pod.workload.uid


def _percent(node: NodeWithPods, resource: str) -> int:
    whole = node.allocatable[resource].nanos
    if node.requested is None or whole <= 0:
        return -1
    return 100 * node.requested[resource].nanos // whole


def _with_bound(nodes: NodesInShort, known: _Bounds, wanted: tuple[str, str, str]) -> NodesInShort:
    for each in known.bounds:
        if (each.fill.policy, each.fill.clause, each.fill.of) == wanted:
            parts = [round(100 * each.parts.get(name, -0.01)) for name in nodes.names]
            return msgspec.structs.replace(nodes, bound=parts)
    return nodes
