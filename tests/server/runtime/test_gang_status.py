"""The status of a policy object counts its gangs."""

from __future__ import annotations

from engine.cache.cache import Cache
from engine.gangs.gang import GangStatus
from server.runtime.policy_statuses import Statuses, gang_numbers
from tests.server.runtime.test_objects import READY, Read, stored
from tests.server.runtime.test_ungated import no_time

GANG = 'gang "g" { of pods by peer.labels["job"] at least 2 }'


def gang(name: str, state: str, policy: str = "shop/web") -> GangStatus:
    return GangStatus(policy, "g", "shop", name, state, 2, 0, 1, 1.0, "", {})  # type: ignore[arg-type]


def numbers(rules: str, *gangs: GangStatus) -> tuple[int | None, ...]:
    read, objects = Read(), stored(rules)
    read.read(objects)
    assert read.last is not None
    statuses = Statuses(Cache(), no_time, [lambda: gang_numbers(gangs)])
    (report,) = statuses.reports(read.last, objects, Cache().snapshot())
    found = report.wanted
    return found.waitingGangs, found.gatheringGangs, found.givenUpGangs


def test_the_gangs_of_a_policy_are_counted_by_state() -> None:
    waiting = [gang("a", "waiting"), gang("b", "waiting"), gang("c", "waiting", "shop/other")]
    others = [gang("d", "gathering"), gang("e", "given up")]
    assert numbers(GANG, *waiting, *others) == (2, 1, 1)
    assert numbers(GANG) == (0, 0, 0)


def test_a_policy_without_gangs_has_no_such_numbers() -> None:
    assert numbers(READY, gang("a", "waiting")) == (None, None, None)
