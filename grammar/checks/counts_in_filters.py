"""Counts in filters: filters that bound how many pods a node has, and the limits to write instead.

These filters do not see the pods that are still on their way to the node: all pods of a burst find
the same room. A `limit` counts these pods. These checks look at policies that are written out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from grammar.checker.policy_checker import Checked
from grammar.meaning.absence import guards, may_be_absent
from grammar.meaning.allowed import conjuncts
from grammar.meaning.peers import of_peer
from grammar.meaning.schema import Schema, print_as_written
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.tree import ast
from grammar.tree.clause_parts import Template
from grammar.tree.clauses import Filter, of_kind
from grammar.tree.printer import print_expression, print_string
from grammar.tree.types import BOOL, STRING
from grammar.tree.walk import rewritten, roots, walk

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_TRUE = ast.Literal(True, BOOL)
_MESSAGE = "this count does not have the pods that are still on their way to the node"
# What a peer has of what the pod has, under the same names. The others change on the way to a node.
_OF_PODS = frozenset({"name", "namespace", "labels", "annotations", "requests", "priority"})


@dataclass(frozen=True, slots=True)
class _Most:
    """At most `most` pods of a node, as `peer`, for which `where` is true.

    With `least` there must be as many, too. `passes_missing` says that a pod for which `where` is
    missing is like one for which it is false, where the clause has `missing pass`.
    """

    expr: ast.Expr
    where: ast.Expr
    most: int
    least: int = 0
    passes_missing: bool = False


def counts_in_filters(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0319) for each filter that bounds a number of pods, unless checked at binding."""
    for clause in of_kind(checked.policy.items, Filter):
        if clause.at_bind:
            continue
        for require in clause.requires:
            for found in _bounds(require, holds=True):
                read = roots([found.where], checked.environment.definitions)
                if not (read <= {"peer", "pod"} and _is_kept(found.where)):
                    # No limit counts these: a pod has no phase, say, before it comes to a node.
                    continue
                text, is_exact = _as_limit(clause, require, found, checked)
                hint = f"write `{text}` instead, which counts them"
                edit = Fix(clause.span, text) if "…" not in text else None
                yield Diagnostic(
                    "P0319",
                    "warning",
                    _MESSAGE,
                    found.expr.span,
                    hint=hint,
                    fix=edit if is_exact else None,
                    remedy=edit,
                )


# ---- the bounds in a condition


def _bounds(expr: ast.Expr, *, holds: bool) -> Iterator[_Most]:
    """The bounds that a condition sets by being true, or false."""
    match expr:
        case ast.Unary("!", operand):
            yield from _bounds(operand, holds=not holds)
        case ast.Chain("&&" | "||", operands):
            for operand in operands:
                yield from _bounds(operand, holds=holds)
        case ast.Conditional(_, then, otherwise):
            yield from _bounds(then, holds=holds)
            yield from _bounds(otherwise, holds=holds)
        case ast.Comprehension("exists", target, (name,), (body,)):
            if not holds and (where := _with(target, name, body)) is not None:
                yield _Most(expr, where, 0, passes_missing=True)
        case ast.Comprehension(
            "all", target, (name,), (ast.Unary("!") | ast.Binary("!=") as body,)
        ):
            if holds and (where := _with(target, name, _not(body))) is not None:
                yield _Most(expr, where, 0, passes_missing=True)
        case ast.Comprehension("exists_one" | "existsOne", target, (name,), (body,)):
            if holds and (where := _with(target, name, body)) is not None:
                yield _Most(expr, where, 1, least=1)
        case ast.Binary(op, left, right) if op in _MIRRORED:
            count = _counted(left)
            if count is None:
                op, right, count = _MIRRORED[op], left, _counted(right)
            if count is not None and isinstance(right, ast.Literal) and type(right.value) is int:
                found = _range(op if holds else _NEGATED[op], right.value - count[1])
                if found is not None and found[1] >= 0:
                    yield _Most(expr, count[0], found[1], max(found[0], 0))
        case _:
            pass


def _range(op: str, number: int) -> tuple[int, int] | None:
    """The least and the greatest count that a relation to a number allows; None without one."""
    match op:
        case "<":
            return 0, number - 1
        case "<=":
            return 0, number
        case "==":
            return number, number
        case _:
            return None


