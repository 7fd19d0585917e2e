"""AST: the syntax tree of expressions, of frozen nodes with spans, before and after checking.

The parser leaves `type` at dyn. The checker returns the same nodes with their types, with short
forms written out, and with `let` and `def` names as `LetReference` and `DefCall`. Equality ignores
spans and types, so that a printed tree parses back to an equal one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal as OneOf

from grammar.tree.source import Span
from grammar.tree.types import DYN, Type

NO_SPAN = Span(0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A placed part of a text."""

    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Named(Placed):
    """A named part of a text, with the place of its name."""

    name_span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Typed(Placed):
    """A typed expression."""

    type: Type = field(default=DYN, compare=False)


@dataclass(frozen=True, slots=True)
class Literal(Placed):
    """A literal. Its type counts for equality, because 1, 1.0 and true are equal in Python.

    `let` is the name by which the policy refers to it, if it took another type than that `let` has.
    """

    value: object
    type: Type
    let: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Ident(_Typed):
    """An identifier; `absolute` is true for `.name`, which is no local name."""

    name: str
    absolute: bool = False


@dataclass(frozen=True, slots=True)
class Select(_Typed):
    """A selection, `operand.name`, or `operand.?name` when optional."""

    operand: Expr
    name: str
    optional: bool = False
    name_span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Index(_Typed):
    """`operand[index]`, or `operand[?index]` when optional."""

    operand: Expr
    index: Expr
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Call(_Typed):
    """A call, `function(args)` or `target.function(args)`.

    Until it is checked, a namespaced function has its namespace as the target.
    """

    function: str
    target: Expr | None
    args: tuple[Expr, ...]
    absolute: bool = False
    name_span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Unary(_Typed):
    """A unary operation, `!operand` or `-operand`."""

    op: OneOf["!", "-"]
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(_Typed):
    """A binary operation, `left op right`, for relations, `in`, `-`, `*`, `/` and `%`."""

    op: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Chain(_Typed):
    """A chain `a op b op c …` in one node, so that a long one is not a deep tree."""

    op: OneOf["&&", "||", "+"]
    operands: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Conditional(_Typed):
    """`condition ? then : otherwise`."""

    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class ListLiteral(_Typed):
    """A list, `[a, ?b]`; `optional` has the positions of the elements with `?`."""

    elements: tuple[Expr, ...]
    optional: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MapEntry:
    """An entry of a map literal, `key: value` or `?key: value`."""

    key: Expr
    value: Expr
    optional: bool = False


@dataclass(frozen=True, slots=True)
class MapLiteral(_Typed):
    """A map, `{key: value}`."""

    entries: tuple[MapEntry, ...]


@dataclass(frozen=True, slots=True)
class Comprehension(_Typed):
    """A comprehension, a macro with variables: `target.macro(variables…, body…)`.

    The macros are all, exists, exists_one, existsOne, map, filter, transformList, transformMap,
    transformMapEntry, sortBy, optMap and optFlatMap. `cel.bind(variable, target, body)` is the
    macro `cel.bind`.
    """

    macro: str
    target: Expr
    variables: tuple[str, ...]
    body: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Has(_Typed):
    """`has(operand)`: whether a field or a key exists."""

    operand: Select | Index


@dataclass(frozen=True, slots=True)
class LetReference(_Typed):
    """A `let` by name; only in checked trees. `constants`: its value, if it is constant."""

    name: str
    constants: tuple[str | int, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class DefCall(_Typed):
    """A call of a `def`; only in checked trees."""

    name: str
    args: tuple[Expr, ...]


Expr = (
    Literal
    | Ident
    | Select
    | Index
    | Call
    | Unary
    | Binary
    | Chain
    | Conditional
    | ListLiteral
    | MapLiteral
    | Comprehension
    | Has
    | LetReference
    | DefCall
)
