"""Rig: two kube-schedulers, each with a Placet of its own, and proxies that can be at fault.

kube-scheduler 1 asks Placet `a`, and 2 asks `b`; one of the two schedulers leads. Between them a
recorder remembers every call, and may double it or lose its answer. Between Placet and the API
server is a proxy that may delay, repeat and cut watches. A rig belongs to one run of a nemesis.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

from tests.chaos.actor import unanswered
from tests.chaos.observer import Offer
from tests.chaos.schedule import REPLICAS, SCHEDULERS
from tests.e2e.api import Api
from tests.e2e.control_plane import ControlPlane, control_plane
from tests.e2e.kube_scheduler import KubeScheduler, extender, started_kube_scheduler
from tests.e2e.placet import Placet, placet
from tests.e2e.process import Process, kubeconfig, termination_as_interrupt
from tests.e2e.recorder import Call, Recorder, recorder
from tests.e2e.service_account import create_role
from tests.support.api_proxy import ApiProxy, api_proxy
from tests.support.fake_api_server import Request

CLOCK = Path(__file__).parent / "clock"
# Shorter than by default, so that leadership moves in the time of a phase.
ELECTION = {
    "leaderElect": True,
    "leaseDuration": "8s",
    "renewDeadline": "6s",
    "retryPeriod": "1s",
    "resourceLock": "leases",
    "resourceName": "kube-scheduler",
    "resourceNamespace": "kube-system",
}
# Below the time after which Placet may take it that a pod is not being placed any more.
_MOST_DELAY_SECONDS = 20.0
_NOBODY = 1  # a port on which nobody listens


class Program:
    """A program that is started, stopped, frozen and killed as often as one likes."""

    def __init__(self) -> None:
        self.process: Process | None = None
        self.frozen = False
        # It was asked to end.
        self.ends = False
        # How often it was started, stopped, frozen or let go on.
        self.changes = 0
        # When it was started.
        self.starts: list[float] = []
        self._running = ExitStack()

    def _start(self, process: Process) -> None:
        self.process = process
        self.starts.append(time.monotonic())
        self.ends = False
        self.changes += 1

    @property
    def has_ended(self) -> bool:
        """Whether it ended by itself."""
        return self.process is not None and self.process.child.poll() is not None

    def is_as(self, changes: int) -> bool:
        """Whether it runs, and nobody has touched it since it had so many changes."""
        return self.changes == changes and not self.has_ended

    def kill(self) -> None:
        """End it at once."""
        if self.process is not None:
            # Before it ends: another thread asks `is_as`.
            self.changes += 1
            self.process.kill()
            self._ended()

    def terminate(self) -> None:
        """Ask it to end."""
        if self.process is not None:
            self.thaw()
            self.ends = True
            self.changes += 1
            self.process.child.terminate()

    def end(self) -> None:
        """Return once it has ended, by itself or not."""
        self.thaw()
        self._ended()

    def _ended(self) -> None:
        self.changes += 1
        self._running.close()
        self.process = None
        self.frozen = False

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP, frozen=True)

    def thaw(self) -> None:
        if self.frozen:
            self._signal(signal.SIGCONT, frozen=False)

    def _signal(self, number: signal.Signals, *, frozen: bool) -> None:
        if self.process is not None and not self.has_ended:
            self.changes += 1
            self.process.child.send_signal(number)
            self.frozen = frozen


class Replica(Program):
    """A Placet behind its two proxies."""

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        stack: ExitStack,
        *,
        binds: bool,
        flags: Sequence[str] = (),
    ) -> None:
        super().__init__()
        folder.mkdir()
        self._folder = folder
        certificate = folder / "proxy.crt"
        self.proxy: ApiProxy = stack.enter_context(
            api_proxy(plane.url, plane.authority, certificate)
        )
        user = {"token": plane.placet_token}
        file = kubeconfig(folder / "placet.kubeconfig", self.proxy.url, certificate, user)
        self._flags = [
            f"--kubeconfig={file}",
            "--repair=on",
            *(["--bind"] if binds else []),
            *flags,
        ]
        self.calls: Recorder = stack.enter_context(recorder(_NOBODY))
        self.server: Placet | None = None
        stack.callback(self.end)

    def start(self, off: float = 0.0) -> None:
        """Start it, with a clock that is off by so many seconds."""
        if self.process is None:
            environment = {"PYTHONPATH": str(CLOCK), "CLOCK_OFF_SECONDS": f"{off}"}
            self.server = self._running.enter_context(
                placet(self._folder, None, *self._flags, environment=environment)
            )
            self.calls.upstream = self.server.port
            self._start(self.server.process)

    @property
    def door(self) -> ApiProxy:
        """Its way to the API server."""
        return self.proxy

    def trouble_bindings(self, fault: str, seed: int, share: float) -> Callable[[], None]:
        """Begin a fault of so many calls of bind; what is returned ends it."""
        dice = Random(seed)

        def hits(verb: str) -> bool:
            return verb == "bind" and dice.random() < share

        match fault:
            case "lost":
                self.calls.loses = hits
            case "doubled":
                self.calls.doubles = hits
            case "unanswered":
                return unanswered(self.proxy, lambda: dice.random() < share)
            case _:
                raise ValueError(fault)

        def mend() -> None:
            self.calls.loses = self.calls.doubles = lambda _: False

        return mend


class Scheduler(Program):
    """A kube-scheduler that asks one replica, and leads or waits."""

    def __init__(
        self, plane: ControlPlane, folder: Path, calls: Recorder, stack: ExitStack, *, binds: bool
    ) -> None:
        super().__init__()
        folder.mkdir()
        self._plane = plane
        self._folder = folder
        self._calls = calls
        certificate = folder / "proxy.crt"
        self._proxy: ApiProxy = stack.enter_context(
            api_proxy(plane.url, plane.authority, certificate)
        )
        known = json.loads(plane.scheduler_kubeconfig.read_text())["users"][0]["user"]
        self._kubeconfig = kubeconfig(
            folder / "scheduler.kubeconfig", self._proxy.url, certificate, known
        )
        self._entry = extender(calls.address, node_cache_capable=True, binds=binds)
        self._frozen: list[tuple[float, float]] = []
        self._frozen_at = 0.0
        self.started: KubeScheduler | None = None
        stack.callback(self.end)

    def start(self) -> None:
        if self.process is None:
            # At the default of 50 requests a second, binding would be what pods wait for.
            client = {
                "kubeconfig": str(self._kubeconfig),
                "qps": 5000,
                "burst": 5000,
                # The proxy reads lines.
                "contentType": "application/json",
                "acceptContentTypes": "application/json",
            }
            more = {"leaderElection": ELECTION, "clientConnection": client}
            self.started = self._running.enter_context(
                started_kube_scheduler(self._plane, self._folder, [self._entry], more)
            )
            self._start(self.started.process)

    def freeze(self) -> None:
        super().freeze()
        self._frozen_at = time.monotonic()

    def thaw(self) -> None:
        if self.frozen:
            self._frozen.append((self._frozen_at, time.monotonic()))
        super().thaw()

    def asks(self, replica: Replica) -> bool:
        return self._calls is replica.calls

    def ask(self, replicas: Sequence[Replica], seed: int) -> Callable[[], None]:
        """Begin to ask one of these after the other; what is returned ends it."""
        dice = Random(seed)

        def mend() -> None:
            self._calls.route = lambda: self._calls.upstream

        self._calls.route = lambda: dice.choice(replicas).calls.upstream
        return mend

    def delay_bindings(self, seed: int) -> Callable[[], None]:
        """Begin to delay its Bindings; what is returned ends it."""
        dice = Random(seed)

        def seconds(request: Request) -> float:
            is_binding = request.path.endswith("/binding")
            return dice.uniform(1.0, _MOST_DELAY_SECONDS) if is_binding else 0.0

        def mend() -> None:
            self._proxy.delays = lambda _: 0.0

        self._proxy.delays = seconds
        return mend

    def was_frozen(self, since: float) -> bool:
        return self.frozen or any(ended >= since for _, ended in self._frozen)


class Rig:
    """All programs of a run. It answers what the observer asks about calls."""

    def __init__(self, plane: ControlPlane, folder: Path, stack: ExitStack, *, binds: bool) -> None:
        self.replicas = {
            name: Replica(plane, folder / f"placet-{name}", stack, binds=binds) for name in REPLICAS
        }
        # When a nemesis had one of them see late.
        self.lapses: list[float] = []
        asked = zip(SCHEDULERS, self.replicas.values(), strict=True)
        self.schedulers = {
            name: Scheduler(plane, folder / f"scheduler-{name}", r.calls, stack, binds=binds)
            for name, r in asked
        }

    def programs(self) -> list[Program]:
        return [*self.replicas.values(), *self.schedulers.values()]

    def calls(self, verb: str, pod: str | None = None) -> list[tuple[str, Call]]:
        """The calls of all kube-schedulers, each with the name of the one that asked."""
        pairs = zip(self.schedulers, self.replicas.values(), strict=True)
        return [(name, call) for name, r in pairs for call in r.calls.calls(verb, pod)]

    def offer(self, pod: str) -> Offer | None:
        found = [Offer(c.at, name) for name, c in self.calls("filter", pod) if offered(c)]
        return max(found, key=lambda offer: offer.at, default=None)

    def refused(self, pod: str) -> bool:
        return any(not offered(call) for _, call in self.calls("filter", pod))

    def starts(self, since: float) -> int:
        times = [*self.lapses, *(at for each in self.replicas.values() for at in each.starts)]
        return sum(at >= since for at in times)

    def frozen(self, scheduler: str, since: float) -> bool:
        return self.schedulers[scheduler].was_frozen(since)


def offered(call: Call) -> bool:
    """Whether an answer of filter has a node."""
    return bool(call.answer and call.answer.get("NodeNames"))


def failed(call: Call) -> bool:
    """Whether kube-scheduler takes the answer for an error, which it retries by itself."""
    return not call.answer or bool(call.answer.get("Error"))


@contextmanager
def rig(plane: ControlPlane, folder: Path, *, binds: bool) -> Iterator[Rig]:
    """All programs for the length of the block; none is started yet."""
    with ExitStack() as stack:
        yield Rig(plane, folder, stack, binds=binds)


@contextmanager
def stored_as_json(programs: Path, folder: Path) -> Iterator[ControlPlane]:
    """A control plane whose pods and nodes can be read in etcd."""
    flag = "--storage-media-type=application/json"
    with termination_as_interrupt(), control_plane(programs, folder, flag) as running:
        create_role(Api(running))
        yield running
