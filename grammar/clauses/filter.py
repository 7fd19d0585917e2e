"""Filter: what must be true of a node; and bind, what must be true of the binding, or will be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial

from grammar.clauses import parts, reading
from grammar.clauses.kind import ClauseChecker, ClauseKind, ClausePart, Line, condition
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic
from grammar.tree.ast import Expr
from grammar.tree.clause_parts import ClauseThatRejects, SchedulerNeed, WaitUntil, WrittenCondition
from grammar.tree.printer import print_expression, print_length
from grammar.tree.types import BOOL


@dataclass(frozen=True, slots=True)
class Filter(ClauseThatRejects):
    """A filter: every `require` must be true. A `bind` looks at the binding, and may `wait`."""

    requires: tuple[Expr, ...] = ()
    _: KW_ONLY
    at_bind: bool = False
    wait: WaitUntil | None = None

    @property
    def keyword(self) -> str:
        return "bind" if self.at_bind else "filter"

    @property
    def own_conditions(self) -> tuple[WrittenCondition, ...]:
        found = tuple(WrittenCondition(e, "require", self.missing) for e in self.requires)
        waits = WrittenCondition(self.wait.condition, "wait until") if self.wait else None
        return found if waits is None else (*found, waits)

    @property
    def requirements(self) -> tuple[Expr, ...]:
        return self.requires

    @property
    def held_seconds(self) -> float:
        return self.wait.seconds if self.wait else 0.0

    @property
    def scheduler_needs(self) -> frozenset[SchedulerNeed]:
        return frozenset({"check at binding"} if self.at_bind else ())


def _wait_lines(wait: WaitUntil) -> Iterator[Line]:
    shown, most = print_expression(wait.condition), print_length(wait.seconds)
    yield f"wait until {shown} for at most {most}", None, wait.span


def _checked_wait(wait: WaitUntil, by: ClauseChecker) -> WaitUntil:
    allowed = parts.LASTING | parts.NODE | parts.WITH_DATA
    return replace(wait, condition=by.check(wait.condition, BOOL, allowed, "`wait until`"))


def _empty_bind(clause: Filter) -> Diagnostic | None:
    if clause.requires or clause.wait is not None:
        return None
    return catalogue.lacking({"require": _TEXT}, "the bind clause", clause.name_span)


_TEXT = "`require` and a condition, such as `require node.ready`"
_REQUIRE = partial(condition, "require", parts.ON_NODE, fields=("requires",), repeats=True)
_WAIT = ClausePart(
    "wait",
    lambda c: WaitUntil(reading.expr_of(c), reading.seconds_of(c), span=reading.span_of(c)),
    _wait_lines,
    _checked_wait,
    word="wait until",
)
_SHAPE = '"x" { require node.ready }'

FILTER = ClauseKind(
    Filter, "the filter", f"filter {_SHAPE}", parts.ON_NODE, (_REQUIRE(needed=_TEXT),)
)
BIND = ClauseKind(
    partial(Filter, at_bind=True),
    "the bind clause",
    f"bind {_SHAPE}",
    parts.ON_NODE,
    (_REQUIRE(), _WAIT),
    mistake=_empty_bind,
)
