"""Populations: bounds of a limit that keep its own pods out for ever, and pods that never count.

These checks look at policies that are written out.
"""

from __future__ import annotations

from collections.abc import Iterator

from grammar.checker.policy_checker import Checked
from grammar.checks.conditions import conditions
from grammar.checks.counts_in_filters import is_counted
from grammar.meaning.allowed import conjuncts
from grammar.meaning.folding import constant
from grammar.meaning.schema import print_as_written
from grammar.messages.diagnostics import Diagnostic, Fix, write_instead
from grammar.tree import ast
from grammar.tree.clauses import Filter, Limit, of_kind
from grammar.tree.types import BOOL
from grammar.tree.walk import roots, walk

# What a condition is about, and what it says if it reads the pod alone.
_ABOUT_OTHERS = {
    "on nodes where": ("node", "it is about all nodes or none"),
    "protect": ("victim", "it protects every victim or none"),
}
# What leaves out the pod itself.
_OTHERS = frozenset(
    f"{one}.{field} != {other}.{field}"
    for field in ("name", "uid")
    for one, other in (("peer", "pod"), ("pod", "peer"))
)
# The phases of pods that have ended.
_ENDED = ("Failed", "Succeeded")


def deadlocked_limits(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0339) for each strict limit that lets in no pod of its own, or only the first."""
    for clause in of_kind(checked.policy.items, Limit):
        bound, amount = clause.bound, constant(clause.bound.amount, checked.environment)
        if not clause.strength.strict or clause.per.of_nodes or amount is None:
            continue
        where = clause.pods.where if clause.pods is not None else None
        if clause.pods is not None and clause.pods.amount is not None:
            continue
        if where is not None and not is_counted(where, checked):
            if bound.kind == "at most" and amount > 0:
                yield from _without_itself(where, f"{amount + 1:g}", checked)
            continue
        number = f"{amount:g}"
        match bound.kind:
            case "at most" | "exactly" if amount == 0:
                message = "the pods count themselves, so none of them is let in"
                better = "at most 1"
            case "exactly" if amount > 0:
                message = f"only the first pod is let in: after it no place has {number} of them"
                better = f"at most {number}"
            case "at least" if amount > 1:
                message = f"only the first pod is let in: after it no place has {number} of them"
                better = "at least 1"
            case _:
                continue
        edit = Fix(bound.span, better)
        hint = f"write `{better}`"
        if amount == 0 and clause.pods is None:
            hint = f"{hint}, or `pods where` and a condition, for the pods that none may be beside"
        yield Diagnostic("P0339", "warning", message, bound.span, hint=hint, remedy=edit)


def _without_itself(where: ast.Expr, number: str, checked: Checked) -> Iterator[Diagnostic]:
    """`peer.name != pod.name && …` with `at most 1`: a pod is one of the counted pods anyway."""
    schema = checked.environment.schema
    parts = conjuncts(where)
    rest = tuple(p for p in parts if print_as_written(p, schema) not in _OTHERS)
    if not rest or len(rest) == len(parts):
        return
    counted = rest[0] if len(rest) == 1 else ast.Chain("&&", rest, where.span, BOOL)
    if is_counted(counted, checked):
        message = f"this leaves the pod itself out, so {number} of these pods may share a place"
        yield write_instead("P0339", message, where.span, print_as_written(counted, schema))


def pods_that_never_count(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0340) for each `pods where` about ended pods, or about the pod alone."""
    environment = checked.environment
    counted = [clause.counted for clause in checked.policy.clauses if clause.counted is not None]
    for pods in (*counted, *(each.pods for each in environment.counts.values())):
        where = pods.where
        if where is None or isinstance(where, ast.Literal):
            continue
        read = roots([where], environment.definitions)
        if "pod" in read and "peer" not in read:
            meant = print_as_written(where, environment.schema).replace("pod.", "peer.")
            message = "this reads the pod alone, so it counts every pod or none"
            hint = f"write `{meant}`, in which `peer` is a counted pod"
            yield Diagnostic("P0340", "warning", message, where.span, hint=hint)
        if not pods.all:
            yield from _of_other_namespaces(where, checked)
        for part in walk(where) if pods.state != "ended" else ():
            if isinstance(part, ast.Binary) and part.op == "==" and _is_ended(part):
                message = "pods that have ended are never counted"
                yield Diagnostic(
                    "P0340",
                    "warning",
                    message,
                    part.span,
                    hint="leave it out, or count `ended pods`",
                )


