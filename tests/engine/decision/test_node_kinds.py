"""Kinds of nodes: a clause is evaluated once for nodes that are alike to it, for pods of one shape.

Whatever is kept by kind, the answers are those of a memo that evaluates each node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.cache.cache import Cache
from engine.decision.filtering import FilterMemo
from engine.decision.plan import SharedMemos
from engine.decision.scoring import ScoreMemo
from engine.errors import DeadlineExceededError
from engine.program import columns
from engine.program.frame import Evaluation, Frame
from engine.program.program import FilterProgram, ScoreProgram
from tests.support.books import examples
from tests.support.builders import Object, node, pod
from tests.support.engines import (
    cache_of,
    evaluation_of,
    frame_of,
    node_of,
    peer_of,
    programs_of,
)
from tests.support.rows import rows

ASKED = pod("asked", labels={"app": "web", "n": "1"}, cpu="500m", priority=0)
LABELS = [{"n": "1"}, {"n": "x"}, {"n": "2"}, {"n": "2", "m": "y"}]
NODES = [node(f"n{i}", labels=LABELS[i % 4], cpu=f"{1 + i % 2}") for i in range(8)]


def filter_of(rule: str) -> FilterProgram:
    (program,) = programs_of(f'cluster policy p {{ filter "f" {{ require {rule} }} }}')
    return program.of(FilterProgram)[0]


def score_of(value: str) -> ScoreProgram:
    text = f'cluster policy p {{ score "s" weight 1 {{ value {value} }} }}'
    return programs_of(text)[0].of(ScoreProgram)[0]


def recording(evaluate: Callable[[Frame], object], judged: list[object]) -> Any:
    def run(frame: Frame) -> object:
        judged.append(frame.node)
        return evaluate(frame)

    return run


def verdicts(memo: FilterMemo, cache: Cache, evaluation: Evaluation) -> list[object]:
    table = cache.snapshot().table
    return list(memo.decide(table, np.arange(len(table.nodes)), evaluation))


def values(memo: ScoreMemo, cache: Cache, evaluation: Evaluation) -> list[str]:
    table = cache.snapshot().table
    return list(map(str, memo.values(table, np.arange(len(table.nodes)), evaluation)))


@pytest.mark.process
@rows(
    ("rule", "evaluations"),
    {
        "one label": ('node.labels["n"] == pod.labels["n"]', 3),
        "two labels": ('node.labels["n"] == pod.name || "m" in node.labels', 4),
        "an amount": ('node.free["cpu"] >= pod.requests["cpu"]', 2),
        "both": ('node.labels["n"] == pod.labels["n"] && node.free["cpu"] > "1"', 4),
        "the name": ("node.name == pod.name", 8),
        "a label that the pod names": ("node.labels[pod.name] == pod.name", 8),
        "every label": ("node.labels.all(k, k != pod.name)", 8),
        "the pods": ("node.pods.all(p, p.name != pod.name)", 8),
        "the time": ('node.labels["n"] == "1" && now != timestamp(0)', 8),
        "the time, first": ('node.labels["n"] == "1" && now == timestamp(0)', 8),
    },
)
def test_nodes_that_are_alike_are_judged_once(rule: str, evaluations: int) -> None:
    """Where a clause reads nothing but single values of them; for a pod of another shape again."""
    clause, judged = filter_of(rule), list[object]()
    (require,) = clause.requires
    clause = replace(clause, requires=(recording(require, judged),))
    shared, cache = SharedMemos(), cache_of(NODES)
    for each in (ASKED, pod("n1", labels={"n": "2"}, cpu="1500m")):
        judged.clear()
        evaluation = evaluation_of(frame_of(each))
        found = verdicts(FilterMemo([clause], kinds=shared.kinds), cache, evaluation)
        assert len(judged) == evaluations
        assert found == verdicts(FilterMemo([clause]), cache, evaluation)


def test_a_node_that_changes_in_nothing_that_is_read_stays_of_its_kind() -> None:
    """A pod that comes to a node makes no difference to a filter that reads a label."""
    clause, judged = filter_of('node.labels["n"] == pod.labels["n"]'), list[object]()
    clause = replace(clause, requires=(recording(clause.requires[0], judged),))
    memo, cache = FilterMemo([clause], kinds=SharedMemos().kinds), cache_of(NODES)
    before = verdicts(memo, cache, evaluation_of(frame_of(ASKED)))
    judged.clear()
    cache.put_pod(peer_of(pod("other", on="n0", cpu="100m")))
    assert verdicts(memo, cache, evaluation_of(frame_of(ASKED))) == before
    assert judged == []
    cache.put_node(node_of(node("n0", labels={"n": "3"})))
    after = verdicts(memo, cache, evaluation_of(frame_of(ASKED)))
    assert [a != b for a, b in zip(after, before, strict=True)].count(True) == 1
    assert len(judged) == 1


def test_nodes_that_are_all_of_their_own_kind_are_judged_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then their kinds are not worked out any more."""
    monkeypatch.setattr(columns, "_MOST_KINDS", 4)
    clause, shared, cache = filter_of("node.name != pod.name"), SharedMemos(), cache_of(NODES)
    (kinds,) = filter(None, [shared.kinds(clause)])
    for name in ("n1", "n2"):
        evaluation = evaluation_of(frame_of(pod(name)))
        found = verdicts(FilterMemo([clause], kinds=shared.kinds), cache, evaluation)
        assert kinds.are_useless
        assert found == verdicts(FilterMemo([clause]), cache, evaluation)


