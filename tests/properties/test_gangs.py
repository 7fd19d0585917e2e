"""Gangs in random clusters, asked about in any order while things happen: all or none, and no more.

A model of kube-scheduler asks about waiting pods in any order, and binds where it is told to. What
holds is looked at after each step.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import EngineError
from engine.objects.peer import decode_controller
from tests.engine.gangs.test_gangs import World
from tests.engine.gangs.test_quorum import Ending
from tests.support import builders
from tests.support.books import examples
from tests.support.engines import node_of

STEPS = 120


class Random(World):
    """A world in which a step is drawn at random; members that were bound are never in part."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.racks = draw.random() < 0.5
        self.size = {f"n{number}": draw.randint(1, 4) for number in range(draw.randint(2, 8))}
        labels = {name: {"rack": str(draw.randrange(3))} for name in self.size}
        self.rack_of = {name: each["rack"] for name, each in labels.items()}
        parts = 'within node.labels["rack"]' if self.racks else ""
        most = draw.randint(1, 3)
        limit = f'limit "few" {{ pods where true per node at most {most} strict }}'
        self.most = most if draw.random() < 0.3 else 99
        cpu = {name: str(size) for name, size in self.size.items()}
        super().__init__(cpu, parts, limit if self.most < 99 else "", labels=labels)
        self.jobs: dict[str, int] = {}
        self.broken: set[str] = set()
        # Whether a pod was bound to which no gang gave a place: it may take that of another one.
        self.came_alone = False

    def new_job(self) -> None:
        job = f"j{len(self.jobs)}"
        self.jobs[job] = self.draw.randint(1, 5)
        self.more_of(job, self.draw.randint(0, self.jobs[job]))

    def more_of(self, job: str, number: int) -> None:
        there = sum(name.startswith(f"{job}-") for name in self.pods)
        for each in range(min(number, self.jobs[job] - there)):
            name = f"{job}-{there + each}-{self.draw.randrange(10**6)}"
            self.create(name, job=job, members=self.jobs[job])

    def step(self) -> None:
        draw = self.draw
        self.now += draw.random()
        waiting = [name for name in self.pods if name not in self.on()]
        match draw.randrange(12):
            case 0:
                self.new_job()
            case 1 if self.jobs:
                self.more_of(draw.choice(list(self.jobs)), 5)
            case 2 if self.pods and draw.random() < 0.3:
                name = draw.choice(list(self.pods))
                if name in self.on():
                    self.broken.add(name.partition("-")[0])
                self.delete(name)
            case 3:
                self.now += draw.choice([0.2, 5, 61])
                self.gangs.review()
            case 4 if draw.random() < 0.2:
                name = draw.choice(list(self.size))
                self.cache.remove_node(name)
                self.gangs.review()
                labels = {"rack": self.rack_of[name]}
                made = builders.node(name, cpu=str(self.size[name]), labels=labels)
                self.cache.put_node(node_of(made))
            case _:
                if waiting:
                    self.schedule(draw.choice(waiting))

    def schedule(self, name: str) -> None:
        """kube-scheduler asks about the nodes where the pod fits, and binds as it is told."""
        taken = Counter(self.on().values())
        fitting = [n for n, size in self.size.items() if taken[n] < size]
        if not fitting:
            return
        try:
            offered = self.ask(name, *self.draw.sample(fitting, len(fitting)))
            if isinstance(offered, list):
                before = len(self.told)
                is_held = self.bind(name, self.draw.choice(offered))
                self.came_alone |= not is_held and len(self.told) == before
        except EngineError:
            self.engine.in_flight.refuse(self.pods[name]["metadata"]["uid"])

    def check(self) -> None:
        on = self.on()
        for name, number in Counter(on.values()).items():
            assert number <= min(self.size[name], self.most), on
        held = {key for gang in self.gangs.known for key in gang.keys.values()}
        bound: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for name, node in on.items():
            if f"shop/{name}" not in held:
                bound[name.partition("-")[0]][name] = node
        for job, members in bound.items():
            if job not in self.broken:
                assert len(members) >= self.jobs[job], (job, members)
                if self.racks:
                    assert len({self.rack_of[node] for node in members.values()}) == 1, members
        for gang in self.gangs.known:
            assert (gang.state == "gathering") == bool(gang.places)
            assert len(gang.holds) <= gang.quorum
            assert {key.partition("/")[2] for key in gang.keys.values()} <= self.pods.keys()

    def drain(self) -> Mapping[str, str]:
        """Lets time pass and asks about every waiting pod until nothing changes any more.

        Without faults a gang that gathers is whole as soon as all of it were asked about.
        """
        for _ in range(10):
            self.now += 400
            self.gangs.review()
            told, self.came_alone = len(self.told), False
            # The last of all may have been the first of its gang to get a place.
            for _ in range(6):
                for name in self.draw.sample(sorted(self.pods), len(self.pods)):
                    if name not in self.on():
                        self.schedule(name)
            self.gangs.review()
            self.check()
            assert self.came_alone or ("given up", "no node") not in self.told[told:]
            assert not any(each.places for each in self.gangs.known)
        return self.on()


