"""Gangs at the engine: who is offered what, who is held, and when a gang is given up."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pytest

from engine.cache.cache import Cache
from engine.decision.placement import ONLY_REPLICA, ReplicaRole
from engine.decision.preemption import Victims
from engine.decision.verb_call import Occurrence
from engine.decision.verdict import Rejected
from engine.engine import Engine
from engine.errors import RefusedError, WaitingError
from engine.gangs.gang import GangOfPod
from engine.objects.peer import key_of
from engine.program.policy_time import DecisionTime
from tests.support import builders
from tests.support.engines import CODEC, Known, Silent, gangs_of, node_of, registry_of

NOTHING: Mapping[str, Mapping[str, str]] = {}
NOW = "2026-01-01T00:00:00Z"
BY_JOB = """
  gang "together" { of pods by peer.labels["job"] at least int(pod.annotations["members"]) PARTS }
"""


class World:
    """A cluster, an engine that knows it, and a kube-scheduler that asks as the test says."""

    def __init__(
        self,
        nodes: Mapping[str, str],
        parts: str = "",
        clauses: str = "",
        role: ReplicaRole = ONLY_REPLICA,
        labels: Mapping[str, Mapping[str, str]] = NOTHING,
        gang: str = BY_JOB,
    ) -> None:
        """`nodes` have so much cpu each, and `labels`."""
        self.now = 100.0
        self.cache = Cache()
        self.observer = Silent()
        self.text = f'policy p in namespace "shop" {{ {gang.replace("PARTS", parts)} {clauses} }}'
        self.engine = Engine(
            registry_of(self.text),
            Known(self.cache),
            CODEC,
            self.observer,
            time=DecisionTime(lambda: self.now),
            role=role,
        )
        for name, cpu in nodes.items():
            made = builders.node(name, cpu=cpu, labels=labels.get(name))
            self.cache.put_node(node_of(made))
        self.cache.add_event_handler(self.engine.in_flight.pod_changed)
        self.gangs = gangs_of(self.engine)
        self.cache.add_event_handler(self.gangs.pod_changed)
        self.pods: dict[str, builders.Object] = {}
        self.revision = 0
        self.ended: dict[str, str] = {}

    def create(
        self, *names: str, job: str = "a", members: int = 3, cpu: str = "1", **more: Any
    ) -> None:
        """Pods with the label `job`, if it is not empty, and with `labels`."""
        for name in names:
            fields = {"annotations": {"members": str(members)}} | more
            fields["labels"] = ({"job": job} if job else {}) | more.get("labels", {})
            self.pods[name] = builders.pod(name, "shop", cpu=cpu, **fields)
            self.watch(name)

    def relabel(self, name: str, labels: Mapping[str, str]) -> None:
        self.pods[name]["metadata"]["labels"] = dict(labels)
        self.watch(name)

    def change(self, name: str, part: str, **fields: Any) -> None:
        self.pods[name].setdefault(part, {}).update(fields)
        self.watch(name)

    def gang(self, name: str, *, places: bool = False) -> GangOfPod | None:
        """The gang of a pod for people."""
        call, _ = self.engine.opened(builders.raw(self.pods[name]))
        return self.gangs.of_pod(call, places=places)

    def watch(self, name: str) -> None:
        """The pod has changed: a watch shows it, and kube-scheduler asks about this state."""
        self.revision += 1
        self.pods[name]["metadata"]["resourceVersion"] = str(self.revision)
        body = builders.raw(self.pods[name])
        self.cache.put_pod(CODEC.peer(body), 1, body)

    def delete(self, name: str) -> None:
        self.cache.remove_pod(f"shop/{name}")
        del self.pods[name]

    def ask(self, name: str, *nodes: str) -> list[str] | str:
        """The nodes that a pod is offered, or why none."""
        names = nodes or sorted(self.cache.snapshot().table.rows)
        decided = self.engine.filter(builders.raw(self.pods[name]), names, None, math.inf)
        offered = [each for each, code in zip(names, decided.codes, strict=True) if not code]
        if offered:
            return offered
        return next(v.reason for v in decided if isinstance(v, Rejected))

    def offered(self, name: str, *nodes: str) -> list[str]:
        """The nodes that a pod is offered; there are some."""
        found = self.ask(name, *nodes)
        assert isinstance(found, list), found
        return found

    def bind(self, name: str, node: str) -> bool:
        """Bind is asked about the pod; whether it is held."""
        pod = self.cache.pod(f"shop/{name}")
        assert pod is not None
        admission = self.engine.admit(builders.raw(self.pods[name]), node, math.inf)
        self.cache.assume(pod, node, math.inf)

        def end(reason: str) -> None:
            self.ended[name] = reason
            if reason:
                self.cache.forget(key_of(pod))

        if admission.waits:
            self.gangs.hold(pod.uid, end)
            return name not in self.ended
        self.ended[name] = ""
        return False

    def place(self, name: str) -> bool:
        """Asks about a pod and binds it where it is offered; whether it is held."""
        (node,) = self.offered(name)
        return self.bind(name, node)

    def woken(self) -> set[str]:
        by_uid = {p["metadata"]["uid"]: name for name, p in self.pods.items()}
        return {by_uid[uid] for uid in self.engine.woken.take() if uid in by_uid}

    def on(self) -> Mapping[str, str]:
        pods = {name: self.cache.pod(f"shop/{name}") for name in self.pods}
        return {name: p.nodeName for name, p in pods.items() if p is not None and p.nodeName}

    @property
    def told(self) -> list[tuple[str, str]]:
        told = (heard[1] for heard in self.observer.heard if heard[0] == "occurred")
        (*labels,) = (o.counts[0][1] for o in told if isinstance(o, Occurrence))
        return [(state.replace("_", " "), reason.replace("_", " ")) for _, state, reason in labels]


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def hold_all(world: World, members: Iterable[str]) -> None:
    for name in members:
        assert world.place(name)


def in_racks(nodes: Iterable[str], cpu: str) -> World:
    """A world with a rack for each first letter of its nodes; members share one."""
    labels = {name: {"rack": name[0]} for name in nodes}
    within = 'within node.labels["rack"]'
    return World(dict.fromkeys(labels, cpu), within, labels=labels)


def test_nobody_is_offered_a_node_before_all_exist() -> None:
    world = World({"n1": "4"})
    world.create("a0", "a1")
    assert world.ask("a0") == "policy p: together: 2 of 3 members exist"
    assert world.ask("a1") == "policy p: together: 2 of 3 members exist"
    world.create("a2")
    assert world.ask("a2") == ["n1"]
    assert world.woken() == {"a0", "a1"}


def test_a_whole_gang_is_held_and_released_at_once() -> None:
    world = World({"n1": "2", "n2": "2"})
    world.create(*names("a", 3))
    assert world.place("a0")
    assert world.place("a1")
    assert world.ended == {}
    assert not world.place("a2")
    assert world.ended == {"a0": "", "a1": "", "a2": ""}
    assert sorted(Counter(world.on().values()).values()) == [1, 2]
    assert world.told == [("gathering", ""), ("released", "")]
    assert world.gangs.statuses() == []


def test_each_member_is_offered_the_node_that_it_has_on_paper() -> None:
    world = World({"n1": "1", "n2": "1", "n3": "1"})
    world.create(*names("a", 3))
    offered = [world.ask(name) for name in names("a", 3)]
    assert sorted(offered) == [["n1"], ["n2"], ["n3"]]
    assert [world.ask(name) for name in names("a", 3)] == offered


def test_two_gangs_do_not_take_places_from_each_other() -> None:
    """Six places for two gangs of four: the second waits, and gets its places afterwards."""
    world = World({"n1": "3", "n2": "3"})
    world.create(*names("a", 4), members=4)
    world.create(*names("b", 4), job="b", members=4)
    assert world.place("a0")
    assert world.ask("b0") == "policy p: together: 2 of 4 members fit"
    hold_all(world, ["a1", "a2"])
    world.place("a3")
    assert set(world.ended) == set(names("a", 4))
    for name in names("a", 4):
        world.delete(name)
    world.now += 1
    assert isinstance(world.ask("b0"), list)


@pytest.mark.parametrize("first", ["low0", "low1"])
def test_a_gang_has_the_highest_priority_of_its_members(first: str) -> None:
    """Whoever is asked about first."""
    world = World({"n1": "1"})
    world.create("low0", job="low", members=2)
    world.create("low1", job="low", members=2, priority=7)
    world.create(*names("b", 2), job="b", members=2, priority=5)
    world.ask(first)
    world.ask("b0")
    assert [gang.shown for gang in sorted(world.gangs.known, key=lambda each: each.order)] == [
        "shop/low",
        "shop/b",
    ]
    assert [gang.priority for gang in world.gangs.known] == [7, 5]


def test_the_gang_of_higher_priority_goes_first() -> None:
    world = World({"n1": "1"})
    world.create(*names("low", 2), job="low", members=2)
    world.create(*names("high", 2), job="high", members=2, priority=7)
    assert "1 of 2 members fit" in world.ask("low0")
    assert "1 of 2 members fit" in world.ask("high0")
    world.cache.put_node(node_of(builders.node("n1", cpu="2")))
    world.now += 1
    # The pod of lower priority is asked about first, and the other gang takes the places.
    assert "members fit" in world.ask("low0")
    assert world.woken() >= {"high1"}
    assert world.ask("high0") == ["n1"]


def test_of_two_gangs_of_one_priority_the_older_one_goes_first() -> None:
    world = World({"n1": "1"})
    world.create(*names("new", 2), job="new", members=2, created="2026-11-21T10:00:01Z")
    world.create(*names("old", 2), job="old", members=2, created="2026-11-21T10:00:00Z")
    assert "1 of 2 members fit" in world.ask("new0")
    assert "1 of 2 members fit" in world.ask("old0")
    world.cache.put_node(node_of(builders.node("n1", cpu="2")))
    world.now += 1
    assert "members fit" in world.ask("new0")
    assert world.ask("old0") == ["n1"]


@pytest.mark.parametrize(
    ("exist", "needed", "rack"),
    [(3, 3, "y"), (2, 2, "x"), (3, 2, "y")],
    ids=["enough room", "less room, which is enough", "room for all"],
)
def test_members_share_the_value_of_within(exist: int, needed: int, rack: str) -> None:
    world = in_racks(("x1", "x2", "y1", "y2", "y3"), "1")
    world.create(*names("a", exist), members=needed)
    for name in names("a", needed):
        world.place(name)
    assert [node[0] for node in {*world.on().values()}] == [rack] * needed


def test_no_rack_has_room() -> None:
    world = in_racks(("x1", "x2", "y1", "y2", "y3"), "1")
    world.create(*names("a", 4), members=4)
    assert world.ask("a0") == "policy p: together: 3 of 4 members fit, in y"


@pytest.mark.parametrize("large", [[], ["a0"], ["a0", "a3"]])
def test_no_more_members_have_places_than_are_needed(large: list[str]) -> None:
    """Though there is room for all but those that are larger than a node."""
    world = World({"n1": "9"})
    for name in names("a", 5):
        world.create(name, cpu="20" if name in large else "1", priority=5 if name == "a0" else 0)
    world.ask("a4")
    (gang,) = world.gangs.known
    assert len(gang.places) == 3


SSD: Any = {"spec": {"nodeSelector": {"disk": "ssd"}}}
FEW: Any = {"labels": {"app": "few"}}


@pytest.mark.parametrize(
    ("members", "fits"),
    [
        ([{"cpu": "4"}, {}, {}, {}], True),
        ([{"cpu": "2"}, {}, {}, {}], True),
        ([{"cpu": "2"}, {"cpu": "2"}, {}, {}], False),
        ([SSD, {}, {}, {}], True),
        ([SSD, SSD, {}, {}], False),
        ([{"cpu": "4", "priority": 100}, {}, {}, {}], True),
        ([{"priority": 100, **SSD}, {"cpu": "9"}, {}, {}, {}], True),
        ([FEW] * 3 + [{}], True),
        ([FEW] * 4, False),
    ],
)
def test_any_members_that_fit_are_placed(members: Any, fits: bool) -> None:
    """Three are needed; one node has room for three, and a limit lets two of a kind there."""
    limit = (
        'limit "few" when "app" in pod.labels '
        '{ pods where "app" in peer.labels per cluster at most 2 strict }'
    )
    world = World({"n1": "3"}, clauses=limit)
    for name, more in zip(names("a", len(members)), members, strict=True):
        world.create(name, **more)
    world.ask(f"a{len(members) - 1}")
    (gang,) = world.gangs.known
    assert len(gang.places) == 3 if fits else gang.text == "2 of 3 members fit"


def test_the_member_with_least_choice_comes_first() -> None:
    """And members of different sizes are placed from the largest on."""
    world = World({"n1": "3", "n2": "2"}, labels={"n2": {"disk": "ssd"}})
    world.create("a0", "a1", cpu="1")
    world.create("a2", cpu="2", members=3)
    world.create("a3", cpu="1", members=4, **SSD)
    assert len(world.offered("a0")) == 1
    world = World({"n1": "1", "n2": "1"}, labels={"n1": {"disk": "ssd"}})
    world.create("a0", members=2)
    world.create("a1", members=2, **SSD)
    assert world.offered("a0") == ["n2"]


def ports(*taken: tuple[int, str, str]) -> Any:
    each = [{"hostPort": p, "protocol": c, "hostIP": a} for p, c, a in taken]
    return {"containers": [{"name": "c", "image": "i", "ports": each}]}


WEB = (80, "TCP", "")


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        ((WEB,), (WEB,), False),
        ((WEB,), ((81, "TCP", ""),), True),
        ((WEB,), ((80, "UDP", ""),), True),
        ((WEB,), ((81, "TCP", ""), (80, "TCP", "10.0.0.1")), False),
        (((80, "TCP", "10.0.0.2"),), ((80, "TCP", "10.0.0.1"),), True),
        (((80, "TCP", "10.0.0.1"),), ((80, "TCP", "10.0.0.1"),), False),
        ((WEB,), (), True),
    ],
)
def test_members_share_a_node_unless_they_take_the_same_port(
    one: Any, other: Any, share: bool
) -> None:
    """As NodePorts of kube-scheduler has it; so do the members of another gang that gathers."""
    world = World({"n1": "9"})
    world.create("a0", members=2, spec=ports(*one))
    world.create("a1", members=2, spec=ports(*other))
    answer = world.ask("a0")
    assert answer == (["n1"] if share else "policy p: together: 1 of 2 members fit")
    world = World({"n1": "9"})
    world.create("a0", members=1, spec=ports(*one))
    world.create("b0", job="b", members=1, spec=ports(*other))
    world.offered("a0")
    assert (world.ask("b0") == ["n1"]) is share


@pytest.mark.parametrize(
    ("nodes", "members"),
    [
        (("5", "4"), ("3", "2", "2", "2")),
        (("6", "6"), ("3", "2", "3", "2", "2")),
        (("4", "4", "4"), ("1", "3", "1", "3", "1", "3")),
        (("8",), ("1", "1", "6")),
    ],
)
def test_members_of_mixed_sizes(nodes: Any, members: Any) -> None:
    """They fill the nodes, so no other order than the largest first leaves room for all."""
    world = World({f"n{number}": cpu for number, cpu in enumerate(nodes)})
    for number, cpu in enumerate(members):
        world.create(f"a{number}", members=len(members), cpu=cpu)
    assert isinstance(world.ask("a0"), list), world.ask("a0")


def test_once_a_member_is_bound_the_others_come_as_they_are() -> None:
    world = in_racks(("x1", "x2", "y1", "y2"), "2")
    world.create("a0", on="x1")
    world.create("a1")
    assert world.ask("a1") == ["x1", "x2"]
    assert world.bind("a1", "x2") is False
    world.create("a2")
    world.offered("a2")
    with pytest.raises(RefusedError, match="its members are elsewhere"):
        world.bind("a2", "y1")


@pytest.mark.parametrize(
    ("nodes", "was_whole", "text", "broken"),
    [
        ("xxy", False, "2 of 3 members share another value", "y"),
        ("xx", True, "2 of 3 members that are placed together have nodes", "xx"),
        ("xx", False, "2 of 2 members share another value", ""),
    ],
    ids=["torn apart", "some were lost", "it is only beginning"],
)
def test_what_breaks_a_gang_on_nodes(nodes: str, was_whole: bool, text: str, broken: str) -> None:
    world = in_racks("xy", "4")
    for number, node in enumerate(nodes):
        world.create(f"a{number}", on=node)
    call, _ = world.engine.opened(builders.raw(world.pods["a0"]))
    pods = [pod for name in world.pods if (pod := world.cache.pod(f"shop/{name}")) is not None]
    gang = world.gangs.group_of(call, pods[0])
    assert gang is not None
    found = world.gangs.breach(gang, pods, call, was_whole=was_whole)
    assert (found.rule.text, "".join(pod.nodeName for pod in found.pods)) == (text, broken)


def test_a_pod_without_the_value_is_in_no_gang() -> None:
    world = World({"n1": "1"})
    world.create("alone", job="")
    assert world.ask("alone") == ["n1"]
    assert world.gang("alone") is None


@pytest.mark.parametrize(
    ("happens", "reason"),
    [
        (lambda w: w.delete("a1"), "member a1 is gone"),
        (lambda w: w.change("a1", "status", phase="Failed"), "member a1 is gone"),
        (lambda w: w.change("a1", "metadata", deletionTimestamp=NOW), "member a1 is being deleted"),
        (lambda w: w.cache.remove_node("n1") or w.gangs.review(), "node n1 is gone"),
        (lambda w: w.adopt(w.text.replace("members", "number")), "policy shop/p was changed"),
        (lambda w: w.engine.take_over(w.cache.snapshot()), "this replica began to decide anew"),
        (lambda w: w.later(61), "2 of 3 members came in time"),
        (lambda w: w.relabel("a1", {"job": "other"}), "member a1 has left it"),
        (lambda w: w.others_fill("n1"), "no node is left for a2"),
    ],
)
def test_what_gives_up_a_gang(happens: Any, reason: str) -> None:
    world = HeldWorld()
    happens(world)
    text = f"policy shop/p: together: given up: {reason}"
    assert world.ended == {"a0": text, "a1": text}
    assert world.on().keys() <= {"other"}
    assert len(world.engine.in_flight) == 0
    assert world.told[-1][0] == "given up"


class HeldWorld(World):
    """Two of three members are held."""

    def __init__(self) -> None:
        super().__init__({"n1": "4"})
        self.create(*names("a", 3))
        hold_all(self, ["a0", "a1"])
        assert set(self.on()) == {"a0", "a1"}

    def adopt(self, text: str) -> None:
        self.engine.adopt(registry_of(text))

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.gangs.review()

    def others_fill(self, node: str) -> None:
        self.create("other", job="", cpu="2", on=node)
        self.gangs.review()


RACK = {"rack": "x"}
NO_SPOT = """
  filter "no spot" { require !("spot" in node.labels) }
  limit "few" { pods where true per node at most 2 strict }
