"""Prioritize leaves hosts out of an answer, and kube-scheduler chooses as if it listed them all."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.cache.node_table import KnownRows
from engine.decision.verdict import Scores
from server.verbs.filter import NameFragments
from server.verbs.prioritize import HANDFUL, listed_hosts, shortened
from tests.server.conftest import Serve
from tests.support.scheduler_side import read_scores
from tests.support.served import TableDecider, names_request, nodes_request

MANY = 300


def points(*parts: tuple[int, int]) -> Scores:
    """So many hosts of each score, as pairs of a score and a number."""
    return Scores(np.concatenate([np.full(number, score, np.int64) for score, number in parts]))


def listed(scores: Scores, seed: int = 1) -> list[int]:
    """The scores in an answer, lowered or not."""
    found = listed_hosts(scores.points, np.random.default_rng(seed))
    return list(scores if found is None else shortened(scores, found))


def test_hosts_at_the_lowest_score_are_left_out() -> None:
    assert Counter(listed(points((3, 90), (9, 10)))) == {0: HANDFUL, 6: 10}


def test_equal_hosts() -> None:
    for score in (0, 5, 10):
        assert listed(points((score, MANY))) == [0] * HANDFUL


def test_a_long_answer_stays_as_it_is() -> None:
    """Four fifths of the hosts are above the lowest score, so there is little to leave out."""
    assert Counter(listed(points((3, 60), (9, 239)))) == {0: HANDFUL, 6: 239}
    assert Counter(listed(points((3, 60), (9, 240)))) == {3: 60, 9: 240}


def test_a_short_answer_stays_as_it_is() -> None:
    assert Counter(listed(points((3, HANDFUL), (9, 5)))) == {3: HANDFUL, 9: 5}
    assert Counter(listed(points((3, HANDFUL + 1), (9, 5)))) == {0: HANDFUL, 6: 5}
    assert listed(Scores(np.empty(0, np.int64))) == []


def test_every_host_has_the_same_chance() -> None:
    chance, scores = np.random.default_rng(7), points((4, 100), (5, 3))
    counts = np.zeros(len(scores), int)
    for _ in range(2_000):
        found = listed_hosts(scores.points, chance)
        assert found is not None
        assert list(found) == sorted(set(found.tolist()))
        counts[found] += 1
    expected = 2_000 * HANDFUL / 100
    assert counts[100:].tolist() == [2_000] * 3
    # Five standard deviations of a binomial distribution.
    assert abs(counts[:100] - expected).max() < 5 * (expected * (1 - HANDFUL / 100)) ** 0.5


@given(st.data())
def test_the_best_hosts_are_the_same(data: st.DataObject) -> None:
    """For any scores of kube-scheduler's own plugins and any of ours: C27, and whole numbers."""
    count = data.draw(st.integers(1, 120))
    most = data.draw(st.integers(0, 10))
    ours = np.array(data.draw(st.lists(st.integers(0, most), min_size=count, max_size=count)))
    theirs = np.array(data.draw(st.lists(st.integers(0, 700), min_size=count, max_size=count)))
    weight = data.draw(st.integers(1, 100))
    scores = Scores(ours.astype(np.int64))
    found = listed_hosts(scores.points, np.random.default_rng(data.draw(st.integers(0, 1000))))
    given_points = np.zeros(count, np.int64)
    if found is None:
        given_points += ours
    else:
        given_points[found] = list(shortened(scores, found))
    full, short = (theirs + part * weight * 10 for part in (ours, given_points))
    assert np.array_equal(full - full.max(), short - short.max())


def test_an_answer_from_fragments() -> None:
    names = [f"n{number}" for number in range(100)]
    nodes = {name: row for row, name in enumerate(names, start=1)}
    ours = np.array([8 if number % 10 == 0 else 6 for number in range(100)], np.int64)
    scores = Scores(ours, KnownRows(np.arange(1, 101, dtype=np.intp), nodes))
    found = listed_hosts(scores.points, np.random.default_rng(1))
    assert found is not None
    short = shortened(scores, found)
    assert short.known_rows is not None
    body = NameFragments().priorities(short, short.known_rows)
    assert body is not None
    answer = read_scores(body)
    assert {name for name, score in answer.items() if score} == set(names[::10])
    assert set(answer.values()) == {0, 2}
    assert len(answer) == 10 + HANDFUL


async def test_a_served_answer(serve: Serve) -> None:
    names = [f"n{number}" for number in range(MANY)]
    best = set(names[:7])
    served = await serve(
        decider=TableDecider(scores=dict.fromkeys(names, 2) | dict.fromkeys(best, 9))
    )
    for request in (names_request(*names), nodes_request(*names), names_request(*names, "n0")):
        answer = read_scores((await served.post("/prioritize", request)).body)
        assert {name for name, score in answer.items() if score} == best
        assert Counter(answer.values()) == {7: len(best), 0: HANDFUL}