def _counted(expr: ast.Expr) -> tuple[ast.Expr, int] | None:
    """Which pods of a node a number counts, and what is added to it."""
    match expr:
        case ast.Call("size", target, args):
            counted = target if target is not None else args[0]
            where = _peers(counted)
            return None if where is None else (where, 0)
        case ast.Chain("+", operands):
            numbers = [o.value for o in operands if isinstance(o, ast.Literal)]
            counts = [c for c in map(_counted, operands) if c is not None]
            if len(counts) == 1 and len(numbers) == len(operands) - 1:
                added = sum(n for n in numbers if isinstance(n, int))
                return counts[0][0], counts[0][1] + added
        case _:
            pass
    return None


def _peers(expr: ast.Expr) -> ast.Expr | None:
    """The condition of the pods of a node that a list has, on `peer`; None for any other list."""
    match expr:
        case ast.Select(ast.Ident(), "pods", type=type_) if type_.name == "list":
            return _TRUE
        case ast.Comprehension("filter", target, (name,), (body,)):
            return _with(target, name, body)
        case ast.Comprehension("map", target, (_,), (_,)):
            return _peers(target)
        case _:
            return None


def _with(target: ast.Expr, name: str, body: ast.Expr) -> ast.Expr | None:
    """The condition of a list of pods and another one."""
    where = _peers(target)
    if where is None:
        return None
    also = of_peer(body, name)
    return also if where == _TRUE else ast.Chain("&&", (where, also), type=BOOL)


# ---- the limit


def _as_limit(
    clause: Filter, require: ast.Expr, found: _Most, checked: Checked
) -> tuple[str, bool]:
    """The text of the limit, or its form, and whether it means exactly the same."""
    form = "limit … { all pods where … per node at most … strict }"
    texts = [_text(*each) for each in clause.texts]
    is_whole = len(clause.requires) == 1 and (
        require is found.expr or (isinstance(require, ast.Unary) and require.operand is found.expr)
    )
    definitions = checked.environment.definitions
    of_pod = clause.when is None or roots([clause.when], definitions) <= {"pod"}
    if not is_whole or not of_pod or None in texts:
        return form, False
    schema = checked.environment.schema
    own = is_counted(found.where, checked)
    is_total = _is_total(found.where, frozenset(), schema)
    most = f"{found.most + bool(own)}"
    if own is None:
        itself = print_as_written(_of_pod(found.where, safely=not is_total), schema)
        most = f"({itself} ? {found.most + 1} : {found.most})"
    when = "" if clause.when is None else f" when {print_as_written(clause.when, schema)}"
    parts = [
        f"all pods where {print_as_written(found.where, schema)} per node at most {most} strict",
        *(text for text in texts if text),
    ]
    name, before = clause.name, ""
    if found.least:
        # A limit has one bound; fewer pods than that are no danger of a burst.
        least = f"size(node.pods.filter(peer, {print_as_written(found.where, schema)}))"
        before = f"filter {print_string(name)}{when} {{ require {least} >= {found.least} }} "
        name = f"{name} at most"
    text = f"{before}limit {print_string(name)}{when} {{ {' '.join(parts)} }}"
    passes = found.passes_missing and clause.missing == "pass" and own is not None
    return text, is_total or passes


def _text(keyword: str, template: Template | None) -> str | None:
    """A constant text of a clause with its keyword, empty without one; None for any other text."""
    if template is None:
        return ""
    if not all(isinstance(part, str) for part in template.parts):
        return None
    whole = "".join(str(part) for part in template.parts)
    return f"{keyword} {print_string(whole.replace('{', '{{').replace('}', '}}'))}"


def _is_kept(where: ast.Expr) -> bool:
    """Whether a condition reads only what a pod has before it comes to a node, too."""
    parents = {id(e.operand): e.name for e in walk(where) if isinstance(e, ast.Select)}
    return all(
        parents.get(id(e)) in _OF_PODS
        for e in walk(where)
        if isinstance(e, ast.Ident) and e.name == "peer"
    )


def _of_pod(where: ast.Expr, *, safely: bool = False) -> ast.Expr:
    """The condition for the pod itself: what is kept of a peer has the same short form of a pod.

    `safely` reads a label that may be absent as an empty text.
    """

    def change(node: object) -> object:
        match node:
            case ast.Index(ast.Select(_, "labels" | "annotations"), optional=False):
                read = replace(node, optional=True)
                return ast.Call("orValue", read, (ast.Literal("", STRING),), type=STRING)
            case _:
                return node

    return of_peer(rewritten(where, change) if safely else where, "peer", "pod")


