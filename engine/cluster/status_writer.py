"""Writer of policy statuses: only changes are written, and never over a newer version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import msgspec

from engine.cache.policy_objects import namespace_of
from engine.cluster.client import Api
from engine.errors import ApiError
from engine.fairness import in_turns
from policies.resource import PolicyStatus, StatusCondition

# Another version of the object will come, or none.
_CHANGED = {404, 409}
# The API server does not take this object, whoever else is written.
_INVALID = {400, 413, 422}


@dataclass(frozen=True, slots=True)
class Reported:
    """Reported policy object, with the written and the wanted status.

    `name` is the object's in the cache, and `path` that of the API server.
    """

    name: str
    path: str
    resource_version: str
    written: PolicyStatus
    wanted: PolicyStatus


async def write(api: Api, reports: Iterable[Reported], now: str) -> int:
    """Write every status that has changed, in turns by namespace. Returns their number.

    After a conflict the object is left for the next call, which has its newest version. An object
    that the API server refuses keeps no other from its status. Raises ApiError, also for the first
    refused object at the end, and ApiUnreachableError.
    """
    written = 0
    refused: ApiError | None = None
    for report in chain.from_iterable(in_turns(reports, lambda each: namespace_of(each.name))):
        wanted = with_times(report.wanted, report.written, now)
        if wanted == report.written:
            continue
        written += 1
        try:
            await api.request(
                "PATCH",
                f"{report.path}/status",
                body=_patch(report, wanted),
                content_type="application/merge-patch+json",
            )
        except ApiError as error:
            if error.status in _INVALID:
                refused = refused or error
            elif error.status not in _CHANGED:
                raise
    if refused is not None:
        raise refused
    return written


def with_times(wanted: PolicyStatus, written: PolicyStatus, now: str) -> PolicyStatus:
    """The wanted status, each condition with the time when its `status` last changed."""
    known = {condition.type: condition for condition in written.conditions}

    def timed(condition: StatusCondition) -> StatusCondition:
        before = known.get(condition.type)
        same = before is not None and before.status == condition.status
        time = before.lastTransitionTime if same and before is not None else now
        return msgspec.structs.replace(condition, lastTransitionTime=time)

    return msgspec.structs.replace(wanted, conditions=tuple(map(timed, wanted.conditions)))


def _patch(report: Reported, wanted: PolicyStatus) -> bytes:
    """A merge patch, in which null removes a field."""
    before: Mapping[str, Any] = msgspec.to_builtins(report.written)
    after: Mapping[str, Any] = msgspec.to_builtins(wanted)
    status = {**dict.fromkeys(before), **after}
    metadata = {"resourceVersion": report.resource_version}
    return msgspec.json.encode({"metadata": metadata, "status": status})
