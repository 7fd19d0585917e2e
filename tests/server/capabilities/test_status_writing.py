"""Statuses: written on change, with the time of the last change, never over a newer version."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from engine.errors import ApiError, ApiUnreachableError
from policies.resource import PolicyStatus, StatusCondition
from server.capabilities.policy_statuses import Reported, with_times, write

PATH = "/apis/placement-policy.scheduling.x-k8s.io/v1/namespaces/shop/placementpolicies/web"
EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def condition(status: Any, reason: str = "r", time: str = "") -> StatusCondition:
    return StatusCondition("Ready", status, reason, "", time, 1)


class StatusApi:
    """Takes what is written, or fails."""

    def __init__(self, error: Exception | None = None) -> None:
        self.sent: list[tuple[str, str, Any, str]] = []
        self._error = error

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, content_type: str = "", **_: Any
    ) -> bytes:
        self.sent.append((method, path, json.loads(body or b"{}"), content_type))
        if self._error is not None:
            raise self._error
        return b"{}"


def reported(written: PolicyStatus, wanted: PolicyStatus) -> Reported:
    return Reported("placementpolicies/shop/web", PATH, "7", written, wanted)


async def test_an_equal_status_is_not_written() -> None:
    written = PolicyStatus(observedGeneration=1, conditions=(condition("True", time=EARLY),))
    wanted = PolicyStatus(observedGeneration=1, conditions=(condition("True"),))
    api = StatusApi()
    await write(api, [reported(written, wanted)], LATE)
    assert api.sent == []


async def test_a_change_is_a_patch_of_the_version_that_was_seen() -> None:
    written = PolicyStatus(observedGeneration=1, matchedPods=3, diagnostics=("a",))
    wanted = PolicyStatus(observedGeneration=2, matchedPods=4)
    api = StatusApi()
    await write(api, [reported(written, wanted)], LATE)
    [(method, path, body, kind)] = api.sent
    assert (method, path, kind) == ("PATCH", f"{PATH}/status", "application/merge-patch+json")
    assert body == {
        "metadata": {"resourceVersion": "7"},
        "status": {"observedGeneration": 2, "matchedPods": 4, "diagnostics": None},
    }


def test_a_condition_has_the_time_of_its_last_change() -> None:
    written = PolicyStatus(conditions=(condition("True", time=EARLY),))
    same = with_times(PolicyStatus(conditions=(condition("True", "other"),)), written, LATE)
    assert same.conditions == (condition("True", "other", EARLY),)
    changed = with_times(PolicyStatus(conditions=(condition("False"),)), written, LATE)
    assert changed.conditions == (replace(condition("False"), lastTransitionTime=LATE),)


@pytest.mark.parametrize("status", [409, 404])
async def test_a_changed_or_deleted_object_is_left_for_the_next_call(status: int) -> None:
    api = StatusApi(ApiError(status, "", ""))
    reports = [reported(PolicyStatus(), PolicyStatus(matchedPods=n)) for n in (1, 2)]
    await write(api, reports, LATE)
    assert len(api.sent) == 2


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_an_object_that_the_server_refuses_keeps_no_other_from_its_status(
    status: int,
) -> None:
    """Such as a stored object that a newer definition does not allow; the error is still raised."""
    api = StatusApi(ApiError(status, "Invalid", "spec.weight: too large"))
    reports = [reported(PolicyStatus(), PolicyStatus(matchedPods=n)) for n in (1, 2)]
    with pytest.raises(ApiError, match="too large"):
        await write(api, reports, LATE)
    assert len(api.sent) == 2


@pytest.mark.parametrize("error", [ApiError(403, "Forbidden", "no"), ApiUnreachableError("gone")])
async def test_other_errors_are_raised(error: Exception) -> None:
    with pytest.raises(type(error)):
        await write(StatusApi(error), [reported(PolicyStatus(), PolicyStatus(matchedPods=1))], LATE)
