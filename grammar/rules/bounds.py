"""Bounds: numbers of clauses that are impossible, or that keep their own pods out."""

from __future__ import annotations

from collections.abc import Iterator

from grammar.meaning.allowed import conjuncts
from grammar.meaning.folding import literal
from grammar.meaning.peers import of_peer
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Fix
from grammar.rules.rule import Rule, Tree
from grammar.tree import ast
from grammar.tree.clause_parts import Bound
from grammar.tree.clauses import Gang, Limit, Share, Spread, of_kind
from grammar.tree.printer import print_string
from grammar.tree.types import BOOL
from grammar.values.quantity import Quantity

# ---- numbers


class BadNumber(Rule):
    """A constant expression that is no number for its bound.

    The parser has looked at the numbers that are no expressions.
    """

    code = "P0204"
    wrong = 'let most = 2 - 4\nlimit "few" { per node at most most strict }'
    right = 'let most = 6 - 4\nlimit "few" { per node at most most strict }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        items = tree.written.items
        for share in of_kind(items, Share):
            yield from _no_part(share.bound, tree)
        for limit in of_kind(items, Limit):
            if limit.added is not None:
                yield from _no_sum(limit.bound, tree)
            else:
                yield from _no_count(limit.bound.amount, "number of pods", 0, tree)
        for spread in of_kind(items, Spread):
            yield from _no_count(spread.skew, "skew", 1, tree)
            if spread.min_domains is not None:
                yield from _no_count(spread.min_domains, "number of domains", 1, tree)
        for gang in of_kind(items, Gang):
            if gang.percent and gang.at_least is not None:
                part = Bound("at least", gang.at_least, percent=True, span=gang.name_span)
                yield from _no_part(part, tree)
            elif gang.at_least is not None:
                yield from _no_count(gang.at_least, "number of members", 1, tree)


def _no_part(bound: Bound, tree: Tree) -> Iterator[Diagnostic]:
    """The error for a constant that is no part of the pods, or no number of them."""
    if not bound.percent:
        yield from _no_count(bound.amount, "number of pods", 0, tree)
        return
    found = tree.constant(bound.amount)
    if found is not None and not 0 <= found <= _WHOLE:
        allowed = "a number from 0 to 100"
        yield catalogue.bad_number(f"{found}%", "percentage of pods", allowed, bound.span)


def _no_sum(bound: Bound, tree: Tree) -> Iterator[Diagnostic]:
    """The error for a constant that no amounts can add up to."""
    given = bound.amount
    value = literal(given, tree.environment) if isinstance(given, ast.Expr) else given
    size = value.nanos if isinstance(value, Quantity) else value
    if isinstance(size, int | float) and size < 0:
        yield catalogue.bad_number(str(value), "sum", "an amount from 0", bound.span)


def _no_count(number: float | ast.Expr, what: str, least: int, tree: Tree) -> Iterator[Diagnostic]:
    """The error for a constant that is not a whole number from `least`."""
    found = tree.constant(number)
    if isinstance(number, ast.Expr) and found is not None and (found < least or found % 1):
        yield catalogue.bad_number(str(found), what, f"a whole number from {least}", number.span)


class EmptyRange(Rule):
    """A range whose computed ends are the same."""

    code = "P0208"
    wrong = 'let many = 5 + 5\nscore "few" weight 1 { value size(node.pods) range 10 .. many }'
    right = 'let many = 5 + 9\nscore "few" weight 1 { value size(node.pods) range 10 .. many }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for clause in tree.written.clauses:
            if all(isinstance(end, ast.Literal) for end in clause.ends):
                continue
            low, high = (literal(end, tree.environment) for end in clause.ends)
            if low is not None and low == high:
                yield catalogue.empty_range(clause.ends[0].span)


_WHOLE = 100


# ---- limits that keep their own pods out

# What leaves out the pod itself.
_OTHERS = frozenset(
    f"{one}.{field} != {other}.{field}"
    for field in ("name", "uid")
    for one, other in (("peer", "pod"), ("pod", "peer"))
)


class DeadlockedLimit(Rule):
    """A strict limit that lets in no pod of its own, or only the first, or one too many."""

    code = "P0339"
    wrong = 'limit "one per node" { per node exactly 1 strict }'
    right = 'limit "one per node" { per node at most 1 strict }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for clause in tree.clauses(Limit):
            bound, amount = clause.bound, tree.constant(clause.bound.amount)
            if not clause.strength.strict or clause.per.of_nodes or amount is None:
                continue
            if clause.added is not None:
                continue
            where = clause.pods.where if clause.pods is not None else None
            if where is not None and not _counts_itself(where, tree):
                if bound.kind == "at most" and amount > 0:
                    yield from self._without_itself(where, f"{amount + 1:g}", tree)
                continue
            number = f"{amount:g}"
            message = f"only the first pod is let in: after it no place has {number} of them"
            match bound.kind:
                case "at most" | "exactly" if amount == 0:
                    message = "the pods count themselves, so none of them is let in"
                    better = "at most 1"
                case "exactly" if amount > 0:
                    better = f"at most {number}"
                case "at least" if amount > 1:
                    better = "at least 1"
                case _:
                    continue
            hint = f"write `{better}`"
            if amount == 0 and clause.pods is None:
                hint += ", or `pods where` and a condition, for the pods that none may be beside"
            yield self.found(message, bound.span, hint, Fix(bound.span, better))

    def _without_itself(self, where: ast.Expr, number: str, tree: Tree) -> Iterator[Diagnostic]:
        """`peer.name != pod.name && …` with `at most 1`: a pod is one of the counted ones."""
        parts = conjuncts(where)
        rest = tuple(p for p in parts if tree.shown(p) not in _OTHERS)
        if not rest or len(rest) == len(parts):
            return
        counted = rest[0] if len(rest) == 1 else ast.Chain("&&", rest, where.span, BOOL)
        if _counts_itself(counted, tree):
            message = f"this leaves the pod itself out, so {number} of these pods may share a place"
            yield self.instead(message, where.span, tree.shown(counted))


def _counts_itself(where: ast.Expr, tree: Tree) -> bool:
    """Whether the counted pods are those of the policy, as far as its `for` says it."""
    selector, namespace = tree.policy.selector, tree.policy.namespace
    known = {tree.shown(each) for each in (conjuncts(selector) if selector is not None else ())}
    if namespace is not None:
        known.add(f"pod.namespace == {print_string(namespace)}")
    for part in conjuncts(of_peer(where, "peer", "pod")):
        match part:
            case ast.Literal(True):
                continue
            case ast.Binary("==", left, right) if tree.shown(left) == tree.shown(right):
                continue
            case _ if tree.shown(part) not in known:
                return False
    return True
