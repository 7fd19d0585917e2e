"""Overview: the cluster at a glance, for whoever opens the page; on the event loop that decides.

It reads the last snapshot a few milliseconds at a time. What it has found serves everybody who asks
within some seconds. Nothing is worked out while nobody asks.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from aiohttp import web
from cachetools import TTLCache

from engine.cache.node_table import NodeTable, NodeWithPods, Snapshot, is_ready
from engine.decision.part import Sums, summed
from engine.decision.registry import Registry
from engine.errors import EngineError
from engine.explanation.fills import BoundFill, fill_of_cards, selects
from engine.facts import Cause
from engine.objects.peer import Peer, key_of
from engine.program.frame import Frame
from engine.program.program import CardsProgram, Program
from engine.work import Work
from grammar.values.time import Timestamp
from server.answers import (
    FillList,
    NodesInShort,
    ReplicaOverview,
    WaitingList,
    WaitingPods,
)
from server.view.explaining import Explainer
from server.view.policy_states import PolicyStates
from server.view.routes import Answer, ViewQuestion
from server.view.turns import STEP_SECONDS, done, waiting_first

T = TypeVar("T")
# For so long the nodes, and the causes and fills, serve those who ask. An older cause is shown
# until there is a newer one.
_NODES_SECONDS, _KEPT_SECONDS, _SHOWN_SECONDS = 3.0, 15.0, 60.0
# The workloads whose waiting pods are listed, and for how long one answer works out causes.
_MOST_WAITING, _WORK_SECONDS = 20, 0.5
# The causes that are kept, also of pods that wait no longer, and the groupings of nodes.
_MOST_CAUSES, _MOST_GROUPINGS = 200, 20
# The pods of one policy from which its bounds are seen, those of all, and the bounds in an answer.
_PODS_OF_POLICY, _PODS_OF_ALL, _MOST_BOUNDS = 6, 40, 200
# A label by which nodes are grouped has at most so many values; so many labels are offered.
_MOST_GROUPS, _MOST_LABELS, _LONGEST_LABEL = 200, 60, 317
# Nodes are grouped by the first of these that some node has.
_USUAL_LABELS = (
    "topology.kubernetes.io/zone",
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "node.kubernetes.io/instance-type",
)
_HOSTNAME = "kubernetes.io/hostname"
# When a cause was worked out by the clock, and why a pod waits, or why that is not known.
_KnownCause = tuple[float, Cause | None, str]


@dataclass(eq=False, slots=True)
class Overview:
    """The overview of one replica. Its answers raise NotSyncedError."""

    here: Explainer
    _states: PolicyStates
    clock: Callable[[], float] = time.monotonic
    # By the label that was asked for; by the uid of a pod and the set of policies.
    _nodes: TTLCache[str | None, NodesInShort] = field(init=False)
    _causes: TTLCache[tuple[str, Registry], _KnownCause] = field(init=False)
    _bounds: TTLCache[None, FillList] = field(init=False)
    # Each kind of question is worked out once at a time; the next one finds the answer.
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _causing: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _filling: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def __post_init__(self) -> None:
        self._nodes = TTLCache(_MOST_GROUPINGS, _NODES_SECONDS, self.clock)
        self._causes = TTLCache(_MOST_CAUSES, _SHOWN_SECONDS, self.clock)
        self._bounds = TTLCache(1, _KEPT_SECONDS, self.clock)

    @property
    def answers(self) -> Mapping[str, Answer]:
        return {
            "overview": self.at_a_glance,
            "waiting": self.waiting,
            "fills": lambda _: self.fills(),
        }

    async def at_a_glance(self, asked: ViewQuestion) -> ReplicaOverview:
        """The nodes by a label, and the numbers of pods."""
        label = asked.query["label"][:_LONGEST_LABEL] if "label" in asked.query else None
        snapshot = self.here.cluster.snapshot()
        async with self._looking:
            if label not in self._nodes:
                self._nodes[label] = await self._done(self._nodes_by(snapshot.table, label))
            nodes = self._nodes[label]
        return ReplicaOverview(
            replica=self.here.replica,
            at=Timestamp.now().to_second(),
            nodes=nodes,
            pods=sum(nodes.pods) + len(snapshot.strays),
            waiting=len(snapshot.pending),
            edits=self._states.edits(),
        )

    async def waiting(self, _asked: ViewQuestion) -> WaitingList:
        """The pods that wait, and why, as far as that is worked out."""
        snapshot = self.here.cluster.snapshot()
        async with self._causing:
            groups = await self._done(_waiting_groups(snapshot))
            listed, more = groups[:_MOST_WAITING], sum(n for _, n in groups[_MOST_WAITING:])
            ends, complete = self.clock() + _WORK_SECONDS, True
            for pod, _ in listed:
                key = pod.uid, self.here.engine.registry
                known = self._causes.get(key)
                if known is None or self.clock() - known[0] >= _KEPT_SECONDS:
                    if not (complete := self.clock() < ends):
                        break
                    found = await self._cause_of(pod)
                    self._causes[key] = self.clock(), *found
        pods = [self._waiting_pods(*group) for group in listed]
        return WaitingList(self.here.replica, pods, more, complete=complete)

    async def fills(self) -> FillList:
        """The bounds, the fullest first."""
        async with self._filling:
            if (known := self._bounds.get(None)) is None:
                found = await self._seen_bounds()
                at = Timestamp.now().to_second()
                known = self._bounds[None] = FillList(self.here.replica, at, found)
            return known

    async def _done(self, work: Work[T]) -> T:
        return await done(work, 0.0, self.clock, STEP_SECONDS)

    # ---- nodes

    def _nodes_by(self, table: NodeTable, label: str | None) -> Work[NodesInShort]:
        labels = yield from _labels(table)
        if label is None:
            label = next((each for each in _USUAL_LABELS if each in labels), "")
        names, groups = sorted(table.rows), dict[str, int]()
        figures, group = [], list[int]()
        for name in names:
            view = table.node(name)
            assert view is not None, "the names are those of the table"
            value = view.labels.get(label)
            group.append(-1 if value is None else groups.setdefault(value, len(groups)))
            state = 2 if not is_ready(view) else 1 if view.spec and view.spec.unschedulable else 0
            load = _percent(view, "cpu"), _percent(view, "memory")
            figures.append((*load, len(view.pods or ()), self._cards_of(view), state))
            yield
        has_cards = any(each.of(CardsProgram) for each in self.here.engine.registry.programs)
        cpu, memory, pods, cards, states = zip(*figures, strict=True) if figures else [()] * 5
        return NodesInShort(
            label=label,
            labels=labels,
            groups=list(groups),
            names=names,
            group=group,
            cpu=cpu,
            memory=memory,
            pods=pods,
            cards=cards if has_cards else None,
            state=states,
        )

    def _cards_of(self, node: NodeWithPods) -> int:
        """The part of a node's cards that is in use, in percent; -1 without cards."""
        found = summed(self.here.engine.parts, node).values()
        return max((100 * used // total for total, used in found if total), default=-1)

    # ---- the pods that wait

    async def _cause_of(self, pod: Peer) -> tuple[Cause | None, str]:
        """Why a pod waits, or why that is not known."""
        try:
            document = await self.here.explain(pod.namespace, pod.name)
            return (await asyncio.to_thread(document)).cause, ""
        except web.HTTPException as error:
            return None, (error.text or "").strip()
        except EngineError as error:
            return None, str(error)

    def _waiting_pods(self, pod: Peer, number: int) -> WaitingPods:
        _, cause, problem = self._causes.get((pod.uid, self.here.engine.registry), (0.0, None, ""))
        since = None if pod.created is None else str(pod.created)
        is_asked = pod.unscheduled is not None and bool(pod.unscheduled.message)
        return WaitingPods(key_of(pod), number, since, is_asked, cause, problem)

    # ---- bounds

    async def _seen_bounds(self) -> Sequence[BoundFill]:
        snapshot = self.here.cluster.snapshot()
        found: dict[tuple[object, ...], BoundFill] = {}
        for pod in await self._done(self._sample(snapshot)):
            try:
                bounds = await self.here.fills(pod.namespace, pod.name)
            except (web.HTTPException, EngineError):
                # What cannot be decided about a pod is told where one asks about it.
                continue
            for each in bounds:
                # Pods of different values may count others by the same clause.
                found.setdefault((each.policy, each.clause, each.of, *each.groups[:3]), each)
        every = [*found.values(), *await self._done(self._cards(snapshot.table))]
        return sorted(every, key=lambda each: -each.part)[:_MOST_BOUNDS]

    def _cards(self, table: NodeTable) -> Work[Sequence[BoundFill]]:
        """The cards of each clause, by amount."""
        programs = self.here.engine.registry.programs
        policies = {c.name: p.address for p in reversed(programs) for c in p.of(CardsProgram)}
        found = dict[str, dict[str, Sums]]()
        for name in table.rows if policies else ():
            view = table.node(name)
            assert view is not None, "the names are those of the table"
            for key, its in summed(self.here.engine.parts, view).items():
                if its[0]:
                    found.setdefault(key, {})[name] = its
            yield
        names = {key: tuple(key.rsplit("/", 1)) for key in found}
        return [
            fill_of_cards(policies[clause], clause, amount, found[key])
            for key, (clause, amount) in names.items()
            if clause in policies
        ]

    def _sample(self, snapshot: Snapshot) -> Work[Sequence[Peer]]:
        """Pods of each policy that counts, one of a workload: those that wait before others."""
        registry, seen, of = self.here.engine.registry, set[tuple[str, str]](), Counter[Program]()
        programs = [p for p in registry.programs if any(c.count.weight is None for c in p.counts)]
        frame, chosen = Frame(None, Timestamp.now(), slots=registry.slots), list[Peer]()
        for pod in waiting_first(snapshot) if programs else ():
            if (owner := _owner(pod)) not in seen and len(chosen) < _PODS_OF_ALL:
                seen.add(owner)
                left = (each for each in programs if of[each] < _PODS_OF_POLICY)
                if selecting := [each for each in left if selects(each, pod, snapshot, frame)]:
                    of.update(selecting)
                    chosen.append(pod)
            yield
        return chosen


def _labels(table: NodeTable) -> Work[Sequence[str]]:
    """The labels of few enough values, those of most nodes first."""
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
    return ordered[:_MOST_LABELS]


def _waiting_groups(snapshot: Snapshot) -> Work[Sequence[tuple[Peer, int]]]:
    """The pods that wait by workload: the one that waits longest, and how many there are."""
    first: dict[tuple[str, str], tuple[tuple[bool, int, str], Peer]] = {}
    number = Counter[tuple[str, str]]()
    for pod in snapshot.pending.values():
        owner, created = _owner(pod), pod.created.nanos if pod.created is not None else 0
        order = pod.is_gated, created, key_of(pod)
        number[owner] += 1
        if owner not in first or order < first[owner][0]:
            first[owner] = order, pod
        yield
    return [(first[o][1], number[o]) for o in sorted(first, key=lambda owner: first[owner][0])]


def _owner(pod: Peer) -> tuple[str, str]:
    """What pods of one workload have in common."""
    return pod.namespace, pod.uid if pod.workload is None else pod.workload.uid


def _percent(node: NodeWithPods, resource: str) -> int:
    whole = node.allocatable[resource].nanos
    if node.requested is None or whole <= 0:
        return -1
    return 100 * node.requested[resource].nanos // whole
