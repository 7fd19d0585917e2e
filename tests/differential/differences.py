"""Differences: where a value is another one in Kubernetes, and the rules that know such cases.

docs/kubernetes-cel.md has a table of them, with a case each; the names here are those of its rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.differential.here import NO_VALUE, Here
from tests.differential.kubernetes_cel import There

PAGE = Path(__file__).parents[2] / "docs" / "kubernetes-cel.md"
_ROW = re.compile(r"^\| ([^|`]+) \| `((?:[^`|]|\\\|)+)` \| (.+?) \| (.+?) \|$", re.MULTILINE)
_SHORT_FORM = re.compile(r"^`(.+)`$")


@dataclass(frozen=True, slots=True)
class Row:
    """A difference: an expression, and its value in both languages; `error` if there is none."""

    name: str
    text: str
    there: str
    here: str


def rows(page: str) -> Iterator[Row]:
    section = page.partition("## Differences")[2].partition("\n## ")[0]
    for name, text, there, here in _ROW.findall(section):
        yield Row(name, text.replace("\\|", "|"), _plain(there), _plain(here))


def _plain(cell: str) -> str:
    match = _SHORT_FORM.match(cell)
    return match[1] if match is not None else cell


@dataclass(frozen=True, slots=True)
class Case:
    """An expression with what became of it."""

    text: str
    there: There
    here: object


def _why(part: str) -> Callable[[Case], bool]:
    """It has no value there, for a reason with this part, and one here."""
    return lambda case: part in f"{case.there.error}{case.there.refused}"


def _calls(*names: str) -> Callable[[Case], bool]:
    return lambda case: any(f"{name}(" in case.text for name in names)


def _lost(case: Case) -> bool:
    if "unsupported conversion to ref.Val" in f"{case.there.error}{case.there.value}":
        return True
    types = str(case.there.value).replace("'string'", "'type'")
    return "'type'" in str(case.here) and types == str(There(_listed(case.here)).value)


def _listed(form: object) -> object:
    """A plain form with lists in place of tuples, as JSON has them."""
    if isinstance(form, tuple | list):
        return [_listed(each) for each in form]
    return form


def _position(case: Case) -> bool:
    return case.here == NO_VALUE and case.there.has_value and _calls("ndexOf")(case)


def _year(case: Case) -> bool:
    return case.here == NO_VALUE and bool(re.search(r'"(?:0001|9999)-', case.text))


def _types(case: Case) -> bool:
    return re.search(r"expected type '(?:\w+\()*type\(", case.there.refused) is not None


_REFUSED = re.compile(r"expected type '.*(?:dyn|int|optional)|no matching overload")


def _unknown(case: Case) -> bool:
    """`[].sum()` is an int there; here its type is not known, and agrees with every one."""
    if not any(part in case.text for part in ("[]", "dyn(", "anything")):
        return False
    return bool(_REFUSED.search(case.there.refused)) or _calls(".sum")(case)


def _mixed(case: Case) -> bool:
    unknown = "anything" in case.text or "dyn(" in case.text
    lacking = case.here == NO_VALUE or not case.there.has_value
    return unknown and lacking and _calls("min", "max", "isSorted", "sortBy", "sort")(case)


def _amounts(case: Case) -> bool:
    """Behind `flatten`, whose items have no known type, it shows only when it runs."""
    refused = re.search(r"must be comparable|no such overload: \w+\(list\)", case.there.error)
    return refused is not None and case.here != NO_VALUE


def _least(case: Case) -> bool:
    return "-9223372036854775808" in case.text and _calls("add", "sub")(case)


# A conversion of a constant text.
_CONVERSION = re.compile(r"""\b(?:int|double|bool)\((?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')\)""")


def _constant(case: Case) -> bool:
    """Kubernetes evaluates constants as it compiles, where they are never read, too."""
    if re.search(r"invalid \w+ argument", case.there.refused):
        return True
    # A conversion that has no value here either, so that this hides no lenient one.
    converted = _CONVERSION.findall(case.text) if "type conversion" in case.there.error else []
    return any(Here({}).evaluate(call) == NO_VALUE for call in converted)


def _notation(case: Case) -> bool:
    return re.search(r'double\("[^"]*[_x]', case.text) is not None


def _seconds(case: Case) -> bool:
    """Kubernetes writes durations as doubles: a long one has fewer digits."""
    return re.search(r"\d{7,}\.\d+s", str(case.here)) is not None


def _offset(case: Case) -> bool:
    return re.search(r'T[\d:]+[+-]\d\d:\d\d"', case.text) is not None and _calls("string")(case)


RULES: Mapping[str, Callable[[Case], bool]] = {
    "formats of numbers": _calls("format"),
    "milliseconds": _calls("getMilliseconds"),
    "whole amounts": _calls("isInteger", "asInteger"),
    "approximate amounts": _calls("asApproximateFloat"),
    "an optional address": _lost,
    "types in a list": _types,
    "items that are not known": _unknown,
    "a position beyond the text": _position,
    "no number": _why("NaN values cannot be ordered"),
    "a leading v": lambda case: re.search(r'emver\("v', case.text) is not None,
    "empty matches": lambda case: re.search(r'findAll\("\w\*"', case.text) is not None,
    "in of an empty list": lambda case: " in [])" in case.text,
    "order of amounts": _amounts,
    "order of different types": _mixed,
    "optMap and types": _why("reference to undefined type"),
    "the least int": _least,
    "Go's numbers": _notation,
    "a long duration as text": _seconds,
    "cost": _why("cost limit exceeded"),
    "a constant that is never read": _constant,
    "a time with an offset": _offset,
    "before the year 1": _year,
}
