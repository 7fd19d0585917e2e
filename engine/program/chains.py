"""Chains of fields, and of a key of a map at their end, read at once: `node.metadata.labels["k"]`.

What is there most often is read without a detour. Where a part is absent the general closures of
`engine.program.operations` say what that means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from engine.program.frame import Evaluate, Frame
from grammar.ast import Binary, Call, Expr, Ident, Index, Literal, Select
from grammar.errors import MissingError
from grammar.types import STRING, map_of

if TYPE_CHECKING:
    from engine.program.compiler import Compiler


@dataclass(frozen=True, slots=True)
class FieldChain:
    """How to read a chain: `fields` of the frame, or of the local at `place`, and then the key.

    `fields` gives None or raises AttributeError where a part is absent; `meaning` is the chain's
    value whatever is absent.
    """

    fields: Callable[[object], Any]
    place: int | None
    key: str | None
    meaning: Evaluate

    @property
    def missing(self) -> str:
        """What is wrong where the map does not have the key."""
        return f"there is no key `{self.key}`"


def field_chain(compiler: Compiler, expr: Expr) -> FieldChain | None:
    """The chain that an expression is; None for any other expression."""
    fields, key = expr, None
    if isinstance(expr, Index):
        if expr.operand.type.name != "map" or expr.optional:
            return None
        fields, key = expr.operand, text(expr.index)
        if key is None:
            return None
    found = _path(fields)
    if found is None:
        return None
    root, names = found
    place = compiler.local(root)
    if place is None:
        names = f"{root}.{names}"
    return FieldChain(attrgetter(names), place, key, compiler.general(expr))


def text(expr: Expr) -> str | None:
    """A constant text; None for any other expression."""
    return expr.value if isinstance(expr, Literal) and isinstance(expr.value, str) else None


def _path(expr: Expr) -> tuple[str, str] | None:
    """`node.metadata.labels` as a name and a path of attributes, where every step is a record's."""
    names: list[str] = []
    while isinstance(expr, Select) and expr.operand.type.is_record and not expr.optional:
        names.append(expr.name)
        expr = expr.operand
    if not names or not isinstance(expr, Ident) or expr.absolute:
        return None
    return expr.name, ".".join(reversed(names))


def value(compiler: Compiler, expr: Expr) -> Evaluate | None:
    """The value of a chain; None for any other expression."""
    chain = field_chain(compiler, expr)
    return None if chain is None else _value(chain)


def _value(chain: FieldChain) -> Evaluate:
    fields, place, key, meaning = chain.fields, chain.place, chain.key, chain.meaning
    missing = chain.missing

    def run(frame: Frame) -> object:
        try:
            value = fields(frame if place is None else frame.locals[place])
            if key is not None:
                return value[key]
        except KeyError:
            raise MissingError(missing) from None
        except (AttributeError, TypeError):
            return meaning(frame)
        return value if value is not None else meaning(frame)

    return run


def value_or_default(compiler: Compiler, expr: Call) -> Evaluate | None:
    """`labels[?"key"].orValue("")` without an optional; None for any other call."""
    match expr:
        case Call("orValue", Index(held, index, optional=True), (Literal(other),)):
            chain, key = _texts(compiler, held), text(index)
            return None if chain is None or key is None else _or_default(chain, key, other)
        case _:
            return None


def _or_default(chain: FieldChain, key: str, other: object) -> Evaluate:
    fields, place, meaning = chain.fields, chain.place, chain.meaning

    def run(frame: Frame) -> object:
        try:
            return fields(frame if place is None else frame.locals[place]).get(key, other)
        except AttributeError:
            held: Any = meaning(frame)
            return held.get(key, other)

    return run


def key_test(compiler: Compiler, expr: Binary) -> Evaluate | None:
    """`"key" in labels`; None for any other operation."""
    chain, key = _texts(compiler, expr.right), text(expr.left)
    return None if expr.op != "in" or chain is None or key is None else _key_test(chain, key)


def _key_test(chain: FieldChain, key: str) -> Evaluate:
    fields, place, meaning = chain.fields, chain.place, chain.meaning

    def run(frame: Frame) -> object:
        try:
            return key in fields(frame if place is None else frame.locals[place])
        except (AttributeError, TypeError):
            held: Any = meaning(frame)
            return key in held

    return run


def _texts(compiler: Compiler, expr: Expr) -> FieldChain | None:
    """The chain of a map of texts, which has no values but those of its keys."""
    return field_chain(compiler, expr) if expr.type == map_of(STRING, STRING) else None
