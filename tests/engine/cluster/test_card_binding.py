"""Cards at bind: each pod gets cards with room, whatever is repeated, lost, restarted or late."""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cache.cache import Cache
from engine.cards.node_cards import TAKEN, taken
from engine.cluster.binding import BindClient, Binder, Binding
from engine.counting.in_flight_pods import Schedulers
from engine.decision.placement import ReplicaRole
from engine.decision.recent_answers import AfterDecision, LastAnswers
from engine.engine import Engine
from engine.errors import ApiUnreachableError, EngineError, HandoverError, WaitingError
from engine.objects.request_pod import ObjectCodec
from engine.program.policy_time import DecisionTime
from grammar.meaning.schema import load_schema
from tests.support import builders, fake_clock
from tests.support.books import examples
from tests.support.engines import Known, Silent, cache_of, registry_of
from tests.support.lease_api import BindingApi, Fault

pytestmark = pytest.mark.fake_clock
CODEC = ObjectCodec(load_schema(), (TAKEN, "milli", "count"))
INDEX = "example.com/index"
POLICY = f"""
cluster policy gpu {{
  for pods where true
  cards "gpu" {{
    on node int(node.allocatable["gpu"]) of {{"milli": 1000}}
    take int(pod.annotations["count"]) of {{"milli": int(pod.annotations["milli"])}}
    index "{INDEX}"
    pick least card.free["milli"]
    write {{ "example.com/left": string(node.chosen["gpu"].map(c, c.free["milli"]).sum()) }}
    message "no card has room"
  }}
}}
"""
REGISTRY = registry_of(POLICY)


class World:
    """An API server, and a replica that binds pods to two nodes with two cards each."""

    def __init__(self, cards: int = 2) -> None:
        self.api = BindingApi()
        self.clock = asyncio.get_running_loop().time
        self.cards = cards
        self.leads = True
        self.restart()

    def restart(self) -> None:
        """A replica that knows what the API server has now."""
        self.cache = Cache()
        answers = LastAnswers()
        self.engine = Engine(
            REGISTRY,
            Known(self.cache),
            CODEC,
            Silent(),
            time=DecisionTime(self.clock),
            role=ReplicaRole(lambda *, asked=True: "" if self.leads else "another replica decides"),  # noqa: ARG005
            after=AfterDecision(answers=answers),
        )
        self.cache.add_event_handler(self.engine.in_flight.pod_changed)
        for name in ("n1", "n2"):
            made = builders.node(name, resources={"gpu": str(self.cards)})
            self.cache.put_node(CODEC.node(builders.raw(made)))
        schedulers = Schedulers(frozenset({"default-scheduler"}))
        self.binder = Binder(
            self.api, self.cache, self.engine, answers, schedulers, clock=self.clock
        )
        for name in [key.partition("/")[2] for key in self.api.pods]:
            self.watch(name)

    def create(self, name: str, milli: int = 500, count: int = 1, group: str = "") -> None:
        annotations = {"milli": str(milli), "count": str(count)}
        spec = {"schedulingGroup": {"podGroupName": group}} if group else {}
        made = builders.pod(name, "ml", annotations=annotations, spec=spec)
        made["metadata"]["uid"] = f"uid-{name}"
        self.api.put(made)
        self.watch(name)

    def watch(self, name: str) -> None:
        found = self.api.pods.get(f"ml/{name}")
        if found is None:
            self.cache.remove_pod(f"ml/{name}")
        else:
            self.cache.put_pod(CODEC.peer(builders.raw(found)))

    def hear(self, name: str) -> None:
        body = builders.raw(self.api.pods[f"ml/{name}"])
        self.engine.filter(body, ("n1", "n2"), None, math.inf)

    async def bind(self, name: str, node: str = "n1", seconds: float = 1.0) -> None:
        binding = Binding("ml", name, f"uid-{name}", node)
        await self.binder.bind(binding, self.clock() + seconds, BindClient())

    def annotations(self, name: str) -> dict[str, str]:
        found: dict[str, str] = self.api.pods[f"ml/{name}"]["metadata"]["annotations"]
        return found

    def taken(self) -> Counter[tuple[str, int]]:
        """What the pods take of each card, by what the API server has."""
        found: Counter[tuple[str, int]] = Counter()
        for pod in self.api.pods.values():
            node = pod["spec"].get("nodeName")
            for its in taken(pod["metadata"]["annotations"].get(TAKEN, "{}")).values():
                found.update({(node, card): its.take["milli"] for card in its.cards})
        return found


