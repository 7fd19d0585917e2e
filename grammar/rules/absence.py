"""Absence: conditions that are missing where their authors mean true or false.

A field or a key that is absent is missing, and never null: so is a negation of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from grammar.meaning.absence import (
    Key,
    key_read,
    unguarded,
    with_null,
)
from grammar.messages.diagnostics import Diagnostic
from grammar.rules.rule import ExpressionRule, Rule, Tree, conditions
from grammar.tree import ast
from grammar.tree.types import NULL, QUANTITY, STRING
from grammar.tree.walk import rewritten

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
                if value.type.name not in ("dyn", "error", "null"):
                    meant = _test(value, tree, there=expr.op == "!=")
                    yield self.instead(f"`{tree.shown(value)}` is never null", expr.span, meant)


def _test(value: ast.Expr, tree: Tree, *, there: bool) -> str:
    """The test whether a value is there, or absent."""
    if value.type.name == "optional":
        test = f"{tree.shown(value)}.hasValue()"
    elif isinstance(value, ast.Select | ast.Index):
        test = f"has({tree.shown(value)})"
    else:
        return "true" if there else "false"
    return test if there else f"!{test}"
