"""The wire format of `admission.k8s.io/v1`: reviews of objects before they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from server.errors import RequestError
from server.wire import decode

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"
# An API server takes no larger objects, and a review has two of them.
MOST_BYTES = 8 * 1024 * 1024
# The API server passes on 4096 characters of warnings, and 256 of each where there are more.
WARNING_LENGTH, MOST_WARNINGS = 256, 16
LINE_LENGTH, MOST_LINES = 1024, 64

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True, slots=True)
class Review:
    """What is asked. `raw` and `old` are JSON, and empty where there is no such object."""

    uid: str
    operation: Operation
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    raw: bytes
    old: bytes

    @property
    def key(self) -> str:
        """`resource/namespace/name`, as watched objects are called too."""
        return "/".join(part for part in (self.resource, self.namespace, self.name) if part)


class _Resource(Struct):
    resource: str
    group: str = ""


class _Request(Struct, rename="camel"):
    uid: Annotated[str, Meta(min_length=1)]
    operation: Operation
    resource: _Resource
    sub_resource: str = ""
    namespace: str = ""
    name: str = ""
    object: Raw = Raw()
    old_object: Raw = Raw()


class _Asked(Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: _Request | None = None


class _Status(Struct, frozen=True, kw_only=True):
    status: str = "Failure"
    code: int
    reason: str
    message: str


class _Response(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    uid: str
    allowed: bool
    status: _Status | None = None
    patch: bytes | None = None  # as base64
    patch_type: str | None = None
    warnings: tuple[str, ...] = ()


class _Answer(Struct, frozen=True, rename="camel"):
    response: _Response
    api_version: str = API_VERSION
    kind: str = KIND


_ASKED = msgspec.json.Decoder(_Asked)
_ENCODER = msgspec.json.Encoder()


def decode_review(body: bytes) -> Review:
    """Raises RequestError."""
    asked = decode(_ASKED, body)
    if (asked.api_version, asked.kind) != (API_VERSION, KIND):
        found = f"`{asked.kind[:100]}` of `{asked.api_version[:100]}`"
        raise RequestError(f"the request is {found}, not `{KIND}` of `{API_VERSION}`")
    request = asked.request
    if request is None:
        raise RequestError("the review has no `request`")
    return Review(
        uid=request.uid,
        operation=request.operation,
        group=request.resource.group,
        resource=request.resource.resource,
        subresource=request.sub_resource,
        namespace=request.namespace,
        name=request.name,
        raw=_given(request.object),
        old=_given(request.old_object),
    )


def allow(review: Review, warnings: Sequence[str] = (), patch: Sequence[Any] = ()) -> bytes:
    """The answer that lets an object pass, changed by a JSON patch if there is one."""
    response = _Response(
        uid=review.uid,
        allowed=True,
        patch=_ENCODER.encode(patch) if patch else None,
        patch_type="JSONPatch" if patch else None,
        warnings=_few(warnings, MOST_WARNINGS, WARNING_LENGTH),
    )
    return _ENCODER.encode(_Answer(response))


def deny(
    review: Review,
    errors: Sequence[str],
    warnings: Sequence[str] = (),
    *,
    code: int = 422,
    reason: str = "Invalid",
) -> bytes:
    """The answer that refuses an object: `errors` are a line each for whoever applied it."""
    # With `details`, kubectl would not show the message.
    message = "\n".join(_few(errors, MOST_LINES, LINE_LENGTH))
    response = _Response(
        uid=review.uid,
        allowed=False,
        status=_Status(code=code, reason=reason, message=message),
        warnings=_few(warnings, MOST_WARNINGS, WARNING_LENGTH),
    )
    return _ENCODER.encode(_Answer(response))


def _given(raw: Raw) -> bytes:
    found = bytes(raw)
    return b"" if found == b"null" else found


def _few(texts: Sequence[str], most: int, length: int) -> tuple[str, ...]:
    """So many at most, each in one line and no longer than that."""
    kept = [_line(text, length) for text in texts[:most]]
    if len(texts) > most:
        kept[-1] = f"and {len(texts) - most + 1} more"
    return tuple(kept)


def _line(text: str, length: int) -> str:
    """The API server drops a warning with a control character in it."""
    line = "".join(c if c.isprintable() else " " for c in text)
    return line if len(line) <= length else f"{line[: length - 1]}…"
