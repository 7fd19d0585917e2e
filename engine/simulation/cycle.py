"""Simulation: kube-scheduler's cycle for one pod after another: filter, score, choose, bind.

What nodes have and what their pods take are columns of whole numbers. Nobody is evicted. Whom
kube-scheduler would propose is the dry run of DefaultPreemption, as far as resources of nodes are
concerned.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from engine.cache.cache import Cache
from engine.cache.node_table import ListedNames, NodeRows, NodeWithPods
from engine.decision.part import DecisionPart, Sums, summed
from engine.decision.plugin_filters import unknown_devices
from engine.decision.preemption import Victims
from engine.decision.verdict import Decision, Feasible, Verdict, full_reason
from engine.engine import Engine
from engine.errors import DeadlineExceededError, EngineError
from engine.objects.disruption_budget import Budgets, violating
from engine.objects.eligibility import CORDONED, ineligible, insufficient
from engine.objects.peer import Peer, importance, key_of
from engine.objects.remembered import Remembered
from engine.objects.request_pod import Exemptions, ObjectCodec, Pod
from engine.objects.resources import CPU, MEMORY, MOST_AMOUNT, PODS, amount, needs
from engine.objects.workload_pods import MOST_PODS
from engine.offline import USUAL_EXEMPTIONS
from engine.program.tables import Tables
from engine.work import Work, finished

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

_NODES_OF_RESOURCES = 32
# The requests that least-allocated assumes for a container without any
# (util.DefaultMilliCPURequest).
_UNNAMED = {CPU: 100, MEMORY: 200 << 20}


@dataclass(frozen=True, slots=True)
class ResourceDemand:
    """Demand of a pod: amounts of each resource, with one of `pods`.

    `scored` are the amounts of cpu and memory for least-allocated, which assumes some for a pod
    that requests none.
    """

    amounts: Mapping[str, int]
    scored: Mapping[str, int]


def demand(pod: Peer) -> ResourceDemand:
    """The demand of a pod.

    A peer has requests per pod, not per container, so defaults apply only to resources that none of
    its containers names. A request of 0 is one.
    """
    named, containers = pod.requests, len(pod.containers)
    scored = {
        r: amount(r, named[r]) if r in named else least * containers
        for r, least in _UNNAMED.items()
    }
    return ResourceDemand(needs(named), scored)


class NodeResources:
    """The resources of nodes in order, with the pods on them.

    Nodes need not have room for `ignored` resources. `resources_of` makes one.
    """

    def __init__(self, nodes: int, ignored: Collection[str]) -> None:
        self._ignored = frozenset(ignored)
        self._none = np.zeros(nodes, np.int64)
        self._allocatable = dict[str, Ints]()
        self._requested = dict[str, Ints]()
        self._scored = {resource: self._none.copy() for resource in _UNNAMED}

    def fill(
        self,
        row: int,
        node: NodeWithPods,
        beside: Mapping[str, Sums],
        scored: Callable[[Peer], Mapping[str, int]],
    ) -> None:
        """Sets what a node has. `scored` is what a pod takes for least-allocated."""
        has = {r: amount(r, each) for r, each in node.allocatable.items()}
        used = {r: amount(r, each) for r, each in (node.requested or {}).items()}
        has |= {name: most for name, (most, _) in beside.items()}
        used |= {name: taken for name, (_, taken) in beside.items()}
        for resource in has.keys() | used.keys():
            if resource not in self._requested:
                self._allocatable[resource] = self._none.copy()
                self._requested[resource] = self._none.copy()
            self._allocatable[resource][row] = has.get(resource, 0)
            self._requested[resource][row] = used.get(resource, 0)
        pods = [scored(pod) for pod in node.pods or ()]
        for resource, column in self._scored.items():
            column[row] = min(sum(each[resource] for each in pods), MOST_AMOUNT)

    @property
    def resources(self) -> Sequence[str]:
        """The resources that some node has: cpu, memory, others by name, and pods."""
        some = [r for r, column in self._allocatable.items() if column.any()]
        return sorted(some, key=lambda r: (r == PODS, r not in (CPU, MEMORY), r))

    def fits(self, demanded: ResourceDemand) -> Mask:
        """The nodes that have enough of every resource."""
        fits = np.ones(len(self._none), np.bool_)
        for _, lacks in self.lacking(demanded):
            fits &= ~lacks
        return fits

    def lacking(self, demanded: ResourceDemand) -> Iterator[tuple[str, Mask]]:
        """Each resource of the demand with the nodes that have too little of it."""
        for resource, needed in demanded.amounts.items():
            if resource not in self._ignored:
                yield resource, needed > self._free(resource)

    def least_allocated(self, demanded: ResourceDemand) -> Ints:
        """The score 0..100 of each node: the mean of the free fractions of cpu and of memory.

        In whole numbers, rounded down twice, as in NodeResourcesFit (leastResourceScorer).
        """
        total, known = self._none.copy(), self._none.copy()
        for resource, needed in demanded.scored.items():
            has = self._allocatable.get(resource, self._none)
            free = np.maximum(has - self._scored[resource] - needed, 0)
            total += free * 100 // np.maximum(has, 1)
            known += has > 0
        least: Ints = total // np.maximum(known, 1)
        return least

    def fits_without(self, node: int, demanded: ResourceDemand, gone: Iterable[Peer]) -> bool:
        """Whether a node has enough of every resource if some of its pods are gone."""
        freed = Counter[str]()
        for pod in gone:
            freed.update(demand(pod).amounts)
        return all(
            needed <= self._free(resource).item(node) + freed[resource]
            for resource, needed in demanded.amounts.items()
            if resource not in self._ignored
        )

    def _free(self, resource: str) -> Ints:
        used = self._requested.get(resource, self._none)
        return self._allocatable.get(resource, self._none) - used

    def add(self, node: int, demanded: ResourceDemand, sign: int = 1) -> None:
        """A pod has come to a node; with a sign of -1, it has left the node."""
        for resource, needed in demanded.amounts.items():
            # It does not exist if no node has an ignored resource.
            if resource not in self._requested:
                continue
            self._requested[resource][node] += sign * needed
        for resource, needed in demanded.scored.items():
            self._scored[resource][node] += sign * needed

    def allocatable(self, resource: str) -> int:
        """The allocatable amount of all nodes together, which may exceed an int64."""
        return sum(self._allocatable.get(resource, self._none).tolist())

    def requested(self, resource: str) -> int:
        """The requested amount on all nodes together."""
        return sum(self._requested.get(resource, self._none).tolist())


def resources_of(
    nodes: Sequence[NodeWithPods],
    ignored: Collection[str] = (),
    beside: Sequence[Mapping[str, Sums]] = (),
) -> Work[NodeResources]:
    """The resources of nodes, in portions; `beside` is what else each of them has."""
    known = dict[tuple[int, int], Mapping[str, int]]()

    def scored(pod: Peer) -> Mapping[str, int]:
        # Pods with equal requests share them, and they live as long as the nodes.
        key = id(pod.requests), len(pod.containers)
        if (found := known.get(key)) is None:
            found = known[key] = demand(pod).scored
        return found

    made = NodeResources(len(nodes), ignored)
    for row, node in enumerate(nodes):
        made.fill(row, node, beside[row] if beside else {}, scored)
        if not row % _NODES_OF_RESOURCES:
            yield
    return made


# ---- outcomes, as documents have them


class NearestNode(msgspec.Struct, frozen=True):
    """The node that has least against a pending pod, and all that it has."""

    node: str
    reasons: Sequence[str]


class PodOutcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod, as `namespace/name`, and the node where it goes; null if it finds none.

    Of a pending pod `reasons` has the number of nodes by reason, and `nearest` the node with the
    fewest of them. `leaves` is the drained node that it was on. What does not apply is left out.
    """

    pod: str
    policy: str | None
    node: str | None
    reasons: Mapping[str, int] = msgspec.field(default_factory=dict)
    leaves: str | None = None
    nearest: NearestNode | None = None


