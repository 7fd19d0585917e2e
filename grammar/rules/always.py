"""Always: conditions that are always true or false.

Hours go from 0 to 23, a size is never negative, a policy of a namespace sees the pods of it alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from grammar.meaning.allowed import NEGATED, Allowed, allowed_by
from grammar.meaning.extents import PARTS_OF_TIME, extent, said, scale_of
from grammar.meaning.macro_types import inside
from grammar.messages.diagnostics import Diagnostic
from grammar.rules.rule import Rule, Tree
from grammar.tree import ast
from grammar.tree.walk import walk

_BOTH = 2
_OF_ALL_TEXTS = frozenset({"", ".*", "^", "$", "^.*", ".*$", "^.*$"})
_OF_POD_ITSELF = ast.Select(ast.Ident("pod"), "metadata")


class AlwaysTheSame(Rule):
    """A condition that is always true or false by the values that it compares."""

    code = "P0348"
    wrong = 'filter "night" when now.getHours() >= 22 && now.getHours() < 6 { require node.ready }'
    right = 'filter "night" when now.getHours() >= 22 || now.getHours() < 6 { require node.ready }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for condition in tree.conditions():
            for expr in walk(condition.expr):
                match expr:
                    case ast.Chain("&&" | "||" as op, operands):
                        if condition.word != "require" or op == "||":
                            yield from self._twice(operands)
                        yield from self._together(expr, tree)
                    case ast.Binary("in", _, ast.ListLiteral(operands)) if operands:
                        yield from self._twice(operands)
                    case _ if (why := _by_form(expr)) is not None:
                        yield self.found(why, expr.span, "correct it, or leave it out")
                    case ast.Binary(op) if op in NEGATED:
                        yield from self._alone(expr, tree)

    def _twice(self, parts: Sequence[ast.Expr]) -> Iterator[Diagnostic]:
        """`x == "a" || x == "a"` and `x in ["a", "a"]`, of which one was to be another."""
        for number, part in enumerate(parts):
            if part in parts[:number]:
                hint = "correct one of them, or leave it out"
                yield self.found("this is here twice", part.span, hint)

    def _together(self, whole: ast.Chain, tree: Tree) -> Iterator[Diagnostic]:
        """`x >= 22 && x < 6`, which is never true, and `x != "a" || x != "b"`, which always is."""
        known: dict[str, tuple[Allowed, ast.Expr]] = {}
        for operand in whole.operands:
            if isinstance(operand, ast.Unary) and operand.operand in whole.operands:
                value = "true" if whole.op == "||" else "false"
                shown = tree.shown(operand.operand)
                message = f"this is always {value}: `{shown}` and its opposite are in it"
                yield self.found(message, whole.span, "leave one of them out")
                return
            opposite = _opposite(operand)
            found = allowed_by(_opposite(opposite) if whole.op == "&&" else opposite)
            if found is None:
                continue
            path, allowed = found
            before, first = known.get(path, (allowed, operand))
            merged = before.both(allowed)
            if merged.empty and not before.empty and not allowed.empty:
                yield self._never(first, operand, whole, tree)
                return
            known[path] = merged, first

    def _never(self, first: ast.Expr, second: ast.Expr, whole: ast.Chain, tree: Tree) -> Diagnostic:
        is_and = whole.op == "&&"
        sides = [tree.shown(side) for side in (first, second)]
        message = (
            f"this is always {'false' if is_and else 'true'}: `{sides[0]}` and `{sides[1]}` are"
            f" never {'true' if is_and else 'false'} together"
        )
        ranges = [found[1] for side in (first, second) if (found := allowed_by(side)) is not None]
        if not is_and and len(ranges) == _BOTH and ranges[0].both(ranges[1]).empty:
            # Each is the opposite of the other.
            return self.found(message, whole.span, "leave one of them out")
        made = replace(whole, op="||" if is_and else "&&", operands=(first, second))
        rest = (o for o in whole.operands if o is not second)
        mended = replace(whole, operands=tuple(made if o is first else o for o in rest))
        meant = tree.shown(mended if len(whole.operands) > _BOTH else made)
        return self.instead(message, whole.span, f"({meant})" if _in_parentheses(whole) else meant)

    def _alone(self, expr: ast.Binary, tree: Tree) -> Iterator[Diagnostic]:
        """`now.getHours() < 24`, `size(node.pods) >= 0`, another namespace than the policy's."""
        found, opposite = allowed_by(expr), allowed_by(_opposite(expr))
        if found is None or opposite is None:
            return
        for read in (expr.left, expr.right):
            if isinstance(read, ast.Literal) or (known := _known(read, tree)) is None:
                continue
            possible, why = known
            is_false = found[1].both(possible).empty
            if not is_false and not opposite[1].both(possible).empty:
                continue
            if expr.op in ("==", "!=") and getattr(read, "function", "") in PARTS_OF_TIME:
                # A number that is out of range has a warning of its own.
                continue
            value = "false" if is_false else "true"
            message = f"this is always {value}: `{tree.shown(read)}` is {why}"
            hint = "correct it, or leave it out"
            if expr.op == ">=" and found[1].low == possible.low:
                near = tree.shown(replace(expr, op=">"))
                hint = f"correct it, as in `{near}`, or leave it out"
            yield self.found(message, expr.span, hint)


