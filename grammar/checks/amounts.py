"""Amounts: filters that add up what the pods of a node ask for, and so bound it.

The pods that are still on their way to the node are not in such a sum. Only at the binding is it
complete, if Placet binds.
"""

from __future__ import annotations

from collections.abc import Iterator

from grammar import ast
from grammar.clauses import Clause, Filter
from grammar.diagnostics import Diagnostic
from grammar.policy_checker import Checked
from grammar.walk import walk

_AMOUNTS = frozenset({"requests", "limits"})


def sums_in_filters(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0318) for each filter that adds up amounts, and is not checked at the binding."""
    for clause in checked.policy.clauses:
        if isinstance(clause, Filter) and not clause.at_bind and (sums := sum_of(clause, checked)):
            message = "this sum does not have the pods that are still on their way to the node"
            hint = "write `bind` instead of `filter`, and serve with `--bind`"
            yield Diagnostic("P0318", "warning", message, sums.span, hint=hint)


def sum_of(clause: Clause, checked: Checked) -> ast.Expr | None:
    """The part of a filter that adds up amounts of pods, or the name that stands for it."""
    if not isinstance(clause, Filter):
        return None
    lets, defs = checked.environment.lets, checked.environment.defs
    # Each name is looked at once inside sums and once outside: definitions may nest like towers.
    seen: set[tuple[str, bool]] = set()

    def inside(expr: ast.Expr, *, summed: bool) -> ast.Expr | None:
        """The first part that is such a sum; `summed` says that the whole is added up."""
        for part in walk(expr):
            match part:
                case ast.Select(operand, name) if summed and name in _AMOUNTS:
                    if operand.type.name == "Peer":
                        return part
                case ast.Call("sum", target, args) if not summed:
                    added = (target, *args) if target is not None else args
                    if any(inside(each, summed=True) is not None for each in added):
                        return part
                case ast.LetReference(name) | ast.DefCall(name) if (name, summed) not in seen:
                    seen.add((name, summed))
                    body = lets[name] if name in lets else defs[name].body
                    if inside(body, summed=summed) is not None:
                        return part
                case _:
                    pass
        return None

    found = (inside(each, summed=False) for each in clause.requires)
    return next((each for each in found if each is not None), None)
