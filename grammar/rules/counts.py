"""Counts: bounds and domains of limits, shares and spreads that cannot be meant.

A filter that bounds how many pods a node has is one of them: it does not see the pods that are
still on their way to the node, so all pods of a burst find the same room. A `limit` counts
these pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import floor

from grammar.meaning.access import of_peer
from grammar.meaning.constants import constants, literal
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Fix, Severity, nearest
from grammar.rules.ranges import MIRRORED, NEGATED, conjuncts
from grammar.rules.rule import Tree, finding, instead, rule
from grammar.tree import ast
from grammar.tree.clause_parts import Bound
from grammar.tree.clauses import Filter, Gang, Limit, Share, Spread, of_kind
from grammar.tree.printer import print_expression, print_string
from grammar.tree.source import Span
from grammar.tree.types import BOOL, Type
from grammar.tree.walk import reads, walk
from grammar.values.quantity import Quantity

# ---- numbers

_WHOLE = 100

# ---- numbers


@rule("P0204")
def bad_number(tree: Tree) -> Iterator[Diagnostic]:
    """A number that its bound cannot have, from a constant expression.

    The parser has looked at the numbers that are no expressions.
    """
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


@rule("P0208")
def empty_range(tree: Tree) -> Iterator[Diagnostic]:
    """A range whose computed ends are the same."""
    for clause in tree.written.clauses:
        if all(isinstance(end, ast.Literal) for end in clause.ends):
            continue
        low, high = (literal(end, tree.environment) for end in clause.ends)
        if low is not None and low == high:
            yield catalogue.empty_range(clause.ends[0].span)


# ---- limits that keep their own pods out

# What leaves out the pod itself.
_OTHERS = frozenset(
    f"{one}.{field} != {other}.{field}"
    for field in ("name", "uid")
    for one, other in (("peer", "pod"), ("pod", "peer"))
)


@rule("P0339")
def deadlocked_limit(tree: Tree) -> Iterator[Diagnostic]:
    """A strict limit that lets in no pod of its own, or only the first, or one too many."""
    for clause in tree.clauses(Limit):
        bound, amount = clause.bound, tree.constant(clause.bound.amount)
        if not clause.strength.strict or clause.per.of_nodes or amount is None:
            continue
        if clause.added is not None:
            continue
        where = clause.pods.where if clause.pods is not None else None
        if where is not None and not _counts_itself(where, tree):
            if bound.kind == "at most" and amount > 0:
                yield from _without_itself(where, f"{amount + 1:g}", tree)
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
        yield finding(message, bound.span, hint, Fix(bound.span, better))


def _without_itself(where: ast.Expr, number: str, tree: Tree) -> Iterator[Diagnostic]:
    """`peer.name != pod.name && …` with `at most 1`: a pod is one of the counted ones."""
    parts = conjuncts(where)
    rest = tuple(p for p in parts if tree.shown(p) not in _OTHERS)
    if not rest or len(rest) == len(parts):
        return
    counted = rest[0] if len(rest) == 1 else ast.Chain("&&", rest, where.span, BOOL)
    if _counts_itself(counted, tree):
        message = f"this leaves the pod itself out, so {number} of these pods may share a place"
        yield instead(message, where.span, tree.shown(counted))


def _counts_itself(where: ast.Expr, tree: Tree) -> bool:
    """Whether the policy's own pods are counted, as far as its `for` says it."""
    selector, namespace = tree.policy.selector, tree.policy.namespace
    known = {tree.shown(each) for each in (conjuncts(selector) if selector is not None else ())}
    if namespace is not None:
        known.add(f"pod.namespace == {print_string(namespace)}")
    return all(
        part == _TRUE or _is_itself(part, tree) or tree.shown(part) in known
        for part in conjuncts(of_peer(where, "peer", "pod"))
    )


_TRUE = ast.Literal(True, BOOL)


def _is_itself(part: ast.Expr, tree: Tree) -> bool:
    """Whether a condition compares a value with itself."""
    match part:
        case ast.Binary("==", left, right):
            return tree.shown(left) == tree.shown(right)
        case _:
            return False


# ---- shares


# ---- two shares


