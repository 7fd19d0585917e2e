"""In-flight pods: each transition of the state machine, and random histories against a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.cache.node_table import UNKNOWN_ROW, NodeRows
from engine.counting import in_flight_pods
from engine.counting.in_flight_pods import (
    PLACING_SECONDS,
    AskedPod,
    InFlightPod,
    InFlightPods,
    Schedulers,
)
from engine.errors import BadObjectError
from engine.objects.api_types import ObjectCondition
from engine.objects.peer import Peer
from tests.support.books import examples
from tests.support.builders import pod
from tests.support.engines import peer_of, table_of
from tests.support.rows import rows

SCHEDULERS = Schedulers(bind_timeout=600.0)
HOLD = SCHEDULERS.longest
TABLE = table_of([])
UNSCHEDULED = ObjectCondition("PodScheduled", "False", "Unschedulable")
REFUSED = ObjectCondition("PodScheduled", "False", "SchedulerError")
WAITING = peer_of(pod("a"))
UID = WAITING.uid


def state(
    uid: str = UID, node: str = "", unscheduled: ObjectCondition | None = None, name: str = "a"
) -> Peer:
    """A state of the pod as the cache has it."""
    return msgspec.structs.replace(
        WAITING, name=name, uid=uid, nodeName=node, unscheduled=unscheduled
    )


@dataclass
class Flight:
    """In-flight pods, with a clock that the test moves; `rows` is the state that counts see."""

    seconds: float = 0.0
    schedulers: Schedulers = SCHEDULERS
    pods: InFlightPods = field(init=False)

    def __post_init__(self) -> None:
        self.pods = InFlightPods(lambda: self.seconds, self.schedulers)

    def offer(
        self, *rows: int, uid: str = UID, revision: int = 5, narrow: bool = False, best: int = 1
    ) -> None:
        asked, found = AskedPod(uid, lambda: state(uid), revision), np.array(rows, np.intp)
        self.pods.offer(asked, TABLE, found, best, is_narrow=narrow)

    def offer_all(self, *rows: int, uid: str = UID) -> None:
        found = np.array(rows, np.intp)
        self.pods.offer_all(AskedPod(uid, lambda: state(uid), 5), TABLE, lambda: found, len(rows))

    def found(self, uid: str = UID) -> InFlightPod | None:
        """The pod, if others count it."""
        known = [p for p in self.pods.others("somebody else", TABLE) if p.uid == uid]
        return known[0] if known else None

    def rows(self, uid: str = UID) -> list[int] | None:
        found = self.found(uid)
        return None if found is None else found.rows.tolist()


# ---- the table of transitions, from a pod that was offered rows 1 and 2 at revision 5


def _later(seconds: float) -> Callable[[Flight], None]:
    def wait(flight: Flight) -> None:
        flight.seconds += seconds

    return wait


def _shown(old: Peer | None, new: Peer | None, revision: int = 0) -> Callable[[Flight], None]:
    return lambda flight: flight.pods.pod_changed(old, new, revision)


def _asked_again(event: Callable[[Flight], None]) -> Callable[[Flight], None]:
    def ask(flight: Flight) -> None:
        event(flight)
        flight.offer(1, 2)
        assert flight.rows() is None
        flight.offer_all(1)

    return ask


FREE = state()
GIVEN_UP, GIVEN_UP_AGAIN = state(unscheduled=UNSCHEDULED), state(unscheduled=REFUSED)


def _given_up(old: Peer | None, new: Peer, revision: int) -> Callable[[Flight], None]:
    """A watch shows a state, and then the time passes that a pod without claims needs at most."""

    def show(flight: Flight) -> None:
        flight.pods.pod_changed(old, new, revision)
        assert flight.rows() == [1, 2], "that may have been an attempt before this one"
        flight.seconds += PLACING_SECONDS

    return show


@pytest.mark.parametrize(
    ("event", "wanted"),
    [
        pytest.param(_later(0), [1, 2], id="offered: it may be on each node of the offer"),
        pytest.param(lambda f: f.offer(2, 3), [2, 3], id="offered again: the last offer counts"),
        pytest.param(lambda f: f.offer(), None, id="rejected: an empty offer ends it"),
        pytest.param(
            lambda f: f.offer_all(3), [3], id="offered all: the nodes that it was asked about"
        ),
        pytest.param(lambda f: f.pods.forget(UID), None, id="forgotten"),
        pytest.param(lambda f: f.pods.forget("b"), [1, 2], id="another pod is forgotten"),
        pytest.param(_shown(None, state()), [1, 2], id="a watch shows that it waits"),
        pytest.param(_shown(state(), state(node="n1")), None, id="confirmed: a watch shows a node"),
        pytest.param(
            _shown(None, state(node="n1")), None, id="confirmed: the first that a watch shows"
        ),
        pytest.param(_shown(state(), None), None, id="deleted"),
        pytest.param(
            _shown(state(), state(uid="b")), None, id="deleted, and made again under its name"
        ),
        pytest.param(
            _shown(state("b"), state("b", node="n1")), [1, 2], id="a watch shows another pod"
        ),
        pytest.param(_shown(state("b"), None), [1, 2], id="another pod is deleted"),
        pytest.param(
            _asked_again(_shown(state(), None)),
            None,
            id="deleted, as kube-scheduler does not know yet",
        ),
        pytest.param(
            _asked_again(_shown(state(), state(uid="b"))),
            None,
            id="asked about after it was made again",
        ),
        *(
            pytest.param(_given_up(old, new, revision), wanted, id=name)
            for old, new, revision, wanted, name in (
                (FREE, GIVEN_UP, 6, None, "given up: PodScheduled turns false after it asked"),
                (None, GIVEN_UP, 6, None, "given up: PodScheduled is false when it is first seen"),
                (GIVEN_UP, GIVEN_UP_AGAIN, 6, None, "given up: another reason"),
                (GIVEN_UP, GIVEN_UP, 6, [1, 2], "not given up: the condition is as it was"),
                (GIVEN_UP, FREE, 6, [1, 2], "not given up: the condition is gone"),
                (FREE, GIVEN_UP, 5, [1, 2], "not given up: the revision that asked had it"),
                (FREE, GIVEN_UP, 4, [1, 2], "not given up: an older revision"),
                (FREE, GIVEN_UP, 0, None, "given up: a revision that is not known"),
            )
        ),
        pytest.param(_later(HOLD - 1), [1, 2], id="held as long as it may"),
        pytest.param(_later(HOLD), None, id="expired"),
        pytest.param(lambda f: f.pods.predict(UID, 2), [1, 2], id="predicted: it may be anywhere"),
        pytest.param(lambda f: f.pods.settle(UID), [1, 2], id="settled"),
        pytest.param(
            lambda f: f.pods.take_over([state()], TABLE),
            [1, 2],
            id="taken over: our own offer is better known",
        ),
        pytest.param(lambda f: f.pods.refuse(UID), None, id="refused"),
        pytest.param(lambda f: f.pods.begin_term(0.0), [1, 2], id="a term that began before it"),
        pytest.param(lambda f: f.pods.begin_term(1.0), None, id="a term that began after it"),
        pytest.param(lambda f: f.pods.drop_offers(), None, id="offers are not recorded any more"),
        pytest.param(
            lambda f: f.pods.scheduler_replaced(1.0), None, id="its kube-scheduler has ended"
        ),
        pytest.param(
            lambda f: f.pods.scheduler_replaced(0.0), [1, 2], id="it may be of the new one"
        ),
    ],
)
def test_transition(event: Callable[[Flight], None], wanted: list[int] | None) -> None:
    flight = Flight()
    flight.offer(1, 2)
    event(flight)
    assert flight.rows() == wanted


def test_with_a_bind_verb_a_pod_that_is_given_up_counts_no_longer() -> None:
    """Each binding is looked at, so an offer that is still open can do no harm."""
    flight = Flight(schedulers=Schedulers(call_bind=True))
    flight.offer(1, 2)
    flight.pods.pod_changed(state(), state(unscheduled=UNSCHEDULED), 6)
    assert flight.rows() is None


@rows(
    "event",
    {
        "forgotten": lambda f: f.pods.forget(UID),
        "bound": _shown(state(), state(node="n1")),
        "deleted": _shown(state(), None),
        "given up": _shown(state(), state(unscheduled=UNSCHEDULED)),
        "predicted": lambda f: f.pods.predict(UID, 2),
        "settled": lambda f: f.pods.settle(UID),
        "rejected": lambda f: f.offer(),
    },
)
def test_nothing_happens_to_a_pod_that_is_not_in_flight(event: Callable[[Flight], None]) -> None:
    flight = Flight()
    event(flight)
    assert len(flight.pods) == 0


def test_an_offer_holds_the_pod_from_its_own_time() -> None:
    flight = Flight()
    flight.offer(1, uid="a")
    flight.seconds = 500
    flight.offer(1, uid="b")
    flight.offer(1, uid="a")
    flight.seconds = HOLD
    assert [p.uid for p in flight.pods.others("", TABLE)] == ["b", "a"]
    flight.seconds = HOLD + 500
    assert [p.uid for p in flight.pods.others("", TABLE)] == []
    assert len(flight.pods) == 0


def test_a_pod_does_not_count_itself_nor_those_of_another_table() -> None:
    flight = Flight()
    flight.offer(1, uid="a")
    flight.offer(1, uid="b")
    assert [p.uid for p in flight.pods.others("a", TABLE)] == ["b"]
    assert flight.pods.others("a", table_of([])) == []


# ---- narrow offers


def tried(flight: Flight, uid: str = UID) -> list[int] | None:
    """The rows that were tried, None if the last offer was not a narrow one."""
    found = flight.pods.narrow_offer(uid)
    return None if found is None else found.tried.tolist()


@rows(
    ("offers", "wanted"),
    {
        "no offer": ([], None),
        "an offer that was not narrow": ([((1, 2), False)], None),
        "the rows of a narrow offer are tried": ([((1, 2), True)], [1, 2]),
        "those of the next one too, in order": ([((1, 2), True), ((3,), True)], [1, 2, 3]),
        "a row again: a new round begins": ([((1, 2), True), ((3,), True), ((2,), True)], [2]),
        "a wide offer ends the rounds of narrow ones": ([((1, 2), True), ((3,), False)], None),
        "and the next round begins anew": ([((1,), True), ((2,), False), ((3,), True)], [3]),
        "an empty offer ends it": ([((1,), True), ((), True)], None),
    },
)
def test_rows_that_were_tried(
    offers: list[tuple[tuple[int, ...], bool]], wanted: list[int] | None
) -> None:
    flight = Flight()
    for offered, narrow in offers:
        flight.offer(*offered, narrow=narrow)
    assert tried(flight) == wanted


def test_the_next_offer_is_not_excused() -> None:
    """A pod is sent back once for each narrow offer that it did not follow."""
    flight = Flight()
    flight.offer(1, narrow=True)
    first = flight.pods.narrow_offer(UID)
    assert first is not None
    assert not first.excused
    first.excused = True
    flight.offer(2, narrow=True)
    second = flight.pods.narrow_offer(UID)
    assert second is not None
    assert not second.excused


def test_a_pod_that_policies_no_longer_concern_has_tried_nothing() -> None:
    flight = Flight()
    flight.offer(1, narrow=True)
    flight.offer_all(1, 2)
    assert tried(flight) is None


# ---- where it likely ends


@rows(
    ("event", "wanted"),
    {
        "the best node of the offer": (lambda f: f.offer(1, 2, best=2), 2),
        "a prediction before the offer is lost": (
            lambda f: (f.pods.forget(UID), f.pods.predict(UID, 7), f.offer(1, 2, best=1)),
            1,
        ),
        "prioritize knows better": (lambda f: (f.offer(1, 2, best=2), f.pods.predict(UID, 1)), 1),
        "the first node that it was asked about": (lambda f: f.offer_all(4, 3), 4),
        "prioritize knows better, before the nodes are looked up": (
            lambda f: (f.offer_all(4, 3), f.pods.predict(UID, 3)),
            3,
        ),
    },
)
def test_prediction(event: Callable[[Flight], None], wanted: int) -> None:
    flight = Flight()
    flight.offer(1, best=1)
    event(flight)
    found = flight.found()
    assert found is not None
    assert found.predicted == wanted


# ---- the pods of another term

IDS = np.array([-1, 0, 1, 1], np.int32)


def taken(flight: Flight, *pods: Peer) -> list[str]:
    """The uids of the pods that count everywhere after they were taken over."""
    flight.pods.take_over(pods, TABLE)
    others = flight.pods.others("", TABLE)
    return sorted(p.uid for p in others if p.groups(IDS).tolist() == [0, 1])


def test_pods_that_are_taken_over_may_be_anywhere() -> None:
    """Another replica may have offered them any node, also one that is added later."""
    flight = Flight()
    flight.offer(1, uid="b", narrow=True)
    assert taken(flight, state("a"), state("b"), state("c")) == ["a", "c"]
    assert flight.rows("b") == [1]
    found = flight.found("a")
    assert found is not None
    assert found.predicted == UNKNOWN_ROW, "where it ends nobody can say"
    assert not found.is_narrow
    assert found.groups(np.array([-1, 0, 1, 1, 2], np.int32)).tolist() == [0, 1, 2]


@rows(
    ("change", "wanted"),
    {
        "an ordinary pod": ({}, [UID]),
        "of our scheduler": ({"schedulerName": "default-scheduler"}, [UID]),
        "of another scheduler": ({"schedulerName": "batch"}, []),
        "gated": ({"is_gated": True}, []),
    },
)
def test_only_pods_that_our_schedulers_can_be_placing_are_taken_over(
    change: dict[str, object], wanted: list[str]
) -> None:
    assert taken(Flight(), msgspec.structs.replace(WAITING, **change)) == wanted


def test_a_pod_that_was_refused_last_is_not_taken_over() -> None:
    """Unless it was refused before the term began, when another replica could offer it nodes."""
    flight = Flight()
    flight.pods.refuse(UID)
    assert taken(flight, WAITING) == []
    flight.offer(1)
    flight.pods.forget(UID)
    assert taken(flight, WAITING) == [UID]
    flight.pods.refuse(UID)
    flight.pods.begin_term(1.0)
    assert taken(flight, WAITING) == [UID]


def test_with_a_bind_verb_no_pod_is_taken_over() -> None:
    flight = Flight(schedulers=Schedulers(call_bind=True))
    assert taken(flight, WAITING) == []


@rows(
    ("schedulers", "has_claims", "seconds"),
    {
        "a pod that waits for nothing": (Schedulers(), False, 30.0),
        "a pod with claims": (Schedulers(), True, 600.0),
        "a shorter timeout": (Schedulers(bind_timeout=60.0), True, 60.0),
        "Permit comes on top": (Schedulers(permit_timeout=20.0), False, 50.0),
        "of claims too": (Schedulers(permit_timeout=20.0), True, 620.0),
    },
)
def test_a_pod_that_nobody_asks_about_counts_for_its_window(
    schedulers: Schedulers, has_claims: bool, seconds: float
) -> None:
    flight = Flight(schedulers=schedulers)
    known = msgspec.structs.replace(WAITING, has_claims=has_claims)
    assert taken(flight, known) == [UID]
    flight.seconds = seconds - 1
    assert flight.found() is not None
    flight.seconds = seconds
    assert flight.found() is None


@pytest.mark.parametrize("has_claims", [False, True])
@pytest.mark.parametrize("call_bind", [False, True])
def test_an_offer_is_held_for_the_longest_time_unless_bind_decides(
    call_bind: bool, has_claims: bool
) -> None:
    """Without a bindVerb, bounds count a pod that a burst keeps for longer than its window."""
    schedulers = Schedulers(call_bind=call_bind)
    flight = Flight(schedulers=schedulers)
    known = msgspec.structs.replace(WAITING, has_claims=has_claims)
    flight.pods.offer_all(AskedPod(UID, lambda: known, 5), TABLE, lambda: np.array([1]), 1)
    flight.pods.settle(UID)
    seconds = schedulers.window(known) if call_bind else schedulers.longest
    flight.seconds = seconds - 1
    assert flight.found() is not None
    flight.seconds = seconds
    assert flight.found() is None


def test_only_pods_of_the_scheduler_with_the_lease_end_with_its_process() -> None:
    flight = Flight(schedulers=Schedulers(frozenset({"default-scheduler", "batch"})))
    batch = msgspec.structs.replace(state("b"), schedulerName="batch")
    assert taken(flight, state("a"), batch) == ["a", "b"]
    flight.pods.scheduler_replaced(1.0)
    assert flight.found("a") is None
    assert flight.found("b") is not None


def test_pods_of_a_second_scheduler_end_with_its_process() -> None:
    flight = Flight(schedulers=Schedulers(frozenset({"batch"}), lease=("placet", "second")))
    assert taken(flight, msgspec.structs.replace(state("b"), schedulerName="batch")) == ["b"]
    flight.pods.scheduler_replaced(1.0)
    assert flight.found("b") is None


def test_a_narrow_offer_is_remembered_when_the_pod_is_refused() -> None:
    """A pod that comes back is offered other rows, and counts nowhere until then."""
    flight = Flight()
    flight.offer(1, narrow=True)
    flight.pods.refuse(UID)
    assert flight.rows() is None
    assert tried(flight) == [1]
    flight.offer(2, narrow=True)
    assert tried(flight) == [1, 2]


def test_a_crowd_of_refused_pods_is_forgotten_first() -> None:
    flight = Flight()
    for number in range(50_001):
        flight.pods.refuse(str(number))
    assert taken(flight, state("0"), state("1")) == ["0"]


# ---- what others read of it


def test_pods_and_rows_are_read_when_they_are_needed() -> None:
    """Policies that count nothing must not pay for it."""
    read: list[str] = []

    def peer() -> Peer:
        read.append("pod")
        return WAITING

    def find() -> NodeRows:
        read.append("rows")
        return np.array([1])

    flight = Flight()
    flight.pods.offer_all(AskedPod(UID, peer, 5), TABLE, find, 2)
    found = flight.found()
    assert found is not None
    assert read == []
    assert found.adds(lambda pod: pod.name == "a")
    assert (read, found.name) == (["pod"], "default/a")
    assert found.rows.tolist() == [1]
    flight.pods.settle(UID)
    assert read == ["pod", "rows"]


def test_the_oldest_of_many_unread_pods_is_read() -> None:
    """Else their requests would be kept for as long as they are in flight."""
    read: list[int] = []

    def find(number: int) -> Callable[[], NodeRows]:
        def rows() -> NodeRows:
            read.append(number)
            return np.array([1])

        return rows

    flight = Flight()
    for number in range(70):
        flight.pods.offer_all(AskedPod(str(number), lambda: WAITING, 5), TABLE, find(number), 1)
    assert read == [0, 1, 2, 3, 4, 5]


def test_a_pod_that_cannot_be_read_is_counted_by_nobody() -> None:
    def bad() -> Peer:
        raise BadObjectError("it is bad")

    flight = Flight()
    flight.pods.offer_all(AskedPod(UID, bad, 5), TABLE, lambda: np.array([1]), 1)
    found = flight.found()
    assert found is not None
    assert (found.adds(lambda _: True), found.name) == (0, UID)


def test_membership_is_asked_once_per_tally() -> None:
    flight = Flight()
    flight.offer(1)
    pods, asked = [pod for pod, _ in flight.pods.first(1)], list[str]()

    def counts(pod: Peer) -> bool:
        asked.append(pod.name)
        return True

    one, other, by_amount = object(), object(), in_flight_pods.by_amount
    assert all(by_amount(pods, counts, one) == {1: pods} for _ in range(3))
    assert by_amount(pods, lambda _: False, other) == {}
    assert by_amount(pods, counts, one) == {1: pods}
    assert asked == ["a"]
    assert by_amount(pods, lambda _: 500, None) == {500: pods}


@rows(
    ("rows", "ids", "wanted"),
    {
        "the groups of its rows": ([1, 2], [-1, 0, 1, 2], [0, 1]),
        "each once, in order": ([1, 2, 3], [-1, 5, 5, 0], [0, 5]),
        "not of a row that is in no group": ([1, 2], [-1, -1, 3], [3]),
        "none at all": ([0, 1], [-1, -1], []),
    },
)
def test_groups_that_it_may_end_in(rows: list[int], ids: list[int], wanted: list[int]) -> None:
    flight = Flight()
    flight.offer(*rows)
    found = flight.found()
    assert found is not None
    array = np.array(ids, np.int32)
    assert found.groups(array).tolist() == wanted
    assert found.groups(array) is found.groups(array)
    assert found.groups(array + 1).tolist() == sorted({ids[row] + 1 for row in rows} - {-1})


# ---- random histories


@dataclass
class Expected:
    """What the model says of one pod in flight; `rows` is None if it may be anywhere."""

    rows: set[int] | None
    since: float
    until: float
    revision: int
    narrow: bool
    tried: list[int]


_UIDS = st.sampled_from("abc")
_ROWS = st.lists(st.integers(1, 5), unique=True, min_size=1).map(tuple)
_REVISIONS = st.integers(0, 9)
_CONDITIONS = st.sampled_from([None, UNSCHEDULED, REFUSED])


class Histories(RuleBasedStateMachine):
    """Offers, watch events and time in any order; the model keeps one row set per pod."""

    def __init__(self) -> None:
        super().__init__()
        self.flight = Flight()
        self.model: dict[str, Expected] = {}
        self.refused: dict[str, tuple[float, list[int] | None]] = {}
        self.shown: dict[str, Peer] = {}
        self.deleted: set[str] = set()

    def _end(self, uid: str) -> Expected | None:
        self.refused.pop(uid, None)
        return self.model.pop(uid, None)

    def _narrow(self, uid: str) -> list[int] | None:
        """The rows of narrow offers so far; None if the last offer was not narrow."""
        if uid in self.model:
            return self.model[uid].tried if self.model[uid].narrow else None
        return self.refused[uid][1] if uid in self.refused else None

    @rule(uid=_UIDS, rows=_ROWS, revision=_REVISIONS, narrow=st.booleans())
    def offer(self, uid: str, rows: tuple[int, ...], revision: int, narrow: bool) -> None:
        tried = (self._narrow(uid) or []) if narrow else []
        tried = list(rows) if set(rows) & set(tried) else [*tried, *rows]
        self._end(uid)
        now = self.flight.seconds
        if uid not in self.deleted:
            self.model[uid] = Expected(set(rows), now, now + HOLD, revision, narrow, tried)
        self.flight.offer(*rows, uid=uid, revision=revision, narrow=narrow)

    @rule(uid=_UIDS)
    def reject(self, uid: str) -> None:
        """On every node, as if no offer had been made before."""
        self._end(uid)
        self.flight.offer(uid=uid)

    @rule(uid=_UIDS)
    def refuse(self, uid: str) -> None:
        narrow = self._narrow(uid)
        self._end(uid)
        self.refused[uid] = self.flight.seconds, narrow
        self.flight.pods.refuse(uid)

    @rule(uid=_UIDS, rows=_ROWS)
    def offer_all(self, uid: str, rows: tuple[int, ...]) -> None:
        self._end(uid)
        now = self.flight.seconds
        if uid not in self.deleted:
            self.model[uid] = Expected(set(rows), now, now + HOLD, 5, narrow=False, tried=[])
        self.flight.offer_all(*rows, uid=uid)

    @rule(uid=_UIDS, node=st.sampled_from(["", "n1"]), condition=_CONDITIONS, revision=_REVISIONS)
    def show(self, uid: str, node: str, condition: ObjectCondition | None, revision: int) -> None:
        old = self.shown.get(uid)
        new = self.shown[uid] = state(uid, node, None if node else condition, name=uid)
        known = self.model.get(uid)
        is_news = new.unscheduled is not None and (
            old is None or old.unscheduled != new.unscheduled
        )
        is_later = known is not None and not 0 < revision <= known.revision
        if node:
            self._end(uid)
        elif known is not None and is_news and is_later:
            known.until = min(known.until, self.flight.seconds + PLACING_SECONDS)
        self.flight.pods.pod_changed(old, new, revision)

    @precondition(lambda self: self.shown)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.shown)))
        self._end(uid)
        self.deleted.add(uid)
        self.flight.pods.pod_changed(self.shown.pop(uid), None, 0)

    @rule(seconds=st.sampled_from([1.0, PLACING_SECONDS, HOLD / 2, HOLD]))
    def wait(self, seconds: float) -> None:
        self.flight.seconds += seconds
        now = self.flight.seconds
        self.model = {uid: each for uid, each in self.model.items() if each.until > now}
        # Time alone removes nothing: whoever counts the others does.
        self.flight.pods.others("", TABLE)

    @rule(uids=st.lists(_UIDS, unique=True))
    def take_over(self, uids: list[str]) -> None:
        now = self.flight.seconds
        for uid in set(uids) - set(self.refused) - self.deleted:
            end = now + PLACING_SECONDS
            self.model.setdefault(uid, Expected(None, now, end, 0, narrow=False, tried=[]))
        self.flight.pods.take_over([state(uid) for uid in uids], TABLE)

    @rule(ago=st.sampled_from([0.0, 1.0, HOLD]))
    def begin_term(self, ago: float) -> None:
        began = self.flight.seconds - ago
        self.model = {uid: each for uid, each in self.model.items() if each.since >= began}
        self.refused = {uid: each for uid, each in self.refused.items() if each[0] >= began}
        self.flight.pods.begin_term(began)

    @rule(ago=st.sampled_from([0.0, 1.0]))
    def replace_scheduler(self, ago: float) -> None:
        before = self.flight.seconds - ago
        self.model = {uid: each for uid, each in self.model.items() if each.since >= before}
        self.flight.pods.scheduler_replaced(before)

    @invariant()
    def others_count_what_the_model_has(self) -> None:
        ids = np.arange(-1, 5, dtype=np.int32)
        found = {p.uid: p.groups(ids).tolist() for p in self.flight.pods.others("", TABLE)}
        anywhere = [0, 1, 2, 3, 4]
        wanted = {
            uid: anywhere if each.rows is None else sorted(row - 1 for row in each.rows)
            for uid, each in self.model.items()
        }
        assert found == wanted
        for uid in "abc":
            assert tried(self.flight, uid) == self._narrow(uid)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=examples(60), stateful_step_count=30)
