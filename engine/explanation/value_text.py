"""Text of values, as `placet eval` and explanations show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grammar.meaning.schema import Schema
from grammar.tree.printer import print_string
from grammar.tree.types import DYN, Type
from grammar.values.format import show
from grammar.values.kinds import kind, type_of
from grammar.values.maps import key_values
from grammar.values.optional import Optional

_WIDTH = 100
# A part of a value: its name or index label, its value, and its type.
_Part = tuple[str, object, Type]


class Values:
    """Text of values in the syntax of the language; records show their fields."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def typed(self, value: object, type_: Type) -> str:
        """`value : type`, on several lines if one is too long."""
        name = str(type_)
        if type_ == DYN:
            name = str(type_of(value)) if kind(value) != "record" else "object"
        text = "\n".join(self._lines(value, type_, "", _WIDTH))
        return f"{text} : {name}"

    def line(self, value: object, type_: Type) -> str:
        parts = self._parts(value, type_)
        if parts is None:
            return _scalar(value)
        left, right = _brackets(value)
        inside = (f"{name}{self.line(part, of)}" for name, part, of in parts)
        return f"{left}{', '.join(inside)}{right}"

    def _lines(self, value: object, type_: Type, name: str, width: int) -> list[str]:
        line = f"{name}{self.line(value, type_)}"
        parts = self._parts(value, type_)
        if len(line) <= width or not parts:
            return [line]
        left, right = _brackets(value)
        inside = [self._lines(part, of, label, width - 2) for label, part, of in parts]
        for rows in inside:
            rows[-1] += ","
        return [f"{name}{left}", *(f"  {row}" for rows in inside for row in rows), right]

    def _parts(self, value: object, type_: Type) -> list[_Part] | None:
        """The parts of a value; None for a scalar."""
        args = type_.args or (DYN, DYN)
        if isinstance(value, Optional):
            return [("", value.value, args[0])] if value.present else None
        match kind(value):
            case "list":
                assert isinstance(value, Sequence)
                return [("", item, args[0]) for item in value]
            case "map":
                assert isinstance(value, Mapping)
                pairs = sorted(((_scalar(k), v) for k, v in key_values(value)), key=lambda p: p[0])
                return [(f"{key}: ", item, args[-1]) for key, item in pairs]
            case "record":
                return self._fields(value, type_)
            case _:
                return None

    def _fields(self, value: object, type_: Type) -> list[_Part]:
        """The fields that a record has, without short forms."""
        record = self._schema.records.get(type_.name) or self._schema.records.get(
            type(value).__name__
        )
        fields = record.fields.values() if record is not None else ()
        found = ((f, getattr(value, f.name, None)) for f in fields if f.derived is None)
        return [(f"{f.name}: ", part, f.type) for f, part in found if part is not None]


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return print_string(value)
    if isinstance(value, Optional):
        return "optional.none()"
    return show(value)


def _brackets(value: object) -> tuple[str, str]:
    if isinstance(value, Optional):
        return "optional.of(", ")"
    return ("[", "]") if kind(value) == "list" else ("{", "}")