# ---- eligibility: cordons, taints, selectors and affinity

_NODES_OF_A_PORTION = 256
# The bytes of a name of a node for each byte of its row.
_BYTES_OF_A_NAME = 8


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Eligibility of nodes: where a pod may go, and for each node the reason why not, or empty."""

    open: Mask
    reasons: Sequence[str]


class NodeEligibility:
    """The eligibility of nodes for pods. The nodes do not change, so results are remembered.

    No pod may go to those of the `drained` names, whatever it tolerates.
    """

    def __init__(
        self, nodes: Sequence[NodeWithPods], drained: Collection[str] = frozenset()
    ) -> None:
        self._nodes = nodes
        self._drained = drained
        self._known: Remembered[bytes, Eligibility] = Remembered()
        self._encoder = msgspec.json.Encoder()

    def of(self, pod: Pod) -> Work[Eligibility]:
        """The eligibility of the nodes for a pod.

        The reasons are the texts of kube-scheduler's plugins, in the plugins' order.
        """
        spec = pod.spec
        constraints = spec and (spec.nodeSelector, spec.affinity, spec.tolerations)
        key = self._encoder.encode(constraints)
        known = self._known.get(key)
        if known is None:
            reasons = list[str]()
            for number, node in enumerate(self._nodes, 1):
                reasons.append(CORDONED if node.name in self._drained else ineligible(pod, node))
                if not number % _NODES_OF_A_PORTION:
                    yield
            known = Eligibility(np.array([not reason for reason in reasons], np.bool_), reasons)
            self._known.put(key, known)
        return known


# ---- the cycle

GATED = "scheduling is blocked due to non-empty scheduling gates"
# The factor from an extender's points to the plugins' 0..100 (C27).
_SCALE = 10


@dataclass(frozen=True, slots=True)
class Waiting:
    """Waiting pod without a node: the JSON as kube-scheduler would send it, and the decoded pod.

    `beside` is what it takes beside resources, by name.
    """

    body: bytes
    pod: Pod
    peer: Peer
    beside: Mapping[str, int] = field(default_factory=dict)

    @property
    def demand(self) -> ResourceDemand:
        """What it takes of a node, beside resources too."""
        found = demand(self.peer)
        return replace(found, amounts={**found.amounts, **self.beside}) if self.beside else found

    @property
    def key(self) -> str:
        return key_of(self.peer)


def waiting(body: bytes, codec: ObjectCodec) -> Waiting:
    """The waiting pod of a JSON that names no node. Raises BadObjectError."""
    return Waiting(body, codec.pod(body), codec.peer(body))


class SimulatedClock:
    """Clock of simulated seconds, which pass only between two pods: a run is the same each time.

    Where deadlines must hold, those of a `real` clock pass, too.
    """

    def __init__(self, real: Callable[[], float] = lambda: 0.0) -> None:
        self._seconds = 0.0
        self._real = real

    def __call__(self) -> float:
        return self._seconds + self._real()

    def pass_on(self) -> None:
        self._seconds += 1.0


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """The ways of a simulation. `weight` is that of the extender.

    `plugins` says whether the score of kube-scheduler's plugin counts. Of nodes with equal scores
    the first by name is taken, or `ties` draws one. Nodes need not have room for `ignored`
    resources, which kube-scheduler leaves to the extender. No pod goes to a `drained` node. At most
    so many pods are scheduled. A verb is asked for `portion` seconds of a `real` clock at a time.
    `tables` are those of a server, in place of those beside the cluster.
    """

    weight: int = 1
    plugins: bool = True
    ties: Random | None = None
    ignored: Collection[str] = ()
    drained: frozenset[str] = frozenset()
    most: int = MOST_PODS
    portion: float = math.inf
    real: Callable[[], float] = lambda: 0.0
    tables: Tables | None = None
    exemptions: Exemptions = USUAL_EXEMPTIONS


_USUAL = SimulationOptions()
T = TypeVar("T")
# A verb is asked so often for the same time, and then for twice as long, up to this.
_TRIES, _LONGEST_PORTION, _MOST_TRIES = 40, 0.1, 400


def begin(
    engine: Engine,
    cache: Cache,
    pods: Sequence[Waiting],
    options: SimulationOptions = _USUAL,
    clock: SimulatedClock | None = None,
) -> Work[Simulation]:
    """A simulation over a cache that is changed by it; `clock` is that of the engine.

    The waiting pods are in the cache from the start, so that counts of a workload include them. A
    waiting pod that the cache has on a node leaves that node.
    """
    for handler in engine.pod_handlers:
        cache.add_event_handler(handler)
    for number, each in enumerate(pods, 1):
        cache.put_pod(each.peer, body=each.body)
        if not number % _NODES_OF_A_PORTION:
            yield
    for part in engine.parts:
        part.learn([each.body for each in pods])
    views = cache.snapshot().nodes
    # In this order, because of ties.
    nodes = [views[name] for name in sorted(views)]
    yield
    beside = [summed(engine.parts, node) for node in nodes]
    wanted = {r: n for p in pods for r, n in p.pod.requests.items() if n.nanos}
    known = {*options.ignored, *(name for its in beside for name in its)}
    unknown = unknown_devices(wanted, nodes) - known
    resources = yield from resources_of(nodes, known | unknown, beside)
    clock = clock or SimulatedClock()
    return Simulation(engine, cache, pods, nodes, resources, options, clock, unknown)


class Simulation:
    """Simulation over a cache with nodes and pods, an engine with policies, and waiting pods.

    `nodes` are those of the cache by name, and `resources` theirs; no node shows the devices that
    are `unknown`. `begin` makes one.

    Woken pods come at once, as kube-scheduler is told to ask about them. A pod that is held at bind
    is bound as soon as the part of decisions that it waits for lets it go.
    """

    def __init__(
        self,
        engine: Engine,
        cache: Cache,
        pods: Sequence[Waiting],
        nodes: Sequence[NodeWithPods],
        resources: NodeResources,
        options: SimulationOptions,
        clock: SimulatedClock,
        unknown: Collection[str] = (),
    ) -> None:
        self._engine = engine
        self._unknown = unknown
        self._clock = clock
        # By uid: the pods whose turn comes, the outcomes of those that came before their turn, and
        # those that are held at bind, which count on their nodes already.
        self._coming = {each.peer.uid: each for each in pods}
        self._outcomes: dict[str, PodOutcome] = {}
        self._held: dict[str, tuple[Waiting, PodOutcome, Peer]] = {}
        self._cache = cache
        self.pods = pods
        self._options = options
        self.names: Sequence[str] = [node.name for node in nodes]
        self._rows = {name: row for row, name in enumerate(self.names)}
        # For most pods the same nodes are left as for the last one.
        self._lists: Remembered[bytes, Sequence[str]] = Remembered(
            size=lambda key, _: _BYTES_OF_A_NAME * len(key)
        )
        self.resources = resources
        self._eligibility = NodeEligibility(nodes, options.drained)

    @property
    def notes(self) -> Sequence[str]:
        """What is to be said of the pods that came."""
        devices = (f"nobody here looks at devices `{name}`" for name in sorted(self._unknown))
        return [*(note for part in self._engine.parts for note in part.notes()), *devices]

    def run(self) -> Iterator[PodOutcome]:
        """The outcome of each pod in order. Later pods see the earlier ones placed."""
        return (outcome for outcome in self.portions() if outcome is not None)

    def portions(self) -> Iterator[PodOutcome | None]:
        """The same, and None after each portion of work in between."""
        for each in self.pods:
            self._clock.pass_on()
            uid = each.peer.uid
            if uid not in self._outcomes:
                outcome = yield from self._schedule(each)
                if outcome is not None:
                    self._outcomes[uid] = outcome
            yield from self._gather()
            self._coming.pop(uid, None)
            yield self._outcomes.pop(uid)

    def _gather(self) -> Work[None]:
        """The cycles of woken pods, until no pod is held."""
        while (woken := self._engine.woken.take()) or self._held:
            for uid in woken:
                if (member := self._coming.get(uid)) is None:
                    # Its turn is over.
                    self._give_up(uid)
                elif uid not in self._held and uid not in self._outcomes:
                    outcome = yield from self._schedule(member)
                    if outcome is not None and outcome.node is not None:
                        # One that is rejected has its own turn.
                        self._outcomes[uid] = outcome
            if not woken:
                self._give_up(next(iter(self._held)))

    def _give_up(self, uid: str) -> None:
        for part in self._engine.parts:
            part.give_up(uid)

    def _schedule(self, pod: Waiting) -> Work[PodOutcome | None]:
        """The outcome of one cycle; None for a pod that is held."""
        call, _ = self._engine.opened(pod.body)
        governing = call.plan.selection.governing
        policy = governing.address if governing is not None else None
        if pod.pod.spec is not None and pod.pod.spec.schedulingGates:
            return PodOutcome(pod.key, policy, None, {GATED: 0})
        needed = pod.demand
        eligibility = yield from self._eligibility.of(pod.pod)
        fitting = np.flatnonzero(eligibility.open & self.resources.fits(needed))
        try:
            # Like kube-scheduler, skip the extender if no node is left.
            decided: Decision | None = None
            if len(fitting):
                names, ask = self._listed(fitting), self._engine.filter
                decided = yield from self._asked(lambda end: ask(pod.body, names, None, end))
            if decided is not None and len(feasible := fitting[decided.codes == 0]):
                row = yield from self._choose(pod, needed, feasible)
                is_admitted = bool(call.plan.of_parts or call.plan.rooms)
                return self._bind(pod, policy, row, is_admitted=is_admitted)
        except EngineError as error:
            return PodOutcome(pod.key, policy, None, {f"Placet's error: {error}": len(fitting)})
        lacking = [(insufficient(r), lacks) for r, lacks in self.resources.lacking(needed)]
        reasons = _reasons(lacking, eligibility, decided)
        nearest = self._nearest(lacking, eligibility, fitting, decided)
        return PodOutcome(pod.key, policy, None, reasons, nearest=nearest)

    def _asked(self, ask: Callable[[float], T]) -> Work[T]:
        """The answer of a verb, which goes on where it had no more time. Raises EngineError."""
        seconds = self._options.portion
        for tries in range(1, _MOST_TRIES):
            try:
                return ask(self._clock() + seconds)
            except DeadlineExceededError:
                yield
            if not tries % _TRIES:
                seconds = min(2 * seconds, _LONGEST_PORTION)
        return ask(self._clock() + seconds)

    def _listed(self, rows: NodeRows) -> Sequence[str]:
        """The names of rows, which remember where the engine has found them."""
        if (known := self._lists.get(key := rows.tobytes())) is None:
            names = [self.names[row] for row in rows]
            known = ListedNames.of(msgspec.json.encode(names)) or names
            self._lists.put(key, known)
        return known

    def _choose(self, pod: Waiting, needed: ResourceDemand, rows: NodeRows) -> Work[int]:
        """A row with the highest sum of scores. A single row is not scored (C29)."""
        if len(rows) == 1:
            return int(rows[0])
        totals, options = np.zeros(len(rows), np.int64), self._options
        if options.plugins:
            totals = self.resources.least_allocated(needed)[rows]
        names = self._listed(rows)
        prioritize = self._engine.prioritize
        scores = yield from self._asked(lambda end: prioritize(pod.body, names, None, end))
        if scores is not None:
            totals = totals + scores.points * (options.weight * _SCALE)
        best = np.flatnonzero(totals == totals.max())
        return int(rows[best[options.ties.randrange(len(best)) if options.ties else 0]])

    # ---- whom kube-scheduler would evict

    def proposed(self, pod: Waiting) -> Mapping[str, Victims]:
        """The victims that kube-scheduler proposes by itself, by node.

        It looks only at nodes that lack something for the pod: it takes the rejections of an
        extender for final (C48).
        """
        spec = pod.pod.spec
        if spec is not None and spec.preemptionPolicy == "Never":
            return {}
        snapshot, priority, needed = self._cache.snapshot(), pod.peer.priority, pod.demand
        budgets, is_open = snapshot.budgets or {}, finished(self._eligibility.of(pod.pod)).open
        found: dict[str, Victims] = {}
        for row in np.flatnonzero(is_open & ~self.resources.fits(needed)).tolist():
            node = snapshot.node(self.names[row])
            assert node is not None, "the nodes stay as they are"
            fits = partial(self.resources.fits_without, row, needed)
            if (victims := dry_run(priority, node, budgets, fits)) is not None:
                found[node.name] = victims
        return found

    def _bind(
        self, pod: Waiting, policy: str | None, row: int, *, is_admitted: bool
    ) -> PodOutcome | None:
        """The pod on its node; None if it is held there. Raises EngineError."""
        node, bound = self.names[row], pod.peer
        waits: Sequence[DecisionPart] = ()
        if is_admitted:
            admission = self._engine.admit(pod.body, node, math.inf)
            annotations = {**bound.annotations, **admission.annotations}
            bound = msgspec.structs.replace(bound, annotations=annotations)
            waits = admission.waits
        bound = msgspec.structs.replace(bound, nodeName=node, phase="Running")
        placed = PodOutcome(pod.key, policy, node)
        self.resources.add(row, pod.demand)
        if not waits:
            self._cache.put_pod(bound)
            return placed
        uid = bound.uid
        self._held[uid] = pod, placed, bound
        self._cache.assume(pod.peer, node, math.inf, bound.annotations)
        self._hold(uid, waits, "")
        return None

    def _hold(self, uid: str, waits: Sequence[DecisionPart], reason: str) -> None:
        """Has one part after another hold a pod, which is bound if none has a reason against it."""
        if waits and not reason:
            waits[0].hold(uid, partial(self._hold, uid, waits[1:]))
            return
        pod, placed, bound = self._held.pop(uid)
        if reason:
            self._cache.forget(pod.key)
            self.resources.add(self._rows[bound.nodeName], pod.demand, -1)
            placed = msgspec.structs.replace(placed, node=None, reasons={reason: 0})
        else:
            self._cache.put_pod(bound)
        self._outcomes[uid] = placed

    def _nearest(
        self,
        lacking: Sequence[tuple[str, Mask]],
        eligibility: Eligibility,
        fitting: NodeRows,
        decided: Decision | None,
    ) -> NearestNode | None:
        """The node with the fewest reasons; of equals one that only a policy rejects, by name."""
        against = np.array([bool(reason) for reason in eligibility.reasons], np.int64)
        for _, lacks in lacking:
            against += lacks
        rejected = {} if decided is None else dict(zip(fitting.tolist(), decided, strict=True))
        rows = [row for row, name in enumerate(self.names) if name not in self._options.drained]
        if not rows:
            return None
        nearest = min(rows, key=lambda row: (max(1, against[row]), row not in rejected))
        reasons = [eligibility.reasons[nearest]]
        reasons += [reason for reason, lacks in lacking if lacks[nearest]]
        if (verdict := rejected.get(nearest)) is not None:
            reasons.append(_text(verdict))
        return NearestNode(self.names[nearest], [reason for reason in reasons if reason])


def _reasons(
    lacking: Sequence[tuple[str, Mask]], eligibility: Eligibility, decided: Decision | None
) -> dict[str, int]:
    """The reasons that the event of a pod would list, the reason of the most nodes first."""
    found = Counter(eligibility.reasons)
    for reason, lacks in lacking:
        found[reason] += int((lacks & eligibility.open).sum())
    if decided is not None:
        for verdict, count in zip(decided.verdicts, decided.counts(), strict=True):
            found[_text(verdict)] += count
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return {reason: count for reason, count in ordered if reason and count}


def _text(verdict: Verdict) -> str:
    """The reason of a rejection; empty for a feasible node."""
    if isinstance(verdict, Feasible):
        return ""
    return full_reason(verdict.policy, verdict.clause, verdict.reason)


# ---- whom kube-scheduler would evict

# Whether the pod has room on a node without some pods.
Fits = Callable[[Collection[Peer]], bool]


def dry_run(priority: int, node: NodeWithPods, budgets: Budgets, fits: Fits) -> Victims | None:
    """The victims on a node; None if all pods of lower priority are too few, or none is needed."""
    lower = sorted((pod for pod in node.pods or () if pod.priority < priority), key=importance)
    gone = {pod.uid: pod for pod in lower}
    if not lower or not fits(gone.values()):
        return None
    breaks = violating(lower, budgets)
    # Those that violate a budget are spared first, then the others, the most important ones first.
    for pod in sorted(lower, key=lambda pod: pod.uid not in breaks):
        del gone[pod.uid]
        if not fits(gone.values()):
            gone[pod.uid] = pod
    if not gone:
        return None
    victims = sorted(gone.values(), key=importance)
    return Victims([pod.uid for pod in victims], len(gone.keys() & breaks))
