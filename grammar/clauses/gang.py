"""Gang: pods that are bound together or not at all, and held until enough are there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from grammar.clauses import parts, reading
from grammar.clauses.kind import ClauseChecker, ClauseKind, ClausePart, Line, expression
from grammar.clauses.reading import Child
from grammar.messages import catalogue
from grammar.messages.catalogue import ParseError
from grammar.messages.diagnostics import Diagnostic
from grammar.tree.ast import NO_SPAN, Expr
from grammar.tree.clause_parts import Bound, ClauseThatRejects, SchedulerNeed, WrittenCondition
from grammar.tree.printer import print_expression, print_length
from grammar.tree.source import Span
from grammar.tree.types import BOOL

# The members that a gang can need: a namespace alone has so many bind calls held.
MOST_MEMBERS = 500


@dataclass(frozen=True, slots=True)
class Needed(Bound):
    """How many members are needed: of all, or of those for which `where` is true: of a role.

    A percentage is one of the wanted replicas.
    """

    where: Expr | None = None


@dataclass(frozen=True, slots=True)
class Gang(ClauseThatRejects):
    """A gang: pods that are bound together or not at all, and held until enough are there.

    Its members are the pods of the namespace with the same value of `by`. Without a `by` they are
    the pods of the named PodGroup, else of the workload. The `numbers` say how many must be there:
    of all at most once, and of each role. Without any it is the number of the group, or all wanted
    replicas. All members are on nodes with one value of `within`.
    """

    _: KW_ONLY
    by: Expr | None = None
    numbers: tuple[Needed, ...] = ()
    within: Expr | None = None
    seconds: float = 60.0
    seconds_span: Span = field(default=NO_SPAN, compare=False)
    scheduler_needs = frozenset[SchedulerNeed]({"one decider"})

    @property
    def of_all(self) -> Needed | None:
        """How many of all members are needed; None where only roles, or nothing, say it."""
        return next((each for each in self.numbers if each.where is None), None)

    @property
    def own_conditions(self) -> tuple[WrittenCondition, ...]:
        roles = (each.where for each in self.numbers if each.where is not None)
        return tuple(WrittenCondition(where, "pods where") for where in roles)

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


def _joined(given: dict[str, Any]) -> dict[str, Any]:
    """The parts as they are written: a condition belongs to the `at least` before it."""
    found = list[Needed]()
    for each in given.get("numbers", ()):
        if isinstance(each, Needed):
            found.append(each)
        elif not found or found[-1].where is not None:
            hint = "write `by` and what the pods have in common, or `at least 1` before this"
            message = "the pods of a gang have the same value, and `where` is for some of them"
            raise ParseError(catalogue.unfit_for_gang(message, each.span, hint))
        else:
            found[-1] = replace(found[-1], where=each)
    return {**given, "numbers": tuple(found)}


def _unfit(message: str, span: Span) -> Diagnostic:
    return catalogue.unfit_for_gang(message, span, "write a number, such as `at least 8`")


def _mistake(gang: Gang) -> Diagnostic | None:
    if gang.by is not None and not gang.numbers:
        return catalogue.gang_without_number(gang.name_span)
    of_all = [each for each in gang.numbers if each.where is None]
    return catalogue.twice("at least", "the gang", of_all[1].span) if len(of_all) > 1 else None


def _number_lines(needed: Needed) -> Iterator[Line]:
    ((words, number, span),) = parts.bound_lines(needed)
    if needed.where is None:
        yield words, number, span
    else:
        words += print_expression(number) if number is not None else ""
        yield f"{words} of pods where ", needed.where, needed.span


def _checked_number(needed: Needed, by: ClauseChecker) -> Needed:
    amount = parts.checked_number(needed.amount, "the number of a gang", parts.LASTING, by)
    if (where := needed.where) is not None:
        where = by.check(where, BOOL, parts.PEER_ALONE, "`of pods where` of a gang")
        if needed.percent:
            by.found.append(_unfit("a percentage is one of all wanted replicas", needed.span))
    return replace(needed, amount=amount, where=where)


def _read_hold(c: list[Child]) -> tuple[float, Span]:
    return reading.seconds_of(c), reading.token_span(*reading.tokens(c, "AMOUNT", "STRING"))


def _hold_lines(seconds: float, span: Span) -> Iterator[Line]:
    if span != NO_SPAN:
        yield f"for at most {print_length(seconds)}", None, span


def _checked(gang: Gang, by: ClauseChecker) -> Gang:
    members, of_all = gang.by, gang.of_all
    if members is not None:
        members = by.check(members, None, parts.PEER_ALONE, "`of pods by`")
        if members.type.name not in _KEYS:
            expected = "a value that names a gang"
            by.found.append(catalogue.wrong_type(members.type, expected, members.span))
        if of_all is not None and of_all.percent:
            message = "a percentage is one of wanted replicas, and these pods have none"
            at = of_all.amount.span if isinstance(of_all.amount, Expr) else gang.name_span
            by.found.append(_unfit(message, at))
    return replace(gang, by=members)


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
            lambda c: Needed(
                "at least", *reading.amount_of(c, "number of members", 1), span=reading.span_of(c)
            ),
            _number_lines,
            _checked_number,
            fields=("numbers",),
            repeats=True,
        ),
        ClausePart("of_where", reading.expr_of, lambda _: (), fields=("numbers",), repeats=True),
        expression("within", parts.checked_domain),
        ClausePart("for_at_most", _read_hold, _hold_lines, fields=("seconds", "seconds_span")),
    ),
    _checked,
    mistake=_mistake,
    wide=True,
    joined=_joined,
)
