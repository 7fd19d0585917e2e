"""Absence: conditions that are missing where their authors mean true or false.

A field or a key that is absent is missing, and never null: so is a negation of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from grammar.meaning.absence import (
    Key,
    guards,
    key_read,
    may_be_absent,
    unguarded,
    with_null,
)
from grammar.meaning.schema import Schema
from grammar.messages.diagnostics import Diagnostic
from grammar.rules.rule import ExpressionRule, Rule, Tree, conditions
from grammar.tree import ast
from grammar.tree.clauses import Clause
from grammar.tree.printer import print_expression
from grammar.tree.types import NULL, QUANTITY, STRING, Type
from grammar.tree.walk import children, rewritten

_WORDS = frozenset({"require", "for", "when", "pods where"})


class AbsentNegation(Rule):
    """A negation of a key that may be absent, which is missing then, and not true."""

    code = "P0301"
    wrong = 'filter "no spinning disks" { require node.labels["disk"] != "hdd" }'
    right = 'filter "no spinning disks" { require node.labels[?"disk"].orValue("") != "hdd" }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for condition in conditions(tree.written):
            if condition.missing is not None or condition.word not in _WORDS:
                continue
            for key, negation in unguarded(condition.expr, _negated_key):
                message = (
                    f"`{tree.shown(key)}` may be absent: the condition is then missing and does"
                    " not hold"
                )
                safe = _safe(key, negation, tree)
                hint = f"write `{safe}`, or add `missing pass` or `missing fail`"
                yield self.found(message, negation.span, hint)


class AbsentProtection(Rule):
    """A label that may be absent in `protect`, so that every victim without it is protected."""

    code = "P0317"
    wrong = 'preempt "databases" { protect victim where victim.labels["db"] == "1" }'
    right = 'preempt "databases" { protect victim where victim.labels[?"db"].orValue("") == "1" }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for condition in tree.conditions():
            if condition.word == "protect" and condition.missing is None:
                for key, read in unguarded(condition.expr, key_read):
                    shown, safe = tree.shown(key), _safe(key, read, tree)
                    message = f"`{shown}` may be absent: every victim without it is then protected"
                    hint = f"write `{safe}`, or add `missing pass`, or `missing fail` to keep it so"
                    yield self.found(message, read.span, hint)


def _negated_key(expr: ast.Expr) -> Key | None:
    """The key that a negation is about."""
    negated: ast.Expr | None = None
    match expr:
        case ast.Binary("!=", left, right):
            negated = right if isinstance(left, ast.Literal) else left
        case ast.Unary("!", ast.Binary("==" | "in", left, right) as test) if not with_null(test):
            negated = right if isinstance(left, ast.Literal) else left
        case ast.Unary("!", ast.Call("matches" | "startsWith" | "endsWith" | "contains", target)):
            negated = target
        case _:
            pass
    return None if negated is None else key_read(negated)


def _safe(key: Key, whole: ast.Expr, tree: Tree) -> str:
    """The text of an expression in which an absent key has an empty value, or no amount."""
    name = key.index if isinstance(key, ast.Index) else ast.Literal(key.name, STRING)
    read = ast.Index(key.operand, name, optional=True)
    empty = ast.Literal("0" if key.type == QUANTITY else "", STRING)
    safe = ast.Call("orValue", read, (empty,))
    return tree.shown(rewritten(whole, lambda node: safe if node is key else node))


class NullComparison(ExpressionRule):
    """A comparison of null with what is never null."""

    code = "P0330"
    wrong = 'filter "not dedicated" { require node.labels["dedicated"] == null }'
    right = 'filter "not dedicated" { require !has(node.labels["dedicated"]) }'

    def at(self, expr: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
        match expr:
            case ast.Binary("==" | "!=", left, right) if (left.type == NULL) != (
                right.type == NULL
            ):
                value = right if left.type == NULL else left
                if not _may_be_null(value.type):
                    schema = tree.environment.schema
                    message = f"`{tree.shown(value)}` is never null"
                    if value.type.name != "optional" and may_be_absent(value, schema):
                        message += ": where it is absent, it is missing"
                    yield self.instead(
                        message, expr.span, _test(value, tree, there=expr.op == "!=")
                    )


def _may_be_null(found: Type) -> bool:
    return found.name in ("dyn", "error", "null")


def _test(value: ast.Expr, tree: Tree, *, there: bool) -> str:
    """The test whether a value is there, or absent."""
    schema = tree.environment.schema
    if value.type.name == "optional":
        test = f"{tree.shown(value)}.hasValue()"
    elif not isinstance(value, ast.Select | ast.Index):
        return "true" if there else "false"
    elif any(may_be_absent(part, schema) for part in _above(value)):
        test = f"{tree.shown(_optionally(value, schema))}.hasValue()"
    else:
        test = f"has({tree.shown(value)})"
    return test if there else f"!{test}"


class HasBelowAbsent(Rule):
    """A `has` that is missing, and not false, if a part before its field is absent.

    Where missing is the same as false, as in a `require`, it makes no difference.
    """

    code = "P0334"
    wrong = 'filter "anywhere" { require !has(pod.spec.affinity.nodeAffinity) || node.ready }'
    right = (
        'filter "anywhere" { require !pod.spec.?affinity.?nodeAffinity.hasValue() || node.ready }'
    )

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        if ast.Has not in tree.by_kind:
            return
        policy = tree.policy
        selected = frozenset[str]()
        if policy.selector is not None:
            yield from self._in(policy.selector, selected, tree, alike=True)
            selected = guards(policy.selector)
        for clause in (item for item in policy.items if isinstance(item, Clause)):
            known = selected
            if clause.when is not None:
                yield from self._in(clause.when, known, tree, alike=True)
                known |= guards(clause.when)
            for expr, alike in _roots(clause):
                yield from self._in(expr, known, tree, alike=alike)
                if expr in clause.requirements:
                    known |= guards(expr)

    def _in(
        self, expr: ast.Expr, known: frozenset[str], tree: Tree, *, alike: bool
    ) -> Iterator[Diagnostic]:
        """The mistakes in an expression; `known` are the parts that are sure to be there.

        `alike` says that it makes no difference whether the expression is missing or false.
        """
        match expr:
            case ast.Has(operand):
                schema = tree.environment.schema
                above = [part for part in _above(operand) if may_be_absent(part, schema)]
                first = next((p for p in above if print_expression(p) not in known), None)
                if not alike and first is not None:
                    shown = tree.shown(first)
                    message = f"`{shown}` may be absent: this `has` is then missing, and not false"
                    test = f"{tree.shown(_optionally(operand, schema))}.hasValue()"
                    yield self.found(message, expr.span, f"write `{test}`")
                yield from self._in(operand.operand, known, tree, alike=False)
            case ast.Chain("&&" | "||", operands):
                for each in operands:
                    yield from self._in(each, known, tree, alike=alike)
                    known |= guards(each)
            case ast.Conditional(condition, then, otherwise):
                yield from self._in(condition, known, tree, alike=False)
                known |= guards(condition)
                yield from self._in(then, known, tree, alike=alike)
                yield from self._in(otherwise, known, tree, alike=alike)
            case ast.Comprehension("all" | "exists", target, _, body):
                yield from self._in(target, known, tree, alike=False)
                for part in body:
                    yield from self._in(part, known, tree, alike=alike)
            case _:
                for child in children(expr):
                    yield from self._in(child, known, tree, alike=False)


def _roots(clause: Clause) -> Iterator[tuple[ast.Expr, bool]]:
    """The expressions of a clause, and whether missing is the same as false for each."""
    for condition in clause.conditions:
        # A rule for missing values says what is meant.
        if condition.word != "when" and condition.missing is None:
            yield condition.expr, condition.word != "protect"
    yield from ((value.expr, value.like_false) for value in clause.values)


def _above(expr: ast.Expr) -> list[ast.Expr]:
    """The fields and keys before the last one, from the outside in: `a.b` and `a` of `a.b.c`."""
    found: list[ast.Expr] = []
    below: ast.Expr = expr
    while isinstance(below, ast.Select | ast.Index):
        below = below.operand
        found.append(below)
    return found[:-1][::-1]


def _optionally(expr: Key, schema: Schema | None) -> ast.Expr:
    """The same read as an optional: `a.?b.?c` for `a.b.c` in which `b` may be absent."""
    return replace(expr, operand=_marked(expr.operand, schema), optional=True)


def _marked(expr: ast.Expr, schema: Schema | None) -> ast.Expr:
    if not isinstance(expr, ast.Select | ast.Index):
        return expr
    is_optional = expr.optional or may_be_absent(expr, schema)
    return replace(expr, operand=_marked(expr.operand, schema), optional=is_optional)
