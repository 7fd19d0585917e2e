"""GangNemesis: disturbs gangs on a real control plane, and says which were bound in part.

Each round creates gangs of random sizes for which there is not enough room, and has faults while
they gather. Then all faults end, and what fits must be bound. A gang may be in part only where the
documentation names it: an API server that failed, or a Placet that ended, while it was released.
"""

from __future__ import annotations

import http.client
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from engine.cluster.connection_configuration import own_namespace
from tests.chaos.gang_observer import (
    ANYWHERE,
    HELD_SECONDS,
    IN_RACK,
    KINDS,
    OF_GROUP,
    GangObserver,
    Member,
)
from tests.chaos.observer import PODS, Finding
from tests.chaos.rig import ELECTION, Program, Replica
from tests.e2e.api import Api, ApiError
from tests.e2e.cluster import AT_ONCE, Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gangs import COSCHEDULING_GROUPS, MEMBERS, NO_CLAIM, RACK, entries, group
from tests.e2e.kube_scheduler import KubeScheduler, started_kube_scheduler
from tests.e2e.manifests import node, pod
from tests.e2e.policies import API_VERSION, define
from tests.e2e.process import until
from tests.support.fake_api_server import Answer, Request
from tests.support.tcp_switch import TcpSwitch, tcp_switch

RACKS, A_RACK, PLACES = 4, 3, 4
NODES = {f"r{r}-{n}": f"r{r}" for r in range(RACKS) for n in range(A_RACK)}
SMALLEST, LARGEST = 2, 9
# How many members there are for each place.
_DEMAND = 1.4
_IN_A_RACK = 0.6
# The part of gangs of which kube-scheduler does not ask about one member, so the others are held.
_HELD = 0.4
# Faults begin in this time of a round, and members are created in it.
_BUSY_SECONDS = 2.5
_READY_SECONDS, _STILL_SECONDS, _PLACED_SECONDS = 90.0, 3.0, 90.0
_LOST = 0.3
# After these a gang may be in part: the documentation says so.
EXCUSES = frozenset({"placet-kill", "placet-cut", "placet-freeze", "api-kill", "bindings-lost"})
# After these nobody lets members go before another Placet leads.
_DISTURBED = EXCUSES | {"placet-restart", "lease"}
PROCESS_FAULTS = (
    "placet-kill",
    "placet-kill",
    "placet-restart",
    "placet-freeze",
    "placet-cut",
    "scheduler-kill",
    "scheduler-kill",
    "scheduler-freeze",
    "api-kill",
    "bindings-lost",
    "lease",
    "none",
    "none",
)
OBJECT_FAULTS = (
    *("delete", "delete", "recreate", "relabel", "gate", "node", "drain", "edit"),
    *("group", "group", "policy"),
)
_GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces"
_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{own_namespace()}/leases/placet"
_GROUP = "/apis/placement-policy.scheduling.x-k8s.io/v1"


class GangScheduler(Program):
    """A kube-scheduler that asks whatever is behind an address, and leads or waits."""

    def __init__(self, plane: ControlPlane, folder: Path, address: str, stack: ExitStack) -> None:
        super().__init__()
        folder.mkdir()
        self._plane, self._folder, self._address = plane, folder, address
        self.started: KubeScheduler | None = None
        stack.callback(self.end)

    def start(self) -> None:
        if self.process is None:
            more = {"leaderElection": ELECTION}
            self.started = self._running.enter_context(
                started_kube_scheduler(self._plane, self._folder, entries(self._address), more)
            )
            self._start(self.started.process)


