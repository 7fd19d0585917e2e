"""Readiness of policy objects: the message in the status, and the events about its changes."""

from __future__ import annotations

import msgspec
import pytest

from engine.cache.cache import Cache
from engine.errors import DeadlineExceededError
from engine.program.frame import Evaluation, Frame
from policies.resource import PolicyStatus, StatusCondition
from server.capabilities.policy_statuses import UNMET, Outcomes, Reported, Statuses, with_times
from server.runtime.cluster_runtime import readiness_news
from tests.server.runtime.test_objects import READY, Read, stored

NOW = "2026-11-21T10:00:00Z"
WRONG = 'filter "ready" { require node.redy }'
REDY = "rules:1:31 error[P0102]: Node has no field `redy` (a similar name exists: `ready`)"
NO_GOOD = ("NotInForce", f"it is not enforced: {REDY}")
LAST_GOOD = ("LastGoodInForce", f"its last valid version is in force instead: {REDY}")
CACHE = Cache()


def no_time(_: Frame) -> Evaluation:
    raise DeadlineExceededError


class Server:
    """The statuses of one object, which are written after each edit."""

    def __init__(self) -> None:
        self._read = Read()
        self._statuses = Statuses(CACHE, no_time)
        self._written = PolicyStatus()

    def edit(self, rules: str, generation: int) -> Reported:
        written = msgspec.to_builtins(self._written)
        objects = stored(rules, generation=generation, status=written)
        self._read.read(objects)
        assert self._read.last is not None
        (report,) = self._statuses.reports(self._read.last, objects, CACHE.snapshot())
        self._written = with_times(report.wanted, report.written, NOW)
        return report


def ready(report: Reported) -> StatusCondition:
    (found,) = (each for each in report.wanted.conditions if each.type == "Ready")
    return found


@pytest.mark.parametrize(
    ("edits", "reason", "message"),
    [
        ([READY], "InForce", "it is in force as it is written"),
        ([WRONG], *NO_GOOD),
        ([READY, WRONG], *LAST_GOOD),
    ],
)
def test_ready_says_the_first_mistake_and_its_place(
    edits: list[str], reason: str, message: str
) -> None:
    server = Server()
    reports = [server.edit(rules, number) for number, rules in enumerate(edits, 1)]
    assert (ready(reports[-1]).reason, ready(reports[-1]).message) == (reason, message)


def test_an_object_that_is_not_in_force_has_one_event_until_it_is() -> None:
    """And one when it is; each names its generation, because equal texts are sent once."""
    server = Server()
    assert readiness_news(server.edit(READY, 1)) is None
    wrong = ("Warning", LAST_GOOD[0], f"generation 2: {LAST_GOOD[1]}")
    assert readiness_news(server.edit(WRONG, 2)) == wrong
    assert readiness_news(server.edit(WRONG, 2)) == wrong
    assert readiness_news(server.edit(READY, 3)) == (
        "Normal",
        "InForce",
        "generation 3 is in force",
    )
    assert readiness_news(server.edit(READY, 3)) is None


def test_the_status_of_an_unchanged_object_is_written_once() -> None:
    """Level-triggered: the same state has the same status, to the last character."""
    server = Server()
    server.edit(WRONG, 1)
    again = server.edit(WRONG, 1)
    assert with_times(again.wanted, again.written, NOW) == again.written


def test_the_message_is_bounded() -> None:
    rules = "".join(f'filter "f{i}" {{ require node.{"x" * 200} }}\n' for i in range(50))
    report = Server().edit(rules, 1)
    assert len(ready(report).message) <= 1024


def test_a_share_for_which_pods_wait_is_a_condition() -> None:
    read, statuses = Read(), Statuses(CACHE, no_time)
    objects = stored(READY)
    read.read(objects)
    assert read.last is not None
    (address,) = (program.address for program in read.last.programs.values())

    def unmet(shares: dict[str, str]) -> tuple[str, str, str]:
        assert read.last is not None
        (report,) = statuses.reports(read.last, objects, CACHE.snapshot(), Outcomes(unmet=shares))
        (found,) = (each for each in report.wanted.conditions if each.type == "Unmet")
        return found.status, found.reason, found.message

    assert unmet({}) == ("False", "None", "no pod waits for the nodes of a share")
    assert unmet({"shop/other": "zone b"}) == (
        "False",
        "None",
        "no pod waits for the nodes of a share",
    )
    assert unmet({address: "zone b"}) == (
        "True",
        "NoNode",
        UNMET.format("zone b"),
    )


def test_each_condition_has_a_message() -> None:
    for rules in (READY, WRONG):
        assert all(each.message for each in Server().edit(rules, 1).wanted.conditions)
