"""Writes what has become of policies into their status: only on change, and over nothing newer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from engine.errors import ApiError, ApiUnreachableError
from policies.resource import Condition, Status

_CONFLICT, _NOT_FOUND = 409, 404


class Api(Protocol):
    """What of the API server is needed. Raises ApiError and ApiUnreachableError."""

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, content_type: str = ...
    ) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Reported:
    """A policy object and what its status should be; `path` is the object's in the API."""

    path: str
    resource_version: str
    written: Status
    wanted: Status


async def write(api: Api, reports: Iterable[Reported], now: str) -> int:
    """Brings every status up to date; returns how many were not.

    A conflict leaves the object for the next time, when its newest version is known. Raises
    ApiError and ApiUnreachableError.
    """
    written = 0
    for report in reports:
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
            if error.status not in (_CONFLICT, _NOT_FOUND):
                raise
        except ApiUnreachableError:
            raise
    return written


def with_times(wanted: Status, written: Status, now: str) -> Status:
    """The wanted status, each condition with the time when its `status` became what it is."""
    known = {condition.type: condition for condition in written.conditions}

    def timed(condition: Condition) -> Condition:
        before = known.get(condition.type)
        same = before is not None and before.status == condition.status
        time = before.lastTransitionTime if same and before is not None else now
        return msgspec.structs.replace(condition, lastTransitionTime=time)

    return msgspec.structs.replace(wanted, conditions=tuple(map(timed, wanted.conditions)))


def _patch(report: Reported, wanted: Status) -> bytes:
    """A merge patch, in which null takes a field away."""
    before: Mapping[str, Any] = msgspec.to_builtins(report.written)
    after: Mapping[str, Any] = msgspec.to_builtins(wanted)
    status = {**dict.fromkeys(before), **after}
    metadata = {"resourceVersion": report.resource_version}
    return msgspec.json.encode({"metadata": metadata, "status": status})
