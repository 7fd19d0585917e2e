"""Many policy objects: what is alike is checked and compiled once, and an edit costs its policy."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cache.cache import Cache
from engine.clauses.programs import compile_policy
from engine.program.frame import unhurried
from engine.program.program import FilterProgram, Program
from grammar.meaning.schema import load_schema
from policies.admission import check_stored, likeness, of_another
from server.admission.checking_process import CheckingProcess
from server.capabilities.policy_statuses import Statuses
from server.runtime.policies import Objects
from tests.server.runtime.test_objects import READY, Read, stored
from tests.support.rows import rows

T = TypeVar("T")
SCHEMA = load_schema()
LOG = logging.getLogger("placet.test")
ZONES = 'spread "zones" { over node.zone skew at most 1 strict }'
SHARED = 'use "library/no-spot" use "library/one-per-zone"'
NAMESPACES = [f"team-{number}" for number in range(5)]


def everywhere(rules: str, *, name: str = "web") -> Mapping[str, bytes]:
    return {k: v for space in NAMESPACES for k, v in stored(rules, name, space).items()}


class Counting(CheckingProcess):
    """It checks in this process, and counts the checks, but not those for hints."""

    def __init__(self) -> None:
        super().__init__(SCHEMA)
        self.checks = 0

    def run(self, seconds: float, function: Callable[..., T], *args: object) -> T:  # noqa: ARG002
        self.checks += not (isinstance(function, partial) and function.keywords["has_hints"])
        return function(*args)


def test_objects_that_are_alike_are_checked_once() -> None:
    process = Counting()
    found = Objects(process, LOG)
    objects = {**everywhere(ZONES), **everywhere(READY, name="ready")}
    stored_ = found.read(objects)
    assert process.checks == 2
    assert stored_ == {n: check_stored(n, objects[n], SCHEMA) for n in sorted(objects)}


@rows(
    "rules",
    {
        "namespace": 'filter "f" { require pod.namespace == "team-1" }',
        "its labels": 'filter "f" { require namespaceObject.labels["a"] == "b" }',
        "a ConfigMap": (
            'data "racks" { from configmap "team-1/racks" csv by "name" columns { power: int } }'
            ' filter "f" { require data.racks[node.name].power > 3 }'
        ),
        "an error": "filter {",
    },
)
def test_what_a_namespace_changes_is_checked_for_each(rules: str) -> None:
    process = Counting()
    found = Objects(process, LOG)
    objects = everywhere(rules)
    assert found.read(objects) == {
        name: check_stored(name, raw, SCHEMA) for name, raw in objects.items()
    }
    assert process.checks == len(NAMESPACES)


_PARTS = st.sampled_from(
    [
        READY,
        ZONES,
        SHARED,
        'score "cpu" weight 20 { value node.usage["cpu"] range 0 .. 1 }',
        'score "all alike" weight 3 { value 1 }',
        'limit "own" { pods where peer.namespace == "team-1" per node at most 1 strict }',
        'let place = pod.metadata.namespace filter "own" { require node.labels["for"] == place }',
        'filter "two" { require node.zone == "a" && node.zone == "b" }',
    ]
)


@given(st.lists(_PARTS, max_size=3, unique=True).map("\n".join), st.sampled_from(NAMESPACES))
def test_an_object_like_another_is_what_a_check_finds(rules: str, namespace: str) -> None:
    ((first, raw),) = stored(rules, "web", "team-0").items()
    ((name, own),) = stored(rules, "web", namespace).items()
    assert likeness(first, raw) == likeness(name, own) is not None
    made = of_another(name, own, check_stored(first, raw, SCHEMA))
    assert made in (None, check_stored(name, own, SCHEMA))


def test_other_names_versions_and_specs_are_not_alike() -> None:
    ((name, raw),) = stored(READY).items()
    others = [
        *stored(READY, "other").items(),
        *stored(ZONES).items(),
        (name, raw.replace(b"placement-policy.scheduling.x-k8s.io/v1", b"example.com/v1")),
        (name, raw.replace(b'"PlacementPolicy"', b'"ClusterPlacementPolicy"')),
    ]
    assert likeness(name, raw) == likeness(name, bytes(bytearray(raw)))
    assert likeness(name, raw) not in {likeness(*other) for other in others}
    assert likeness(name, b"[") is None
    assert likeness(name, raw.replace(b'"namespace"', b'"space"')) is None


def in_force(found: Read) -> Mapping[str, Program]:
    assert found.last is not None
    return found.last.programs


@pytest.mark.parametrize("rules", [SHARED, ZONES])
def test_programs_of_alike_policies_share_what_they_evaluate(rules: str) -> None:
    found = Read()
    found.read(everywhere(rules))
    made = list(in_force(found).values())
    alone = [compile_policy(program.source) for program in made]
    closures = {id(spread.place) for program in made for spread in program.counts}
    assert len(closures) == 1
    for one, other, namespace in zip(made, alone, NAMESPACES, strict=True):
        assert one.address == f"{namespace}/web"
        assert {clause.policy for clause in one.of(FilterProgram)} <= {one.address}
        assert [spread.count.policy for spread in one.counts] == [one.address]
        for field in ("address", "digest", "reads", "slots", "strict", "weight", "namespace"):
            assert getattr(one, field) == getattr(other, field)


def test_an_edit_leaves_the_programs_of_others() -> None:
    found = Read()
    objects = everywhere(SHARED)
    found.read(objects)
    before = in_force(found)
    edited = stored(SHARED + READY, "web", "team-1", generation=2)
    found.read({**objects, **edited})
    after = in_force(found)
    changed = {name for name, program in after.items() if before[name] is not program}
    assert changed == {*edited}


def test_a_used_policy_that_changes_changes_its_users() -> None:
    """So does one with a nearer name."""
    found = Read()
    objects = {
        **everywhere('use "base"'),
        **stored(READY, "base", "team-1"),
        **stored(READY, "base", "team-2"),
    }
    found.read(objects)
    assert {*in_force(found)} == {
        "placementpolicies/team-1/web",
        "placementpolicies/team-2/web",
        "placementpolicies/team-1/base",
        "placementpolicies/team-2/base",
    }
    before = in_force(found)
    found.read({**objects, **stored(ZONES, "base", "team-1", generation=2)})
    after = in_force(found)
    changed = {name for name, program in after.items() if before.get(name) is not program}
    assert changed == {"placementpolicies/team-1/web", "placementpolicies/team-1/base"}
    assert [spread.count.name for spread in after["placementpolicies/team-1/web"].counts] == [
        "zones"
    ]


def test_statuses_without_news_are_looked_at_in_turns() -> None:
    """All of them come up, and those with news at once."""
    found = Read()
    objects = {k: v for n in range(600) for k, v in stored(READY, "web", f"team-{n}").items()}
    found.read(objects)
    cache = Cache()
    statuses = Statuses(cache, unhurried)

    def reported() -> set[str]:
        assert found.last is not None
        reports = statuses.reports(found.last, objects, cache.snapshot())
        return {report.path.split("/")[5] for report in reports}

    assert len(reported()) == 600
    turns = [reported() for _ in range(3)]
    assert [len(turn) for turn in turns] == [250] * 3
    assert len(set[str]().union(*turns)) == 600
    quiet = next(f"team-{n}" for n in range(600) if f"team-{n}" not in turns[0])
    edited = stored(READY + ZONES, "web", quiet, generation=2)
    objects |= edited
    found.read(objects)
    assert quiet in reported()
