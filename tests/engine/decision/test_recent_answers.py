"""Recent answers: rejections that are damped, and the nodes that pods were offered.

Rejected pods are tested with the requeuer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import msgspec
import pytest

from engine.cache.cache import Cache
from engine.decision.recent_answers import AfterDecision, Damped, Damper, LastAnswers, RejectedPods
from engine.decision.verdict import FEASIBLE, Rejected, decision
from engine.objects.remembered import Memory
from engine.objects.request_pod import RequestPod, RequestPodReader
from tests.support.builders import node, pod, raw
from tests.support.engines import CODEC
from tests.support.fake_clock import HandClock
from tests.support.rows import rows
from tests.support.served import rejected

# ---- the damper


# Of an answer: `.` as it is, `t` with one text for all nodes, `E` an error.
def form(damped: Damped | None) -> str:
    return "." if damped is None else "E" if damped.is_error else "t"


def forms(times: Iterable[float], *reasons: str) -> str:
    """The answers about a pod that is rejected for these reasons at these times."""
    clock = HandClock()
    damper = Damper(clock)
    found = ""
    for after in times:
        clock.seconds = 1000 + after
        found += form(damper.rejected("a", reasons))
    return found


@rows(
    ("times", "wanted"),
    {
        "the first rejection": ([0], "."),
        "three within ten seconds": ([0, 1, 2], "..."),
        "the fourth within ten seconds": ([0, 1, 2, 3], "...t"),
        "the fourth when the first is ten seconds old": ([0, 1, 2, 10], "...."),
        "the fourth just before that": ([0, 1, 2, 9.9], "...t"),
        "one every four seconds": ([0, 4, 8, 12, 16], "....."),
        "one text for ever": ([0, 0, 0, 0, 300, 900], "...ttt"),
        "an error if that does not help": ([0] * 10, "...tttEEEE"),
        "for ten seconds": ([*[0] * 7, 9.9, 10], "...tttEEt"),
        "then for twenty": ([*[0] * 7, *[10] * 4, 29.9, 30], "...tttEtttEEt"),
    },
)
def test_rejections_for_the_same_reasons_are_damped(times: list[float], wanted: str) -> None:
    assert forms(times, "a", "b") == wanted


def test_one_reason_is_one_text_anyway() -> None:
    assert forms([0] * 5, "a") == "...EE"


def test_a_pod_settles() -> None:
    """A loop that nothing damps but errors: kube-scheduler asks at once, and backs off after those.

    Before, the damper forgot a pod after ten seconds: 17 calls a minute, for ever.
    """
    clock, asked = HandClock(1000.0), list[float]()
    damper, errors = Damper(clock), 0
    while clock.seconds < 1000.0 + 3600.0:
        asked.append(clock.seconds)
        damped = damper.rejected("a", ["a", "b"])
        errors = errors + 1 if damped is not None and damped.is_error else 0
        clock.seconds += min(2.0 ** (errors - 1), 10.0) if errors else 0.05
    last = [time for time in asked if time > 1000.0 + 1800.0]
    assert len(last) / 30.0 < 8.0


def test_a_pod_that_has_not_changed_is_no_loop() -> None:
    """kube-scheduler asks for each pod that is bound (C49); autoscalers go on seeing the pod."""
    clock = HandClock(1000.0)
    damper, found = Damper(clock), ""
    for revision in [5, *[7] * 600]:
        found += form(damper.rejected("a", ["a"], revision))
        clock.seconds += 0.1
    assert found == "." * 601


def conditions(*, event_ms: int, is_text_constant: bool) -> Counter[str]:
    """How many ms of ten minutes a rejected pod's condition has each reason, and the calls.

    A model of kube-scheduler: it asks for each event and as soon as the condition has changed, by
    which the pod's revision grows. After an error it asks when the pause is over.
    """
    clock = HandClock()
    damper, revision, condition, errors, now = Damper(clock), 1, "", 0, 0
    spent = Counter[str]()
    while now < 600_000:
        clock.seconds = now / 1000
        damped = damper.rejected("a", ["a"], revision)
        is_error = damped is not None and damped.is_error
        reason = "SchedulerError" if is_error else "Unschedulable"
        others = "" if is_error or is_text_constant else str(spent["calls"])
        before, condition = condition, reason + others
        revision += condition != before
        errors = errors + 1 if is_error else 0
        pause = 50 if condition != before else event_ms - now % event_ms
        pause = min(1000 << (errors - 1), 10_000) if is_error else pause
        spent.update({reason: pause, "calls": 1})
        now += pause
    return spent


EVENTS = pytest.mark.parametrize("event_ms", [100, 500, 2_000, 20_000])


@EVENTS
def test_events_hide_no_pod_from_autoscalers(event_ms: int) -> None:
    spent = conditions(event_ms=event_ms, is_text_constant=True)
    assert spent["SchedulerError"] == 0
    assert spent["calls"] <= 600_000 / event_ms + 3, "no more than there are events"


@EVENTS
def test_a_loop_of_texts_ends(event_ms: int) -> None:
    assert conditions(event_ms=event_ms, is_text_constant=False)["calls"] < 120


@pytest.mark.parametrize("shows", [[["a", "b"], ["c"], ["b", "c"]], [["a"], ["b"], ["c"]]])
def test_each_request_may_show_some_of_the_reasons(shows: list[list[str]]) -> None:
    """The sample of nodes rotates; the text stays the same."""
    damper, found = Damper(HandClock()), list[Damped | None]()
    for number in range(30):
        found.append(damper.rejected("a", shows[number % 3]))
    assert {damped.text for damped in found[9:] if damped is not None} == {"a; b; c"}


def test_another_reason_begins_anew() -> None:
    clock = HandClock()
    damper = Damper(clock)
    for _ in range(10):
        last = damper.rejected("a", ["a", "b"])
    assert form(last) == "E"
    assert damper.rejected("a", ["a", "new"]) is None


def test_a_node_that_passes_begins_anew() -> None:
    damper = Damper(HandClock())
    for _ in range(10):
        damper.rejected("a", ["a", "b"])
    damper.passed("a")
    assert damper.rejected("a", ["a", "b"]) is None


def test_reasons_that_are_gone_are_dropped() -> None:
    clock = HandClock()
    damper = Damper(clock)
    for _ in range(4):
        damper.rejected("a", ["a", "b"])
    texts = []
    for _ in range(4):
        clock.seconds += 200.0
        damped = damper.rejected("a", ["a"])
        assert damped is not None
        texts.append(damped.text)
    assert texts == ["a; b", "a; b", "a; b", "a"]


def test_each_pod_is_damped_by_itself() -> None:
    damper = Damper(HandClock())
    assert [damper.rejected(uid, ["x"]) for uid in "abcabcabc"] == [None] * 9
    assert [form(damper.rejected(uid, ["x"])) for uid in "abd"] == ["E", "E", "."]


def test_what_is_remembered_is_bounded(memory_of: Callable[[int], Memory]) -> None:
    memory_of(1 << 20)
    damper = Damper(HandClock())
    for _ in range(4):
        damper.rejected("first", ["x"])
    for number in range(2_000):
        damper.rejected(f"{number}", ["x" * 256, "y"])
    assert damper.rejected("first", ["x"]) is None


# ---- the last answers

NODES = ("n1", "n2", "n3")


class Answered:
    """A cache with three nodes, and the last answers about them."""

    def __init__(self) -> None:
        self.cache = Cache()
        for name in NODES:
            self.add(name)
        self.answers = LastAnswers()

    def add(self, name: str) -> None:
        self.cache.put_node(CODEC.node(raw(node(name))))

    def answer(self, asked: RequestPod, *offered: str, by_rows: bool = True) -> None:
        """Filter is asked about all nodes, and offers these."""
        table = self.cache.snapshot().table
        _, rows = table.locate(NODES)
        verdicts = [FEASIBLE if name in offered else rejected("no") for name in NODES]
        decided = decision(verdicts, rows if by_rows else None)
        self.answers.answered(asked, NODES, decided)

    def offers(self, uid: str) -> list[str] | None:
        """The nodes that the last answer offers; None if it is not known."""
        last = self.answers.find(uid)
        return None if last is None else [n for n in (*NODES, "n4", "") if last.offers(n)]


def asked(uid: str, size: int = 0, app: str = "") -> RequestPod:
    """A pod with a body of at least this many bytes."""
    made = pod("asked", labels={"app": app})
    made["metadata"] |= {"uid": uid, "annotations": {"padding": "x" * size}}
    return RequestPodReader(CODEC).read(raw(made))


@pytest.mark.parametrize("by_rows", [True, False], ids=["by rows", "by names"])
@pytest.mark.parametrize("offered", [["n2"], ["n1", "n3"], list(NODES), []], ids=" ".join)
def test_the_offered_nodes_are_known(offered: list[str], by_rows: bool) -> None:
    known = Answered()
    known.answer(asked("a"), *offered, by_rows=by_rows)
    assert known.offers("a") == offered
    assert known.offers("b") is None


def test_the_last_answer_counts() -> None:
    known = Answered()
    known.answer(asked("a", app="web"), *NODES)
    again = asked("a", app="db")
    known.answer(again, "n2")
    last = known.answers.find("a")
    assert last is not None
    assert last.body == again.body
    assert known.offers("a") == ["n2"]
    known.answers.answered(again, NODES, None)
    assert known.offers("a") == [], "an error offers nothing"


def test_a_node_that_takes_the_place_of_another_one_was_not_offered() -> None:
    """It gets the row of the removed one."""
    known = Answered()
    known.answer(asked("a"), *NODES)
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


@pytest.mark.parametrize(
    ("change", "revision", "kept"),
    [("bound", 7, False), ("assumed", 0, True), ("changed", 7, True), ("deleted", 7, False)],
)
def test_answers_about_bound_and_deleted_pods_are_forgotten(
    change: str, revision: int, kept: bool
) -> None:
    known = Answered()
    known.answer(asked("a"), "n1")
    before = asked("a").peer
    after = msgspec.structs.replace(before, nodeName="n1" if change != "changed" else "")
    known.answers.pod_changed(before, None if change == "deleted" else after, revision)
    assert known.offers("a") == (["n1"] if kept else None)


def test_the_answers_used_last_are_kept(memory_of: Callable[[int], Memory]) -> None:
    third = 5 << 20
    memory_of(7 * asked("a", third).decoded_bytes // 2)
    known = Answered()
    for uid in "abc":
        known.answer(asked(uid, third), "n1")
    assert known.offers("a") is not None
    known.answer(asked("d", third), "n1")
    assert [uid for uid in "abcd" if known.offers(uid)] == ["a", "c", "d"]
    known.answer(asked("d", 4 * third), "n1")
    assert [uid for uid in "abcd" if known.offers(uid)] == ["a", "c"], "it is too large to keep"


def test_rejections_take_memory_too(memory_of: Callable[[int], Memory]) -> None:
    memory_of(1 << 20)
    known, one = Answered(), asked("")
    for number in range(5_000):
        one.uid = f"{number}"
        known.answers.answered(one, NODES, None)
    assert known.offers("0") is None
    assert known.offers("4999") == []


# ---- rejected pods


def test_a_pod_waits_for_the_policy_that_rejects_the_most_of_its_nodes() -> None:
    waiting = RejectedPods(HandClock(), 1.0, 60.0)
    after = AfterDecision(HandClock(), rejected=waiting)
    one, other = Rejected("x", "shop/web", "zone"), Rejected("y", "spot", "price")
    after.answered(asked("a"), NODES, decision([one, other, other], None))
    after.answered(asked("b"), NODES, decision([one, one, other], None))
    after.answered(asked("c"), NODES, None)
    after.answered(asked("d"), NODES, decision([one, FEASIBLE, other], None))
    assert waiting.status().waitingByPolicy == {"spot": 1, "shop/web": 1, "": 1}
    after.answered(asked("a"), NODES, decision([one, one, one], None))
    assert waiting.status().waitingByPolicy == {"shop/web": 2, "": 1}
    after.answered(asked("c"), NODES, None, "shop/gang")
    assert waiting.status().waitingByPolicy == {"shop/web": 2, "shop/gang": 1}
