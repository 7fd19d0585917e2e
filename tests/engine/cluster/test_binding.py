"""The binder: one Binding for each pod, despite repeated calls and lost answers."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cache.cache import Cache
from engine.clauses.programs import compile_policy
from engine.cluster.binding import DELETION_COST, BindClient, Binder, Binding
from engine.counting.in_flight_pods import AskedPod, Schedulers
from engine.decision.recent_answers import AfterDecision, LastAnswers
from engine.decision.registry import Registry
from engine.engine import Engine
from engine.errors import (
    ApiError,
    ApiUnreachableError,
    EngineError,
    RefusedError,
    WaitingError,
)
from engine.objects.request_pod import ObjectCodec
from engine.program.policy_time import DecisionTime
from grammar.meaning.schema import load_schema
from grammar.tree.source import Source
from policies.validation import check_source
from tests.support import builders, fake_clock
from tests.support.books import examples
from tests.support.engines import Known, Silent
from tests.support.lease_api import BindingApi, Fault

pytestmark = pytest.mark.fake_clock
SCHEMA = load_schema()
CODEC = ObjectCodec(SCHEMA)
READY = 'bind "ready" { require node.ready message "the node is leaving" }'
SHARE = """
  share "half" { pods where peer.labels["app"] == "web" on nodes where node.name == "n1"
    exactly 40% strict message "no room on this side" }
