"""Checks of conditions: constant ones, contradictions, and negations of keys that may be absent.

A condition is an expression that must be true for something to happen: `for`, `when`, `require`,
`on nodes where`, `pods where`, `protect` and `allow`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from grammar.checker.policy_checker import Checked
from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
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
from grammar.tree.types import BOOL, NULL, QUANTITY, STRING
from grammar.tree.walk import children, rewritten, walk
from grammar.values.errors import EvaluationError


def conditions(policy: Policy) -> Iterator[WrittenCondition]:
    """Every condition of a policy, in the order of its items."""
    for item in policy.items:
        if isinstance(item, ForPods):
            yield WrittenCondition(item.where, "for")
        elif isinstance(item, Clause):
            yield from item.conditions


def conjuncts(expr: ast.Expr) -> tuple[ast.Expr, ...]:
    """The operands that must all be true for the expression to be true."""
    if isinstance(expr, ast.Chain) and expr.op == "&&":
        return tuple(part for operand in expr.operands for part in conjuncts(operand))
    return (expr,)


# ---- constant conditions

# The types of values that a Literal can hold. A folded list would lose the spans of its elements.
_FOLDED = frozenset("bool int double string quantity duration timestamp semver null".split())
# The steps of one folded operation, with the texts that it makes: a policy may have thousands.
_FOLDING_STEPS = 1000


def fold(expr: ast.Expr, environment: Environment) -> ast.Expr:
    """The expression with its constant parts replaced by literals.

    A part whose evaluation fails stays as it is, so that it fails at run time.
    """
    match expr:
        case ast.Unary(_, operand):
            return _closed(replace(expr, operand=fold(operand, environment)), environment)
        case ast.Binary(_, left, right):
            folded = replace(expr, left=fold(left, environment), right=fold(right, environment))
            return _closed(folded, environment)
        case ast.Chain(op, operands):
            chain = replace(expr, operands=tuple(fold(o, environment) for o in operands))
            return _closed(chain, environment) if op == "+" else _logical(chain)
        case ast.Conditional(condition, then, otherwise):
            test = fold(condition, environment)
            if isinstance(test, ast.Literal):
                return fold(then if test.value is True else otherwise, environment)
            branches = fold(then, environment), fold(otherwise, environment)
            return replace(expr, condition=test, then=branches[0], otherwise=branches[1])
        case ast.Call(_, target, args):
            called = fold(target, environment) if target is not None else None
            call = replace(expr, target=called, args=tuple(fold(a, environment) for a in args))
            return _closed(call, environment)
        case ast.Index(operand, index):
            return replace(expr, operand=fold(operand, environment), index=fold(index, environment))
        case _:
            return expr


def _logical(chain: ast.Chain) -> ast.Expr:
    """The chain without its neutral constants; a literal where one constant decides it."""
    decisive = chain.op == "||"
    if any(isinstance(o, ast.Literal) and o.value is decisive for o in chain.operands):
        return ast.Literal(decisive, BOOL, chain.span)
    left = tuple(
        o for o in chain.operands if not (isinstance(o, ast.Literal) and o.value is (not decisive))
    )
    if not left:
        return ast.Literal(not decisive, BOOL, chain.span)
    # A single operand that may not be a bool keeps its chain, which checks that.
    return left[0] if len(left) == 1 and left[0].type == BOOL else replace(chain, operands=left)


def _closed(expr: ast.Expr, environment: Environment) -> ast.Expr:
    """The value of an operation whose operands are all constants; else the expression."""
    if not all(map(_constant, children(expr))) or expr.type.name not in _FOLDED:
        return expr
    try:
        value = evaluate(expr, {}, environment, _FOLDING_STEPS)
        return ast.Literal(value, expr.type, expr.span)
    except EvaluationError:
        return expr


def _constant(expr: ast.Expr) -> bool:
    if isinstance(expr, ast.ListLiteral):
        return not expr.optional and all(map(_constant, expr.elements))
    return isinstance(expr, ast.Literal) or (isinstance(expr, ast.MapLiteral) and not expr.entries)


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

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_INFINITY = float("inf")


@dataclass(frozen=True, slots=True)
class Allowed:
    """The values of a path that pass: a set of constants, or an interval with exceptions."""

    values: frozenset[object] | None = None
    low: float = -_INFINITY
    high: float = _INFINITY
    open_low: bool = False
    open_high: bool = False
    excluded: frozenset[object] = field(default_factory=frozenset)

    def admits(self, value: object) -> bool:
        if value in self.excluded or (self.values is not None and value not in self.values):
            return False
        if not isinstance(value, float):
            return self.low == -_INFINITY and self.high == _INFINITY
        above = value > self.low if self.open_low else value >= self.low
        return above and (value < self.high if self.open_high else value <= self.high)

    def both(self, other: Allowed) -> Allowed:
        values = self.values if other.values is None else other.values
        if values is not None:
            return Allowed(frozenset(v for v in values if self.admits(v) and other.admits(v)))
        # Of two equal ends, an open one is narrower.
        low, open_low = max((self.low, self.open_low), (other.low, other.open_low))
        high, closed = min((self.high, not self.open_high), (other.high, not other.open_high))
        return Allowed(None, low, high, open_low, not closed, self.excluded | other.excluded)

    @property
    def empty(self) -> bool:
        if self.values is not None:
            return not self.values
        return self.low > self.high or (self.low == self.high and (self.open_low or self.open_high))


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


def allowed_by(expr: ast.Expr) -> tuple[str, Allowed] | None:
    """The compared path, and the values of it that pass."""
    match expr:
        case ast.Binary("in", left, ast.ListLiteral(elements)):
            if all(isinstance(e, ast.Literal) for e in elements):
                return print_expression(left), Allowed(frozenset(value_of(e) for e in elements))
        case ast.Binary(op, ast.Literal() as constant, right) if op in _MIRRORED:
            return _range(_MIRRORED[op], right, constant)
        case ast.Binary(op, left, ast.Literal() as constant) if op in _MIRRORED:
            return _range(op, left, constant)
    return None


def _range(op: str, path: ast.Expr, constant: ast.Literal) -> tuple[str, Allowed] | None:
    if isinstance(path, ast.Literal):
        return None
    value, name = value_of(constant), print_expression(path)
    if op == "==":
        return name, Allowed(frozenset({value}))
    if op == "!=":
        return name, Allowed(excluded=frozenset({value}))
    if not isinstance(value, float):
        return None
    if op in ("<", "<="):
        return name, Allowed(high=value, open_high=op == "<")
    return name, Allowed(low=value, open_low=op == ">")


def value_of(expr: ast.Expr) -> object:
    """A constant as the language compares it: numbers, amounts and times as floats."""
    value = getattr(expr, "value", None)
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, int | float):
        return float(value)
    nanos = getattr(value, "nanos", None)
    return float(nanos) if nanos is not None else value


def exclude_each_other(one: ast.Expr, other: ast.Expr) -> bool:
    """Whether it is known that two conditions are never true together."""
    for part in conjuncts(one):
        for opposite in conjuncts(other):
            if ast.Unary("!", part) == opposite or ast.Unary("!", opposite) == part:
                return True
            first, second = allowed_by(part), allowed_by(opposite)
            if first is None or second is None or first[0] != second[0]:
                continue
            if first[1].both(second[1]).empty:
                return True
    return False


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
_MAPS = frozenset({"labels", "annotations", "nodeSelector", "namespaceLabels", "limits"})


def absent_negations(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0301) for each negation of an unguarded key, unless `missing` has a rule."""
    for condition in conditions(checked.policy):
        if condition.missing is None and condition.word in _WORDS:
            for key, negation in _unguarded(condition.expr, _negated_key):
                yield _absent_warning(key, negation, checked.environment.schema)