def _by_form(expr: ast.Expr) -> str | None:
    """What is said of `x in []`, `x == x` and `x.startsWith("")`."""
    match expr:
        case ast.Binary("in", _, ast.ListLiteral(()) | ast.MapLiteral(())):
            return "this is always false: nothing is in it"
        case ast.Binary(op, left, right) if op in NEGATED and left == right:
            holds = "true" if op in ("==", "<=", ">=") else "false"
            is_constant = isinstance(left, ast.Literal)
            return None if is_constant else f"this is always {holds}: both sides are the same"
        case ast.Binary("==" | "!=" as op, ast.Select(of, name), ast.Literal("")) if (
            name == "name" and inside(of.type).name in ("Container", "ObjectMeta")
        ) or (name == "namespace" and of == _OF_POD_ITSELF):
            return f"this is always {'true' if op == '!=' else 'false'}: a name is never empty"
        case ast.Conditional(_, then, otherwise) if then == otherwise:
            return "both results of this are the same"
        case ast.Call("startsWith" | "endsWith" | "contains", _, (ast.Literal(""),)):
            return "this is always true: it is so of every text"
        case ast.Call("matches", _, (ast.Literal(str() as text),)) if text in _OF_ALL_TEXTS:
            return "this is always true: it is so of every text"
        case _:
            return None


def _opposite(expr: ast.Expr) -> ast.Expr:
    """The condition that is true where a comparison is false."""
    match expr:
        case ast.Binary(op) if op in NEGATED:
            return replace(expr, op=NEGATED[op])
        case ast.Unary("!", operand):
            return operand
        case _:
            return ast.Unary("!", expr)


def _known(read: ast.Expr, tree: Tree) -> tuple[Allowed, str] | None:
    """What values an expression has, and how a message says it."""
    match read:
        case ast.Select(
            ast.Ident("pod") | ast.Select(ast.Ident("pod"), "metadata"), "namespace"
        ) if (namespace := tree.policy.namespace) is not None:
            return Allowed(frozenset({namespace})), f"`{namespace}` in this policy"
        case _ if (ends := extent(read)) is not None and ends != (-inf, inf):
            # What is left of a part of a node has a warning of its own.
            if ends[0] == -inf and scale_of(read) is not None:
                return None
            return Allowed(low=ends[0], high=ends[1]), said(*ends)
        case _:
            return None


def _in_parentheses(chain: ast.Chain) -> bool:
    """Whether the span of a chain begins with a parenthesis."""
    return chain.span.start < chain.operands[0].span.start
