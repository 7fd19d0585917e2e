"""The memos of a plan: which nodes are evaluated again, and which pods share what is kept."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pytest

from engine.cache.cache import Cache
from engine.cache.node_table import NodeTable, NodeWithPods
from engine.decision import scoring
from engine.decision.filtering import FilterMemo
from engine.decision.plan import Plan
from engine.decision.scoring import ScoreMemo
from engine.decision.verb_call import CallOpener
from engine.engine import Engine
from engine.errors import DeadlineExceededError
from engine.program.frame import CheckDeadline, Evaluation, Frame, unlimited
from engine.program.pod_shape import pod_values
from engine.program.program import FilterProgram, ScoreProgram
from grammar.values.time import SECOND, Timestamp
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import (
    NOW,
    cache_of,
    engine_of,
    evaluation_of,
    frame_of,
    node_of,
    programs_of,
    snapshot_of,
    table_of,
)
from tests.support.rows import rows

T = TypeVar("T")


def minute(number: int) -> Timestamp:
    return Timestamp(NOW.nanos + number * 60 * SECOND)


ASKED = pod("asked", labels={"app": "web"})
POLICY = """
cluster policy p {
  filter "low" { require int(node.labels["n"]) < 3 message "too high" }
  score "high" weight 1 { value int(node.labels["n"]) * 10 }
}
"""


def numbered(name: str, number: int) -> Object:
    return node(name, labels={"n": str(number)})


@dataclass
class Memo:
    """A memo of one clause: what it says of nodes, and the nodes it evaluated for that."""

    answer: Callable[[NodeTable, Sequence[str], Evaluation], list[float]]
    evaluated: list[str]

    def ask(
        self,
        table: NodeTable,
        names: Sequence[str],
        check: CheckDeadline = unlimited,
        now: Timestamp = NOW,
    ) -> list[float]:
        self.evaluated.clear()
        return self.answer(table, names, evaluation_of(frame_of(ASKED, now), check))


def recording(evaluate: Callable[[Frame], T], evaluated: list[str]) -> Callable[[Frame], T]:
    """The closure; its value on a node may change so many minutes after `NOW` as its number is."""

    def run(frame: Frame) -> T:
        assert isinstance(frame.node, NodeWithPods)
        evaluated.append(frame.node.name)
        if (moment := minute(int(frame.node.labels["n"])).nanos) > frame.now.nanos:
            frame.holds_until(moment)
        return evaluate(frame)

    return run


def filter_memo(*, time_dependent: bool = False) -> Memo:
    """1 for a node that the filter passes."""
    evaluated: list[str] = []
    (program,) = programs_of(POLICY)
    (clause,) = program.of(FilterProgram)
    requires = tuple(recording(require, evaluated) for require in clause.requires)
    # Without labels, because what is recorded reads the name.
    clause = dataclasses.replace(
        clause, requires=requires, time_dependent=time_dependent, of_node=None
    )
    memo = FilterMemo([clause])

    def answer(table: NodeTable, names: Sequence[str], evaluation: Evaluation) -> list[float]:
        decided = memo.decide(table, table.find(names), evaluation)
        return [float(code == 0) for code in decided.codes]

    return Memo(answer, evaluated)


def score_memo(*, time_dependent: bool = False) -> Memo:
    """The value of the score."""
    evaluated: list[str] = []
    (program,) = programs_of(POLICY)
    (clause,) = program.of(ScoreProgram)
    value = recording(clause.value, evaluated)
    memo = ScoreMemo(dataclasses.replace(clause, value=value, time_dependent=time_dependent))

    def answer(table: NodeTable, names: Sequence[str], evaluation: Evaluation) -> list[float]:
        values = memo.values(table, table.find(names), evaluation)
        return [float(each) for each in values]

    return Memo(answer, evaluated)


def mean_memo(*, time_dependent: bool = False) -> Memo:
    """The mean of the score, in tens."""
    evaluated: list[str] = []
    (program,) = programs_of(POLICY)
    (clause,) = program.of(ScoreProgram)
    value = recording(clause.value, evaluated)
    clause = dataclasses.replace(clause, value=value, time_dependent=time_dependent)
    memo = scoring.mean_memo([clause])

    def answer(table: NodeTable, names: Sequence[str], evaluation: Evaluation) -> list[float]:
        points = memo.of(table, table.find(names), evaluation)
        return [float(each) for each in points]

    return Memo(answer, evaluated)


Made = tuple[Callable[..., Memo], Callable[[int], float]]
MEMOS: Mapping[str, Made] = {
    "filters": (filter_memo, lambda number: float(number < 3)),
    "a score": (score_memo, lambda number: number * 10.0),
    "the mean of scores": (mean_memo, float),
}


@pytest.fixture(params=MEMOS)
def made(request: pytest.FixtureRequest) -> Made:
    """A memo of each kind, and what it says of a node with a number."""
    return MEMOS[request.param]


def numbered_cache(count: int = 4) -> Cache:
    return cache_of([numbered(f"n{number}", number) for number in range(count)])


def test_only_a_node_that_changed_is_evaluated_again(made: Made) -> None:
    make, says = made
    memo, cache, names = make(), numbered_cache(), ["n0", "n1", "n2", "n3"]
    assert memo.ask(cache.snapshot().table, names) == [says(0), says(1), says(2), says(3)]
    assert memo.evaluated == names
    assert memo.ask(cache.snapshot().table, names) == [says(0), says(1), says(2), says(3)]
    assert memo.evaluated == []
    cache.put_node(node_of(numbered("n1", 7)))
    assert memo.ask(cache.snapshot().table, names) == [says(0), says(7), says(2), says(3)]
    assert memo.evaluated == ["n1"]


def test_only_nodes_that_are_asked_about_are_evaluated(made: Made) -> None:
    make, says = made
    memo, table = make(), numbered_cache().snapshot().table
    assert memo.ask(table, ["n3", "n1"]) == [says(3), says(1)]
    assert memo.evaluated == ["n1", "n3"]
    assert memo.ask(table, ["n2", "n3"]) == [says(2), says(3)]
    assert memo.evaluated == ["n2"]


def test_a_change_of_a_node_is_not_lost_while_nobody_asks_about_it(made: Made) -> None:
    make, says = made
    memo, cache = make(), numbered_cache()
    memo.ask(cache.snapshot().table, ["n0", "n1"])
    cache.put_node(node_of(numbered("n1", 7)))
    memo.ask(cache.snapshot().table, ["n0"])
    assert memo.evaluated == []
    assert memo.ask(cache.snapshot().table, ["n1"]) == [says(7)]


def test_a_new_node_is_evaluated_whatever_row_it_takes(made: Made) -> None:
    make, says = made
    memo, cache = make(), numbered_cache()
    memo.ask(cache.snapshot().table, ["n0", "n1", "n2", "n3"])
    cache.remove_node("n1")
    cache.put_node(node_of(numbered("n8", 8)))
    cache.put_node(node_of(numbered("n9", 2)))
    assert memo.ask(cache.snapshot().table, ["n0", "n8", "n9"]) == [says(0), says(8), says(2)]
    assert sorted(memo.evaluated) == ["n8", "n9"]


def test_a_table_of_another_owner_is_evaluated_whole(made: Made) -> None:
    make, says = made
    memo, names = make(), ["n0", "n1"]
    memo.ask(snapshot_of([numbered("n0", 0), numbered("n1", 1)]).table, names)
    other = snapshot_of([numbered("n1", 5), numbered("n0", 6)]).table
    assert memo.ask(other, names) == [says(6), says(5)]
    assert memo.evaluated == ["n1", "n0"]


def test_what_time_can_change_of_another_owner_is_evaluated_whole(made: Made) -> None:
    make, _ = made
    memo, tables = make(time_dependent=True), [numbered_cache(9), numbered_cache(2)]
    for cache in (*tables, *tables):
        memo.ask(cache.snapshot().table, ["n0", "n1"])
        assert memo.evaluated == ["n0", "n1"]


def test_what_time_can_change_is_evaluated_when_its_moment_comes(made: Made) -> None:
    make, _ = made
    memo, table = make(time_dependent=True), numbered_cache().snapshot().table
    names = ["n0", "n1", "n2", "n3"]
    for now, evaluated in (
        (minute(0), names),
        (minute(0), []),
        (Timestamp(minute(1).nanos - 1), []),
        (minute(1), ["n1"]),
        (minute(9), ["n2", "n3"]),
        (minute(10), []),
    ):
        memo.ask(table, names, now=now)
        assert memo.evaluated == evaluated


def test_all_that_time_can_change_is_evaluated_when_the_clock_is_set_back(made: Made) -> None:
    make, _ = made
    memo, table = make(time_dependent=True), numbered_cache().snapshot().table
    for now in (minute(0), Timestamp(NOW.nanos - 1)):
        memo.ask(table, ["n0", "n1"], now=now)
        assert memo.evaluated == ["n0", "n1"]


def test_nodes_that_time_can_change_are_kept_at_the_deadline(made: Made) -> None:
    make, _ = made
    memo, table = make(time_dependent=True), numbered_cache(600).snapshot().table
    names = [f"n{number}" for number in range(600)]

    def late() -> None:
        if len(memo.evaluated) >= 512:
            raise DeadlineExceededError("too late")

    with pytest.raises(DeadlineExceededError):
        memo.ask(table, names, late)
    memo.ask(table, names)
    assert memo.evaluated == names[512:]


def test_what_was_done_before_the_deadline_is_kept(made: Made) -> None:
    """In portions of 512 nodes: the next request begins where this one ended."""
    make, says = made
    memo, names = make(), [f"n{number}" for number in range(1100)]
    view = snapshot_of([numbered("n", 1)]).nodes["n"]
    table = table_of(dataclasses.replace(view, name=name) for name in names)

    def late() -> None:
        if len(memo.evaluated) >= 512:
            raise DeadlineExceededError("too late")

    with pytest.raises(DeadlineExceededError):
        memo.ask(table, names, late)
    done = list(memo.evaluated)
    assert done == names[:512]
    assert memo.ask(table, names) == [says(1)] * 1100
    assert memo.evaluated == names[512:]


@rows(
    ("make", "wanted"),
    {
        "a filter rejects it": (filter_memo, 0.0),
        "a score has no value for it": (score_memo, math.nan),
        "the mean takes the value as missing": (mean_memo, 0.0),
    },
)
def test_an_unknown_node(make: Callable[[], Memo], wanted: float) -> None:
    memo = make()
    found = memo.ask(numbered_cache().snapshot().table, ["unknown", "n0"])
    assert np.array_equal(found[:1], [wanted], equal_nan=True)
    assert memo.evaluated == ["n0"]


# ---- memos that plans share: pods that are alike to the clauses, whatever else they are


NODES = [node("n0", labels={"pool": "a"}), node("n1", labels={"pool": "b"})]
NAMES = ["n0", "n1"]


def plans(policies: str, pods: Sequence[Object]) -> list[Plan]:
    engine = engine_of(policies, NODES)
    opener: CallOpener = engine._calls  # noqa: SLF001 - a plan has no other face
    return [opener.open(engine.looks.read(raw(each)), NAMES, math.inf).plan for each in pods]


def offered(engine: Engine, asked: Object) -> list[str]:
    decided = engine.filter(raw(asked), NAMES, None, math.inf)
    return [name for name, code in zip(NAMES, decided.codes, strict=True) if not code]


@rows(
    "condition",
    {
        "a comparison with a name": 'pod.name != "zz"',
        "a function of a name": '!pod.name.startsWith("z")',
        "a number": "pod.name.size() == 2",
        "a def": "f(pod.name, node.name)",
    },
)
def test_pods_of_other_names_share_what_is_known_of_nodes(condition: str) -> None:
    text = (
        "cluster policy p { "
        'def f(a: string, b: string): bool = pod.name != "zz" && b != "n9" '
        f'filter "f" {{ require node.labels["pool"] == "a" && {condition} }} '
        f'score "s" weight 1 {{ value node.labels["pool"] == "a" && {condition} ? 100 : 0 }} }}'
    )
    first, second, other = plans(text, [pod("p0"), pod("p1"), pod("zz1")])
    assert first is not second
    if condition.startswith("f("):
        # What a parameter stands for is not known.
        assert first.filters is not second.filters
        return
    assert first.filters is second.filters
    assert first.scorer is second.scorer
    shares = condition == 'pod.name != "zz"'
    assert (other.filters is first.filters) is shares


def test_pods_that_are_not_alike_do_not_share() -> None:
    engine = engine_of(
        'cluster policy p { filter "f" { require node.labels["pool"] == pod.labels["pool"] } }',
        NODES,
    )
    for pool, node_name in (("a", ["n0"]), ("b", ["n1"]), ("a", ["n0"]), ("c", [])):
        assert offered(engine, pod(f"p-{pool}", labels={"pool": pool})) == node_name


def test_amounts_that_are_written_differently_are_not_alike() -> None:
    engine = engine_of(
        'cluster policy p { filter "f" { require '
        'string(pod.requests["cpu"] + node.free["cpu"] - node.free["cpu"]) == "1" } }',
        NODES,
    )
    for amount in ("1", "1000m", "1"):
        alone = engine_of(
            'cluster policy p { filter "f" { require '
            'string(pod.requests["cpu"] + node.free["cpu"] - node.free["cpu"]) == "1" } }',
            NODES,
        )
        asked = pod(f"p-{amount}", cpu=amount)
        assert offered(engine, asked) == offered(alone, asked)


@rows(
    ("one", "other", "alike"),
    {
        "equal": (1, 1, True),
        "of two types": (1, True, False),
        "written differently": (0.0, -0.0, False),
        "maps and lists": ({"a": ["b"]}, {"a": ["b"]}, True),
        "maps of two types": ({"a": 1}, {"a": 1.0}, False),
    },
)
def test_which_values_are_alike(one: object, other: object, *, alike: bool) -> None:
    frame = frame_of(pod("p"))
    assert (pod_values([lambda _: one], frame) == pod_values([lambda _: other], frame)) is alike


@pytest.mark.parametrize("value", [object(), ["a"] * 300, [object()]])
def test_objects_and_large_values_are_not_compared(value: object) -> None:
    assert pod_values([lambda _: value], frame_of(pod("p"))) is None