@dataclass
class GangReport:
    """What a run has found and done."""

    findings: list[Finding] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    released: int = 0
    # Gangs that were bound in part for longer than a moment, by the fault of their round.
    parts: Counter[str] = field(default_factory=Counter)
    # How long the first binding of a gang was before that which made it whole.
    seconds: list[float] = field(default_factory=list)
    quiet: list[float] = field(default_factory=list)
    # How long members were held after what ended their gang.
    held: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        slow = sorted(self.seconds)[-5:]
        done = (
            f"{self.rounds} rounds with {dict(self.faults)}; {self.released} gangs bound whole;"
            f" in part, as documented: {dict(self.parts) or 'none'}; from the first to the last"
            f" binding at most {[round(each, 2) for each in slow]} s; quiet after at most"
            f" {max(self.quiet, default=0.0):.1f} s; {len(self.held)} members held when their gang"
            f" was ended, for at most {max(self.held, default=0.0):.1f} s more"
        )
        return "\n".join([done, *map(str, self.findings)])


class GangNemesis:
    """Plays rounds, in one thread."""

    def __init__(
        self,
        plane: ControlPlane,
        cluster: Cluster,
        folder: Path,
        stack: ExitStack,
        dice: Random,
        faults: Sequence[str],
    ) -> None:
        """`faults` are those of processes to choose from."""
        self._faults = faults
        self._plane, self._cluster, self._dice = plane, cluster, dice
        self._api = Api(plane)
        self._pods = f"/api/v1/namespaces/{cluster.namespace}/pods"
        self._unasked = set[str]()
        self._groups = f"{_GROUPS}/{cluster.namespace}/podgroups"
        self._numbers = itertools.count()
        self.report = GangReport()
        self.observer = GangObserver(NODES, PLACES, time.monotonic)
        self._replicas = [
            # Behind one address, as behind a Service.
            Replica(plane, folder / f"placet-{name}", stack, binds=True, flags=["--standby"])
            for name in "ab"
        ]
        self._switch: TcpSwitch = stack.enter_context(tcp_switch([1]))
        address = f"http://127.0.0.1:{self._switch.port}"
        self._schedulers = [
            GangScheduler(plane, folder / f"scheduler-{n}", address, stack) for n in range(2)
        ]
        self._mends: list[Callable[[], None]] = []

    def start(self) -> None:
        for kind in KINDS:
            self._api.request("POST", f"{_GROUP}/clusterplacementpolicies", _policy(kind, 0))
        self._cluster.create_nodes(_node(name) for name in NODES)
        self._start()
        self._wait_ready()

    def play(self) -> str:
        """Plays a round; returns what it was."""
        report, before = self.report, len(self.report.findings)
        report.rounds += 1
        fault = self._dice.choice(self._faults)
        others = self._dice.sample(OBJECT_FAULTS, self._dice.randint(0, 3))
        self._disturb(fault, others)
        self._rest(fault, others)
        self._clear()
        done = f"round {report.rounds}: {', '.join([fault, *others])}"
        news = "".join(f"\n  {found}" for found in report.findings[before:])
        return f"{done}; quiet after {report.quiet[-1]:.1f} s{news}"

    # ---- faults

    def _disturb(self, fault: str, others: list[str]) -> None:
        dice = self._dice
        due: list[tuple[float, Callable[[], None]]] = [
            (dice.uniform(0, _BUSY_SECONDS), partial(self._create, members))
            for members in self._members()
        ]
        due.append((dice.uniform(0.1, _BUSY_SECONDS + 1), lambda: self._trouble(fault)))
        # After some of the gangs were held for as long as nobody shows it.
        due += [
            (dice.uniform(0.1, _BUSY_SECONDS + 4), partial(self._change, kind)) for kind in others
        ]
        began = time.monotonic()
        for at, act in sorted(due, key=lambda each: each[0]):
            time.sleep(max(0.0, began + at - time.monotonic()))
            act()
        self.report.faults.update([fault, *others])

    def _members(self) -> Iterator[list[dict[str, Any]]]:
        dice, wanted = self._dice, _DEMAND * PLACES * len(NODES)
        while wanted > 0:
            size = dice.randint(SMALLEST, LARGEST)
            kind = IN_RACK if dice.random() < _IN_A_RACK else dice.choice((ANYWHERE, OF_GROUP))
            made = group(self._cluster, f"g{next(self._numbers)}", size, kind)
            if dice.random() < _HELD:
                made[-1]["spec"]["volumes"] = NO_CLAIM
                self._unasked.add(made[-1]["metadata"]["name"])
            yield made
            wanted -= size
        yield [
            pod(f"single-{next(self._numbers)}", self._cluster.namespace, cpu="1") for _ in range(3)
        ]

    def _leader(self) -> Replica:
        for each in self._replicas:
            if each.server is not None and each.server.port == self._switch.current:
                return each
        return self._replicas[0]

    def _trouble(self, fault: str) -> None:
        dice, leader = self._dice, self._leader()
        scheduler = dice.choice(self._schedulers)
        match fault:
            case "placet-kill":
                leader.kill()
            case "placet-restart":
                leader.terminate()
                self._mends.append(leader.end)
            case "placet-freeze":
                leader.freeze()
                self._hold(dice.choice((1.0, 5.0, 20.0)), leader.thaw)
            case "placet-cut":
                leader.proxy.answer = Answer(503, b"cut")
                leader.proxy.cut()

                def mend() -> None:
                    leader.proxy.answer = None

                self._hold(dice.choice((1.0, 5.0, 20.0)), mend)
            case "lease":
                self._send("DELETE", _LEASE, {})
            case "scheduler-kill":
                # Whichever leads.
                self.observer.end(lambda _: True)
                for each in self._schedulers:
                    each.kill()
            case "scheduler-freeze":
                scheduler.freeze()
                self._hold(12.0, scheduler.thaw)
            case "api-kill":
                self._plane.api_server.kill()
                time.sleep(dice.uniform(0, 2))
                self._plane.api_server.start()
            case "bindings-lost":
                losing = Random(dice.random())

                def loses(request: Request) -> bool:
                    return request.path.endswith("/binding") and losing.random() < _LOST

                leader.proxy.loses.append(loses)
                self._mends.append(lambda: leader.proxy.loses.remove(loses))
            case kind:
                assert kind == "none"

    def _hold(self, seconds: float, mend: Callable[[], None]) -> None:
        ends = time.monotonic() + seconds

        def later() -> None:
            time.sleep(max(0.0, ends - time.monotonic()))
            mend()

        self._mends.append(later)

    def _change(self, kind: str) -> None:
        dice = self._dice
        waiting = [each for each in self.observer.pods() if each.gang and not each.node]
        name, end = dice.choice(list(NODES)), self.observer.end
        # Those that are held are the ones of interest.
        waiting = [each for each in waiting if each.shown] or waiting
        if kind in ("delete", "recreate", "relabel", "gate", "group") and not waiting:
            return
        some = dice.sample(waiting, min(len(waiting), 3))
        match kind:
            case "delete":
                for each in some:
                    self._send("DELETE", f"{self._pods}/{each.name}", AT_ONCE)
                end(lambda pod: pod.gang in {each.gang for each in some})
            case "recreate":
                for each in some:
                    self._again(each)
            case "gate":
                self._again(some[0], schedulingGates=[{"name": "chaos.example/gate"}])
            case "relabel":
                each, other = some[0], some[-1]
                body = {"metadata": {"labels": {each.kind: other.gang}}}
                if each.kind == other.kind and each.gang != other.gang:
                    self._send("PATCH", f"{self._pods}/{each.name}", body)
                    end(lambda pod: pod.gang == each.gang)
            case "group":
                gangs = {each.gang for each in waiting if each.kind == OF_GROUP}
                for gang in gangs:
                    self._send("DELETE", f"{self._groups}/{gang}", {})
                end(lambda pod: pod.gang in gangs)
                self._mends += [partial(self._create_group, gang, 1) for gang in gangs]
            case "policy":
                which = dice.choice(KINDS)
                path = f"{_GROUP}/clusterplacementpolicies"
                self._send("DELETE", f"{path}/{_name(which)}", {})
                end(lambda pod: pod.kind == which)
                self._mends.append(lambda: self._send("POST", path, _policy(which, 0)))
            case "node":
                end(lambda pod: pod.shown == name)
                self._send("DELETE", f"/api/v1/nodes/{name}", AT_ONCE)
                self._empty(name)
                self._mends.append(lambda: self._cluster.create_nodes([_node(name)]))
            case "drain":
                self._cordon(name, unschedulable=True)
                end(lambda pod: pod.shown == name)
                self._empty(name)
                self._mends.append(lambda: self._cordon(name, unschedulable=False))
            case "edit":
                which = dice.choice(KINDS)
                body = {"spec": _policy(which, next(self._numbers))["spec"]}
                self._send("PATCH", f"{_GROUP}/clusterplacementpolicies/{_name(which)}", body)
                end(lambda pod: pod.kind == which)
            case _:
                raise ValueError(kind)

    def _again(self, each: Member, name: str = "", **more: Any) -> None:
        """Deletes a member, and creates one of the same name, or of another one."""
        self._send("DELETE", f"{self._pods}/{each.name}", AT_ONCE)
        made = pod(
            name or each.name, self._cluster.namespace, {each.kind: each.gang}, cpu="1", **more
        )
        made["metadata"]["annotations"] = {MEMBERS: str(each.quorum)}
        self._send("POST", self._pods, made)
        self.observer.end(lambda other: other.gang == each.gang)

    def _empty(self, name: str) -> None:
        for each in self.observer.pods():
            if each.node == name:
                self._send("DELETE", f"{self._pods}/{each.name}", AT_ONCE)

    def _cordon(self, name: str, *, unschedulable: bool) -> None:
        self._send("PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": unschedulable}})

    def _create(self, members: list[dict[str, Any]]) -> None:
        labels = members[0]["metadata"].get("labels", {})
        if OF_GROUP in labels:
            self._create_group(labels[OF_GROUP], len(members))
        for each in members:
            self._send("POST", self._pods, each)

    def _create_group(self, name: str, members: int) -> None:
        group = {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": {"minMember": members},
        }
        self._send("POST", self._groups, group)

    def _send(self, method: str, path: str, body: dict[str, Any]) -> None:
        """Asks until there is an answer; that the object is there, or not, is one."""
        ends = time.monotonic() + _READY_SECONDS
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

    def _start(self) -> None:
        for replica in self._replicas:
            if replica.has_ended:
                replica.end()
            replica.start()
        servers = [replica.server for replica in self._replicas]
        self._switch.ports = tuple(each.port for each in servers if each is not None)
        for scheduler in self._schedulers:
            if scheduler.has_ended:
                scheduler.end()
            scheduler.start()

    def _wait_ready(self) -> None:
        def asked_is_ready() -> bool:
            # A kube-scheduler that loses its Lease ends.
            self._start()
            server = self._leader().server
            return (
                server is not None
                and server.port == self._switch.current
                and server.is_ready()
                and all(each.started is not None for each in self._schedulers)
            )

        until(asked_is_ready, _READY_SECONDS, lambda: "a Placet that leads is ready")

    def _is_in_force(self, kind: str) -> bool:
        path = f"{_GROUP}/clusterplacementpolicies/{_name(kind)}"
        conditions = self._api.request("GET", path).get("status", {}).get("conditions", [])
        return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)

    def _rest(self, fault: str, others: list[str]) -> None:
        if fault in _DISTURBED:
            self.observer.pardon()
        else:
            time.sleep(HELD_SECONDS + 0.5)
            self.report.findings += self.observer.held()
            self.report.held += self.observer.held_seconds
        for mend in self._mends:
            mend()
        self._mends.clear()
        for each in self.observer.pods():
            if each.name in self._unasked and not each.node:
                # After a lost watch kube-scheduler takes a pod of the same name for the old one,
                # and tries it again after minutes.
                self._again(each, f"{each.name}-asked")
            if each.gated:
                body = {"spec": {"schedulingGates": None}}
                self._send("PATCH", f"{self._pods}/{each.name}", body)
        self._wait_ready()
        until(lambda: all(map(self._is_in_force, KINDS)), _READY_SECONDS, lambda: "in force")
        began = time.monotonic()
        left: list[str] = []
        while time.monotonic() < began + _PLACED_SECONDS:
            time.sleep(0.3)
            self._start()
            left = self.observer.could_be_bound()
            if not left and time.monotonic() - self.observer.last_binding > _STILL_SECONDS:
                break
        self.report.quiet.append(time.monotonic() - began)
        happened = " and ".join([fault, *others])
        for name in left:
            text = f"{name} after {_PLACED_SECONDS:g} s; {happened}; {self._said_of(name)}"
            self._find("stuck", text)
        shown = [each.name for each in self.observer.pods() if each.shown and not each.node]
        if shown and not left:
            time.sleep(HELD_SECONDS)
            for each in self.observer.pods():
                if each.name in shown and each.shown and not each.node:
                    self._find("shown", f"{each.name} on {each.shown}, and is not held; {happened}")
        # Pods without a policy go to any rack.
        left_out = "racks" if "policy" in others else ""
        self.report.findings += [f for f in self.observer.overruns() if f.kind != left_out]
        parts = self.observer.parts()
        for name in parts:
            excuses = [each for each in (fault, *others) if each in EXCUSES | {"policy", "group"}]
            if excuses:
                self.report.parts[excuses[0]] += 1
            else:
                seen = self.observer.gangs()[name]
                text = f"{name}: {len(seen.bound)} of {seen.quorum}; {happened}"
                self._find("in part", f"{text}; {self._said_of(name)}")
        for name, seen in self.observer.gangs().items():
            if len(seen.bound) >= seen.quorum and name not in parts:
                self.report.released += 1
                self.report.seconds.append(seen.seconds)

    def _said_of(self, name: str) -> str:
        """What kube-scheduler says of a member that waits."""
        for each in self.observer.pods():
            if each.gang == name and not each.node:
                with suppress(ApiError):
                    return f"{each.name}: {self._cluster.scheduled_condition(each.name)}"
        return "nobody waits"

    def _find(self, kind: str, text: str) -> None:
        self.report.findings.append(Finding(kind, f"round {self.report.rounds}: {text}"))

    def _clear(self) -> None:
        self._cluster.delete_pods()
        until(lambda: not self.observer.pods(), 30.0, lambda: "all pods are gone")
        self.observer.forget()


