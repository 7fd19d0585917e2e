"""Shares: bounds that contradict each other, percentages of few pods, and missing percent signs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import ceil, floor

from grammar.meaning.allowed import MIRRORED, conjuncts
from grammar.meaning.environment import Environment
from grammar.meaning.folding import constant, literal
from grammar.messages.diagnostics import Diagnostic, Fix, Severity
from grammar.rules.rule import Rule, Tree
from grammar.tree import ast
from grammar.tree.clause_parts import Bound
from grammar.tree.clauses import Share, of_kind
from grammar.tree.walk import walk

_WHOLE = 100

# ---- two shares


class ConflictingShares(Rule):
    """Two shares that cannot both be satisfied.

    These are an `at least` above an `at most`, or two different `exactly`, on the same nodes, and
    `at least`s of more than 100% together, on nodes of different values of one field. Numbers, and
    percentages that are rounded down, are a warning: a workload of few pods may satisfy both.
    """

    code = "P0312"
    head = 'policy example in namespace "shop"'
    wrong = (
        'share "floor" { of replicas on nodes where node.labels["disk"] == "ssd" at '
        "least 6 strict }\n"
        'share "ceiling" { of replicas on nodes where node.labels["disk"] == "ssd" at '
        "most 4 strict }"
    )
    right = (
        'share "floor" { of replicas on nodes where node.labels["disk"] == "ssd" at '
        "least 4 strict }\n"
        'share "ceiling" { of replicas on nodes where node.labels["disk"] == "ssd" at '
        "most 6 strict }"
    )

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        strict = [c for c in of_kind(tree.written.items, Share) if c.strength.strict]
        for number, later in enumerate(strict):
            alike = [s for s in strict[:number] if (s.pods, s.when) == (later.pods, later.when)]
            yield from self._on_the_same_nodes(later, alike, tree)
            yield from self._on_different_nodes(later, alike, tree)

    def _on_the_same_nodes(
        self, later: Share, alike: Sequence[Share], tree: Tree
    ) -> Iterator[Diagnostic]:
        for earlier in alike:
            if earlier.on != later.on or not _clash(earlier.bound, later.bound, tree.environment):
                continue
            percent = "%" if earlier.bound.percent else ""
            says = f"{earlier.bound.kind} {tree.constant(earlier.bound.amount)}{percent}"
            message = f"this contradicts share `{earlier.name}`"
            hint = f"change one of them: that share says {says}"
            kinds = {earlier.bound.kind, later.bound.kind}
            severity: Severity = "error" if percent and "at least" in kinds else "warning"
            yield self.found(message, later.bound.span, hint, severity=severity)

    def _on_different_nodes(
        self, later: Share, alike: Sequence[Share], tree: Tree
    ) -> Iterator[Diagnostic]:
        # Of several shares on one value, the last one counts.
        apart = {_value_apart(each.on, later.on): each.bound for each in alike}
        apart.pop(None, None)
        others = sum(_least_percent(b, tree) for b in apart.values())
        least = _least_percent(later.bound, tree)
        if least and others <= _WHOLE < others + least:
            sums = f"{others + least:g}%"
            message = f"the lower bounds of shares on different nodes are {sums} together"
            hint = "lower one of them: they can be 100% at most"
            # What is rounded down can be met by a workload of few pods.
            kinds = {later.bound.kind, *(b.kind for b in apart.values())}
            severity: Severity = "warning" if "exactly" in kinds else "error"
            yield self.found(message, later.bound.span, hint, severity=severity)


def _value_apart(one: ast.Expr, other: ast.Expr) -> ast.Literal | None:
    """The value of the field in the first condition if the second wants another value of it."""
    match one, other:
        case (
            ast.Binary(op="==", left=left, right=ast.Literal() as value),
            ast.Binary(op="==", left=same, right=ast.Literal() as another),
        ) if left == same and value != another:
            return value
        case _:
            return None


def _least_percent(bound: Bound, tree: Tree) -> float:
    """The percentage of an `at least` or an `exactly`; 0 for any other bound."""
    if not bound.percent or bound.kind == "at most":
        return 0.0
    return tree.constant(bound.amount) or 0.0


def _clash(one: Bound, other: Bound, environment: Environment) -> bool:
    """Whether no amount is within both bounds; a computed one contradicts nothing."""
    if one.percent != other.percent:
        return False
    low, high = 0.0, float("inf")
    for bound in (one, other):
        if (amount := constant(bound.amount, environment)) is None:
            return False
        low = max(low, amount) if bound.kind != "at most" else low
        high = min(high, amount) if bound.kind != "at least" else high
    return low > high


# ---- percentages of few pods

# Few workloads have so many pods that a smaller percentage is one of them.
_SMALL = 3


class VanishingPercentage(Rule):
    """A percentage that is 0 of a workload.

    That is known if the `for` of the policy or the `when` of the share bounds the replicas, and
    in a cluster from its workloads.
    """

    code = "P0313"
    head = 'policy example in namespace "shop"'
    wrong = 'share "spot" { of replicas on nodes where node.zone == "eu-1a" at most 15% strict }'
    right = (
        'share "spot" { of replicas on nodes where node.zone == "eu-1a" at most 15% '
        "rounding up strict }"
    )

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for clause in tree.clauses(Share):
            if not clause.strength.strict or not clause.counts_by_workload:
                continue
            if not _vanishes(clause, 1, tree):
                continue
            if tree.cluster is not None:
                yield from self._in_cluster(clause, tree)
                continue
            conditions = [c for c in (tree.policy.selector, clause.when) if c is not None]
            known = [n for c in conditions for n in _most_replicas(c, tree.environment)]
            amount = tree.constant(clause.bound.amount) or 0
            reads = any(_is_replicas(each) for c in conditions for each in walk(c))
            if not known and 1 <= amount < _SMALL and not reads:
                known = [ceil(_WHOLE / amount) - 1]
            if known and _vanishes(clause, min(known), tree):
                yield self._of(clause, f"up to {_counted(min(known))}", tree)

    def _in_cluster(self, clause: Share, tree: Tree) -> Iterator[Diagnostic]:
        """The first workload of the cluster of which the percentage is 0."""
        if tree.cluster is None or tree.cluster.replicas is None:
            return
        for name, replicas in sorted(tree.cluster.replicas(clause).items()):
            if _vanishes(clause, replicas, tree):
                yield self._of(clause, f"the {_counted(replicas)} of `{name}`", tree)
                return

    def _of(self, clause: Share, whole: str, tree: Tree) -> Diagnostic:
        amount = tree.constant(clause.bound.amount)
        meant = f"{clause.bound.kind} {amount}% rounding up"
        hint = f"write `{meant}` if such a workload may have a pod there"
        span = clause.bound.span
        return self.found(f"{amount}% of {whole} is 0", span, hint, Fix(span, meant))


def _vanishes(clause: Share, replicas: int, tree: Tree) -> bool:
    """Whether the percentage of a share is 0 of so many pods: 40% of 2 pods is 0.

    `at most` and `exactly` round down. No percentage of no pods is meant, and 0% is, as is what
    `rounding` says.
    """
    bound = clause.bound
    if bound.rounding is not None or not bound.percent or bound.kind == "at least":
        return False
    amount = tree.constant(bound.amount)
    if amount is None or not 0 < amount < _WHOLE:
        return False
    return replicas > 0 and floor(Fraction(str(amount)) / _WHOLE * replicas) == 0


def _counted(pods: int) -> str:
    return "1 pod" if pods == 1 else f"{pods} pods"


_MOST = {"<": -1, "<=": 0, "==": 0}


def _most_replicas(condition: ast.Expr, environment: Environment) -> Iterator[int]:
    """The greatest numbers of replicas for which parts of a condition can be true."""
    for part in conjuncts(condition):
        if not isinstance(part, ast.Binary) or part.op not in MIRRORED:
            continue
        op, read, number = part.op, part.left, part.right
        if _is_replicas(number):
            op, read, number = MIRRORED[op], number, read
        most = literal(number, environment)
        if op in _MOST and _is_replicas(read) and isinstance(most, int):
            yield most + _MOST[op]


def _is_replicas(expr: ast.Expr) -> bool:
    match expr:
        case ast.Select(operand, "replicas"):
            return operand.type.name == "Workload"
        case ast.Call("orValue", target) if target is not None:
            return _is_replicas(target)
        case _:
            return False


# ---- percent signs

# A share of this many pods, if it is round, is mostly a percentage.
_LEAST_PERCENT = 20
_ROUND_PERCENT = 5
_THIRDS = (33, 66, 67)


class ShareWithoutPercent(Rule):
    """The bound of a share without a percent sign."""

    code = "P0347"
    wrong = 'share "zone a" { of replicas on nodes where node.zone == "a" at most 40 strict }'
    right = 'share "zone a" { of replicas on nodes where node.zone == "a" at most 40% strict }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for clause in of_kind(tree.written.items, Share):
            bound = clause.bound
            number = tree.constant(bound.amount)
            if number is None:
                continue
            if bound.percent and 0 < number < 1:
                message = f"{number:g}% is less than one of {_WHOLE} pods"
                yield self.instead(message, bound.span, f"{bound.kind} {_WHOLE * number:g}%")
            elif not bound.percent and not isinstance(bound.amount, ast.Expr) and _is_round(number):
                meant = f"{bound.kind} {number:g}%"
                message = f"this is {number:g} pods, and not a part of them"
                hint = f"write `{meant}` for a part, or name the number of pods by a `let`"
                yield self.found(message, bound.span, hint, Fix(bound.span, meant))


def _is_round(number: float) -> bool:
    is_round = number % _ROUND_PERCENT == 0 or number in _THIRDS
    return is_round and _LEAST_PERCENT <= number <= _WHOLE
