"""DecisionQueue: one decision at a time, in time, and a limit of calls in flight."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decision.preemption import Victims
from engine.decision.verdict import Decision
from engine.errors import HandoverError, WaitingError
from server.errors import RequestError
from server.settings import Settings
from server.verbs.answering import DecisionQueue
from tests.server.conftest import Serve
from tests.support.fake_clock import settled
from tests.support.served import BINDING, POD, Served, TableDecider, WaitingBinder, names_request

PREEMPTION = {"Pod": POD, "NodeNameToVictims": None, "NodeNameToMetaVictims": {}}
REFUSED = "placet: too many calls at once: Placet takes 2, see --max-in-flight"


@dataclass
class BlockingDecider(TableDecider):
    """A decider that blocks the event loop until it may end, and then for some seconds."""

    takes: float = 0.0
    has_begun: threading.Event = field(default_factory=threading.Event)
    may_end: threading.Event = field(default_factory=threading.Event)

    def filter(self, *args: object) -> Decision:
        decided = super().filter(*args)  # type: ignore[arg-type]
        self.has_begun.set()
        assert self.may_end.wait(60)
        time.sleep(self.takes)
        return decided


@asynccontextmanager
async def two_bindings(served: Served, binder: WaitingBinder) -> AsyncIterator[None]:
    """Two calls in flight."""
    calls = [asyncio.create_task(served.post("/bind", BINDING)) for _ in range(2)]
    for _ in calls:
        await binder.bindings.get()
    yield
    binder.may_go_on.set()
    await asyncio.gather(*calls)


@asynccontextmanager
async def half_a_call(served: Served) -> AsyncIterator[None]:
    """A call whose body is incomplete."""
    _, writer = await asyncio.open_connection(*served.address)
    writer.write(b"POST /filter HTTP/1.1\r\nHost: placet\r\nContent-Length: 500\r\n\r\n{")
    await writer.drain()
    await settled()
    try:
        yield
    finally:
        writer.close()
        await settled()


@pytest.mark.fake_clock
async def test_calls_above_the_limit_are_refused_at_once(serve: Serve) -> None:
    binder = WaitingBinder()
    served = await serve(binder=binder, settings=Settings(max_in_flight=2))
    async with two_bindings(served, binder):
        filtered = await served.post("/filter", names_request("a"))
        scored = await served.post("/prioritize", names_request("a"))
        preempted = await served.post("/preempt", PREEMPTION)
        bound = await served.post("/bind", BINDING)
    assert (filtered.status, filtered.json["Error"]) == (200, REFUSED)
    assert (scored.status, scored.body) == (200, b"[]")
    assert (preempted.status, preempted.text) == (503, f"{REFUSED}\n")
    assert (bound.status, bound.json["Error"]) == (200, REFUSED)
    for verb, code in (("filter", 200), ("prioritize", 200), ("preempt", 503), ("bind", 200)):
        assert served.calls(verb, "overloaded", code) == 1
    assert (await served.post("/filter", names_request("a"))).json["NodeNames"] == ["a"]


@pytest.mark.fake_clock
async def test_a_call_counts_when_its_body_is_whole(serve: Serve) -> None:
    """Whoever sends bodies slowly keeps no others out."""
    served = await serve(settings=Settings(max_in_flight=2))
    async with half_a_call(served), half_a_call(served), half_a_call(served):
        assert (await served.post("/filter", names_request("a"))).json["Error"] == ""
        assert (await served.post("/bind", BINDING)).json["Error"] == "placet: the pod is gone"


def test_every_address_has_a_share_of_the_calls_in_flight() -> None:
    """An address alone has all of them; others find their share free, whatever it does."""
    queue = DecisionQueue(6)
    with ExitStack() as calls:

        def enters(client: str) -> bool:
            try:
                calls.enter_context(queue.counted(client))
            except RequestError:
                return False
            return True

        assert [enters("a") for _ in range(7)] == [*[True] * 6, False]
        # A half, and then a third.
        assert [enters("b") for _ in range(4)] == [*[True] * 3, False]
        assert [enters("c") for _ in range(3)] == [*[True] * 2, False]
        assert not enters("a")
    assert queue.in_flight == 0
    with ExitStack() as calls:
        assert [enters("b") for _ in range(7)] == [*[True] * 6, False]


async def test_addresses_take_turns() -> None:
    """The calls of one address are decided in their order, and those of others in between."""
    queue, order = DecisionQueue(100), list[str]()

    async def call(client: str, number: int) -> None:
        await queue.begin(time.monotonic() + 10, client)
        order.append(f"{client}{number}")
        queue.end()

    asked = [("a", 1), ("a", 2), ("a", 3), ("a", 4), ("b", 1), ("b", 2), ("c", 1)]
    await asyncio.gather(*(call(*each) for each in asked))
    # The first one did not wait.
    assert order == ["a1", "a2", "b1", "c1", "a3", "b2", "a4"]


async def test_a_turn_that_nobody_takes_goes_on() -> None:
    """A call may end while it waits, or just as its turn comes."""
    queue = DecisionQueue(100)
    await queue.begin(math.inf, "a")
    waiting = [asyncio.create_task(queue.begin(math.inf, client)) for client in "aab"]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    queue.end()
    # The turn is given, and not yet taken.
    await asyncio.sleep(0)
    waiting[1].cancel()
    await waiting[2]
    assert not queue.begin_at_once()
    queue.end()
    await asyncio.sleep(0)
    assert queue.begin_at_once()


async def test_bindings_in_progress_count_as_calls_in_flight(serve: Serve) -> None:
    binder = WaitingBinder()
    served = await serve(binder=binder, settings=Settings(max_in_flight=2))
    calls = [asyncio.create_task(served.post("/bind", BINDING)) for _ in range(2)]
    for _ in calls:
        await binder.bindings.get()
    assert (await served.post("/bind", BINDING)).json["Error"] == REFUSED
    binder.may_go_on.set()
    assert [(await call).json["Error"] for call in calls] == ["", ""]
    assert (await served.post("/bind", BINDING)).json["Error"] == ""


async def test_other_requests_are_served_between_decisions(serve: Serve) -> None:
    decider = BlockingDecider(takes=0.05)
    decider.may_end.set()
    served = await serve(decider=decider)
    calls = [asyncio.create_task(served.post("/filter", names_request("a"))) for _ in range(10)]
    while not decider.calls:  # noqa: ASYNC110 - until the first one is decided
        await asyncio.sleep(0)
    assert (await served.get("/livez")).status == 200
    assert sum(call.done() for call in calls) < 8
    assert [(await call).json["Error"] for call in calls] == [""] * 10


async def test_a_call_that_waits_too_long_gets_an_error_in_time(serve: Serve) -> None:
    """C2: four fifths of the timeout, and what one decision takes at most.

    The times leave room for a machine that is busy otherwise.
    """
    decider = BlockingDecider(takes=0.5)
    decider.may_end.set()
    served = await serve(decider=decider, settings=Settings(http_timeout=2.0))

    async def call() -> tuple[float, str]:
        began = time.monotonic()
        answer = await served.post("/filter", names_request("a"))
        return time.monotonic() - began, str(answer.json["Error"])

    answers = await asyncio.gather(*(call() for _ in range(8)))
    texts = [text for _, text in answers]
    assert 0 < texts.count("") < len(texts)
    assert set(texts) == {"", "placet: the request waited too long for its turn"}
    # All eight take four seconds.
    assert max(seconds for seconds, _ in answers) < 3.5


async def test_time_during_a_decision_counts_for_the_next_call(serve: Serve) -> None:
    """A call that comes during a decision is read only after it."""
    decider = BlockingDecider(takes=0.01)
    served = await serve(decider=decider)

    def call(*, is_during: bool) -> float:
        assert not is_during or decider.has_begun.wait(60)
        sent = time.monotonic()
        connection = HTTPConnection(*served.address)
        connection.request("POST", "/filter", msgspec.json.encode(names_request("a")))
        if is_during:
            decider.may_end.set()
        assert connection.getresponse().status == 200
        connection.close()
        return sent

    async def is_counted() -> bool:
        decider.has_begun.clear()
        decider.may_end.clear()
        # In threads: the server runs in this one.
        calls = (asyncio.to_thread(call, is_during=each) for each in (False, True))
        _, sent = await asyncio.gather(*calls)
        return decider.calls[-1].deadline <= sent + Settings().decision_seconds

    # On a busy machine the call may be read a while after the decision.
    assert await is_counted() or await is_counted() or await is_counted()


@dataclass
class HandoverDecider(TableDecider):
    """A decider that raises HandoverError for all calls before this one."""

    attempts: int = 0

    def preempt(
        self, pod: bytes, victims: Mapping[str, Victims], deadline: float
    ) -> Mapping[str, Victims]:
        self.attempts -= 1
        if self.attempts > 0:
            raise HandoverError("counts are decided by `a`, which is asked to hand over")
        return super().preempt(pod, victims, deadline)


@pytest.mark.parametrize(("took", "arrived"), [(0.001, 10.011), (0.1, 10.0)])
async def test_only_a_long_decision_may_have_kept_the_next_call_waiting(
    took: float, arrived: float
) -> None:
    times = iter([10.0, 10.0 + took, 10.01 + took])
    queue = DecisionQueue(1, lambda: next(times))
    await queue.begin(20.0)
    queue.end()
    assert queue.arrival() == pytest.approx(arrived)


async def rounds_of(task: asyncio.Task[None]) -> int:
    """The rounds of the event loop until a task is done."""
    for number in range(1000):
        if task.done():
            return number
        await asyncio.sleep(0)
    raise AssertionError("it never ends")


async def test_who_decides_at_once_does_not_come_before_those_who_wait() -> None:
    """Between the end of a turn and the next one, the lock looks free."""
    queue, order = DecisionQueue(100), list[str]()

    async def wait(name: str) -> None:
        await queue.begin(time.monotonic() + 10)
        order.append(name)
        queue.end()

    def at_once() -> None:
        if queue.begin_at_once():
            order.append("at once")
            queue.rest()
        else:
            order.append("refused")

    tasks = [asyncio.create_task(wait(name)) for name in "abc"]
    loop = asyncio.get_running_loop()
    while len(order) < 40 and not all(task.done() for task in tasks):
        # Before and after what the round does.
        loop.call_soon(at_once)
        await asyncio.sleep(0)
        at_once()
    assert [each for each in order if each in "abc"] == ["a", "b", "c"]
    assert "at once" not in order[: order.index("c")]
    assert await rounds_of(asyncio.create_task(wait("d"))) < 10
    await asyncio.sleep(0)
    assert queue.begin_at_once()
    queue.rest()
    assert not queue.begin_at_once()
    await asyncio.sleep(0)
    assert queue.begin_at_once()


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), max_size=30))
def test_decisions_of_both_kinds_take_turns(calls: list[tuple[int, bool, bool]]) -> None:
    """Some wait and some decide at once, for a short or a long time; a look is between any two."""
    now, decided, rounds = [0.0], list[int](), [0]

    async def play() -> None:
        queue = DecisionQueue(100, lambda: now[0])
        loop = asyncio.get_running_loop()

        def look() -> None:
            rounds[0] += 1
            loop.call_soon(look)

        def decide(*, is_long: bool) -> None:
            decided.append(rounds[0])
            now[0] += 1.0 if is_long else 0.0

        async def wait(*, is_long: bool) -> None:
            await queue.begin(math.inf)
            decide(is_long=is_long)
            queue.end()

        look()
        tasks = []
        for pause, waits, is_long in calls:
            for _ in range(pause):
                await asyncio.sleep(0)
            if not waits and queue.begin_at_once():
                decide(is_long=is_long)
                queue.rest()
            else:
                tasks.append(asyncio.create_task(wait(is_long=is_long)))
        for task in tasks:
            await rounds_of(task)

    asyncio.run(play())
    assert len(decided) == len(calls)
    assert all(a < b for a, b in pairwise(decided))


async def test_preempt_waits_for_the_lease(serve: Serve) -> None:
    """After an error, kube-scheduler would not try the pod again soon."""
    served = await serve(decider=HandoverDecider(attempts=4))
    answer = await served.post("/preempt", PREEMPTION)
    assert (answer.status, answer.json) == (200, {"NodeNameToMetaVictims": {}})


@pytest.mark.parametrize("error", [HandoverError, WaitingError])
async def test_who_asks_a_replica_that_does_not_decide_connects_anew(
    serve: Serve, error: type[WaitingError]
) -> None:
    """A balancer brings the next call to the one that does; a kept connection would not."""
    served = await serve(decider=TableDecider(error=error("another one decides")))
    answer = await served.post("/filter", names_request("a"))
    assert (answer.status, answer.json["Error"]) == (200, "placet: another one decides")
    assert (answer.headers.get("Connection") == "close") == (error is HandoverError)


async def test_preempt_waits_no_longer_than_its_deadline(serve: Serve) -> None:
    served = await serve(decider=HandoverDecider(attempts=999), settings=Settings(http_timeout=1.0))
    began = time.monotonic()
    answer = await served.post("/preempt", PREEMPTION)
    assert (answer.status, "asked to hand over" in answer.text) == (400, True)
    assert 0.5 < time.monotonic() - began < 10


@pytest.mark.parametrize("most", [1, 100])
async def test_sequential_calls_never_exceed_the_limit(serve: Serve, most: int) -> None:
    served = await serve(settings=Settings(max_in_flight=most))
    for _ in range(20):
        assert (await served.post("/filter", names_request("a"))).json["Error"] == ""
