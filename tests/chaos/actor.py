"""Actor: does what the actions of a schedule say, and ends each fault when its time is over.

A real control plane and a simulated one give it the means, under the same names. What is due later
waits here, in order, until its owner's loop runs it.
"""

from __future__ import annotations

import heapq
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from tests.chaos import workload
from tests.chaos.observer import Finding, Report
from tests.chaos.schedule import POOLS, REPAIRED, Action
from tests.support.api_proxy import ApiDoor, Edit, unchanged
from tests.support.fake_api_server import Request

_MOST_OF_A_KIND = 5
_REPEATED_LATE = 5
# What delays no placement, and how long others are noticed: a Lease ends, and a window after it.
_NO_TROUBLE = ("create", "delete", "deploy", "label", "open", "policy", "trial")
_TROUBLE_SECONDS = 60.0
# A new policy is in force by then.
DEPLOY_SECONDS = 8.0


class AnyReplica(Protocol):
    """A Placet that is started and ended as often as one likes."""

    @property
    def door(self) -> ApiDoor: ...

    def start(self) -> None: ...

    def kill(self) -> None: ...

    def freeze(self) -> None: ...

    def thaw(self) -> None: ...


R = TypeVar("R", bound=AnyReplica)


class Actor(ABC, Generic[R]):
    """Knows every action. `clock` gives the seconds of what is due; `report` has what is found."""

    def __init__(
        self, replicas: Mapping[str, R], namespace: str, clock: Callable[[], float], *, binds: bool
    ) -> None:
        self.replicas = replicas
        # When a Placet began to see late.
        self.lapses: list[float] = []
        self.report = Report()
        self._namespace = namespace
        self._clock = clock
        self._binds = binds
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._edits = 0
        self._pool = POOLS[0]
        # Until when a fault may be noticed.
        self.troubled = 0.0
        # What is tried once it is quiet.
        self.trials: list[Action] = []

    # ---- what is due

    def _at(self, when: float, act: Callable[[], object]) -> None:
        heapq.heappush(self._due, (when, next(self._numbers), act))

    def _later(self, seconds: float, act: Callable[[], object]) -> None:
        self._at(self._clock() + seconds, act)

    def _begin(self, phase: Sequence[Action]) -> None:
        """Have every action of a phase done at its time."""
        began = self._clock()
        for action in phase:
            self._at(began + action.at, partial(self._do, action))

    def _next_due(self, otherwise: float) -> float:
        """When the next thing is due, but no later than another time."""
        return min(otherwise, self._due[0][0] if self._due else otherwise)

    def _run_due(self, until: float | None = None) -> None:
        """Do what is due now, or until another time."""
        while self._due and self._due[0][0] <= (self._clock() if until is None else until):
            heapq.heappop(self._due)[2]()

    def _find(self, kind: str, text: str) -> None:
        """Add a finding, if there are only a few of its kind."""
        findings = self.report.findings
        if sum(each.kind == kind for each in findings) < _MOST_OF_A_KIND:
            findings.append(Finding(kind, text))

    # ---- actions

    def _do(self, action: Action) -> None:
        values = action.values
        if action.kind not in _NO_TROUBLE:
            lasts = max(float(values.get(each, "0")) for each in ("for", "down"))
            self.troubled = max(self.troubled, self._clock() + lasts + _TROUBLE_SECONDS)
        match action.kind:
            case "create" | "negative":
                self._create_pods(workload.pods_of(action, self._namespace))
                if "for" in values:
                    self._later(action.seconds("for"), partial(self._delete_pods, action.pods()))
            case "delete":
                self._delete_pods(action.pods())
            case "end":
                self._end_pods(action.pods())
                self._later(action.seconds("for"), partial(self._delete_pods, action.pods()))
            case "relabel":
                self._relabel_pods(action.pods(), values["app"])
            case "open":
                self._open_pods(action.pods())
            case "policy":
                self._edit(values["name"], values["state"])
            case "node":
                self._delete_node(values["name"])
                self._later(action.seconds("down"), partial(self._create_node, values["name"]))
            case "zone":
                self._zone(workload.nodes_of(values["name"]), values["state"])
            case "state":
                self._set_state(values["name"], values["state"])
            case "label":
                self._set_label(values["name"], values["label"], values["value"])
            case "namespaces":
                self._create_namespaces(values["name"], int(values["count"]))
            case "deploy":
                self._deploy()
            case "trial":
                self.trials.append(action)
            case "namespaces-gone":
                self._delete_namespaces(values["name"])
            case "lease":
                self._trouble_lease(values["how"])
            case "api":
                self._stop_api(action.seconds("down"))
            case _ if "scheduler" in values:
                self._trouble_scheduler(action)
            case _:
                self._trouble_replica(action, self.replicas[values["replica"]])

    def _trouble_scheduler(self, action: Action) -> None:
        name = action.values["scheduler"]
        match action.kind:
            case "route":
                among = [self.replicas[each] for each in action.values["among"]]
                mend = self._route(name, among, int(action.values["seed"]))
                self._later(action.seconds("for"), mend)
            case "scheduler-kill":
                self._kill_scheduler(name)
                self._later(action.seconds("down"), partial(self._start_scheduler, name))
            case "scheduler-stop":
                self._later(action.seconds("for"), self._freeze_scheduler(name))
            case "scheduler-restart":
                self._restart_scheduler(name)
            case kind:
                raise ValueError(kind)

    def _trouble_replica(self, action: Action, replica: R) -> None:
        values = action.values
        if action.kind in ("stop", "watch", "partition"):
            self.lapses.append(self._clock())
        match action.kind:
            case "kill":
                replica.kill()
                self._later(action.seconds("down"), replica.start)
            case "stop":
                replica.freeze()
                self._later(action.seconds("for"), replica.thaw)
            case "restart":
                self._restart(replica, 0.0)
            case "clock":
                self._restart(replica, action.seconds("off"))
            case "watch":
                mend = trouble_watches(replica.door, values["fault"], action.seconds("late"))
                self._later(action.seconds("for"), mend)
            case "partition":
                mend = partition(replica.door, values["fault"], values["of"])
                self._later(action.seconds("for"), mend)
            case "bind":
                ends = self._trouble_bindings(replica, action)
                self._later(action.seconds("for"), ends)
            case kind:
                raise ValueError(kind)

    def _edit(self, name: str, state: str) -> None:
        """Change a policy: its message, its pool, or so that it cannot be read."""
        self._edits += 1
        if state == "moved":
            self._pool = POOLS[1 - POOLS.index(self._pool)]
        # An edit of a message begins a repair anew.
        wording = f", edit {self._edits}" if name == REPAIRED else self._wording()
        rules = workload.rules(name, self._edits, self._pool, wording)
        self._put_rules(name, "nonsense {" if state == "broken" else rules)

    def _wording(self) -> str:
        """What the last edit changes in the messages of a policy."""
        return ""

    def _zone(self, names: Sequence[str], state: str) -> None:
        for name in names:
            match state:
                case "gone":
                    self._delete_node(name)
                case "back":
                    self._create_node(name)
                case _:
                    self._set_state(name, state)

    def _set_label(self, name: str, label: str, value: str) -> None:
        """A label of a node, or the one that it had in the beginning."""
        wanted = value or workload.node_named(name)["metadata"]["labels"][label]
        self._label_node(name, label, wanted)

    # ---- means

    @abstractmethod
    def _create_pods(self, pods: Iterable[dict[str, Any]]) -> None: ...

    @abstractmethod
    def _delete_pods(self, names: Iterable[str]) -> None: ...

    @abstractmethod
    def _end_pods(self, names: Iterable[str]) -> None:
        """Delete pods as users do: those that have a node are still there."""

    @abstractmethod
    def _relabel_pods(self, names: Iterable[str], app: str) -> None: ...

    @abstractmethod
    def _open_pods(self, names: Iterable[str]) -> None:
        """Take the gates of pods away."""

    @abstractmethod
    def _put_rules(self, policy: str, rules: str) -> None: ...

    @abstractmethod
    def _create_node(self, name: str) -> None: ...

    @abstractmethod
    def _delete_node(self, name: str) -> None:
        """Remove a node and, as a control plane does, its pods."""

    @abstractmethod
    def _set_state(self, name: str, state: str) -> None:
        """A node is free, cordoned or tainted."""

    @abstractmethod
    def _label_node(self, name: str, label: str, value: str) -> None: ...

    @abstractmethod
    def _create_namespaces(self, name: str, count: int) -> None: ...

    @abstractmethod
    def _deploy(self) -> None:
        """Create the policy that is repaired, and the controllers of its pods, if need be."""

    @abstractmethod
    def _delete_namespaces(self, name: str) -> None: ...

    @abstractmethod
    def _trouble_lease(self, how: str) -> None:
        """The Lease of Placet is deleted, restored from a backup, or edited by somebody."""

    @abstractmethod
    def _stop_api(self, down: float) -> None:
        """End the API server, and start it again after so many seconds."""

    @abstractmethod
    def _route(self, scheduler: str, among: Sequence[R], seed: int) -> Callable[[], object]:
        """Have it ask one Placet of these or another; what is returned ends it, as below."""

    @abstractmethod
    def _kill_scheduler(self, name: str) -> None: ...

    @abstractmethod
    def _start_scheduler(self, name: str) -> None: ...

    @abstractmethod
    def _freeze_scheduler(self, name: str) -> Callable[[], object]: ...

    @abstractmethod
    def _restart_scheduler(self, name: str) -> None:
        """Ask it to end; it starts again by itself."""

    @abstractmethod
    def _restart(self, replica: R, off: float) -> None:
        """As a rollout does, with a clock that is off by so many seconds."""

    @abstractmethod
    def _trouble_bindings(self, replica: R, action: Action) -> Callable[[], object]: ...


