"""Gang of one pod: the members that people see, and what they wait for."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest

from engine.cache.cache import Cache
from engine.engine import Engine
from engine.gangs.gang import GangMember, GangOfPod
from engine.objects.peer import key_of
from engine.program.policy_time import DecisionTime
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import NOW, cache_of, engine_over, peer_of

MEMBERS = "example.com/members"
POLICY = f"""
policy gangs {{
  for pods where "job" in pod.labels
  gang "together" {{
    of pods by peer.labels["job"]
    at least int(pod.annotations["{MEMBERS}"])
    within node.labels["rack"]
    for at most 30s
  }}
}}
"""
NODES = [node(f"n{i}", cpu="2", labels={"rack": f"r{i // 2}"}) for i in range(4)]


def member(job: str, number: int, size: int) -> Object:
    return pod(f"{job}-{number}", cpu="1", labels={"job": job}, annotations={MEMBERS: str(size)})


@dataclass
class Seconds:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class World:
    """An engine over nodes in two racks, and pods that come one after another."""

    clock: Seconds = field(default_factory=Seconds)
    cache: Cache = field(default_factory=lambda: cache_of(NODES))
    engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        time = DecisionTime(self.clock, lambda: NOW)
        self.engine = engine_over(POLICY, self.cache, time=time)
        self.cache.add_event_handler(self.engine.gangs.pod_changed)

    def create(self, *pods: Object) -> None:
        for each in pods:
            self.cache.put_pod(peer_of(each), body=raw(each))

    def ask(self, asked: Object) -> list[str]:
        names = sorted(self.cache.snapshot().table.rows)
        decided = self.engine.filter(raw(asked), names, None, math.inf)
        return [name for name, code in zip(names, decided.codes, strict=True) if not code]

    def hold(self, asked: Object, place: str) -> list[str]:
        """Holds the bind call of a member; the list gets how that ends."""
        assert self.engine.admit(raw(asked), place, math.inf).waits
        peer, ended = peer_of(asked), list[str]()
        self.cache.assume(peer, place, math.inf)

        def end(reason: str) -> None:
            ended.append(reason)
            self.cache.forget(key_of(peer))

        self.engine.gangs.hold(peer.uid, end)
        return ended

    def gang(self, asked: Object) -> GangOfPod:
        found = self.engine.gang_of(raw(asked))
        assert found is not None
        return found


def test_it_waits_for_members_that_do_not_exist() -> None:
    world, pods = World(), [member("a", i, 3) for i in range(2)]
    world.create(*pods)
    found = world.gang(pods[0])
    assert (found.name, found.quorum, found.state) == ("default/a", 3, "waiting")
    assert found.text == found.refusal == "2 of 3 members exist"
    assert found.allowed == ()
    assert found.members == [
        GangMember("default/a-0", "waiting"),
        GangMember("default/a-1", "waiting"),
    ]


def test_a_question_tries_nothing() -> None:
    world, pods = World(), [member("a", i, 3) for i in range(3)]
    world.create(*pods)
    assert world.gang(pods[0]).state == "not tried"
    assert world.gang(pods[0]).allowed is None
    assert world.engine.gangs.statuses() == []


def test_members_are_held_and_have_places() -> None:
    world, pods = World(), [member("a", i, 3) for i in range(3)]
    world.create(*pods)
    (place,) = world.ask(pods[0])
    world.clock.now += 2
    world.hold(pods[0], place)
    world.clock.now += 10
    found = world.gang(pods[0])
    assert (found.state, found.text) == ("gathering", "1 of 3 members are here")
    assert (found.seconds, found.allowed) == (12.0, {place})
    kinds = {each.pod: (each.presence, each.seconds) for each in found.members}
    assert kinds == {
        "default/a-0": ("held", 10.0),
        "default/a-1": ("placed", 0.0),
        "default/a-2": ("placed", 0.0),
    }
    assert all(each.node for each in found.members)


def test_what_was_given_up_is_tried_again_after_a_while() -> None:
    world, pods = World(), [member("a", i, 2) for i in range(2)]
    world.create(*pods)
    (place,) = world.ask(pods[0])
    ended = world.hold(pods[0], place)
    world.clock.now += 31
    world.engine.gangs.review()
    assert ended == ["policy gangs: together: given up: 1 of 2 members came in time"]
    found = world.gang(pods[1])
    assert (found.state, found.text) == ("given up", "given up: 1 of 2 members came in time")
    assert found.again == pytest.approx(1.0)


def test_once_a_member_is_on_a_node_the_others_come_to_its_rack() -> None:
    world, pods = World(), [member("a", i, 3) for i in range(3)]
    placed = member("a", 0, 3)
    placed["spec"]["nodeName"] = "n2"
    world.create(placed, *pods[1:])
    found = world.gang(pods[1])
    assert (found.state, found.text) == ("begun", "1 of its members is on nodes")
    assert found.allowed == {"n2", "n3"}
    assert found.members[0] == GangMember("default/a-0", "bound", "n2")


def test_a_pod_without_a_value_is_in_no_gang() -> None:
    assert World().engine.gang_of(raw(pod("x"))) is None


def test_a_command_places_the_gang_first() -> None:
    world, pods = World(), [member("a", i, 4) for i in range(4)]
    world.create(*pods)
    found = world.engine.gang_of(raw(pods[3]), places=True)
    assert found is not None
    assert found.state == "gathering"
    assert sorted(each.node for each in found.members) == ["n0", "n0", "n1", "n1"]
