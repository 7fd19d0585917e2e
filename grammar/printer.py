"""Expressions back to canonical text: parse(print(t)) == t."""

from __future__ import annotations

import math
import re
from typing import assert_never

from grammar.ast import (
    Binary,
    Call,
    Chain,
    Comprehension,
    Conditional,
    DefCall,
    Expr,
    Has,
    Ident,
    Index,
    LetReference,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    Unary,
)

# Binding strength, weakest first; an operand is put in parentheses where it binds less than its
# place asks for.
_CONDITIONAL, _OR, _AND, _RELATION, _SUM, _PRODUCT, _UNARY, _MEMBER = range(8)
_CHAIN = {"||": _OR, "&&": _AND, "+": _SUM}
_BINARY = {"-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ESCAPES = {
    "\\": "\\\\",
    '"': '\\"',
    "\n": "\\n",
    "\t": "\\t",
    "\r": "\\r",
    "\a": "\\a",
    "\b": "\\b",
}
_ESCAPES |= {"\f": "\\f", "\v": "\\v"}


def print_expression(expr: Expr) -> str:
    """The expression on one line."""
    return _print(expr, _CONDITIONAL)


def operands(expr: Expr) -> tuple[str, list[str]] | None:
    """The operator and printed operands of a chain of `&&` or `||`; None for anything else."""
    if not isinstance(expr, Chain) or expr.op == "+":
        return None
    return expr.op, [_print(o, _CHAIN[expr.op] + 1) for o in expr.operands]


def print_string(text: str) -> str:
    """A string literal: raw where that saves escaping backslashes."""
    if "\\" in text and '"' not in text and text.isprintable():
        return f'r"{text}"'
    return (
        '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else _code(c)) for c in text) + '"'
    )


def _code(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _print(expr: Expr, place: int) -> str:
    strength, text = _render(expr)
    return f"({text})" if strength < place else text


def _render(expr: Expr) -> tuple[int, str]:
    """How strongly the printed text binds, and the text."""
    match expr:
        case Literal(value):
            text = _literal(value)
            return (_UNARY if text.startswith("-") else _MEMBER), text
        case Ident(name, absolute):
            return _MEMBER, f".{name}" if absolute else name
        case Select(operand, name, optional):
            return _MEMBER, f"{_print(operand, _MEMBER)}.{'?' if optional else ''}{_field(name)}"
        case Index(operand, index, optional):
            return (
                _MEMBER,
                f"{_print(operand, _MEMBER)}[{'?' if optional else ''}{print_expression(index)}]",
            )
        case Call(function, target, args, absolute):
            head = f"{_print(target, _MEMBER)}." if target is not None else "." if absolute else ""
            return _MEMBER, f"{head}{function}({_comma(args)})"
        case Unary(op, operand):
            # A minus before a number would become part of it.
            bare = isinstance(operand, Literal) or (isinstance(operand, Unary) and operand.op != op)
            return (
                _UNARY,
                f"{op}({print_expression(operand)})" if bare else f"{op}{_print(operand, _UNARY)}",
            )
        case Binary(op, left, right):
            strength = _BINARY.get(op, _RELATION)
            return strength, f"{_print(left, strength)} {op} {_print(right, strength + 1)}"
        case Chain(op, chained):
            strength = _CHAIN[op]
            head = _print(chained[0], strength + (isinstance(chained[0], Chain)))
            return strength, f" {op} ".join((head, *(_print(o, strength + 1) for o in chained[1:])))
        case Conditional(condition, then, otherwise):
            parts = _print(condition, _OR), _print(then, _OR), print_expression(otherwise)
            return _CONDITIONAL, "{} ? {} : {}".format(*parts)
        case ListLiteral(elements, marked):
            items = (
                f"{'?' if i in marked else ''}{print_expression(e)}" for i, e in enumerate(elements)
            )
            return _MEMBER, f"[{', '.join(items)}]"
        case MapLiteral(entries):
            pairs = (
                f"{'?' if e.optional else ''}{print_expression(e.key)}: {print_expression(e.value)}"
                for e in entries
            )
            return _MEMBER, f"{{{', '.join(pairs)}}}"
        case Comprehension("cel.bind", target, variables, body):
            return _MEMBER, f"cel.bind({variables[0]}, {print_expression(target)}, {_comma(body)})"
        case Comprehension(macro, target, variables, body):
            return (
                _MEMBER,
                f"{_print(target, _MEMBER)}.{macro}({', '.join(variables)}, {_comma(body)})",
            )
        case Has(operand):
            return _MEMBER, f"has({print_expression(operand)})"
        case LetReference(name):
            return _MEMBER, name
        case DefCall(name, args):
            return _MEMBER, f"{name}({_comma(args)})"
        case _:
            assert_never(expr)


def _comma(args: tuple[Expr, ...]) -> str:
    return ", ".join(map(print_expression, args))


def _field(name: str) -> str:
    return name if _PLAIN_NAME.match(name) else f"`{name}`"


def _literal(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return _double(value)
        case str():
            return print_string(value)
        case _:
            return str(value)


def _double(value: float) -> str:
    """Doubles keep a point or an exponent, so that they are read back as doubles."""
    if math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    text = repr(value)
    return text if "." in text or "e" in text else f"{text}.0"