@rule("P0312")
def conflicting_shares(tree: Tree) -> Iterator[Diagnostic]:
    """Two shares that cannot both be satisfied.

    These are an `at least` above an `at most`, or two different `exactly`, on the same nodes.
    Numbers, and percentages that are rounded down, are a warning: a workload of few pods may
    satisfy both.
    """
    strict = [c for c in of_kind(tree.written.items, Share) if c.strength.strict]
    for number, later in enumerate(strict):
        for earlier in strict[:number]:
            about = [(s.pods, s.when, s.on) for s in (earlier, later)]
            if about[0] != about[1] or not _clash(earlier.bound, later.bound, tree):
                continue
            percent = "%" if earlier.bound.percent else ""
            says = f"{earlier.bound.kind} {tree.constant(earlier.bound.amount)}{percent}"
            message = f"this contradicts share `{earlier.name}`"
            hint = f"change one of them: that share says {says}"
            kinds = {earlier.bound.kind, later.bound.kind}
            severity: Severity = "error" if percent and "at least" in kinds else "warning"
            yield finding(message, later.bound.span, hint, severity=severity)


def _clash(one: Bound, other: Bound, tree: Tree) -> bool:
    """Whether no amount is within both bounds; a computed one contradicts nothing."""
    if one.percent != other.percent:
        return False
    low, high = 0.0, float("inf")
    for bound in (one, other):
        if (amount := tree.constant(bound.amount)) is None:
            return False
        low = max(low, amount) if bound.kind != "at most" else low
        high = min(high, amount) if bound.kind != "at least" else high
    return low > high


# ---- percentages of few pods


@rule("P0313")
def vanishing_percentage(tree: Tree) -> Iterator[Diagnostic]:
    """A percentage that is 0 of a workload of the cluster."""
    of_share = tree.cluster.replicas if tree.cluster is not None else None
    for clause in tree.clauses(Share) if of_share is not None else ():
        if not clause.strength.strict or not clause.counts_by_workload or of_share is None:
            continue
        found = sorted(of_share(clause).items())
        first = next((each for each in found if _vanishes(clause, each[1], tree)), None)
        if first is not None:
            name, replicas = first
            amount, bound = tree.constant(clause.bound.amount), clause.bound
            meant = f"{bound.kind} {amount}% rounding up"
            message = f"{amount}% of the {replicas} pod{'s' * (replicas > 1)} of `{name}` is 0"
            hint = f"write `{meant}` if such a workload may have a pod there"
            yield finding(message, bound.span, hint, Fix(bound.span, meant))


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


# ---- percent signs

# A share of this many pods, if it is round, is mostly a percentage.
_LEAST_PERCENT = 20
_ROUND_PERCENT = 5
_THIRDS = (33, 66, 67)


@rule("P0347")
def share_without_percent(tree: Tree) -> Iterator[Diagnostic]:
    """The bound of a share without a percent sign."""
    for clause in of_kind(tree.written.items, Share):
        bound = clause.bound
        number = tree.constant(bound.amount)
        if number is None:
            continue
        if bound.percent and 0 < number < 1:
            message = f"{number:g}% is less than one of {_WHOLE} pods"
            yield instead(message, bound.span, f"{bound.kind} {_WHOLE * number:g}%")
        elif not bound.percent and not isinstance(bound.amount, ast.Expr) and _is_round(number):
            meant = f"{bound.kind} {number:g}%"
            message = f"this is {number:g} pods, and not a part of them"
            hint = f"write `{meant}` for a part, or name the number of pods by a `let`"
            yield finding(message, bound.span, hint, Fix(bound.span, meant))


def _is_round(number: float) -> bool:
    is_round = number % _ROUND_PERCENT == 0 or number in _THIRDS
    return is_round and _LEAST_PERCENT <= number <= _WHOLE


# ---- without effect

# A node has 110 pods by default, and no kubelet is run with as many as this.
_MOST_PODS = 500


