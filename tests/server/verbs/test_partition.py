"""The parts of an answer: accepted and rejected names, victims, and hosts left out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cache.node_table import KnownRows
from engine.decision.preemption import Victims
from engine.decision.verdict import FEASIBLE, Decision, Rejected, Scores, decision
from server.errors import RequestError
from server.verbs.filter import NameFragments
from server.verbs.preempt import decode_preemption
from server.verbs.prioritize import HANDFUL, listed_hosts, shortened
from server.wire import ExtenderArgs
from tests.server.conftest import Serve
from tests.support.scheduler_side import read_scores
from tests.support.served import TableDecider, names_request, nodes_request, rejected

FAILED = Rejected("policy web: cannot be evaluated", "shop/web", "ssd", error="no such key")
VERDICTS = decision([rejected("full", resolvable=True), FEASIBLE, rejected("no ssd"), FAILED])


def parts(names: Sequence[str], decided: Decision, *, resolvable: bool) -> list[object]:
    args = ExtenderArgs(b"{}", names, None)
    answer, _, number = NameFragments().filter(args, decided, resolvable_rejections=resolvable)
    found = json.loads(answer)
    assert number == len(found["NodeNames"])
    return [found[key] for key in ("NodeNames", "FailedNodes", "FailedAndUnresolvableNodes")]


def test_every_rejection_is_unresolvable_by_default() -> None:
    """C48: otherwise kube-scheduler looks for victims over and over, and finds none."""
    found = parts("abcd", VERDICTS, resolvable=False)
    assert found == [["b"], {}, {"a": "full", "c": "no ssd", "d": FAILED.reason}]


def test_resolvable_rejections_if_configured() -> None:
    """C22: in one of the maps, never in both."""
    found = parts("abcd", VERDICTS, resolvable=True)
    assert found == [["b"], {"a": "full"}, {"c": "no ssd", "d": FAILED.reason}]


def test_a_repeated_name_is_counted_once() -> None:
    """Of different verdicts the first one holds."""
    decided = decision([rejected("full"), FEASIBLE, FEASIBLE, FEASIBLE])
    assert parts("abba", decided, resolvable=False) == [["b"], {}, {"a": "full"}]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_verdicts_must_match_the_names(count: int) -> None:
    with pytest.raises(ValueError, match="verdicts"):
        parts(["a", "b"], decision([FEASIBLE] * count), resolvable=False)


# ---- victims on the wire: two kinds of request, one kind of answer, and never a null


META = {"n2": {"Pods": [{"UID": "u2"}, {"UID": "u1"}], "NumPDBViolations": 1}}


def request(whole: object, meta: object) -> bytes:
    return msgspec.json.encode(
        {"Pod": {}, "NodeNameToVictims": whole, "NodeNameToMetaVictims": meta}
    )


def test_meta_victims_are_used_if_both_are_given() -> None:
    other = {"n9": {"Pods": [{"metadata": {"uid": "x"}}], "NumPDBViolations": 0}}
    assert list(decode_preemption(request(other, META)).victims) == ["n2"]


def test_keys_of_any_case() -> None:
    """C5: `UID`, `Pods`, `NumPDBViolations` too."""
    body = b'{"pod":{},"nodeNameToMetaVictims":{"n":{"pods":[{"uid":"u"}],"numPdbViolations":3}}}'
    assert decode_preemption(body).victims == {"n": Victims(["u"], 3)}


UNREADABLE = {
    b"": "no body",
    b"{": "not JSON",
    b"[]": "does not follow the protocol",
    b'{"NodeNameToMetaVictims":{}}': "no `Pod`",
    request(None, None): "neither",
    request(None, {"n1": {"Pods": [{}]}}): "victim without a UID",
    request({"n1": {"Pods": [{"metadata": {}}]}}, None): "victim without a UID",
    request(None, {"n1": {"Pods": [{"UID": 7}]}}): "does not follow the protocol",
    request(None, {"n1": {"Pods": [], "NumPDBViolations": 1.5}}): "does not follow the protocol",
    b'{"Pod":{},"NodeNameToVictims":' + b"[" * 1_000_000: "nested too deeply",
}


@pytest.mark.parametrize(("body", "why"), UNREADABLE.items(), ids=range(len(UNREADABLE)))
def test_unreadable_requests(body: bytes, why: str) -> None:
    with pytest.raises(RequestError, match=why):
        decode_preemption(body)


# ---- prioritize leaves hosts out of an answer, and kube-scheduler chooses as if it listed them all


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
