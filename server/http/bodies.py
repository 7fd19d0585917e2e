"""Bodies: the reading of request bodies, and the memory that they and unsent answers may take.

Both belong to one server and live as long as it does.
"""

from __future__ import annotations

import asyncio
import os

import numpy as np
from aiohttp import HttpVersion11, web

from server.call import CallRecord
from server.errors import Outcome, RequestError
from server.settings import MEBIBYTE, Settings

# Large bodies leave this share of the budget to small ones: whole nodes must not keep out names.
_SMALL_SHARE = 0.25
# A value in JSON takes some 60 bytes of memory, but only two bytes of a body. A node has one comma
# in more than 40 bytes.
_BYTES_PER_COMMA = 32
# The parts of a large body in which commas are counted, and the bytes of each.
_PARTS, _PART = 256, 256
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class ByteBudget:
    """The bytes of bodies that are read or held, and of answers that are not sent yet.

    Whoever takes bytes gives them back. On one event loop.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._most_large = int(most * (1 - _SMALL_SHARE))
        # Who waits for so many bytes of a body of so many in total, in order.
        self._waiting: dict[asyncio.Future[None], tuple[int, int]] = {}
        self.held = 0

    def fits(self, size: int, total: int) -> bool:
        """Whether so many bytes more can be taken for a body of `total` bytes."""
        most = self._most if total <= MEBIBYTE else self._most_large
        # Where nothing is held, even a body that is as large as the budget gets through.
        return self.held + size <= most or not self.held

    def take(self, size: int) -> None:
        self.held += size

    def give(self, size: int) -> None:
        self.held -= size
        # All of them, because small bodies pass large ones.
        for waiting, (wanted, total) in list(self._waiting.items()):
            if not waiting.done() and self.fits(wanted, total):
                self.take(wanted)
                waiting.set_result(None)

    async def taken(self, size: int, total: int) -> None:
        """Takes so many bytes as soon as they fit."""
        if self.fits(size, total):
            self.take(size)
            return
        waiting = asyncio.get_running_loop().create_future()
        self._waiting[waiting] = size, total
        try:
            await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled():
                self.give(size)
            raise
        finally:
            del self._waiting[waiting]


class BodyReader:
    """Reads the bodies of the requests of a server.

    aiohttp's own `read` has no timeout, and answers a large body with 413, whose text
    kube-scheduler drops (C3).
    """

    def __init__(self, budget: ByteBudget, settings: Settings) -> None:
        self._budget = budget
        self._seconds = settings.body_seconds

    async def read(self, request: web.BaseRequest, call: CallRecord, limit: int) -> bytes:
        """The whole body: at most `limit` bytes, received within `settings.body_seconds`.

        Its bytes are held by the call until `release`. Raises RequestError.
        """
        size = request.content_length or 0
        if size > limit:
            raise _large(limit)
        content = request.content
        if content.is_eof() and content.exception() is None:
            # The usual case: the body arrived with the headers. It has its memory already.
            body = content.read_nowait()
            self._budget.take(len(body))
            call.held += len(body)
        else:
            body = await self._receive(request, call, size, limit)
        if len(body) > limit:
            raise _large(limit)
        call.received = len(body)
        if len(body) > MEBIBYTE and _commas(body) > limit // _BYTES_PER_COMMA:
            raise RequestError("the body of the request has too many values", Outcome.LARGE_BODY)
        return body

    def release(self, call: CallRecord) -> None:
        """Gives back the bytes that a call holds."""
        if call.held:
            self._budget.give(call.held)
            call.held = 0

    async def _receive(
        self, request: web.BaseRequest, call: CallRecord, size: int, limit: int
    ) -> bytes:
        """A body of this size, or of any size if it is chunked.

        A large body takes all its bytes from the budget once a part has arrived: an announcement is
        not enough.
        """
        received = 0
        chunks: list[bytes] = []
        is_waiting = False
        try:
            async with asyncio.timeout(self._seconds):
                await _expected(request)
                while chunk := await request.content.readany():
                    received += len(chunk)
                    if received > limit:
                        raise _large(limit)
                    wanted = max(size, received) if received >= MEBIBYTE else received
                    if (more := wanted - call.held) > 0:
                        is_waiting = True
                        await self._budget.taken(more, max(size, received))
                        call.held += more
                        is_waiting = False
                    chunks.append(chunk)
        except TimeoutError:
            if is_waiting:
                text = "too many bytes of requests at once, see --body-budget"
                raise RequestError(text, Outcome.OVERLOADED) from None
            text = "the body of the request did not arrive in time"
            raise RequestError(text, Outcome.SLOW_BODY) from None
        except web.RequestPayloadError:
            text = "the body of the request is incomplete or malformed"
            raise RequestError(text, Outcome.BROKEN_BODY) from None
        except ConnectionError:
            # Nobody receives the answer; it is made all the same, to be counted.
            raise RequestError("the client closed the connection", Outcome.DISCONNECTED) from None
        # The body is in memory twice for a moment. No other body is then: nothing here waits.
        return b"".join(chunks)


async def _expected(request: web.BaseRequest) -> None:
    """Asks for the body of a client that waits to be asked."""
    if request.version < HttpVersion11 or request.content.is_eof():
        return
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(_CONTINUE)
        # What was sent is no part of the answer.
        request.writer.output_size = 0


def refuse_encoded(request: web.BaseRequest, call: CallRecord) -> web.Response | None:
    """415 for a compressed body, whose unpacked size is unknown; None for any other body."""
    encoding = request.headers.get("Content-Encoding")
    if encoding is None or encoding.strip().lower() == "identity":
        return None
    call.outcome = Outcome.ENCODED_BODY
    return web.Response(status=415, text="the body must not be compressed\n")


def _commas(body: bytes) -> int:
    """About the number of commas, from random parts. Counting all takes a tenth of a call."""
    starts = np.frombuffer(os.urandom(8 * _PARTS), np.uint64) % (len(body) - _PART)
    found = sum([body.count(b",", start, start + _PART) for start in starts.tolist()])
    return found * len(body) // (_PARTS * _PART)


def _large(limit: int) -> RequestError:
    text = f"the body of the request is larger than {limit} bytes"
    return RequestError(text, Outcome.LARGE_BODY)
