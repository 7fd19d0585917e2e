"""Ends of gangs: events in any order, against a model of who may still be held afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import EngineError
from engine.objects.pod_group import COSCHEDULING, LABEL, GroupName, PodGroup
from tests.engine.gangs.test_gangs import World, names
from tests.support import builders
from tests.support.books import examples
from tests.support.engines import node_of, registry_of

GROUP, MEMBERS = GroupName(COSCHEDULING, "g"), names("a", 5)
BY_GROUP, BY_LABEL = (
    'gang "together" { NUMBER PARTS }',
    f'gang "together" {{ of pods by peer.labels["{LABEL}"] NUMBER PARTS }}',
)
BY_ANNOTATION = 'at least int(pod.annotations["members"])'


class Model(World):
    """A gang whose members come when the test says so, and what is true of it."""

    def __init__(self, *, of_group: bool) -> None:
        clause = BY_GROUP if of_group else BY_LABEL.replace("NUMBER", BY_ANNOTATION)
        super().__init__(
            {"n0": "3", "n1": "3"}, "for at most 1h", gang=clause.replace("NUMBER", "")
        )
        self.of_group, self.number, self.cordoned = of_group, 4, False
        self.minimum(4)
        for name in MEMBERS:
            self.create(name, job="", members=4)
            self.label(name, "g")

    def label(self, name: str, group: str) -> None:
        if name in self.pods:
            self.pods[name]["metadata"]["labels"] = {LABEL: group}
            self.watch(name)

    def minimum(self, number: int) -> None:
        """How many are needed from now on; it cannot be told where that is 0."""
        self.number = number
        if self.of_group and number:
            self.cache.put_group("shop", GROUP, PodGroup("g", number))
        elif self.of_group:
            self.cache.remove_group("shop", GROUP)
        for name in self.pods if not self.of_group else ():
            self.pods[name]["metadata"]["annotations"] = {"members": str(number or "abc")}
            self.watch(name)

    def come(self, name: str) -> None:
        """kube-scheduler asks about a member, and binds it where it is offered."""
        if name not in self.pods or name in self.on():
            return
        try:
            offered = self.ask(name, *self.asked_about)
            if isinstance(offered, list):
                self.bind(name, offered[0])
        except EngineError:
            self.engine.in_flight.refuse(self.pods[name]["metadata"]["uid"])

    @property
    def asked_about(self) -> Sequence[str]:
        """The nodes that pass the filters of kube-scheduler."""
        rows = self.cache.snapshot().table.rows
        return [name for name in rows if not (self.cordoned and name == "n0")]

    def bound_elsewhere(self, name: str) -> None:
        if name in self.pods:
            self.pods[name]["spec"]["nodeName"] = f"n{int(name[1:]) % 2}"
            self.watch(name)

    def gone(self, name: str) -> None:
        if name in self.pods:
            self.delete(name)

    def node(self, number: int) -> None:
        """A node goes, is cordoned, or is as at first."""
        self.cordoned = number == 1
        spec = {"spec": {"unschedulable": self.cordoned}}
        self.cache.remove_node("n0")
        if number:
            self.cache.put_node(node_of(builders.node("n0", cpu="3") | spec))

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.gangs.review()

    @property
    def held(self) -> Mapping[str, str]:
        """The held members, with their nodes."""
        gangs = [gang for gang in self.gangs.known if gang.shown == "shop/g"]
        return {
            gang.keys[uid].partition("/")[2]: gang.places[uid]
            for gang in gangs
            for uid in gang.holds
        }

    def check(self) -> None:
        """No member is held when its gang cannot be complete any more, or already is."""
        held = self.held
        if not held:
            return
        labels = {name: pod["metadata"]["labels"][LABEL] for name, pod in self.pods.items()}
        there = {name for name, label in labels.items() if label == "g"}
        assert held.keys() <= there
        assert all(gang.began > self.now - 3600 for gang in self.gangs.known if gang.holds)
        assert self.number, "the number cannot be told"
        assert len(held) < self.number <= len(there)
        bound = {name for name in there if "nodeName" in self.pods[name]["spec"]}
        assert not bound | (self.on().keys() & there - held.keys()), "one is bound"
        nodes = self.cache.snapshot().table.rows
        assert all(node in nodes and not (self.cordoned and node == "n0") for node in held.values())


Event = tuple[str, Callable[[Model, int], object]]
EVENTS: Sequence[Event] = (
    *[("a member comes", lambda w, n: w.come(MEMBERS[n]))] * 2,
    ("the minimum is another one", lambda w, n: w.minimum(n + 1)),
    ("the number cannot be told", lambda w, _: w.minimum(0)),
    ("somebody else binds a member", lambda w, n: w.bound_elsewhere(MEMBERS[n])),
    ("a member is deleted", lambda w, n: w.gone(MEMBERS[n])),
    ("a member leaves", lambda w, n: w.label(MEMBERS[n], "other")),
    ("a node changes", lambda w, n: w.node(n % 3)),
    ("the policy changes", lambda w, n: w.engine.adopt(registry_of(f"{w.text}\n# {n}"))),
    (
        "there is no policy",
        lambda w, _: w.engine.adopt(registry_of('policy q in namespace "x" { }')),
    ),
    ("another replica decides", lambda w, _: w.engine.take_over(w.cache.snapshot())),
    ("time passes", lambda w, n: w.wait((1, 5, 60, 3600, 9000)[n])),
)


@given(
    st.booleans(),
    st.sampled_from([3, 3, 3, 2, 1]),
    st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 4)), min_size=1, max_size=6),
)
@settings(max_examples=examples(600))
def test_nobody_is_held_in_vain(
    of_group: bool, first: int, events: Sequence[tuple[Event, int]]
) -> None:
    world = Model(of_group=of_group)
    for name in MEMBERS[:first]:
        world.come(name)
    for (_, happens), number in events:
        happens(world, number)
        world.wait(1.0)
        world.check()
