"""URL: absolute URLs and paths of Kubernetes' CEL library, as Go's net/url reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address

from grammar.tree.types import BOOL, STRING, URL, Overload, function, list_of, map_of, member
from grammar.values.errors import EvaluationError, has_value
from grammar.values.sizes import items_of, quoted, text_of

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
# An escape in a host stands for a byte beyond ASCII; `%25` introduces a zone.
_BAD_HOST = re.compile(
    r"%(?!25|[89A-Fa-f][0-9A-Fa-f])|[\x00-\x7f](?<![A-Za-z0-9\-_.~!$&'()*+,;=:\[\]<>\"%])"
)
_PORT = re.compile(r"(?::[0-9]*)?\Z")
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*\Z")
# What a path may have as it is, and what stays if the whole path is written so.
_PLAIN_PATH = "-_.~$&+,/:;=@"
_PATH = re.compile(r"[A-Za-z0-9\-_.~$&+,/:;=@!'()*\[\]%]*\Z")
# As many as Go reads.
_MOST_PARAMETERS = 10_000


@dataclass(frozen=True, slots=True)
class Url:
    """A URL, taken apart. The path is escaped; the query is as it was written."""

    text: str
    scheme: str
    host: str
    path: str
    query: str

    def __len__(self) -> int:
        return len(self.text)

    def __str__(self) -> str:
        return self.text

    @property
    def _divided(self) -> tuple[str, str]:
        head, colon, port = self.host.rpartition(":")
        if not colon or _PORT.match(f":{port}") is None:
            return self.host, ""
        return head, port

    @property
    def hostname(self) -> str:
        """The host without its port, and an IPv6 address without its brackets."""
        name = self._divided[0]
        return name[1:-1] if name[:1] == "[" and name[-1:] == "]" else name

    @property
    def port(self) -> str:
        return self._divided[1]


def parse(text: str) -> Url:
    """The URL of a text. Raises EvaluationError for what is neither a URL nor an absolute path."""
    check(text)
    before, _, fragment = text.partition("#")
    _unescaped(fragment)
    return _parsed(before, fragment)


def check(text: str) -> None:
    """Raises EvaluationError for what `parse` refuses, but for a fragment.

    As in Go, where a URL of a request has none: `#` belongs to the path or the query.
    """
    if not text:
        raise EvaluationError("the text is empty, not a URL")
    if text == "*":
        return
    scheme, rest = _split_scheme(text)
    rest = rest.partition("?")[0]
    if not rest.startswith("/"):
        if not scheme:
            raise EvaluationError(f"{quoted(text)} is not a URL, and no absolute path")
    elif scheme and rest.startswith("//"):
        authority, _, path = rest[2:].partition("/")
        _authority(scheme, authority)
        _unescaped(path)
    else:
        _unescaped(rest)


def _parsed(text: str, fragment: str) -> Url:
    shown = f"#{fragment}" if fragment else ""
    if text in ("", "*"):
        return Url(text + shown, "", "", text, "")
    scheme, rest = _split_scheme(text)
    rest, mark, query = rest.partition("?")
    user = host = ""
    head = f"{scheme}:" if scheme else ""
    tail = f"{mark}{query}{shown}"
    if not rest.startswith("/"):
        if not scheme:
            raise EvaluationError(f"{quoted(text)} is not a URL, and no absolute path")
        return Url(f"{head}{rest}{tail}", scheme, "", "", query)
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        user, host = _authority(scheme, authority)
        rest = slash + path
        if user or host or rest:
            head = f"{head}//{user}{_escaped(host.encode(), _HOST_SAFE)}"
    raw = _unescaped(rest)
    path = rest if _PATH.match(rest) else _escaped(raw, _PLAIN_PATH)
    whole = f"{head}{path}{tail}"
    text_of(len(whole))
    return Url(whole, scheme, host, path, query)


# Characters that stay when a text is escaped.
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_HOST_SAFE = "-_.~!$&'()*+,;=:[]<>\""


def _split_scheme(text: str) -> tuple[str, str]:
    if _CONTROL.search(text):
        raise EvaluationError("a URL has no control characters")
    if text.startswith(":"):
        raise EvaluationError(f"{quoted(text)} has no scheme before the colon")
    if (match := _SCHEME.match(text)) is None:
        return "", text
    return match[1].lower(), text[match.end() :]


def _authority(scheme: str, authority: str) -> tuple[str, str]:
    """The user with its `@`, and the host with its port."""
    user, at, host = authority.rpartition("@")
    if _USER.match(user) is None:
        raise EvaluationError(f"{quoted(user)} is not a user of a URL")
    _unescaped(user)
    return user + at, _host(scheme, host)


def _host(scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise EvaluationError(f"{quoted(host)} is not a host")
    if bracket == 0:
        name, closed, port = host[1:].rpartition("]")
        name = _of_host(name)
        try:
            IPv6Address(name)
        except AddressValueError:
            closed = ""
        if not closed or _PORT.match(port) is None:
            raise EvaluationError(f"{quoted(host)} is not a host")
        return f"[{name}]{port}"
    colon = host.find(":") if scheme in ("http", "https") else host.rfind(":")
    if colon >= 0 and _PORT.match(host[colon:]) is None:
        raise EvaluationError(f"{quoted(host)} is not a host with a port")
    return _of_host(host)


def _of_host(host: str) -> str:
    if _BAD_HOST.search(host):
        raise EvaluationError(f"{quoted(host)} is not a host")
    return _bytes_of(host).decode("utf-8", "replace")


def _unescaped(text: str) -> bytes:
    if _BAD_ESCAPE.search(text):
        raise EvaluationError("a `%` in a URL needs two hexadecimal digits")
    return _bytes_of(text)


def _query(url: Url) -> dict[str, tuple[str, ...]]:
    """The values by key; parameters that cannot be read are left out, as in Go."""
    pairs = url.query.split("&") if url.query else []
    if len(pairs) > _MOST_PARAMETERS:
        raise EvaluationError(f"the URL has more than {_MOST_PARAMETERS:,} parameters")
    found: dict[str, list[str]] = {}
    for pair in pairs:
        if not pair or ";" in pair or _BAD_ESCAPE.search(pair):
            continue
        key, _, value = pair.replace("+", " ").partition("=")
        found.setdefault(_decoded(key), []).append(_decoded(value))
    items_of(len(found))
    return {key: tuple(values) for key, values in found.items()}


def _decoded(text: str) -> str:
    return _bytes_of(text).decode("utf-8", "replace")


def _bytes_of(text: str) -> bytes:
    """The bytes of a text in which each `%` is followed by two hexadecimal digits."""
    head, *rest = text.split("%")
    parts = (bytes.fromhex(part[:2]) + part[2:].encode() for part in rest)
    return head.encode() + b"".join(parts)


def _escaped(raw: bytes, safe: str) -> str:
    kept = frozenset(f"{_LETTERS}{safe}".encode())
    return "".join(chr(byte) if byte in kept else f"%{byte:02X}" for byte in raw)


def _read(text: str) -> int:
    """The steps of taking a text apart: it is gone through a few times."""
    return 40 + len(text) // 2


def _asked(url: Url) -> int:
    return 20 + 2 * len(url)


def _divided(url: Url) -> int:
    return 2 + len(url) // 16


OVERLOADS: tuple[Overload, ...] = (
    function("url", (STRING,), URL, parse, _read),
    function("isURL", (STRING,), BOOL, has_value(check), _read),
    member("getScheme", (URL,), STRING, lambda url: url.scheme),
    member("getHost", (URL,), STRING, lambda url: url.host),
    member("getHostname", (URL,), STRING, lambda url: url.hostname, _divided),
    member("getPort", (URL,), STRING, lambda url: url.port, _divided),
    member("getEscapedPath", (URL,), STRING, lambda url: url.path),
    member("getQuery", (URL,), map_of(STRING, list_of(STRING)), _query, _asked),
)