async def test_the_binding_says_which_cards_and_how_much() -> None:
    world = World()
    world.create("a", 300)
    world.create("b", 500)
    await world.bind("a")
    await world.bind("b")
    [_, second] = world.api.bindings
    assert second["metadata"]["annotations"] == {
        INDEX: "0",
        TAKEN: '{"gpu":{"cards":[0],"take":{"milli":500}}}',
        "example.com/left": "700",
    }
    assert {method for method, _ in world.api.requests} == {"GET", "POST"}


async def test_several_whole_cards() -> None:
    world = World(cards=4)
    world.create("part", 300)
    world.create("two", 1000, count=2)
    world.create("none", 1000, count=0)
    for name in ("part", "two", "none"):
        await world.bind(name)
    assert world.annotations("two")[INDEX] == "1,2"
    assert TAKEN not in world.annotations("none")


async def test_a_pod_for_which_no_card_is_left_waits() -> None:
    """Filter answered before the first one was bound, as it does for the pods of a group."""
    world = World(cards=1)
    for name in "abc":
        world.create(name, 600, group="training")
    for name in "ab":
        world.hear(name)
    await world.bind("a")
    with pytest.raises(WaitingError, match="no card has room"):
        await world.bind("b")
    await world.bind("b", "n2")
    body = builders.raw(world.api.pods["ml/c"])
    decided = world.engine.filter(body, ("n1", "n2"), None, math.inf)
    assert decided.codes.all()


async def test_a_card_is_free_again_when_its_pod_is_gone() -> None:
    world = World(cards=1)
    world.create("a", 600)
    world.create("b", 600)
    await world.bind("a")
    del world.api.pods["ml/a"]
    world.watch("a")
    await world.bind("b")
    assert world.annotations("b")[INDEX] == "0"


async def test_only_the_leader_gives_cards() -> None:
    world = World()
    world.create("a")
    world.hear("a")
    world.leads = False
    with pytest.raises(HandoverError):
        await world.bind("a")
    with pytest.raises(HandoverError):
        world.hear("a")


def test_who_does_not_bind_gives_no_cards() -> None:
    """The pod waits: without cards it would run on those of others."""
    cache = cache_of([builders.node("n1", resources={"gpu": "1"})])
    engine = Engine(REGISTRY, Known(cache), CODEC, Silent(), role=ReplicaRole(binds=False))
    body = builders.raw(builders.pod("a", "ml", annotations={"milli": "1", "count": "1"}))
    with pytest.raises(WaitingError, match="policy gpu gives cards at bind: serve with `--bind`"):
        engine.filter(body, ("n1",), None, math.inf)


async def test_a_late_watch_does_not_give_a_card_twice() -> None:
    world = World(cards=1)
    world.create("a", 600)
    await world.bind("a")
    # An older state of the pod, from before its Binding.
    world.cache.put_pod(CODEC.peer(builders.raw(builders.pod("a", "ml") | _older("a"))))
    world.create("b", 600)
    with pytest.raises(EngineError, match="no card has room"):
        await world.bind("b")


def _older(name: str) -> dict[str, Any]:
    made = builders.pod(name, "ml", annotations={"milli": "600", "count": "1"})
    made["metadata"]["uid"] = f"uid-{name}"
    return made


async def test_a_binding_with_an_unknown_outcome_keeps_its_cards() -> None:
    """Asked again, the same cards; for another node the outcome is awaited."""
    world = World()
    world.create("a", 600)
    world.create("b", 600)
    await world.bind("b")
    world.hear("a")
    world.api.faults.append("lost")
    world.api.faults.extend(["deaf"] * 40)
    with pytest.raises(ApiUnreachableError):
        await world.bind("a", seconds=0.05)
    world.api.faults.clear()
    with pytest.raises(WaitingError, match="not known yet whether the pod was bound to `n1`"):
        await world.bind("a", "n2")
    await world.bind("a")
    assert len(world.api.bindings) == 2
    assert world.annotations("a")[INDEX] == "1"
    await world.binder.idle()


