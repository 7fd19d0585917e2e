"""Checks of conditions: constant ones, contradictions, and negations of keys that may be absent.

A condition is an expression that must be true for something to happen: `for`, `when`, `require`,
`on nodes where`, `pods where`, `protect` and `allow`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from grammar.checker.policy_checker import Checked
from grammar.meaning.absence import Key, key_read, unguarded, with_null
from grammar.meaning.allowed import Allowed, allowed_by, conjuncts, exclude_each_other
from grammar.meaning.folding import fold
from grammar.meaning.schema import Schema, print_as_written
from grammar.messages.diagnostics import Diagnostic, Fix, write_instead
from grammar.tree import ast
from grammar.tree.clause_parts import WrittenCondition
from grammar.tree.clauses import (
    Clause,
    Filter,
    ForPods,
    Policy,
    of_kind,
)
from grammar.tree.printer import print_expression
from grammar.tree.source import Span
from grammar.tree.types import BOOL, QUANTITY, STRING
from grammar.tree.walk import rewritten, walk


def conditions(policy: Policy) -> Iterator[WrittenCondition]:
    """Every condition of a policy, in the order of its items."""
    for item in policy.items:
        if isinstance(item, ForPods):
            yield WrittenCondition(item.where, "for")
        elif isinstance(item, Clause):
            yield from item.conditions


# ---- constant conditions


# What a constant condition means for the policy.
_MEANING = {
    ("require", False): "no node can pass it",
    ("require", True): "every node passes it",
    ("when", False): "the clause never applies",
    ("when", True): "the clause always applies",
    ("for", False): "the policy selects no pod",
}


def constant_conditions(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0302) for each condition or operand that is always true or always false.

    `for pods where true` is legal: it selects all pods. So is `for pods where false`, in a policy
    that only other policies use.
    """
    for condition in conditions(checked.policy):
        # That all pods count, or that all are protected, cannot be said in another way.
        if condition.word in ("pods where", "protect") and condition.expr == ast.Literal(
            True, BOOL
        ):
            continue
        folded = fold(condition.expr, checked.environment)
        if isinstance(folded, ast.Literal) and isinstance(folded.value, bool):
            if condition.word == "for" and (folded.value or condition.expr == folded):
                continue
            meaning = _MEANING.get((condition.word, folded.value))
            yield _warning(condition.expr, folded.value, meaning)
        elif isinstance(condition.expr, ast.Chain):
            yield from _tested_operands(condition.expr, checked)


def _tested_operands(chain: ast.Chain, checked: Checked) -> Iterator[Diagnostic]:
    for operand in chain.operands:
        folded = fold(operand, checked.environment)
        if isinstance(folded, ast.Literal) and isinstance(folded.value, bool):
            yield _warning(operand, folded.value, f"remove it from the `{chain.op}`")


def _warning(expr: ast.Expr, value: object, meaning: str | None) -> Diagnostic:
    return Diagnostic(
        "P0302", "warning", f"this is always {str(value).lower()}", expr.span, hint=meaning
    )


# ---- operators that are read another way


