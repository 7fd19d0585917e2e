"""Fast paths: faster closures for the common shapes of expressions.

They rely on the types that the checker has found, and read values that are present directly. If a
part is absent, the general closure (`meaning`) decides what that means.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from engine.program import comparisons as amounts
from engine.program import item_kinds, macros, operations
from engine.program.compiler import Compiler, FastPath
from engine.program.frame import Evaluate
from engine.program.macros import Items, Sieve
from engine.program.operations import FieldChain
from grammar.tree import ast
from grammar.tree.types import BOOL, DURATION, QUANTITY, STRING, TIMESTAMP, map_of

# ---- chains of fields, which may end in a key of a map: `node.metadata.labels["k"]`


def field_chain(compiler: Compiler, expr: ast.Expr) -> FieldChain | None:
    """The expression as a chain; None for any other expression."""
    fields, key = expr, None
    if isinstance(expr, ast.Index):
        if expr.operand.type.name != "map" or expr.optional:
            return None
        fields, key = expr.operand, text(expr.index)
        if key is None:
            return None
    found = _path(fields)
    if found is None:
        return None
    root, names = found
    slot = compiler.local(root)
    if slot is None:
        names = f"{root}.{names}"
    return FieldChain(attrgetter(names), slot, key, compiler.general(expr))


def text(expr: ast.Expr) -> str | None:
    """The text of a constant; None for any other expression."""
    return expr.value if isinstance(expr, ast.Literal) and isinstance(expr.value, str) else None


def _path(expr: ast.Expr) -> tuple[str, str] | None:
    """`node.metadata.labels` as a name and a path of attributes; every step is in a record."""
    names: list[str] = []
    while isinstance(expr, ast.Select) and expr.operand.type.is_record and not expr.optional:
        names.append(expr.name)
        expr = expr.operand
    if not names or not isinstance(expr, ast.Ident) or expr.absolute:
        return None
    return expr.name, ".".join(reversed(names))


def value(compiler: Compiler, expr: ast.Expr) -> Evaluate | None:
    """The value of a chain; None for any other expression."""
    chain = field_chain(compiler, expr)
    return None if chain is None else operations.chain_value(chain)


def value_or_default(compiler: Compiler, expr: ast.Expr) -> Evaluate | None:
    """`labels[?"key"].orValue("")` without an optional; None for any other call."""
    match expr:
        case ast.Call("orValue", ast.Index(held, index, optional=True), (ast.Literal(other),)):
            chain, key = _texts(compiler, held), text(index)
        case _:
            return None
    return None if chain is None or key is None else operations.chain_get(chain, key, other)


def key_test(compiler: Compiler, expr: ast.Expr) -> Evaluate | None:
    """`"key" in labels`; None for any other operation."""
    if not isinstance(expr, ast.Binary) or expr.op != "in":
        return None
    chain, key = _texts(compiler, expr.right), text(expr.left)
    return None if chain is None or key is None else operations.chain_has(chain, key)


def _texts(compiler: Compiler, expr: ast.Expr) -> FieldChain | None:
    """The expression as a chain of the type map of texts; None for any other expression."""
    return field_chain(compiler, expr) if expr.type == map_of(STRING, STRING) else None


# ---- tests of texts and amounts: most of the conditions in rules

_AMOUNTS = frozenset({QUANTITY, DURATION, TIMESTAMP})
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
# Up to this number of texts a comparison with each is faster than a hash.
_FEW = 3


def comparison(compiler: Compiler, expr: ast.Expr) -> Evaluate | None:
    """A test of a text or an amount; None for any other operation."""
    if not isinstance(expr, ast.Binary):
        return None
    if (texts := text_test(expr)) is not None:
        test = operations.is_text(compiler.part(texts.operand), texts.known, wanted=texts.wanted)
        chain = field_chain(compiler, texts.operand)
        if chain is None:
            return test
        return operations.chain_is_text(chain, texts.known, test, wanted=texts.wanted)
    if (found := _amount_test(expr)) is not None:
        operand, least, wanted = found
        test = amounts.is_amount(compiler.part(operand), least, wanted=wanted)
        chain = field_chain(compiler, operand)
        return test if chain is None else amounts.chain_is_amount(chain, least, test, wanted=wanted)
    if expr.op in _MIRRORED and expr.left.type == expr.right.type and expr.left.type in _AMOUNTS:
        return amounts.compare_amounts(expr.op, compiler.part(expr.left), compiler.part(expr.right))
    return None


@dataclass(frozen=True, slots=True)
class TextTest:
    """`==`, `!=` or `in`: the operand is among the known texts, or not if not `wanted`."""

    operand: ast.Expr
    known: Container[object]
    wanted: bool


def text_test(expr: ast.Expr) -> TextTest | None:
    """The test of a text against constants; None for any other expression."""
    match _facing(expr):
        case (operand, "==" | "!=" as op, constant) if operand.type == STRING == constant.type:
            return TextTest(operand, (constant.value,), op == "==")
    match expr:
        case ast.Binary("in", operand, ast.ListLiteral(elements, ())) if operand.type == STRING:
            texts = tuple(
                e.value for e in elements if isinstance(e, ast.Literal) and e.type == STRING
            )
            if len(texts) == len(elements):
                return TextTest(operand, texts if len(texts) <= _FEW else frozenset(texts), True)
    return None


def _amount_test(expr: ast.Expr) -> tuple[ast.Expr, int, bool] | None:
    """The comparison with a constant, as `operand >= nanos` or, if not wanted, its negation."""
    match _facing(expr):
        case (operand, op, constant) if operand.type in _AMOUNTS and operand.type == constant.type:
            amount: Any = constant.value
            edge: int = amount.nanos
            match op:
                case ">=" | "<":
                    return operand, edge, op == ">="
                case ">" | "<=":
                    return operand, edge + 1, op == ">"
                case _:
                    return None
    return None


def _facing(expr: ast.Expr) -> tuple[ast.Expr, str, ast.Literal] | None:
    """A comparison with a constant, with the constant on the right."""
    match expr:
        case ast.Binary(op, left, ast.Literal() as right) if op in _MIRRORED:
            return left, op, right
        case ast.Binary(op, ast.Literal() as left, right) if op in _MIRRORED:
            return right, _MIRRORED[op], left
    return None


# ---- comparisons with the time: their results last until a moment that is known


def time_test(compiler: Compiler, expr: ast.Expr) -> Evaluate | None:
    """A comparison such as `node.age > duration("1h")`; None if it does not follow `now`."""
    if not isinstance(expr, ast.Binary) or expr.op not in _MIRRORED:
        return None
    if expr.left.type != expr.right.type or expr.left.type not in (TIMESTAMP, DURATION):
        return None
    sides = _Following(compiler)
    left, right = sides.sign(expr.left, {}), sides.sign(expr.right, {})
    if left is None or right is None or abs(left - right) != 1:
        return None
    parts = compiler.timed_part(expr.left), compiler.timed_part(expr.right)
    return amounts.until_it_turns(expr.op, *parts, rises=left > right)


# Zones differ by whole minutes.
_OF_MINUTES = frozenset(
    {"getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear"}
) | {"getHours", "getMinutes"}


def calendar(compiler: Compiler, expr: ast.Expr) -> Evaluate | None:
    """A part of the calendar of `now`, such as `now.getHours("Europe/Paris")`."""
    match expr:
        case ast.Call(function, ast.Ident("now") as target) if function in _OF_MINUTES:
            if target.absolute or compiler.local("now") is None:
                return amounts.until_the_next_minute(compiler.timed_part(expr, general=True))
    return None


class _Following:
    """What follows `now`: sums and differences in which it occurs at most once."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._environment = compiler.environment

    def sign(self, expr: ast.Expr, parameters: Mapping[str, int]) -> int | None:
        """1 if the value rises with `now`, -1 if it falls, 0 if it stays, None for anything else.

        `parameters` has the signs of the parameters around the expression.
        """
        match expr:
            case ast.Ident(name, absolute=False) if name in parameters:
                return parameters[name]
            case ast.Ident("now") if expr.absolute or self._compiler.local("now") is None:
                return 1
            case ast.LetReference(name):
                return self.sign(self._environment.lets[name], {})
            case ast.DefCall(name, args):
                known = self._environment.defs[name]
                signs = [self.sign(arg, parameters) for arg in args]
                if None in signs:
                    return None
                named = zip(known.parameters, signs, strict=True)
                given = {p.name: sign for p, sign in named if sign is not None}
                return self.sign(known.body, given)
            case ast.Chain("+", operands):
                return self._sum([(operand, 1) for operand in operands], parameters)
            case ast.Binary("-", left, right):
                return self._sum([(left, 1), (right, -1)], parameters)
            case _:
                names = {"now", *(name for name, sign in parameters.items() if sign)}
                reads = self._compiler.stages.reads
                return None if any(reads(expr, name) for name in names) else 0

    def _sum(
        self, terms: Sequence[tuple[ast.Expr, int]], parameters: Mapping[str, int]
    ) -> int | None:
        signs = [(self.sign(term, parameters), times) for term, times in terms]
        found = [sign * times for sign, times in signs if sign]
        if any(sign is None for sign, _ in signs) or len(found) > 1:
            return None
        return found[0] if found else 0


