"""Groups of nodes: what each group has after a change, and what is worked out again for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from engine.cache.cache import Cache
from engine.counting.node_groups import CallGroups, KnownGroups, NodeGroups
from engine.decision.preemption import Victims
from engine.decision.registry import Registry
from engine.decision.verdict import Feasible, Rejected
from engine.engine import Engine
from engine.errors import BriefWaitError
from engine.objects.peer import key_of
from engine.program.frame import Frame
from engine.program.program import FilterProgram
from grammar.values.nodes import GroupOfNodes
from tests.support.builders import node, pod, raw
from tests.support.engines import (
    CODEC,
    Known,
    Silent,
    cache_of,
    node_of,
    peer_of,
    programs_of,
    registry_of,
)

ROOM = """cluster policy p {
  group rack by node.labels["rack"]
  filter "room" { require rack.free["cpu"] >= 2 * pod.requests["cpu"] message "no room" }
}"""
RACKS = {"a-1": "a", "a-2": "a", "b-1": "b", "alone": None}


def racked(name: str, **more: Any) -> dict[str, Any]:
    rack = RACKS[name]
    return node(name, labels={} if rack is None else {"rack": rack}, **more)


def racks() -> Cache:
    return cache_of([racked(name) for name in RACKS])


def groups_of(cache: Cache, known: NodeGroups) -> dict[object, GroupOfNodes]:
    known.update(cache.snapshot().table, lambda: None)
    found = [known.group(number) for number in range(len(known))]
    return {group.value: group for group in found if group.nodes}


def node_groups(text: str = ROOM) -> NodeGroups:
    (program,) = programs_of(text)
    (spec,) = program.groups
    return NodeGroups(spec)


def engine_of(text: str, cache: Cache) -> Engine:
    return Engine(registry_of(text), Known(cache), CODEC, Silent())


def passing(engine: Engine, name: str, cpu: str, names: Sequence[str] = tuple(RACKS)) -> list[str]:
    verdicts = engine.filter(raw(pod(name, cpu=cpu)), list(names), None, math.inf)
    return [n for n, verdict in zip(names, verdicts, strict=True) if isinstance(verdict, Feasible)]


# ---- what a group has


def test_a_group_has_the_sums_of_its_nodes() -> None:
    cache = racks()
    cache.put_pod(peer_of(pod("one", cpu="3", on="a-1")))
    cache.put_node(node_of(racked("a-2", ready=False, cpu="4")))
    found = groups_of(cache, node_groups())
    assert {value: (group.nodes, group.ready) for value, group in found.items()} == {
        "a": (2, 1),
        "b": (1, 1),
    }
    rack = found["a"]
    assert rack.requested is not None
    assert rack.free is not None
    sums = rack.allocatable["cpu"], rack.requested["cpu"], rack.requested["pods"], rack.free["cpu"]
    assert [str(each) for each in sums] == ["12", "3", "1", "9"]
    assert rack.labels == {"rack": "a"}
    assert found["b"].labels == {"rack": "b", "kubernetes.io/hostname": "b-1"}


def test_an_event_changes_its_group_alone() -> None:
    """The object of every other group stays, and with it whatever was worked out of it."""
    cache, known = racks(), node_groups()
    before = groups_of(cache, known)
    cache.put_pod(peer_of(pod("one", cpu="3", on="a-1")))
    after = groups_of(cache, known)
    assert after["b"] is before["b"]
    assert after["a"] is not before["a"]
    requested = after["a"].requested
    assert requested is not None
    assert str(requested["cpu"]) == "3"


def test_a_node_goes_to_another_group_and_away() -> None:
    cache, known = racks(), node_groups()
    groups_of(cache, known)
    cache.put_node(node_of(node("a-1", labels={"rack": "b"})))
    assert {v: g.nodes for v, g in groups_of(cache, known).items()} == {"a": 1, "b": 2}
    cache.remove_node("a-2")
    cache.remove_node("alone")
    assert {v: g.nodes for v, g in groups_of(cache, known).items()} == {"b": 2}


def test_a_node_goes_to_another_group_with_its_pods() -> None:
    """What a group is by may read the pods of a node."""
    cache, known = racks(), node_groups(ROOM.replace('node.labels["rack"]', "size(node.pods)"))
    assert {v: g.nodes for v, g in groups_of(cache, known).items()} == {0: 4}
    web = peer_of(pod("web", on="a-1"))
    cache.put_pod(web)
    assert {v: g.nodes for v, g in groups_of(cache, known).items()} == {0: 3, 1: 1}
    cache.remove_pod(key_of(web))
    assert {v: g.nodes for v, g in groups_of(cache, known).items()} == {0: 4}


def test_values_of_other_types_are_other_groups() -> None:
    known = node_groups(ROOM.replace('node.labels["rack"]', "node.ready ? dyn(1) : dyn(true)"))
    cache = cache_of([node("up"), node("down", ready=False)])
    known.update(cache.snapshot().table, lambda: None)
    assert sorted(known.group(number).nodes for number in range(len(known))) == [1, 1]


def test_groups_that_are_gone_are_forgotten() -> None:
    known = node_groups()
    cache = Cache()
    for number in range(1010):
        cache.put_node(node_of(node("n", labels={"rack": f"r-{number}"})))
        groups_of(cache, known)
    assert len(known) < 1010
    assert list(groups_of(cache, known)) == ["r-1009"]


# ---- decisions


def test_a_filter_reads_the_room_of_the_rack() -> None:
    cache = racks()
    engine = engine_of(ROOM, cache)
    assert passing(engine, "x", "4") == ["a-1", "a-2", "b-1"]
    engine.in_flight.forget(peer_of(pod("x")).uid)
    assert passing(engine, "y", "5") == ["a-1", "a-2"]
    engine.in_flight.forget(peer_of(pod("y")).uid)
    cache.put_pod(peer_of(pod("one", cpu="7", on="a-1")))
    assert passing(engine, "z", "4.5") == ["a-1", "a-2"]
    engine.in_flight.forget(peer_of(pod("z")).uid)
    cache.put_pod(peer_of(pod("two", cpu="1", on="a-2")))
    assert passing(engine, "z", "4.5") == []


def test_pods_on_their_way_count_where_they_may_end() -> None:
    """Then the pod waits; it is rejected only where bound pods are in the way."""
    cache = cache_of([racked("a-1"), racked("b-1")])
    engine, names = engine_of(ROOM, cache), ["a-1", "b-1"]
    assert passing(engine, "first", "4", names) == names
    with pytest.raises(BriefWaitError, match="waiting for in-flight pods: no room"):
        passing(engine, "second", "4", names)
    # One of the two racks has it; the other one has room again.
    cache.put_pod(peer_of(pod("first", cpu="4", on="a-1")))
    engine.in_flight.forget(peer_of(pod("first")).uid)
    assert passing(engine, "second", "4", names) == ["b-1"]
    cache.put_pod(peer_of(pod("second", cpu="4", on="b-1")))
    engine.in_flight.forget(peer_of(pod("second")).uid)
    verdicts = list(engine.filter(raw(pod("third", cpu="4")), names, None, math.inf))
    assert [(v.reason, v.resolvable) for v in verdicts if isinstance(v, Rejected)] == [
        ("policy p: no room", True),
        ("policy p: no room", True),
    ]


@pytest.mark.parametrize("more", ["true", "node.ready"])
def test_what_bound_pods_alone_decide_is_kept_beside(more: str) -> None:
    """A pod that waits for others asks twice in each call: with those on their way, and without."""
    (program,) = programs_of(ROOM.replace('2 * pod.requests["cpu"]', f'"2" && {more}'))
    (clause,) = program.of(FilterProgram)
    (require,), evaluated = clause.requires, list[object]()

    def counting(frame: Frame) -> object:
        evaluated.append(frame.node)
        return require(frame)

    counted = replace(program, clauses=(replace(clause, requires=(counting,)),))
    cache = cache_of([racked("a-1"), racked("b-1")])
    engine = Engine(Registry([counted]), Known(cache), CODEC, Silent())
    assert passing(engine, "first", "7", ["a-1", "b-1"]) == ["a-1", "b-1"]
    for calls in range(3):
        before = len(evaluated)
        with pytest.raises(BriefWaitError):
            passing(engine, f"waits-{calls}", "4", ["a-1", "b-1"])
    assert len(evaluated) == before


def test_bound_pods_alone_count_at_the_binding() -> None:
    text = ROOM.replace("filter", "bind")
    cache = cache_of([racked("a-1")])
    engine = engine_of(text, cache)
    first, second = raw(pod("first", cpu="4")), raw(pod("second", cpu="4"))
    assert passing(engine, "first", "4", ["a-1"]) == ["a-1"]
    assert engine.admit(second, "a-1", math.inf).pod.name == "second"
    assert engine.admit(first, "a-1", math.inf).pod.name == "first"


def test_scores_count_pods_where_they_probably_end() -> None:
    text = """cluster policy p {
      group rack by node.labels["rack"]
      score "empty" weight 1 { value rack.usage["cpu"] range 1 .. 0 }
    }"""
    engine, names = engine_of(text, racks()), list(RACKS)
    body = raw(pod("x", cpu="4"))
    assert list(engine.prioritize(body, names, None, math.inf) or ()) == [8, 8, 5, 0]
    engine.filter(raw(pod("other", cpu="4")), names, None, math.inf)
    engine.prioritize(raw(pod("other", cpu="4")), names, None, math.inf)
    # The other pod probably goes to the larger rack.
    assert list(engine.prioritize(body, names, None, math.inf) or ()) == [5, 5, 5, 0]


def test_victims_leave_the_group_of_their_node() -> None:
    cache = racks()
    cache.put_pod(peer_of(pod("low", cpu="6", on="b-1", priority=0)))
    engine = engine_of(ROOM, cache)
    (uid,) = (peer.uid for peer in cache.every())
    body = raw(pod("high", cpu="4", priority=10))
    proposed = {"b-1": Victims([uid], 0)}
    assert list(engine.preempt(body, proposed, math.inf)) == ["b-1"]
    cache.put_pod(peer_of(pod("high-1", cpu="1", on="b-1", priority=100)))
    assert list(engine.preempt(body, proposed, math.inf)) == []


def test_nodes_of_a_request_have_the_groups_of_the_cache() -> None:
    engine = engine_of(ROOM, racks())
    names = ["b-1", "a-1", "new"]
    bodies = [raw(racked("b-1")), raw(racked("a-1")), raw(node("new", labels={"rack": "a"}))]
    verdicts = list(engine.filter(raw(pod("x", cpu="5")), names, bodies, math.inf))
    # A template of a node is in the group of its label, too.
    assert [isinstance(verdict, Feasible) for verdict in verdicts] == [False, True, True]


def test_a_bound_follows_the_nodes_of_its_group() -> None:
    text = """cluster policy p {
      group rack by node.labels["rack"]
      limit "half" { sum peer.requests["cpu"] of all pods where true
        per rack at most 0.5 * rack.allocatable["cpu"] strict }
    }"""
    cache = racks()
    engine = engine_of(text, cache)
    assert passing(engine, "x", "5") == ["a-1", "a-2"]
    engine.in_flight.forget(peer_of(pod("x")).uid)
    cache.remove_node("a-2")
    assert passing(engine, "y", "5", ["a-1", "b-1"]) == []
    cache.put_node(node_of(node("b-2", labels={"rack": "b"}, cpu="16")))
    assert passing(engine, "z", "5", ["a-1", "b-1", "b-2"]) == ["b-1", "b-2"]


def test_a_bound_without_a_number_rejects_its_group_alone() -> None:
    text = """cluster policy p {
      group rack by node.labels["rack"]
      limit "few" { all pods where true per rack at most int(rack.labels["most"]) strict }
    }"""
    with_most = node("b-1", labels={"rack": "b", "most": "3"})
    cache = cache_of([racked("a-1"), racked("a-2"), with_most])
    engine, names = engine_of(text, cache), ["a-1", "a-2", "b-1"]
    assert passing(engine, "x", "1", names) == ["b-1"]
    cache.put_node(node_of(node("a-1", labels={"rack": "a", "most": "2"})))
    cache.put_node(node_of(node("a-2", labels={"rack": "a", "most": "2"})))
    assert passing(engine, "y", "1", names)[:1] == ["a-1"]


# ---- what is kept


@pytest.mark.parametrize(
    ("require", "alone"),
    [
        ('rack.free["cpu"] > pod.requests["cpu"]', True),
        ("rack.exists(n, n.name == pod.name)", True),
        ("rack.nodes > size(node.pods)", False),
        ("rack.nodes > now.getHours()", False),
        ("rack.nodes > hall.nodes", False),
    ],
)
def test_a_rule_of_one_group_is_evaluated_for_each_group(require: str, alone: bool) -> None:
    """Any other one for each node, again where its groups have changed."""
    text = f"""cluster policy p {{
      group rack by node.labels["rack"]
      group hall by node.labels["hall"]
      filter "f" when hall.nodes > 0 || true {{ require {require} }}
      filter "g" {{ require {require} }}
    }}"""
    (program,) = programs_of(text)
    _, clause = program.of(FilterProgram)
    assert clause.groups.alone is alone


def test_equal_groups_of_two_policies_are_kept_once() -> None:
    text = ROOM + ROOM.replace("policy p", "policy q").replace("rack by", "shelf by").replace(
        "rack.free", "shelf.free"
    )
    registry = registry_of(text)
    assert len(registry.groups) == 1
    other = 'cluster policy r { group rack by key let key = node.labels["rack"]'
    other += ' filter "f" { require rack.nodes > 0 } }'
    assert len(registry_of(text + other).groups) == 2


def test_groups_of_an_unknown_cluster_are_missing() -> None:
    known = KnownGroups({})
    table = racks().snapshot().table
    groups = CallGroups(known, table, tuple, lambda: None)
    assert groups.of("unknown", "a-1") is None
    assert set(groups.ids("unknown", table).tolist()) == {-1}


def test_a_call_that_goes_on_has_the_groups_of_its_own_nodes() -> None:
    """Another call has taken a further node since then."""
    cache, registry = racks(), registry_of(ROOM)
    known, (digest,) = KnownGroups(registry.groups), registry.groups
    table = cache.snapshot().table
    groups = CallGroups(known, table, tuple, lambda: None)
    before = groups.ids(digest, table).tolist()
    cache.put_node(node_of(node("b-2", labels={"rack": "b"})))
    newer = cache.snapshot().table
    later = CallGroups(known, newer, tuple, lambda: None).ids(digest, newer).tolist()
    assert groups.ids(digest, table).tolist() == before == later[:-1]


@pytest.mark.parametrize("changes", range(12))
def test_a_node_of_another_group_is_looked_at_again(changes: int) -> None:
    """However often each of the two groups has changed before."""
    text = """cluster policy p {
      group rack by node.labels["rack"]
      filter "room" { require rack.free["cpu"] >= 2 && node.labels["ok"] == "y" }
    }"""
    moves, ok = {"ok": "y"}, ["moves"]
    cache = cache_of(
        [
            node("a", cpu="4", labels={"rack": "a"}),
            node("b", cpu="1", labels={"rack": "b"}),
            node("moves", cpu="4", labels={**moves, "rack": "a"}),
        ]
    )
    engine = engine_of(text, cache)
    assert passing(engine, "first", "0", ok) == ok
    for number in range(changes):
        cache.put_pod(peer_of(pod(f"p-{number}", cpu="100m", on="a")))
        passing(engine, f"asked-{number}", "0", ok)
        engine.in_flight.forget(peer_of(pod(f"asked-{number}")).uid)
    cache.put_pod(peer_of(pod("large", cpu="4", on="moves")))
    cache.put_node(node_of(node("moves", cpu="4", labels={**moves, "rack": "b"})))
    assert passing(engine, "last", "0", ok) == []


def test_parameters_of_a_function_are_part_of_what_a_group_is_by() -> None:
    """So that groups of two policies are one only where they mean the same."""
    digests = set()
    for parameters in ("a: string, b: string", "b: string, a: string"):
        text = f"""cluster policy p {{
          def pick({parameters}): string = a
          group g by pick(node.name, node.zone)
          filter "f" {{ require g.nodes > 0 }}
        }}"""
        (program,) = programs_of(text)
        digests |= {spec.digest for spec in program.groups}
    assert len(digests) == 2
