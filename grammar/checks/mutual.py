"""Mutual limits: what they need, and what they may read of the pods that are there already.

A mutual limit is evaluated for pods on nodes, too. Of these the cache keeps a part, under the names
of the schema's Peer. So the limit, and the `for` of its policy, may read only that of their `pod`.
"""

from __future__ import annotations

from collections.abc import Iterator

from grammar.checker.policy_checker import Checked
from grammar.meaning.folding import constant
from grammar.meaning.peers import Path, kept
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic
from grammar.tree.ast import Expr
from grammar.tree.clauses import Limit, of_kind
from grammar.tree.source import Span
from grammar.tree.walk import reads

_FIELDS = (
    *("`name`", "`namespace`", "`uid`", "`labels`", "`annotations`", "`requests`", "`limits`"),
    *("`priority`", "`hostPorts`", "`workload.kind`", "`workload.name`"),
)
# The fields of a peer that change while it comes to a node, or by the time alone.
_CHANGING = frozenset({"nodeName", "phase", "age"})


def mutual_limits(checked: Checked) -> Iterator[Diagnostic]:
    """The errors of mutual limits: their parts (P0130), and what they read (P0131)."""
    limits = _mutual(checked)
    for clause in limits:
        yield from _parts(clause, checked)
        where = clause.pods.where if clause.pods is not None else None
        for expr in (clause.when, where):
            for what, span in _not_known(expr, checked):
                yield catalogue.not_kept_there(what, span, _FIELDS)
            for what, span in _changing(expr, checked):
                yield catalogue.changes_there(what, span)
    if limits:
        for what, span in _not_known(checked.policy.selector, checked):
            yield catalogue.not_kept_there(what, span, _FIELDS)


def has_mutual_limit(checked: Checked) -> bool:
    return bool(_mutual(checked))


def _mutual(checked: Checked) -> list[Limit]:
    return [c for c in of_kind(checked.policy.items, Limit) if c.mutual]


def unknown_of_selector(checked: Checked) -> str | None:
    """What the `for` of a policy reads that is not known of the pods that are there."""
    return next((what for what, _ in _not_known(checked.policy.selector, checked)), None)


def _parts(clause: Limit, checked: Checked) -> Iterator[Diagnostic]:
    bound, amount = clause.bound, constant(clause.bound.amount, checked.environment)
    if clause.per.of_nodes:
        hint = "write `per node`, `per domain …` or `per cluster`, or remove `mutual`"
        yield catalogue.not_mutual("counts pods, not nodes", clause.name_span, hint)
    elif clause.pods is not None and clause.pods.amount is not None:
        hint = "remove `sum … of`, or remove `mutual`"
        yield catalogue.not_mutual("counts pods, and has no sum", clause.pods.amount.span, hint)
    elif bound.kind != "at most" or amount is None:
        hint = "write a number, or remove `mutual`"
        yield catalogue.not_mutual("has a bound `at most` a constant number", bound.span, hint)
    if not clause.strength.strict:
        hint = "write `strict`, or remove `mutual`"
        yield catalogue.not_mutual("is `strict`", clause.strength.span, hint)
    if clause.pods is None:
        hint = "write `pods where …`: the pods of one workload have the same limits anyway"
        yield catalogue.not_mutual("says which pods it counts", clause.name_span, hint)


def _not_known(expr: Expr | None, checked: Checked) -> Iterator[tuple[str, Span]]:
    """What an expression reads that is not known of the pods that are there, with its place."""
    for path, span in _read(expr, checked):
        match path:
            case ("now", *_):
                yield "the time", span
            case (name, *_) if name in checked.environment.tables:
                yield f"the table `{name}`", span
            case (name, *_) if name in checked.environment.counts:
                yield f"the count `{name}`", span
            case ("pod", *rest) if kept(tuple(rest)) is None:
                yield f"`{'.'.join(path)}`", span
            case _:
                continue


def _changing(expr: Expr | None, checked: Checked) -> Iterator[tuple[str, Span]]:
    """What an expression reads of peers that changes once they are there, with its place."""
    for path, span in _read(expr, checked):
        if path[0] == "peer" and (len(path) == 1 or path[1] in _CHANGING):
            yield f"`{'.'.join(path)}`", span


def _read(expr: Expr | None, checked: Checked) -> Iterator[tuple[Path, Span]]:
    if expr is not None:
        for read in reads(expr, checked.environment.definitions):
            yield read.path, read.span
