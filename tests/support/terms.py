"""A cluster whose leaders change: two replicas of Placet, kube-scheduler, and an API server.

Leases, engines, caches and stores are the real ones. The world is told what happens next, step by
step, and time passes only when it is told so. It remembers each Binding that takes a count above
its bound.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from engine.cache.reflector import unreported
from engine.cache.store import ObjectStore, pods
from engine.cluster.lease import Lease
from engine.cluster.requeue import PodEnds
from engine.counting.in_flight_pods import Schedulers
from engine.decision.placement import ReplicaRole
from engine.decision.registry import Registry
from engine.decision.verdict import Feasible
from engine.engine import Engine
from engine.errors import ApiError, EngineError
from engine.objects.peer import Peer, key_of
from engine.program.policy_time import DecisionTime
from tests.support.builders import Object, pod, raw
from tests.support.engines import CODEC, Known, Silent, cache_of
from tests.support.lease_api import LeaseApi

# Within this time after an answer kube-scheduler has bound the pod, or never will.
PLACING_SECONDS = 25.0
_TURN_SECONDS = 2.0
_FAILS = 0.1


@dataclass
class Server:
    """The API server: pods with resource versions; each watch shows changes when it is told to."""

    objects: dict[str, Object] = field(default_factory=dict)
    watches: list[deque[Object]] = field(default_factory=list)
    _revision: int = 0

    def write(self, item: Object) -> None:
        self._revision += 1
        item = json.loads(json.dumps(item))
        item["metadata"]["resourceVersion"] = str(self._revision)
        self.objects[item["metadata"]["name"]] = item
        for watch in self.watches:
            watch.append(item)

    async def request(self, method: str, path: str, **_: object) -> bytes:
        """A GET of a pod."""
        item = self.objects.get(path.rpartition("/")[2])
        assert method == "GET"
        if item is None:
            raise ApiError(404, "NotFound", "no such pod")
        return raw(item)

    def bind(self, name: str, node: str) -> None:
        item = self.objects[name]
        status = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
        self.write(item | {"spec": item["spec"] | {"nodeName": node}, "status": status})

    def report(self, name: str) -> None:
        """kube-scheduler writes the condition if it has changed.

        The text is always the same, so that only the first of several failures is news.
        """
        conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
        item = self.objects[name]
        if item["status"].get("conditions") != conditions:
            self.write(item | {"status": item["status"] | {"conditions": conditions}})

    def node_of(self, name: str) -> str | None:
        found: str | None = self.objects[name]["spec"].get("nodeName")
        return found


class Replica:
    """One Placet, from its start to its end."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self.lease = Lease(world.lease_api, ("n", "n"), name, clock=world.clock)
        self.frozen = False
        self._taken: float | None = None
        self.cache = cache_of(world.nodes)
        self._store: ObjectStore[Peer] = pods(CODEC, self.cache)
        self.engine = Engine(
            world.registry,
            Known(self.cache),
            CODEC,
            Silent(),
            role=ReplicaRole(self._waiting, schedulers=world.schedulers),
            time=DecisionTime(world.clock),
        )
        self.cache.add_event_handler(self.engine.in_flight.pod_changed)
        self._ends = PodEnds(
            world.server, self.engine.in_flight, self._relist, lambda _: True, unreported
        )
        self.watch: deque[Object] = deque()
        world.server.watches.append(self.watch)
        self._list()

    def close(self) -> None:
        server = self._world.server
        server.watches = [watch for watch in server.watches if watch is not self.watch]

    def turn(self) -> None:
        """Read and write the Lease, and take over at the beginning of a term."""
        if self.frozen:
            return
        self._world.run(self.lease.turn())
        if self.lease.held and self._taken != self.lease.term_began:
            self._list()
            self.engine.take_over(self.cache.snapshot(), self.lease.term_began)
            self._taken = self.lease.term_began
        if not self._world.schedulers.call_bind:
            self._world.run(self._ends.look())

    def see(self, changes: int) -> None:
        """The watch shows this many changes, if there are so many and the replica runs."""
        for _ in range(0 if self.frozen else min(changes, len(self.watch))):
            self._show(self.watch.popleft())

    def filter(self, name: str, names: list[str]) -> list[str]:
        """The nodes that the pod is offered; EngineError means an error."""
        if self.frozen:
            raise EngineError("no answer")
        body = raw(self._world.server.objects[name])
        verdicts = self.engine.filter(body, names, None, math.inf)
        return [n for n, v in zip(names, verdicts, strict=True) if isinstance(v, Feasible)]

    def bind(self, name: str, node: str) -> None:
        """Bind as `Binder` does: count the pod there, then create the Binding."""
        if self.frozen:
            raise EngineError("no answer")
        world = self._world
        admission = self.engine.admit(raw(world.server.objects[name]), node, math.inf)
        self.cache.assume(admission.pod, node, math.inf)
        fault = world.random.random()
        if fault < _FAILS:
            self.cache.forget(key_of(admission.pod))
            raise EngineError("refused by the API server")
        world.bound(name, node)
        if fault < 2 * _FAILS:
            raise EngineError("the answer is lost, and a GET will tell")
        self.cache.confirm(key_of(admission.pod), admission.pod.uid)

    async def _relist(self) -> None:
        self._list()

    def _list(self) -> None:
        self.watch.clear()
        for item in self._world.server.objects.values():
            self._show(item)

    def _show(self, item: Object) -> None:
        metadata = item["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        if "deletionTimestamp" in metadata:
            self._store.remove(key, metadata["resourceVersion"])
        else:
            self._store.upsert(key, metadata["resourceVersion"], raw(item))

    def _waiting(self, *, asked: bool = True) -> str:
        if asked:
            self.lease.need()
        held = self.lease.held and self._taken == self.lease.term_began
        return "" if held else "it is not the leader"


@dataclass
class Placing:
    """A pod that kube-scheduler has assumed on a node, and when it binds it."""

    name: str
    node: str
    due: float


class World:
    """All of it. `broken` looks at bound pods, and says which bound they pass, if any."""

    def __init__(
        self,
        registry: Registry,
        nodes: list[Object],
        broken: Callable[[list[Object]], str | None],
        random: Random,
        schedulers: Schedulers,
    ) -> None:
        self.registry = registry
        self.nodes = nodes
        self.random = random
        self.schedulers = schedulers
        self.passed: list[str] = []
        self.server = Server()
        self.lease_api = LeaseApi()
        self.now = 1000.0
        self._broken = broken
        self._runner = asyncio.Runner()
        self._made = 0
        self.replicas = [Replica(self, f"r{number}") for number in range(2)]
        self._asked = 0
        self._queue: list[tuple[float, str]] = []
        self._placing: list[Placing] = []
        self._looked_at = self.now
        self.replicas[0].turn()

    def clock(self) -> float:
        return self.now

    def run(self, work: object) -> None:
        assert asyncio.iscoroutine(work)
        self._runner.run(work)

    def close(self) -> None:
        self._runner.close()

    def bound(self, name: str, node: str) -> None:
        """A Binding has been created."""
        self.server.bind(name, node)
        bound = [o for o in self.server.objects.values() if o["spec"].get("nodeName")]
        problem = self._broken([o for o in bound if "deletionTimestamp" not in o["metadata"]])
        if problem is not None:
            self.passed.append(problem)

    @property
    def left(self) -> list[str]:
        """The pods of our scheduler that have no node and could get one."""
        return [name for _, name in self._queue] + [p.name for p in self._placing]

    # ---- what can happen

    def create(self, **fields: object) -> str:
        self._made += 1
        made = pod(f"p{self._made}", labels={"app": "web"}, **fields)  # type: ignore[arg-type]
        made["metadata"]["uid"] = made["metadata"]["name"]
        self.server.write(made)
        return str(made["metadata"]["name"])

    def create_pod(self) -> None:
        self._queue.append((self.now, self.create()))

    def create_gated(self) -> None:
        self.create(spec={"schedulingGates": [{"name": "example.com/gate"}]})

    def create_foreign(self) -> None:
        self.create(spec={"schedulerName": "batch"})

    def create_oversized(self) -> None:
        """kube-scheduler itself finds no node for it, and asks nobody."""
        self.server.report(self.create(cpu="900"))

    def delete_pod(self) -> None:
        """One that waits."""
        if self._queue:
            name = self._queue.pop(self.random.randrange(len(self._queue)))[1]
            item = self.server.objects[name]
            self.server.write(item | {"metadata": item["metadata"] | {"deletionTimestamp": "x"}})
            del self.server.objects[name]

    def schedule(self) -> None:
        """One cycle of kube-scheduler: the pod that waits longest, if it may be tried again."""
        self._cycle(self.random.choice((0.0, 1.0)))

    def schedule_slowly(self) -> None:
        """The pod is bound as late as it can be."""
        self._cycle(PLACING_SECONDS)

    def schedule_in_vain(self) -> None:
        """kube-scheduler does not get the answer in time."""
        self._cycle(None)

    def _cycle(self, wait: float | None) -> None:
        ready = sorted(each for each in self._queue if each[0] <= self.now)
        if not ready:
            return
        self._queue.remove(ready[0])
        name = ready[0][1]
        try:
            offered = self.replicas[self._asked].filter(name, self._fitting())
            if wait is None:
                self._fail("the answer comes too late", 1.0)
        except EngineError:
            offered = []
        if not offered:
            self._give_up(name)
            return
        due = self.now + (wait or 0.0)
        self._placing.append(Placing(name, self.random.choice(offered), due))
        self._bind_due()

    def burst(self) -> None:
        for _ in range(4):
            self.schedule()

    def pass_second(self) -> None:
        self._pass(1.0)

    def pass_seconds(self) -> None:
        self._pass(20.0)

    def see_some(self) -> None:
        """The watches show some changes, not as many to each replica."""
        for replica in self.replicas:
            replica.see(self.random.randint(0, 4))

    def see_all(self) -> None:
        for replica in self.replicas:
            replica.see(len(replica.watch))

    def ask_the_other(self) -> None:
        """kube-scheduler calls the other replica from now on."""
        self._asked = 1 - self._asked

    def restart_asked(self) -> None:
        self._restart(self._asked)

    def restart_other(self) -> None:
        self._restart(1 - self._asked)

    def freeze_asked(self) -> None:
        self.replicas[self._asked].frozen = True

    def thaw(self) -> None:
        for replica in self.replicas:
            replica.frozen = False

    def cut_off(self) -> None:
        """Nobody reaches the Lease for a while."""
        self.lease_api.broken = True
        self._pass(12.0)
        self.lease_api.broken = False

    def replace_scheduler(self) -> None:
        """kube-scheduler ends with what it has in hand, and another process acquires its Lease."""
        self._queue += [(self.now, each.name) for each in self._placing]
        self._placing.clear()
        self._pass(2.0)
        for replica in self.replicas:
            if not replica.frozen:
                replica.engine.in_flight.scheduler_replaced(self._looked_at)

    # ---- how it goes on

    def settle(self) -> None:
        """From now on all goes well: until all pods have a node, or no pod gets one any more."""
        self.thaw()
        for _ in range(200):
            self.burst()
            self._pass(1.0)
            self.see_all()
            if not self.left:
                return

    def late(self, seconds: float) -> None:
        """What kube-scheduler has in hand is bound only after this time."""
        for each in self._placing:
            each.due = self.now + seconds

    def freeze_scheduler(self) -> list[Placing]:
        """kube-scheduler stops with these pods in hand; another process asks about them again."""
        held, self._placing = self._placing, []
        self._queue += [(self.now, each.name) for each in held]
        return held

    def thaw_scheduler(self, held: list[Placing]) -> None:
        """The stopped process goes on, and binds before it finds that it has lost its Lease."""
        for each in held:
            self._bind(each)

    def _pass(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            # The Lease of kube-scheduler is looked at whenever ours is.
            self._looked_at = self.now
            self.now = min(end, self.now + _TURN_SECONDS)
            for replica in self.replicas:
                replica.turn()
            self._bind_due()

    def _bind_due(self) -> None:
        for each in [p for p in self._placing if p.due <= self.now]:
            self._placing.remove(each)
            self._bind(each)

    def _bind(self, placing: Placing) -> None:
        name, node = placing.name, placing.node
        if self.server.node_of(name) is not None:
            return
        try:
            if self.schedulers.call_bind:
                self.replicas[self._asked].bind(name, node)
            else:
                self._fail("the Binding is refused")
                self.bound(name, node)
        except EngineError:
            if self.server.node_of(name) is None:
                self._give_up(name)

    def _fitting(self) -> list[str]:
        """The nodes that kube-scheduler's own filters leave."""
        names = [n["metadata"]["name"] for n in self.nodes]
        return self.random.sample(names, self.random.randint(1, len(names)))

    def _fail(self, text: str, part: float = _FAILS) -> None:
        """Raises EngineError in a part of the cases."""
        if self.random.random() < part:
            raise EngineError(text)

    def _give_up(self, name: str) -> None:
        self.server.report(name)
        self._queue.append((self.now + self.random.choice((1.0, 2.0, 4.0)), name))

    def _restart(self, number: int) -> None:
        self.replicas[number].close()
        self._made += 1
        self.replicas[number] = Replica(self, f"r{number}-{self._made}")
