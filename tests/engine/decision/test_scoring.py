"""Scoring: the value of a clause, its points, and the mean of all clauses."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decision import scoring
from engine.program.frame import Term
from engine.program.program import NO_READS, ScoreProgram, applies
from tests.support.builders import Object, node, pod
from tests.support.engines import cache_of, evaluation_of, frame_of, node_of, programs_of
from tests.support.rows import rows

ASKED = pod("asked", priority=0)
NAMES = [f"n{number}" for number in range(4)]
NUMBER = 'int(node.labels["n"])'


def scores_of(clauses: str) -> Sequence[ScoreProgram]:
    (program,) = programs_of(f"cluster policy p {{ {clauses} }}")
    return program.of(ScoreProgram)


def numbered(number: int) -> Object:
    return node(f"n{number}", labels={"n": str(number)})


# ---- the value of a clause


@rows(
    ("value", "wanted", "reports"),
    {
        "a number": (NUMBER, 2.0, []),
        "true is 100": ("true", 100.0, []),
        "false is 0": ("false", 0.0, []),
        "a quantity": ('node.allocatable["cpu"] range "0" .. "16"', 8.0, []),
        "missing: none, and no error": ('int(node.labels["m"])', math.nan, []),
        "an error: none": ("1 / pod.priority", math.nan, ["s: division by zero"]),
        "up to a number of the node": (f"1 range 0 .. {NUMBER} * 2", 25.0, []),
        "up to a quantity": ('quantity("6") range "0" .. node.allocatable["cpu"]', 75.0, []),
        "from high to low": (f"8 range {NUMBER} * 5 .. {NUMBER} * 0", 20.0, []),
        "beyond it, which is cut off later": ("12 range pod.priority .. 10", 120.0, []),
        "no value in it": ('int(node.labels["m"]) range 0 .. pod.priority + 1', math.nan, []),
        "an end is missing: none, and an error": (
            '1 range 0 .. int(node.labels["m"])',
            math.nan,
            ["s: an end of the range is missing: there is no key `m`"],
        ),
        "nothing between the ends": (
            "1 range 2 .. pod.priority + 2",
            math.nan,
            ["s: both ends of the range are equal"],
        ),
        "an end that is a text": (
            "1 range dyn(node.name) .. 2",
            math.nan,
            ["s: a range is of numbers, quantities or durations"],
        ),
        "infinite: none": ("1e300 * 1e300", math.nan, ["s: the value is inf"]),
    },
)
def test_value(value: str, wanted: float, reports: list[str]) -> None:
    (clause,) = scores_of(f'score "s" weight 1 {{ value {value} }}')
    frame, heard = frame_of(ASKED), list[str]()
    frame.node = node_of(node("n2", cpu="8", labels={"n": "2"}))
    found = scoring.value(clause, frame, lambda _, name, error: heard.append(f"{name}: {error}"))
    assert np.array_equal([found], [wanted], equal_nan=True)
    assert heard == reports


@rows(
    ("condition", "wanted", "reports"),
    {
        "none": ("", True, []),
        "true": ("when pod.priority == 0", True, []),
        "false": ("when pod.priority > 0", False, []),
        "missing": ('when pod.labels["x"] == "y"', False, []),
        "an error, reported": ("when 1 / pod.priority > 0", False, ["s: division by zero"]),
    },
)
def test_whether_a_clause_applies(condition: str, wanted: bool, reports: list[str]) -> None:
    (clause,) = scores_of(f'score "s" weight 1 {condition} {{ value 1 }}')
    heard: list[str] = []
    evaluation = evaluation_of(
        frame_of(ASKED), report=lambda _, name, error: heard.append(f"{name}: {error}")
    )
    assert applies(clause, evaluation) is wanted
    assert heard == reports


# ---- points

numbers = st.floats(-1e300, 1e308) | st.integers(-3, 103).map(float) | st.just(math.nan)
weights = st.floats(0.01, 1000).flatmap(lambda weight: st.sampled_from([weight, -weight]))
ranges = st.none() | st.tuples(
    st.integers(-100, 100).map(float), st.integers(-100, 100).map(float)
).filter(lambda edges: edges[0] != edges[1])


@st.composite
def clauses(draw: st.DrawFn) -> ScoreProgram:
    return ScoreProgram(
        policy="p",
        name="s",
        weight=draw(weights),
        when=None,
        value=lambda _: 0,
        range=draw(ranges),
        missing=float(draw(st.integers(0, 100))),
        time_dependent=False,
        tables=frozenset(),
        of_pod=(),
        of_node=None,
        groups=NO_READS,
        nodes_per_look=100,
    )


def expected(clause: ScoreProgram, number: float) -> float:
    """The formula of the reference (docs/language/clauses.md, score)."""
    if math.isnan(number):
        return clause.missing
    if clause.range is not None:
        assert isinstance(clause.range, tuple)
        low, high = clause.range
        number = 100 * (number - low) / (high - low)
    placed = min(max(number, 0.0), 100.0)
    return 100 - placed if clause.weight < 0 else placed


@given(clauses(), st.lists(numbers, min_size=1, max_size=3))
def test_points_are_those_of_the_formula(clause: ScoreProgram, values: list[float]) -> None:
    found = scoring.points(clause, np.array(values))
    assert found.tolist() == [expected(clause, number) for number in values]


# ---- the scores of a request


class Scores:
    """The scorer of some clauses over four nodes with the numbers 0 to 3."""

    def __init__(self, clauses: str) -> None:
        self.scorer = scoring.Scorer(scores_of(clauses))
        self.cache = cache_of([numbered(number) for number in range(4)])

    def ask(self, names: Sequence[str] = NAMES, soft: Sequence[Term] = ()) -> list[int]:
        table = self.cache.snapshot().table
        evaluation = evaluation_of(frame_of(ASKED))
        found: list[int] = self.scorer.scores(table, table.find(names), evaluation, soft).tolist()
        return found


@rows(
    ("clauses", "wanted"),
    {
        "a range of numbers": (
            'score "a" weight 1 { value int(node.labels["n"]) range 0 .. 3 }',
            [0, 3, 7, 10],
        ),
        "a let as the end of a range": (
            'let most = 3 score "a" weight 1 { value int(node.labels["n"]) range 0 .. most }',
            [0, 3, 7, 10],
        ),
        "a computed range, turned round and cut off": (
            'score "a" weight -1 { value int(node.labels["n"]) range 0 .. pod.priority + 2 }',
            [10, 5, 0, 0],
        ),
        "a negative weight turns it round": (
            'score "a" weight -1 { value int(node.labels["n"]) range 0 .. 3 }',
            [10, 7, 3, 0],
        ),
        "minmax compares the nodes of the request": (
            'score "a" weight 1 { value int(node.labels["n"]) range minmax }',
            [0, 3, 7, 10],
        ),
        "greatest compares with the greatest value": (
            'score "a" weight 1 { value int(node.labels["n"]) + 1 range greatest }',
            [3, 5, 8, 10],
        ),
        "nothing is above 0": (
            'score "a" weight 1 { value 0 - int(node.labels["n"]) range greatest }',
            [0, 0, 0, 0],
        ),
        "negative values are 0, and a negative weight turns it round": (
            'score "a" weight -1 { value int(node.labels["n"]) - 1 range greatest missing 7 }',
            [10, 10, 5, 0],
        ),
        "the mean by weight, rounded half up": (
            (
                'score "a" weight 1 { value int(node.labels["n"]) range 0 .. 3 }'
                ' score "b" weight 3 { value node.name == "n0" }'
            ),
            [8, 1, 2, 3],
        ),
        "missing values have their points": (
            'score "a" weight 1 { value int(node.labels["m"]) missing 40 }',
            [4, 4, 4, 4],
        ),
    },
)
def test_scores(clauses: str, wanted: list[int]) -> None:
    """10 * 'sum of weight * points' / 'sum of weights' / 100, rounded half up."""
    assert Scores(clauses).ask() == wanted


COMPARING = f'score "a" weight 1 {{ value {NUMBER} range minmax }}'
ABSOLUTE = f'score "a" weight 1 {{ value {NUMBER} range 0 .. 3 }}'


@rows(
    ("clauses", "wanted"),
    {
        "a fixed range: each node by itself": (ABSOLUTE, [3, 7]),
        "minmax: among the nodes of the request": (COMPARING, [0, 10]),
        "one of them compares": (f'{COMPARING} score "b" weight 1 {{ value 0 }}', [0, 5]),
    },
)
def test_scores_of_other_nodes_next_time(clauses: str, wanted: list[int]) -> None:
    """What is remembered of a node must not depend on the nodes beside it."""
    scores = Scores(clauses)
    everywhere = scores.ask()
    assert scores.ask(["n1", "n2"]) == wanted
    assert scores.ask(["n2", "n1"]) == wanted[::-1]
    assert scores.ask() == everywhere


@pytest.mark.parametrize("clauses", [ABSOLUTE, COMPARING], ids=["fixed", "minmax"])
def test_scores_follow_a_node_that_changes(clauses: str) -> None:
    scores = Scores(clauses)
    assert scores.ask() == [0, 3, 7, 10]
    scores.cache.put_node(node_of(node("n3", labels={"n": "0"})))
    after = {ABSOLUTE: [0, 3, 7, 0], COMPARING: [0, 5, 10, 0]}
    assert scores.ask() == after[clauses]


def test_points_of_counts_are_terms_of_the_mean() -> None:
    """Of one request alone: the next one has its own."""
    scores = Scores('score "a" weight 1 { value 0 }')
    term = (3.0, np.array([0.0, 100.0, 50.0, 20.0]))
    assert scores.ask() == [0, 0, 0, 0]
    assert scores.ask(soft=[term]) == [0, 8, 4, 2]
    assert scores.ask() == [0, 0, 0, 0]


def test_points_of_counts_may_be_the_only_terms() -> None:
    scores = Scores("")
    assert not scores.scorer.applies
    assert len(scores.scorer) == 0
    assert scores.ask(soft=[(2.0, np.array([0.0, 100.0, 50.0, 20.0]))]) == [0, 10, 5, 2]


def test_the_length_of_a_scorer_is_its_number_of_clauses() -> None:
    """A plan takes its memory from it."""
    scorer = Scores(f'{ABSOLUTE} score "b" weight 1 {{ value 0 }}').scorer
    assert scorer.applies
    assert len(scorer) == 2
