"""Plans after an edit: those of policies that stay keep their results, and answers stay right."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decision.plan import SharedMemos
from engine.decision.registry import Registry
from engine.decision.verb_call import KeptPlans
from engine.decision.verdict import Verdict
from engine.engine import Engine
from engine.objects.remembered import MOST_REMEMBERED, Memory
from engine.program.columns import NodeKinds
from engine.program.frame import Evaluate, Frame
from engine.program.program import FilterProgram, Program
from tests.support.builders import node, pod, raw
from tests.support.engines import engine_of, programs_of

NODES = [node(f"n{number}", "abc"[number % 3], labels={"n": str(number)}) for number in range(6)]
PODS = [pod(f"p{n}", "ab"[n % 2], on=f"n{n}", labels={"app": "web"}) for n in range(4)]
NAMES = [f"n{number}" for number in range(6)]

# The policies that there may be, by the words of an edit. Some are about other namespaces, others
# count pods, groups of nodes, or keep others out.
TEXTS = {
    "a low": 'policy p in namespace "a" { filter "f" { require int(node.labels["n"]) < 4 } }',
    "a lower": 'policy p in namespace "a" { filter "f" { require int(node.labels["n"]) < 2 } }',
    "a counts": (
        'policy q in namespace "a" { weight 200 limit "l" { pods where peer.labels["app"] == "web"'
        " per node at most 0 strict } }"
    ),
    "a keeps out": (
        'policy r in namespace "a" { limit "m" { all pods where peer.labels["app"] =='
        ' pod.labels["app"] per zone at most 0 strict mutual } }'
    ),
    "b": 'policy p in namespace "b" { filter "f" { require int(node.labels["n"]) > 2 } }',
    "b spreads": (
        'policy q in namespace "b" { spread "s" { over node.zone skew at most 1 strict } }'
    ),
    "all": 'cluster policy g { filter "g" { require node.labels["n"] != "3" } }',
    "all by pod": (
        'cluster policy h { filter "h" { require node.labels["n"] != pod.labels[?"not"].orValue("")'
        " } }"
    ),
    "all by zone": (
        'cluster policy z { group zone by node.zone filter "z" { require zone.value != "b" } }'
    ),
}


PROGRAMS = {name: programs_of(text)[0] for name, text in TEXTS.items()}


def verdicts(engine: Engine, namespace: str) -> Sequence[Verdict]:
    asked = raw(pod("asked", namespace, labels={"app": "web", "not": "1"}))
    found = engine.filter(asked, NAMES, None, math.inf)
    for flying, _ in [*engine.in_flight.first(10)]:
        engine.in_flight.forget(flying.uid)
    return [found.verdicts[code] for code in found.codes]


def counting(program: Program, calls: list[str]) -> Program:
    """The program, which notes each evaluation of a filter."""

    def noted(evaluate: Evaluate) -> Evaluate:
        def run(frame: Frame) -> object:
            calls.append(program.address)
            return evaluate(frame)

        return run

    filters = (
        replace(f, requires=tuple(map(noted, f.requires))) for f in program.of(FilterProgram)
    )
    return replace(program, clauses=tuple(filters))


def test_an_edit_leaves_the_results_of_other_policies() -> None:
    calls: list[str] = []
    programs = {
        name: counting(program, calls)
        for name in ("a low", "a lower", "b")
        for program in programs_of(TEXTS[name])
    }
    engine = engine_of("", NODES)
    engine.adopt(Registry([programs["a low"], programs["b"]]))
    before = verdicts(engine, "a"), verdicts(engine, "b")
    assert set(calls) == {"a/p", "b/p"}
    calls.clear()
    engine.adopt(Registry([programs["a lower"], programs["b"]]))
    assert verdicts(engine, "b") == before[1]
    assert calls == []
    assert verdicts(engine, "a") != before[0]
    assert set(calls) == {"a/p"}


def test_a_policy_that_comes_to_govern_takes_the_place_of_another() -> None:
    low, counts = (program for n in ("a low", "a counts") for program in programs_of(TEXTS[n]))
    engine = engine_of("", NODES, PODS)
    engine.adopt(Registry([low]))
    first = verdicts(engine, "a")
    engine.adopt(Registry([low, counts]))
    assert verdicts(engine, "a") != first
    engine.adopt(Registry([low]))
    assert verdicts(engine, "a") == first


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sets(st.sampled_from([*TEXTS]), max_size=5), st.sampled_from(["a", "b"])),
        min_size=2,
        max_size=6,
    )
)
def test_answers_are_those_of_an_engine_that_knows_nothing(
    steps: Sequence[tuple[set[str], str]],
) -> None:
    kept = engine_of("", NODES, PODS)
    for names, namespace in steps:
        wanted = [PROGRAMS[name] for name in sorted(names)]
        kept.adopt(Registry(wanted))
        fresh = engine_of("", NODES, PODS)
        fresh.adopt(Registry(wanted))
        assert verdicts(kept, namespace) == verdicts(fresh, namespace)


def test_nothing_is_kept_of_policies_that_are_gone() -> None:
    engine = engine_of("", NODES, PODS)
    text = 'policy p in namespace "a" {{ filter "f" {{ require int(node.labels["n"]) < {} }} }}'

    def kept_after(edits: int) -> int:
        for edit in range(edits):
            engine.adopt(Registry(programs_of(text.format(edit % 7))))
            verdicts(engine, "a")
        gc.collect()
        return sum(type(each) is NodeKinds for each in gc.get_objects())

    first = kept_after(1)
    assert kept_after(12) - first <= 1


def test_pods_of_many_shapes_leave_the_plans_of_other_namespaces(
    memory_of: Callable[[int], Memory],
) -> None:
    memory = memory_of(1 << 20)
    engine = engine_of(TEXTS["all by pod"], NODES)
    for number in range(300):
        where = "a" if number else "b"
        asked = pod(f"p{number}", where, labels={"not": f"{number}"})
        engine.filter(raw(asked), NAMES, None, math.inf)
    kept = {where: sum(part.sizes[where] for part in memory.parts) for where in "ab"}
    assert 0 < kept["b"] < kept["a"] / 20 < memory.most / 20


@pytest.mark.parametrize(("nodes", "times"), [(0, 1), (2_500, 1), (5_000, 2), (65_000, 26)])
def test_a_larger_cluster_has_room_for_as_many_plans(
    nodes: int, times: int, memory_of: Callable[[int], Memory]
) -> None:
    memory = memory_of(MOST_REMEMBERED)
    kept, aside = KeptPlans(SharedMemos()), KeptPlans(SharedMemos(), 1000)
    for each in (kept, aside):
        each.make_room(nodes)
    assert memory.most == kept.plans.most == times * MOST_REMEMBERED
    assert aside.plans.most == times * 1000
