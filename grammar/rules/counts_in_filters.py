"""Counts in filters: filters that bound how many pods a node has, and the limits to write instead.

These filters do not see the pods that are still on their way to the node: all pods of a burst find
the same room. A `limit` counts these pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from grammar.meaning.absence import guards, may_be_absent
from grammar.meaning.allowed import MIRRORED, NEGATED, conjuncts
from grammar.meaning.peers import of_peer, sum_of
from grammar.meaning.schema import Schema
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.rules.rule import Rule, Tree
from grammar.tree import ast
from grammar.tree.clause_parts import Template
from grammar.tree.clauses import Filter, of_kind
from grammar.tree.printer import print_expression, print_string
from grammar.tree.types import BOOL, STRING
from grammar.tree.walk import rewritten, walk

_TRUE = ast.Literal(True, BOOL)
# What a peer has of what the pod has, under the same names. The others change on the way to a node.
_OF_PODS = frozenset({"name", "namespace", "labels", "annotations", "requests", "priority"})


class SumInFilter(Rule):
    """A filter that adds up what pods ask for, without those still on their way to the node."""

    code = "P0318"
    wrong = (
        'filter "room" {\n'
        '  require node.pods.map(p, p.requests["memory"]).sum() + pod.requests["memory"] <= "8Gi"\n'
        "}"
    )
    right = (
        'limit "room" { sum peer.requests["memory"] of all pods where true per node at '
        'most "8Gi" strict }'
    )

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for clause in of_kind(tree.written.items, Filter):
            if not clause.at_bind and (sums := sum_of(clause, tree.environment)):
                message = "this sum does not have the pods that are still on their way to the node"
                limit = "`limit … { sum … of all pods where … per node at most … strict }`"
                yield self.found(message, sums.span, f"write a {limit} instead, which counts them")


@dataclass(frozen=True, slots=True)
class _Most:
    """At most `most` pods of a node, as `peer`, for which `where` is true.

    `passes_missing` says that a pod for which `where` is missing is like one for which it is false,
    where the clause has `missing pass`.
    """

    expr: ast.Expr
    where: ast.Expr
    most: int
    passes_missing: bool = False


class CountInFilter(Rule):
    """A filter that bounds a number of pods, without those still on their way to the node."""

    code = "P0319"
    wrong = (
        'for pods where pod.labels["app"] == "web"\n'
        'filter "two" {\n'
        '  require size(node.pods.filter(p, p.labels[?"app"].orValue("") == "web")) < 2\n'
        "}"
    )
    right = (
        'for pods where pod.labels["app"] == "web"\n'
        'limit "two" { all pods where peer.labels[?"app"].orValue("") == "web" per node '
        "at most 2 strict }"
    )

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        message = "this count does not have the pods that are still on their way to the node"
        for clause in (c for c in tree.clauses(Filter) if not c.at_bind):
            for require in clause.requires:
                for found in _bounds(require, holds=True):
                    is_of_pods = tree.read_by(found.where) <= {"peer", "pod"}
                    if not (is_of_pods and _is_kept(found.where)):
                        # No limit counts these: a pod has no phase, say, before it has a node.
                        continue
                    text, is_exact = _as_limit(clause, require, found, tree)
                    hint = f"write `{text}` instead, which counts them"
                    edit = Fix(clause.span, text) if "…" not in text else None
                    said = self.found(message, found.expr.span, hint, edit)
                    yield replace(said, fix=edit if is_exact else None)


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
        case ast.Binary(op, left, right) if op in MIRRORED:
            count = _counted(left)
            if count is None:
                op, right, count = MIRRORED[op], left, _counted(right)
            if count is not None and isinstance(right, ast.Literal) and type(right.value) is int:
                op, number = op if holds else NEGATED[op], right.value - count[1]
                most = number - (op == "<")
                if most >= 0 and (op in ("<", "<=") or (op == "==" and most == 0)):
                    yield _Most(expr, count[0], most)
        case _:
            pass


def _counted(expr: ast.Expr) -> tuple[ast.Expr, int] | None:
    """The condition of the pods of a node that a number counts, and what is added to it."""
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


def _as_limit(clause: Filter, require: ast.Expr, found: _Most, tree: Tree) -> tuple[str, bool]:
    """The text of the limit, or its form, and whether it means exactly the same."""
    form = "limit … { all pods where … per node at most … strict }"
    texts = [_text(*each) for each in clause.texts]
    is_whole = len(clause.requires) == 1 and (
        require is found.expr or (isinstance(require, ast.Unary) and require.operand is found.expr)
    )
    of_pod = tree.read_by(clause.when) <= {"pod"}
    if not is_whole or not of_pod or None in texts:
        return form, False
    own = is_counted(found.where, tree)
    is_total = _is_total(found.where, frozenset(), tree.environment.schema)
    most = f"{found.most + bool(own)}"
    if own is None:
        itself = tree.shown(_of_pod(found.where, safely=not is_total))
        most = f"({itself} ? {found.most + 1} : {found.most})"
    when = "" if clause.when is None else f" when {tree.shown(clause.when)}"
    parts = [
        f"all pods where {tree.shown(found.where)} per node at most {most} strict",
        *(text for text in texts if text),
    ]
    text = f"limit {print_string(clause.name)}{when} {{ {' '.join(parts)} }}"
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
            return ast.Binary(NEGATED[op], left, right, type=BOOL)
        case _:
            return ast.Unary("!", expr, type=BOOL)


def is_counted(where: ast.Expr, tree: Tree) -> bool | None:
    """Whether a count has the pods of the policy itself; None if that differs."""
    policy, shown = tree.policy, tree.shown
    given = conjuncts(policy.selector) if policy.selector is not None else ()
    known = {shown(each) for each in given}
    values = dict(pair for each in given if (pair := _pinned(each, tree)) is not None)
    if policy.namespace is not None:
        values["pod.namespace"] = policy.namespace

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
            case ast.Binary(op, left, right) if op in MIRRORED and shown(left) == shown(right):
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
        pair = _pinned(expr, tree)
        return None if pair is None or pair[0] not in values else values[pair[0]] == pair[1]

    return holds(_of_pod(where))


def _pinned(expr: ast.Expr, tree: Tree) -> tuple[str, object] | None:
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
    return tree.shown(read), constant


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
        case ast.Binary(op, left, right) if op in MIRRORED or op == "in":
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
