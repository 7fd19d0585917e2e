"""Amounts: filters that add up what the pods of a node ask for, and so bound it.

These filters do not see the pods that are still on their way to the node. A `limit` with the same
sum counts these pods.
"""

from __future__ import annotations

from collections.abc import Iterator

from grammar.checker.policy_checker import Checked
from grammar.meaning.peers import of_peer, sum_of
from grammar.meaning.schema import print_as_written
from grammar.messages.diagnostics import Diagnostic
from grammar.tree import ast
from grammar.tree.clauses import Filter, of_kind
from grammar.tree.printer import print_string
from grammar.tree.types import BOOL
from grammar.tree.walk import roots


def sums_in_filters(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0318) for each filter that adds up amounts, and is not checked at the binding."""
    for clause in of_kind(checked.policy.items, Filter):
        if not clause.at_bind and (sums := sum_of(clause, checked.environment)):
            message = "this sum does not have the pods that are still on their way to the node"
            limit = as_limit(clause, checked)
            hint = f"write {limit} instead, which counts them"
            yield Diagnostic("P0318", "warning", message, sums.span, hint=hint)


def as_limit(clause: Filter, checked: Checked) -> str:
    """The text of a limit with the meaning of a filter that adds up amounts; its form, if unclear.

    The meaning is clear for `node.pods.map(p, AMOUNT).sum() + … <= BOUND`, also with a `filter`
    before the `map`: the limit adds the pod itself.
    """
    schema, definitions = checked.environment.schema, checked.environment.definitions
    match clause.requires:
        case (ast.Binary("<=", left, bound),) if clause.when is None:
            operands = left.operands if isinstance(left, ast.Chain) and left.op == "+" else (left,)
            found = [each for each in map(_sum_of_peers, operands) if each is not None]
            others = [each for each in operands if _sum_of_peers(each) is None]
            if len(found) == 1 and roots(others, definitions) <= {"pod"}:
                amount, where = found[0]
                of_bound = roots([bound], definitions)
                of_pods = roots([amount, where], definitions)
                if of_bound <= {"pod", "node"} and of_pods <= {"peer", "pod"}:
                    added, of, most = (
                        print_as_written(each, schema) for each in (amount, where, bound)
                    )
                    return (
                        f"`limit {print_string(clause.name)} {{ sum {added} of all pods where {of}"
                        f" per node at most {most} strict }}`"
                    )
        case _:
            pass
    return "a `limit … { sum … of all pods where … per node at most … strict }`"


def _sum_of_peers(expr: ast.Expr) -> tuple[ast.Expr, ast.Expr] | None:
    """What is added up of which pods in `node.pods.map(p, …).sum()`, with `peer` for the pods."""
    match expr:
        case ast.Call("sum", ast.Comprehension("map", target, (name,), (amount,)), ()):
            where: ast.Expr = ast.Literal(True, BOOL)
            if isinstance(target, ast.Comprehension) and target.macro == "filter":
                (other,), (condition,) = target.variables, target.body
                where, target = of_peer(condition, other), target.target
            if isinstance(target, ast.Select) and target.name == "pods":
                return of_peer(amount, name), where
        case _:
            pass
    return None
