"""Survey: which pods have drifted, the fewest of them, why, and where they could go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from engine.cache.cache import Cache
from engine.cards.node_cards import TAKEN, Taken, annotation
from engine.drift.drift_document import DriftDocument
from engine.drift.survey import Survey, answered
from engine.enforced import enforced
from engine.engine import Engine
from engine.errors import ExpensivePolicyError
from engine.objects.peer import decode_controller
from engine.objects.request_pod import Exemptions, ObjectCodec
from grammar.tree.source import Source
from grammar.values.time import Timestamp
from policies.validation import Validator
from tests.support.builders import Object, controller, node, pod, raw
from tests.support.engines import (
    SCHEMA,
    Known,
    Silent,
    cache_of,
    engine_over,
    node_of,
    peer_of,
    registry_of,
)

WEB = controller("ReplicaSet", "web", replicas=10)
SHARE = """
policy web {
  for pods where pod.labels["app"] == "web"
  share "spot" {
    pods where peer.labels["app"] == "web" on nodes where node.labels["spot"] == "yes"
    at most 40% strict
  }
}
"""
SPOT, OTHER = {"spot": "yes"}, {"spot": "no"}


class World:
    """A cluster whose pods the test changes, and the surveys of it."""

    def __init__(self, policies: str, nodes: Iterable[Object], pods: Iterable[Object]) -> None:
        self.bodies: dict[str, bytes] = {}
        self.cache: Cache = cache_of(nodes)
        self.cache.put_controller(decode_controller("ReplicaSet", raw(WEB)))
        for each in pods:
            self.put(each)
        self.engine: Engine = engine_over(policies, self.cache)
        self.asked: list[str] = []
        self.ticks = 0
        self.survey = Survey("a", self.engine, Known(self.cache), self._clock)

    def _clock(self) -> float:
        self.ticks += 1
        return self.ticks / 1000

    def put(self, made: Object) -> None:
        meta = made["metadata"]
        self.bodies[f"{meta['namespace']}/{meta['name']}"] = raw(made)
        self.cache.put_pod(peer_of(made))

    def remove(self, key: str) -> None:
        self.cache.remove_pod(key)
        del self.bodies[key]

    def look(self) -> DriftDocument:
        return answered(self.survey.look(), self._pod)

    def _pod(self, key: str) -> bytes | None:
        self.asked.append(key)
        return self.bodies.get(key)


def web(number: int, on: str, **more: object) -> Object:
    more = {"labels": {"app": "web"}, "owner": WEB, **more}
    created = f"2026-11-21T10:00:{number:02}Z"
    return pod(f"web-{number}", on=on, created=created, **more)  # type: ignore[arg-type]


def spot_nodes() -> list[Object]:
    return [
        *(node(f"s{number}", labels=SPOT) for number in range(2)),
        *(node(f"d{number}", labels=OTHER) for number in range(2)),
    ]


def names(found: DriftDocument) -> list[str]:
    return [each.pod.removeprefix("default/") for each in found.pods]


def test_a_share_names_the_fewest_and_youngest_pods() -> None:
    world = World(SHARE, spot_nodes(), [web(n, f"s{n % 2}") for n in range(10)])
    found = world.look()
    assert names(found) == [f"web-{number}" for number in (9, 8, 7, 6, 5, 4)]
    assert {tuple(each.places) for each in found.pods} == {("d0", "d1")}
    assert world.asked == ["default/web-0", *(each.pod for each in found.pods)]
    world.look()
    assert len(world.asked) == 7, "each that breaks a rule is read once"
    (clause,) = found.clauses
    assert (clause.policy, clause.clause, clause.kind) == ("web", "spot", "share")
    assert (clause.pods, clause.movable, clause.stuck) == (6, 6, 0)


def test_a_bound_that_holds_names_nobody() -> None:
    pods = [web(n, "s0" if n < 4 else "d0") for n in range(10)]
    found = World(SHARE, spot_nodes(), pods).look()
    assert (found.pods, found.looked, found.problem) == ([], 10, "")


def test_without_room_as_many_are_named_and_the_reason() -> None:
    nodes = [*spot_nodes()[:2], node("d0", cpu="1", labels=OTHER)]
    pods = [web(n, f"s{n % 2}", cpu="1") for n in range(10)]
    found = World(SHARE, nodes, pods).look()
    assert len(found.pods) == 6
    placed = [each for each in found.pods if each.places]
    assert [each.order for each in placed] == [1], "one has room there, and then it is full"
    text = "Insufficient cpu, on 1 of 1 nodes that its policies allow"
    assert {each.reason for each in found.pods[1:]} == {text}
    assert found.clauses[0].stuck == 5


def test_a_spread_moves_no_more_than_it_must() -> None:
    text = """
    policy web {
      for pods where pod.labels["app"] == "web"
      spread "zones" { over node.zone skew at most 1 strict }
    }
    """
    nodes = [node("a", "a"), node("b", "b"), node("c", "c", cpu="1")]
    found = World(text, nodes[:2], [web(n, "a") for n in range(10)]).look()
    assert len(found.pods) == 5
    assert {tuple(each.places) for each in found.pods} == {("b",)}
    # Where the other zone has no room, the same pods are named.
    full = [nodes[0], nodes[2]]
    stuck = World(text, full, [web(n, "a", cpu="2", memory="1Gi") for n in range(4)]).look()
    assert (len(stuck.pods), stuck.clauses[0].stuck) == (2, 2)


def test_a_limit_names_those_beyond_it() -> None:
    text = """
    policy web {
      for pods where pod.labels["app"] == "web"
      limit "two" { per node at most 2 strict }
    }
    """
    found = World(text, [node("a"), node("b")], [web(n, "a") for n in range(4)]).look()
    assert names(found) == ["web-3", "web-2"]
    assert found.clauses[0].kind == "limit"


def test_a_filter_is_asked_about_the_node_without_the_pod() -> None:
    text = """
    policy web {
      for pods where pod.labels["app"] == "web"
      filter "room" { require node.free["cpu"] >= pod.requests["cpu"] }
      filter "ready" { require node.ready }
    }
    """
    world = World(text, [node("a", cpu="1"), node("b")], [web(0, "a", cpu="1")])
    assert not world.look().pods, "it has the room that it takes"
    world.cache.put_node(node_of(node("a", cpu="1", ready=False)))
    (one,) = world.look().pods
    (broken,) = one.clauses
    assert (broken.clause, broken.kind) == ("ready", "filter")
    assert one.places == ["b"]


def test_what_changes_makes_pods_drift_from_then_on() -> None:
    nodes = [node("a", labels={"gpu": "yes"}), node("b", labels={"gpu": "yes"})]
    text = """
    policy web {
      for pods where pod.labels["app"] == "web"
      filter "gpu" { require node.labels["gpu"] == "yes" }
      share "spot" {
        pods where peer.labels["app"] == "web" on nodes where node.name == "b"
        at most 50% strict
      }
    }
    """
    world = World(text, nodes, [web(0, "a"), web(1, "a"), web(2, "b"), web(3, "b")])
    assert not world.look().pods
    world.cache.put_node(node_of(node("a", labels={"gpu": "no"})))
    found = world.look()
    assert {c.clause for p in found.pods for c in p.clauses} == {"gpu"}
    assert names(found)[:2] == ["web-1", "web-0"]
    since = found.pods[0].clauses[0].since
    assert world.look().pods[0].clauses[0].since == since
    world.cache.put_node(node_of(nodes[0]))
    assert not world.look().pods
    world.remove("default/web-0")
    world.remove("default/web-1")
    (one,) = world.look().pods
    assert [each.clause for each in one.clauses] == ["spot"]
    world.engine.adopt(registry_of(text.replace("50%", "0%")))
    assert len(world.look().pods) == 2
    world.put(web(5, "b"))
    assert "web-5" in names(world.look())


def test_a_pod_that_changes_its_labels() -> None:
    text = """
    policy web {
      for pods where pod.labels["app"] == "web"
      filter "tier" { require node.labels["tier"] == pod.labels["tier"] }
    }
    """
    labels = {"app": "web", "tier": "a"}
    nodes = [node("a", labels={"tier": "a"}), node("b", labels={"tier": "b"})]
    world = World(text, nodes, [web(0, "a", labels=labels)])
    assert not world.look().pods
    world.put(web(0, "a", labels=labels | {"tier": "b"}))
    (one,) = world.look().pods
    assert one.places == ["b"]


def test_gangs_that_are_torn_apart() -> None:
    text = """
    policy web {
      for pods where pod.labels["app"] == "web"
      gang "rack" { of replicas at least 3 within node.labels["rack"] }
    }
    """
    nodes = [node("a", labels={"rack": "1"}), node("b", labels={"rack": "2"})]
    world = World(text, nodes, [web(0, "a"), web(1, "a"), web(2, "b")])
    (one,) = world.look().pods
    assert (one.pod, one.clauses[0].kind) == ("default/web-2", "gang")
    assert one.clauses[0].text == "2 of 3 members share another value"
    assert not one.moves


GANG = """
policy web {
  for pods where pod.labels["app"] == "web"
  gang "all" { of pods by peer.labels["app"] at least 3 }
}
"""


def test_gangs_that_have_lost_members() -> None:
    world = World(GANG, [node("a")], [web(0, "a"), web(1, "a")])
    assert not world.look().pods, "it is only beginning"
    world.put(web(2, "a"))
    assert not world.look().pods
    world.remove("default/web-0")
    found = world.look()
    assert names(found) == ["web-1", "web-2"]
    (broken,) = found.pods[0].clauses
    assert broken.text == "2 of 3 members that are placed together have nodes"
    assert (broken.kind, found.pods[0].moves) == ("gang", False)
    world.put(web(3, "a"))
    assert not world.look().pods


def test_what_could_not_be_looked_at_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a survey without time, pods drift since when they did, and a gang was whole."""
    world = World(SHARE, spot_nodes(), [web(n, f"s{n % 2}") for n in range(10)])
    at = ["2026-11-21T10:00:00Z"]
    cache = Known(world.cache)
    world.survey = Survey("a", world.engine, cache, lambda: 0.0, lambda: Timestamp.parse(at[0]))
    assert len(world.look().pods) == 6
    at[0] = "2026-11-21T11:00:00Z"

    def no_time(*_: object) -> None:
        raise ExpensivePolicyError("web")

    with monkeypatch.context() as patched:
        patched.setattr(world.engine.moves, "suspects", no_time)
        assert (world.look().pods, len(world.look().skipped)) == ([], 1)
    again = {clause.since for each in world.look().pods for clause in each.clauses}
    assert again == {"2026-11-21T10:00:00Z"}
    gang = World(GANG, [node("a")], [web(n, "a") for n in range(3)])
    assert not gang.look().pods
    with monkeypatch.context() as patched:
        patched.setattr(gang.engine.moves, "suspects", no_time)
        assert gang.look().skipped
    gang.remove("default/web-0")
    assert names(gang.look()) == ["web-1", "web-2"]


