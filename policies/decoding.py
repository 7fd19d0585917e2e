"""Parsed fields to structs: what msgspec finds wrong is said in the words of our messages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from msgspec.inspect import (
    LiteralType,
    Metadata,
    NoneType,
    StructType,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)

from grammar.diagnostics import Severity, nearest
from grammar.mistakes import listed

T = TypeVar("T", bound=msgspec.Struct)

# What msgspec says: `Expected …, got … - at `$.spec.weight``, of a key `- at `key` in `$.spec…``.
_SAID = re.compile(r"(?P<what>.*?)(?: - at (?:`key` in )?`\$\.?(?P<path>[^`]*)`)?\Z", re.DOTALL)
_EXPECTED = re.compile(r"Expected `(?P<wanted>[^`]*)`(?:, got `(?P<found>[^`]*)`| (?P<rest>.*))\Z")
_LACKING = re.compile(r"Object missing required field `(?P<name>[^`]*)`\Z")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>[^`]*)`\Z")
_NO_VALUE = re.compile(r"Invalid enum value '?(?P<value>.*?)'?\Z", re.DOTALL)
_STEP = re.compile(r"\w+")
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a string",
    "bool": "a bool",
    "array": "a list",
    "object": "an object",
    "null": "nothing",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one field, such as `spec.weight`: a sentence, and advice."""

    field: str
    message: str
    hint: str = ""
    severity: Severity = "error"

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def decoded(value: object, wanted: type[T]) -> T | Problem:
    """The struct, or the first field that is not what it should be."""
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError as error:
        said = _SAID.match(str(error))
        assert said is not None, "every part of it is optional"
        return _problem(said["what"], said["path"] or "", wanted)
    except RecursionError:
        return Problem("object", "is nested too deeply")


def _problem(what: str, path: str, wanted: type[msgspec.Struct]) -> Problem:
    if (lacking := _LACKING.match(what)) is not None:
        return Problem(_join(path, lacking["name"]), "is missing")
    if (unknown := _UNKNOWN.match(what)) is not None:
        here = _type_at(path, wanted)
        fields = [f.name for f in here.fields] if isinstance(here, StructType) else []
        close = nearest(unknown["name"], fields)
        hint = f"a similar name exists: `{close}`" if close is not None else ""
        return Problem(_join(path, unknown["name"]), "there is no such field", hint)
    if (no_value := _NO_VALUE.match(what)) is not None:
        here = _type_at(path, wanted)
        values = [f"`{v}`" for v in here.values] if isinstance(here, LiteralType) else []
        message = f"`{no_value['value']}` is none of its values"
        return Problem(path, message, f"write {listed(values)}" if values else "")
    if (expected := _EXPECTED.match(what)) is not None:
        kinds = _in_words(expected["wanted"])
        if expected["found"] is not None:
            return Problem(path, f"is {_in_words(expected['found'])}, not {kinds}")
        return Problem(path, _out_of_bounds(expected["rest"]))
    return Problem(path or "object", what[:1].lower() + what[1:])


def _out_of_bounds(bound: str) -> str:
    """`<= 10`, `of length <= 64`, `of length >= 1`."""
    relation, limit = bound.split()[-2:]
    is_length = bound.startswith("of length")
    if relation == "<=":
        return f"is {'longer' if is_length else 'more'} than {limit}"
    return "is empty" if is_length else f"is less than {limit}"


def _in_words(names: str) -> str:
    """The names that msgspec has of types; that a field can be left out is known."""
    kinds = [name for name in names.split(" | ") if name != "null"] or ["null"]
    return listed([_KINDS.get(kind, kind) for kind in kinds])


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _type_at(path: str, root: type[msgspec.Struct]) -> Type | None:
    """The type of what a path leads to; None where that is beyond the structs."""
    here: Type | None = bare(type_info(root))
    for step in _STEP.findall(path):
        match here:
            case VarTupleType():
                here = bare(here.item_type)
            case StructType():
                found = (f.type for f in here.fields if f.encode_name == step)
                here = next(map(bare, found), None)
            case _:
                return None
    return here


def bare(kind: Type) -> Type:
    """A type without what is said of it, and without the choice to leave it out."""
    if isinstance(kind, Metadata):
        return bare(kind.type)
    if isinstance(kind, UnionType):
        given = [t for t in kind.types if not isinstance(t, NoneType)]
        if len(given) == 1:
            return bare(given[0])
    return kind