# ---- macros with one variable over a list: a plain loop in one closure


def loop(compiler: Compiler, expr: ast.Expr) -> Evaluate | None:
    """A macro with one variable over a list; None for other macros and other targets."""
    if not isinstance(expr, ast.Comprehension):
        return None
    if expr.target.type.name != "list" or len(expr.variables) != 1 or len(expr.body) != 1:
        return None
    (body,) = expr.body
    if expr.macro not in ("all", "exists", "filter", "map"):
        return None
    if expr.macro != "map" and body.type != BOOL:
        return None
    items = _items(compiler, expr.target, compiler.weight(expr))
    slot = compiler.slot()
    if expr.macro == "map":
        return macros.map_list(items, slot, compiler.with_locals({expr.variables[0]: slot}, body))
    each = _test_each(compiler, expr, items, slot)
    kinds = compiler.item_kinds(expr, items, slot)
    if kinds is None:
        return each
    if expr.macro == "filter":
        return item_kinds.filter_list(kinds, each)
    return item_kinds.search(kinds, each, decisive=expr.macro == "exists")


def _test_each(compiler: Compiler, expr: ast.Comprehension, items: Items, slot: int) -> Evaluate:
    """The closure of an `all`, an `exists` or a `filter` that tests the items one by one."""
    (body,), names = expr.body, {expr.variables[0]: slot}
    if expr.macro == "filter":
        return macros.filter_list(items, slot, compiler.with_locals(names, body))
    decisive = expr.macro == "exists"
    sieve = _sieve(compiler, expr)
    if sieve is None:
        return macros.search(items, slot, compiler.with_locals(names, body), decisive=decisive)
    if sieve.rest is None:
        return macros.sift(items, sieve, decisive=decisive)
    rest = compiler.with_locals(names, sieve.rest)
    return macros.search(macros.sifted(items, sieve), slot, rest, decisive=decisive)


