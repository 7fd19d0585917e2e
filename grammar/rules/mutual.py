"""Mutual limits: what they need, and what they may read of the pods that are there already.

A mutual limit is evaluated for pods on nodes, too. Of these the cache keeps a part, under the names
of the schema's Peer. So the limit, and the `for` of its policy, may read only that of their `pod`.
"""

from __future__ import annotations

from collections.abc import Iterator

from grammar.checker.policy_checker import Checked
from grammar.meaning.environment import Environment
from grammar.meaning.peers import Path, kept
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic
from grammar.rules.rule import Rule, Tree
from grammar.tree.ast import Expr
from grammar.tree.clauses import Limit, Policy, of_kind
from grammar.tree.source import Span
from grammar.tree.walk import reads

_FIELDS = (
    *("`name`", "`namespace`", "`uid`", "`labels`", "`annotations`", "`requests`", "`limits`"),
    *("`priority`", "`hostPorts`", "`workload.kind`", "`workload.name`"),
)
# The fields of a peer that change while it comes to a node, or by the time alone.
_CHANGING = frozenset({"nodeName", "phase", "age"})


class MutualParts(Rule):
    """A mutual limit without one of the parts that it needs."""

    code = "P0130"
    wrong = 'limit "a" { all pods where peer.priority < 0 per node exactly 1 strict mutual }'
    right = 'limit "a" { all pods where peer.priority < 0 per node at most 1 strict mutual }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for clause in _mutual(tree.written):
            for reason, span, hint in _parts(clause, tree):
                yield catalogue.not_mutual(reason, span, hint)


def _parts(clause: Limit, tree: Tree) -> Iterator[tuple[str, Span, str]]:
    """What a mutual limit does not do, where, and what to write."""
    bound, amount = clause.bound, tree.constant(clause.bound.amount)
    if clause.per.of_nodes:
        hint = "write `per node`, `per domain …` or `per cluster`, or remove `mutual`"
        yield "counts pods, not nodes", clause.name_span, hint
    elif clause.pods is not None and clause.pods.amount is not None:
        hint = "remove `sum … of`, or remove `mutual`"
        yield "counts pods, and has no sum", clause.pods.amount.span, hint
    elif bound.kind != "at most" or amount is None:
        hint = "write a number, or remove `mutual`"
        yield "has a bound `at most` a constant number", bound.span, hint
    if not clause.strength.strict:
        yield "is `strict`", clause.strength.span, "write `strict`, or remove `mutual`"
    if clause.pods is None:
        hint = "write `pods where …`: the pods of one workload have the same limits anyway"
        yield "says which pods it counts", clause.name_span, hint


class MutualReads(Rule):
    """A mutual limit that reads what is not known of pods on nodes, or what changes there."""

    code = "P0131"
    wrong = (
        "for pods where pod.spec.hostNetwork\n"
        'limit "alone" { all pods where peer.name != pod.name per node at most 0 strict mutual }'
    )
    right = (
        'for pods where pod.labels["network"] == "host"\n'
        'limit "alone" { all pods where peer.name != pod.name per node at most 0 strict mutual }'
    )

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        policy, environment = tree.written, tree.environment
        limits = _mutual(policy)
        for clause in limits:
            where = clause.pods.where if clause.pods is not None else None
            for expr in (clause.when, where):
                for what, span in _not_known(expr, environment):
                    yield catalogue.not_kept_there(what, span, _FIELDS)
                for path, span in _read(expr, environment):
                    if path[0] == "peer" and (len(path) == 1 or path[1] in _CHANGING):
                        yield catalogue.changes_there(f"`{'.'.join(path)}`", span)
        for what, span in _not_known(policy.selector, environment) if limits else ():
            yield catalogue.not_kept_there(what, span, _FIELDS)


def has_mutual_limit(checked: Checked) -> bool:
    return bool(_mutual(checked.policy))


def _mutual(policy: Policy) -> list[Limit]:
    return [c for c in of_kind(policy.items, Limit) if c.mutual]


def unknown_of_selector(checked: Checked) -> str | None:
    """What the `for` of a policy reads that is not known of the pods that are there."""
    found = _not_known(checked.policy.selector, checked.environment)
    return next((what for what, _ in found), None)


def _not_known(expr: Expr | None, environment: Environment) -> Iterator[tuple[str, Span]]:
    """What an expression reads that is not known of the pods that are there, with its place."""
    for path, span in _read(expr, environment):
        match path:
            case ("now", *_):
                yield "the time", span
            case (name, *_) if name in environment.tables:
                yield f"the table `{name}`", span
            case (name, *_) if name in environment.counts:
                yield f"the count `{name}`", span
            case ("pod", *rest) if kept(tuple(rest)) is None:
                yield f"`{'.'.join(path)}`", span


def _read(expr: Expr | None, environment: Environment) -> Iterator[tuple[Path, Span]]:
    if expr is not None:
        for read in reads(expr, environment.definitions):
            yield read.path, read.span