def misread_operators(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0361) for `x == "a" || x == "b" && y`, and for `in` before a map."""
    schema = checked.environment.schema
    for expr in walk(checked.policy):
        match expr:
            case ast.Chain("||", operands):
                for meant in _misread(operands):
                    texts = [print_as_written(_of_any(each, expr), schema) for each in meant]
                    if in_parentheses(expr):
                        texts = [f"({text})" for text in texts]
                    message = "`&&` goes before `||`, so a part of this is about one value"
                    hint = f"write `{texts[0]}`, or `{texts[1]}` if that is meant"
                    edit = Fix(expr.span, texts[0])
                    yield Diagnostic("P0361", "warning", message, expr.span, hint=hint, remedy=edit)
            case ast.Binary("in", _, ast.MapLiteral(entries) as map_) if entries and any(
                not isinstance(e.value, ast.Literal) or e.value.value is not True for e in entries
            ):
                keys = ", ".join(print_as_written(e.key, schema) for e in entries)
                message = "`in` looks at the keys of a map, and not at its values"
                yield write_instead("P0361", message, map_.span, f"[{keys}]")
            case _:
                continue


def in_parentheses(chain: ast.Chain) -> bool:
    """Whether the span of a chain begins with a parenthesis."""
    return chain.span.start < chain.operands[0].span.start


_Operands = tuple[ast.Expr, ...]


def _of_any(operands: _Operands, whole: ast.Chain) -> ast.Expr:
    return operands[0] if len(operands) == 1 else replace(whole, operands=operands)


def _misread(operands: _Operands) -> Iterator[tuple[_Operands, _Operands]]:
    """The operands of `||` where an `&&` without parentheses cuts a choice: as they may be meant.

    In the first ones the choice is whole. The second ones mean the same as those that are given.
    The choice is before the `&&`, or behind it where everything is read from the end.
    """
    for step in (1, -1):
        line = operands[::step]
        for number, chain in enumerate(line):
            if not isinstance(chain, ast.Chain) or in_parentheses(chain):
                continue
            first, *rest = chain.operands[::step]
            path, start = _chosen(first), number
            while path is not None and start > 0 and _chosen(line[start - 1]) == path:
                start -= 1
            if start == number or any(str(path) in print_expression(p) for p in rest):
                continue
            same, behind = line[start:number], line[number + 1 :]
            choice = ast.Chain("||", (*same, first)[::step], type=BOOL)
            whole = replace(chain, operands=(choice, *rest)[::step])
            turned = (*line[:start], chain, *same, *behind)[::step]
            yield (*line[:start], whole, *behind)[::step], turned
            return


def _chosen(expr: ast.Expr) -> str | None:
    """What of a pod or a node an expression compares with one constant."""
    match expr:
        case ast.Binary("==", read, ast.Literal()) | ast.Binary("==", ast.Literal(), read):
            # A variable of a macro has several parts, which mostly are conditions of each other.
            declared = any(isinstance(e, ast.Ident) and e.name in _DECLARED for e in walk(read))
            return print_expression(read) if declared else None
        case _:
            return None


_DECLARED = frozenset({"namespaceObject", "node", "peer", "pod", "victim"})


# ---- contradictions
#
# For each path that filters compare with constants: the set of strings, or the interval of numbers,
# that passes. There is no solver: any other condition is ignored. So every finding is right, and
# some contradictions are not found.


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A requirement of a filter that compares a path with constants."""

    path: str
    allowed: Allowed
    expr: ast.Expr
    clause: Filter


def contradictions(checked: Checked) -> Iterator[Diagnostic]:
    """Warnings for filters that no node passes together (P0310) or that others imply (P0311)."""
    filters = [c for c in of_kind(checked.policy.items, Filter) if not c.at_bind]
    yield from _beside_when(filters)
    comparisons = [comparison for f in filters for comparison in _comparisons(f)]
    for number, later in enumerate(comparisons):
        for earlier in comparisons[:number]:
            # Without a `when`, the earlier filter applies whenever the later one does.
            together = earlier.clause.when in (None, later.clause.when)
            if later.path != earlier.path or not together:
                continue
            merged = earlier.allowed.both(later.allowed)
            if merged.empty:
                yield _contradiction(_requirement(earlier, checked), later)
                break
            if merged == earlier.allowed and later.clause.missing == earlier.clause.missing:
                yield _implied(_requirement(earlier, checked), later)
                break


def _beside_when(filters: Iterable[Filter]) -> Iterator[Diagnostic]:
    """Filters that require what their `when` excludes, or what it says already."""
    for clause in filters:
        if clause.when is None or not clause.requires:
            continue
        for require in clause.requires:
            if exclude_each_other(clause.when, require):
                message = "no node for which the `when` is true passes this"
                hint = "correct one of them, or turn the `when` into the opposite `require`"
                yield Diagnostic("P0310", "warning", message, require.span, hint=hint)
        known = conjuncts(clause.when)
        if all(_implied_by(known, part) for each in clause.requires for part in conjuncts(each)):
            message = "this is what the `when` says, so the filter rejects no node"
            hint = "leave out the `when`, or require something else"
            edit = Fix(Span(clause.name_span.end, clause.when.span.end), "")
            where = clause.requires[0].span
            yield Diagnostic("P0311", "warning", message, where, hint=hint, remedy=edit)


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


