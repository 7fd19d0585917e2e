"""Recent answers: rejections that are damped, and the nodes that pods were offered.

Rejected pods are tested with the requeuer.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest

from engine.cache.cache import Cache
from engine.decision.recent_answers import Damper, LastAnswers
from engine.decision.verdict import FEASIBLE, decision
from engine.objects.request_pod import RequestPod, RequestPodReader
from tests.support.builders import node, pod, raw
from tests.support.engines import CODEC
from tests.support.table_decider import rejected

# ---- the damper


@dataclass
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.parametrize(
    ("times", "wanted"),
    [
        pytest.param([0], [False], id="the first rejection"),
        pytest.param([0, 1, 2], [False] * 3, id="three within ten seconds"),
        pytest.param([0, 1, 2, 3], [False] * 3 + [True], id="the fourth within ten seconds"),
        pytest.param([0, 1, 2, 3, 4], [False] * 3 + [True] * 2, id="and the fifth"),
        pytest.param([0, 1, 2, 10], [False] * 4, id="the fourth when the first is ten seconds old"),
        pytest.param([0, 1, 2, 9.9], [False] * 3 + [True], id="the fourth just before that"),
        pytest.param([0, 4, 8, 12, 16], [False] * 5, id="one every four seconds"),
        pytest.param([0, 0, 0, 0, 20, 21], [False] * 3 + [True, False, False], id="after a pause"),
    ],
)
def test_the_fourth_rejection_within_ten_seconds_is_an_error(
    times: list[float], wanted: list[bool]
) -> None:
    clock = Clock()
    damper = Damper(clock)
    found = []
    for after in times:
        clock.seconds = 1000 + after
        found.append(damper.rejected("a"))
    assert found == wanted


def test_each_pod_is_damped_by_itself() -> None:
    damper = Damper(Clock())
    assert [damper.rejected(uid) for uid in "abcabcabc"] == [False] * 9
    assert [damper.rejected(uid) for uid in "abd"] == [True, True, False]


# ---- the last answers

NODES = ("n1", "n2", "n3")


class Answered:
    """A cache with three nodes, and the last answers about them."""

    def __init__(self) -> None:
        self.cache = Cache()
        for name in NODES:
            self.add(name)
        self.answers = LastAnswers(lambda: self.cache.snapshot().table)
        self._others = 0

    def add(self, name: str) -> None:
        self.cache.put_node(CODEC.node(raw(node(name))))

    def answer(self, asked: RequestPod, *offered: str, by_rows: bool = True) -> None:
        """Filter is asked about all nodes, and offers these."""
        table = self.cache.snapshot().table
        _, rows = table.locate(NODES)
        verdicts = [FEASIBLE if name in offered else rejected("no") for name in NODES]
        decided = decision(verdicts, rows if by_rows else None)
        self.answers.answered(asked, NODES, decided)

    def pack(self) -> None:
        """Other pods are asked about, until the answers so far are not the newest any more."""
        self._others += 1
        for number in range(32):
            self.answers.answered(asked(f"other-{self._others}-{number}"), NODES, None)

    def offers(self, uid: str) -> list[str] | None:
        """The nodes that the last answer offers; None if it is not known."""
        last = self.answers.find(uid)
        return None if last is None else [n for n in (*NODES, "n4", "") if last.offers(n)]


def asked(uid: str, size: int = 0, app: str = "") -> RequestPod:
    """A pod with a body of at least this many bytes."""
    made = pod("asked", labels={"app": app})
    made["metadata"] |= {"uid": uid, "annotations": {"padding": "x" * size}}
    return RequestPodReader(CODEC).read(raw(made))


@pytest.mark.parametrize("packed", [True, False], ids=["older", "recent"])
@pytest.mark.parametrize("by_rows", [True, False], ids=["by rows", "by names"])
@pytest.mark.parametrize("offered", [["n2"], ["n1", "n3"], list(NODES), []], ids=" ".join)
def test_the_offered_nodes_are_known(offered: list[str], by_rows: bool, packed: bool) -> None:
    known = Answered()
    known.answer(asked("a"), *offered, by_rows=by_rows)
    if packed:
        known.pack()
    assert known.offers("a") == offered
    assert known.offers("b") is None


@pytest.mark.parametrize("packed", [True, False], ids=["older", "recent"])
def test_the_last_answer_counts(packed: bool) -> None:
    known = Answered()
    known.answer(asked("a", app="web"), *NODES)
    if packed:
        known.pack()
    again = asked("a", app="db")
    known.answer(again, "n2")
    if packed:
        known.pack()
    last = known.answers.find("a")
    assert last is not None
    assert last.body == again.body
    assert known.offers("a") == ["n2"]
    known.answers.answered(again, NODES, None)
    assert known.offers("a") == [], "an error offers nothing"


@pytest.mark.parametrize("packed", [True, False], ids=["older", "recent"])
def test_a_node_that_takes_the_place_of_another_one_was_not_offered(packed: bool) -> None:
    """It gets the row of the removed one."""
    known = Answered()
    known.answer(asked("a"), *NODES)
    if packed:
        known.pack()
    row = known.cache.snapshot().table.rows["n2"]
    known.cache.remove_node("n2")
    assert known.cache.snapshot().node("n2") is None
    known.add("n4")
    assert known.cache.snapshot().table.rows["n4"] == row
    assert known.offers("a") == [*NODES]


def test_of_a_repeated_name_the_first_counts() -> None:
    known = Answered()
    decided = decision([FEASIBLE, rejected("no"), FEASIBLE])
    known.answers.answered(asked("a"), ["n1", "n2", "n2"], decided)
    assert known.offers("a") == ["n1"]


@pytest.mark.parametrize("packed", [True, False], ids=["older", "recent"])
@pytest.mark.parametrize(
    ("change", "revision", "kept"),
    [("bound", 7, False), ("assumed", 0, True), ("changed", 7, True), ("deleted", 7, False)],
)
def test_answers_about_bound_and_deleted_pods_are_forgotten(
    change: str, revision: int, kept: bool, packed: bool
) -> None:
    known = Answered()
    known.answer(asked("a"), "n1")
    if packed:
        known.pack()
    before = asked("a").peer
    after = msgspec.structs.replace(before, nodeName="n1" if change != "changed" else "")
    known.answers.pod_changed(before, None if change == "deleted" else after, revision)
    assert known.offers("a") == (["n1"] if kept else None)


def test_answers_about_former_sets_of_nodes_are_forgotten() -> None:
    """The rows of all nodes are kept for the last eight sets only."""
    known = Answered()
    known.answer(asked("first"), "n1")
    known.pack()
    for number in range(7):
        known.add(f"more-{number}")
        known.answer(asked(f"{number}"), "n1")
        known.pack()
    assert known.offers("first") == ["n1"]
    known.add("last")
    known.answer(asked("last"), "n1")
    known.pack()
    assert known.offers("first") is None
    assert known.offers("0") == known.offers("last") == ["n1"]


def test_the_answers_used_last_are_kept() -> None:
    """They have 16 MiB together."""
    known, third = Answered(), 5 << 20
    for uid in "abc":
        known.answer(asked(uid, third), "n1")
    known.pack()
    assert known.offers("a") is not None
    known.answer(asked("d", third), "n1")
    known.pack()
    assert [uid for uid in "abcd" if known.offers(uid)] == ["a", "c", "d"]
    known.answer(asked("d", 17 << 20), "n1")
    known.pack()
    assert [uid for uid in "abcd" if known.offers(uid)] == ["a", "c"], "it is too large to keep"


def test_rejections_take_memory_too() -> None:
    known, one = Answered(), asked("")
    for number in range(70_000):
        one.uid = f"{number}"
        known.answers.answered(one, NODES, None)
    assert known.offers("0") is None
    assert known.offers("69999") == []
