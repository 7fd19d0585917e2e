"""Play: a schedule of a nemesis against a simulated cluster, and what it found there.

It does what `tests/chaos/nemesis.py` does to a real control plane, and looks for the same. Nothing
outside of the process matters, so that a minute takes seconds, and a seed shows the same each time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from tests.chaos import workload
from tests.chaos.actor import DEPLOY_SECONDS, Actor, unanswered
from tests.chaos.observer import BOUNDED, POLICY_OBJECTS, Observer, Offer, Report
from tests.chaos.observer import NODES as NODE_PREFIX
from tests.chaos.observer import PODS as POD_PREFIX
from tests.chaos.repair_observer import RepairObserver
from tests.chaos.rig import failed
from tests.chaos.schedule import (
    CARDS,
    NODES,
    REPAIRED,
    REPLICAS,
    SCHEDULERS,
    Action,
    Schedule,
    length,
)
from tests.chaos.simulated.api import (
    CLUSTER_POLICIES,
    NODES_PATH,
    PODS_PATH,
    POLICIES,
    REPLICA_SETS,
    ClusterApi,
)
from tests.chaos.simulated.kube_scheduler import LEASE, KubeScheduler
from tests.chaos.simulated.replica import LEASE as OWN_LEASE
from tests.chaos.simulated.replica import Replica
from tests.e2e.control_plane import Change
from tests.support.fake_api_server import Request

NAMESPACE = "chaos"
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/{}/leases/{}".format(*OWN_LEASE)
_READY_SECONDS, _QUIET_SECONDS, _STILL_SECONDS = 90.0, 120.0, 20.0
_ELECTION_SECONDS = 8.0


class _Calls:
    """What the observer asks about calls."""

    def __init__(self) -> None:
        self.schedulers: list[KubeScheduler] = []
        self.replicas: list[Replica] = []
        self.lapses: list[float] = []
        self.frozen_since: dict[str, list[tuple[float, float]]] = {}

    def offer(self, pod: str) -> Offer | None:
        found = [Offer(s.offers[pod], s.name) for s in self.schedulers if pod in s.offers]
        return max(found, key=lambda offer: offer.at, default=None)

    def refused(self, pod: str) -> bool:
        return any(pod in each.refused for each in self.schedulers)

    def starts(self, since: float) -> int:
        times = [*self.lapses, *(at for each in self.replicas for at in each.starts)]
        return sum(at >= since for at in times)

    def frozen(self, scheduler: str, since: float) -> bool:
        return any(ended >= since for _, ended in self.frozen_since.get(scheduler, ()))


class _Faults(logging.Handler):
    """Faults of ours in the log: an error with a traceback."""

    def __init__(self, found: Callable[[str, str], None]) -> None:
        super().__init__()
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR and record.exc_info and record.exc_info[1] is not None:
            self._found("fault", f"{record.getMessage()}: {record.exc_info[1]!r}")


class Play(Actor[Replica]):
    """A run: the cluster with its programs, and the actions of a schedule."""

    def __init__(self, api: ClusterApi, folder: Path, seed: int, *, binds: bool) -> None:
        self._loop = asyncio.get_running_loop()
        replicas = {
            name: Replica(
                name, api, folder, partial(self._find, "ended"), self._offers, binds=binds
            )
            for name in REPLICAS
        }
        super().__init__(replicas, NAMESPACE, self._loop.time, binds=binds)
        self._calls = _Calls()
        # All clocks of the process are one.
        self.observer = Observer(self._calls, self._loop.time, time.time, binds=binds, skew=1.0)
        self.repairs = RepairObserver(self._loop.time, lambda: self.troubled)
        self._api = api
        self._random = Random(seed)
        self._made = 0
        self._states: dict[str, str] = {}
        # The Lease of Placet as it was when the phase began, if there was one.
        self._backup: dict[str, Any] | None = None
        self._known: dict[str, Any] = {}
        pairs = zip(SCHEDULERS, self.replicas.values(), strict=True)
        self.schedulers = {
            name: KubeScheduler(
                name, api, replica, Random(f"{seed}-{name}"), self._find, binds=binds
            )
            for name, replica in pairs
        }
        self._calls.schedulers = list(self.schedulers.values())
        self._calls.replicas = list(self.replicas.values())
        self._calls.lapses = self.lapses
        # The kube-schedulers that run, and when the leader was last there.
        self._alive = set(SCHEDULERS)
        self._leader = ""
        self._seen_at = 0.0
        self._transitions = 0

    # ---- what the API server tells

    def changed(self, change: Change) -> None:
        if change.key.startswith((NODE_PREFIX, POLICY_OBJECTS, f"{POD_PREFIX}{NAMESPACE}/")):
            self.observer.change(change)
            self.repairs.change(change)
        if change.key.startswith(POD_PREFIX):
            key = change.key.removeprefix(POD_PREFIX)
            old, new = self._known.get(key), json.loads(change.value) if change.value else None
            if new is None:
                self._known.pop(key, None)
            else:
                self._known[key] = new
            for each in self.schedulers.values():
                if each.leads:
                    each.pod_changed(key, old, new)
        elif change.key.startswith(NODE_PREFIX):
            for each in self.schedulers.values():
                each.node_changed()

    def sent(self, client: str, request: Request) -> None:
        """Takes a request as it arrives: whoever does not lead creates no counted Binding."""
        if request.path.endswith(("/binding", "/eviction")):
            *_, namespace, _, name, _ = request.path.split("/")
            pod = self._api.pods().get(f"{namespace}/{name}")
            if pod is not None:
                self._check_lead(client, pod, "binds" if request.path[-1] == "g" else "evicts")

    def _offers(self, client: str, pod: Mapping[str, Any]) -> None:
        """Takes that a Placet has offered nodes to a pod."""
        self._check_lead(client, pod, "offers nodes to")

    def _check_lead(self, client: str, pod: Mapping[str, Any], does: str) -> None:
        """Only who holds the Lease decides by counts.

        After an edit of the Lease nobody is known to hold it, but the last holder may go on.
        """
        leader, metadata = self._api.leader(LEASE_PATH), pod["metadata"]
        app = metadata.get("labels", {}).get("app")
        is_counted = app == CARDS or (app in BOUNDED and metadata["namespace"] == NAMESPACE)
        if is_counted and leader not in ("", client):
            text = f"{client} {does} {metadata['name']} while {leader} holds the Lease"
            self._find("leads without the Lease", text)

    # ---- a run

    async def play(self, schedule: Schedule, is_over: Callable[[], bool]) -> Report:
        """Play all phases, or those up to the first finding; none is begun when it is over."""
        await self._start()
        report = self.report
        for phase in schedule:
            if is_over():
                break
            report.phases += 1
            await self._act(phase)
            if not self.observer.findings:
                await self._rest()
            if report.findings or self.observer.findings or self.repairs.findings:
                break
        report.findings[:0] = [*self.observer.findings, *self.repairs.findings]
        report.evictions = self.repairs.evictions
        report.exceptions = self.observer.exceptions
        report.bindings = self.observer.bindings
        report.calls = sum(
            each.verb == "filter" for s in self.schedulers.values() for each in s.calls
        )
        return report

    async def _start(self) -> None:
        for name in NODES:
            self._create_node(name)
        for name in workload.policies(binds=self._binds):
            self._api.create(_path(name), workload.policy(name, NAMESPACE))
        for replica in self.replicas.values():
            replica.start()
        await self._wait_ready()

    async def _act(self, phase: Sequence[Action]) -> None:
        self._backup = self._api.lease(LEASE_PATH).lease
        self._begin(phase)
        await self._run_until(self._loop.time() + length(phase))
        await self._finish()

    async def _run_until(self, ends: float) -> None:
        while (now := self._loop.time()) < ends and not self.observer.findings:
            self._elect()
            self._control()
            self.repairs.look()
            await asyncio.sleep(max(0.0, self._next_due(min(ends, now + 0.5)) - now))
            self._run_due()

    async def _finish(self) -> None:
        """The rest ends faults."""
        while self._due:
            self._run_due(self._next_due(math.inf))
            await asyncio.sleep(0)

    # ---- the controller of pods

    def _deploy(self) -> None:
        self._api.create(POLICIES, workload.policy(REPAIRED, NAMESPACE))
        # Pods that come before a policy is in force may be anywhere.
        for each in workload.replica_sets(NAMESPACE):
            self._later(DEPLOY_SECONDS, partial(self._api.create, REPLICA_SETS, each))

    def _control(self) -> None:
        """Creates the pods that ReplicaSets lack."""
        if self._api.down:
            return
        for made in self._api.objects(REPLICA_SETS).values():
            meta, spec = made["metadata"], made["spec"]
            owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}
            owner |= {"name": meta["name"], "uid": meta["uid"]}
            there = [p["metadata"] for p in self._api.pods().values()]
            live = [p for p in there if owner in p.get("ownerReferences", ())]
            for _ in range(spec["replicas"] - sum("deletionTimestamp" not in p for p in live)):
                self._made += 1
                metadata = {
                    "name": f"{meta['name']}-{self._made}",
                    "namespace": meta["namespace"],
                    "labels": dict(spec["template"]["metadata"]["labels"]),
                    "ownerReferences": [owner],
                }
                self._create_pod({"metadata": metadata, "spec": dict(spec["template"]["spec"])})

    # ---- the leader among the kube-schedulers

    def _elect(self) -> None:
        """As their Lease does: a leader that is not seen for a while is followed by another one."""
        now, leader = self._loop.time(), self.schedulers.get(self._leader)
        if self._api.down:
            return
        if leader is not None and leader.leads and leader.flow.is_set():
            self._seen_at = now
            return
        if self._leader and now - self._seen_at < _ELECTION_SECONDS:
            return
        ready = [
            name
            for name, each in self.schedulers.items()
            if name in self._alive and each.flow.is_set() and not each.leads
        ]
        if ready:
            self._leader = self._random.choice(ready)
            self._seen_at = now
            self._transitions += 1
            self._api.lease(LEASE).lease = {
                "metadata": {"name": "kube-scheduler", "resourceVersion": "1"},
                "spec": {
                    "holderIdentity": f"{self._leader}-{self._transitions}",
                    "acquireTime": f"{now}",
                    "leaseTransitions": self._transitions,
                },
            }
            self.schedulers[self._leader].lead()

    def _thaw_scheduler(self, name: str, began: float) -> None:
        scheduler = self.schedulers[name]
        if scheduler.flow.is_set():
            return
        scheduler.flow.set()
        self._calls.frozen_since.setdefault(name, []).append((began, self._loop.time()))
        if scheduler.leads and self._leader != name:
            # It has lost its Lease: it ends once it sees that, and another one begins.
            self.report.schedulers_ended += 1
            self._later(0.1, scheduler.end)

    # ---- means

    def _create_pods(self, pods: Iterable[dict[str, Any]]) -> None:
        for pod in pods:
            if not self._api.down and pod["spec"].get("nodeName", NODES[0]) in {
                NODES[0],
                *self._api.nodes(),
            }:
                self._create_pod(pod)

    def _delete_pods(self, names: Iterable[str]) -> None:
        for name in names:
            self._api.remove(PODS_PATH, f"{NAMESPACE}/{name}")

    def _end_pods(self, names: Iterable[str]) -> None:
        for pod in self._pods(names):
            if pod["spec"].get("nodeName"):
                metadata = pod["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}
                self._api.change(PODS_PATH, pod | {"metadata": metadata})
            else:
                self._api.remove(PODS_PATH, f"{NAMESPACE}/{pod['metadata']['name']}")

    def _relabel_pods(self, names: Iterable[str], app: str) -> None:
        for pod in self._pods(names):
            metadata = pod["metadata"]
            merged = metadata | {"labels": metadata.get("labels", {}) | {"app": app}}
            self._api.change(PODS_PATH, pod | {"metadata": merged})

    def _open_pods(self, names: Iterable[str]) -> None:
        for pod in self._pods(names):
            spec = {k: v for k, v in pod["spec"].items() if k != "schedulingGates"}
            self._api.change(PODS_PATH, pod | {"spec": spec})

    def _trouble_lease(self, how: str) -> None:
        lease = self._api.lease(LEASE_PATH)
        if how == "edited":
            lease.edit(holderIdentity="somebody")
            return
        lease.delete()
        if how == "restored" and self._backup is not None:
            lease.restore(self._backup)

    def _stop_api(self, down: float) -> None:
        self._api.stop_running()
        self._later(down, partial(setattr, self._api, "down", False))

    def _route(self, scheduler: str, among: Sequence[Replica], seed: int) -> Callable[[], None]:
        asking, dice = self.schedulers[scheduler], Random(seed)
        asking.route = partial(dice.choice, among)
        return partial(setattr, asking, "route", None)

    def _kill_scheduler(self, name: str) -> None:
        self.schedulers[name].end()
        self.schedulers[name].flow.set()
        self._alive.discard(name)

    def _start_scheduler(self, name: str) -> None:
        self._alive.add(name)

    def _freeze_scheduler(self, name: str) -> Callable[[], None]:
        self.schedulers[name].flow.clear()
        return partial(self._thaw_scheduler, name, self._loop.time())

    def _restart_scheduler(self, name: str) -> None:
        # It releases its Lease.
        if self._leader == name:
            self._leader = ""
        self._kill_scheduler(name)
        self._later(1.0, partial(self._start_scheduler, name))

    def _restart(self, replica: Replica, off: float) -> None:
        # All clocks of the process are one.
        del off

        async def restart() -> None:
            await replica.stop()
            replica.start()

        if replica.runs:
            replica.thaw()
            self._later(0.0, lambda: self._loop.create_task(restart()))

    def _trouble_bindings(self, replica: Replica, action: Action) -> Callable[[], None]:
        fault, share = action.values["fault"], action.seconds("share")
        dice = Random(int(action.values["seed"]))
        if fault == "unanswered":
            return unanswered(replica.door, lambda: dice.random() < share)
        schedulers = [each for each in self.schedulers.values() if each.asks(replica)]

        def hits(verb: str) -> bool:
            return verb == "bind" and dice.random() < share

        for each in schedulers:
            match fault:
                case "lost":
                    each.loses = hits
                case "doubled":
                    each.doubles = hits
                case "delayed":
                    each.delay = lambda: dice.uniform(1.0, 20.0)
                case _:
                    raise ValueError(fault)

        def mend() -> None:
            for each in schedulers:
                each.loses = each.doubles = lambda _: False
                each.delay = lambda: 0.0

        return mend

    # ---- objects

    def _create_pod(self, pod: dict[str, Any]) -> None:
        pod["spec"].setdefault("schedulerName", "default-scheduler")
        pod["status"] = {"phase": "Pending"}
        self._api.create(PODS_PATH, pod)

    def _pods(self, names: Iterable[str]) -> Iterator[dict[str, Any]]:
        for name in names:
            if (found := self._api.pods().get(f"{NAMESPACE}/{name}")) is not None:
                yield found

    def _create_namespaces(self, name: str, count: int) -> None:
        for each in workload.namespaces(name, count):
            for pod in workload.pods_of_namespace(each):
                self._create_pod(pod)

    def _delete_namespaces(self, name: str) -> None:
        for key in [each for each in self._api.pods() if each.startswith(f"{name}-")]:
            self._api.remove(PODS_PATH, key)

    def _put_rules(self, policy: str, rules: str) -> None:
        path, key = _path(policy), policy if policy == CARDS else f"{NAMESPACE}/{policy}"
        known = self._api.objects(path)[key]
        metadata = known["metadata"]
        newer = metadata | {"generation": metadata["generation"] + 1}
        spec = known["spec"] | {"rules": rules}
        self._api.change(path, known | {"metadata": newer, "spec": spec})

    def _create_node(self, name: str) -> None:
        made = workload.node_named(name)
        made["spec"] = {}
        if self._api.create(NODES_PATH, made):
            self._set_state(name, self._states.get(name, "free"))

    def _delete_node(self, name: str) -> None:
        self._api.remove(NODES_PATH, name)
        there = [k for k, p in self._api.pods().items() if p["spec"].get("nodeName") == name]
        for key in there:
            self._api.remove(PODS_PATH, key)

    def _set_state(self, name: str, state: str) -> None:
        self._states[name] = state
        if (known := self._api.nodes().get(name)) is not None:
            patch = workload.state_of_node(state)["spec"]
            spec = {key: value for key, value in patch.items() if value is not None}
            if spec != known["spec"]:
                self._api.change(NODES_PATH, known | {"spec": spec})

    def _label_node(self, name: str, label: str, value: str) -> None:
        if (known := self._api.nodes().get(name)) is not None:
            metadata = known["metadata"]
            if metadata["labels"].get(label) != value:
                changed = metadata | {"labels": metadata["labels"] | {label: value}}
                self._api.change(NODES_PATH, known | {"metadata": changed})

    # ---- quiet

    async def _rest(self) -> None:
        """Nothing happens any more but what kube-scheduler and Placet do."""
        self._api.down = False
        for name in workload.policies(binds=self._binds):
            self._edit(name, "edited")
        for name in NODES:
            self._create_node(name)
            self._set_state(name, "free")
            for label in ("capacity", "pool"):
                self._set_label(name, label, "")
        for replica in self.replicas.values():
            replica.thaw()
            replica.start()
        for name in SCHEDULERS:
            self._thaw_scheduler(name, self._loop.time())
            self._alive.add(name)
        await self._wait_ready()
        began = self._loop.time()
        while (left := self.observer.unplaced()) and self._loop.time() - began < _QUIET_SECONDS:
            await self._run_until(self._loop.time() + 1.0)
            if self.observer.findings:
                return
        self.report.placed.append(self._loop.time() - began)
        for each in left:
            refusal = each.refusal or "nothing is said of it"
            self._find("stuck", f"{each.name} of {each.app} after {_QUIET_SECONDS:g} s: {refusal}")
        if not left:
            await self._watch_still()
        await self._check_replicas()
        trials, self.trials = self.trials, []
        for trial in trials:
            if not (self.report.findings or self.observer.findings):
                await self._try(trial.values["name"], int(trial.values["seed"]))

    @abstractmethod
    async def _try(self, name: str, seed: int) -> None:
        """Try something that is on its own; a finding says so."""

    async def _wait_ready(self) -> None:
        for name, replica in self.replicas.items():
            ends = self._loop.time() + _READY_SECONDS
            while not (replica.runs and await replica.is_ready()):
                if self._loop.time() > ends:
                    self._find("not ready", f"Placet {name}")
                    break
                await self._run_until(self._loop.time() + 0.2)

    async def _watch_still(self) -> None:
        """Pods that wait are asked about for a cause only: a wake-up, or an error before."""
        await self._run_until(self._loop.time() + _STILL_SECONDS)
        began, bindings = self._loop.time(), self.observer.bindings
        before = Counter(call.pod for call in self._filters())
        await self._run_until(began + _STILL_SECONDS)
        if self.observer.bindings != bindings:
            return
        calls = self._filters()
        errors = Counter(c.pod for c in calls if failed(c) and c.at > began - _STILL_SECONDS)
        woken = self.observer.wake_ups(began - 1.0)
        for name, asked in (Counter(call.pod for call in calls) - before).items():
            if asked > woken[name] + errors[name] + 1:
                text = f"{name}: {asked} calls in {_STILL_SECONDS:g} s, woken {woken[name]} times"
                self._find("asked in vain", text)

    def _filters(self) -> list[Any]:
        found = (call for each in self.schedulers.values() for call in each.calls)
        return [call for call in found if call.verb == "filter"]

    async def _check_replicas(self) -> None:
        for name, replica in self.replicas.items():
            found = await replica.get("/cache/compare")
            if different := found.get("differences", found.get("error")):
                self._find("cache differs", f"Placet {name}: {different[:5]}")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Faults in the log are findings while the block runs."""
        handler, log = _Faults(self._find), logging.getLogger("placet")
        log.addHandler(handler)
        try:
            yield
        finally:
            log.removeHandler(handler)


def _path(policy: str) -> str:
    """Where the policies are that are of the kind of this one."""
    return CLUSTER_POLICIES if policy == CARDS else POLICIES
