"""Nemesis: plays a schedule against a real control plane, and says what it found.

Each phase of the schedule ends in a quiet time. All faults are over then: every pod that fits must
get its node, nobody asks without a cause, and every Placet knows what the cluster has and has kept
nothing else. What must never be, such as a count above its bound, the observer looks for all along.
"""

from __future__ import annotations

import http.client
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from engine.cluster.connection_configuration import own_namespace
from tests.chaos import workload
from tests.chaos.actor import DEPLOY_SECONDS, Actor
from tests.chaos.measuring import Memory, lost, waited
from tests.chaos.observer import MINUTE, NODES, PODS, POLICY_OBJECTS, Observer, Report
from tests.chaos.repair_observer import RepairObserver
from tests.chaos.rig import Replica, Rig, failed, rig
from tests.chaos.schedule import CARDS, POLICIES, REPAIRED, Action, Schedule, length
from tests.chaos.schedule import NODES as NODE_NAMES
from tests.e2e.api import Api, ApiError
from tests.e2e.cluster import AT_ONCE, Cluster
from tests.e2e.control_plane import ControlPlane, controller_manager
from tests.e2e.policies import define, wait_ready
from tests.e2e.process import until

_LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{own_namespace()}/leases"
_OWN_LEASE = f"{_LEASES}/placet"
_GROUP = "/apis/placement-policy.scheduling.x-k8s.io/v1"
_READY_SECONDS, _API_SECONDS = 90.0, 60.0
# What a quiet time may take: another kube-scheduler leads (8 s) and asks its Placet, the Lease of a
# killed leader ends (15 s and a turn), the window after a takeover ends (there is none with
# a bindVerb), and what fits is placed.
_LEASE_SECONDS, _WINDOW_SECONDS, _PLACED_SECONDS = 25.0, 30.0, 15.0
_STILL_SECONDS = 8.0
# The longest pause of kube-scheduler before it asks again after an event, and what is on its way.
_BACKOFF_SECONDS = 12.0
_PROBE_SECONDS, _MOST_LIVE_SECONDS = 0.25, 1.0
# A deletion that nobody ends, where there is no kubelet.
_LATER = {"gracePeriodSeconds": 600}
_MEBIBYTE = 1 << 20
_MORE_MEMORY, _MORE_OPEN, _MORE_TASKS = 64 * _MEBIBYTE, 12, 8