def test_what_was_found_until_the_time_was_over_is_kept() -> None:
    clause, judged = filter_of("node.name != pod.name"), list[object]()
    requires = (recording(clause.requires[0], judged),)
    clause, cache = replace(clause, requires=requires, nodes_per_look=2), cache_of(NODES)
    memo = FilterMemo([clause], kinds=SharedMemos().kinds)

    looks: list[int] = []

    def late() -> None:
        looks.append(1)
        # The first look is before any node.
        if len(looks) > 1:
            raise DeadlineExceededError("too late")

    late_calls = 0
    while late_calls < 20:
        try:
            looks.clear()
            found = verdicts(memo, cache, evaluation_of(frame_of(ASKED), late))
            break
        except DeadlineExceededError:
            late_calls += 1
    assert 3 <= late_calls < 20
    assert len(judged) == len(NODES)
    assert found == verdicts(FilterMemo([clause]), cache, evaluation_of(frame_of(ASKED)))


# ---- any rule, and any change of the nodes

PARTS: Sequence[str] = (
    'node.labels["n"]',
    "node.name",
    "pod.name",
    'pod.labels["n"]',
    "string(node.spec.unschedulable)",
    'string(node.free["cpu"])',
    "string(size(node.pods))",
    'node.labels[pod.labels["k"]]',
)
AMOUNTS: Sequence[str] = (
    'node.free["cpu"]',
    'node.allocatable["memory"]',
    'pod.requests["cpu"]',
    'quantity("1")',
    'quantity(node.labels["n"])',
)
TESTS: Sequence[str] = (
    "node.ready",
    "node.spec.unschedulable",
    '"m" in node.labels',
    'node.pods.exists(p, p.labels["n"] == pod.labels["n"])',
    'node.usage["cpu"] > 0.25',
    '10 / int(node.labels["n"]) > 3',
    '[node.name, pod.name].exists(node, node.startsWith("n"))',
)
rules = st.recursive(
    st.sampled_from(TESTS)
    | st.tuples(*[st.sampled_from(PARTS)] * 2).map(" == ".join)
    | st.tuples(*[st.sampled_from(AMOUNTS)] * 2).map(" >= ".join),
    lambda inner: st.tuples(inner, st.sampled_from([" && ", " || "]), inner).map(
        lambda each: f"({''.join(each)})"
    ),
    max_leaves=4,
)
VALUES: Sequence[str] = (
    'node.usage["cpu"]',
    "size(node.pods)",
    'node.labels["n"] == pod.labels["n"]',
    'int(node.labels["n"]) + pod.priority',
    '1.0 / (node.usage["cpu"] - 0.25)',
)
_cpus = st.sampled_from(["1", "1000m", "2", "2000m"])
_labels = st.dictionaries(st.sampled_from("nmk"), st.sampled_from(["1", "2", "x", "1000m", "n0"]))
nodes = st.builds(
    lambda name, labels, cpu: node(f"n{name}", labels=labels, cpu=cpu),
    st.integers(0, 5),
    _labels,
    _cpus,
)
placed = st.builds(
    lambda name, on, labels, cpu: pod(f"p{name}", on=f"n{on}", labels=labels, cpu=cpu),
    st.integers(0, 5),
    st.integers(0, 5),
    _labels,
    st.sampled_from(["250m", "500m"]),
)
asked = st.builds(
    lambda name, labels, cpu: pod(f"n{name}", labels=labels, cpu=cpu, priority=name),
    st.integers(0, 2),
    _labels,
    _cpus,
)


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(rules, min_size=1, max_size=3),
    st.sampled_from(VALUES),
    st.lists(nodes | placed, min_size=3, max_size=14),
    st.lists(asked, min_size=1, max_size=3),
    st.sampled_from([-8, 0, 64]),
)
def test_kinds_make_no_difference(
    given_rules: list[str], value: str, changes: list[Object], pods: list[Object], spare: int
) -> None:
    """To a filter or a score, after any change of the nodes, for pods of several shapes."""
    with pytest.MonkeyPatch.context() as patch:
        # Kinds are found anew after a few changes.
        patch.setattr(columns, "_SPARE_KINDS", spare)
        check_kinds(given_rules, value, changes, pods)


def check_kinds(
    given_rules: list[str], value: str, changes: list[Object], pods: list[Object]
) -> None:
    """Compare memos that share kinds with new ones that do not, after each change."""
    clauses, score = [filter_of(rule) for rule in given_rules], score_of(value)
    shared, cache = SharedMemos(), Cache()
    memos: Mapping[int, tuple[FilterMemo, ScoreMemo]] = {
        number: (FilterMemo(clauses, kinds=shared.kinds), ScoreMemo(score, shared.kinds))
        for number in range(len(pods))
    }
    for change in changes:
        if change["kind"] == "Node":
            cache.put_node(node_of(change))
        else:
            cache.put_pod(peer_of(change))
        for number, each in enumerate(pods):
            evaluation = evaluation_of(frame_of(each), report=lambda *_: None)
            filters, scores = memos[number]
            plain = FilterMemo(clauses)
            assert verdicts(filters, cache, evaluation) == verdicts(plain, cache, evaluation)
            assert values(scores, cache, evaluation) == values(ScoreMemo(score), cache, evaluation)
