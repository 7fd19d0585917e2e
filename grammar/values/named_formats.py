"""Named formats of Kubernetes' CEL library: `format.dns1123Label().validate(text)`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sized
from dataclasses import dataclass
from datetime import date

from grammar.tree.types import FORMAT, STRING, Overload, function, list_of, member, optional_of
from grammar.values import url
from grammar.values.errors import EvaluationError
from grammar.values.optional import NONE, Optional
from grammar.values.sizes import read


@dataclass(frozen=True, slots=True)
class Format:
    """A named format; two are equal if their names are."""

    name: str

    def __str__(self) -> str:
        return self.name


_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAME = r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?:.\d+)?(?:z|[+-]\d\d:\d\d)\Z", re.ASCII)
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)\Z", re.ASCII)

Check = Callable[[str], bool]


def _written(expression: str, most: int) -> Check:
    """The check of a pattern, for a text of at most so many bytes: a longer one is not read."""
    pattern = re.compile(rf"(?:{expression})\Z", re.ASCII)
    return lambda text: len(text) <= most and pattern.match(text) is not None


def _prefix(check: Check) -> Check:
    """The check of the start of a name, which may end with a dash."""
    return lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text[-1] == "-" else text)


is_subdomain = _written(rf"{_LABEL}(?:\.{_LABEL})*", 253)
is_label = _written(_LABEL, 63)
_label_1035 = _written(r"[a-z](?:[-a-z0-9]*[a-z0-9])?", 63)
_name = _written(_NAME, 63)


def is_qualified(text: str) -> bool:
    """Whether a label or an annotation can have this key."""
    prefix, slash, name = text.rpartition("/")
    return _name(name) and (is_subdomain(prefix) if slash else True)


def is_label_value(text: str) -> bool:
    return not text or _name(text)


def _is_uri(text: str) -> bool:
    try:
        url.check(text)
    except EvaluationError:
        return False
    return True


def _is_date(text: str) -> bool:
    if (found := _DATE.match(text)) is None:
        return False
    year, month, day = map(int, found.groups())
    try:
        # The year 0, which Python does not have, has the days of 2000.
        date(year or 2000, month, day)
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    """As strfmt of Kubernetes: what follows a second `T` is not read."""
    day, _, rest = text.lower().partition("t")
    found = _TIME.match(rest.partition("t")[0])
    if found is None or not _is_date(day):
        return False
    hours, minutes, seconds = found.groups()
    return hours <= "23" and minutes <= "59" and seconds <= "59"


_BYTE = re.compile(
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})\Z"
)
_UUID = r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}"
_LETTERS = "lower-case letters, digits and `-`, with a letter or digit at both ends"
_NAMES = "letters, digits, `-`, `_` and `.`, with a letter or digit at both ends"

# The formats by name: the check, and what a text that fails must be.
_FORMATS: dict[str, tuple[Check, str]] = {
    "dns1123Label": (is_label, f"must be at most 63 {_LETTERS}"),
    "dns1123Subdomain": (
        is_subdomain,
        f"must be at most 253 characters, parts with dots between them, each of {_LETTERS}",
    ),
    "dns1035Label": (_label_1035, f"must be at most 63 {_LETTERS}, and begin with a letter"),
    "qualifiedName": (
        is_qualified,
        f"must be at most 63 {_NAMES}, after an optional DNS subdomain and `/`",
    ),
    "dns1123LabelPrefix": (_prefix(is_label), f"must be the start of at most 63 {_LETTERS}"),
    "dns1123SubdomainPrefix": (
        _prefix(is_subdomain),
        f"must be the start of parts with dots between them, each of {_LETTERS}",
    ),
    "dns1035LabelPrefix": (
        _prefix(_label_1035),
        f"must be the start of at most 63 {_LETTERS}, and begin with a letter",
    ),
    "labelValue": (is_label_value, f"must be empty, or at most 63 {_NAMES}"),
    "uri": (_is_uri, "must be a URL or an absolute path"),
    "uuid": (_written(_UUID, 36), "must be a UUID"),
    "byte": (lambda text: _BYTE.match(text) is not None, "must be base64"),
    "date": (_is_date, "must be a date such as `2026-01-31`"),
    "datetime": (_is_datetime, "must be a time such as `2026-01-31T12:00:00Z`"),
}
_KNOWN = {name: Format(name) for name in _FORMATS}


def named(name: str) -> Optional:
    return Optional(_KNOWN[name]) if name in _KNOWN else NONE


def validate(format_: Format, text: str) -> Optional:
    """Nothing for a text of this format, otherwise a list of what is wrong with it."""
    check, reason = _FORMATS[format_.name]
    return NONE if check(text) else Optional((reason,))


def _checked(_: object, text: Sized) -> int:
    return 20 + 4 * read(text)


OVERLOADS: tuple[Overload, ...] = (
    *(function(f"format.{name}", (), FORMAT, lambda f=known: f) for name, known in _KNOWN.items()),
    function("format.named", (STRING,), optional_of(FORMAT), named, lambda name: len(name) // 64),
    member("validate", (FORMAT, STRING), optional_of(list_of(STRING)), validate, _checked),
)
