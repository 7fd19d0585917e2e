"""Absence: comparisons with null that cannot be true, and `has` of a part of what may be absent.

An absent field or key is missing, and never null. These checks look at policies that are written
out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from grammar.checker.policy_checker import Checked
from grammar.meaning.absence import guards, may_be_absent
from grammar.meaning.environment import Environment
from grammar.meaning.schema import Schema, print_as_written
from grammar.messages.diagnostics import Diagnostic
from grammar.tree import ast
from grammar.tree.clauses import Clause
from grammar.tree.printer import print_expression
from grammar.tree.types import NULL, Type
from grammar.tree.walk import children, walk

# ---- null


def comparisons_with_null(expr: ast.Expr, environment: Environment) -> Iterator[Diagnostic]:
    """A warning (P0330) for a comparison of null with what is never null."""
    match expr:
        case ast.Binary("==" | "!=", left, right) if (left.type == NULL) != (right.type == NULL):
            value = right if left.type == NULL else left
            if not _may_be_null(value.type):
                yield _never_null(value, expr, environment)
        case ast.Binary("in", value, ast.ListLiteral(elements)) if not _may_be_null(value.type):
            for element in elements:
                if element.type == NULL:
                    shown = print_as_written(value, environment.schema)
                    message = f"`{shown}` is never null"
                    hint = "leave it out"
                    if isinstance(value, ast.Select | ast.Index):
                        test = _remedy(value, environment, there=False)
                        hint = f"leave it out; `{test}` is true where it is absent"
                    yield Diagnostic("P0330", "warning", message, element.span, hint=hint)
        case _:
            return


def _may_be_null(found: Type) -> bool:
    return found.name in ("dyn", "error", "null")


def _never_null(value: ast.Expr, expr: ast.Binary, environment: Environment) -> Diagnostic:
    shown = print_as_written(value, environment.schema)
    message = f"`{shown}` is never null: where it is absent, it is missing"
    if value.type.name == "optional" or not may_be_absent(value, environment.schema):
        message = f"`{shown}` is never null"
    hint = f"write `{_remedy(value, environment, there=expr.op == '!=')}`"
    return Diagnostic("P0330", "warning", message, expr.span, hint=hint)


def _remedy(value: ast.Expr, environment: Environment, *, there: bool) -> str:
    """The test whether a value is there, or absent."""
    schema = environment.schema
    shown = print_as_written(value, schema)
    if value.type.name == "optional":
        test = f"{shown}.hasValue()"
    elif not isinstance(value, ast.Select | ast.Index):
        return "true" if there else "false"
    elif any(may_be_absent(part, schema) for part in _above(value)):
        test = f"{print_as_written(_optionally(value, schema), schema)}.hasValue()"
    else:
        test = f"has({shown})"
    return test if there else f"!{test}"


# ---- `has` below what may be absent


def has_below_absent(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0334) for each `has` that is missing, not false, if a part before it is absent.

    It makes a difference where missing and false do: behind a `!`, for example.
    """
    policy = checked.policy
    if not any(isinstance(e, ast.Has) for e in walk(policy)):
        return
    selected = frozenset[str]()
    if policy.selector is not None:
        yield from _in(policy.selector, selected, checked, alike=True)
        selected = guards(policy.selector)
    for item in policy.items:
        if not isinstance(item, Clause):
            continue
        known = selected
        if item.when is not None:
            yield from _in(item.when, known, checked, alike=True)
            known |= guards(item.when)
        for expr, alike in _roots(item):
            yield from _in(expr, known, checked, alike=alike)
            if expr in item.requirements:
                known |= guards(expr)


def _roots(clause: Clause) -> Iterator[tuple[ast.Expr, bool]]:
    """The expressions of a clause, and whether missing is the same as false for each."""
    for condition in clause.conditions:
        # A rule for missing values says what is meant.
        if condition.word != "when" and condition.missing is None:
            yield condition.expr, condition.word != "protect"
    yield from ((value.expr, value.like_false) for value in clause.values)


def _in(
    expr: ast.Expr, known: frozenset[str], checked: Checked, *, alike: bool
) -> Iterator[Diagnostic]:
    """The warnings in an expression; `known` are the parts that are sure to be there.

    `alike` says that it makes no difference whether the expression is missing or false.
    """
    match expr:
        case ast.Has(operand):
            schema = checked.environment.schema
            if not alike and (above := _unknown_above(operand, known, schema)) is not None:
                yield _has_warning(expr, above, checked)
            yield from _in(operand.operand, known, checked, alike=False)
        case ast.Chain("&&" | "||", operands):
            for each in operands:
                yield from _in(each, known, checked, alike=alike)
                known |= guards(each)
        case ast.Conditional(condition, then, otherwise):
            yield from _in(condition, known, checked, alike=False)
            known |= guards(condition)
            yield from _in(then, known, checked, alike=alike)
            yield from _in(otherwise, known, checked, alike=alike)
        case ast.Comprehension("all" | "exists", target, _, body):
            yield from _in(target, known, checked, alike=False)
            for part in body:
                yield from _in(part, known, checked, alike=alike)
        case _:
            for child in children(expr):
                yield from _in(child, known, checked, alike=False)


def _unknown_above(
    operand: ast.Expr, known: frozenset[str], schema: Schema | None
) -> ast.Expr | None:
    """The first part before a field or key that may be absent, and is not sure to be there."""
    above = [part for part in _above(operand) if may_be_absent(part, schema)]
    return next((part for part in above if print_expression(part) not in known), None)


def _above(expr: ast.Expr) -> list[ast.Expr]:
    """The fields and keys before the last one, from the outside in: `a.b` and `a` of `a.b.c`."""
    found: list[ast.Expr] = []
    below: ast.Expr = expr
    while isinstance(below, ast.Select | ast.Index):
        below = below.operand
        found.append(below)
    return found[:-1][::-1]


def _optionally(expr: ast.Select | ast.Index, schema: Schema | None) -> ast.Expr:
    """The same read as an optional: `a.?b.?c` for `a.b.c` in which `b` may be absent."""
    return replace(expr, operand=_marked(expr.operand, schema), optional=True)


def _marked(expr: ast.Expr, schema: Schema | None) -> ast.Expr:
    if not isinstance(expr, ast.Select | ast.Index):
        return expr
    is_optional = expr.optional or may_be_absent(expr, schema)
    return replace(expr, operand=_marked(expr.operand, schema), optional=is_optional)


def _has_warning(expr: ast.Has, above: ast.Expr, checked: Checked) -> Diagnostic:
    schema = checked.environment.schema
    shown = print_as_written(above, schema)
    message = f"`{shown}` may be absent: this `has` is then missing, and not false"
    test = f"{print_as_written(_optionally(expr.operand, schema), schema)}.hasValue()"
    return Diagnostic("P0334", "warning", message, expr.span, hint=f"write `{test}`")