@rule("P0353")
def bound_without_effect(tree: Tree) -> Iterator[Diagnostic]:
    """A bound that holds wherever the pods are."""
    for clause in tree.clauses(Limit):
        amount, kind = tree.constant(clause.bound.amount), clause.bound.kind
        if amount is None or clause.added is not None:
            continue
        if clause.per.scope == "node" and kind == "at most" and amount > _MOST_PODS:
            message = f"no node has more than {amount:g} pods, so this limit never rejects one"
            hint = "write a smaller number, `per domain node.zone` or `per cluster`"
            yield finding(message, clause.bound.span, hint)
        elif kind == "at least" and amount == 0:
            yield _always_kept("at least 0", "at least 1", clause.bound.span)
    for share in tree.clauses(Share):
        bound, amount = share.bound, tree.constant(share.bound.amount)
        if bound.kind == "at least" and amount == 0:
            said = f"at least 0{'%' * bound.percent}"
            yield _always_kept(said, "at most 0%", bound.span)
        elif bound.kind == "at most" and amount == _WHOLE and bound.percent:
            yield _always_kept("at most 100%", "at least 100%", bound.span)


def _always_kept(said: str, meant: str, span: Span) -> Diagnostic:
    hint = f"write another number, or `{meant}` if that is meant"
    return finding(f"`{said}` is kept wherever the pods are", span, hint)


# ---- domains

# The fields of a node that people name in the place of its value.
_FIELDS = {
    "hostname": "node.name",
    "kubernetes.io/hostname": "node.name",
    "name": "node.name",
    "node": "node.name",
    "nodename": "node.name",
    "region": "node.region",
    "topology.kubernetes.io/region": "node.region",
    "topology.kubernetes.io/zone": "node.zone",
    "zone": "node.zone",
}


@rule("P0157")
def constant_domain(tree: Tree) -> Iterator[Diagnostic]:
    """A domain that is the same for all nodes.

    Mostly it is the key of the label whose value was meant.
    """
    groups = tree.environment.groups.values()
    for clause, out in zip(tree.written.clauses, tree.policy.clauses, strict=True):
        domain, whole = clause.domain, out.domain
        # A group of all nodes is meant: it has what they have together.
        if domain is None or whole is None or any(domain is group.by for group in groups):
            continue
        if "node" not in tree.read_by(domain):
            hint = _domain_hint(domain, whole, tree)
            yield catalogue.one_domain(hint, domain.span)


def _domain_hint(domain: ast.Expr, whole: ast.Expr, tree: Tree) -> str:
    keys = [c.value for c in constants(whole, tree.environment) if isinstance(c.value, str)]
    if keys and (field := _FIELDS.get(keys[0].lower())) is not None:
        return f"write `{field}`"
    if keys:
        return f"write `node.labels[{print_expression(domain)}]`, the value of the label"
    return "write what differs from node to node, such as `node.zone`"


@rule("P0320")
def unknown_label(tree: Tree) -> Iterator[Diagnostic]:
    """A label key that no node of the given cluster has."""
    if tree.cluster is None:
        return
    known, nodes = tree.cluster.labels, tree.cluster.nodes
    for expr in walk(tree.written):
        key, span = _key(expr)
        if not key or key in known:
            continue
        hint = remedy = None
        if (close := nearest(key, known)) is not None:
            is_text = not isinstance(expr, ast.Select)
            remedy = Fix(span, print_string(close)) if is_text else None
            hint = f"a similar label exists: {known[close]:,} of {nodes:,} nodes have `{close}`"
        found = finding(f"0 of {nodes:,} nodes have the label `{key}`", span, "", remedy)
        yield replace(found, label="no node has it", hint=hint)


_NODE = Type("Node")


def _key(expr: ast.Expr) -> tuple[str, Span]:
    """The constant key of `node.labels["k"]`, `node.labels[?"k"]`, `"k" in node.labels`."""
    match expr:
        case ast.Index(holder, ast.Literal(str() as key, _, span)) if _node_labels(holder):
            return key, span
        case ast.Binary("in", ast.Literal(str() as key, _, span), holder) if _node_labels(holder):
            return key, span
        case ast.Select(holder, name) if _node_labels(holder):
            return name, expr.name_span
        case _:
            return "", expr.span


def _node_labels(expr: ast.Expr) -> bool:
    match expr:
        case ast.Select(ast.Select(node, "metadata"), "labels"):
            return node.type == _NODE
        case _:
            return False


# ---- filters that count