@given(st.integers(0, 2**32))
@settings(max_examples=examples(200))
def test_gangs_are_whole_or_not_there(seed: int) -> None:
    world = Random(random.Random(seed))
    for _ in range(STEPS):
        world.step()
        world.check()
    on = world.drain()
    waiting = Counter(name.partition("-")[0] for name in world.pods if name not in on)
    free = sum(world.size.values()) - len(on)
    if not world.racks and world.most == 99:
        # What waits does not fit, or some of its members do not exist.
        for job, number in waiting.items():
            there = sum(name.startswith(f"{job}-") for name in world.pods)
            is_whole = there >= world.jobs[job] and job not in world.broken
            assert not is_whole or number > free, (job, number, free)


@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=6),
    st.integers(1, 3),
    st.integers(1, 9),
    st.sampled_from([0, 1, 2]),
    st.lists(st.booleans(), min_size=6, max_size=6),
)
@settings(max_examples=examples(150))
def test_how_many_members_fit(
    cpus: list[int], cpu: int, members: int, most: int, spot: list[bool]
) -> None:
    """Alike members: as many as each node has room for, and a limit and a filter let there.

    kube-scheduler asks about the nodes alone that have room for one of them.
    """
    limit = f'limit "few" {{ pods where true per node at most {most} strict }}' if most else ""
    clauses = f'{limit} filter "no spot" {{ require !has(node.labels["spot"]) }}'
    sizes = {f"n{number}": size for number, size in enumerate(cpus)}
    labels = {name: {"spot": "x"} for name, is_spot in zip(sizes, spot, strict=False) if is_spot}
    world = World({n: str(s) for n, s in sizes.items()}, clauses=clauses, labels=labels)
    for number in range(members):
        world.create(f"m{number}", members=members, cpu=str(cpu))
    room = {name: min(size // cpu, most or size) for name, size in sizes.items()}
    asked = [name for name, size in sizes.items() if size >= cpu]
    fit = sum(number for name, number in room.items() if name not in labels)
    if not asked:
        return
    answer = world.ask("m0", *asked)
    if not set(asked) - labels.keys():
        assert answer == "policy p: no spot"
        return
    (gang,) = world.gangs.known
    if fit < members:
        assert (gang.state, gang.text) == ("waiting", f"{fit} of {members} members fit")
    else:
        assert gang.state == "gathering"
        assert Counter(gang.places.values()) <= Counter(room)


@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(0, 2), st.booleans()), min_size=2, max_size=9
    ),
    st.integers(1, 9),
    st.integers(1, 12),
)
@settings(max_examples=examples(150))
def test_any_subset_that_fits_is_placed(
    members: list[tuple[int, int, bool]], needed: int, cpu: int
) -> None:
    """Members of any size and priority, some of which no node suits: the smallest decide."""
    world = World({"n1": str(cpu)})
    for number, (size, priority, is_lost) in enumerate(members):
        spec = {"nodeSelector": {"no": "node"}} if is_lost else {}
        world.create(f"m{number}", members=needed, cpu=str(size), priority=priority, spec=spec)
    sizes = sorted(size for size, _, is_lost in members if not is_lost)
    if len(members) < needed or not sizes:
        return
    # kube-scheduler asks only about pods that some node suits.
    world.ask(f"m{[is_lost for *_, is_lost in members].index(False)}")
    (gang,) = world.gangs.known
    fits = len(sizes) >= needed and sum(sizes[:needed]) <= cpu
    assert len(gang.places) == (needed if fits else 0), gang.text


@given(
    st.integers(0, 2**32), st.integers(1, 4), st.integers(0, 4), st.sampled_from(["", "job", "x"])
)
@settings(max_examples=examples(60))
def test_a_job_whose_pods_succeed_and_fail_ends(
    seed: int, parallelism: int, more: int, known: str
) -> None:
    """A model of the Job controller makes one pod after another; the gang is the Job, or a label.

    Pods end in any order, or a node with all of them goes. As many as the Job wants come together,
    if the Job is known.
    """
    draw, number, name = random.Random(seed), parallelism, 0
    by = "" if known == "job" else 'of pods by peer.labels["job"]'
    world = Ending({"n1": "9"}, gang=f'gang "g" {{ {by} at least {number} }}')
    job = builders.controller("Job", "j", "shop", replicas=parallelism)
    job["spec"]["completions"] = completions = parallelism + more
    succeeded = 0
    for _ in range(400):
        world.now += 2
        if succeeded == completions:
            return
        job["status"] = {"succeeded": succeeded}
        if known:
            world.cache.put_controller(decode_controller("Job", builders.raw(job)))
        wants = min(parallelism, completions - succeeded)
        bound = {n for n in world.on() if world.ended.get(n) == ""}
        if len(world.pods) < wants:
            world.create(f"p{(name := name + 1)}", owner=job)
        for each in draw.sample(sorted(world.pods), len(world.pods)):
            if each not in world.on() and isinstance(world.ask(each), list):
                world.place(each)
        world.gangs.review()
        here = {n for n in world.on() if world.ended.get(n) == ""}
        for each in here:
            world.cache.confirm(f"shop/{each}", world.pods[each]["metadata"]["uid"])
        assert not known or bound or not here or len(here) >= min(number, wants)
        for each in sorted(here):
            if draw.random() < 0.2:
                phase = draw.choice(["Succeeded", "Failed"])
                world.end(each, phase)
                succeeded += phase == "Succeeded"
        if here and draw.random() < 0.1:
            for each in [n for n in sorted(here) if n in world.pods]:
                world.end(each, "Failed")
    raise AssertionError((succeeded, completions, world.ask(next(iter(world.pods)))))
