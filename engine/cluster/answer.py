"""What the API server says when it refuses: a Status object, or whatever a proxy puts there."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from engine.errors import ApiError

_MOST_TEXT = 200


class _Details(msgspec.Struct, frozen=True, gc=False):
    retryAfterSeconds: int = 0


class _Status(msgspec.Struct, frozen=True, gc=False):
    """The fields of a meta/v1 Status that are read."""

    kind: str
    message: str | None = None
    reason: str | None = None
    code: int | None = None
    details: _Details | None = None


_STATUS = msgspec.json.Decoder(_Status)


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error that an answer of HTTP status `status` is."""
    wait = _seconds(headers.get("Retry-After"))
    try:
        told = _STATUS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        told = None
    if told is None or told.kind != "Status":
        text = " ".join(body[: 4 * _MOST_TEXT].decode("utf-8", "replace").split())
        return ApiError(status, "", text[:_MOST_TEXT], wait)
    if wait is None and told.details is not None and told.details.retryAfterSeconds > 0:
        wait = float(told.details.retryAfterSeconds)
    return ApiError(status, told.reason or "", told.message or "", wait)


def _seconds(header: str | None) -> float | None:
    """Retry-After in seconds; the API server never sends the form that is a date."""
    return float(header) if header is not None and header.isdecimal() else None