def _items(compiler: Compiler, target: ast.Expr, weight: int) -> Items:
    """The items of the target; a chain of fields is read directly."""
    chain, read = field_chain(compiler, target), compiler.part(target)
    is_direct = chain is not None and chain.slot is None and chain.key is None
    direct = chain.fields if chain is not None and is_direct else read
    return macros.list_items(read, direct, weight)


def _sieve(compiler: Compiler, expr: ast.Comprehension) -> Sieve | None:
    """The sieve of an `all` or `exists`; None if it does not start with the test of a field."""
    exists = expr.macro == "exists"
    (body,) = expr.body
    first, rest = body, None
    if isinstance(body, ast.Chain) and body.op == ("&&" if exists else "||"):
        first, *others = body.operands
        rest = others[0] if len(others) == 1 else replace(body, operands=tuple(others))
    test = text_test(first)
    if test is None or (rest is not None and rest.type != BOOL):
        return None
    match test.operand:
        case ast.Select(ast.Ident(name, absolute=False) as item, field, optional=False) if (
            name == expr.variables[0] and item.type.is_record
        ):
            known = compiler.environment.field(item.type, field)
            # An absent field is None here but "" in the rule, so neither may be a known text.
            if known is not None and not known.optional and "" not in test.known:
                return Sieve(field, test.known, test.wanted is exists, rest)
    return None


# In this order: the first one that takes an expression makes its closure.
FAST_PATHS: tuple[FastPath, ...] = (
    value,
    value_or_default,
    key_test,
    time_test,
    calendar,
    comparison,
    loop,
)
