"""Preempt: which pods must not be evicted to make room, and the candidates that are kept."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace

from grammar.clauses import parts, reading
from grammar.clauses.kind import ClauseChecker, ClauseKind, ClausePart, condition
from grammar.clauses.reading import Child
from grammar.messages import catalogue
from grammar.tree.ast import Expr
from grammar.tree.clause_parts import AnyClause, Keep, WrittenCondition


@dataclass(frozen=True, slots=True)
class Preempt(AnyClause):
    """A `preempt`: the protected victims, and the candidate nodes that are kept."""

    verb = "preempt"
    _: KW_ONLY
    protect: tuple[Expr, ...] = ()
    requires: tuple[Expr, ...] = ()
    keep: Keep | None = None

    @property
    def own_conditions(self) -> tuple[WrittenCondition, ...]:
        found = [WrittenCondition(e, "protect", self.missing) for e in self.protect]
        return (*found, *(WrittenCondition(e, "require") for e in self.requires))


_VICTIM = parts.ON_NODE | {"victim"}
_VICTIMS = parts.ON_NODE | {"victims"}


def _read_keep(c: list[Child]) -> Keep:
    (token,) = reading.tokens(c, "INT")
    if (count := reading.parse_int(str(token))) < 1:
        raise reading.bad_number(token, "number of candidates to keep", "a whole number from 1")
    return Keep(count, reading.expr_of(c))


def _checked_keep(keep: Keep, by: ClauseChecker) -> Keep:
    order = by.check(keep.by, None, _VICTIMS, "`pick`")
    if order.type.name not in (*parts.NUMBERS, "quantity", "duration", "timestamp"):
        by.found.append(catalogue.wrong_type(order.type, "a number to order by", order.span))
    return replace(keep, by=order)


PREEMPT = ClauseKind(
    Preempt,
    "the preempt clause",
    'preempt "x" { protect pods where victim.priority > 0 }',
    parts.POD,
    (
        condition("protect", _VICTIM, "protect pods where", repeats=True),
        condition("require", _VICTIMS, fields=("requires",), repeats=True),
        ClausePart(
            "keep",
            _read_keep,
            lambda keep: [(f"pick {keep.count} least ", keep.by, keep.by.span)],
            _checked_keep,
            word="pick",
        ),
    ),
)
