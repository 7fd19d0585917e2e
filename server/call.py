"""One call of a verb while it is answered: what logs and metrics say of it afterwards."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from server.errors import Outcome, RequestError
from server.wire import pod_key


@dataclass(frozen=True, slots=True)
class Admitted:
    """An object that was reviewed: what was to be done with it, and whether it may be."""

    operation: str
    object: str
    allowed: bool


@dataclass(slots=True)
class CallRecord:
    """Filled in step by step, so that a call that fails half-way still tells what was known."""

    verb: str
    # Seconds of the monotonic clock, when the headers had been read.
    arrived: float
    agent: str = ""
    received: int = 0
    pod: bytes = b""
    # `namespace/name` of a pod, and the node to bind it to.
    binds: tuple[str, str] | None = None
    admitted: Admitted | None = None
    full_nodes: bool = False
    offered: int = 0
    returned: int = 0
    outcome: Outcome = Outcome.ANSWERED
    error: str = ""
    # Seconds of the monotonic clock, when the decision must be made.
    deadline: float = math.inf


@dataclass(frozen=True, slots=True)
class LogEntry:
    """The one argument of a log record: `answered verb="filter"` as text; formatters see fields."""

    message: str
    fields: Mapping[str, str | int | float]

    def __str__(self) -> str:
        # Quoted as in JSON: names come from requests, and must not start a line of their own.
        pairs = (f"{key}={json.dumps(value)}" for key, value in self.fields.items())
        return " ".join((self.message, *pairs))


def entry_of(call: CallRecord, code: int, seconds: float, left_out: int = 0) -> LogEntry:
    """The line a call leaves in the log; its keys are those of kube-scheduler where it has them.

    `left_out` is how many answered calls before it have left none.
    """
    fields: dict[str, str | int | float] = {"verb": call.verb}
    if call.pod:
        fields["pod"] = pod_key(call.pod)
        fields["mode"] = "nodes" if call.full_nodes else "names"
        fields["offered"] = call.offered
        fields["returned"] = call.returned
    if call.binds is not None:
        fields["pod"], fields["node"] = call.binds
    if call.admitted is not None:
        fields["operation"], fields["object"] = call.admitted.operation, call.admitted.object
        fields["allowed"] = call.admitted.allowed
    fields["code"] = code
    fields["outcome"] = call.outcome.value
    fields["seconds"] = round(seconds, 6)
    if call.error:
        fields["err"] = call.error
    if left_out:
        fields["leftOut"] = left_out
    return LogEntry("answered", fields)


# ---- The body of a request: all of it, in time, and not more than the limit.


async def read_body(request: web.BaseRequest, limit: int, seconds: float) -> bytes:
    """The body, at most `limit` bytes, if it has come within `seconds`.

    aiohttp's own `read` waits for ever, and knows no answer to a large body but 413, whose text
    kube-scheduler throws away (C3).

    Raises RequestError.
    """
    if (request.content_length or 0) > limit:
        raise _large(limit)
    if request.content.is_eof() and request.content.exception() is None:
        # Mostly it has come with the headers.
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
        text = "the body of the request is broken off"
        raise RequestError(text, Outcome.BROKEN_BODY) from None
    except ConnectionError:
        # The answer will go nowhere; it is made all the same, to be counted.
        raise RequestError("the client has left", Outcome.DISCONNECTED) from None
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def is_encoded(request: web.BaseRequest) -> bool:
    """Whether the body would have to be unpacked first, to a size that nobody announces."""
    return request.headers.get("Content-Encoding", "identity").strip().lower() != "identity"


def _large(limit: int) -> RequestError:
    text = f"the body of the request is larger than {limit} bytes"
    return RequestError(text, Outcome.LARGE_BODY)
