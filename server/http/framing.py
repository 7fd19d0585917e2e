"""Framing: where the requests and the answers of one connection begin and end.

A connection reads all bytes with these, also those that it passes on to aiohttp. They belong to it
and live as long as it does.
"""

from __future__ import annotations

from collections import deque
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, HttpResponseParser

# Lines of headers, and the bytes of each and of the request line. kube-scheduler sends six lines.
MOST_HEADERS = 64
MOST_OF_LINE = 8190
_LONG_LINE = f"a line has more than {MOST_OF_LINE} bytes"
END_OF_HEAD = b"\r\n\r\n"
# With one of these, two parsers can disagree about where a request ends, or about what follows it.
_UNCERTAIN = frozenset({b"transfer-encoding", b"upgrade", b"expect"})
# Requests that arrive before the answer to the one before.
MOST_WAITING = 2


class MalformedError(Exception):
    """Malformed HTTP; the text is short, and has no bytes of the client."""


class RequestReader:
    """The requests of a connection: each whole head adds its method to `unanswered`.

    It stops after too many of these.

    `method`, `target` and `headers` (with names in small letters) are those of the last request.
    """

    def __init__(self, unanswered: deque[bytes]) -> None:
        self._parser = HttpRequestParser(self)
        self._unanswered = unanswered
        self._lines = 0
        # Bytes of a line that has not ended: the parser keeps them.
        self._pending = 0
        self._fault = ""
        self.method = self.target = b""
        self.headers: dict[bytes, bytes] = {}
        # The bytes of its body that its headers announce; -1 if they do not.
        self.announced = -1
        # Where the next byte belongs; if neither holds, it begins a request.
        self.is_in_head = self.is_in_body = False
        # Whether any parser finds the same requests in all bytes so far.
        self.is_certain = True

    def read(self, data: bytes) -> None:
        """Follows the next bytes. After a MalformedError it cannot follow any."""
        rest = memoryview(data)
        while rest:
            try:
                self._parser.feed_data(rest)
            except HttpParserUpgrade as upgrade:
                # Placet speaks nothing else: the next request follows.
                self.is_certain = False
                rest = rest[upgrade.args[0] :]
            except HttpParserError as error:
                raise MalformedError(self._fault or str(error)) from None
            else:
                break
        if self.is_in_head:
            at = data.rfind(b"\n")
            self._pending = self._pending + len(data) if at < 0 else len(data) - at - 1
            if self._pending > MOST_OF_LINE:
                raise MalformedError(_LONG_LINE)

    def _stop(self, why: str) -> None:
        """Ends the parser, for which any exception does: a read can have thousands of lines."""
        self._fault = why
        raise MalformedError(why)

    # ---- called by the parser

    def on_message_begin(self) -> None:
        self.is_in_head = True
        self._lines = 0
        self.target = b""
        self.headers = {}
        self.announced = -1

    def on_url(self, part: bytes) -> None:
        self.target += part
        if len(self.target) > MOST_OF_LINE:
            self._stop(_LONG_LINE)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value
        self._lines += 1
        if len(name) + len(value) > MOST_OF_LINE:
            self._stop(_LONG_LINE)
        if self._lines > MOST_HEADERS:
            self._stop(f"more than {MOST_HEADERS} headers")

    def on_headers_complete(self) -> None:
        headers, version = self.headers, self._parser.get_http_version()
        if version == "1.1" and b"host" not in headers:
            self._stop("Missing 'Host' header in request.")
        if not self.target.startswith(b"/") and not _is_url(self.target):
            self._stop("the URL cannot be read")
        self.is_in_head, self.is_in_body = False, True
        self._pending = 0
        size = headers.get(b"content-length", b"")
        self.announced = int(size) if size.isdigit() else -1
        self.method = self._parser.get_method()
        self._unanswered.append(self.method)
        if len(self._unanswered) > 1 + MOST_WAITING:
            self._stop("too many requests at once")
        if (
            version != "1.1"
            or len(headers) != self._lines
            or not _UNCERTAIN.isdisjoint(headers)
            or headers.get(b"connection", b"keep-alive").lower() != b"keep-alive"
        ):
            self.is_certain = False

    def on_message_complete(self) -> None:
        self.is_in_body = False


def _is_url(target: bytes) -> bool:
    """Whether `http://host:port/path`, `host:port` or `*` can be read.

    In aiohttp 3.13.0, others end the task of the connection.
    """
    text = target.decode("latin-1")
    try:
        _ = urlsplit(text if "//" in text else f"//{text}").port
    except ValueError:
        return False
    return True


class AnswerReader:
    """The answers on a connection: each takes the first method from `unanswered`."""

    def __init__(self, unanswered: deque[bytes]) -> None:
        self._parser = HttpResponseParser(self)
        self._unanswered = unanswered
        self._has_ended = False
        self._has_no_body = False
        # Whether the client may send another request after this answer.
        self.keeps_alive = True
        # An answer has begun that no request waits for.
        self.is_unasked = False
        # An answer that cannot be parsed was written: what follows is not known.
        self.is_lost = False

    def read(self, data: bytes | bytearray | memoryview) -> bool:
        """Follows the next bytes; whether an answer ends with them."""
        if self.is_lost:
            return False
        self._has_ended = False
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self.is_lost = True
            self._unanswered.clear()
            return False
        if self._has_no_body:
            # The parser waits for the body that a HEAD request does not get.
            self._has_no_body = False
            self._parser = HttpResponseParser(self)
            self._end()
        return self._has_ended

    def _end(self) -> None:
        self._has_ended = True
        if self._unanswered:
            self._unanswered.popleft()

    # ---- called by the parser

    def on_message_begin(self) -> None:
        self.is_unasked = not self._unanswered

    def on_headers_complete(self) -> None:
        self.keeps_alive = self._parser.should_keep_alive()
        self._has_no_body = bool(self._unanswered) and self._unanswered[0] == b"HEAD"

    def on_message_complete(self) -> None:
        # One below 200, as "100 Continue", comes before the answer.
        if self._parser.get_status_code() >= 200:
            self._end()