# ---- faults of the way to the API server, each with what ends it


def trouble_watches(door: ApiDoor, fault: str, late: float) -> Callable[[], None]:
    """Begin a fault of all watches."""
    match fault:
        case "late":
            door.delay = late
        case "cut":
            door.cut()
        case "frozen":
            door.freeze()
        case "repeated":
            door.edit = repeated()
        case "expired":
            door.expire()
        case "missed":
            door.swallowing += 1
        case _:
            raise ValueError(fault)

    def mend() -> None:
        door.delay, door.edit = 0.0, unchanged
        door.thaw()
        if fault == "missed":
            door.swallowing -= 1
            door.expire()

    return mend


def partition(door: ApiDoor, fault: str, of: str) -> Callable[[], None]:
    """Requests do not reach the server, or answers do not come back; or those of Leases alone."""

    def cut_off(request: Request) -> bool:
        return of == "all" or "/leases" in request.path

    def unheard(request: Request) -> bool:
        return of == "all" and request.kind in ("watch", "stream")

    match fault:
        case "requests":
            begun = [(door.refuses, cut_off)]
        case "answers":
            # A watch that begins now is an answer too.
            begun = [(door.loses, cut_off), (door.refuses, unheard)]
        case _:
            raise ValueError(fault)
    for faults, each in begun:
        faults.append(each)
    if of == "all":
        door.freeze()

    def mend() -> None:
        for faults, each in begun:
            faults.remove(each)
        if of == "all":
            door.thaw()

    return mend


def unanswered(door: ApiDoor, hits: Callable[[], bool]) -> Callable[[], None]:
    """Lose the answers to some Bindings, and to looks at a pod."""

    def loses(request: Request) -> bool:
        of_pod = "/pods/" in request.path and request.method == "GET"
        return (of_pod or request.path.endswith("/binding")) and hits()

    door.loses.append(loses)
    return partial(door.loses.remove, loses)


def repeated() -> Edit:
    """Each line again at once, and once more after the next ones."""
    kept: dict[str, list[bytes]] = {}

    def repeat(path: str, line: bytes) -> list[bytes]:
        late = kept.setdefault(path, [])
        late.append(line)
        return [line, line, *([late.pop(0)] if len(late) > _REPEATED_LATE else [])]

    return repeat
