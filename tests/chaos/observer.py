"""Observer: follows pods and nodes in etcd, and finds what must not be while a nemesis acts.

It sees every state in the order of resource versions, whatever becomes of API servers. Its model is
plain: it counts from the pods that there are, and knows nothing of Placet. It belongs to one run.

A count may be above its bound without a fault, because it changed while a pod was being bound: a
pod was deleted or relabelled, the bound one too, or somebody else bound one. A binding is a fault
only if it would be one had none of this happened since the decision, nor for as long before as a
watch may be late.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.e2e.control_plane import Change

EVALUATE = "placement-policy.scheduling.x-k8s.io/Evaluate"
PODS, NODES = "/registry/pods/", "/registry/minions/"
POLICY_OBJECTS = "/registry/placement-policy.scheduling.x-k8s.io/placementpolicies/"
# The label of a pod of somebody who lies about what it takes: it takes nothing.
HOSTILE = "hostile"
OURS = "default-scheduler"
# The phases of a pod that runs no more, and counts nowhere.
ENDED = ("Succeeded", "Failed")
# The reason of the condition of a pod that is evicted.
EVICTED = "EvictionByEvictionAPI"
LATE_SECONDS = 30.0
MOST_WAKE_UPS, MINUTE = 4, 60.0
# Pods have a node so long after there is room.
_SETTLE_SECONDS = 20.0
# How late watches are at most, by the faults of a schedule (a replica that is frozen while its
# watches are cut connects again after a pause), and how long states are kept.
_BEHIND_SECONDS = 20.0
# Who does not lead decides by what it has seen when it was cut off, or frozen; then it has to list.
_CUT_OFF_SECONDS = 45.0
_KEPT_SECONDS = 120.0
# The bounds of the apps that have some.
MOST_A_NODE, SHARE_PERCENT, MOST_SKEW = 2, 40, 1
# The part of the pods of the app `floored` in each of these zones at least, and the pods of the app
# `crowd` that one of the app `guarded` has beside it at most.
FLOOR_PERCENT, FLOOR_ZONES, MOST_CROWD = 30, ("a", "b"), 1
# The pods of the app `budget` that the cluster may have, in even and in odd minutes.
BUDGETS, _MINUTE, EVERYWHERE = (24, 12), 60.0, "the cluster"
# How far the clock of a Placet may be off.
_SKEW_SECONDS = 60.0
SPOT, STEADY = "spot", "steady"
# What a card has, and the number of cards of a node; Placet writes which of them a pod has.
CARD, CARDS_A_NODE = 1000, 2
TAKEN = "placet.dev/cards"
NOBODY: Mapping[str, int] = {}


@dataclass(frozen=True, slots=True)
class Finding:
    """What must not be: the same `kind` is the same fault, for whoever shortens a schedule."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass
class Report:
    """What a run has found, and what it has done."""

    findings: list[Finding] = field(default_factory=list)
    exceptions: Counter[str] = field(default_factory=Counter)
    # The phases that were played: the last one is that of the findings.
    phases: int = 0
    bindings: int = 0
    evictions: int = 0
    calls: int = 0
    # The seconds until all that fits had a node, of each quiet time.
    placed: list[float] = field(default_factory=list)
    live: list[float] = field(default_factory=list)
    # How often a kube-scheduler has ended by itself: it lost its Lease, or its cache contradicted
    # what it read, for which it ends too.
    schedulers_ended: int = 0
    # What was done in trials, and how often answers were compared there.
    did: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        exceptions = ", ".join(f"{n} by {why}" for why, n in sorted(self.exceptions.items()))
        done = (
            f"{self.phases} phases, {self.bindings} bindings under bounds, {self.calls} calls of"
            f" filter, {self.evictions} evictions;"
            f" placed within {[round(each, 1) for each in self.placed]} s of quiet;"
            f" /livez at most {max(self.live, default=0.0):.2f} s;"
            f" kube-schedulers ended by themselves {self.schedulers_ended} times;"
            f" above a bound, as documented: {exceptions or 'none'}"
        )
        if self.did:
            done += "".join(f"\n  {number} {what}" for what, number in sorted(self.did.items()))
        return "\n".join([done, *map(str, self.findings)])


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as far as the model knows it."""

    name: str
    uid: str
    app: str
    node: str
    ours: bool
    # It is being deleted.
    ends: bool
    gated: bool
    oversized: bool
    # The reason of our own condition, which says how often the pod was woken.
    woken: str
    # What kube-scheduler says of the pod.
    refusal: str
    # What it has of each card of its node, by the number of the card.
    cards: Mapping[int, int]
    # The Eviction API has taken it.
    evicted: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """A node as far as the model knows it; it is open if new pods may go there."""

    zone: str
    capacity: str
    pool: str
    is_open: bool


@dataclass(frozen=True, slots=True)
class Offer:
    """The last answer of filter that had a node for a pod: when, and which kube-scheduler asked."""

    at: float
    scheduler: str


@dataclass(frozen=True, slots=True)
class _State:
    """The counts of one app at a time: in each group, and of all its pods.

    Of the app `budget`, `total` is the number of pods that there may be.
    """

    at: float
    groups: Mapping[str, int]
    total: int


class Calls(Protocol):
    """What the observer asks about kube-scheduler's calls; see `Rig`."""

    def offer(self, pod: str) -> Offer | None:
        """The last offer to a pod of this name."""

    def refused(self, pod: str) -> bool:
        """Whether a call about a pod of this name had no node for it."""

    def frozen(self, scheduler: str, since: float) -> bool:
        """Whether a kube-scheduler was frozen at any time since then."""

    def starts(self, since: float) -> int:
        """How often a Placet has started since then, or has begun to see late."""