def _contradiction(requirement: str, later: _Comparison) -> Diagnostic:
    message = "no node can pass both conditions"
    hint = "correct one of them: otherwise every pod of this policy stays pending"
    return Diagnostic(
        "P0310", "warning", message, later.expr.span, "and this one", hint, notes=(requirement,)
    )


def _implied(requirement: str, later: _Comparison) -> Diagnostic:
    message, hint = "this condition never rejects a node", f"delete it: {requirement}"
    return Diagnostic("P0311", "warning", message, later.expr.span, hint=hint)


def _requirement(earlier: _Comparison, checked: Checked) -> str:
    shown = print_as_written(earlier.expr, checked.environment.schema)
    return f"filter `{earlier.clause.name}` already requires `{shown}`"


# ---- negations of keys that may be absent
#
# `!=`, `!(x in …)` and `!x.matches(…)` look true for an absent key, but they are missing.

_WORDS = frozenset({"require", "for", "when", "pods where"})


def absent_negations(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0301) for each negation of an unguarded key, unless `missing` has a rule."""
    for condition in conditions(checked.policy):
        if condition.missing is None and condition.word in _WORDS:
            for key, negation in unguarded(condition.expr, _negated_key):
                yield _absent_warning(key, negation, checked.environment.schema)


def _negated_key(expr: ast.Expr) -> Key | None:
    """The key that a negation is about."""
    negated = _negated(expr)
    return None if negated is None else key_read(negated)


def _negated(expr: ast.Expr) -> ast.Expr | None:
    """The operand that a negation is about; None if the expression is no negation."""
    match expr:
        case ast.Binary("!=", left, right):
            return right if isinstance(left, ast.Literal) else left
        case ast.Unary("!", ast.Binary("==" | "in", left, right) as test) if not with_null(test):
            return right if isinstance(left, ast.Literal) else left
        case ast.Unary("!", ast.Call("matches" | "startsWith" | "endsWith" | "contains", target)):
            return target
        case _:
            return None


def _absent_warning(key: Key, expr: ast.Expr, schema: Schema | None) -> Diagnostic:
    shown = print_as_written(key, schema)
    message = f"`{shown}` may be absent: the condition is then missing and does not hold"
    hint = f"write `{_safe(key, expr, schema)}`, or add `missing pass` or `missing fail`"
    return Diagnostic("P0301", "warning", message, expr.span, hint=hint)


def _safe(key: Key, whole: ast.Expr, schema: Schema | None) -> str:
    """The text of an expression in which the read has an empty value for an absent key.

    That of a quantity is no amount.
    """
    name = key.index if isinstance(key, ast.Index) else ast.Literal(key.name, STRING)
    read = ast.Index(key.operand, name, optional=True)
    empty = ast.Literal("0" if key.type == QUANTITY else "", STRING)
    safe = ast.Call("orValue", read, (empty,))
    changed = rewritten(whole, lambda node: safe if node is key else node)
    return print_as_written(changed, schema)


# ---- keys that may be absent, where that protects a victim


def silent_protections(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0317) for each unguarded key in `protect`, unless `missing` has a rule.

    A victim is protected if the condition is missing, so one without the key always is.
    """
    for condition in conditions(checked.policy):
        if condition.word == "protect" and condition.missing is None:
            for key, read in unguarded(condition.expr, key_read):
                yield _protection_warning(key, read, checked.environment.schema)


def _protection_warning(key: Key, expr: ast.Expr, schema: Schema | None) -> Diagnostic:
    shown = print_as_written(key, schema)
    message = f"`{shown}` may be absent: every victim without it is then protected"
    safe = _safe(key, expr, schema)
    hint = f"write `{safe}`, or add `missing pass`, or `missing fail` to keep it so"
    return Diagnostic("P0317", "warning", message, expr.span, hint=hint)
