"""Filter waits for in-flight pods, for a bounded time."""

from __future__ import annotations

from dataclasses import dataclass

from engine.decision.verdict import Decision
from engine.errors import BriefWaitError
from tests.server.conftest import Serve
from tests.support.served import TableDecider, names_request

WAITING = "waiting for in-flight pods: policy web: one a node"


@dataclass
class BusyDecider(TableDecider):
    """A decider for which in-flight pods are in the way of so many calls."""

    attempts: int = 0
    asked: int = 0

    def filter(self, *args: object) -> Decision:
        self.asked += 1
        self.attempts -= 1
        if self.attempts >= 0:
            raise BriefWaitError(WAITING)
        return super().filter(*args)  # type: ignore[arg-type]


async def test_a_call_is_answered_as_soon_as_in_flight_pods_are_bound(serve: Serve) -> None:
    decider = BusyDecider(attempts=3)
    served = await serve(decider=decider)
    answer = (await served.post("/filter", names_request("a", "b"))).json
    assert (answer["NodeNames"], answer["Error"]) == (["a", "b"], "")
    assert decider.asked == 4


async def test_a_call_waits_for_ten_looks_at_most(serve: Serve) -> None:
    decider = BusyDecider(attempts=999)
    served = await serve(decider=decider)
    answer = (await served.post("/filter", names_request("a"))).json
    assert answer["Error"] == f"placet: {WAITING}"
    assert decider.asked == 11


async def test_all_calls_together_wait_for_a_part_of_the_time(serve: Serve) -> None:
    """While a call waits, kube-scheduler asks about no pod of another tenant."""
    decider = BusyDecider(attempts=999)
    served = await serve(decider=decider)
    for _ in range(10):
        assert (await served.post("/filter", names_request("a"))).json[
            "Error"
        ] == f"placet: {WAITING}"
    looks = decider.asked - 10
    # 20 at once, and one in 0.1 s after that: each takes 0.01 s itself.
    assert 20 <= looks <= 40