async def test_a_pod_that_another_replica_has_bound_has_the_cards_of_that_binding() -> None:
    """They are free for nobody else, also before a watch shows the pod."""
    world = World()
    world.create("a", 600)
    world.create("b", 600)
    world.hear("a")
    bound = world.api.pods["ml/a"]
    bound["spec"]["nodeName"] = "n1"
    bound["metadata"]["annotations"][TAKEN] = '{"gpu":{"cards":[1],"take":{"milli":600}}}'
    await world.bind("a")
    await world.bind("b")
    assert world.taken() == {("n1", 0): 600, ("n1", 1): 600}


async def test_a_refused_call_does_not_free_the_cards_of_an_earlier_one() -> None:
    """The Binding of the first call is there, though its answer was lost."""
    world = World(cards=1)
    for name in "ab":
        world.create(name, 600, group="training")
        world.hear(name)
    world.api.faults.append("lost")
    world.api.faults.extend(["deaf"] * 40)
    with pytest.raises(ApiUnreachableError, match="not known yet"):
        await world.bind("a", seconds=0.05)
    world.api.faults.clear()
    world.api.faults.extend(["busy"] * 40)
    with pytest.raises(EngineError, match="slow down"):
        await world.bind("a", seconds=0.05)
    world.api.faults.clear()
    with pytest.raises(WaitingError, match="no card has room"):
        await world.bind("b")
    await world.binder.idle()


Step = tuple[Literal["bind", "hear", "watch", "delete", "restart"], str, str]
NAMES = "abcdef"
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["bind", "bind", "bind", "hear", "watch", "delete", "restart"]),
        st.sampled_from(NAMES),
        st.sampled_from(["n1", "n2"]),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=examples(150))
@given(
    steps=st.lists(_STEPS, min_size=1, max_size=3),
    sizes=st.tuples(*[st.sampled_from([300, 500, 600, 1000])] * len(NAMES)),
    faults=st.lists(st.sampled_from(["", "", "lost", "deaf", "busy", "broken"]), max_size=20),
)
def test_no_card_is_ever_above_its_capacity(
    steps: list[list[Step]], sizes: tuple[int, ...], faults: list[Fault]
) -> None:
    """Whatever happens in between: in each order of filter, bind, lost answers and restarts."""

    async def play() -> None:
        world = World()
        for name, milli in zip(NAMES, sizes, strict=True):
            # Those of a group do not keep cards from each other, so bind has to.
            world.create(name, milli, group="training" if name < "e" else "")
        world.api.faults.extend(faults)
        await asyncio.gather(*(_played(world, each) for each in steps))
        world.api.faults.clear()
        await world.binder.idle()

    fake_clock.run(play())


async def _played(world: World, steps: list[Step]) -> None:
    for what, name, node in steps:
        try:
            await _step(world, what, name, node)
        except EngineError:
            continue
        finally:
            assert all(milli <= 1000 for milli in world.taken().values()), world.taken()
            names = [b["metadata"]["name"] for b in world.api.bindings]
            assert len(names) == len(set(names))
            assert all(INDEX in b["metadata"]["annotations"] for b in world.api.bindings)


async def _step(world: World, what: str, name: str, node: str) -> None:
    there = f"ml/{name}" in world.api.pods
    match what:
        case "bind" if there:
            await world.bind(name, node, seconds=0.02)
        case "hear" if there:
            world.hear(name)
        case "watch":
            world.watch(name)
        case "delete":
            world.api.pods.pop(f"ml/{name}", None)
        case "restart":
            # The replica that ends waits for what it has sent.
            while True:
                ends = world.binder
                await ends.idle()
                if ends is world.binder:
                    break
            world.restart()
        case _:
            pass