# What a peer has of what the pod has, under the same names. The others change on the way to a node.
_OF_PODS = frozenset({"name", "namespace", "labels", "annotations", "requests", "priority"})
# The conditions of a list of pods, each with the name of a pod in it.
_Conditions = tuple[tuple[str, ast.Expr], ...]


@rule("P0318")
def sum_in_filter(tree: Tree) -> Iterator[Diagnostic]:
    """A filter that adds up what pods ask for, without those still on their way to the node."""
    message = "this sum does not have the pods that are still on their way to the node"
    limit = "`limit … { sum … of all pods where … per node at most … strict }`"
    for clause in (c for c in tree.clauses(Filter) if not c.at_bind):
        for call in walk(clause.requires):
            if (
                isinstance(call, ast.Call)
                and call.function == "sum"
                and any(map(_asked, walk(call)))
            ):
                yield finding(message, call.span, f"write a {limit} instead, which counts them")
                break


def _asked(expr: ast.Expr) -> bool:
    """Whether an expression is what a pod asks for."""
    match expr:
        case ast.Select(operand, "requests" | "limits"):
            return operand.type.name == "Peer"
        case _:
            return False


@rule("P0319")
def count_in_filter(tree: Tree) -> Iterator[Diagnostic]:
    """A filter that bounds a number of pods, without those still on their way to the node."""
    message = "this count does not have the pods that are still on their way to the node"
    limit = "`limit … { all pods where … per node at most … strict }`"
    for clause in (c for c in tree.clauses(Filter) if not c.at_bind):
        for require in clause.requires:
            for bound, conditions in _bounds(require, holds=True):
                if _is_kept(conditions, tree):
                    hint = f"write a {limit} instead, which counts them"
                    yield finding(message, bound.span, hint)


def _bounds(expr: ast.Expr, *, holds: bool) -> Iterator[tuple[ast.Expr, _Conditions]]:
    """The upper bounds that a condition sets by being true, or false, with what they count."""
    conditions: _Conditions | None = None
    match expr:
        case ast.Unary("!", operand):
            yield from _bounds(operand, holds=not holds)
        case ast.Chain("&&" | "||", operands):
            for operand in operands:
                yield from _bounds(operand, holds=holds)
        case ast.Comprehension("exists") if not holds:
            conditions = _of_pods(replace(expr, macro="filter"))
        case ast.Comprehension("all", _, _, (ast.Unary("!") | ast.Binary("!="),)) if holds:
            conditions = _of_pods(replace(expr, macro="filter"))
        case ast.Binary(op, left, right) if op in MIRRORED:
            if isinstance(left, ast.Literal):
                op, left, right = MIRRORED[op], right, left
            op = op if holds else NEGATED[op]
            if op in ("<", "<=") or (op == "==" and right == ast.Literal(0, right.type)):
                conditions = _counted(left)
        case _:
            pass
    if conditions is not None:
        yield expr, conditions


def _counted(expr: ast.Expr) -> _Conditions | None:
    """The conditions of the pods of a node that a number counts; None for any other number."""
    match expr:
        case ast.Call("size", target, args):
            return _of_pods(target if target is not None else args[0])
        case ast.Chain("+", (counted, ast.Literal())) | ast.Chain("+", (ast.Literal(), counted)):
            return _counted(counted)
        case _:
            return None


def _of_pods(expr: ast.Expr) -> _Conditions | None:
    """The conditions of the pods of a node that a list has; None for any other list."""
    match expr:
        case ast.Select(ast.Ident(), "pods", type=type_) if type_.name == "list":
            return ()
        case ast.Comprehension("filter", target, (name,), (body,)):
            inner = _of_pods(target)
            return None if inner is None else (*inner, (name, body))
        case ast.Comprehension("map", target, (_,), (_,)):
            return _of_pods(target)
        case _:
            return None


def _is_kept(conditions: _Conditions, tree: Tree) -> bool:
    """Whether a limit can count the pods: a pod has no phase, say, before it has a node."""
    return all(
        read.path[0] == "pod" or (read.path[0] == name and {*read.path[1:2]} & _OF_PODS)
        for name, body in conditions
        for read in reads(body, tree.environment.definitions)
    )
