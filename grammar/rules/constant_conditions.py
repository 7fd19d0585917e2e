"""Constant conditions: parts of a policy that are always true or false, or that are never used."""

from __future__ import annotations

from collections.abc import Iterator

from grammar.meaning.folding import fold
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.rules.rule import Rule, Tree, conditions
from grammar.tree import ast
from grammar.tree.clauses import Def, Let
from grammar.tree.groups import Count, Group
from grammar.tree.types import BOOL
from grammar.tree.walk import children, walk

# What a constant condition means for the policy.
_MEANING = {
    ("require", False): "no node can pass it",
    ("require", True): "every node passes it",
    ("when", False): "the clause never applies",
    ("when", True): "the clause always applies",
    ("for", False): "the policy selects no pod",
}
_TRUE = ast.Literal(True, BOOL)


class ConstantCondition(Rule):
    """A condition that is always true, or always false.

    `for pods where true` is legal: it selects all pods. So is `for pods where false`, in a policy
    that only other policies use.
    """

    code = "P0302"
    wrong = 'filter "ready" { require node.ready || true }'
    right = 'filter "ready" { require node.ready }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for condition in conditions(tree.written):
            expr = condition.expr
            # That all pods count, or that all are protected, cannot be said in another way.
            if condition.word in ("pods where", "protect") and expr == _TRUE:
                continue
            folded = fold(expr, tree.environment)
            if (value := _truth(folded)) is not None:
                if condition.word != "for" or not (value or expr == folded):
                    yield self._always(expr, value, _MEANING.get((condition.word, value)))
            elif isinstance(expr, ast.Chain):
                for operand in expr.operands:
                    if (value := _truth(fold(operand, tree.environment))) is not None:
                        yield self._always(operand, value, f"remove it from the `{expr.op}`")

    def _always(self, expr: ast.Expr, value: bool, hint: str | None) -> Diagnostic:
        message = f"this is always {str(value).lower()}"
        return Diagnostic(self.code, "warning", message, expr.span, hint=hint)


def _truth(expr: ast.Expr) -> bool | None:
    """The value of a constant that is true or false."""
    return expr.value if isinstance(expr, ast.Literal) and isinstance(expr.value, bool) else None


class UnusedDefinition(Rule):
    """A `let`, `def`, `group`, `count` or parameter that nothing uses."""

    code = "P0303"
    wrong = (
        'let spare = node.free["memory"] - pod.requests["memory"]\n'
        'filter "room" { require node.free["memory"] >= "1Gi" }'
    )
    right = (
        'let spare = node.free["memory"] - pod.requests["memory"]\n'
        'filter "room" { require spare >= "1Gi" }'
    )

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        used = _used(tree)
        for item in tree.written.items:
            if isinstance(item, Let | Def | Group | Count) and item.name not in used:
                message = f"{type(item).__name__.lower()} `{item.name}` is never used"
                yield self.found(message, item.name_span, "delete it", Fix(item.span, ""))
        if (template := tree.checked.template) is None:
            return
        named = {e.name for e in walk(template.items) if isinstance(e, ast.Ident)}
        for parameter in template.parameters:
            if parameter.name not in named:
                message = f"parameter `{parameter.name}` is never used"
                yield self.found(message, parameter.name_span, "delete it")


def _used(tree: Tree) -> set[str]:
    """The names of definitions that something uses."""
    policy, groups = tree.written, tree.environment.groups
    named = {*groups, *tree.environment.counts}
    used = {item.per.group for item in policy.items if isinstance(item, Count)}
    # Where the name of a group is a domain, what the group is by stands in its place.
    whole = children(policy.clauses)
    used |= {g.name for g in groups.values() if any(each is g.by for each in whole)}
    for expr in walk(policy):
        match expr:
            case ast.LetReference(name) | ast.DefCall(name):
                used.add(name)
            case ast.Ident(name) if name in named:
                used.add(name)
            case ast.Literal():
                used.add(expr.let)
            case _:
                continue
    return {name for name in used if name}