_Key = ast.Index | ast.Select


def unguarded_keys(expr: ast.Expr) -> Iterator[_Key]:
    """The reads of keys that may be absent, of labels for example."""
    yield from (key for key, _ in _unguarded(expr, _key))


def _unguarded(
    expr: ast.Expr, read: Callable[[ast.Expr], _Key | None], guarded: frozenset[str] = frozenset()
) -> Iterator[tuple[_Key, ast.Expr]]:
    """The keys that `read` finds, each with its expression, unless they are sure to be there."""
    if isinstance(expr, ast.Chain) and expr.op in ("&&", "||"):
        for operand in expr.operands:
            yield from _unguarded(operand, read, guarded)
            guarded |= guards(operand)
        return
    if isinstance(expr, ast.Has) or _with_null(expr):
        return
    if isinstance(expr, ast.Comprehension):
        # The variable of a macro over a map is a key of that map.
        guarded |= {print_expression(ast.Index(expr.target, ast.Ident(expr.variables[0])))}
    if (key := read(expr)) is not None:
        if print_expression(key) not in guarded:
            yield key, expr
        return
    for child in children(expr):
        yield from _unguarded(child, read, guarded)


def _with_null(expr: ast.Expr) -> bool:
    """Whether an expression compares with null, of which another check warns."""
    return isinstance(expr, ast.Binary) and NULL in (expr.left.type, expr.right.type)


