"""A small cluster that repairs itself: controllers, a scheduler, and budgets, on a fake clock."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.cache.cache import Cache
from engine.cluster.events import Events
from engine.drift.drift_document import PolicyRepair, RepairMode
from engine.drift.repairs import Repairs
from engine.drift.survey import Survey
from engine.enforced import EnforcedPolicies, enforced
from engine.engine import Engine
from engine.errors import ApiError, EngineError
from engine.objects.eligibility import unfit
from engine.objects.peer import decode_controller, key_of
from engine.objects.request_pod import Exemptions
from engine.program.policy_time import DecisionTime
from grammar.tree.source import Source
from policies.validation import Validator
from server.capabilities.capability import LedCluster
from server.capabilities.drift import DriftWatch
from server.capabilities.repair import Repairer
from tests.support.builders import Object, controller, pod, raw
from tests.support.engines import CODEC, SCHEMA, Known, Silent, cache_of, node_of, peer_of

_READY = [{"type": "Ready", "status": "True"}]


@dataclass(frozen=True)
class Workload:
    """A ReplicaSet: so many pods with these labels, each of which wants some CPU."""

    name: str
    replicas: int
    cpu: str = "1"
    # So many must be ready, or nothing is evicted.
    available: int = 0
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def object(self) -> Object:
        return controller("ReplicaSet", self.name, replicas=self.replicas)


def policies_of(text: str) -> EnforcedPolicies:
    """The policies of a text, in force."""
    found = enforced(Validator(SCHEMA).validate([Source("p.policy", text)], []), {})
    assert not found.broken, found.broken
    return found


class Replica:
    """The part of a replica that looks and repairs, over the cluster of others."""

    def __init__(self, cluster: RepairedCluster, name: str, mode: RepairMode) -> None:
        clock = asyncio.get_running_loop().time
        self.leads = False
        self.repairs = Repairs(cluster.cache, mode, clock)
        cluster.cache.add_event_handler(self.repairs.pod_changed)
        survey = Survey(name, cluster.engine, Known(cluster.cache), clock)
        led = LedCluster(
            cluster,
            cluster.cache,
            cluster.cache.snapshot,
            lambda: cluster.objects,
            lambda: self.leads,
            Events(cluster, name),
            cluster.report,
        )
        self.watch = DriftWatch(survey, led, self.repairs)
        enforced = lambda: cluster.policies  # noqa: E731
        self.repairer = Repairer(
            led, cluster.engine, self.repairs, lambda: self.watch.document, enforced
        )

    def state(self, policy: str = "web") -> PolicyRepair:
        return next(each for each in self.repairs.states() if each.policy == policy)


class RepairedCluster:
    """The cluster. `evictions` are those that were made, with the time."""

    def __init__(
        self,
        policies: str,
        nodes: Iterable[Object],
        workloads: Iterable[Workload],
        mode: RepairMode = "on",
    ) -> None:
        self.policies = policies_of(policies)
        self.objects: dict[str, bytes] = {}
        self.cache: Cache = cache_of(nodes)
        self.workloads = {each.name: each for each in workloads}
        clock = asyncio.get_running_loop().time
        self.engine = Engine(
            self.policies.registry,
            Known(self.cache),
            CODEC,
            Silent(),
            exemptions=Exemptions(frozenset({"kube-system"})),
            time=DecisionTime(clock),
        )
        self.cache.add_event_handler(self.engine.in_flight.pod_changed)
        self.evictions: list[tuple[float, str]] = []
        # By the name of a workload: what the API server says to evictions of its pods.
        self.refusals: dict[str, ApiError] = {}
        self.told: list[str] = []
        self.fewest: Counter[str] = Counter()
        self.most_on_way = 0
        self.pause_control = self.pause_schedule = False
        self._bodies: dict[str, Object] = {}
        self._number = 0
        self._began = clock()
        self._tasks: list[asyncio.Task[None]] = []
        for each in self.workloads.values():
            self.cache.put_controller(decode_controller("ReplicaSet", raw(each.object)))
        self.replicas = [Replica(self, name, mode) for name in ("a", "b")]
        self.replicas[0].leads = True

    # ---- what the test does

    def place(self, workload: str, node: str, times: int = 1) -> None:
        """Binds pods of a workload to a node, whatever policies say."""
        for _ in range(times):
            made = self._made(self.workloads[workload])
            made["spec"]["nodeName"] = node
            made["status"] |= {"phase": "Running", "conditions": _READY}
            self._put(made)

    def put_node(self, made: Object) -> None:
        self.cache.put_node(node_of(made))

    def delete(self, key: str) -> None:
        """Deletes a pod at once, as somebody else would."""
        self._bodies.pop(key, None)
        self.cache.remove_pod(key)

    def scale(self, workload: str, replicas: int) -> None:
        old = self.workloads[workload]
        self.workloads[workload] = new = Workload(
            old.name, replicas, old.cpu, old.available, old.more
        )
        self.cache.put_controller(decode_controller("ReplicaSet", raw(new.object)))

    def relabel(self, key: str, labels: Mapping[str, str]) -> None:
        self._bodies[key]["metadata"]["labels"] = dict(labels)
        self._put(self._bodies[key])

    async def run(self, seconds: float) -> None:
        """Lets the cluster live for so long."""
        if not self._tasks:
            loops = [self._control, self._schedule]
            for each in self.replicas:
                loops += [each.watch.follow, each.repairer.follow]
            self._tasks = [asyncio.create_task(loop()) for loop in loops]
        await asyncio.sleep(seconds)
        for task in self._tasks:
            if task.done():
                task.result()

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def on(self, workload: str) -> Counter[str]:
        """The pods of a workload on each node."""
        return Counter(
            p.nodeName
            for p in self.cache.every()
            if p.workload is not None and p.workload.name == workload and p.nodeName
        )

    def most_in(self, seconds: float) -> int:
        """The most evictions in so many seconds."""
        times = [at for at, _ in self.evictions]
        return max((sum(0 <= t - at < seconds for t in times) for at in times), default=0)

    # ---- the API server

    def report(self, _work: str, text: str) -> None:
        self.told.append(text)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        content_type: str = "",  # noqa: ARG002 - of the protocol
        timeout_seconds: float = 0.0,  # noqa: ARG002
    ) -> bytes:
        """A pod, or an eviction. Raises ApiError, also where a budget forbids it."""
        if method == "GET":
            *_, namespace, _, name = path.split("/")
            if (found := self._bodies.get(f"{namespace}/{name}")) is None:
                raise ApiError(404, "NotFound", "no such pod")
            return raw(found)
        assert path.endswith("/eviction"), path
        asked = json.loads(body or b"{}")
        key = f"{asked['metadata']['namespace']}/{asked['metadata']['name']}"
        pod = self.cache.pod(key)
        if pod is None or pod.uid != asked["deleteOptions"]["preconditions"]["uid"]:
            raise ApiError(404, "NotFound", "no such pod")
        assert pod.workload is not None
        workload = self.workloads[pod.workload.name]
        if workload.name in self.refusals:
            raise self.refusals[workload.name]
        if self._ready(workload.name) <= workload.available:
            text = "Cannot evict pod as it would violate the pod's disruption budget."
            raise ApiError(429, "TooManyRequests", text)
        self.evictions.append((asyncio.get_running_loop().time() - self._began, key))
        made = self._bodies[key]
        made["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
        made["status"]["conditions"] = []
        self._put(made)
        self._note()
        asyncio.get_running_loop().call_later(2.0, self.delete, key)
        return b"{}"

    # ---- controllers and the scheduler

    async def _control(self) -> None:
        """Creates missing pods, and ends those that are too many."""
        while True:
            for each in () if self.pause_control else self.workloads.values():
                found = [p for p in self._of(each.name) if p.deletionTimestamp is None]
                for _ in range(each.replicas - len(found)):
                    self._put(self._made(each))
                for extra in found[each.replicas :]:
                    self.delete(key_of(extra))
            self._note()
            await asyncio.sleep(0.5)

    async def _schedule(self) -> None:
        """Binds pods that wait, to the first node that fits."""
        while True:
            pending = {} if self.pause_schedule else self.cache.snapshot().pending
            for key, waiting in list(pending.items()):
                made = self._bodies[key]
                asked, table = CODEC.pod(raw(made)), self.cache.snapshot().table
                views = [view for view in table.nodes if view is not None]
                names = sorted(view.name for view in views if not unfit(asked, view))
                if not names:
                    continue
                try:
                    decided = self.engine.filter(raw(made), names, None, 1e9)
                except EngineError:
                    continue
                good = [n for n, c in zip(names, decided.codes, strict=True) if not c]
                if good:
                    made["spec"]["nodeName"] = good[0]
                    made["status"] |= {"phase": "Running", "conditions": []}
                    self._put(made)
                    asyncio.get_running_loop().call_later(
                        1.0, self._becomes_ready, key, waiting.uid
                    )
            await asyncio.sleep(0.5)

    def _becomes_ready(self, key: str, uid: str) -> None:
        made = self._bodies.get(key)
        if made is not None and made["metadata"]["uid"] == uid:
            made["status"]["conditions"] = _READY
            self._put(made)

    def _made(self, workload: Workload) -> Object:
        self._number += 1
        name, labels = f"{workload.name}-{self._number}", {"app": workload.name}
        created = f"2026-11-21T10:{self._number // 60 % 60:02}:{self._number % 60:02}Z"
        return pod(
            name,
            cpu=workload.cpu,
            labels=labels,
            owner=workload.object,
            created=created,
            **workload.more,
        )

    def _put(self, made: Object) -> None:
        meta = made["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        self._bodies[key] = made
        self.cache.put_pod(peer_of(made), body=raw(made))

    def _of(self, workload: str) -> list[Any]:
        return [
            p for p in self.cache.every() if p.workload is not None and p.workload.name == workload
        ]

    def _ready(self, workload: str) -> int:
        found = self._of(workload)
        return sum(p.ready and p.deletionTimestamp is None for p in found)

    def _note(self) -> None:
        """Notes how few pods are ready, and how many are on their way."""
        for name in self.workloads:
            ready = self._ready(name)
            self.fewest[name] = min(self.fewest.get(name, ready), ready)
        on_way = sum(
            each.replicas
            - sum(bool(p.nodeName) and p.deletionTimestamp is None for p in self._of(n))
            for n, each in self.workloads.items()
        )
        self.most_on_way = max(self.most_on_way, on_way)
