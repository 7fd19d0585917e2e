"""HTTP messages: where the requests and the answers of one connection begin and end.

A reader follows the bytes of one direction, and keeps next to none of them. Both belong to a
`Connection`, live as long, and share the methods of its requests without an answer. llhttp parses,
without any of its leniencies.
"""

from __future__ import annotations

from collections import deque

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, HttpResponseParser

# Lines of headers, and the bytes of each and of the request line. kube-scheduler sends six lines.
MOST_HEADERS = 64
MOST_OF_LINE = 8190
_END_OF_HEAD = b"\r\n\r\n"
# With one of these, two parsers can disagree about where a request ends, or about what follows it.
_UNCERTAIN = frozenset({b"transfer-encoding", b"upgrade", b"expect"})


class MalformedError(Exception):
    """The bytes are not HTTP; the text is short, and has nothing of them."""


class RequestReader:
    """The requests of a connection: each whole head adds its method to `unanswered`.

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
        # Whether the next byte begins a request; else, whether it belongs to a head.
        self.is_between = True
        self.is_in_head = False
        # Whether any parser finds the same requests in all bytes so far.
        self.is_certain = True

    def read(self, data: bytes) -> None:
        """Follows the next bytes. After a MalformedError it cannot follow any."""
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            # Placet speaks nothing else: the next request follows.
            self.read(data[upgrade.args[0] :])
        except HttpParserError as error:
            raise MalformedError(str(error)) from None
        if self.is_in_head:
            at = data.rfind(b"\n")
            self._pending = self._pending + len(data) if at < 0 else len(data) - at - 1
            self._bound_line(self._pending)
        if self._fault:
            raise MalformedError(self._fault)

    def body(self, data: bytes) -> bytes | None:
        """The body, if these bytes are one whole request that announces the size of its body.

        They were read in one piece, since `is_between`.
        """
        size = self.headers.get(b"content-length", b"")
        start = data.find(_END_OF_HEAD) + len(_END_OF_HEAD)
        is_whole = self.is_between and size.isdigit() and start + int(size) == len(data)
        return data[start:] if is_whole else None

    def _bound_line(self, size: int) -> None:
        if size > MOST_OF_LINE:
            self._fault = f"a line has more than {MOST_OF_LINE} bytes"

    # ---- called by the parser, which accepts exceptions of its own only

    def on_message_begin(self) -> None:
        self.is_between, self.is_in_head = False, True
        self._lines = 0
        self.target = b""
        self.headers = {}

    def on_url(self, part: bytes) -> None:
        self.target += part
        self._bound_line(len(self.target))

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value
        self._lines += 1
        self._bound_line(len(name) + len(value))
        if self._lines > MOST_HEADERS:
            self._fault = f"more than {MOST_HEADERS} headers"

    def on_headers_complete(self) -> None:
        self.is_in_head = False
        self._pending = 0
        self.method = self._parser.get_method()
        version, headers = self._parser.get_http_version(), self.headers
        if version == "1.1" and b"host" not in headers:
            self._fault = self._fault or "Missing 'Host' header in request."
        if not self._fault:
            self._unanswered.append(self.method)
        if (
            version != "1.1"
            or len(headers) != self._lines
            or not _UNCERTAIN.isdisjoint(headers)
            or headers.get(b"connection", b"keep-alive").lower() != b"keep-alive"
        ):
            self.is_certain = False

    def on_message_complete(self) -> None:
        self.is_between = True


class AnswerReader:
    """The answers on a connection: each takes the first method from `unanswered`."""

    def __init__(self, unanswered: deque[bytes]) -> None:
        self._parser = HttpResponseParser(self)
        self._unanswered = unanswered
        self._has_ended = False
        self._has_no_body = False
        self._size = 0
        # The bytes of a body that an answer has just announced; whoever counts them sets it to 0.
        self.announced = 0
        # Whether the client may send another request after this answer.
        self.keeps_alive = True
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
        self._size = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-length":
            self._size = int(value)

    def on_headers_complete(self) -> None:
        self.keeps_alive = self._parser.should_keep_alive()
        if self._unanswered and self._unanswered[0] == b"HEAD":
            self._has_no_body = True
        else:
            self.announced = self._size

    def on_message_complete(self) -> None:
        # One below 200, as "100 Continue", comes before the answer.
        if self._parser.get_status_code() >= 200:
            self._end()
