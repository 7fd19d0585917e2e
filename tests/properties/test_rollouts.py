"""Rollouts of a model Deployment under every kind of bound: they end, and no bound is passed."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from random import Random

import pytest

from engine.cache.tallies import Scope
from engine.counting.bounds import target
from engine.counting.count_clauses import ShareStatus
from engine.decision.placement import ReplicaRole
from engine.decision.registry import Registry
from engine.decision.verdict import Feasible
from engine.engine import Engine
from engine.errors import EngineError
from engine.objects.peer import TEMPLATE_HASH, decode_controller
from engine.program.policy_time import DecisionTime
from engine.program.program import CountClause
from tests.support.books import examples
from tests.support.builders import CREATED, Object, controller, node, pod, raw
from tests.support.deployments import DeployedPod, Deployment, Strategy
from tests.support.engines import (
    CODEC,
    NOW,
    Known,
    Silent,
    cache_of,
    evaluation_of,
    frame_of,
    peer_of,
    programs_of,
    registry_of,
)

STRATEGIES = [
    Strategy(),
    Strategy(1, 0),
    Strategy(0, 1),
    Strategy("100%", 0),
    Strategy(0, "50%"),
    Strategy(3, 2),
    Strategy(recreate=True),
]
SCRIPTS = ["rollout", "rollback", "scale up", "scale down", "shrink first"]
SIZES = range(1, 21)
ZONES = 3
NODES_PER_ZONE = 2
SPOT = 'node.labels["cap"] == "spot"'
WORLDS = examples(48)
STEPS = 4000


def nodes(*, spot: bool = True) -> list[Object]:
    """Of each zone one node of either side, or none of a side."""
    sides = ["spot", "od"] if spot else ["od", "od"]
    return [
        node(f"n{zone}{number}", f"z{zone}", labels={"cap": sides[number]})
        for zone in range(ZONES)
        for number in range(NODES_PER_ZONE)
    ]


# ---- the world


@dataclass
class World:
    """A Deployment, its controllers, kubelets, kube-scheduler and a Placet that sees them late.

    `check` judges the pods on each node after a binding, by the wanted replicas and the node of the
    binding. With `terminating` pods count until they are gone. With `binds` Placet binds, and sees
    everything at once, and pods get deletion costs. `surplus` is how many pods too many there were.
    """

    seed: str
    registry: Registry
    deployment: Deployment
    nodes: Sequence[Object]
    check: Callable[[Counter[str], int, str], str | None]
    terminating: bool = False
    binds: bool = False
    surplus: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._coming: deque[tuple[int, Callable[[], None]]] = deque()
        self._sets_coming: deque[tuple[int, Callable[[], None]]] = deque()
        self._binding: list[tuple[int, DeployedPod, str, int]] = []
        self.random = Random(self.seed)
        self.late = 0 if self.binds else self.random.choice((0, 3, 12))
        self.now = 0
        self.names = [n["metadata"]["name"] for n in self.nodes]
        self.cache = cache_of(self.nodes)
        self.engine = Engine(
            self.registry,
            Known(self.cache),
            CODEC,
            Silent(),
            role=ReplicaRole(watches=True),
            time=DecisionTime(lambda: 10.0 * self.now, lambda: NOW),
        )
        self.cache.add_event_handler(self.engine.in_flight.pod_changed)
        self.sets: dict[str, Object] = {}
        self.show_controllers()

    def show_controllers(self) -> None:
        """Placet sees the Deployment and its ReplicaSets."""
        self.owner = controller(
            "Deployment",
            "web",
            replicas=self.deployment.replicas,
            strategy=self.deployment.strategy.manifest(),
        )
        self.cache.put_controller(decode_controller("Deployment", raw(self.owner)))

    def until_complete(self) -> None:
        """Plays until the rollout has ended."""
        for _ in range(STEPS):
            self.step()
            if self.deployment.is_complete() and not self._coming:
                return
        raise AssertionError(f"seed `{self.seed}`: no end: {self.deployment}")

    def step(self) -> None:
        """One of those who act does something, and what is due becomes visible."""
        self.now += 1
        for due in [b for b in self._binding if b[0] <= self.now]:
            self._binding.remove(due)
            self._bound(*due[1:])
        for stream in (self._coming, self._sets_coming):
            while stream and stream[0][0] <= self.now:
                stream.popleft()[1]()
        self.random.choice((self._control, self._schedule, self._schedule, self._run))()
        self.surplus = max(self.surplus, len(self.deployment.active()) - self.deployment.replicas)

    def where(self) -> Counter[str]:
        """The pods on each node that count."""
        pods = self.deployment.pods.values()
        return Counter(p.node for p in pods if p.node and (self.terminating or not p.terminating))

    def _control(self) -> None:
        created, deleted = self.deployment.sync()
        for made in created:
            self._show(made)
        for gone in deleted:
            self._show(gone)

    def _run(self) -> None:
        """A kubelet starts a pod, or ends one."""
        pods = [
            p for p in self.deployment.pods.values() if p.node and (p.terminating or not p.ready)
        ]
        if not pods:
            return
        chosen = self.random.choice(pods)
        if chosen.terminating:
            del self.deployment.pods[chosen.name]
        chosen.ready = True
        self._show(chosen)

    def _schedule(self) -> None:
        binding = {b[1].name for b in self._binding}
        waiting = [p for p in self.deployment.pods.values() if not p.node and p.name not in binding]
        if not waiting:
            return
        chosen = self.random.choice(waiting)
        names = self.random.sample(self.names, len(self.names))
        try:
            verdicts = self.engine.filter(raw(self._object(chosen)), names, None, math.inf)
            passing = [n for n, v in zip(names, verdicts, strict=True) if isinstance(v, Feasible)]
            if not passing:
                return
            to, wanted = self.random.choice(passing), self.deployment.replicas
            if self.binds:
                chosen.cost = self._admitted(chosen, to)
        except EngineError:
            return
        due = self.now + (0 if self.binds else self.random.randint(0, 6))
        self._binding.append((due, chosen, to, wanted))

    def _admitted(self, chosen: DeployedPod, to: str) -> int:
        return self.engine.admit(raw(self._object(chosen)), to, math.inf).deletion_cost or 0

    def _bound(self, chosen: DeployedPod, to: str, wanted: int) -> None:
        if chosen.name not in self.deployment.pods:
            return
        chosen.node = to
        # The answer was given before a Deployment that has been scaled since then.
        problem = self.check(self.where(), max(wanted, self.deployment.replicas), to)
        assert problem is None, f"seed `{self.seed}`, step {self.now}: {problem}"
        self._show(chosen)

    def _show(self, shown: DeployedPod) -> None:
        """Placet sees a state later, and states in their order."""
        item = self._object(shown)
        gone = shown.name not in self.deployment.pods

        def change() -> None:
            if gone:
                self.cache.remove_pod(f"default/{item['metadata']['name']}")
            else:
                self.cache.put_pod(peer_of(item))

        last = self._coming[-1][0] if self._coming else 0
        self._coming.append((max(last, self.now + self.random.randint(0, self.late)), change))

    def _object(self, of: DeployedPod) -> Object:
        owner = self.sets.get(of.revision)
        if owner is None:
            owner = controller("ReplicaSet", f"web-{of.revision}", owner=self.owner)
            self.sets[of.revision] = owner
            seen = partial(self.cache.put_controller, decode_controller("ReplicaSet", raw(owner)))
            # By another watch than pods, so that it may be seen after them.
            self._sets_coming.append((self.now + self.random.randint(0, self.late), seen))
        labels = {"app": "web", TEMPLATE_HASH: of.revision}
        deleted = CREATED if of.terminating else None
        return pod(of.name, labels=labels, on=of.node, owner=owner, deleted=deleted)


def play(world: World, script: str) -> None:
    """Creates the Deployment and rolls it out; what else happens is in the middle of that."""
    deployment, random = world.deployment, world.random
    world.until_complete()
    if script == "shrink first":
        scale(world, random.randint(1, deployment.replicas))
        world.until_complete()
    deployment.roll_out("v2")
    if script in ("rollback", "scale up", "scale down"):
        for _ in range(random.randint(1, 12 * deployment.replicas)):
            world.step()
    if script == "rollback":
        deployment.roll_out("v1")
    elif script == "scale up":
        scale(world, random.randint(deployment.replicas, SIZES[-1]))
    elif script == "scale down":
        scale(world, random.randint(1, deployment.replicas))
    world.until_complete()


def scale(world: World, replicas: int) -> None:
    world.deployment.scale(replicas)
    world.show_controllers()


@cache
def registry(clauses: str) -> Registry:
    return registry_of(f'policy p {{ for pods where pod.labels["app"] == "web"\n{clauses}\n}}')


def world_of(
    seed: str,
    clauses: str,
    check: Callable[[Counter[str], int, str], str | None],
    *,
    spot: bool = True,
    size: Callable[[Random, Strategy], int] = lambda random, _: random.choice(SIZES),
    **options: bool,
) -> World:
    random = Random(seed)
    strategy = random.choice(STRATEGIES)
    deployment = Deployment(size(random, strategy), strategy, random)
    return World(seed, registry(clauses), deployment, nodes(spot=spot), check, **options)


def seeds(*of: str, count: int) -> list[str]:
    """Seeds of a case, which another case does not have."""
    return [" ".join((*of, str(number))) for number in range(max(1, count))]


# ---- shares

BOUNDS = [
    "exactly 40%",
    "exactly 75%",
    "exactly 3",
    "exactly 0%",
    "exactly 100%",
    "at most 40%",
    "at most 5",
    "at least 60%",
    "at least 2",
]
OF = ["replicas", 'pods where peer.labels["app"] == "web"']
CASES = [(of, bound) for of in OF for bound in BOUNDS] + [
    ('placed pods where peer.labels["app"] == "web"', "at most 40%")
]


def share(of: str, bound: str) -> str:
    return f'share "s" {{ of {of} on nodes where {SPOT} {bound} strict }}'


def program_of(clauses: str) -> CountClause:
    (program,) = programs_of(f"cluster policy p {{ {clauses} }}")
    (found,) = program.counts
    return found


def on(where: Counter[str]) -> int:
    """The pods on spot nodes: the first node of each zone."""
    return sum(number for name, number in where.items() if name.endswith("0"))


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize(("of", "bound"), CASES)
def test_share(of: str, bound: str, script: str) -> None:
    """Upper bounds hold at each binding. At the end at most the surge is missing on the nodes."""
    clause = program_of(share(of, bound)).bound

    def most(replicas: int) -> float:
        if clause.kind == "at least" or bound.endswith("100%"):
            return math.inf
        assert clause.amount is not None, "it is a constant"
        return target(clause, replicas) if clause.percent else clause.amount

    def check(where: Counter[str], replicas: int, to: str) -> str | None:
        if to.endswith("0") and on(where) > most(replicas):
            return f"{on(where)} of {replicas} pods are on"
        return None

    for seed in seeds(of, bound, script, count=WORLDS // 6):
        world = world_of(seed, share(of, bound), check)
        play(world, script)
        replicas, found = world.deployment.replicas, on(world.where())
        if script != "scale down":
            assert found <= most(replicas), seed
        if clause.kind == "exactly" and script != "scale down":
            surge, _ = world.deployment.strategy.resolved(replicas)
            assert found >= target(clause, replicas) - surge, seed
        # A deletion that Placet has not seen is a pod too many that nobody else knows of.
        if clause.kind == "at least" and "placed" not in of and not world.late:
            assert found >= target(clause, replicas) - world.surplus, seed
        if bound.endswith("100%"):
            assert found == replicas, seed


def violations(world: World, share: CountClause) -> int | None:
    """What the status of a policy with the share says."""
    status = ShareStatus("web", Scope("default"), lambda p: p.deletionTimestamp is None, share)
    snapshot = world.cache.snapshot()
    asked = frame_of(pod("asked"))
    return status.count(world.cache, snapshot, evaluation_of(asked)).violations


@pytest.mark.parametrize("of", OF)
@pytest.mark.parametrize("seed", range(WORLDS))
def test_what_is_missing_is_shown_and_mended(seed: int, of: str) -> None:
    """With deletion costs a ReplicaSet that shrinks keeps of each side what the share wants."""
    clause = program_of(share(of, "exactly 40%"))
    world = world_of(f"{of} {seed}", share(of, "exactly 40%"), lambda *_: None, binds=True)
    play(world, "rollout")
    replicas, before = world.deployment.replicas, on(world.where())
    assert violations(world, clause) == target(clause.bound, replicas) - before
    fewer = world.random.randint(1, replicas)
    scale(world, fewer)
    world.until_complete()
    assert on(world.where()) == min(before, target(clause.bound, fewer))


# ---- spreads and limits


def spread(skew: int, of: str = "of replicas") -> str:
    return f'spread "z" {{ {of} over node.zone skew at most {skew} strict }}'


def zones_of(where: Counter[str]) -> Counter[str]:
    zones = Counter({f"n{zone}": 0 for zone in range(ZONES)})
    for name, number in where.items():
        zones[name[:-1]] += number
    return zones


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("skew", [1, 2])
def test_spread_of_replicas(skew: int, script: str) -> None:
    """Each pod goes where the skew stays within the bound, which deletions may exceed later."""

    def check(where: Counter[str], _: int, to: str) -> str | None:
        zones = zones_of(where)
        return str(zones) if zones[to[:-1]] - min(zones.values()) > skew else None

    for seed in seeds(str(skew), script, count=WORLDS // 4):
        play(world_of(seed, spread(skew), check, binds=True), script)


@pytest.mark.parametrize("of", ["", "of revision"])
@pytest.mark.parametrize("skew", [1, 2])
def test_spread_of_a_revision_ends_a_rollout_within_its_skew(skew: int, of: str) -> None:
    """The old pods, which go, do not count among the new ones."""
    for seed in seeds(str(skew), of, count=WORLDS // 2):
        world = world_of(seed, spread(skew, of), lambda *_: None, binds=True)
        play(world, "rollout")
        zones = zones_of(world.where()).values()
        assert max(zones) - min(zones) <= skew, f"seed `{seed}`: {zones}"


@pytest.mark.parametrize("script", ["rollout", "rollback"])
@pytest.mark.parametrize(
    ("per", "key"),
    [("node", slice(None)), ("node.zone", slice(2)), ("cluster", slice(0))],
)
def test_limit(per: str, key: slice, script: str) -> None:
    """Terminating pods count. There is a place for each pod that a step of the rollout needs."""
    groups = {"node": ZONES * NODES_PER_ZONE, "node.zone": ZONES, "cluster": 1}[per]
    for seed in seeds(per, script, count=WORLDS // 2):
        most = Random(seed).randint(1, max(1, 20 // groups))

        def size(random: Random, strategy: Strategy, most: int = most) -> int:
            # Where no pod may be missing, the first new one needs a place beside all old ones.
            for replicas in range(most * groups, 0, -1):
                unavailable = strategy.resolved(replicas)[1]
                if replicas + (not unavailable) <= most * groups:
                    return random.choice((replicas, random.randint(1, replicas)))
            return 1

        def check(where: Counter[str], _: int, to: str, most: int = most) -> str | None:
            there = sum(n for name, n in where.items() if name[key] == to[key])
            return f"{there} of {most}" if there > most else None

        clauses = f'limit "l" {{ per {per} at most {most} strict }}'
        world = world_of(seed, clauses, check, size=size, terminating=True)
        if most * groups > 1 or world.deployment.strategy.resolved(1)[1]:
            play(world, script)


@pytest.mark.parametrize("script", SCRIPTS)
def test_share_spread_and_limit(script: str) -> None:
    """Together: each zone has nodes of both sides."""
    clauses = (
        share("replicas", "exactly 40%") + spread(2) + 'limit "l" { per node at most 9 strict }'
    )

    def check(where: Counter[str], replicas: int, to: str) -> str | None:
        return str(where) if to.endswith("0") and on(where) > replicas * 40 // 100 else None

    for seed in seeds(script, count=WORLDS // 4):
        play(world_of(seed, clauses, check), script)


# ---- bounds beside which a rollout had no place


@pytest.mark.parametrize("bound", ["at most 100%", "exactly 100%", "at most 21", "at least 100%"])
@pytest.mark.parametrize("of", OF)
def test_all_nodes_are_of_the_share(of: str, bound: str) -> None:
    """A bound that all pods satisfy leaves a place for those of a surge."""
    clauses = share(of, bound).replace(SPOT, "node.name != ''")
    for replicas in (1, 2, 3, 10, 20):
        deployment = Deployment(replicas, Strategy(1, 0), Random(replicas))
        world = World(str(replicas), registry(clauses), deployment, nodes(), lambda *_: None)
        play(world, "rollout")
