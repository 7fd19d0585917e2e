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

from tests.chaos.gang_observer import ANYWHERE, IN_RACK, GangObserver, Member
from tests.chaos.observer import PODS, Finding
from tests.chaos.rig import ELECTION, Program, Replica
from tests.e2e.api import Api, ApiError
from tests.e2e.cluster import AT_ONCE, Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gangs import MEMBERS, RACK, entries, group
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
# Faults begin in this time of a round, and members are created in it.
_BUSY_SECONDS = 2.5
_READY_SECONDS, _STILL_SECONDS, _PLACED_SECONDS = 90.0, 3.0, 90.0
_LOST = 0.3
# After these a gang may be in part: the documentation says so.
EXCUSES = frozenset({"placet-kill", "placet-cut", "placet-freeze", "api-kill", "bindings-lost"})
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
    "none",
)
OBJECT_FAULTS = ("delete", "recreate", "relabel", "gate", "node", "drain", "edit")
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

    def __str__(self) -> str:
        slow = sorted(self.seconds)[-5:]
        done = (
            f"{self.rounds} rounds with {dict(self.faults)}; {self.released} gangs bound whole;"
            f" in part, as documented: {dict(self.parts) or 'none'}; from the first to the last"
            f" binding at most {[round(each, 2) for each in slow]} s; quiet after at most"
            f" {max(self.quiet, default=0.0):.1f} s"
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
        for kind in (ANYWHERE, IN_RACK):
            self._api.request("POST", f"{_GROUP}/clusterplacementpolicies", _policy(kind, 0))
        self._cluster.create_nodes(_node(name) for name in NODES)
        self._start()
        self._wait_ready()

    def play(self) -> str:
        """Plays a round; returns what it was."""
        report, before = self.report, len(self.report.findings)
        report.rounds += 1
        fault = self._dice.choice(self._faults)
        others = self._dice.sample(OBJECT_FAULTS, self._dice.randint(0, 2))
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
        due += [
            (dice.uniform(0.1, _BUSY_SECONDS + 1), partial(self._change, kind)) for kind in others
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
            kind = IN_RACK if dice.random() < _IN_A_RACK else ANYWHERE
            yield group(self._cluster, f"g{next(self._numbers)}", size, kind)
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
            case "scheduler-kill":
                # Whichever leads.
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
        name = dice.choice(list(NODES))
        if kind in ("delete", "recreate", "relabel", "gate") and not waiting:
            return
        match kind:
            case "delete":
                for each in dice.sample(waiting, min(len(waiting), 3)):
                    self._send("DELETE", f"{self._pods}/{each.name}", AT_ONCE)
            case "recreate":
                for each in dice.sample(waiting, min(len(waiting), 3)):
                    self._again(each)
            case "gate":
                self._again(dice.choice(waiting), schedulingGates=[{"name": "chaos.example/gate"}])
            case "relabel":
                each, other = dice.choice(waiting), dice.choice(waiting)
                label = IN_RACK if each.in_rack else ANYWHERE
                body = {"metadata": {"labels": {label: other.gang}}}
                if each.in_rack == other.in_rack:
                    self._send("PATCH", f"{self._pods}/{each.name}", body)
            case "node":
                self._send("DELETE", f"/api/v1/nodes/{name}", AT_ONCE)
                self._empty(name)
                self._mends.append(lambda: self._cluster.create_nodes([_node(name)]))
            case "drain":
                self._cordon(name, unschedulable=True)
                self._empty(name)
                self._mends.append(lambda: self._cordon(name, unschedulable=False))
            case "edit":
                which = dice.choice((ANYWHERE, IN_RACK))
                body = {"spec": _policy(which, next(self._numbers))["spec"]}
                self._send("PATCH", f"{_GROUP}/clusterplacementpolicies/{which}", body)
            case _:
                raise ValueError(kind)

    def _again(self, each: Member, **more: Any) -> None:
        """Deletes a member, and creates one of the same name."""
        self._send("DELETE", f"{self._pods}/{each.name}", AT_ONCE)
        label = IN_RACK if each.in_rack else ANYWHERE
        made = pod(each.name, self._cluster.namespace, {label: each.gang}, cpu="1", **more)
        made["metadata"]["annotations"] = {MEMBERS: str(each.quorum)}
        self._send("POST", self._pods, made)

    def _empty(self, name: str) -> None:
        for each in self.observer.pods():
            if each.node == name:
                self._send("DELETE", f"{self._pods}/{each.name}", AT_ONCE)

    def _cordon(self, name: str, *, unschedulable: bool) -> None:
        self._send("PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": unschedulable}})

    def _create(self, members: list[dict[str, Any]]) -> None:
        for each in members:
            self._send("POST", self._pods, each)

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

    def _rest(self, fault: str, others: list[str]) -> None:
        for mend in self._mends:
            mend()
        self._mends.clear()
        for each in self.observer.pods():
            if each.gated:
                body = {"spec": {"schedulingGates": None}}
                self._send("PATCH", f"{self._pods}/{each.name}", body)
        self._wait_ready()
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
        self.report.findings += self.observer.overruns()
        parts = self.observer.parts()
        for name in parts:
            if fault in EXCUSES:
                self.report.parts[fault] += 1
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


def _policy(kind: str, edit: int) -> dict[str, Any]:
    within = f'within node.labels["{RACK}"]' if kind == IN_RACK else ""
    rules = f"""gang "together" {{
      of pods by peer.labels["{kind}"]
      at least int(pod.annotations["{MEMBERS}"])
      {within}
      for at most 20s
      message "waits, edit {edit}"
    }}"""
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterPlacementPolicy",
        "metadata": {"name": kind},
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
