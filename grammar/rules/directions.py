"""Directions: comparisons that are the wrong way round, or of two resources."""

from __future__ import annotations

from collections.abc import Iterator

from grammar.meaning.allowed import MIRRORED, NEGATED, conjuncts
from grammar.messages.diagnostics import Diagnostic
from grammar.rules.comparisons import compared, root_of, unwrapped
from grammar.rules.rule import ExpressionRule, Rule, Tree
from grammar.rules.units import resource_of
from grammar.tree import ast
from grammar.tree.types import QUANTITY

_HELD = ("free", "allocatable", "capacity")
# Lists that many nodes and pods have nothing in, and what tells their items apart.
_OFTEN_EMPTY = frozenset("conditions hostPorts ownerReferences taints tolerations volumes".split())
_TELLS_APART = frozenset({"key", "kind", "name", "type"})


class WrongCondition(Rule):
    """A condition that is the wrong way round, or about amounts of two resources."""

    code = "P0352"
    wrong = 'filter "room" { require node.free["memory"] < pod.requests["memory"] }'
    right = 'filter "room" { require node.free["memory"] >= pod.requests["memory"] }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for condition in tree.conditions():
            for part in conjuncts(condition.expr):
                yield from self._all_of_none(part, tree)
                if condition.word == "require" and isinstance(part, ast.Binary):
                    yield from self._too_small(part, tree)

    def _too_small(self, part: ast.Binary, tree: Tree) -> Iterator[Diagnostic]:
        """`node.free["memory"] < pod.requests["memory"]`, which passes where there is no room."""
        held, asked, op = part.left, part.right, part.op
        if root_of(held) == "pod":
            held, asked, op = asked, held, MIRRORED.get(op, op)
        match held, asked:
            case (
                ast.Index(ast.Select(kept, name), one),
                ast.Index(ast.Select(_, "requests"), other),
            ) if name in _HELD and one == other and held.type == QUANTITY:
                if root_of(kept) == "node" and root_of(asked) == "pod" and op in ("<", "<="):
                    meant = f" {NEGATED[part.op]} ".join(map(tree.shown, (part.left, part.right)))
                    message = f"`{tree.shown(part)}` is true where the pod has no room"
                    yield self.instead(message, part.span, meant)

    def _all_of_none(self, part: ast.Expr, tree: Tree) -> Iterator[Diagnostic]:
        """`node.spec.taints.all(t, t.key == "gpu")`, which is true of nodes without taints."""
        match part:
            case ast.Comprehension("all", ast.Select(_, name) as listed, (item,), (said,)) if (
                name in _OFTEN_EMPTY
            ):
                pass
            case _:
                return
        for each in conjuncts(said):
            for read, _ in compared(each, tree.environment):
                match each, unwrapped(read):
                    case ast.Binary("=="), ast.Select(ast.Ident(found), field) if (
                        found == item and field in _TELLS_APART
                    ):
                        head = tree.shown(listed)
                        meant = f"{head}.exists({item}, {tree.shown(said)})"
                        where = f"`{head}` is empty, and false where others are in it"
                        yield self.instead(f"this is true where {where}", part.span, meant)
                        return


class TwoResources(ExpressionRule):
    """Amounts of two resources that are compared, or added up."""

    code = "P0352"
    wrong = 'filter "room" { require node.free["cpu"] >= pod.requests["memory"] }'
    right = 'filter "room" { require node.free["cpu"] >= pod.requests["cpu"] }'
    kinds = (ast.Binary, ast.Chain)

    def at(self, expr: ast.Expr, _: Tree) -> Iterator[Diagnostic]:
        match expr:
            case ast.Binary(op, left, right) if op in MIRRORED:
                named = [resource_of(left), resource_of(right)]
            case ast.Chain("+", operands) if all(o.type == QUANTITY for o in operands):
                named = [resource_of(each) for each in operands]
            case _:
                return
        found = list(dict.fromkeys(name for name in named if name is not None))
        if len(found) > 1 and {*found} <= {"cpu", "memory", "ephemeral-storage"}:
            does = "compares" if isinstance(expr, ast.Binary) else "adds"
            message = f"this {does} `{found[0]}` {'with' if does == 'compares' else 'to'}"
            hint = "write the same resource on both sides"
            if does == "adds":
                hint = "write parts of a whole, as in `node.free[…] / node.allocatable[…]`"
            yield self.found(f"{message} `{found[1]}`", expr.span, hint)
