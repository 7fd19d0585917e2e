"""The Lease: one holder at a time, whatever the API server and the clocks do."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from engine.cluster.lease import WANTED_BY, LeaderGate, Lease
from engine.decision.placement import ReplicaRole
from engine.errors import ApiError, HandoverError
from tests.support.builders import node, pod, raw
from tests.support.engines import engine_of
from tests.support.fake_clock import HandClock, settled, until
from tests.support.lease_api import LeaseApi
from tests.support.rows import rows

pytestmark = pytest.mark.fake_clock


@dataclass
class Replicas:
    """Replicas with one API server; each has a clock, and all clocks go alike."""

    names: tuple[str, ...] = ("a", "b")
    api: LeaseApi = field(default_factory=LeaseApi)

    def __post_init__(self) -> None:
        self.clocks = {name: HandClock(1000.0 * i) for i, name in enumerate(self.names)}
        self.ending: set[str] = set()
        self.leases = {name: self._lease(name, clock) for name, clock in self.clocks.items()}

    def _lease(self, name: str, clock: HandClock) -> Lease:
        def ends() -> bool:
            return name in self.ending

        return Lease(self.api, ("placet", "placet"), name, ends=ends, clock=clock)

    def wait(self, seconds: float) -> None:
        for clock in self.clocks.values():
            clock.seconds += seconds

    async def turns(self, *names: str) -> None:
        """One after the other."""
        for name in names or self.names:
            await self.leases[name].turn()

    @property
    def holders(self) -> list[str]:
        return [name for name, lease in self.leases.items() if lease.held]


async def test_the_first_replica_takes_it_and_the_second_waits() -> None:
    replicas = Replicas()
    await replicas.turns()
    assert replicas.holders == ["a"]
    assert replicas.leases["b"].holder == "a"
    for _ in range(20):
        replicas.wait(2)
        await replicas.turns()
    assert replicas.holders == ["a"]


async def test_a_renewal_is_one_request_unless_the_lease_has_changed() -> None:
    """An update succeeds only if nobody has changed what was written last."""
    replicas = Replicas()
    await replicas.turns("a")

    async def requests() -> list[str]:
        replicas.wait(2)
        before = len(replicas.api.methods)
        await replicas.turns("a")
        assert replicas.holders == ["a"]
        return replicas.api.methods[before:]

    assert [await requests() for _ in range(3)] == [["PUT"]] * 3
    replicas.leases["b"].need()
    replicas.leases["a"].need()
    await replicas.turns("b")
    assert await requests() == ["PUT", "GET", "PUT"], "the wish of the other one is read"
    assert await requests() == ["PUT"]
    lease = replicas.api.lease
    assert lease is not None
    replicas.api.delete()
    replicas.api.restore(lease)
    replicas.wait(2)
    await replicas.turns("a")
    assert replicas.holders == [], "it is another object"


async def test_a_replica_without_answers_is_cut_off() -> None:
    replicas = Replicas()
    await replicas.turns()
    replicas.api.broken = True
    for is_cut_off in (False, True):
        replicas.wait(9)
        await replicas.turns("a")
        assert replicas.leases["a"].is_cut_off is is_cut_off
    replicas.api.broken = False
    await replicas.turns("a")
    assert not replicas.leases["a"].is_cut_off


async def test_a_refusal_is_an_answer() -> None:
    """A missing right is the same for all replicas."""
    replicas = Replicas()
    replicas.api.refused = ApiError(403, "Forbidden", "no")
    for _ in range(2):
        replicas.wait(9)
        await replicas.turns("a")
    assert not replicas.leases["a"].is_cut_off


async def test_a_dead_holder_is_replaced_after_the_lease_has_expired() -> None:
    replicas = Replicas()
    await replicas.turns()
    for _ in range(7):
        replicas.wait(2)
        await replicas.turns("b")
        assert "b" not in replicas.holders
    replicas.wait(2)
    await replicas.turns("b")
    assert replicas.holders == ["b"]
    assert replicas.api.lease is not None
    assert replicas.api.lease["spec"]["leaseTransitions"] == 2


async def test_a_holder_without_an_api_server_stops_before_another_may_begin() -> None:
    replicas = Replicas()
    await replicas.turns()
    replicas.api.broken = True
    replicas.wait(10)
    await replicas.turns()
    assert replicas.holders == []
    assert replicas.leases["a"].failure == "cannot hold the Lease: nobody there"


async def test_a_replica_with_requests_gets_it_from_an_idle_one() -> None:
    replicas = Replicas()
    await replicas.turns()
    replicas.leases["a"].need()
    for _ in range(9):
        replicas.leases["b"].need()
        await replicas.turns()
        replicas.wait(2)
    assert replicas.holders == ["b"]
    assert replicas.api.lease is not None
    assert WANTED_BY not in replicas.api.lease["metadata"]["annotations"]
    for _ in range(9):
        await replicas.turns()
        replicas.wait(2)
    assert replicas.holders == ["b"], "nobody wants it back"


async def test_a_leader_without_requests_for_five_seconds_hands_over() -> None:
    replicas = Replicas()
    await replicas.turns()
    replicas.leases["a"].need()
    replicas.leases["b"].need()
    replicas.wait(4)
    await replicas.turns()
    await replicas.turns()
    assert replicas.holders == ["a"]
    replicas.wait(2)
    await replicas.turns()
    await replicas.turns("b")
    assert replicas.holders == ["b"]


async def test_a_leader_that_only_looks_itself_hands_over() -> None:
    """Its looks at rejected pods under strict counts are no calls of kube-scheduler."""
    replicas = Replicas()
    await replicas.turns()
    gates = {name: LeaderGate(lease) for name, lease in replicas.leases.items()}
    rule = 'cluster policy one { limit "one" { per node at most 1 strict } }'
    a, b = (engine_of(rule, [node("n1")], role=ReplicaRole(gates[name].waiting)) for name in "ab")
    asked = raw(pod("p"))
    for _ in range(9):
        with suppress(HandoverError):
            a.looks.would_pass(a.looks.read(asked))
        with pytest.raises(HandoverError):
            b.filter(asked, ["n1"], None, math.inf)
        await replicas.turns()
        replicas.wait(2)
    assert replicas.holders == ["b"]


async def test_two_replicas_with_requests_do_not_alternate() -> None:
    replicas = Replicas()
    await replicas.turns()
    for _ in range(50):
        replicas.leases["a"].need()
        replicas.leases["b"].need()
        await replicas.turns()
        assert replicas.holders == ["a"]
        replicas.wait(2)


async def test_a_wish_before_the_last_request_is_no_reason_to_hand_over() -> None:
    """A kube-scheduler that has lost its own Lease may still call the other replica once."""
    replicas = Replicas()
    await replicas.turns()
    replicas.leases["a"].need()
    replicas.leases["b"].need()
    await replicas.turns("b", "a")
    for _ in range(3):
        replicas.wait(1)
        replicas.leases["a"].need()
        await replicas.turns("a")
    # The pods that are left wait in kube-scheduler's backoff.
    for _ in range(8):
        replicas.wait(2)
        await replicas.turns("b", "a")
        assert replicas.holders == ["a"]


async def test_an_ending_replica_hands_over_despite_requests() -> None:
    replicas = Replicas()
    await replicas.turns()
    replicas.ending.add("a")
    for asked in (["a"], ["a", "b"]):
        for _ in range(3):
            assert replicas.holders == ["a"], "until another wants it"
            for name in asked:
                replicas.leases[name].need()
            await replicas.turns("a", "b")
            replicas.wait(2)
            if asked == ["a", "b"]:
                break
    await replicas.turns("a", "b")
    assert replicas.holders == ["b"]


async def test_a_wish_of_a_dead_replica_does_not_leave_the_lease_free() -> None:
    replicas = Replicas()
    await replicas.turns()
    replicas.wait(16)
    replicas.leases["b"].need()
    await replicas.turns("a", "b", "a")
    assert replicas.holders == []
    for _ in range(9):
        replicas.wait(2)
        await replicas.turns("a")
    assert replicas.holders == ["a"]


async def test_two_replicas_that_want_the_lease_of_a_dead_one_get_it_when_it_expires() -> None:
    replicas = Replicas(("a", "b", "c"))
    await replicas.turns()
    for _ in range(8):
        for name in "bc":
            replicas.leases[name].need()
        replicas.wait(2)
        await replicas.turns("b", "c")
    assert replicas.holders == ["b"]


async def test_a_replica_that_is_called_takes_what_another_one_has_wanted() -> None:
    replicas = Replicas(("a", "b", "c"))
    await replicas.turns()
    replicas.leases["b"].need()
    await replicas.turns("b")
    replicas.wait(6)
    replicas.leases["c"].need()
    await replicas.turns("c", "a", "c")
    assert replicas.holders == ["c"]
    for _ in range(3):
        replicas.leases["c"].need()
        replicas.wait(2)
        await replicas.turns()
    assert replicas.holders == ["c"]


async def test_a_replica_that_is_not_called_leaves_an_expired_lease_to_one_that_is() -> None:
    replicas = Replicas(("a", "b", "c"))
    await replicas.turns()
    replicas.wait(8)
    replicas.leases["c"].need()
    await replicas.turns("b", "c")
    replicas.wait(8)
    await replicas.turns("b", "c")
    assert replicas.holders == ["c"]


async def test_it_is_released_when_the_replica_ends() -> None:
    replicas = Replicas()
    running = asyncio.create_task(replicas.leases["a"].run())
    while not replicas.holders:  # noqa: ASYNC110 - it is a question, no event
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert replicas.api.holder == ""
    await replicas.turns("b")
    assert replicas.holders == ["b"]


@pytest.mark.parametrize("steps", range(1, 16))
async def test_it_is_released_whatever_the_end_interrupts(steps: int) -> None:
    """Also an update that arrives after the end has read the Lease."""
    replicas = Replicas()
    running = asyncio.create_task(replicas.leases["a"].run())
    for _ in range(steps):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    for _ in range(5):
        await asyncio.sleep(0)
    assert replicas.api.holder == ""


async def test_an_update_without_an_answer_is_not_a_hold() -> None:
    replicas = Replicas()
    replicas.api.lost = True
    await replicas.turns("a")
    assert replicas.api.holder == "a"
    assert replicas.holders == []
    replicas.api.lost = False
    await replicas.turns()
    assert replicas.holders == ["a"]


# ---- terms


async def lapse(replicas: Replicas) -> None:
    """`a` loses the Lease, because it cannot renew it."""
    replicas.api.broken = True
    replicas.wait(11)
    await replicas.turns("a")
    replicas.api.broken = False


async def give_up(replicas: Replicas) -> None:
    """`a` releases the Lease to `b`, which does not take it."""
    replicas.wait(16)
    replicas.leases["b"].need()
    await replicas.turns("a", "b", "a", "a")
    replicas.wait(16)


async def take_unheard(replicas: Replicas) -> None:
    """`a` takes the Lease, and the answer is lost."""
    replicas.api.lost = True
    await replicas.turns("a")
    replicas.api.lost = False
    replicas.wait(2)


async def lose_answer(replicas: Replicas) -> None:
    """`a` gets the Lease back after it has released it, and does not hear of that."""
    await give_up(replicas)
    await take_unheard(replicas)


async def visit(replicas: Replicas) -> None:
    """`b` has the Lease for a while, and releases it."""
    await give_up(replicas)
    await replicas.turns("b")
    assert replicas.holders == ["b"]
    replicas.wait(16)
    replicas.leases["a"].need()
    await replicas.turns("b", "a", "b")


async def visit_unheard(replicas: Replicas) -> None:
    """The same, and the answer by which `a` gets it back is lost."""
    await visit(replicas)
    await take_unheard(replicas)


async def make_anew(replicas: Replicas) -> None:
    """Somebody deletes the Lease; `b` creates one and releases it."""
    replicas.api.delete()
    await replicas.turns("b", "b")
    replicas.wait(15)
    await replicas.turns("b")
    assert replicas.holders == ["b"]
    replicas.wait(16)
    replicas.leases["a"].need()
    await replicas.turns("b", "a", "b")


@rows(
    ("event", "goes_on"),
    {
        "not renewed in time": (lapse, True),
        "released, and taken by nobody": (give_up, True),
        "taken back without an answer": (lose_answer, True),
        "another replica held it": (visit, False),
        "another one held it, and an answer was lost": (visit_unheard, False),
        "another Lease": (make_anew, False),
    },
)
async def test_a_term_goes_on_until_another_replica_has_held_the_lease(
    event: Callable[[Replicas], Awaitable[None]], goes_on: bool
) -> None:
    replicas = Replicas()
    lease = replicas.leases["a"]
    assert lease.term_began == float("-inf")
    replicas.wait(1)
    await replicas.turns("a")
    began = lease.term_began
    assert began == 1.0
    await event(replicas)
    await replicas.turns("a")
    assert replicas.holders == ["a"]
    term = lease.term_began
    assert (term == began) is goes_on
    lease.need()
    replicas.wait(2)
    await replicas.turns("a")
    assert replicas.holders == ["a"]
    assert lease.term_began == term, "renewals are of the same term"


async def test_a_leader_takes_over_once_a_term() -> None:
    """Also if the gate never saw that the Lease was away."""
    replicas, terms = Replicas(), list[float]()

    async def take_over(term_began: float) -> None:
        terms.append(term_began)

    gate = LeaderGate(replicas.leases["a"])
    running = asyncio.create_task(gate.run(take_over))
    await replicas.turns("a")
    await until(lambda: gate.waiting() == "")
    await lapse(replicas)
    await replicas.turns("a")
    assert gate.waiting() == "", "it is the same term"
    await visit(replicas)
    await replicas.turns("a")
    assert gate.waiting() == "this replica has just become the leader and is listing pods"
    await until(lambda: gate.waiting() == "")
    assert terms == [0.0, replicas.leases["a"].term_began]
    running.cancel()


async def test_a_new_holder_counts_only_after_taking_over() -> None:
    replicas, listed = Replicas(), asyncio.Event()

    async def take_over(_term_began: float) -> None:
        await listed.wait()

    lease = replicas.leases["a"]
    count_gate = LeaderGate(lease)
    assert count_gate.waiting() == "this replica is taking the Lease"
    running = asyncio.create_task(count_gate.run(take_over))
    await replicas.turns()
    await asyncio.sleep(0.15)
    assert count_gate.waiting() == "this replica has just become the leader and is listing pods"
    listed.set()
    await asyncio.sleep(0.15)
    assert count_gate.waiting() == ""
    replicas.wait(11)
    assert count_gate.waiting() == "this replica is taking the Lease"
    assert LeaderGate(replicas.leases["b"]).waiting() == (
        "`a` is the leader and is asked to hand over"
    )
    running.cancel()


async def test_a_gate_without_its_task_is_closed() -> None:
    """While the task waits for a new start, the Lease may be lost and won again unnoticed."""
    replicas = Replicas()

    async def take_over(_term_began: float) -> None:
        """There is nothing to list."""

    gate = LeaderGate(replicas.leases["a"])
    await replicas.turns("a")
    running = asyncio.create_task(gate.run(take_over))
    await settled()
    assert gate.waiting() == ""
    running.cancel()
    await asyncio.wait([running])
    assert gate.waiting() == "this replica has just become the leader and is listing pods"
    running = asyncio.create_task(gate.run(take_over))
    await settled()
    assert gate.waiting() == ""
    running.cancel()
