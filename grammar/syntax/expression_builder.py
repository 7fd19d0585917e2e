"""Expression builder: the parser's callbacks for expressions, literals and message templates.

The builder is stateless, so that one parse table serves all threads. An error ends the parse of an
item with a `ParseError`; the parser goes on with the rest of the text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from grammar.clauses.reading import (
    Child,
    SyntaxToken,
    is_token,
    nodes,
    parse_int,
    span_of,
    text_of,
    token_span,
    unquote,
)
from grammar.messages import catalogue
from grammar.messages.catalogue import ParseError
from grammar.tree import ast
from grammar.tree.clause_parts import Template
from grammar.tree.source import Span
from grammar.tree.types import BOOL, DOUBLE, INT, NULL, STRING

# CEL langdef, Syntax: reserved for other languages' syntax; legal as field names only.
RESERVED = frozenset(
    (
        "as break const continue else for function if import let loop package namespace"
        " return var void while"
    ).split()
)
_TESTS = ("all", "exists", "exists_one", "existsOne")
_TRANSFORMS = ("transformList", "transformMap", "transformMapEntry")
# The number of variables by macro name and number of arguments (CEL langdef, Macros; comprehensions
# V2).
MACRO_VARIABLES: dict[tuple[str, int], int] = {
    **{(name, 2): 1 for name in (*_TESTS, "map", "filter", "sortBy", "optMap", "optFlatMap")},
    **{(name, 3): 2 for name in (*_TESTS, *_TRANSFORMS)},
    **{(name, 4): 2 for name in _TRANSFORMS},
    ("map", 3): 1,
}


@dataclass(frozen=True, slots=True)
class _Postfix:
    """A postfix before its operand is known: `.name`, `[index]` or `.name(args)`."""

    apply: Callable[[ast.Expr, Span], ast.Expr]
    end: int


class ExpressionBuilder:
    """The builder of expressions: a method for each grammar rule, called bottom-up."""

    def conditional(self, c: list[Child]) -> ast.Expr:
        condition, then, otherwise = nodes(c)
        return ast.Conditional(condition, then, otherwise, span=span_of(c))

    def or_(self, c: list[Child]) -> ast.Expr:
        return ast.Chain("||", tuple(nodes(c)), span=span_of(c))

    def and_(self, c: list[Child]) -> ast.Expr:
        return ast.Chain("&&", tuple(nodes(c)), span=span_of(c))

    def relation(self, c: list[Child]) -> ast.Expr:
        """Operations of one strength, from left to right."""
        left = c[0]
        assert isinstance(left, ast.Expr)
        for op, right in zip(c[1::2], c[2::2], strict=True):
            assert isinstance(right, ast.Expr)
            left = ast.Binary(str(op), left, right, span=Span(left.span.start, right.span.end))
        return left

    product = relation

    def sum(self, c: list[Child]) -> ast.Expr:
        """Runs of `+` become one chain; `-` stays binary."""
        (first,) = nodes(c[:1])
        run = [first]
        for op, right in zip(c[1::2], nodes(c[2::2]), strict=True):
            if str(op) == "+":
                run.append(right)
                continue
            left = self._plus(run)
            run = [ast.Binary("-", left, right, span=Span(left.span.start, right.span.end))]
        return self._plus(run)

    def _plus(self, run: list[ast.Expr]) -> ast.Expr:
        if len(run) == 1:
            return run[0]
        return ast.Chain("+", tuple(run), span=Span(run[0].span.start, run[-1].span.end))

    def unary(self, c: list[Child]) -> ast.Expr:
        """A minus before a number becomes part of it, so that the lowest int can be written."""
        (operand,) = nodes(c[-1:])
        signs = [s for s in c[:-1] if is_token(s)]
        for sign in reversed(signs):
            span = Span(sign.start_pos, operand.span.end)
            if (
                str(sign) == "-"
                and isinstance(operand, ast.Literal)
                and isinstance(operand.value, int | float)
                and operand.type in (INT, DOUBLE)
                and operand.value >= 0
                and sign is signs[-1]
            ):
                operand = ast.Literal(-operand.value, operand.type, span=span)
            else:
                operand = ast.Unary("!" if str(sign) == "!" else "-", operand, span=span)
        return operand

    def member(self, c: list[Child]) -> ast.Expr:
        (result,) = nodes(c[:1])
        for postfix in c[1:]:
            assert isinstance(postfix, _Postfix)
            result = postfix.apply(result, Span(result.span.start, postfix.end))
        return result

    def select(self, c: list[Child]) -> _Postfix:
        dot, token = c
        assert is_token(token)
        name = str(token)[1:-1] if token.type == "QUOTED" else str(token)
        where, optional = token_span(token), str(dot) == ".?"
        return _Postfix(
            lambda operand, span: ast.Select(operand, name, optional, span=span, name_span=where),
            token.end_pos,
        )

    def index(self, c: list[Child]) -> _Postfix:
        (index,) = nodes(c)
        optional = str(c[0]) == "[?"
        end = c[-1]
        assert is_token(end)
        return _Postfix(
            lambda operand, span: ast.Index(operand, index, optional, span=span), end.end_pos
        )

    def method(self, c: list[Child]) -> _Postfix:
        name, end = c[1], c[-1]
        assert is_token(name)
        assert is_token(end)
        args = self._args(c)
        return _Postfix(
            lambda target, span: _method(str(name), target, args, span, token_span(name)),
            end.end_pos,
        )

    def args(self, c: list[Child]) -> tuple[ast.Expr, ...]:
        return tuple(nodes(c))

    def _args(self, c: list[Child]) -> tuple[ast.Expr, ...]:
        return next((a for a in c if isinstance(a, tuple)), ())

    def parenthesis(self, c: list[Child]) -> ast.Expr:
        (inner,) = nodes(c)
        return replace(inner, span=span_of(c))

    def ident(self, c: list[Child]) -> ast.Expr:
        name = c[-1]
        assert is_token(name)
        if str(name) in RESERVED:
            raise ParseError(catalogue.reserved_word(str(name), token_span(name)))
        return ast.Ident(str(name), len(c) == 2, span=span_of(c))

    def call(self, c: list[Child]) -> ast.Expr:
        absolute = str(c[0]) == "."
        name = c[1] if absolute else c[0]
        assert is_token(name)
        args = self._args(c)
        span = span_of(c)
        if str(name) == "has" and len(args) == 1 and not absolute:
            if isinstance(args[0], ast.Select | ast.Index) and not args[0].optional:
                return ast.Has(args[0], span=span)
            raise ParseError(catalogue.has_needs_selection(args[0].span))
        if str(name) in RESERVED:
            raise ParseError(catalogue.reserved_word(str(name), token_span(name)))
        return ast.Call(str(name), None, args, absolute, span=span, name_span=token_span(name))

    def element(self, c: list[Child]) -> tuple[ast.Expr, bool]:
        """An item of a list, and whether it is optional."""
        (value,) = nodes(c)
        return value, len(c) == 2

    def list_literal(self, c: list[Child]) -> ast.Expr:
        elements = [e for e in c if isinstance(e, tuple)]
        optional = tuple(i for i, (_, is_optional) in enumerate(elements) if is_optional)
        return ast.ListLiteral(tuple(value for value, _ in elements), optional, span=span_of(c))

    def entry(self, c: list[Child]) -> ast.MapEntry:
        key, value = nodes(c)
        return ast.MapEntry(key, value, is_token(c[0]))

    def map_literal(self, c: list[Child]) -> ast.MapLiteral:
        return ast.MapLiteral(tuple(e for e in c if isinstance(e, ast.MapEntry)), span=span_of(c))

    def literal(self, c: list[Child]) -> ast.Expr:
        (token,) = c
        assert is_token(token)
        span = token_span(token)
        match token.type:
            case "INT":
                return ast.Literal(parse_int(str(token)), INT, span=span)
            case "FLOAT":
                return ast.Literal(float(str(token)), DOUBLE, span=span)
            case "STRING":
                return ast.Literal(text_of(token), STRING, span=span)
            case "AMOUNT":
                return ast.Literal(str(token), STRING, span=span)
            case "TRUE" | "FALSE":
                return ast.Literal(token.type == "TRUE", BOOL, span=span)
            case "NULL":
                return ast.Literal(None, NULL, span=span)
            case kind:
                raise ParseError(catalogue.no_such_literal(kind, str(token), span))


def _method(
    name: str, target: ast.Expr, args: tuple[ast.Expr, ...], span: Span, name_span: Span
) -> ast.Expr:
    """A method call, or a macro if its name and number of arguments match one."""
    if name == "bind" and len(args) == 3 and isinstance(target, ast.Ident) and target.name == "cel":
        return ast.Comprehension(
            "cel.bind", args[1], _variables(name, args[:1]), args[2:], span=span
        )
    count = MACRO_VARIABLES.get((name, len(args)))
    if count is None:
        return ast.Call(name, target, args, False, span=span, name_span=name_span)
    return ast.Comprehension(name, target, _variables(name, args[:count]), args[count:], span=span)


def _variables(macro: str, args: tuple[ast.Expr, ...]) -> tuple[str, ...]:
    for argument in args:
        if not isinstance(argument, ast.Ident) or argument.absolute:
            raise ParseError(catalogue.macro_variable(macro, argument.span))
    names = tuple(a.name for a in args if isinstance(a, ast.Ident))
    if len(set(names)) != len(names):
        raise ParseError(catalogue.same_variable_twice(names[0], args[1].span))
    return names


# ---- templates

_CLOSERS = {"{": "}", "[": "]", "(": ")"}


def template(token: SyntaxToken, parse_hole: Callable[[str, int], ast.Expr]) -> Template:
    """The parts of a STRING token; holes are parsed at their offsets, which gives right spans."""
    text_of(token)  # the whole string must be valid
    raw = str(token)
    plain = raw[0] in "rR"
    quotes = 3 if raw[plain : plain + 3] in ('"""', "'''") else 1
    start, end = plain + quotes, len(raw) - quotes
    parts: list[str | ast.Expr] = []
    text = ""
    at = start
    while at < end:
        char = raw[at]
        if char == "\\" and not plain:
            text += raw[at : at + 2]
            at += 2
        elif char in "{}" and raw[at : at + 2] == char * 2:
            text += char
            at += 2
        elif char == "{":
            close = _closing(raw, at, end, token)
            if not raw[at + 1 : close].strip():
                where = _at(token, at, close + 1)
                raise ParseError(catalogue.empty_hole(raw[at : close + 1], where))
            if text:
                parts.append(unquote(raw[:start] + text + raw[end:]))
                text = ""
            parts.append(parse_hole(raw[at + 1 : close], token.start_pos + at + 1))
            at = close + 1
        elif char == "}":
            raise ParseError(catalogue.bad_hole("`}` has no matching `{`", _at(token, at, at + 1)))
        else:
            text += char
            at += 1
    if text:
        parts.append(unquote(raw[:start] + text + raw[end:]))
    return Template(tuple(parts), span=token_span(token))


def _closing(raw: str, opening: int, end: int, token: SyntaxToken) -> int:
    """The offset of the brace that closes a hole, beyond quotes and inner brackets."""
    stack = ["}"]
    quote = ""
    for at in range(opening + 1, end):
        char = raw[at]
        if char == "\\":
            reason = "an expression in braces cannot contain a backslash"
            raise ParseError(catalogue.bad_hole(reason, _at(token, at, at + 1)))
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'`":
            quote = char
        elif char in _CLOSERS:
            stack.append(_CLOSERS[char])
        elif char == stack[-1]:
            stack.pop()
            if not stack:
                return at
    raise ParseError(catalogue.bad_hole("the `{` has no matching `}`", _at(token, opening, end)))


def _at(token: SyntaxToken, start: int, end: int) -> Span:
    return Span(token.start_pos + start, token.start_pos + end)