class Nemesis(Actor[Replica]):
    """Plays phases on a rig, in one thread but for restarts of the API server and for probes."""

    def __init__(
        self,
        plane: ControlPlane,
        cluster: Cluster,
        running: Rig,
        observer: Observer,
        *,
        binds: bool,
    ) -> None:
        super().__init__(running.replicas, cluster.namespace, time.monotonic, binds=binds)
        self._plane = plane
        self._cluster = cluster
        self._api = Api(plane)
        self._rig = running
        running.lapses = self.lapses
        self._observer = observer
        self.repairs = RepairObserver(time.monotonic, lambda: self.troubled)
        self._aside = ThreadPoolExecutor(1)
        self._api_restart: Future[None] | None = None
        # The Lease of Placet as it was when the phase began, if there was one.
        self._backup: dict[str, Any] | None = None
        # The namespaces of each burst.
        self._bursts: dict[str, list[str]] = {}
        # What each Placet had open, since its process has been at rest for the first time.
        self._opened: dict[str, tuple[int, int, int, int]] = {}

    # ---- a run

    def play(self, schedule: Schedule) -> Report:
        """Play all phases, or those up to the first finding."""
        self._start()
        with self._probed():
            for phase in schedule:
                self.report.phases += 1
                self._act(phase)
                self._rest()
                if self.report.findings or self._observer.findings or self.repairs.findings:
                    break
        report = self.report
        report.findings[:0] = [*self._observer.findings, *self.repairs.findings]
        report.evictions = self.repairs.evictions
        report.exceptions = self._observer.exceptions
        report.bindings = self._observer.bindings
        report.calls = len(self._rig.calls("filter"))
        return report

    def _start(self) -> None:
        for name in NODE_NAMES:
            self._create_node(name)
        for replica in self.replicas.values():
            replica.start()
        for name in workload.policies(binds=self._binds):
            self._cluster.apply(workload.policy(name, self._namespace))
        self._wait_ready()
        for name in POLICIES:
            wait_ready(self._cluster, name, "True", _READY_SECONDS)
        for scheduler in self._rig.schedulers.values():
            scheduler.start()
        for scheduler in self._rig.schedulers.values():
            assert scheduler.started is not None
            scheduler.started.wait_ready()

    def _act(self, phase: Sequence[Action]) -> None:
        self._back_up()
        self._begin(phase)
        ends = time.monotonic() + length(phase)
        while (now := time.monotonic()) < ends:
            self._tend()
            self.repairs.look()
            time.sleep(min(0.5, max(0.0, self._next_due(ends) - now)))
            self._run_due()
        # The rest ends faults.
        self._run_due(math.inf)

    def _tend(self) -> None:
        """Start what has ended by itself, as a kubelet does."""
        for scheduler in self._rig.schedulers.values():
            if scheduler.has_ended:
                self.report.schedulers_ended += 1
                scheduler.end()
                self._later(1.0, scheduler.start)
        for name, replica in self.replicas.items():
            if replica.has_ended and not replica.ends and replica.process is not None:
                status, tail = replica.process.child.returncode, replica.process.tail()
                self._find("ended", f"Placet {name} ended with {status}; {tail}")
                replica.end()
                self._later(1.0, replica.start)

    # ---- means

    def _create_pods(self, pods: Iterable[dict[str, Any]]) -> None:
        self._send_all(self._path(), pods)

    def _delete_pods(self, names: Iterable[str]) -> None:
        for name in names:
            self._send("DELETE", self._path(name), AT_ONCE)

    def _end_pods(self, names: Iterable[str]) -> None:
        for name in names:
            self._send("DELETE", self._path(name), _LATER)

    def _relabel_pods(self, names: Iterable[str], app: str) -> None:
        for name in names:
            self._send("PATCH", self._path(name), {"metadata": {"labels": {"app": app}}})

    def _open_pods(self, names: Iterable[str]) -> None:
        for name in names:
            self._send("PATCH", self._path(name), {"spec": {"schedulingGates": []}})

    def _deploy(self) -> None:
        """A real controller acts on what comes here."""
        namespaced = f"namespaces/{self._namespace}"
        policy = workload.policy(REPAIRED, self._namespace)
        self._send("POST", f"{_GROUP}/{namespaced}/placementpolicies", policy)
        # Pods that come before a policy is in force may be anywhere.
        for each in workload.replica_sets(self._namespace):
            path = f"/apis/apps/v1/{namespaced}/replicasets"
            self._later(DEPLOY_SECONDS, partial(self._send, "POST", path, each))

    def _wording(self) -> str:
        return f", edit {self._edits}"

    def _put_rules(self, policy: str, rules: str) -> None:
        if policy == CARDS:
            path = f"{_GROUP}/clusterplacementpolicies/{policy}"
        else:
            path = f"{_GROUP}/namespaces/{self._namespace}/placementpolicies/{policy}"
        self._send("PATCH", path, {"spec": {"rules": rules}})

    def _trouble_lease(self, how: str) -> None:
        if how == "edited":
            self._send("PATCH", _OWN_LEASE, {"spec": {"holderIdentity": "somebody"}})
            return
        self._send("DELETE", _OWN_LEASE)
        if how == "restored" and self._backup is not None:
            self._send("POST", _LEASES, self._backup)

    def _back_up(self) -> None:
        """Keep the content of the Lease."""
        self._backup = None
        with suppress(ApiError, OSError, http.client.HTTPException):
            self._backup = self._api.request("GET", _OWN_LEASE)
            del self._backup["metadata"]["resourceVersion"]

    def _stop_api(self, down: float) -> None:
        if self._api_restart is None or self._api_restart.done():
            self._end_api_restart()
            self._api_restart = self._aside.submit(self._restart_api_server, down)

    def _route(self, scheduler: str, among: Sequence[Replica], seed: int) -> Callable[[], None]:
        return self._rig.schedulers[scheduler].ask(among, seed)

    def _kill_scheduler(self, name: str) -> None:
        self._rig.schedulers[name].kill()

    def _start_scheduler(self, name: str) -> None:
        self._rig.schedulers[name].start()

    def _freeze_scheduler(self, name: str) -> Callable[[], None]:
        self._rig.schedulers[name].freeze()
        return self._rig.schedulers[name].thaw

    def _restart_scheduler(self, name: str) -> None:
        # `_tend` starts it again.
        self._rig.schedulers[name].terminate()

    def _restart(self, replica: Replica, off: float) -> None:
        old = replica.process
        replica.terminate()

        def start() -> None:
            if replica.process is old:
                replica.end()
                replica.start(off)

        self._later(1.0, start)

    def _restart_api_server(self, down: float) -> None:
        self._plane.api_server.kill()
        time.sleep(down)
        self._plane.api_server.start()

    def _end_api_restart(self) -> None:
        if self._api_restart is not None:
            self._api_restart.result(_READY_SECONDS)
            self._api_restart = None

    def _trouble_bindings(self, replica: Replica, action: Action) -> Callable[[], None]:
        fault, seed = action.values["fault"], int(action.values["seed"])
        if fault != "delayed":
            return replica.trouble_bindings(fault, seed, action.seconds("share"))
        asking = [each for each in self._rig.schedulers.values() if each.asks(replica)]
        mends = [each.delay_bindings(seed) for each in asking]

        def mend() -> None:
            for each in mends:
                each()

        return mend

    def _create_node(self, name: str) -> None:
        self._send("POST", "/api/v1/nodes", workload.node_named(name))

    def _patch_node(self, name: str, patch: dict[str, Any]) -> None:
        self._send("PATCH", f"/api/v1/nodes/{name}", patch)

    def _set_state(self, name: str, state: str) -> None:
        self._patch_node(name, workload.state_of_node(state))

    def _label_node(self, name: str, label: str, value: str) -> None:
        self._patch_node(name, {"metadata": {"labels": {label: value}}})

    def _create_namespaces(self, name: str, count: int) -> None:
        for each in workload.namespaces(name, count):
            self._send("POST", "/api/v1/namespaces", {"metadata": {"name": each}})
            self._send_all(f"/api/v1/namespaces/{each}/pods", workload.pods_of_namespace(each))
            self._bursts[name] = [*self._bursts.get(name, ()), each]

    def _delete_namespaces(self, name: str) -> None:
        """Remove them with their pods, as a control plane does; nobody else finalizes them here."""
        for each in self._bursts.pop(name, ()):
            path = f"/api/v1/namespaces/{each}"
            self._send("DELETE", path)
            self._send("DELETE", f"{path}/pods", AT_ONCE)
            final = {"metadata": {"name": each}, "spec": {"finalizers": []}}
            self._send("PUT", f"{path}/finalize", final)

    def _delete_node(self, name: str) -> None:
        self._send("DELETE", f"/api/v1/nodes/{name}", AT_ONCE)
        for each in self._observer.pods():
            if each.node == name:
                self._delete_pods([each.name])

    def _path(self, name: str = "") -> str:
        """The path of a pod, or of all."""
        pods = f"/api/v1/namespaces/{self._namespace}/pods"
        return f"{pods}/{name}" if name else pods

    def _send_all(self, path: str, objects: Iterable[dict[str, Any]]) -> None:
        pending = list(objects)
        try:
            self._api.create(path, pending)
        except (ApiError, OSError, http.client.HTTPException):
            for each in pending:
                self._send("POST", path, each)

    def _send(self, method: str, path: str, body: dict[str, Any] | None = None) -> None:
        """Ask until there is an answer; that the object is there, or not, is one."""
        ends = time.monotonic() + _API_SECONDS
        while True:
            try:
                self._api.request(method, path, body)
            except ApiError as error:
                if any(f": {status} " in str(error) for status in (404, 409, 422)):
                    return
                if time.monotonic() > ends:
                    raise
            except (OSError, http.client.HTTPException):
                if time.monotonic() > ends:
                    raise
            else:
                return
            time.sleep(0.2)

    # ---- quiet

    def _rest(self) -> None:
        """Nothing happens any more but what kube-scheduler and Placet do."""
        self._end_api_restart()
        for name in workload.policies(binds=self._binds):
            self._edit(name, "edited")
        for name in NODE_NAMES:
            self._create_node(name)
            whole = {"metadata": {"labels": workload.node_named(name)["metadata"]["labels"]}}
            self._patch_node(name, workload.state_of_node("free") | whole)
        for name in list(self._bursts):
            self._delete_namespaces(name)
        for program in self._rig.programs():
            program.thaw()
        self._tend()
        self._run_due(math.inf)
        self._wait_ready()
        began = since = time.monotonic()
        most = _LEASE_SECONDS + _PLACED_SECONDS + (0.0 if self._binds else _WINDOW_SECONDS)
        while (left := self._observer.unplaced()) and time.monotonic() < min(
            since + most, began + 3 * most
        ):
            ended = self.report.schedulers_ended
            self._act(())
            if self.report.schedulers_ended > ended:
                # The other one takes over: that is a fault, after which quiet begins again.
                since = time.monotonic()
        self.report.placed.append(time.monotonic() - began)
        woken = self._observer.wake_ups(time.monotonic() - MINUTE)
        for each in left:
            text = f"{each.name} of {each.app} after {most:g} s: {each.refusal}"
            self._find("stuck", f"{text}; woken {woken[each.name]} times in a minute")
        if not left:
            self._watch_still()
        self._check_replicas()

    def _wait_ready(self) -> None:
        for name, replica in self.replicas.items():
            server = replica.server
            assert server is not None
            assert replica.process is not None, name
            try:
                until(server.is_ready, _READY_SECONDS, replica.process.tail)
            except AssertionError as error:
                self._find("not ready", f"Placet {name}: {error}")

    def _watch_still(self) -> None:
        """Pods that wait are asked about for a cause only: a wake-up, or an error before.

        The last binding is an event, after which kube-scheduler asks again about all of them.
        """
        time.sleep(_BACKOFF_SECONDS)
        began = time.monotonic()
        bindings = self._observer.bindings
        before = Counter(call.pod for _, call in self._rig.calls("filter"))
        time.sleep(_STILL_SECONDS)
        if self._observer.bindings != bindings:
            return
        calls = [call for _, call in self._rig.calls("filter")]
        errors = Counter(c.pod for c in calls if failed(c) and c.at > began - _PLACED_SECONDS)
        woken = self._observer.wake_ups(began - 1.0)
        for name, asked in (Counter(call.pod for call in calls) - before).items():
            # One call may have been on its way.
            if asked > woken[name] + errors[name] + 1:
                self._find(
                    "asked in vain",
                    f"{name}: {asked} calls in {_STILL_SECONDS:g} s, woken {woken[name]} times,"
                    f" {errors[name]} errors",
                )

    def _check_replicas(self) -> None:
        for name, replica in self.replicas.items():
            server, process = replica.server, replica.process
            if server is None or process is None:
                continue
            found = server.compare()
            if different := found["differences"]:
                text = f"Placet {name}: {len(different)}: {different[:5]}; {server.resources()}"
                self._find("cache differs", text)
            memory = Memory(process.child.pid)
            memory.look()
            now = (process.child.pid, memory.now, server.descriptors(), server.cache()["tasks"])
            before = self._opened.get(name)
            if before is None or before[0] != now[0]:
                self._opened[name] = now
                continue
            limits = (0, _MORE_MEMORY, _MORE_OPEN, _MORE_TASKS)
            if any(new > old + most for new, old, most in zip(now, before, limits, strict=True)):
                self._find(
                    "leak", f"Placet {name}: memory, files and tasks {before[1:]}, {now[1:]}"
                )

    # ---- probes

    @contextmanager
    def _probed(self) -> Iterator[None]:
        """Ask every Placet whether it lives, while the block runs."""
        over = threading.Event()
        threads = [
            threading.Thread(target=self._probe, args=[name, replica, over], daemon=True)
            for name, replica in self.replicas.items()
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join(_API_SECONDS)
            self._aside.shutdown()

    def _probe(self, name: str, replica: Replica, over: threading.Event) -> None:
        answered = -1
        slept = time.monotonic()
        while not over.wait(_PROBE_SECONDS):
            began, changes, server = time.monotonic(), replica.changes, replica.server
            late = began - slept - _PROBE_SECONDS
            if server is not None and not replica.frozen:
                tasks = [f"{server.process.child.pid}", "thread-self"]
                without = sum(map(waited, tasks)) + lost()
                said = _live(server.port)
                lives = said == "200"
                seconds = time.monotonic() - began - (sum(map(waited, tasks)) + lost() - without)
                # What we do to it, and what a busy machine does to us, says nothing of it.
                excused = replica.ends or not replica.is_as(changes)
                if lives and not excused:
                    answered = changes
                if answered == changes and not excused and late < _PROBE_SECONDS:
                    self.report.live.append(seconds)
                    if seconds > _MOST_LIVE_SECONDS or not lives:
                        text = f"Placet {name}: {said} after {seconds:.1f} s, at {time.ctime()}"
                        self._find("not live", text)
            slept = time.monotonic()


def _live(port: int) -> str:
    """The status of `/livez`, or the reason why there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30.0)
    with closing(connection):
        try:
            connection.request("GET", "/livez")
            return str(connection.getresponse().status)
        except (OSError, http.client.HTTPException) as error:
            return repr(error)


def play(
    plane: ControlPlane, cluster: Cluster, folder: Path, schedule: Schedule, *, binds: bool
) -> Report:
    """Play a schedule on programs of its own; the cluster is empty before and after."""
    define(cluster)
    try:
        with rig(plane, folder, binds=binds) as running:
            observer = Observer(running, time.monotonic, binds=binds)
            with ExitStack() as watches:
                for prefix in (
                    NODES,
                    *(f"{each}{cluster.namespace}/" for each in (PODS, POLICY_OBJECTS)),
                ):
                    watches.enter_context(plane.etcd.watched(prefix, observer.change))
                nemesis = Nemesis(plane, cluster, running, observer, binds=binds)
                if any(each.kind == "deploy" for phase in schedule for each in phase):
                    controllers = ("replicaset-controller",)
                    watches.enter_context(controller_manager(plane, folder, controllers))
                    for prefix in (NODES, f"{PODS}{cluster.namespace}/"):
                        watches.enter_context(plane.etcd.watched(prefix, nemesis.repairs.change))
                return nemesis.play(schedule)
    finally:
        cluster.kubectl("delete", "placementpolicies", "--all", f"-n={cluster.namespace}")
        cluster.kubectl("delete", "clusterplacementpolicies", "--all")
        cluster.clear()
