"""Maps and records: dicts, whose bool keys are wrapped because True equals 1 in Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from grammar.tree.types import BOOL, DYN, INT, A, B, Overload, function, map_of, member
from grammar.values.errors import EvaluationError, MissingError
from grammar.values.sizes import items_of, quoted


@dataclass(frozen=True, slots=True)
class BoolKey:
    """A bool as a key."""

    value: bool


def to_key(value: object) -> object:
    """The dict key of a value; a whole double is the int.

    Raises EvaluationError for a value that cannot be a key.
    """
    if isinstance(value, bool):
        return BoolKey(value)
    if isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    raise EvaluationError("no such overload: a key is a string, an int or a bool")


def from_key(key: object) -> object:
    return key.value if isinstance(key, BoolKey) else key


def lookup(value: Mapping[object, object], key: object) -> object:
    """The value of a key; raises MissingError if it is absent."""
    try:
        return value[to_key(key)]
    except KeyError:
        raise MissingError(f"there is no key {quoted(key)}") from None


def contains(key: object, value: Mapping[object, object]) -> bool:
    """`key in map`; false for a value that cannot be a key."""
    try:
        return to_key(key) in value
    except EvaluationError:
        return False


def build(pairs: Iterable[tuple[object, object]]) -> dict[object, object]:
    """A map of entries. Raises EvaluationError for a repeated key or a value that cannot be one."""
    made: dict[object, object] = {}
    for key, value in pairs:
        if isinstance(key, float):
            raise EvaluationError("no such overload: a double cannot be a key")
        at = to_key(key)
        if at in made:
            raise EvaluationError(f"the key {quoted(key)} occurs twice")
        made[at] = value
        items_of(len(made))
    return made


def merge(maps: Iterable[object]) -> dict[object, object]:
    """One map of several; raises EvaluationError for a key in two of them."""
    return build((from_key(k), v) for part in maps for k, v in _entries(part))


def _entries(part: object) -> Iterable[tuple[object, object]]:
    if not isinstance(part, Mapping):
        raise EvaluationError("no such overload: a map is needed")
    return part.items()


def key_values(value: Mapping[object, object]) -> Iterator[tuple[object, object]]:
    """The keys, as values of the language, with their values."""
    return ((from_key(k), v) for k, v in value.items())


OVERLOADS: tuple[Overload, ...] = (
    function("in", (A, map_of(A, B)), BOOL, contains),
    function("size", (map_of(A, B),), INT, len),
    member("size", (map_of(A, B),), INT, len),
    function("[]", (map_of(A, B), DYN), B, lookup),
)


@dataclass(frozen=True, slots=True)
class EmptyRecord:
    """A record without any field: the value of an absent record of the type `type_name`."""

    type_name: str = ""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)

    def __repr__(self) -> str:
        return "{}"


EMPTY_RECORD = EmptyRecord()


def record_names(value: object) -> tuple[str, ...]:
    """The names that the type of a record may have in the schema, the most precise first."""
    if isinstance(value, EmptyRecord):
        return (value.type_name,)
    return tuple(c.__name__ for c in type(value).__mro__)


def read_field(value: object, name: str, zero: object, *, optional: bool) -> object:
    """The value of a record's field, which is an attribute; if absent, `zero`.

    Raises MissingError for an absent field that is optional.
    """
    found = getattr(value, name, None)
    if found is not None:
        return found
    if optional:
        raise MissingError(f"there is no `{name}`")
    return zero
