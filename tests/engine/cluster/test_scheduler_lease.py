"""The Lease of kube-scheduler: who is told, when another process holds it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.cluster.requeue import SchedulerLease
from engine.errors import ApiError, ApiUnreachableError
from tests.support.reviews import OneAnswerApi
from tests.support.rows import rows

PATH = "/apis/coordination.k8s.io/v1/namespaces/placet/leases/placet-scheduler"
GONE = ApiError(404, "NotFound", "no such Lease")


def held(by: str, transitions: int, renewed: str = "1") -> dict[str, Any]:
    spec = {"holderIdentity": by, "acquireTime": by, "renewTime": renewed}
    return {"kind": "Lease", "spec": {**spec, "leaseTransitions": transitions}}


@dataclass
class Looks:
    """A SchedulerLease whose looks are ten seconds apart, and what it told."""

    api: OneAnswerApi = field(default_factory=lambda: OneAnswerApi(GONE))
    told: list[float] = field(default_factory=list)
    reports: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.lease = SchedulerLease(
            self.api,
            ("placet", "placet-scheduler"),
            self.told.append,
            lambda _, failure: self.reports.append(failure),
            lambda: self.seconds,
        )

    async def look(self, answer: dict[str, Any] | Exception) -> None:
        self.seconds += 10
        self.api.answer = answer
        await self.lease.look()
        assert self.api.asked[-1] == PATH


AWAY = ApiUnreachableError("nobody there")


@rows(
    ("answers", "told"),
    {
        "the first look knows of no other process": ([held("a", 1)], []),
        "renewed": ([held("a", 1), held("a", 1, "2")], []),
        "acquired by another process": ([held("a", 1), held("b", 2)], [10.0]),
        "released: the next one is awaited": ([held("a", 1), held("", 1)], []),
        "and is there": ([held("a", 1), held("", 1), held("b", 2)], [10.0]),
        "the last look that found the process before": (
            [held("a", 1), held("a", 1), held("b", 2), held("b", 2), held("c", 3)],
            [20.0, 40.0],
        ),
        "after a failure": ([held("a", 1), AWAY, held("b", 2)], [10.0]),
        "a Lease that was not there before": ([GONE, held("a", 1)], []),
        "a Lease that is made anew": ([held("a", 1), GONE, held("b", 0)], [10.0]),
    },
)
async def test_news_of_another_process(
    answers: list[dict[str, Any] | Exception], told: list[float]
) -> None:
    looks = Looks()
    for answer in answers:
        await looks.look(answer)
    assert looks.told == told


async def test_a_failure_is_reported_and_an_absent_lease_is_none() -> None:
    looks = Looks()
    for answer in (GONE, AWAY, held("a", 1)):
        await looks.look(answer)
    assert looks.reports == ["", "cannot read the Lease of kube-scheduler: nobody there", ""]
