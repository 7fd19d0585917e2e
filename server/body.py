"""The body of a request: all of it, in time, and not more than the limit."""

from __future__ import annotations

import asyncio

from aiohttp import web

from server.errors import Outcome, RequestError


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