def _node(name: str) -> dict[str, Any]:
    return node(name, {RACK: NODES[name]}, cpu=str(PLACES))


def _name(kind: str) -> str:
    return kind.rpartition("/")[2]


def _policy(kind: str, edit: int) -> dict[str, Any]:
    within = f'within node.labels["{RACK}"]' if kind == IN_RACK else ""
    number = f'at least int(pod.annotations["{MEMBERS}"])'
    members = "" if kind == OF_GROUP else f'of pods by peer.labels["{kind}"] {number}'
    rules = f"""gang "together" {{
      {members}
      {within}
      for at most 20s
      message "waits, edit {edit}"
    }}"""
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterPlacementPolicy",
        "metadata": {"name": _name(kind)},
        "spec": {
            "podSelector": {"matchExpressions": [{"key": kind, "operator": "Exists"}]},
            "rules": rules,
            "enforcementMode": "Strict",
        },
    }


@contextmanager
def gang_nemesis(
    plane: ControlPlane, cluster: Cluster, folder: Path, seed: int, faults: Sequence[str]
) -> Iterator[GangNemesis]:
    """A nemesis with its programs started; the cluster is empty before and after."""
    define(cluster)
    cluster.apply(COSCHEDULING_GROUPS)
    cluster.kubectl(
        "wait", "--for=condition=Established", f"crd/{COSCHEDULING_GROUPS['metadata']['name']}"
    )
    try:
        with ExitStack() as stack:
            nemesis = GangNemesis(plane, cluster, folder, stack, Random(seed), faults)
            pods = f"{PODS}{cluster.namespace}/"
            stack.enter_context(plane.etcd.watched(pods, nemesis.observer.change))
            nemesis.start()
            yield nemesis
    finally:
        cluster.kubectl("delete", "clusterplacementpolicies", "--all")
        cluster.clear()
