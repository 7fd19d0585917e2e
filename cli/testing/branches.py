"""The branches of policies: each condition true and false, each value worked out, each bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from grammar.ast import Expr, Literal
from grammar.clauses import Clause, Filter, Limit, Policy, Preempt, Score, Share, Spread
from grammar.source import Source, Span
from policies.validation import CheckedFile, Identity, identity


@dataclass(frozen=True, slots=True)
class Spot:
    """A place where evaluation branches; `span` tells those of one clause apart."""

    policy: Identity
    clause: str
    span: Span


@dataclass(frozen=True, slots=True)
class Branch:
    """One of the ways to go at a spot; `never` is what has not been seen while no test takes it."""

    source: Source
    spot: Spot
    outcome: bool
    never: str


def branches(file: CheckedFile) -> Iterator[Branch]:
    """Those of a file's policies, in the order of the text.

    What clauses about preemption do is nothing that a test asks about.
    """
    for checked in file.policies:
        policy = checked.policy
        selector = policy.selector
        if selector is not None and not isinstance(selector, Literal):
            yield from _both(
                file.source,
                selector_spot(policy, selector),
                f"policy {policy.address} was never the business of a tested pod",
                f"policy {policy.address} never left out a tested pod",
            )
        for clause in policy.clauses:
            yield from _of_clause(file.source, policy, clause)


def spot(policy: Policy, clause: Clause, part: Expr | None = None) -> Spot:
    """That of a part of a clause, or of its bound."""
    return Spot(identity(policy), clause.name, clause.span if part is None else part.span)


def selector_spot(policy: Policy, selector: Expr) -> Spot:
    return Spot(identity(policy), "", selector.span)


def _of_clause(source: Source, policy: Policy, clause: Clause) -> Iterator[Branch]:
    if isinstance(clause, Preempt):
        return
    name = f'{_kind(clause)} "{clause.name}"'
    if clause.when is not None:
        where = spot(policy, clause, clause.when)
        yield from _both(
            source,
            where,
            f"the `when` of {name} was never true",
            f"the `when` of {name} was never false",
        )
    match clause:
        case Filter(requires=requires):
            for part in requires:
                which = name if len(requires) == 1 else f"`{_short(source, part)}` of {name}"
                where = spot(policy, clause, part)
                yield from _both(source, where, f"{which} never passed", f"{which} never failed")
        case Score(value=value):
            yield Branch(source, spot(policy, clause, value), True, f"{name} was never worked out")
        case Share() | Spread() | Limit():
            if isinstance(clause, Share):
                where = spot(policy, clause, clause.on)
                yield from _both(
                    source,
                    where,
                    f"no node was among those of {name}",
                    f"every node was among those of {name}",
                )
            where = spot(policy, clause)
            yield from _both(source, where, f"{name} never had room", f"{name} was never full")
        case _:
            assert_never(clause)


def _both(source: Source, where: Spot, never_true: str, never_false: str) -> Iterator[Branch]:
    yield Branch(source, where, True, never_true)
    yield Branch(source, where, False, never_false)


def _kind(clause: Clause) -> str:
    if isinstance(clause, Filter):
        return "bind" if clause.at_bind else "filter"
    return type(clause).__name__.lower()


def _short(source: Source, expr: Expr) -> str:
    """The text of an expression, in one line that is not too long."""
    text = " ".join(source.slice(expr.span).split())
    return text if len(text) <= 40 else f"{text[:39]}…"