def test_members_of_a_job_may_have_done_its_work() -> None:
    job = controller("Job", "train")
    world = World(GANG, [node("a")], [web(number, "a", owner=job) for number in range(3)])
    world.look()
    world.remove("default/web-0")
    assert not world.look().pods
    world.put(web(3, "", owner=job))
    assert names(world.look()) == ["web-1", "web-2"], "one is to come in its place"


def kept_of(**more: object) -> Sequence[str]:
    world = World(SHARE.replace("40%", "0%"), spot_nodes(), [web(0, "s0", **more)])
    return [each.kept for each in world.look().pods]


KEEPING = [
    ("karpenter.sh/do-not-disrupt", "true"),
    ("karpenter.sh/do-not-disrupt", "30m"),
    ("karpenter.sh/do-not-evict", "true"),
    ("descheduler.alpha.kubernetes.io/prefer-no-eviction", "true"),
    ("descheduler.alpha.kubernetes.io/prefer-no-eviction", ""),
]


def test_some_pods_are_kept() -> None:
    key = "cluster-autoscaler.kubernetes.io/safe-to-evict"
    local = {"volumes": [{"name": "data", "emptyDir": {}}]}
    assert kept_of() == [""]
    assert kept_of(owner=None) == ["no controller makes it anew"]
    assert kept_of(owner=controller("DaemonSet", "web")) == ["it is of a DaemonSet"]
    assert kept_of(owner=controller("Node", "s0")) == ["it is a mirror pod"]
    assert kept_of(annotations={key: "false"}) == [f"`{key}` is false"]
    for other, value in KEEPING:
        assert kept_of(annotations={other: value}) == [f"`{other}` is {value}"]
    assert kept_of(annotations={"karpenter.sh/do-not-disrupt": "false"}) == [""]
    assert kept_of(spec=local) == ["it has local data"]
    assert kept_of(spec=local, annotations={key: "true"}) == [""]