def _not(expr: ast.Expr) -> ast.Expr:
    match expr:
        case ast.Unary("!", operand):
            return operand
        case ast.Binary("==" | "!=" as op, left, right):
            return ast.Binary(_NEGATED[op], left, right, type=BOOL)
        case _:
            return ast.Unary("!", expr, type=BOOL)


def is_counted(where: ast.Expr, checked: Checked) -> bool | None:
    """Whether the pods of the policy are among those that it counts; None if that differs."""
    schema = checked.environment.schema
    policy = checked.policy
    given = conjuncts(policy.selector) if policy.selector is not None else ()
    known = {print_as_written(each, schema) for each in given}
    values = dict(pair for each in given if (pair := _pinned(each, schema)) is not None)
    if policy.namespace is not None:
        values["pod.namespace"] = policy.namespace

    def shown(expr: ast.Expr) -> str:
        return print_as_written(expr, schema)

    def holds(expr: ast.Expr) -> bool | None:
        match expr:
            case ast.Literal(bool() as value):
                return value
            case ast.Unary("!", operand):
                inner = holds(operand)
                return None if inner is None else not inner
            case ast.Chain("&&" | "||" as op, operands):
                found = {holds(each) for each in operands}
                decides = op == "||"
                return decides if decides in found else None if None in found else not decides
            case ast.Binary(op, left, right) if op in _MIRRORED and shown(left) == shown(right):
                return op in ("==", "<=", ">=")
            case ast.Binary("in", ast.Literal(str() as key), holder):
                if f"{shown(holder)}[{print_string(key)}]" in values:
                    return True
            case ast.Binary("in", read, ast.ListLiteral(elements)) if shown(read) in values:
                return values[shown(read)] in [getattr(each, "value", None) for each in elements]
            case _:
                pass
        if shown(expr) in known:
            return True
        pair = _pinned(expr, schema)
        return None if pair is None or pair[0] not in values else values[pair[0]] == pair[1]

    return holds(_of_pod(where))


def _pinned(expr: ast.Expr, schema: Schema | None) -> tuple[str, object] | None:
    """The text of a read and the constant that it is compared with, for `==`."""
    match expr:
        case ast.Binary("==", ast.Literal() as value, read):
            pass
        case ast.Binary("==", read, value):
            pass
        case _:
            return None
    match value:
        case ast.Literal(str() as constant):
            pass
        case ast.Call("optional.of", _, (ast.Literal(str() as constant),)):
            pass
        case _:
            return None
    match read:
        case ast.Call("orValue", ast.Index() as inner, (ast.Literal(default),)) if (
            default != constant
        ):
            read = inner
        case ast.Index() | ast.Select():
            pass
        case _:
            return None
    if isinstance(read, ast.Index):
        read = replace(read, optional=False)
    return print_as_written(read, schema), constant


# ---- conditions that are never missing

_TOTAL_CALLS = frozenset(
    {"startsWith", "endsWith", "contains", "size", "hasValue", "orValue", "optional.of"}
)


def _is_total(expr: ast.Expr, there: frozenset[str], schema: Schema | None) -> bool:
    """Whether an expression always has a value; `there` are the reads that are sure to be there."""
    match expr:
        case ast.Literal() | ast.Ident():
            return True
        case ast.Has(operand):
            return _is_total(operand.operand, there, schema)
        case ast.Chain("&&", operands):
            tested = frozenset().union(there, *map(guards, operands))
            return all(_is_total(each, tested, schema) for each in operands)
        case ast.Chain("||", operands) | ast.ListLiteral(operands, ()):
            return all(_is_total(each, there, schema) for each in operands)
        case ast.Unary("!", operand):
            return _is_total(operand, there, schema)
        case ast.Binary(op, left, right) if op in _MIRRORED or op == "in":
            return _is_total(left, there, schema) and _is_total(right, there, schema)
        case ast.Call(name, target, args) if name in _TOTAL_CALLS:
            parts = args if target is None else (target, *args)
            return all(_is_total(each, there, schema) for each in parts)
        case ast.Index(ast.Select(_, "requests"), key):
            return _is_total(key, there, schema)
        case ast.Select(operand) | ast.Index(operand):
            is_there = not may_be_absent(expr, schema) or print_expression(expr) in there
            return is_there and _is_total(operand, there, schema)
        case _:
            return False
