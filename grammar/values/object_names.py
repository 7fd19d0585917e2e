"""Names of objects, and keys and values of their labels, as the API server accepts them."""

from __future__ import annotations

import re
from collections.abc import Callable

_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME = r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"


def _written(expression: str, most: int) -> Callable[[str], bool]:
    """The check of a pattern, for a text of at most so many bytes: a longer one is not read."""
    pattern = re.compile(rf"(?:{expression})\Z", re.ASCII)
    return lambda text: len(text) <= most and pattern.match(text) is not None


is_subdomain = _written(rf"{_LABEL}(?:\.{_LABEL})*", 253)
is_label = _written(_LABEL, 63)
_name = _written(_NAME, 63)


def is_qualified(text: str) -> bool:
    """Whether a label or an annotation can have this key."""
    prefix, slash, name = text.rpartition("/")
    return _name(name) and (is_subdomain(prefix) if slash else True)


def is_label_value(text: str) -> bool:
    return not text or _name(text)
