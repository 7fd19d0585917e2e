"""Failed pods: when and why a pod failed, and whose it is."""

from __future__ import annotations

from typing import Any

import pytest

from engine.cache.ended_pods import failed_at
from engine.objects.peer import Peer
from grammar.values.time import Timestamp
from tests.support.builders import pod
from tests.support.engines import peer_of

EARLY, LATE = "2026-11-26T10:00:00Z", "2026-11-26T11:00:00Z"


def ended(at: str, reason: str) -> dict[str, Any]:
    return {"state": {"terminated": {"finishedAt": at, "reason": reason, "exitCode": 1}}}


def failed(**status: Any) -> Peer:
    found = pod("job-1", "shop", on="n")
    found["metadata"]["ownerReferences"] = [
        {"kind": "Node", "name": "n", "uid": "uid-n"},
        {"kind": "Job", "name": "job", "uid": "uid-job", "controller": True},
    ]
    found["metadata"]["creationTimestamp"] = "2026-11-26T09:00:00Z"
    return peer_of({**found, "status": {"phase": "Failed", **status}})


@pytest.mark.parametrize(
    ("status", "time", "reason"),
    [
        ({}, "2026-11-26T09:00:00Z", ""),
        (
            {"conditions": [{"lastTransitionTime": EARLY}, {"lastTransitionTime": LATE}, {}]},
            LATE,
            "",
        ),
        (
            {
                "reason": "Evicted",
                "conditions": [{"lastTransitionTime": LATE}],
                "containerStatuses": [ended(EARLY, "Error")],
            },
            EARLY,
            "Evicted",
        ),
        (
            {
                "containerStatuses": [ended(EARLY, "OOMKilled"), ended(LATE, "Completed")],
                "initContainerStatuses": [ended("2026-11-26T09:30:00Z", "Error"), {}],
            },
            LATE,
            "OOMKilled",
        ),
        ({"reason": "x" * 1000}, "2026-11-26T09:00:00Z", "x" * 128),
    ],
)
def test_when_and_why_a_pod_failed(status: dict[str, Any], time: str, reason: str) -> None:
    found = failed(**status)
    assert (found.controller, found.name, found.nodeName) == ("uid-job", "job-1", "n")
    assert (failed_at(found), found.reason) == (Timestamp.parse(time), reason)


@pytest.mark.parametrize("phase", ["Running", "Pending", "", None])
def test_a_pod_of_another_phase_has_not_ended(phase: str | None) -> None:
    found = failed(phase=phase, reason="NodeLost")
    assert (found.ended, found.reason) == (None, "")
