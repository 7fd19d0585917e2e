"""Checks of the numbers in clauses: percentages, bounds of shares, ranges and weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor

from grammar.checker.policy_checker import Checked
from grammar.meaning.allowed import conjuncts
from grammar.meaning.environment import Environment
from grammar.meaning.folding import constant, literal
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Fix, Severity
from grammar.tree.ast import Binary, Call, Expr, Literal, Select
from grammar.tree.clause_parts import Bound
from grammar.tree.clauses import Gang, Limit, Share, Spread, of_kind
from grammar.tree.walk import walk
from grammar.values.quantity import Quantity


def bounds(checked: Checked) -> Iterator[Diagnostic]:
    """An error for each constant expression that is no number for its bound (P0204, P0208).

    The parser has looked at the numbers that are no expressions.
    """
    environment, items = checked.environment, checked.policy.items
    for share in of_kind(items, Share):
        yield from _no_part(share.bound, environment)
    for limit in of_kind(items, Limit):
        if limit.added is not None:
            yield from _no_sum(limit.bound, environment)
        else:
            yield from _no_count(limit.bound.amount, "number of pods", 0, environment)
    for spread in of_kind(items, Spread):
        yield from _no_count(spread.skew, "skew", 1, environment)
        if spread.min_domains is not None:
            yield from _no_count(spread.min_domains, "number of domains", 1, environment)
    for gang in of_kind(items, Gang):
        if gang.percent and gang.at_least is not None:
            part = Bound("at least", gang.at_least, percent=True, span=gang.name_span)
            yield from _no_part(part, environment)
        elif gang.at_least is not None:
            yield from _no_count(gang.at_least, "number of members", 1, environment)
    for clause in checked.policy.clauses:
        if not clause.ends or all(isinstance(end, Literal) for end in clause.ends):
            continue
        low, high = (literal(end, environment) for end in clause.ends)
        if low is not None and low == high:
            yield catalogue.empty_range(clause.ends[0].span)


def _no_part(bound: Bound, environment: Environment) -> Iterator[Diagnostic]:
    """The error for a constant that is no part of the pods, or no number of them."""
    if not bound.percent:
        yield from _no_count(bound.amount, "number of pods", 0, environment)
        return
    found = constant(bound.amount, environment)
    if found is not None and not 0 <= found <= 100:
        allowed = "a number from 0 to 100"
        yield catalogue.bad_number(f"{found}%", "percentage of pods", allowed, bound.span)


def _no_sum(bound: Bound, environment: Environment) -> Iterator[Diagnostic]:
    """The error for a constant that no amounts can add up to."""
    given = bound.amount
    value = literal(given, environment) if isinstance(given, Expr) else given
    size = value.nanos if isinstance(value, Quantity) else value
    if isinstance(size, int | float) and size < 0:
        yield catalogue.bad_number(str(value), "sum", "an amount from 0", bound.span)


def _no_count(
    number: float | Expr, what: str, least: int, environment: Environment
) -> Iterator[Diagnostic]:
    """The error for a constant that is not a whole number from `least`."""
    found = constant(number, environment)
    if isinstance(number, Expr) and found is not None and (found < least or found % 1):
        yield catalogue.bad_number(str(found), what, f"a whole number from {least}", number.span)


# ---- percentages of few pods


def vanishing_percentages(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0313) for each percentage that is 0 of every workload that its share is about.

    That is known here if the `for` of the policy or the `when` of the share bounds the replicas.
    """
    for clause in _vanishing_shares(checked):
        conditions = (checked.policy.selector, clause.when)
        known = [n for c in conditions if c for n in _most_replicas(c, checked.environment)]
        amount = constant(clause.bound.amount, checked.environment) or 0
        if not known and 1 <= amount < _SMALL and not _of_replicas(conditions):
            known = [ceil(_WHOLE / amount) - 1]
        if known and _vanishes(clause, min(known), checked.environment):
            yield _vanishing(clause, f"up to {_counted(min(known))}", checked.environment)


# Few workloads have so many pods that a smaller percentage is one of them.
_SMALL = 3
_WHOLE = 100


def _of_replicas(conditions: Sequence[Expr | None]) -> bool:
    """Whether a condition says how many replicas there are."""
    return any(_is_replicas(each) for c in conditions if c is not None for each in walk(c))


def vanishing_percentages_of(
    checked: Checked, workloads: Callable[[Share], Mapping[str, int]]
) -> Iterator[Diagnostic]:
    """A warning (P0313) for each percentage that is 0 of a workload of a cluster.

    `workloads` gives the replicas of each workload that a share is about, by its name.
    """
    for clause in _vanishing_shares(checked):
        for name, replicas in sorted(workloads(clause).items()):
            if _vanishes(clause, replicas, checked.environment):
                whole = f"the {_counted(replicas)} of `{name}`"
                yield _vanishing(clause, whole, checked.environment)
                break


def _vanishing_shares(checked: Checked) -> Iterator[Share]:
    """The strict shares of replicas whose percentage is rounded down to 0 for some number."""
    for clause in of_kind(checked.policy.items, Share):
        if not clause.strength.strict:
            continue
        if clause.counts_by_workload and _vanishes(clause, 1, checked.environment):
            yield clause


def _vanishes(clause: Share, replicas: int, environment: Environment) -> bool:
    """Whether the percentage of a share is 0 of so many pods: 40% of 2 pods is 0.

    `at most` and `exactly` round down. No percentage of no pods is meant, and 0% is, as is what
    `rounding` says.
    """
    bound = clause.bound
    if bound.rounding is not None:
        return False
    amount = constant(bound.amount, environment)
    if amount is None or not bound.percent or bound.kind == "at least" or not 0 < amount < 100:
        return False
    return replicas > 0 and floor(Fraction(str(amount)) / 100 * replicas) == 0


