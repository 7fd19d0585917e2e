"""Printer: expressions, texts and numbers as the language writes them."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import assert_never

from grammar.tree import ast
from grammar.tree.source import ESCAPED

# Precedence, lowest first. An operand gets parentheses if its precedence is lower than its place
# needs.
_CONDITIONAL, _OR, _AND, _RELATION, _SUM, _PRODUCT, _UNARY, _MEMBER = range(8)
_CHAIN = {"||": _OR, "&&": _AND, "+": _SUM}
_BINARY = {"-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def print_expression(expr: ast.Expr) -> str:
    """The expression on one line."""
    return _print(expr, _CONDITIONAL)


def operands(expr: ast.Expr) -> tuple[str, list[str]] | None:
    """The operator and the printed operands of a chain of `&&` or `||`; else None."""
    if not isinstance(expr, ast.Chain) or expr.op == "+":
        return None
    return expr.op, [_print(o, _CHAIN[expr.op] + 1) for o in expr.operands]


def print_string(text: str) -> str:
    """A string literal: raw where that saves escaping backslashes."""
    if "\\" in text and '"' not in text and text.isprintable():
        return f'r"{text}"'
    return '"' + "".join(ESCAPED.get(c) or (c if c.isprintable() else _code(c)) for c in text) + '"'


def print_length(seconds: float) -> str:
    """A length of time in the largest unit of which it is a whole number: `90s`, `2m`."""
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{print_number(int(seconds) if seconds.is_integer() else seconds)}s"


def print_number(number: float) -> str:
    """A number of a clause, which the language takes without an exponent: `0.00001`."""
    if isinstance(number, int):
        return str(number)
    text = f"{Decimal(repr(number)):f}"
    return text if "." in text else f"{text}.0"


def _code(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _print(expr: ast.Expr, place: int) -> str:
    strength, text = _render(expr)
    return f"({text})" if strength < place else text


def _render(expr: ast.Expr) -> tuple[int, str]:
    """The precedence of the printed text, and the text."""
    match expr:
        case ast.Literal(value):
            text = _literal(value)
            return (_UNARY if text.startswith("-") else _MEMBER), text
        case ast.Ident(name, absolute):
            return _MEMBER, f".{name}" if absolute else name
        case ast.Select(operand, name, optional):
            field = name if _PLAIN_NAME.match(name) else f"`{name}`"
            return _MEMBER, f"{_print(operand, _MEMBER)}.{'?' if optional else ''}{field}"
        case ast.Index(operand, index, optional):
            key = f"{'?' if optional else ''}{print_expression(index)}"
            return _MEMBER, f"{_print(operand, _MEMBER)}[{key}]"
        case ast.Call(function, target, args, absolute):
            head = f"{_print(target, _MEMBER)}." if target is not None else "." if absolute else ""
            return _MEMBER, f"{head}{function}({_comma(args)})"
        case ast.Unary(op, operand):
            # A minus before a number would become part of it.
            bare = isinstance(operand, ast.Literal) or (
                isinstance(operand, ast.Unary) and operand.op != op
            )
            text = f"({print_expression(operand)})" if bare else _print(operand, _UNARY)
            return _UNARY, f"{op}{text}"
        case ast.Binary(op, left, right):
            strength = _BINARY.get(op, _RELATION)
            return strength, f"{_print(left, strength)} {op} {_print(right, strength + 1)}"
        case ast.Chain(op, chained):
            strength = _CHAIN[op]
            head = _print(chained[0], strength + (isinstance(chained[0], ast.Chain)))
            return strength, f" {op} ".join((head, *(_print(o, strength + 1) for o in chained[1:])))
        case ast.Conditional(condition, then, otherwise):
            parts = _print(condition, _OR), _print(then, _OR), print_expression(otherwise)
            return _CONDITIONAL, "{} ? {} : {}".format(*parts)
        case ast.ListLiteral(elements, marked):
            items = (
                f"{'?' if i in marked else ''}{print_expression(e)}" for i, e in enumerate(elements)
            )
            return _MEMBER, f"[{', '.join(items)}]"
        case ast.MapLiteral(entries):
            pairs = (
                f"{'?' if e.optional else ''}{print_expression(e.key)}: {print_expression(e.value)}"
                for e in entries
            )
            return _MEMBER, f"{{{', '.join(pairs)}}}"
        case ast.Comprehension("cel.bind", target, variables, body):
            return _MEMBER, f"cel.bind({variables[0]}, {print_expression(target)}, {_comma(body)})"
        case ast.Comprehension(macro, target, variables, body):
            arguments = f"{', '.join(variables)}, {_comma(body)}"
            return _MEMBER, f"{_print(target, _MEMBER)}.{macro}({arguments})"
        case ast.Has(operand):
            return _MEMBER, f"has({print_expression(operand)})"
        case ast.LetReference(name):
            return _MEMBER, name
        case ast.DefCall(name, args):
            return _MEMBER, f"{name}({_comma(args)})"
        case _:
            assert_never(expr)


def _comma(args: tuple[ast.Expr, ...]) -> str:
    return ", ".join(map(print_expression, args))


def _literal(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float() if math.isinf(value):
            return "1e999" if value > 0 else "-1e999"
        case float():
            # It needs a point or an exponent to be parsed as a double.
            text = repr(value)
            return text if "." in text or "e" in text else f"{text}.0"
        case str():
            return print_string(value)
        case _:
            return str(value)
