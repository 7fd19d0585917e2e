"""Values that several arguments are written in: addresses, lengths of time, amounts of memory."""

from __future__ import annotations

from argparse import ArgumentTypeError

from grammar.errors import EvaluationError
from grammar.values.duration import SECOND, Duration
from grammar.values.quantity import NANO, Quantity
from server.settings import SettingsError, parse_address


def address(text: str) -> tuple[str, int]:
    """A host, where an empty one is all of them, and a port, where 0 is any."""
    try:
        return parse_address(text)
    except SettingsError as error:
        raise ArgumentTypeError(f"{error}, as in 127.0.0.1:12345") from None


def seconds(text: str) -> float:
    """A length of time that is more than none, as in `5s`."""
    found = _seconds(text)
    if found <= 0:
        raise ArgumentTypeError(f"`{text}` is no time at all")
    return found


def pause(text: str) -> float:
    """A length of time, which may be none, as in `0s`."""
    found = _seconds(text)
    if found < 0:
        raise ArgumentTypeError(f"`{text}` is over before it begins")
    return found


def _seconds(text: str) -> float:
    try:
        return Duration.parse(text).nanos / SECOND
    except EvaluationError as error:
        raise ArgumentTypeError(f"`{text}` is no duration: {error}") from None


def size(text: str) -> int:
    """A number of bytes that is more than none, as in `64Mi`."""
    try:
        found = Quantity.parse(text).nanos // NANO
    except EvaluationError as error:
        raise ArgumentTypeError(f"`{text}` is no size: {error}") from None
    if found <= 0:
        raise ArgumentTypeError(f"`{text}` has no room for anything")
    return found


def lease(text: str) -> tuple[str, str] | None:
    """A namespace and a name, or None for `none`."""
    if text == "none":
        return None
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise ArgumentTypeError(f"`{text}` is no Lease, as in kube-system/placet")
    return namespace, name


def positive(text: str) -> int:
    """A whole number that is at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"`{text}` is no whole number from 1")
    return int(text)
