"""What a policy may name: the records of `schema.txt`, with their fields, types and short forms."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from grammar.ast import Expr, Ident
from grammar.parser import parse_expression
from grammar.source import Source, Span
from grammar.types import Type
from grammar.values.maps import EMPTY_RECORD
from grammar.values.quantity import Quantity
from grammar.values.time import Duration, Timestamp
from grammar.walk import rewritten

# The three kinds of lines that matter; everything else in the file is a comment or empty.
_RECORD = re.compile(r"[A-Z]\w*")
_FIELD = re.compile(r"  (\w+)(?:\[(\w+)\])? +(\w+(?:\([\w(), ]*\))?)(\??)(?: (computed)| = (.+))?")
_COMMENT = re.compile(r" *# ?(.*)")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record.

    `optional`: absent is missing; otherwise an absent field reads as `Schema.zero` of its type.
    `native`: worked out by the engine, not a part of the API object. `derived`: the expression over
    `self` that a short form stands for; `parameter`: the name in it for the index, if it takes one.
    """

    name: str
    type: Type
    optional: bool = False
    native: bool = False
    derived: str | None = None
    parameter: str | None = None
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """A record type, with its fields in the order in which they are shown to people."""

    name: str
    fields: Mapping[str, Field]
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Schema:
    """All record types by name."""

    records: Mapping[str, Record]

    def field(self, record: str, name: str) -> Field | None:
        """The field, or None where the record is unknown or has none of that name."""
        found = self.records.get(record)
        return None if found is None else found.fields.get(name)

    def zero(self, type_: Type) -> object:
        """What an absent field of this type reads as: the zero value of its Go type.

        Containers are new ones each time, so nobody shares a list that somebody fills.
        """
        match type_.name:
            case "bool":
                return False
            case "int" | "dyn":  # dyn is Go's IntOrString, which starts as the number 0
                return 0
            case "double":
                return 0.0
            case "string":
                return ""
            case "list":
                return ()
            case "map":
                return {}
            case "quantity":
                return Quantity.ZERO
            case "timestamp":
                return Timestamp.ZERO
            case "duration":
                return Duration.ZERO
            case name if type_.is_record and name in self.records:
                return EMPTY_RECORD
        raise ValueError(f"no field has the type {type_}")


def load_schema() -> Schema:
    """The schema that ships with the language. Reads a file: load it once and pass it on."""
    return parse_schema(files("grammar").joinpath("schema.txt").read_text("utf-8"))


def parse_schema(text: str) -> Schema:
    """Read the line format that the head of `schema.txt` describes.

    A record may be continued further down, which is how short forms and API fields stand apart.
    Raises ValueError, naming the line, for a line that is none of these.
    """
    types: dict[str, Type] = {}
    fields: dict[str, dict[str, Field]] = {}
    docs: dict[str, str] = {}
    current: dict[str, Field] | None = None
    comment: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line:
            comment.clear()
        elif noted := _COMMENT.fullmatch(line):
            comment.append(noted[1])
        elif current is not None and (found := _FIELD.fullmatch(line)):
            name, parameter, kind, mark, native, derived = found.groups()
            if name in current:
                raise ValueError(f"line {number}: `{name}` is there twice")
            type_ = types.get(kind) or types.setdefault(kind, _parse_type(kind))
            doc = " ".join(comment)
            comment.clear()
            current[name] = Field(name, type_, mark == "?", bool(native), derived, parameter, doc)
        elif _RECORD.fullmatch(line):
            current = fields.setdefault(line, {})
            docs[line] = docs.get(line) or " ".join(comment)
            comment.clear()
        else:
            raise ValueError(f"line {number}: neither a record nor a field: {line}")
    return Schema({name: Record(name, its, docs[name]) for name, its in fields.items()})


def _parse_type(text: str) -> Type:
    name, bracket, inner = text.removesuffix(")").partition("(")
    if not bracket:
        return Type(name)
    # The key of a map is a scalar, so the first comma is the one between key and value.
    return Type(name, tuple(map(_parse_type, inner.split(", ", 1))))


# ---- Short forms (`node.zone`, `node.usage["cpu"]`) written out as what they stand for.


def written_out(derived: str, operand: Expr, index: tuple[str, Expr] | None, span: Span) -> Expr:
    """The expression `derived` with `self` and the index put in, at the short form's span."""
    names = {"self": operand}
    if index is not None:
        names[index[0]] = index[1]

    def change(node: object) -> object:
        if isinstance(node, Ident):
            return names.get(node.name, node)
        return span if isinstance(node, Span) else node

    return rewritten(_parsed(derived), change)


@functools.lru_cache(maxsize=256)
def _parsed(text: str) -> Expr:
    expr, found = parse_expression(Source("schema.txt", text))
    assert expr is not None, found
    return expr