PART = """
policy web {
  for pods where pod.labels["app"] == "web"
  filter "other" { require node.labels["spot"] == (has(pod.annotations["spot"]) ? "yes" : "no") }
}
"""
LOCAL_DATA = {"volumes": [{"name": "data", "emptyDir": {}}]}


@pytest.mark.parametrize("number", [0, 3])
@pytest.mark.parametrize(
    ("more", "drifted", "moved"),
    [
        ({"annotations": {"placet.dev/repair": "off"}}, 4, 3),
        ({"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, 4, 3),
        ({"annotations": {"placet.dev/bypass": "an experiment"}}, 3, 3),
        ({"annotations": {"spot": "a rule reads it"}}, 3, 3),
        ({"spec": LOCAL_DATA}, 4, 3),
    ],
)
def test_what_holds_for_one_pod_of_a_template_is_said_of_it_alone(
    number: int, more: dict[str, object], drifted: int, moved: int
) -> None:
    pods = [web(n, "s0", **(more if n == number else {})) for n in range(4)]
    policies = enforced(Validator(SCHEMA).validate([Source("p.policy", PART)], []))
    cache = cache_of(spot_nodes())
    codec = ObjectCodec(SCHEMA, policies.needs.annotations)
    exemptions = Exemptions(by_annotation=True)
    engine = Engine(policies.registry, Known(cache), codec, Silent(), exemptions=exemptions)
    bodies = {f"default/{each['metadata']['name']}": raw(each) for each in pods}
    for each in bodies.values():
        cache.put_pod(codec.peer(each))
    found = answered(Survey("a", engine, Known(cache), lambda: 0.0).look(), bodies.get)
    assert (len(found.pods), sum(each.moves for each in found.pods)) == (drifted, moved)
    others = {f"default/web-{n}" for n in range(4)} - {f"default/web-{number}"}
    assert {each.pod for each in found.pods if each.moves} == others


def test_steps_are_short_and_pods_that_go_meanwhile_are_left_out() -> None:
    world = World(SHARE, spot_nodes(), [web(n, f"s{n % 2}") for n in range(10)])
    steps = world.survey.look()
    wanted = next(steps)
    while wanted is None:
        wanted = next(steps)
    body: bytes | None = world.bodies["default/web-0"]
    for number in range(5):
        world.remove(f"default/web-{number}")
    try:
        while True:
            wanted = steps.send(body)
            body = world.bodies.get(wanted) if wanted is not None else None
    except StopIteration as end:
        found = end.value
    assert names(found) == ["web-9", "web-8", "web-7"], "two of five may stay"


def test_a_pod_with_a_number_beyond_64_bits_is_left_out() -> None:
    """The next pod of the template is read in its place."""
    world = World(SHARE, spot_nodes(), [web(n, f"s{n % 2}") for n in range(10)])
    key = "default/web-0"
    world.bodies[key] = world.bodies[key].replace(
        b'"status":{', b'"status":{"x":' + b"7" * 5000 + b","
    )
    assert b"777" in world.bodies[key]
    assert len(names(world.look())) == 6


def test_pods_on_cards_that_are_gone() -> None:
    text = """
    policy gpu {
      for pods where "milli" in pod.annotations
      cards "gpu" {
        on node int(node.labels["cards"]) of {"milli": 1000}
        take {"milli": int(pod.annotations["milli"])}
      }
    }
    """
    taken = annotation({"gpu": Taken((1,), {"milli": 600})})
    annotations = {"milli": "600", TAKEN: taken}
    nodes = [node(name, labels={"cards": "2"}) for name in ("a", "b")]
    world = World(text, nodes, [one := web(0, "a", annotations=annotations)])
    codec = ObjectCodec(SCHEMA, frozenset(annotations))
    world.cache.put_pod(codec.peer(raw(one)))
    assert not world.look().pods
    world.cache.put_node(node_of(node("a", labels={"cards": "1"})))
    (found,) = world.look().pods
    (broken,) = found.clauses
    assert (broken.kind, broken.clause) == ("cards", "gpu")
    assert (broken.text, found.places) == ("it is on a card that its node does not have", ["b"])
