"""Contradictions: filters that no node passes together, and filters that others imply.

The rules compare, for each path, the values that pass. Any condition without such values must be
true, or false behind a `!`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from grammar.meaning.allowed import Allowed, allowed_by, conjuncts, exclude_each_other
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.rules.rule import Rule, Tree
from grammar.tree import ast
from grammar.tree.clauses import Filter, of_kind
from grammar.tree.printer import print_expression
from grammar.tree.source import Span


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A requirement of a filter that compares a path with constants."""

    path: str
    allowed: Allowed
    expr: ast.Expr
    clause: Filter


class NoNodePasses(Rule):
    """Conditions that no node passes together."""

    code = "P0310"
    wrong = (
        'filter "first zone" { require node.zone == "eu-1a" }\n'
        'filter "second zone" { require node.zone == "eu-1b" }'
    )
    right = 'filter "either zone" { require node.zone in ["eu-1a", "eu-1b"] }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for clause in _filters(tree):
            for require in clause.requires if clause.when is not None else ():
                if clause.when is not None and exclude_each_other(clause.when, require):
                    message = "no node for which the `when` is true passes this"
                    hint = "correct one of them, or turn the `when` into the opposite `require`"
                    yield self.found(message, require.span, hint)
        for earlier, later, is_empty in _pairs(tree):
            if is_empty:
                message = "no node can pass both conditions"
                hint = "correct one of them: otherwise every pod of this policy stays pending"
                notes = (_requirement(earlier, tree),)
                found = self.found(message, later.expr.span, hint)
                yield replace(found, label="and this one", notes=notes)


class NeverRejects(Rule):
    """A filter that rejects no node, because an earlier one or its `when` says the same."""

    code = "P0311"
    wrong = (
        'filter "room" { require node.free["memory"] >= "8Gi" }\n'
        'filter "some room" { require node.free["memory"] >= "4Gi" }'
    )
    right = 'filter "room" { require node.free["memory"] >= "8Gi" }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for clause in _filters(tree):
            if clause.when is None or not clause.requires:
                continue
            known = conjuncts(clause.when)
            parts = (part for each in clause.requires for part in conjuncts(each))
            if all(_implied_by(known, part) for part in parts):
                message = "this is what the `when` says, so the filter rejects no node"
                hint = "leave out the `when`, or require something else"
                edit = Fix(Span(clause.name_span.end, clause.when.span.end), "")
                yield self.found(message, clause.requires[0].span, hint, edit)
        for earlier, later, is_empty in _pairs(tree):
            if not is_empty:
                hint = f"delete it: {_requirement(earlier, tree)}"
                yield self.found("this condition never rejects a node", later.expr.span, hint)


def _filters(tree: Tree) -> tuple[Filter, ...]:
    return tuple(c for c in of_kind(tree.written.items, Filter) if not c.at_bind)


def _pairs(tree: Tree) -> Iterator[tuple[_Comparison, _Comparison, bool]]:
    """Two comparisons of which no value passes both (true), or of which one implies the other."""
    comparisons = [comparison for each in _filters(tree) for comparison in _comparisons(each)]
    for number, later in enumerate(comparisons):
        for earlier in comparisons[:number]:
            # Without a `when`, the earlier filter applies whenever the later one does.
            together = earlier.clause.when in (None, later.clause.when)
            if later.path != earlier.path or not together:
                continue
            merged = earlier.allowed.both(later.allowed)
            implied = merged == earlier.allowed and later.clause.missing == earlier.clause.missing
            if merged.empty or implied:
                yield earlier, later, merged.empty
                break


def _implied_by(known: Iterable[ast.Expr], part: ast.Expr) -> bool:
    """Whether one of several conditions is never true without this one."""
    wanted = allowed_by(part)
    for each in known:
        given = allowed_by(each)
        if each == part:
            return True
        if given is None or wanted is None or given[0] != wanted[0]:
            continue
        if given[1].both(wanted[1]) == given[1]:
            return True
    return False


def _comparisons(clause: Filter) -> Iterator[_Comparison]:
    for require in clause.requires:
        for part in conjuncts(require):
            if (found := allowed_by(part) or _holding(part)) is not None:
                yield _Comparison(found[0], found[1], part, clause)


def _holding(expr: ast.Expr) -> tuple[str, Allowed] | None:
    """A condition that is no comparison, and that it must be true, or false behind a `!`."""
    if isinstance(expr, ast.Literal):
        return None
    holds = not (isinstance(expr, ast.Unary) and expr.op == "!")
    inner = expr.operand if isinstance(expr, ast.Unary) else expr
    return print_expression(inner), Allowed(frozenset({holds}))


def _requirement(earlier: _Comparison, tree: Tree) -> str:
    return f"filter `{earlier.clause.name}` already requires `{tree.shown(earlier.expr)}`"
