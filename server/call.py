"""CallRecord: what is known of one call, for logs and metrics; and the reading of its body.

A record lives from the arrival of a call until its answer is sent.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from logging import Logger

from aiohttp import web

from server.errors import CallFailure, Outcome, RequestError, failure_of
from server.wire import pod_key


@dataclass(frozen=True, slots=True)
class ReviewedObject:
    """The object of an admission review: the operation on it, and whether it is allowed."""

    operation: str
    object: str
    allowed: bool


@dataclass(slots=True)
class CallRecord:
    """The facts of a call, filled in step by step: a call that fails halfway has the first ones."""

    verb: str
    # Seconds of the monotonic clock, when the headers had been read.
    arrived: float
    agent: str = ""
    received: int = 0
    pod: bytes = b""
    # `namespace/name` of a pod, and the node to bind it to.
    binds: tuple[str, str] | None = None
    reviewed: ReviewedObject | None = None
    full_nodes: bool = False
    offered: int = 0
    returned: int = 0
    outcome: Outcome = Outcome.ANSWERED
    error: str = ""
    # Seconds of the monotonic clock, when the decision must be made.
    deadline: float = math.inf

    def fail(self, error: Exception, log: Logger) -> CallFailure:
        """Records that the call failed, and logs an unexpected error."""
        failure = failure_of(error)
        self.outcome, self.error = failure.outcome, failure.text
        if failure.outcome is Outcome.INTERNAL:
            log.error("unexpected error in %s", self.verb, exc_info=error)
        return failure


@dataclass(frozen=True, slots=True)
class LogEntry:
    """The only argument of a log record: formatters see its fields; as text `answered verb="…"`."""

    message: str
    fields: Mapping[str, str | int | float]

    def __str__(self) -> str:
        # INVARIANT: quoted as JSON. Names come from requests and must not start a new log line.
        pairs = (f"{key}={json.dumps(value)}" for key, value in self.fields.items())
        return " ".join((self.message, *pairs))


def log_entry(call: CallRecord, code: int, seconds: float, left_out: int = 0) -> LogEntry:
    """The log entry of an answered call, with kube-scheduler's own keys where it has them.

    `left_out` is the number of answered calls since the last entry that were not logged.
    """
    fields: dict[str, str | int | float] = {"verb": call.verb}
    if call.pod:
        fields["pod"] = pod_key(call.pod)
        fields["mode"] = "nodes" if call.full_nodes else "names"
        fields["offered"] = call.offered
        fields["returned"] = call.returned
    if call.binds is not None:
        fields["pod"], fields["node"] = call.binds
    if call.reviewed is not None:
        fields["operation"], fields["object"] = call.reviewed.operation, call.reviewed.object
        fields["allowed"] = call.reviewed.allowed
    fields["code"] = code
    fields["outcome"] = call.outcome.value
    fields["seconds"] = round(seconds, 6)
    if call.error:
        fields["err"] = call.error
    if left_out:
        fields["leftOut"] = left_out
    return LogEntry("answered", fields)


async def read_body(request: web.BaseRequest, limit: int, seconds: float) -> bytes:
    """The whole body: at most `limit` bytes, received within `seconds`.

    aiohttp's own `read` has no timeout, and answers a large body with 413, whose text
    kube-scheduler drops (C3).

    Raises RequestError.
    """
    if (request.content_length or 0) > limit:
        raise _large(limit)
    if request.content.is_eof() and request.content.exception() is None:
        # The usual case: the body arrived with the headers.
        body = request.content.read_nowait()
        if len(body) > limit:
            raise _large(limit)
        return body
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            while chunk := await request.content.readany():
                size += len(chunk)
                if size > limit:
                    raise _large(limit)
                chunks.append(chunk)
    except TimeoutError:
        text = "the body of the request did not arrive in time"
        raise RequestError(text, Outcome.SLOW_BODY) from None
    except web.RequestPayloadError:
        text = "the body of the request is incomplete or malformed"
        raise RequestError(text, Outcome.BROKEN_BODY) from None
    except ConnectionError:
        # Nobody receives the answer; it is made all the same, to be counted.
        raise RequestError("the client closed the connection", Outcome.DISCONNECTED) from None
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def refuse_encoded(request: web.BaseRequest, call: CallRecord) -> web.Response | None:
    """415 for a compressed body, whose unpacked size is unknown; None for any other body."""
    if request.headers.get("Content-Encoding", "identity").strip().lower() == "identity":
        return None
    call.outcome = Outcome.ENCODED_BODY
    return web.Response(status=415, text="the body must not be compressed\n")


def _large(limit: int) -> RequestError:
    text = f"the body of the request is larger than {limit} bytes"
    return RequestError(text, Outcome.LARGE_BODY)