def _of_other_namespaces(where: ast.Expr, checked: Checked) -> Iterator[Diagnostic]:
    """`pods where peer.namespace == "db"` without `all`: pods of the pod's own namespace count."""
    own, schema = checked.policy.namespace, checked.environment.schema
    for part in conjuncts(where):
        match part:
            case ast.Binary("==", read, ast.Literal(str() as name)) | ast.Binary(
                "==", ast.Literal(str() as name), read
            ) if name not in (own, *_chosen(checked)):
                found = print_as_written(read, schema) == "peer.namespace"
            case ast.Binary("!=", left, right):
                sides = {print_as_written(side, schema) for side in (left, right)}
                found = sides == {"peer.namespace", "pod.namespace"}
            case _:
                continue
        if found:
            message = "without `all` only pods of the pod's own namespace count, so none does"
            if own is None and part.op == "==":
                message = "without `all` this counts pods only for pods of the same namespace"
            yield Diagnostic("P0340", "warning", message, part.span, hint="write `all pods where`")


def _chosen(checked: Checked) -> Iterator[str]:
    """The namespaces that the `for` of a policy, or the `when` of a clause, chooses."""
    whens = (getattr(clause, "when", None) for clause in checked.policy.clauses)
    for condition in filter(None, (checked.policy.selector, *whens)):
        if any(
            isinstance(part, ast.Select) and part.name == "namespace" for part in walk(condition)
        ):
            yield from (
                part.value
                for part in walk(condition)
                if isinstance(part, ast.Literal) and isinstance(part.value, str)
            )


def conditions_on_the_pod_alone(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0340) for `on nodes where` and `protect victim where` that read the pod alone."""
    for condition in conditions(checked.policy):
        name, why = _ABOUT_OTHERS.get(condition.word, ("", ""))
        if not name or roots([condition.expr], checked.environment.definitions) != {"pod"}:
            continue
        shown = print_as_written(condition.expr, checked.environment.schema)
        meant = shown.replace("pod.", f"{name}.")
        message = f"this reads the pod alone, so {why}"
        hint = f"write `{meant}`, or a `when` if it is about the pod"
        yield Diagnostic("P0340", "warning", message, condition.expr.span, hint=hint)


def filters_of_one_pod(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0340) for a filter without a message that only asks for a label of the pod.

    It rejects every node for all other pods of the policy, which a `for` would leave alone.
    """
    for clause in of_kind(checked.policy.items, Filter):
        read = [*clause.requires, *([clause.when] if clause.when is not None else [])]
        # A message tells the owners of the pods that they are meant.
        if (
            clause.message is not None
            or clause.at_bind
            or roots(read, checked.environment.definitions) != {"pod"}
        ):
            continue
        parts = [part for require in clause.requires for part in conjuncts(require)]
        shown = [_of_pod(part, checked) for part in parts]
        if None in shown:
            continue
        message = "this reads nothing of the node, so every other pod of the policy stays pending"
        meant = (shown[0] or "").replace("pod.name ", "pod.workload.name ")
        hint = f"write `for pods where {meant}`, or a `when` and what it requires of the node"
        yield Diagnostic("P0340", "warning", message, parts[0].span, hint=hint)


def _of_pod(part: ast.Expr, checked: Checked) -> str | None:
    """`pod.labels["app"] == "web"` as it is written; None for anything else."""
    match part:
        case ast.Binary("==", read, ast.Literal(str())):
            shown = print_as_written(read, checked.environment.schema)
            is_name = shown in ("pod.name", "pod.namespace") or shown.startswith("pod.labels[")
            return print_as_written(part, checked.environment.schema) if is_name else None
        case _:
            return None


def _is_ended(expr: ast.Binary) -> bool:
    for side, other in ((expr.left, expr.right), (expr.right, expr.left)):
        match side, other:
            case ast.Select(ast.Ident("peer"), "phase"), ast.Literal(value) if value in _ENDED:
                return True
            case _:
                pass
    return False