"""


@pytest.mark.parametrize("waits", [False, True], ids=["at once", "at the release"])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"labels": {"rack": "y"}}, "the nodes of its members do not share the value of `within`"),
        ({"labels": {}}, "the nodes of its members do not share the value of `within`"),
        ({"labels": RACK | {"spot": ""}}, "cannot go to node n2 now: shop/p: no spot"),
        ({"labels": RACK, "cpu": "500m"}, "cannot go to node n2 now: Insufficient cpu"),
        ("two pods of others", "cannot go to node n2 now: shop/p: few"),
        ({"labels": RACK | {"other": "label"}}, ""),
    ],
)
def test_what_has_changed_is_seen_before_a_release(
    change: Any, reason: str, *, waits: bool
) -> None:
    """While two of three members are held on two nodes of a rack; others bind pods as they like."""
    within, nodes = 'within node.labels["rack"]', ("n1", "n2", "n3")
    world = World(dict.fromkeys(nodes, "1"), within, NO_SPOT, labels=dict.fromkeys(nodes, RACK))
    world.create(*names("a", 3))
    hold_all(world, ["a0", "a1"])
    moved = world.on()["a1"]
    if isinstance(change, dict):
        fields: Any = {"cpu": "1"} | change
        world.cache.put_node(node_of(builders.node(moved, **fields)))
    else:
        world.create("b0", "b1", job="", cpu="0", on=moved)
    if not waits and change != "two pods of others":
        world.now += 1
        world.gangs.review()
    elif isinstance(found := world.ask("a2"), list):
        world.bind("a2", found[0])
    assert bool(world.ended.get("a0")) == bool(reason)
    assert reason.replace("n2", moved) in world.ended.get("a0", "")


def test_a_gang_that_was_given_up_waits_a_while() -> None:
    world = HeldWorld()
    world.later(61)
    assert "given up: 2 of 3 members came in time" in world.ask("a0")
    world.now += 2
    assert world.ask("a0") == ["n1"]


def test_bind_says_why_the_gang_of_a_member_was_given_up() -> None:
    """Of a gang that nobody knows any more, as after a restart, there is no reason."""
    world = HeldWorld()
    world.later(61)
    with pytest.raises(RefusedError, match=r"given up: 2 of 3 members came in time$"):
        world.bind("a0", "n1")
    world.create("b0", job="b")
    with pytest.raises(RefusedError, match=r"together: given up$"):
        world.bind("b0", "n1")


def test_a_pod_of_higher_priority_takes_the_place_of_the_lowest_gang() -> None:
    """kube-scheduler counts a member until it has the answer of bind: it is not evicted before."""
    world = HeldWorld()
    uid = world.pods["a0"]["metadata"]["uid"]
    world.create("boss", job="", priority=9)
    victims, boss = {"n1": Victims([uid], 0)}, builders.raw(world.pods["boss"])
    for _ in range(2):
        assert world.engine.preempt(boss, victims, math.inf) == {}
    assert "a pod of higher priority needs its place" in world.ended["a0"]
    world.now += 2
    assert world.engine.preempt(boss, victims, math.inf) == victims


class Crowded(World):
    """Each node is full with a pod that members of a gang may evict."""

    def __init__(self, *nodes: str) -> None:
        super().__init__(dict.fromkeys(nodes, "1"))
        self.low = {name: f"low-{name}" for name in nodes}
        for node, name in self.low.items():
            self.create(name, job="", on=node)
        self.create("a0", "a1", members=2, priority=5)

    def evicts(self, member: str, budgeted: Collection[str] = ()) -> list[str]:
        """The nodes where a member may have pods evicted, of those that kube-scheduler proposes.

        To evict on `budgeted` nodes breaks a disruption budget.
        """
        proposed = {
            node: Victims([self.pods[name]["metadata"]["uid"]], int(node in budgeted))
            for node, name in self.low.items()
            if self.pods[name]["spec"].get("priority", 0) < 5
        }
        return [*self.engine.preempt(builders.raw(self.pods[member]), proposed, math.inf)]


def test_each_member_evicts_on_the_node_that_it_has_once_all_that_may_go_are_gone() -> None:
    world = Crowded("n1", "n2")
    (first,), (second,) = world.evicts("a0"), world.evicts("a1")
    assert {first, second} == {"n1", "n2"}
    assert (world.evicts("a0"), world.evicts("a1")) == ([first], [second])


@pytest.mark.parametrize("budgeted", ["n1", "n2", "n3", "n1 n2", "n1 n2 n3"])
def test_no_more_disruption_budgets_are_broken_than_a_gang_needs(budgeted: str) -> None:
    nodes, broken = {"n1", "n2", "n3"}, set(budgeted.split())
    world = Crowded(*sorted(nodes))
    found = [world.evicts(member, broken) for member in ("a0", "a1")]
    chosen = {node for each in found for node in each}
    assert len(chosen) == 2
    assert len(chosen & broken) == len(broken) - 1


def test_where_members_evict_is_worked_out_anew_for_another_member_and_after_a_while() -> None:
    world = Crowded("n1", "n2", "n3")
    (first,), (second,) = world.evicts("a0"), world.evicts("a1")
    world.create(world.low[first], job="", on=first, priority=9)
    (other,) = {"n1", "n2", "n3"} - {first, second}
    assert world.evicts("a0") == []
    world.now += 61
    assert {*world.evicts("a0"), *world.evicts("a1")} == {second, other}
    world.delete("a1")
    world.create("a2", members=2, priority=5)
    assert {*world.evicts("a0"), *world.evicts("a2")} == {second, other}


def test_no_pod_is_evicted_for_two_members() -> None:
    """kube-scheduler looks no more at a member all of whose victims went for another one."""
    world = World({"n1": "2"})
    world.create("low-0", "low-1", job="", on="n1")
    world.create("a0", "a1", members=2, priority=5)
    x, y = (world.pods[name]["metadata"]["uid"] for name in ("low-0", "low-1"))

    def evicted(member: str, *proposed: str) -> Sequence[str]:
        victims, pod = {"n1": Victims(proposed, 0)}, builders.raw(world.pods[member])
        found = world.engine.preempt(pod, victims, math.inf)
        return found["n1"].uids if found else ()

    assert evicted("a0", x) == [x]
    assert evicted("a1", x, y) == [y]
    assert evicted("a1", x) == ()
    assert evicted("a0", y, x) == [x]
    world.now += 61
    assert evicted("a1", x) == [x]


def test_without_binding_the_pods_wait_and_are_told_why() -> None:
    world = World({"n1": "4"}, role=ReplicaRole(binds=False))
    world.create(*names("a", 3))
    with pytest.raises(
        WaitingError, match="policy shop/p holds gangs at bind: serve with `--bind`"
    ) as told:
        world.ask("a0")
    assert told.value.policy == "shop/p", "the alert names it"


def test_strict_counts_hold_for_the_whole_gang() -> None:
    """Two at most on a node: three members need two nodes."""
    limit = 'limit "two" { pods where true per node at most 2 strict }'
    world = World({"n1": "8"}, clauses=limit)
    world.create(*names("a", 3))
    assert world.ask("a0") == "policy p: together: 2 of 3 members fit"
    world.cache.put_node(node_of(builders.node("n2")))
    world.now += 1
    for name in names("a", 3):
        world.place(name)
    assert sorted(Counter(world.on().values()).values()) == [1, 2]


def test_a_place_that_is_taken_is_replaced() -> None:
    """kube-scheduler does not offer the node of a member any more: another one is found."""
    world = World({"n1": "1", "n2": "1", "n3": "1", "n4": "1"})
    world.create(*names("a", 3))
    (first,) = world.offered("a0")
    others = sorted({"n1", "n2", "n3", "n4"} - {first})
    world.bind("a0", first)
    (second,) = world.offered("a1")
    left = [each for each in others if each != second]
    assert world.ask("a1", *left)[0] in left
    assert world.place("a1")
    assert not world.place("a2")
    assert len(set(world.on().values())) == 3


def test_no_place_is_left_for_a_member() -> None:
    world = World({"n1": "1", "n2": "1", "n3": "1"})
    world.create(*names("a", 3))
    assert world.place("a0")
    world.offered("a1")
    assert "given up: no node is left for a1" in world.ask("a1", world.on()["a0"])
    assert world.ended["a0"].endswith("no node is left for a1")
