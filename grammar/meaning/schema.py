"""Schema: the records of `schema.txt` that a policy may read: fields, types and short forms."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files

from grammar.syntax.parser import parse_expression
from grammar.tree import ast
from grammar.tree.ast import Expr, Ident
from grammar.tree.printer import print_expression
from grammar.tree.source import Source, Span
from grammar.tree.types import DURATION, QUANTITY, SEMVER, STRING, TIMESTAMP, Type
from grammar.tree.walk import Definitions, children, reads, rewritten
from grammar.values.maps import EmptyRecord
from grammar.values.quantity import Quantity
from grammar.values.time import Duration, Timestamp

# The kinds of lines in the file; all other lines are empty.
_RECORD = re.compile(r"[A-Z]\w*")
_FIELD = re.compile(r"  (\w+)(?:\[(\w+)\])? +(\w+(?:\([\w(), ]*\))?)(\??)(?: (computed)| = (.+))?")
_VALUES = re.compile(r"(\w+)\.(\w+) +(?:most ([\d, ]+?))?(?: ?of (.+?)( …)?)?")
_COMMENT = re.compile(r" *# ?(.*)")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record.

    If `optional`, an absent field is missing; otherwise it has the value `Schema.zero` of its type.
    If `native`, the engine computes it; it is not a part of the API object. `derived` is the
    expression over `self` of a short form, and `parameter` the name of its index in it, if any.
    `most` is its greatest size, then the size of each key and value. `words` are the words that it
    has, all of them unless it is `open`.
    """

    name: str
    type: Type
    optional: bool = False
    native: bool = False
    derived: str | None = None
    parameter: str | None = None
    doc: str = ""
    most: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    open: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """A record type, with its fields in the order in which users see them."""

    name: str
    fields: Mapping[str, Field]
    doc: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """A schema: all record types by name; equal to itself alone, as it is passed on everywhere."""

    records: Mapping[str, Record]

    def field(self, record: str, name: str) -> Field | None:
        """The field, or None if the record is unknown or has no such field."""
        found = self.records.get(record)
        return None if found is None else found.fields.get(name)

    def reads_more(self, name: str) -> bool:
        """Whether a short form of this name reads more than the record that it belongs to."""
        fields = (record.fields.get(name) for record in self.records.values())
        forms = (f.derived for f in fields if f is not None and f.derived is not None)
        nothing = Definitions({}, {})
        return any(r.path[0] != "self" for form in forms for r in reads(short_form(form), nothing))

    def zero(self, type_: Type) -> object:
        """The value of an absent field: the zero value of its Go type, always a new object."""
        match type_.name:
            case "bool":
                return False
            case "int" | "dyn":  # dyn is Go's IntOrString, whose zero value is 0
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
                return EmptyRecord(name)
        raise ValueError(f"no field has the type {type_}")


@functools.cache
def load_schema() -> Schema:
    """The schema of the language, the same one for everybody: it is read from its file once."""
    return parse_schema(files("grammar.meaning").joinpath("schema.txt").read_text("utf-8"))


def parse_schema(text: str) -> Schema:
    """Parses the line format that the head of `schema.txt` describes.

    A record may appear twice: once with its short forms, once with its API fields. Raises
    ValueError with the line number for any other line.
    """
    fields: dict[str, dict[str, Field]] = {}
    docs: dict[str, str] = {}
    current: dict[str, Field] | None = None
    comment: list[str] = []
    values: dict[int, re.Match[str]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line:
            comment.clear()
        elif noted := _COMMENT.fullmatch(line):
            comment.append(noted[1])
        elif current is not None and (found := _FIELD.fullmatch(line)):
            name, parameter, kind, mark, native, derived = found.groups()
            if name in current:
                raise ValueError(f"line {number}: `{name}` occurs twice")
            type_, doc = _parse_type(kind), " ".join(comment)
            comment.clear()
            current[name] = Field(name, type_, mark == "?", bool(native), derived, parameter, doc)
        elif found := _VALUES.fullmatch(line):
            values[number] = found
        elif _RECORD.fullmatch(line):
            current = fields.setdefault(line, {})
            docs[line] = docs.get(line) or " ".join(comment)
            comment.clear()
        else:
            raise ValueError(f"line {number}: neither a record nor a field: {line}")
    for number, found in values.items():
        record, name, most, words, more = found.groups()
        if name not in (its := fields.get(record, {})):
            raise ValueError(f"line {number}: there is no {record}.{name}")
        sizes = tuple(map(int, most.split(", "))) if most else ()
        known = tuple(words.split()) if words else ()
        its[name] = replace(its[name], most=sizes, words=known, open=bool(more))
    return Schema({name: Record(name, its, docs[name]) for name, its in fields.items()})


def _parse_type(text: str) -> Type:
    name, bracket, inner = text.removesuffix(")").partition("(")
    if not bracket:
        return Type(name)
    # The key of a map is a scalar, so the first comma is the one between key and value.
    return Type(name, tuple(map(_parse_type, inner.split(", ", 1))))


def written_out(text: str, names: Mapping[str, Expr], span: Span) -> Expr:
    """An expression with parts in the place of names; what is between them gets the span.

    A short form such as `node.usage["cpu"]` has the names `self` and that of the index.
    """

    def change(node: object) -> object:
        if isinstance(node, Ident):
            return names.get(node.name, node)
        return span if isinstance(node, Span) else node

    return rewritten(short_form(text), change)


@functools.lru_cache(maxsize=256)
def short_form(text: str) -> Expr:
    """The expression of a short form, as it is written: over `self`, and not checked."""
    expr, found = parse_expression(Source("schema.txt", text))
    assert expr is not None, found
    return expr


# ---- texts as they were written


# Constants of these types are written as texts.
_TEXTS = (QUANTITY, DURATION, TIMESTAMP, SEMVER)


def print_as_written(expr: ast.Expr, schema: Schema | None) -> str:
    """The text of a checked expression, with its short forms, and with its constants as texts."""
    return print_expression(_as_written(expr, schema))


def _as_written(expr: ast.Expr, schema: Schema | None) -> ast.Expr:
    def change(node: object) -> object:
        if isinstance(node, ast.Literal) and node.type in _TEXTS:
            return ast.Literal(str(node.value), STRING, span=node.span)
        short = _short_form(node, schema) if isinstance(node, ast.Expr) and schema else None
        return node if short is None else short

    return rewritten(expr, change)


def _short_form(expr: ast.Expr, schema: Schema) -> ast.Expr | None:
    """The short form that an expression was written out from; None for any other."""
    # What stands for `self` and for the index, if the expression is a short form written out: these
    # two have spans of their own, and all others have that of the short form.
    record: ast.Expr | None = None
    index: ast.Expr | None = None
    below: list[ast.Expr] = [expr]
    while below and (record is None or index is None):
        part = below.pop()
        if part.span == expr.span:
            below.extend(reversed([*children(part)]))
        elif part.type.is_record:
            record = record or part
        elif part.type == STRING:
            index = index or part
    known = schema.records.get(record.type.name) if record is not None else None
    if known is None or record is None:
        return None
    for field in known.fields.values():
        if field.derived is None or (field.parameter is not None and index is None):
            continue
        named = {field.parameter: index} if field.parameter and index else {}
        if written_out(field.derived, {"self": record, **named}, expr.span) == expr:
            short = ast.Select(_as_written(record, schema), field.name, False, span=expr.span)
            return ast.Index(short, index, False, span=expr.span) if named and index else short
    return None