class Observer:
    """The model, kept up to date by a thread, and asked by another one."""

    def __init__(
        self,
        calls: Calls,
        clock: Callable[[], float],
        wall: Callable[[], float] = time.time,
        *,
        binds: bool,
        skew: float = _SKEW_SECONDS,
    ) -> None:
        """`binds`: Placet binds, so that no binding may be above a bound without drift.

        `wall` is the time of day, from which the clocks of Placets are off by `skew` at most.
        """
        self.findings: list[Finding] = []
        # The bindings above a bound that are no findings, by the reason.
        self.exceptions: Counter[str] = Counter()
        self.bindings = 0
        self._calls = calls
        self._clock = clock
        self._wall, self._skew = wall, skew
        self._binds = binds
        self._lock = threading.Lock()
        self._nodes: dict[str, Node] = {}
        # Nodes that are gone, as they were: their pods are gone a moment later.
        self._gone_nodes: dict[str, Node] = {}
        self._pods: dict[str, Pod] = {}
        self._states: dict[str, deque[_State]] = defaultdict(deque)
        # The entries into a group other than by a binding of ours.
        self._entries: deque[tuple[float, str, str]] = deque()
        # The pods that are gone, with the group of each, which somebody may still count.
        self._ends: deque[tuple[float, str, str]] = deque()
        # When the labels of a node were changed last, or whether it is open.
        self._nodes_changed: dict[str, float] = {}
        # The app that a pod had before its last relabelling, with the time of that, by name.
        self._apps_before: dict[str, tuple[float, str]] = {}
        # The pools that each node had, and those that the policy of the app `pooled` wanted, with
        # the time when each began.
        self._pools: dict[str, list[tuple[float, str]]] = defaultdict(list)
        self._wanted_pools: list[tuple[float, str]] = []
        # Since when no open node has room for one more pod of an app.
        self._full_since: dict[str, float] = {}
        self._wake_ups: dict[str, deque[float]] = defaultdict(deque)
        self._reported: set[tuple[str, str]] = set()

    # ---- what a thread tells

    def change(self, change: Change) -> None:
        """Takes a change of a pod, a node or a policy."""
        value = None if change.value is None else json.loads(change.value)
        with self._lock:
            now = self._clock()
            if change.key.startswith(NODES):
                self._node(change.key.removeprefix(NODES), value, now)
            elif change.key.startswith(PODS):
                self._pod(change.key.rpartition("/")[2], value, now)
            elif change.key.startswith(POLICY_OBJECTS) and change.key.endswith("/pooled"):
                self._pooled(value, now)

    def _node(self, name: str, value: dict[str, Any] | None, now: float) -> None:
        node = None if value is None else node_of(value)
        before = self._nodes.get(name)
        if node == before:
            return
        if node is None:
            self._gone_nodes[name] = self._nodes.pop(name)
        else:
            self._pools[name].append((now, node.pool))
            self._nodes[name] = node
            if before is not None:
                self._nodes_changed[name] = now
            for pod in self._pods.values():
                if pod.node == name and (group := self._group(pod)) is not None:
                    self._entries.append((now, pod.app, group))
        for app in BOUNDED:
            self._remember(app, now)

    def _pooled(self, value: dict[str, Any] | None, now: float) -> None:
        """Takes a state of the policy of the app `pooled`; one that is broken changes nothing."""
        rules = "" if value is None else value["spec"]["rules"]
        _, found, rest = rules.partition('node.labels["pool"] == "')
        pool = rest.partition('"')[0]
        if found and pool not in {each for _, each in self._wanted_pools[-1:]}:
            self._wanted_pools.append((now, pool))

    def _pod(self, name: str, value: dict[str, Any] | None, now: float) -> None:
        old = self._pods.get(name)
        if value is None:
            self._pods.pop(name, None)
            new = None
        else:
            new = self._pods[name] = pod_of(value)
        if old is not None and (new is None or new.uid != old.uid):
            self._wake_ups.pop(name, None)
            self._ends.append((now, old.app, self._group(old, was=True) or ""))
            self._remember(old.app, now)
            old = None
        if new is None:
            return
        if old is None:
            self._apps_before.pop(name, None)
        elif old.app != new.app:
            self._apps_before[name] = now, old.app
        if new.node and (old is None or not old.node):
            self._bound(new, now)
        elif old is not None and old.app != new.app and (group := self._group(new)) is not None:
            self._entries.append((now, new.app, group))
        if old is not None and new.ends and not old.ends and new.app in _WITHOUT_ENDING:
            self._ends.append((now, old.app, self._group(old, was=True) or ""))
        if old is not None and old.app != new.app:
            self._remember(old.app, now)
        self._remember(new.app, now)
        if new.woken and (old is None or old.woken != new.woken):
            self._woken(new, now)

    def _bound(self, pod: Pod, now: float) -> None:
        if pod.ours and pod.app == "cards":
            self._cards_taken(pod)
        if pod.ours and pod.app == "pooled":
            self._in_pool(pod, now)
        if (group := self._group(pod)) is None:
            return
        if not pod.ours:
            self._entries.append((now, pod.app, group))
            return
        self.bindings += 1
        offer = self._calls.offer(pod.name)
        since = (offer.at if offer is not None else now) - _BEHIND_SECONDS
        changed = self._nodes_changed.get(pod.node, -math.inf) >= since
        if changed or self._app_before(pod, now) is not None:
            # Whoever bound it need not know that it counts here.
            self._entries.append((now, pod.app, group))
        bound = BOUNDED[pod.app]
        state = self._state(pod.app, now)
        count = state.groups[group]
        if count <= bound(group, [state]):
            return
        entered = sum(e[0] >= since and e[1:] == (pod.app, group) for e in self._entries)
        ended = Counter(e[2] for e in self._ends if e[0] >= since and e[1] == pod.app)
        states = [
            *self._since(pod.app, since),
            self._state(pod.app, since),
            self._state(pod.app, now, late=True),
            self._state(pod.app, now, ended=ended),
            state,
        ]
        what = (
            f"{pod.name} on {pod.node}: {count} in {group}, {dict(state.groups)} of {state.total},"
            f" offered {now - offer.at:.1f} s before by {offer.scheduler}"
            if offer is not None
            else f"{pod.name} on {pod.node}: {count} in {group}, never offered"
        )
        if count - entered <= bound(group, states):
            self.exceptions["drift"] += 1
        elif (
            not self._binds and offer is not None and self._calls.frozen(offer.scheduler, offer.at)
        ):
            self.exceptions["frozen kube-scheduler"] += 1
        elif not self._binds and offer is not None and now - offer.at > LATE_SECONDS:
            self.exceptions["late Binding"] += 1
        else:
            self._find("overrun", pod.name, what)

    def _cards_taken(self, pod: Pod) -> None:
        """Whether the pods of ours take more of a card than it has, whatever others say."""
        self.bindings += 1
        if not pod.cards and self._binds:
            self._find("overrun", pod.name, f"{pod.name} has no card of {pod.node}")
        there = [each for each in self._pods.values() if each.ours and each.node == pod.node]
        for card in pod.cards:
            taken = sum(each.cards.get(card, 0) for each in there)
            if taken > CARD or pod.cards[card] < 0 or not 0 <= card < CARDS_A_NODE:
                self._find("overrun", pod.name, f"{pod.name}: {taken} of card {card} of {pod.node}")

    def _in_pool(self, pod: Pod, now: float) -> None:
        """Whether the node was in the pool that the policy wanted, as somebody may have seen it."""
        offer = self._calls.offer(pod.name)
        since = (offer.at if offer is not None else now) - _CUT_OFF_SECONDS
        wanted = _values_since(self._wanted_pools, since)
        if wanted and not wanted & _values_since(self._pools[pod.node], since):
            text = f"{pod.name} on {pod.node}, while the pool was {sorted(wanted)}"
            self._find("against a filter", pod.name, text)

    def _woken(self, pod: Pod, now: float) -> None:
        if not pod.app:
            # Members of gangs are woken for each other.
            return
        times = self._wake_ups[pod.name]
        times.append(now)
        while times[0] < now - MINUTE:
            times.popleft()
        # A Placet that starts, or sees late, knows of the last wake-up alone.
        most = MOST_WAKE_UPS * (1 + self._calls.starts(now - MINUTE))
        if len(times) > most:
            self._find("woken too often", pod.name, f"{pod.name}, {len(times)} times in a minute")
        if not pod.ours:
            self._find("woken in vain", "foreign", f"{pod.name} is of another scheduler")
        elif pod.gated:
            self._find("woken in vain", "gated", f"{pod.name} is gated")
        elif not self._calls.refused(pod.name):
            self._find("woken in vain", "never refused", f"{pod.name} was never refused")
        elif now - self._full_since.get(pod.app, now) > self._most_behind(now):
            self._find("woken in vain", "no room", f"{pod.name}: no open node has room for it")

    def _most_behind(self, now: float) -> float:
        """How late somebody may know of a change: a Placet that was frozen, later than others."""
        was_cut_off = self._calls.starts(now - _CUT_OFF_SECONDS)
        return _CUT_OFF_SECONDS if was_cut_off else _BEHIND_SECONDS

    def _find(self, kind: str, about: str, what: str) -> None:
        """Adds a finding, once for each thing that it is about."""
        if (kind, about) not in self._reported:
            self._reported.add((kind, about))
            self.findings.append(Finding(kind, what))

    # ---- counts

    def _app_before(self, pod: Pod, now: float) -> str | None:
        """The app as which somebody may still count a pod who does not know of its relabelling."""
        at, app = self._apps_before.get(pod.name, (now, None))
        return app if now - at < _BEHIND_SECONDS else None

    def _group(self, pod: Pod, app: str = "", *, was: bool = False) -> str | None:
        """The group in which a pod counts as one of an app: its own, if none is given.

        `was`: its node may be gone.
        """
        node = self._nodes.get(pod.node) or (self._gone_nodes.get(pod.node) if was else None)
        if node is None:
            return None
        match app or pod.app:
            case "limited" | "summed":
                return pod.node
            case "budget":
                return EVERYWHERE
            case "shared" | "repaired":
                return None if pod.ends else node.capacity
            case "even":
                # As in PodTopologySpread, a node where no pod may go counts for nobody.
                return node.zone if node.is_open and not pod.ends else None
            case _:
                return None

    def _state(
        self, app: str, now: float, *, late: bool = False, ended: Mapping[str, int] = NOBODY
    ) -> _State:
        """The counts; `late` are those of somebody who does not know of the last relabellings.

        Whoever does not know of the `ended` pods of each group counts these too.
        """
        pods = [
            pod
            for pod in self._pods.values()
            if ((late and self._app_before(pod, now)) or pod.app) == app
            and not (pod.ends and app in _WITHOUT_ENDING)
        ]
        groups = Counter(group for pod in pods if (group := self._group(pod, app)) is not None)
        groups.update(ended)
        total = len(pods) + sum(ended.values())
        if app == "even":
            zones = {node.zone for node in self._nodes.values() if node.is_open}
            return _State(now, {zone: groups[zone] for zone in sorted(zones)}, total)
        if app == "budget":
            total = max(self._budgets(now, self._skew))
        return _State(now, groups, total)

    def _budgets(self, at: float, within: float) -> set[int]:
        """What the cluster may have had of the app `budget`, within so many seconds of a time."""
        wall = self._wall() + at - self._clock()
        return {BUDGETS[int(each // _MINUTE) % 2] for each in (wall - within, wall, wall + within)}

    def _remember(self, app: str, now: float) -> None:
        if app in BOUNDED:
            states = self._states[app]
            state = self._state(app, now)
            states += (self._state(app, now, late=True), state)
            if app in _A_NODE:
                self._note_room(app, state)
            elif app == "budget":
                self._note(app, state, room=state.groups.get(EVERYWHERE, 0) < max(BUDGETS))
            while states[0].at < now - _KEPT_SECONDS:
                states.popleft()

    def _note_room(self, app: str, state: _State) -> None:
        room = (
            state.groups.get(n, 0) < MOST_A_NODE for n, each in self._nodes.items() if each.is_open
        )
        self._note(app, state, room=any(room))

    def _note(self, app: str, state: _State, *, room: bool) -> None:
        if room:
            self._full_since.pop(app, None)
        else:
            self._full_since.setdefault(app, state.at)

    def _since(self, app: str, since: float) -> Iterator[_State]:
        """The states since a time, and the one that held then."""
        for state in reversed(self._states[app]):
            yield state
            if state.at < since:
                return

    # ---- what another thread asks

    def pods(self) -> list[Pod]:
        with self._lock:
            return list(self._pods.values())

    def wake_ups(self, since: float) -> Counter[str]:
        """How often each pod was woken since a time of the last minute."""
        with self._lock:
            return Counter(
                {name: sum(at >= since for at in times) for name, times in self._wake_ups.items()}
            )

    def unplaced(self) -> list[Pod]:
        """The pods without a node that fit, while nothing else happens."""
        with self._lock:
            now = self._clock()
            groups = {app: self._state(app, now).groups for app in _A_NODE}
            full = {
                app
                for app, counts in groups.items()
                if all(counts[node] >= MOST_A_NODE for node in self._nodes)
            }
            # A minute that began just now may have more room than there was.
            if self._state("budget", now).groups[EVERYWHERE] >= min(
                self._budgets(now, self._skew + _SETTLE_SECONDS)
            ):
                full.add("budget")
            has_cards = sum(bool(pod.cards) for pod in self._pods.values() if pod.ours)
            if has_cards >= CARDS_A_NODE * len(self._nodes):
                full.add("cards")
            return [
                pod
                for pod in self._pods.values()
                if not pod.node
                and pod.ours
                and not (pod.gated or pod.oversized or pod.ends)
                # Under the other bounds some node is always open.
                and pod.app not in full
            ]


def node_of(value: dict[str, Any]) -> Node:
    labels, spec = value["metadata"].get("labels", {}), value.get("spec", {})
    return Node(
        zone=labels["topology.kubernetes.io/zone"],
        capacity=SPOT if labels.get("capacity") == SPOT else STEADY,
        pool=labels.get("pool", ""),
        is_open=not (spec.get("unschedulable") or spec.get("taints")),
    )


def pod_of(value: dict[str, Any]) -> Pod:
    metadata, spec = value["metadata"], value["spec"]
    conditions = {each["type"]: each for each in value.get("status", {}).get("conditions", [])}
    labels = metadata.get("labels", {})
    is_over = value.get("status", {}).get("phase") in ENDED
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        app="" if HOSTILE in labels or is_over else labels.get("app", ""),
        node=spec.get("nodeName", ""),
        ours=spec.get("schedulerName") == OURS,
        ends="deletionTimestamp" in metadata,
        gated=bool(spec.get("schedulingGates")),
        oversized="oversized" in labels,
        woken=conditions.get(EVALUATE, {}).get("reason", ""),
        refusal=conditions.get("PodScheduled", {}).get("message", ""),
        cards=_cards(metadata.get("annotations", {}).get(TAKEN, "{}")),
        evicted=conditions.get("DisruptionTarget", {}).get("reason") == EVICTED,
    )


def _cards(text: str) -> Mapping[int, int]:
    """What a pod has of each card of the policy."""
    takes = json.loads(text).values()
    return {card: each["take"]["milli"] for each in takes for card in each["cards"]}


def _values_since(values: list[tuple[float, str]], since: float) -> set[str]:
    """The values since a time, with the one that held then."""
    before = [value for at, value in values if at < since]
    return {*before[-1:], *(value for at, value in values if at >= since)}


# ---- the bounds of a group of an app, as large as they were in any of some states

# The apps with so many pods on a node at most, and those whose counts have no pods that end.
_A_NODE, _WITHOUT_ENDING = ("limited", "summed"), ("shared", "even", "repaired")


def _share(group: str, states: list[_State]) -> int:
    wanted = [(state.total * SHARE_PERCENT // 100, state.total) for state in states]
    return max(most if group == SPOT else total - most for most, total in wanted)


def _most_share(group: str, states: list[_State]) -> int:
    return _share(group, states) if group == SPOT else max(state.total for state in states)


def _spread(_group: str, states: list[_State]) -> int:
    # A zone that was closed for a while did not hold up the others.
    zones = set.intersection(*(set(state.groups) for state in states))
    if not zones:
        return max(state.total for state in states)
    return min(max(state.groups.get(zone, 0) for state in states) for zone in zones) + MOST_SKEW


def _limit(_group: str, _states: list[_State]) -> int:
    return MOST_A_NODE


def _budget(_group: str, states: list[_State]) -> int:
    return max(state.total for state in states)


BOUNDED: Mapping[str, Callable[[str, list[_State]], int]] = {
    "shared": _share,
    "repaired": _most_share,
    "even": _spread,
    "limited": _limit,
    "summed": _limit,
    "budget": _budget,
}