"""


class World:
    """An API server, a cache, an engine, and a binder between them, on the clock of the loop."""

    def __init__(self, clauses: str = "") -> None:
        text = f"cluster policy p {{ for pods where true\n{clauses}\n}}"
        file = check_source(Source("p.policy", text), SCHEMA)
        assert not [d for d in file.diagnostics if d.severity == "error"], file.diagnostics
        self.clock = asyncio.get_running_loop().time
        self.cache = Cache()
        self.api = BindingApi()
        programs = [compile_policy(checked) for checked in file.policies]
        self.answers = LastAnswers()
        self.engine = Engine(
            Registry(programs),
            Known(self.cache),
            CODEC,
            Silent(),
            time=DecisionTime(self.clock),
            after=AfterDecision(self.clock, answers=self.answers),
        )
        self.cache.add_event_handler(self.engine.in_flight.pod_changed)
        for name in ("n1", "n2"):
            self.cache.put_node(CODEC.node(builders.raw(builders.node(name))))
        self.leads_for = math.inf
        self.binder = Binder(
            self.api,
            self.cache,
            self.engine,
            self.answers,
            Schedulers(frozenset({"default-scheduler", "second"})),
            leads_until=lambda: self.clock() + self.leads_for,
            clock=self.clock,
        )

    def create(self, name: str, **fields: Any) -> None:
        """A pod, in the API server and known."""
        made = builders.pod(name, "shop", labels={"app": "web"}, **fields)
        made["metadata"]["uid"] = f"uid-{name}"
        self.api.put(made)
        self.watch(name)

    def watch(self, name: str) -> None:
        """The watch tells what the pod is now."""
        self.cache.put_pod(CODEC.peer(builders.raw(self.api.pods[f"shop/{name}"])))

    def hear(self, name: str, *nodes: str) -> None:
        """Filter is asked about the pod on these nodes, or on both."""
        body = builders.raw(self.api.pods[f"shop/{name}"])
        self.engine.filter(body, nodes or ("n1", "n2"), None, math.inf)

    async def bind(self, name: str, node: str = "n1", seconds: float = 1.0, uid: str = "") -> None:
        binding = Binding("shop", name, uid or f"uid-{name}", node)
        await self.binder.bind(binding, self.clock() + seconds, BindClient())

    def on(self, node: str) -> set[str]:
        """The pods that count on a node."""
        found = self.cache.snapshot().node(node)
        assert found is not None
        return {pod.name for pod in found.pods or ()}


async def test_a_pod_is_bound_with_its_uid_and_counts_at_once() -> None:
    world = World()
    world.create("a")
    await world.bind("a")
    [binding] = world.api.bindings
    assert binding["metadata"] == {"name": "a", "namespace": "shop", "uid": "uid-a"}
    assert binding["target"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}
    assert world.on("n1") == {"a"}
    world.watch("a")
    assert list(world.cache.assumed()) == []
    assert world.on("n1") == {"a"}


async def test_a_pod_that_is_bound_already_is_a_success() -> None:
    world = World()
    world.create("a")
    await world.bind("a")
    await world.bind("a")
    world.watch("a")
    await world.bind("a")
    assert len(world.api.bindings) == 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"node": "n2"}, "the pod is already on node `n2`"),
        ({"uid": "other"}, "the pod is gone, and another one has its name"),
        ({"deleted": True}, "the pod is being deleted"),
        ({"gone": True}, "the pod is gone"),
    ],
    ids=lambda value: str(value)[:12],
)
@pytest.mark.parametrize("known", [True, False], ids=["known", "not known"])
async def test_pods_that_cannot_be_bound(change: dict[str, Any], text: str, known: bool) -> None:
    world = World()
    world.create("a")
    pod = world.api.pods["shop/a"]
    if "node" in change:
        pod["spec"]["nodeName"] = change["node"]
    if "uid" in change:
        pod["metadata"]["uid"] = change["uid"]
    if "deleted" in change:
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    if "gone" in change:
        del world.api.pods["shop/a"]
    if known and "gone" in change:
        world.cache.remove_pod("shop/a")
    elif known:
        world.watch("a")
    with pytest.raises(EngineError, match=text):
        await world.bind("a")
    assert world.api.bindings == []
    assert not list(world.cache.assumed())


async def test_bind_clauses_are_checked_on_the_newest_view() -> None:
    world = World(READY)
    world.create("a")
    await world.bind("a")
    world.create("b")
    world.cache.put_node(CODEC.node(builders.raw(builders.node("n1", ready=False))))
    with pytest.raises(RefusedError, match="the node is leaving"):
        await world.bind("b")
    assert len(world.api.bindings) == 1


async def test_a_share_holds_and_its_pods_get_their_deletion_cost() -> None:
    """Two of five on n1; the row is off, off, on, off, on."""
    world = World(SHARE)
    for name in "abcde":
        world.create(name)
    for name in "ab":
        await world.bind(name, "n1")
    with pytest.raises(RefusedError, match="no room on this side"):
        await world.bind("c", "n1")
    world.hear("c")
    for name in "cde":
        await world.bind(name, "n2")
    costs = [int(b["metadata"]["annotations"][DELETION_COST]) for b in world.api.bindings]
    assert costs == [-3, -5, -1, -2, -4]


async def test_concurrent_binds_do_not_share_a_slot() -> None:
    world = World(SHARE)
    for name in "abcde":
        world.create(name)
    calls = [world.bind(name, "n1") for name in "abcde"]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [isinstance(o, WaitingError) for o in outcomes].count(True) == 3
    assert len(world.api.bindings) == 2


async def test_calls_about_one_pod_share_a_binding() -> None:
    world = World()
    world.create("a")
    await asyncio.gather(*(world.bind("a") for _ in range(5)))
    assert [method for method, _ in world.api.requests] == ["GET", "POST"]
    world.create("b")
    first, second = world.bind("b", "n1"), world.bind("b", "n2")
    outcomes = await asyncio.gather(first, second, return_exceptions=True)
    assert outcomes[0] is None
    assert isinstance(outcomes[1], RefusedError)


@pytest.mark.parametrize("fault", ["lost", "deaf", "busy", "broken"])
async def test_one_fault_costs_a_retry(fault: Fault) -> None:
    world = World()
    world.create("a")
    world.hear("a")
    world.api.faults.append(fault)
    await world.bind("a")
    assert len(world.api.bindings) == 1


async def test_a_pod_of_an_earlier_request_is_not_fetched() -> None:
    world = World()
    world.create("a")
    world.engine.filter(builders.raw(world.api.pods["shop/a"]), ["n1"], None, math.inf)
    await world.bind("a")
    assert [method for method, _ in world.api.requests] == ["POST"]


# ---- only what filter offered


@pytest.mark.parametrize("offered", [("n2",), ()], ids=["another node", "no node"])
async def test_only_a_node_of_the_last_answer(offered: tuple[str, ...]) -> None:
    """Whatever an earlier answer said."""
    names = " || ".join(f'node.name == "{name}"' for name in offered) or "false"
    world = World(f'filter "these" {{ require pod.labels["app"] != "db" || {names} }}')
    world.create("a")
    world.hear("a")
    world.api.pods["shop/a"]["metadata"]["labels"]["app"] = "db"
    world.hear("a")
    with pytest.raises(RefusedError, match=r"filter has not offered node `n1` to the pod"):
        await world.bind("a", "n1")
    assert world.api.requests == []
    if offered:
        await world.bind("a", "n2")
        assert world.on("n2") == {"a"}


async def test_only_nodes_that_exist() -> None:
    world = World()
    for name in "ab":
        world.create(name, cpu="999")
    world.hear("a", "n1", "n9")
    world.cache.remove_node("n1")
    for name, node in (("a", "n9"), ("a", "n1"), ("b", "n9")):
        with pytest.raises(RefusedError, match=f"node `{node}` does not exist, or is not known"):
            await world.bind(name, node)
    assert world.api.bindings == []
    assert not list(world.cache.assumed())


# ---- pods without a known answer, as after a restart


async def test_a_pod_that_fits_is_bound_after_a_restart() -> None:
    world = World('filter "n1" { require node.name == "n1" message "not here" }')
    world.create("a", cpu="8")
    with pytest.raises(RefusedError, match="not here"):
        await world.bind("a", "n2")
    world.hear("a")
    await world.bind("a", "n1")
    [binding] = world.api.bindings
    assert binding["target"]["name"] == "n1"


@pytest.mark.parametrize(
    ("scheduler", "bound"), [("default-scheduler", True), ("second", True), ("other", False)]
)
async def test_only_pods_of_our_schedulers(scheduler: str, bound: bool) -> None:
    world = World()
    world.create("a", spec={"schedulerName": scheduler})
    if bound:
        await world.bind("a")
    else:
        text = (
            "the pod is for scheduler `other`, and Placet binds pods of `default-scheduler` and"
            " `second`: see --scheduler-name"
        )
        with pytest.raises(RefusedError, match=text):
            await world.bind("a")
    assert len(world.api.bindings) == bound
    if not bound:
        # A scheduler that asks filter about it is ours.
        world.hear("a")
        await world.bind("a")


GPU = {"overhead": {"example.com/gpu": "1"}}


@pytest.mark.parametrize(
    ("node", "wanted", "lacks"),
    [
        (builders.node("n1", cpu="5"), {"cpu": "3"}, ""),
        (builders.node("n1", cpu="5"), {"cpu": "3001m"}, "cpu"),
        (builders.node("n1"), {"cpu": "999"}, "cpu"),
        (builders.node("n1"), {"memory": "33Gi"}, "memory"),
        (builders.node("n1"), {"spec": GPU}, "example.com/gpu"),
        (builders.node("n1", pods="2"), {}, ""),
        (builders.node("n1", pods="1"), {}, "pods"),
        # The node has too little for the pod that is there, but this one wants none of it.
        (builders.node("n1", cpu="1"), {"cpu": "0"}, ""),
    ],
    ids=["fits", "a little too much", "999", "memory", "gpu", "pods", "no pods", "over-full"],
)
async def test_a_node_must_have_room_after_a_restart(
    node: builders.Object, wanted: dict[str, Any], lacks: str
) -> None:
    """n1 has a pod of 2 cpus."""
    world = World()
    world.cache.put_node(CODEC.node(builders.raw(node)))
    world.create("there", on="n1", cpu="2")
    world.create("a", **wanted)
    if lacks:
        with pytest.raises(RefusedError, match=f"node `n1` has not enough `{lacks}` left for the"):
            await world.bind("a")
        assert world.on("n1") == {"there"}
    else:
        await world.bind("a")
        assert world.on("n1") == {"there", "a"}


async def test_a_pod_with_an_unknown_outcome_has_room_for_itself() -> None:
    """After a lost answer it counts on the node already."""
    world = World()
    world.create("a", cpu="8")
    world.cache.assume(CODEC.peer(builders.raw(world.api.pods["shop/a"])), "n1", math.inf)
    await world.bind("a")
    assert world.on("n1") == {"a"}


async def test_a_pod_on_the_node_is_bound_already_though_the_node_is_gone() -> None:
    """C45: also after a restart, before a watch shows it."""
    world = World()
    world.create("a")
    world.api.pods["shop/a"]["spec"]["nodeName"] = "n9"
    await world.bind("a", "n9")
    assert world.api.bindings == []


async def test_an_answer_that_comes_meanwhile_counts() -> None:
    """The pod is fetched as filter is asked about it."""
    world = World()
    world.create("a", spec={"schedulerName": "other"})
    calls = asyncio.create_task(world.bind("a", "n2"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [method for method, _ in world.api.requests] == ["GET"]
    world.hear("a")
    await calls
    assert world.on("n2") == {"a"}


async def test_without_the_right_the_remedy_is_named() -> None:
    world = World()
    world.create("a")
    world.hear("a")
    world.api.faults.append("forbidden")
    text = "may not create pods/binding: run `kubectl apply -f deploy/rbac/bind/placet.yaml`"
    with pytest.raises(RefusedError, match=text):
        await world.bind("a")
    assert not list(world.cache.assumed())


# ---- outcomes that are not known


async def test_an_acknowledged_binding_is_certain_whatever_the_watch_shows() -> None:
    """A late watch shows the pod without a node for a while: it does not count as uncertain."""
    world = World()
    world.create("a")
    await world.bind("a")
    assert list(world.cache.assumed()) == []
    world.api.pods["shop/a"]["spec"].pop("nodeName")
    world.watch("a")
    assert list(world.cache.assumed()) == []
    assert world.on("n1") == {"a"}
    await world.bind("a")
    with pytest.raises(RefusedError, match="the pod is already on node `n1`"):
        await world.bind("a", "n2")


async def test_a_strict_spread_goes_on_before_the_watch_shows_anything() -> None:
    """Each pod needs the one before it for certain: they are bound one after the other."""
    web = 'pods where peer.labels["app"] == "web"'
    world = World(f'spread "s" {{ {web} over node.name skew at most 1 strict }}')
    for name in "abcdef":
        world.create(name)
        world.hear(name)
        answer = world.answers.find(f"uid-{name}")
        assert answer is not None
        offered = next(node for node in ("n1", "n2") if answer.offers(node))
        await world.bind(name, offered)
    assert [len(world.on(node)) for node in ("n1", "n2")] == [3, 3]


async def test_a_pod_that_bind_refuses_is_not_in_flight() -> None:
    """Else the others wait until a watch shows that kube-scheduler has given it up."""
    limit = 'limit "many" { pods where true per node at most 9 strict }'
    world = World(READY + limit)
    world.create("a")
    world.hear("a")
    assert len(world.engine.in_flight) == 1
    world.cache.put_node(CODEC.node(builders.raw(builders.node("n1", ready=False))))
    with pytest.raises(RefusedError, match="the node is leaving"):
        await world.bind("a")
    assert len(world.engine.in_flight) == 0


async def test_bind_looks_at_pods_that_are_there_and_at_no_offers() -> None:
    """Offers of pods that never come would keep others from their nodes for ever."""
    world = World(
        'limit "one" { pods where peer.labels["app"] == "web" per node at most 1 strict }'
    )
    for name in ("a", "b"):
        world.create(name)
    world.hear("a", "n1")
    world.hear("b", "n2")
    world.engine.in_flight.offer(
        AskedPod("uid-x", lambda: CODEC.peer(builders.raw(world.api.pods["shop/b"])), 1),
        world.cache.snapshot().table,
        world.cache.snapshot().table.find(["n1"]),
        1,
        is_narrow=False,
    )
    await world.bind("a", "n1")
    assert world.on("n1") == {"a"}


async def test_a_binding_that_counts_admit_ends_with_the_term() -> None:
    """The next leader must not find it when it has already listed the pods."""
    world = World(SHARE)
    world.leads_for = 0.2
    for name in "abc":
        world.create(name)
        world.hear(name)
    world.api.faults.extend(["deaf"] * 50)
    began = world.clock()
    with pytest.raises(ApiUnreachableError):
        await world.bind("a", "n2", seconds=30.0)
    assert world.clock() - began < 20.0
    await world.binder.idle()


async def test_no_binding_is_sent_again_once_the_lease_is_lost() -> None:
    """It is lost before its time when somebody deletes it, and when it is handed over."""
    world = World(SHARE)
    world.leads_for = 9.0
    for name in "abc":
        world.create(name)
        world.hear(name)
    world.api.faults.extend(["busy"] * 2)
    binding = asyncio.create_task(world.bind("a", "n2", seconds=5.0))
    await fake_clock.until(lambda: bool(world.api.requests))
    world.leads_for = -math.inf
    with pytest.raises(ApiError, match="slow down"):
        await binding
    assert not world.api.bindings
    assert world.on("n2") == set()


# ---- outcomes that are not known


@pytest.mark.parametrize("acted", [True, False], ids=["bound", "not bound"])
async def test_a_pod_counts_while_its_outcome_is_unknown(acted: bool) -> None:
    world = World()
    world.create("a")
    world.hear("a")
    if acted:
        world.api.faults.append("lost")
    world.api.faults.extend(["lost"] * 9 if acted else ["broken"] * 9)
    with pytest.raises(ApiUnreachableError, match="it is not known yet whether the pod was bound"):
        await world.bind("a", seconds=0.05)
    assert world.on("n1") == {"a"}
    world.api.faults.clear()
    await asyncio.sleep(1.2)
    assert world.on("n1") == ({"a"} if acted else set())
    assert list(world.cache.assumed()) == []
    await world.binder.idle()


@pytest.mark.parametrize("another", ["", "n2"], ids=["gone", "another one has its name"])
async def test_a_pod_that_is_gone_with_its_outcome_unknown_is_forgotten(another: str) -> None:
    world = World()
    world.create("a")
    world.hear("a")
    world.api.faults.extend(["broken"] * 9)
    with pytest.raises(ApiUnreachableError):
        await world.bind("a", seconds=0.05)
    world.api.faults.clear()
    del world.api.pods["shop/a"]
    if another:
        world.api.put(builders.pod("a", "shop", on=another))
    await asyncio.sleep(1.2)
    assert world.on("n1") == set()
    asked = len(world.api.requests)
    await asyncio.sleep(10.0)
    assert len(world.api.requests) == asked, "nobody looks for it any more"


@pytest.mark.parametrize("again", [False, True], ids=["once", "bound again"])
@pytest.mark.parametrize("seen", [False, True], ids=["missed", "seen"])
async def test_a_bound_pod_that_no_watch_shows_counts_until_it_is_gone(
    seen: bool, again: bool
) -> None:
    """A watch that missed a pod cannot tell that it was deleted."""
    world = World()
    world.create("a")
    if not seen:
        world.cache.remove_pod("shop/a")
    world.hear("a")
    await world.bind("a")
    if again:
        await world.bind("a")
    following = asyncio.create_task(world.binder.follow())
    await asyncio.sleep(25.0)
    assert world.on("n1") == {"a"}, "it is there"

    del world.api.pods["shop/a"]
    world.api.faults.append("deaf")
    await asyncio.sleep(25.0)

    assert world.on("n1") == ({"a"} if seen else set())
    following.cancel()


async def test_another_pod_under_the_name_of_one_that_is_gone_counts() -> None:
    world = World()
    world.create("a")
    world.cache.remove_pod("shop/a")
    world.hear("a")
    await world.bind("a")
    following = asyncio.create_task(world.binder.follow())
    world.api.pods["shop/a"]["metadata"]["uid"] = "uid-later"
    world.watch("a")
    await asyncio.sleep(25.0)
    assert world.on("n1") == {"a"}
    following.cancel()


async def test_a_refusal_gives_the_slot_back() -> None:
    world = World()
    world.create("a")
    world.api.pods["shop/a"]["spec"]["nodeName"] = "n2"
    with pytest.raises(RefusedError):
        await world.bind("a")
    assert world.on("n1") == set()


_CALLS = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(["n1", "n2"]), st.integers(0, 3)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=examples(30))
@given(
    calls=_CALLS,
    faults=st.lists(st.sampled_from(["", "", "lost", "deaf", "busy", "broken"]), max_size=12),
)
def test_exactly_one_binding(calls: list[tuple[str, str, int]], faults: list[Fault]) -> None:
    """Duplicate, concurrent, lost and repeated calls: one Binding a pod, and success is true."""

    async def play() -> None:
        world = World()
        for name in "ab":
            world.create(name)
        world.api.faults.extend(faults)

        async def call(name: str, node: str, turns: int) -> str | None:
            for _ in range(turns):
                await asyncio.sleep(0)
            try:
                await world.bind(name, node, seconds=0.15)
            except EngineError:
                return None
            return node

        outcomes = await asyncio.gather(*(call(*each) for each in calls))
        bound = {b["metadata"]["name"]: b["target"]["name"] for b in world.api.bindings}
        assert len(bound) == len(world.api.bindings)
        for (name, _, _), node in zip(calls, outcomes, strict=True):
            assert node is None or bound[name] == node
        world.api.faults.clear()
        await world.binder.idle()

    fake_clock.run(play())
