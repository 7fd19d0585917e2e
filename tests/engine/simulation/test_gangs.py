"""Gangs in a simulation: whole, or not at all."""

from __future__ import annotations

from tests.support.builders import Object, node, pod
from tests.support.simulated import simulation, where

MEMBERS = "example.com/members"
POLICY = f"""
policy gangs {{
  for pods where "job" in pod.labels
  gang "together" {{
    of pods by peer.labels["job"]
    at least int(pod.annotations["{MEMBERS}"])
    within node.labels["rack"]
  }}
}}
"""
LIMITED = """
cluster policy few {
  for pods where "job" in pod.labels
  limit "two" { per cluster pods where "job" in peer.labels at most 2 strict }
}
"""
NODES = [node(f"n{i}", cpu="2", labels={"rack": f"r{i // 2}"}) for i in range(4)]


def gang(job: str, size: int, *, exist: int | None = None, cpu: str = "1") -> list[Object]:
    numbers = range(size if exist is None else exist)
    annotations = {MEMBERS: str(size)}
    return [
        pod(f"{job}-{n}", cpu=cpu, labels={"job": job}, annotations=annotations) for n in numbers
    ]


def test_a_gang_is_placed_whole_before_the_pods_between_its_members() -> None:
    """Otherwise single pods would take the last room of its rack."""
    a, single = gang("a", 4), [pod(f"s-{n}", cpu="2") for n in range(3)]
    mixed = [a[0], single[0], a[1], single[1], a[2], single[2], a[3]]
    found = where(list(simulation(NODES, mixed, POLICY).run()))
    assert {found[f"a-{n}"] for n in range(4)} == {"n0", "n1"}
    assert [found[f"s-{n}"] for n in range(3)] == ["n2", "n3", ""]


def test_of_two_gangs_with_room_for_one_only_one_is_placed() -> None:
    pods = [
        each for pair in zip(gang("a", 4), gang("b", 4), gang("c", 4), strict=True) for each in pair
    ]
    found = where(list(simulation(NODES, pods, POLICY).run()))
    placed = {job: [found[f"{job}-{n}"] for n in range(4)] for job in "abc"}
    assert all(placed["a"])
    assert all(placed["b"])
    assert placed["c"] == [""] * 4


def test_a_gang_that_waits_names_what_it_waits_for() -> None:
    outcomes = list(simulation(NODES, [*gang("a", 5), *gang("b", 3, exist=2)], POLICY).run())
    reasons = {each.pod: dict(each.reasons) for each in outcomes if each.node is None}
    assert len(reasons) == 7
    assert reasons["default/a-0"] == {"gangs: together: 4 of 5 members fit, in r1": 4}
    assert reasons["default/b-0"] == {"gangs: together: 2 of 3 members exist": 4}


def test_members_beyond_the_quorum_come_as_single_pods() -> None:
    pods = gang("a", 3, exist=5)
    for each in pods:
        each["metadata"]["annotations"] = {MEMBERS: "3"}
    found = where(list(simulation(NODES, pods, POLICY).run()))
    assert sorted(found.values()) == ["", "n0", "n0", "n1", "n1"]


def test_strict_counts_hold_for_a_gang() -> None:
    outcomes = list(simulation(NODES, gang("a", 3), POLICY + LIMITED).run())
    reasons = {reason for each in outcomes if each.node is None for reason in each.reasons}
    assert len(outcomes) == 3
    assert reasons == {"gangs: together: 2 of 3 members fit, in r0"}
