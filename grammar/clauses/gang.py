"""Gang: pods that are bound together or not at all, and held until enough are there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field, replace

from grammar.clauses import parts, reading
from grammar.clauses.kind import ClauseChecker, ClauseKind, ClausePart, Line, expression
from grammar.clauses.reading import Child
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic
from grammar.tree.ast import NO_SPAN, Expr
from grammar.tree.clause_parts import Bound, ClauseThatRejects, SchedulerNeed
from grammar.tree.printer import print_length
from grammar.tree.source import Span


@dataclass(frozen=True, slots=True)
class Gang(ClauseThatRejects):
    """A gang: pods that are bound together or not at all, and held until enough are there.

    Its members are the pods of the namespace with the same value of `by`. Without a `by` they are
    the pods of the named PodGroup, else of the workload. `at_least` so many must be there, or so
    many `percent` of the wanted replicas; without it, the number of the group, or all of these. All
    members are on nodes with one value of `within`.
    """

    _: KW_ONLY
    by: Expr | None = None
    at_least: float | Expr | None = None
    percent: bool = False
    within: Expr | None = None
    seconds: float = 60.0
    seconds_span: Span = field(default=NO_SPAN, compare=False)
    scheduler_needs = frozenset[SchedulerNeed]({"one decider"})

    @property
    def held_seconds(self) -> float:
        return self.seconds

    @property
    def domain(self) -> Expr | None:
        return self.within

    @property
    def needs_workloads(self) -> bool:
        return self.by is None


_KEYS: tuple[str, ...] = ("string", "int", "double", "bool", "dyn", "error")


def _without_number(gang: Gang) -> Diagnostic | None:
    if gang.by is None or gang.at_least is not None:
        return None
    return catalogue.gang_without_number(gang.name_span)


def _least_lines(at_least: float | Expr | None, percent: bool) -> Iterator[Line]:
    if at_least is not None:
        yield from parts.bound_lines(Bound("at least", at_least, percent))


def _read_hold(c: list[Child]) -> tuple[float, Span]:
    return reading.seconds_of(c), reading.token_span(*reading.tokens(c, "LENGTH"))


def _hold_lines(seconds: float, span: Span) -> Iterator[Line]:
    if span != NO_SPAN:
        yield f"for at most {print_length(seconds)}", None, span


def _checked(gang: Gang, by: ClauseChecker) -> Gang:
    members, least = gang.by, gang.at_least
    if members is not None:
        where = "`of pods by`, which reads only the peer"
        members = by.check(members, None, parts.PEER_ALONE, where)
        if members.type.name not in _KEYS:
            expected = "a value that names a gang"
            by.found.append(catalogue.wrong_type(members.type, expected, members.span))
        if gang.percent:
            hint = "write a number, such as `at least 8`"
            message = "a percentage is one of wanted replicas, and these pods have none"
            at = least.span if isinstance(least, Expr) else gang.name_span
            by.found.append(catalogue.unfit_for_gang(message, at, hint))
    if least is not None:
        least = parts.checked_number(least, "the number of a gang", parts.LASTING, by)
    return replace(gang, by=members, at_least=least)


GANG = ClauseKind(
    Gang,
    "the gang",
    'gang "x" { of replicas within node.zone }',
    parts.POD,
    (
        ClausePart(
            "by",
            lambda c: next(iter(reading.nodes(c)), None),
            lambda by: [("of pods by ", by, by.span)],
            word="of",
            absent="of replicas",
        ),
        ClausePart(
            "at_least",
            lambda c: reading.amount_of(c, "number of members", 1),
            _least_lines,
            fields=("at_least", "percent"),
        ),
        expression("within", parts.checked_domain),
        ClausePart("for_at_most", _read_hold, _hold_lines, fields=("seconds", "seconds_span")),
    ),
    _checked,
    mistake=_without_number,
)
