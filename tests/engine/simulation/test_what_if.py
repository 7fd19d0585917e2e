"""Nodes that come and nodes that are drained, on a copy of a cluster, which leaves no trace."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

import msgspec
import pytest

from engine.cache.cache import Cache
from engine.cache.cluster_copy import ClusterCopy, copied
from engine.decision.verdict import Feasible
from engine.engine import Engine
from engine.objects.disruption_budget import decode_budget
from engine.simulation.cycle import SimulationOptions
from engine.simulation.pod_list import PodReader, pods_in
from engine.simulation.result import SimulationAnswer, result
from engine.simulation.what_if import NodesToAdd, WhatIf, prepared
from engine.work import finished
from grammar.messages.diagnostics import UserError
from tests.support.books import examples
from tests.support.builders import Object, controller, kubectl_list, node, pod, raw
from tests.support.engines import CODEC, NOW, cache_of, engine_over, registry_of

TYPE = "node.kubernetes.io/instance-type"
DEPLOYMENT = controller("Deployment", "web", replicas=3)
DAEMONS = controller("DaemonSet", "agent")
SPREAD = """
policy web {
  for pods where pod.labels["app"] == "web"
  limit "two" { pods where peer.labels["app"] == "web" per node at most 2 strict }
}
"""


def web(name: str, on: str | None = None, cpu: str = "1") -> Object:
    return pod(name, cpu=cpu, on=on, labels={"app": "web"}, owner=DEPLOYMENT)


def asked(
    cache: Cache,
    policies: str = "",
    pods: Sequence[Object] = (),
    *,
    there: Sequence[Object] = (),
    drain: Sequence[str] = (),
    add: Sequence[NodesToAdd] = (),
    most: int = 1000,
    plugins: bool = True,
) -> SimulationAnswer:
    """The answer about a copy of the cache; `there` has the pods on its nodes."""
    cluster = ClusterCopy(finished(copied(cache)), read_at=NOW)
    bodies = {f"default/{p['metadata']['name']}": raw(p) for p in there}
    given = pods_in([raw(kubectl_list(pods))], PodReader(Path("pods"))) if pods else None
    options = SimulationOptions(most=most, plugins=plugins)
    change = WhatIf(add, drain, bodies)
    ready = finished(prepared(cluster, CODEC, registry_of(policies), given, options, change))
    return result(ready.simulation, ready.changed)


def where(answer: SimulationAnswer) -> Mapping[str, str | None]:
    return {each.pod.partition("/")[2]: each.node for each in answer.pods}


# ---- the copy


def test_a_copy_has_the_cluster_and_goes_its_own_way() -> None:
    there = [web("web-1", "n-1"), web("web-2"), web("stray", "gone"), pod("bare", on="n-2")]
    cache = cache_of([node("n-1"), node("n-2")], there)
    cache.budgets["default/b"] = decode_budget(raw({"metadata": {"name": "b"}}))
    before = cache.snapshot()
    copy = finished(copied(cache))
    made = copy.snapshot()
    assert made.pods() == before.pods()
    assert (made.pending, made.strays) == (before.pending, before.strays)
    assert made.nodes == before.nodes
    assert made.budgets == before.budgets
    assert {each.uid: each for each in copy.every()} == {each.uid: each for each in cache.every()}
    copy.put_pod(msgspec.structs.replace(before.pending["default/web-2"], nodeName="n-2"))
    copy.remove_pod("default/web-1")
    copy.remove_node("n-1")
    assert set(copy.snapshot().nodes) == {"n-2"}
    assert [p.name for p in copy.snapshot().nodes["n-2"].pods or ()] == ["bare", "web-2"]
    assert cache.snapshot() is before
    assert before.pods().keys() == {f"default/{n}" for n in ("web-1", "web-2", "stray", "bare")}


def test_a_copy_is_of_one_moment_however_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.cache.cluster_copy._PER_PORTION", 1)
    cache = cache_of([node("n-1")], [pod(f"p-{i}", on="n-1") for i in range(5)])
    work, keys = copied(cache), set(cache.snapshot().pods())
    next(work)
    cache.remove_pod("default/p-4")
    cache.remove_node("n-1")
    copy = finished(work)
    assert set(copy.snapshot().pods()) == keys
    assert set(copy.snapshot().nodes) == {"n-1"}


# ---- nodes that come


def test_a_new_node_is_like_its_template() -> None:
    like = node("n-1", "a", cpu="2", labels={TYPE: "m5.large", "pool": "spot"})
    like["spec"]["taints"] = [
        {"key": "team", "value": "x", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
    ]
    agent = pod("agent-1", cpu="500m", on="n-1", owner=DAEMONS)
    cache = cache_of([like], [agent, pod("full", cpu="1500m", on="n-1")])
    waiting = web("web-1")
    waiting["spec"]["tolerations"] = [{"key": "team", "operator": "Exists"}]
    for template in ("n-1", "m5.large", "pool=spot"):
        found = asked(cache, "", [waiting, web("web-2")], add=[NodesToAdd(template, 2)])
        name = f"{template.replace('=', '-')}-new-1"
        assert found.added == [name, name.replace("-new-1", "-new-2")]
        assert where(found) == {"web-1": name, "web-2": None}
        # Of the two cores of each, the pod of the DaemonSet takes a half.
        assert found.allocation["cpu"].requested == 2000 + 2 * 500 + 1000
    assert set(cache.snapshot().nodes) == {"n-1"}


def test_a_template_is_the_best_node_of_its_type() -> None:
    cordoned = node("a", cpu="1", labels={TYPE: "large"}, unschedulable=True)
    cache = cache_of([cordoned, node("b", cpu="4", labels={TYPE: "large"})])
    found = asked(cache, "", [web("web-1", cpu="3")], drain=["b"], add=[NodesToAdd("large", 1)])
    assert where(found) == {"web-1": None}, "one that is drained is taken last"
    found = asked(cache, "", [web("web-1", cpu="3")], add=[NodesToAdd("large", 1)])
    assert where(found) == {"web-1": "b"}


def test_a_manifest_is_a_template() -> None:
    like = node("like", cpu="16")
    cache = cache_of([node("big-new-1", cpu="1")])
    found = asked(cache, "", [web("web-1", cpu="9")], add=[NodesToAdd("Big.yaml", 1, like)])
    assert where(found) == {"web-1": "big.yaml-new-1"}


@pytest.mark.parametrize(
    ("add", "message", "hint"),
    [
        (
            NodesToAdd("m5.larg", 1),
            "no node is called `m5.larg`, and none is of such a type or pool",
            "a similar name exists: `m5.large`",
        ),
        (
            NodesToAdd("pool=x", 1),
            "no node has the label `pool=x`",
            "there is `m5.large`, `n-1`",
        ),
        (
            NodesToAdd("f.json", 1, pod("p")),
            "`f.json` is not a node, but a Pod",
            "give the manifest of a node, as `kubectl get node NAME -o json` writes it",
        ),
    ],
)
def test_a_template_that_is_none(add: NodesToAdd, message: str, hint: str) -> None:
    cache = cache_of([node("n-1", labels={TYPE: "m5.large"})])
    with pytest.raises(UserError) as raised:
        asked(cache, "", [web("web-1")], add=[add])
    assert (raised.value.message, raised.value.hint) == (message, hint)


# ---- nodes that go


def test_pods_of_drained_nodes_go_elsewhere_under_the_policies() -> None:
    there = [web("web-1", "n-1"), web("web-2", "n-1"), web("web-3", "n-2")]
    cache = cache_of([node("n-1"), node("n-2"), node("n-3", cpu="1")], there)
    found = asked(cache, SPREAD, there=there, drain=["n-1"])
    assert where(found) == {"web-1": "n-2", "web-2": "n-3"}
    assert found.summary == "all 2 pods of 1 node find a place"
    assert {each.leaves for each in found.pods} == {"n-1"}
    found = asked(cache, SPREAD, there=there, drain=["n-1", "n-3"])
    assert where(found) == {"web-1": "n-2", "web-2": None}
    assert found.summary == "1 of 2 pods of 2 nodes finds no place: default/web-2"
    (last,) = [each for each in found.pods if each.node is None]
    assert last.nearest is not None
    assert last.nearest.node == "n-2"
    assert last.nearest.reasons == ["web: two"]
    assert last.reasons["node(s) were unschedulable"] == 2


def test_pods_that_no_controller_moves_are_named() -> None:
    mirror = pod("proxy", on="n-1")
    mirror["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Node", "name": "n-1", "uid": "n", "controller": True}
    ]
    there = [
        pod("agent", on="n-1", owner=DAEMONS),
        mirror,
        pod("bare", on="n-1"),
        pod("going", on="n-1", deleted="2026-11-21T10:00:00Z"),
        web("web-1", "n-1"),
    ]
    cache = cache_of([node("n-1"), node("n-2")], there)
    budget = {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"disruptionsAllowed": 0},
    }
    cache.budgets["default/web"] = decode_budget(raw(budget))
    found = asked(cache, there=there, drain=["n-1"])
    assert where(found) == {"web-1": "n-2"}
    assert found.drained is not None
    assert [(each.pod, each.node, each.why) for each in found.drained.left] == [
        ("default/agent", "n-1", "it is of a DaemonSet"),
        ("default/proxy", "n-1", "it is a mirror pod"),
        ("default/bare", "n-1", "no controller makes it anew"),
    ]
    assert found.drained.budgets is not None
    assert [(b.budget, b.allowed, b.pods) for b in found.drained.budgets] == [("default/web", 0, 1)]
    assert found.summary == ("the pod of 1 node finds a place; no controller makes 1 pod anew")


def test_no_pod_goes_back_to_a_drained_node() -> None:
    stubborn = web("web-1", "n-1")
    stubborn["spec"]["tolerations"] = [{"operator": "Exists"}]
    cache = cache_of([node("n-1"), node("n-2", cpu="100m")], [stubborn])
    found = asked(cache, there=[stubborn], drain=["n-1"])
    assert where(found) == {"web-1": None}
    nearest = found.pods[0].nearest
    assert nearest is not None
    assert (nearest.node, nearest.reasons) == ("n-2", ["Insufficient cpu"])


def test_what_cannot_be_drained_and_how_much() -> None:
    there = [web(f"web-{i}", "n-1") for i in range(3)]
    cache = cache_of([node("n-1"), node("n-2")], there)
    with pytest.raises(UserError) as raised:
        asked(cache, drain=["n-3"])
    assert raised.value.message == "there is no node `n-3`"
    assert raised.value.hint == "there is `n-1`, `n-2`"
    with pytest.raises(UserError, match="`drain` has more than 2 pods"):
        asked(cache, there=there, drain=["n-1"], most=2)
    found = asked(cache_of([node("n-1")]), drain=["n-1"])
    assert (found.summary, found.pods) == ("no pod has to leave 1 node", [])


# ---- the answer is that of filter and prioritize


@pytest.mark.parametrize("seed", range(examples(40)))
def test_pods_go_where_the_verbs_say_when_they_come_one_after_the_other(seed: int) -> None:
    """The engine is asked about each pod, which is then put where its answer says."""
    random = Random(seed)
    policies = SPREAD + (
        'policy db { for pods where pod.labels["app"] == "db" '
        'filter "a" { require node.zone == "a" } '
        'score "pack" weight 1 { value node.usage["cpu"] range 0 .. 1 } }'
    )
    nodes = [node(f"n-{i}", random.choice("ab"), cpu=random.choice("24")) for i in range(5)]
    there = [web(f"old-{i}", f"n-{random.randrange(5)}", "500m") for i in range(4)]
    apps = "web", "db"
    queue = [
        pod(f"p-{i}", cpu=random.choice(("500m", "1")), labels={"app": random.choice(apps)})
        for i in range(12)
    ]
    cache = cache_of(nodes, there)
    live = engine_over(policies, cache)
    before, in_flight = cache.snapshot(), len(live.in_flight)
    found = where(asked(cache, policies, queue, plugins=False))
    assert cache.snapshot() is before
    assert len(live.in_flight) == in_flight
    # The queue waits from the start, as pods that come together do.
    cache.add_event_handler(live.in_flight.pod_changed)
    for each in queue:
        cache.put_pod(CODEC.peer(raw(each)), body=raw(each))
    for each in queue:
        assert found[each["metadata"]["name"]] == decided(live, cache, each)


def decided(live: Engine, cache: Cache, each: Object) -> str | None:
    """The node that the verbs choose among those with room, where the pod is then."""
    peer, body, views = CODEC.peer(raw(each)), raw(each), cache.snapshot().nodes
    names = [
        name
        for name in sorted(views)
        if (free := views[name].free) is not None and free["cpu"] >= peer.requests["cpu"]
    ]
    verdicts = live.filter(body, names, None, math.inf) if names else ()
    passing = [n for n, v in zip(names, verdicts, strict=True) if isinstance(v, Feasible)]
    if not passing:
        return None
    scores = live.prioritize(body, passing, None, math.inf)
    points = [0] * len(passing) if scores is None else scores.points.tolist()
    best = passing[points.index(max(points))]
    cache.put_pod(msgspec.structs.replace(peer, nodeName=best, phase="Running"))
    return best
