"""Formatting: `"…".format([…])` of cel-go's strings extension, and values in messages."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from grammar.tree.types import DYN, POISON, STRING, Overload, Type, list_of, member
from grammar.values.errors import EvaluationError
from grammar.values.kinds import kind, type_of
from grammar.values.maps import key_values
from grammar.values.numbers import plain_double, show_double
from grammar.values.sizes import NESTING, Size, deep, text_of

_CLAUSE = re.compile(r"%(?:%|(?:\.(\d+))?([A-Za-z])|(.?))", re.DOTALL)
_PRECISION = 6
# More digits than any double has.
_MOST_PRECISION = 1100


# The types that a clause accepts, and how its errors call it. `%s` accepts all but optionals and,
# when it runs, objects.
_ACCEPTED = {
    "d": (("int", "double"), "decimal clause can only be used on numbers"),
    "f": (("int", "double"), "fixed-point clause can only be used on doubles"),
    "e": (("int", "double"), "scientific clause can only be used on doubles"),
    "b": (("int", "bool"), "only integers and bools can be formatted as binary"),
    "o": (("int",), "octal clause can only be used on integers"),
    "x": (("int", "string"), "only integers and strings can be formatted as hex"),
}
_ACCEPTED["X"] = _ACCEPTED["x"]


def refused(text: str, kinds: Sequence[Type]) -> tuple[str, int | None] | None:
    """Why a text does not accept values of these types, and which of them; None if it does.

    The place is None for what is wrong with the text itself.
    """
    place = 0
    for match in _CLAUSE.finditer(text):
        precision, verb, bad = match.groups()
        if match.group() == "%%":
            continue
        if verb is None or (verb != "s" and verb not in _ACCEPTED):
            return f"`%{verb or bad}` is not a formatting clause", None
        if precision is not None and (len(precision) > 4 or int(precision) > _MOST_PRECISION):
            return f"the precision is more than {_MOST_PRECISION:,} digits", None
        if place == len(kinds):
            return f"there is no value for `{match.group()}`", None
        if not _accepts(verb, kinds[place]):
            article = "an" if kinds[place].name[0] in "aeiou" else "a"
            return f"`{match.group()}` does not accept {article} {kinds[place]}", place
        place += 1
    if place < len(kinds):
        return "no clause of the text shows this value", place
    return None


def _accepts(verb: str, kind: Type) -> bool:
    if kind in (DYN, POISON):
        return True
    if verb == "s":
        return kind.name != "optional"
    return kind.name in _ACCEPTED[verb][0]


def format_text(text: str, args: Sequence[object]) -> str:
    """The text with each clause replaced by the next argument.

    Raises EvaluationError for a clause that does not accept its argument.
    """
    rest = iter(args)
    made = text_of(len(text))

    def clause(match: re.Match[str]) -> str:
        if match.group() == "%%":
            return "%"
        precision, verb, bad = match.groups()
        if verb is None:
            raise EvaluationError(f"`%{bad}` is not a formatting clause")
        if precision is not None and (len(precision) > 4 or int(precision) > _MOST_PRECISION):
            raise EvaluationError(f"the precision is more than {_MOST_PRECISION:,} digits")
        try:
            value = next(rest)
        except StopIteration:
            raise EvaluationError(f"index {len(args)} out of range") from None
        shown = _clause(verb, None if precision is None else int(precision), value)
        nonlocal made
        made += len(shown)
        text_of(made)
        return shown

    return _CLAUSE.sub(clause, text)


def _clause(verb: str, precision: int | None, value: object) -> str:
    match verb:
        case "s":
            # As `string(…)`, which in cel-go differs from the doubles of a list.
            finite = isinstance(value, float) and math.isfinite(value)
            return show_double(value) if finite else show(value)  # type: ignore[arg-type]
        case "d":
            if isinstance(value, float):
                return _plain(value)
            if isinstance(value, bool) or not isinstance(value, int):
                raise EvaluationError(f"{_ACCEPTED['d'][1]}, was given {type_of(value)}")
            return str(value)
        case "f" | "e":
            return _float(verb, _PRECISION if precision is None else precision, value)
        case "b":
            if isinstance(value, bool):
                return str(int(value))
            return _based(value, "b", _ACCEPTED["b"][1])
        case "o":
            return _based(value, "o", _ACCEPTED["o"][1])
        case "x" | "X":
            if isinstance(value, str):
                text_of(2 * len(value))
                digits = value.encode().hex()
                return digits.upper() if verb == "X" else digits
            return _based(value, verb, _ACCEPTED["x"][1])
        case _:
            raise EvaluationError(f"`%{verb}` is not a formatting clause")


def _float(verb: str, precision: int, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise EvaluationError(f"{_ACCEPTED[verb][1]}, was given {type_of(value)}")
    number = float(value)
    return f"{number:.{precision}{verb}}" if math.isfinite(number) else _special(number)


def _based(value: object, base: str, refusal: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        raise EvaluationError(f"{refusal}, was given {type_of(value)}")
    return format(value, base)


def _plain(value: float) -> str:
    return plain_double(value) if math.isfinite(value) else _special(value)


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def show(value: object) -> str:
    """A value for messages: strings without quotes, maps sorted by key.

    Raises EvaluationError for an object, and for a value whose text would be too long.
    """
    if value.__class__ is str:
        return value
    return _Text().of(value)


class _Text:
    """The text of one value. It counts the characters of all parts, so that it ends in time."""

    def __init__(self) -> None:
        self._made = 0

    def of(self, value: object, depth: int = 0) -> str:
        if depth > NESTING:
            raise EvaluationError(f"the value is nested more than {NESTING} deep")
        # At least the brackets, or the comma and the space after a value.
        self._made = text_of(self._made + 2)
        match kind(value):
            case "list":
                assert isinstance(value, Sequence)
                return f"[{', '.join([self.of(each, depth + 1) for each in value])}]"
            case "map":
                assert isinstance(value, Mapping)
                pairs = sorted(
                    (self.of(k, depth + 1), self.of(v, depth + 1)) for k, v in key_values(value)
                )
                return f"{{{', '.join([f'{k}: {v}' for k, v in pairs])}}}"
            case _:
                shown = _show_single(value)
        self._made = text_of(self._made + len(shown))
        return shown


def _show_single(value: object) -> str:
    match kind(value):
        case "null":
            return "null"
        case "bool":
            return "true" if value else "false"
        case "double":
            assert isinstance(value, float)
            return _plain(value)
        case "record" | "optional":
            what = "an object" if kind(value) == "record" else "an optional"
            raise EvaluationError(f"{what} cannot be shown as text")
        case _:
            return str(value)


def _formatted(text: Size | str, args: Size | Sequence[object]) -> int:
    """The steps of `format`, which shows every value in its arguments."""
    return 20 + len(text) // 4 + 10 * deep(args)


OVERLOADS: tuple[Overload, ...] = (
    member("format", (STRING, list_of(DYN)), STRING, format_text, _formatted),
)
