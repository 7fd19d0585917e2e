"""Small clusters in which everything happens late, fails, or happens again: against one engine."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

from engine.cache.store import ObjectStore, pods
from engine.decision.registry import Registry
from engine.decision.verdict import Feasible
from engine.engine import Engine
from engine.errors import EngineError
from engine.objects.peer import Peer
from engine.objects.request_pod import ObjectCodec
from engine.program.policy_time import DecisionTime
from tests.support.builders import Object, pod, raw
from tests.support.engines import Known, Silent, cache_of

BACKOFF = 3
FAILS = 0.15


@dataclass
class Server:
    """The API server: pods with resource versions, and a watch that shows changes late."""

    lag: Callable[[], int]
    objects: dict[str, Object] = field(default_factory=dict)
    revision: int = 0
    _coming: deque[tuple[int, str, Object]] = field(default_factory=deque)

    def write(self, now: int, item: Object) -> None:
        self.revision += 1
        item = json.loads(json.dumps(item))
        item["metadata"]["resourceVersion"] = str(self.revision)
        self.objects[item["metadata"]["name"]] = item
        # A watch is late, and never out of order.
        last = self._coming[-1][0] if self._coming else 0
        self._coming.append((max(last, now + self.lag()), item["metadata"]["name"], item))

    def shown(self, now: int) -> Iterator[Object]:
        while self._coming and self._coming[0][0] <= now:
            yield self._coming.popleft()[2]

    def forget_watch(self) -> None:
        self._coming.clear()

    def bound(self) -> list[Object]:
        return [o for o in self.objects.values() if o["spec"].get("nodeName")]


@dataclass
class World:
    """One kube-scheduler, one Placet, and pods that all want to be somewhere."""

    seed: int
    registry: Registry
    codec: ObjectCodec
    nodes: Sequence[Object]
    waiting: list[Object]
    broken: Callable[[list[Object]], str | None]
    others: Sequence[Object] = ()

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        slow = self.random.choice((0, 2, 10, 40))
        self.server = Server(lambda: self.random.randint(0, slow))
        self.now = 0
        self.restarts = self.random.random() < 0.3
        for there in self.others:
            self.server.write(0, there)
        self._start()

    def play(self, steps: int = 4000) -> None:
        """Until every pod is bound, or the steps are over."""
        names = [n["metadata"]["name"] for n in self.nodes]
        at_once = self.random.random() < 0.5
        ready: list[tuple[int, str]] = []
        binding: list[tuple[int, str, str]] = []
        for _ in range(steps):
            self.now += 1
            while self.waiting and (at_once or self.random.random() < 0.3):
                made = self.waiting.pop(0)
                self.server.write(self.now, made)
                ready.append((self.now, made["metadata"]["name"]))
            self._watch()
            for done in [b for b in binding if b[0] <= self.now]:
                binding.remove(done)
                if not self._bind(done[1], done[2]):
                    ready.append((self.now + BACKOFF, done[1]))
            if self.restarts and self.random.random() < 0.01:
                self._start()
            due = sorted(r for r in ready if r[0] <= self.now)
            if due:
                ready.remove(due[0])
                where = self._ask(due[0][1], self.random.sample(names, len(names)))
                if where is None:
                    ready.append((self.now + self.random.randint(1, 2 * BACKOFF), due[0][1]))
                else:
                    binding.append((self.now + self.random.randint(0, 12), due[0][1], where))
            if not (ready or binding or self.waiting):
                return

    def _ask(self, name: str, nodes: Sequence[str]) -> str | None:
        """Where kube-scheduler sends the pod, if anywhere."""
        asked = self.server.objects[name]
        try:
            verdicts = self.engine.filter(raw(asked), nodes, None, math.inf)
        except EngineError as error:
            self._refused(asked, "SchedulerError", str(error))
            return None
        passing = [n for n, v in zip(nodes, verdicts, strict=True) if isinstance(v, Feasible)]
        if passing:
            return self.random.choice(passing)
        self._refused(asked, "Unschedulable", "no node")
        return None

    def _refused(self, asked: Object, reason: str, message: str) -> None:
        condition = {"type": "PodScheduled", "status": "False", "reason": reason}
        if asked["status"].get("conditions") != [condition | {"message": message}]:
            status = asked["status"] | {"conditions": [condition | {"message": message}]}
            self.server.write(self.now, asked | {"status": status})

    def _bind(self, name: str, node: str) -> bool:
        asked = self.server.objects[name]
        if self.random.random() < FAILS:
            self._refused(asked, "SchedulerError", f"binding failed at {self.now}")
            return False
        status = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
        spec = asked["spec"] | {"nodeName": node}
        self.server.write(self.now, asked | {"spec": spec, "status": status})
        problem = self.broken(self.server.bound())
        assert problem is None, f"seed {self.seed}, step {self.now}: {problem}"
        return True

    def _watch(self) -> None:
        for item in self.server.shown(self.now):
            self._show(item)

    def _show(self, item: Object) -> None:
        metadata = item["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        self.store.upsert(key, metadata["resourceVersion"], raw(item))

    def _start(self) -> None:
        """A Placet that knows what a list says, and not what was answered before it."""
        cache = cache_of(self.nodes)
        self.store: ObjectStore[Peer] = pods(self.codec, cache)
        self.engine = Engine(
            self.registry,
            Known(cache),
            self.codec,
            Silent(),
            time=DecisionTime(lambda: float(self.now)),
        )
        cache.add_event_handler(self.engine.in_flight.pod_changed)
        self.server.forget_watch()
        for item in self.server.objects.values():
            self._show(item)
        self.engine.take_over(cache.snapshot())


def apps(count: int, app: str, on: Sequence[str] = ()) -> list[Object]:
    """Pods of one app, on these nodes or on none."""
    where = [*on, *([None] * (count - len(on)))]
    return [pod(f"{app}-{i}", labels={"app": app}, on=n) for i, n in enumerate(where)]