def _counted(pods: int) -> str:
    return "1 pod" if pods == 1 else f"{pods} pods"


def _vanishing(clause: Share, whole: str, environment: Environment) -> Diagnostic:
    amount = constant(clause.bound.amount, environment)
    message = f"{amount}% of {whole} is 0"
    meant = f"{clause.bound.kind} {amount}% rounding up"
    hint = f"write `{meant}` if such a workload may have a pod there"
    edit = Fix(clause.bound.span, meant)
    return Diagnostic("P0313", "warning", message, clause.bound.span, hint=hint, remedy=edit)


_MOST = {"<": -1, "<=": 0, "==": 0}
_TURNED = {">": "<", ">=": "<=", "==": "=="}


def _most_replicas(condition: Expr, environment: Environment) -> Iterator[int]:
    """The greatest numbers of replicas for which parts of a condition can be true."""
    for part in conjuncts(condition):
        match part:
            case Binary(op, read, number) if op in _MOST and _is_replicas(read):
                pass
            case Binary(op, number, read) if op in _TURNED and _is_replicas(read):
                op = _TURNED[op]
            case _:
                continue
        if isinstance(most := literal(number, environment), int):
            yield most + _MOST[op]


def _is_replicas(expr: Expr) -> bool:
    match expr:
        case Select(operand, "replicas"):
            return operand.type.name == "Workload"
        case Call("orValue", target) if target is not None:
            return _is_replicas(target)
        case _:
            return False


def conflicting_shares(checked: Checked) -> Iterator[Diagnostic]:
    """Strict shares of the same pods that no number of pods on each satisfies (P0312).

    These are an `at least` above an `at most`, or two different `exactly`, on the same nodes, and
    `at least`s of more than 100% together, on nodes of different values of one field. Numbers, and
    percentages that are rounded down, are a warning: a workload of few pods may satisfy both.
    """
    strict = [c for c in of_kind(checked.policy.items, Share) if c.strength.strict]
    for number, later in enumerate(strict):
        alike = [s for s in strict[:number] if (s.pods, s.when) == (later.pods, later.when)]
        yield from _on_the_same_nodes(later, alike, checked.environment)
        yield from _on_different_nodes(later, alike, checked.environment)


def _on_the_same_nodes(
    later: Share, alike: Sequence[Share], environment: Environment
) -> Iterator[Diagnostic]:
    for earlier in alike:
        if earlier.on != later.on or not _clash(earlier.bound, later.bound, environment):
            continue
        percent = "%" if earlier.bound.percent else ""
        says = f"{earlier.bound.kind} {constant(earlier.bound.amount, environment)}{percent}"
        message = f"this contradicts share `{earlier.name}`"
        hint = f"change one of them: that share says {says}"
        kinds = {earlier.bound.kind, later.bound.kind}
        severity: Severity = "error" if percent and "at least" in kinds else "warning"
        yield Diagnostic("P0312", severity, message, later.bound.span, hint=hint)


def _on_different_nodes(
    later: Share, alike: Sequence[Share], environment: Environment
) -> Iterator[Diagnostic]:
    # Of several shares on one value, the last one counts.
    apart = {_value_apart(earlier.on, later.on): earlier.bound for earlier in alike}
    others = sum(_least_percent(b, environment) for value, b in apart.items() if value is not None)
    least = _least_percent(later.bound, environment)
    if least and others <= 100 < others + least:
        message = f"the lower bounds of shares on different nodes are {others + least:g}% together"
        hint = "lower one of them: they can be 100% at most"
        # What is rounded down can be met by a workload of few pods.
        kinds = {later.bound.kind, *(b.kind for value, b in apart.items() if value is not None)}
        severity: Severity = "warning" if "exactly" in kinds else "error"
        yield Diagnostic("P0312", severity, message, later.bound.span, hint=hint)


def _value_apart(one: Expr, other: Expr) -> Literal | None:
    """The value of the field in the first condition if the second wants another value of it."""
    match one, other:
        case (
            Binary(op="==", left=left, right=Literal() as value),
            Binary(op="==", left=same, right=Literal() as another),
        ) if left == same and value != another:
            return value
        case _:
            return None


def _least_percent(bound: Bound, environment: Environment) -> float:
    """The percentage of an `at least` or an `exactly`; 0 for any other bound."""
    if not bound.percent or bound.kind == "at most":
        return 0.0
    return constant(bound.amount, environment) or 0.0


def _clash(one: Bound, other: Bound, environment: Environment) -> bool:
    if one.percent != other.percent:
        return False
    low, high = 0.0, float("inf")
    for bound in (one, other):
        # A number that is computed contradicts nothing that is known here.
        if (amount := constant(bound.amount, environment)) is None:
            return False
        low = max(low, amount) if bound.kind != "at most" else low
        high = min(high, amount) if bound.kind != "at least" else high
    return low > high


# A score on the wire is 0 to 10, so one step of it is ten points of the mean.
STEP = 10.0


def light_weights(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0315) for each clause that can move the answer by less than one step."""
    clauses = checked.policy.clauses
    weights = {c: abs(c.points_weight) for c in clauses if c.points_weight is not None}
    total = sum(weights.values())
    for clause, weight in weights.items():
        effect = 100 * weight / total
        if effect < STEP:
            changes = "changes the score by less than one of its ten steps"
            message = f"weight {weight} of {total} {changes}"
            hint = f"write at least {total / STEP:g}, or remove the clause"
            yield Diagnostic("P0315", "warning", message, clause.name_span, hint=hint)