def _negated_key(expr: ast.Expr) -> _Key | None:
    """The key that a negation is about."""
    negated = _negated(expr)
    return None if negated is None else _key(negated)


def _negated(expr: ast.Expr) -> ast.Expr | None:
    """The operand that a negation is about; None if the expression is no negation."""
    match expr:
        case ast.Binary("!=", left, right):
            return right if isinstance(left, ast.Literal) else left
        case ast.Unary("!", ast.Binary("==" | "in", left, right) as test) if not _with_null(test):
            return right if isinstance(left, ast.Literal) else left
        case ast.Unary("!", ast.Call("matches" | "startsWith" | "endsWith" | "contains", target)):
            return target
        case _:
            return None


def _key(expr: ast.Expr) -> _Key | None:
    """The expression as a read of labels, annotations or a node selector, or None."""
    if isinstance(expr, ast.Index | ast.Select) and not expr.optional:
        inner = expr.operand
        if inner.type.name == "map" and isinstance(inner, ast.Select) and inner.name in _MAPS:
            return expr
    return None


def guards(expr: ast.Expr) -> frozenset[str]:
    """What `has(x)`, `key in map`, or their negation before `||`, makes sure to be there."""
    match expr:
        case ast.Unary("!", operand):
            return guards(operand)
        case ast.Has(operand):
            return frozenset({print_expression(operand)})
        case ast.Binary("in", key, holder):
            return frozenset({print_expression(ast.Index(holder, key))})
        case ast.Call("hasValue", ast.Select() | ast.Index() as operand, ()):
            return frozenset({print_expression(_plain(operand))})
        case ast.Chain():
            return frozenset().union(*map(guards, children(expr)))
        case _:
            return frozenset()


def _plain(expr: ast.Expr) -> ast.Expr:
    """The same read without its optionals: `a.b` for `a.?b`."""
    if isinstance(expr, ast.Select | ast.Index):
        return replace(expr, operand=_plain(expr.operand), optional=False)
    return expr


def _absent_warning(key: _Key, expr: ast.Expr, schema: Schema | None) -> Diagnostic:
    shown = print_as_written(key, schema)
    message = f"`{shown}` may be absent: the condition is then missing and does not hold"
    hint = f"write `{_safe(key, expr, schema)}`, or add `missing pass` or `missing fail`"
    return Diagnostic("P0301", "warning", message, expr.span, hint=hint)


def _safe(key: _Key, whole: ast.Expr, schema: Schema | None) -> str:
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
            for key, read in _unguarded(condition.expr, _key):
                yield _protection_warning(key, read, checked.environment.schema)


def _protection_warning(key: _Key, expr: ast.Expr, schema: Schema | None) -> Diagnostic:
    shown = print_as_written(key, schema)
    message = f"`{shown}` may be absent: every victim without it is then protected"
    safe = _safe(key, expr, schema)
    hint = f"write `{safe}`, or add `missing pass`, or `missing fail` to keep it so"
    return Diagnostic("P0317", "warning", message, expr.span, hint=hint)
