"""The status of a policy object counts the pods that break its clauses."""

from __future__ import annotations

from collections.abc import Mapping

from engine.cache.cache import Cache
from engine.drift.drift_document import PolicyRepair
from policies.resource import PolicyStatus
from server.runtime.drift_watching import drift_part
from server.runtime.policy_statuses import Statuses
from tests.server.runtime.test_objects import READY, Read, stored
from tests.server.runtime.test_ungated import no_time


def status(drift: Mapping[str, Mapping[str, int]] | None) -> PolicyStatus:
    read, objects = Read(), stored(READY)
    read.read(objects)
    assert read.last is not None
    statuses = Statuses(Cache(), no_time, [lambda: drift_part(drift, ())])
    (report,) = statuses.reports(read.last, objects, Cache().snapshot())
    return report.wanted


def test_what_is_done_about_them() -> None:
    read, objects = Read(), stored(READY)
    read.read(objects)
    assert read.last is not None
    repair = PolicyRepair("shop/web", "no place", "nowhere", 1, 0, 0, 0, (), ())
    statuses = Statuses(Cache(), no_time, [lambda: drift_part(None, [repair])])
    (report,) = statuses.reports(read.last, objects, Cache().snapshot())
    (found,) = [c for c in report.wanted.conditions if c.type == "Repairing"]
    assert (found.status, found.reason, found.message) == ("False", "NoPlace", "nowhere")


def drifted(found: PolicyStatus) -> list[tuple[str, str, str]]:
    return [(c.status, c.reason, c.message) for c in found.conditions if c.type == "Drifted"]


def test_pods_are_counted_once_for_each_kind() -> None:
    found = status({"shop/web": {"share": 2, "filter": 1}})
    assert found.driftedPods == 3
    text = "pods break clauses of these kinds: filter, share; see `placet drift`"
    assert drifted(found) == [("True", "PodsBreakClauses", text)]


def test_a_policy_that_nobody_breaks() -> None:
    found = status({})
    assert found.driftedPods == 0
    assert [each[:2] for each in drifted(found)] == [("False", "None")]


def test_what_nobody_has_looked_at_is_not_said() -> None:
    found = status(None)
    assert (found.driftedPods, drifted(found)) == (None, [])
