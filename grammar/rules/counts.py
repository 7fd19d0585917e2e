"""Counts: bounds and domains of limits, shares and spreads that cannot be meant.

A filter that bounds how many pods a node has is one of them: it does not see the pods that are
still on their way to the node, so all pods of a burst find the same room. A `limit` counts
these pods.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, permutations
from math import inf

from grammar.clauses.filter import Filter
from grammar.clauses.gang import Gang
from grammar.clauses.limit import Limit
from grammar.clauses.share import Share
from grammar.clauses.spread import Spread
from grammar.meaning.access import of_peer
from grammar.meaning.constants import constants, literal
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Fix, Severity
from grammar.messages.plain_words import DOMAINS
from grammar.rules.ranges import MIRRORED, NEGATED, Fact
from grammar.rules.rule import Tree, finding, instead, rule
from grammar.tree import ast
from grammar.tree.clause_parts import Bound, ClauseThatCounts
from grammar.tree.policy import Count, Policy, of_kind
from grammar.tree.printer import print_expression, print_string
from grammar.tree.source import Span
from grammar.tree.types import BOOL, STRING
from grammar.tree.walk import conjuncts, reads, walk
from grammar.values.quantity import Quantity

# ---- numbers

_WHOLE = 100


@rule("P0204")
def bad_number(tree: Tree) -> Iterator[Diagnostic]:
    """A number that its bound cannot have, from a constant expression.

    The parser has looked at the numbers that are no expressions.
    """
    for amount, percent, what, least, span in _numbers(tree.written):
        if not isinstance(amount, ast.Expr) or (value := tree.constant(amount)) is None:
            continue
        if percent and not 0 <= value <= _WHOLE:
            allowed = "a number from 0 to 100"
            yield catalogue.bad_number(f"{value}%", "percentage of pods", allowed, span)
        elif not percent and (value < least or value % 1):
            yield catalogue.bad_number(
                str(value), what, f"a whole number from {least}", amount.span
            )
    for limit in of_kind(tree.written.items, Limit):
        given = limit.bound.amount
        added = literal(given, tree.environment) if isinstance(given, ast.Expr) else given
        size = added.nanos if isinstance(added, Quantity) else added
        if limit.added is not None and isinstance(size, int | float) and size < 0:
            yield catalogue.bad_number(str(added), "sum", "an amount from 0", limit.bound.span)


def _numbers(policy: Policy) -> Iterator[tuple[float | ast.Expr | None, bool, str, int, Span]]:
    """Numbers of pods and the like: percentage or not, the name in a message, the least one."""
    items = policy.items
    # What a sum is bounded by may be an amount.
    plain = [each for each in of_kind(items, ClauseThatCounts) if each.added is None]
    for bound in of_kind([getattr(each, "bound", None) for each in plain], Bound):
        yield bound.amount, bound.percent, "number of pods", 0, bound.span
    for spread in of_kind(items, Spread):
        yield spread.skew, False, "skew", 1, spread.name_span
        yield spread.min_domains, False, "number of domains", 1, spread.name_span
    for gang in of_kind(items, Gang):
        for needed in gang.numbers:
            yield needed.amount, needed.percent, "number of members", 1, gang.name_span


# ---- limits that keep their own pods out

# What leaves out the pod itself.
_OTHERS = re.compile(r"(?:peer\.(name|uid) != pod|pod\.(name|uid) != peer)\.(?:\1|\2)\Z")


@rule("P0339")
def deadlocked_limit(tree: Tree) -> Iterator[Diagnostic]:
    """A strict limit or a filter that lets in no pod of its own, or only the first, or too many."""
    yield from _full_where_it_must_be(tree)
    for clause in tree.clauses(Limit):
        bound, amount, pods = clause.bound, tree.constant(clause.bound.amount), clause.pods
        if not clause.strength.strict or clause.per.counted:
            continue
        where = pods.where if pods is not None else None
        is_own = _counts_itself(where, tree)
        if pods is not None and pods.state:
            # A pod that has just been placed is in no state.
            if is_own and pods.state == "ready" and bound.kind != "at least":
                message = "pods that are not ready yet do not count: a burst of them passes this"
                yield finding(message, pods.span, "write `pods where` without `ready`")
            continue
        if amount is None or clause.added:
            continue
        if where is not None and not is_own:
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


def _full_where_it_must_be(tree: Tree) -> Iterator[Diagnostic]:
    """`at most N` beside `at least M` of the same pods in one place: later pods have no place."""
    strict = [c for c in tree.clauses(Limit) if c.strength.strict and not c.added]
    for least, most in permutations(strict, 2):
        if not (least.bound.kind == "at least" != most.bound.kind) or least.per.counted:
            continue
        where = least.pods.where if least.pods is not None else None
        is_needed = tree.constant(least.bound.amount) and _counts_itself(where, tree)
        number = tree.constant(most.bound.amount)
        if is_needed and number and _about(most, tree) == _about(least, tree):
            message = (
                f"limit `{most.name}` has room for {number:g} of these pods, and others must go "
                "where one is"
            )
            hint = "let one of the two limits be about another place"
            yield finding(message, least.bound.span, hint)


def _without_itself(where: ast.Expr, number: str, tree: Tree) -> Iterator[Diagnostic]:
    """`peer.name != pod.name && …` with `at most 1`: a pod is one of the counted ones."""
    parts = conjuncts(where)
    rest = tuple(p for p in parts if not _OTHERS.match(tree.shown(p)))
    if not rest or len(rest) == len(parts):
        return
    counted = rest[0] if len(rest) == 1 else ast.Chain("&&", rest, span=where.span, type=BOOL)
    if _counts_itself(counted, tree):
        message = f"this leaves the pod itself out, so {number} of these pods may share a place"
        yield instead(message, where.span, tree.shown(counted))


# A label that may not be there, which is another spelling of its read.
_OR_EMPTY = re.compile(r'\[\?("[^"]*")\](?:\.orValue\(""\))?(?= == |$)')


def _about(limit: Limit, tree: Tree) -> object:
    """The place and the pods that a limit is about, however its conditions are spelt."""
    pods = limit.pods
    counted = pods and (replace(pods, where=None), _said(pods.where, tree))
    return limit.per, counted, _said(limit.when, tree)


def _said(condition: ast.Expr | None, tree: Tree) -> set[str]:
    """What a condition says, in any order and without what is always so."""
    found = {"true"}
    for part in conjuncts(condition) if condition is not None else ():
        sides = [_OR_EMPTY.sub(r"[\1]", tree.shown(part))]
        if isinstance(part, ast.Binary) and part.op == "==":
            sides = sorted(sides[0].split(" == "))
        # What is equal to itself is always so.
        found.add(" == ".join(sides) if len({*sides}) == len(sides) else "true")
    return found


def _counts_itself(where: ast.Expr | None, tree: Tree) -> bool:
    """Whether the policy's own pods are counted, as far as its `for` says it."""
    namespace = print_string(tree.policy.namespace or "")
    known = {f"{namespace} == pod.namespace", *_said(tree.policy.selector, tree)}
    return where is None or _said(of_peer(where, "peer", "pod"), tree) <= known


# ---- shares


@rule("P0312")
def conflicting_shares(tree: Tree) -> Iterator[Diagnostic]:
    """Two shares that cannot both be satisfied.

    These are an `at least` above an `at most`, or two different `exactly`, on the same nodes.
    Numbers, and percentages that are rounded down, are a warning: a workload of few pods may
    satisfy both.
    """
    strict = [c for c in of_kind(tree.written.items, Share) if c.strength.strict]
    for earlier, later in combinations(strict, 2):
        about = [(s.pods, s.when, s.on, s.bound.percent) for s in (earlier, later)]
        one, other = (_kept(share.bound, tree) for share in (earlier, later))
        if about[0] != about[1] or one is None or other is None or not one.excludes(other):
            continue
        percent = "%" if earlier.bound.percent else ""
        says = f"{earlier.bound.kind} {tree.constant(earlier.bound.amount)}{percent}"
        message = f"this contradicts share `{earlier.name}`"
        hint = f"change one of them: that share says {says}"
        kinds = {earlier.bound.kind, later.bound.kind}
        severity: Severity = "error" if percent and "at least" in kinds else "warning"
        yield finding(message, later.bound.span, hint, severity=severity)


def _kept(bound: Bound, tree: Tree) -> Fact | None:
    """The amounts within a bound; None for a computed one, which contradicts nothing."""
    if (amount := tree.constant(bound.amount)) is None:
        return None
    ends = {"at most": (-inf, amount), "at least": (amount, inf), "exactly": (amount, amount)}
    low, high = ends[bound.kind]
    return Fact("", low=low, high=high)


# ---- percent signs

# A share of this many pods is mostly a percentage.
_ROUND = {*range(20, 101, 5), 33, 66, 67}


@rule("P0347")
def share_without_percent(tree: Tree) -> Iterator[Diagnostic]:
    """The bound of a share, or the number of a gang, without a percent sign."""
    bounds = [clause.bound for clause in of_kind(tree.written.items, Share)]
    needed = [gang.of_all for gang in of_kind(tree.written.items, Gang) if gang.by is None]
    bounds += [each for each in needed if each is not None]
    for bound in bounds:
        number = tree.constant(bound.amount)
        if number is None:
            continue
        if bound.percent and 0 < number < 1:
            message = f"{number:g}% is less than one of {_WHOLE} pods"
            yield instead(message, bound.span, f"{bound.kind} {_WHOLE * number:g}%")
        elif not bound.percent and not isinstance(bound.amount, ast.Expr) and number in _ROUND:
            meant = f"{bound.kind} {number:g}%"
            message = f"this is {number:g} pods, and not a part of them"
            hint = f"write `{meant}` for a part, or name the number of pods by a `let`"
            yield finding(message, bound.span, hint, Fix(bound.span, meant))


# ---- domains


@rule("P0157")
def constant_domain(tree: Tree) -> Iterator[Diagnostic]:
    """A domain that is the same for all nodes.

    Mostly it is the key of the label whose value was meant.
    """
    every = zip(tree.written.clauses, tree.policy.clauses, strict=True)
    groups = {id(group.by): group.by for group in tree.environment.groups.values()}
    places = [(c.domain, out.domain) for c, out in every if id(c.domain) not in groups]
    # A group by `true` is meant: it has what all nodes have together.
    places += [(by, by) for by in groups.values() if by.type == STRING]
    for domain, whole in places:
        if domain is not None and whole is not None and "node" not in tree.read_by(domain):
            keys = [c.value for c in constants(whole, tree.environment)]
            hint = "write what differs from node to node, such as `node.zone`"
            if keys and isinstance(keys[0], str):
                meant = f"node.labels[{print_expression(domain)}]`, the value of the label"
                field = DOMAINS.get(keys[0].lower())
                hint = f"write `{meant if field is None else f'{field}`'}"
            yield catalogue.one_domain(hint, domain.span)


# ---- filters that count


@rule("P0339")
def count_of_itself(tree: Tree) -> Iterator[Diagnostic]:
    """A filter of a count of its own pods that lets none in, or some and then none anywhere."""
    own = {
        each.name: each.pods.state
        for each in tree.clauses(Count)
        if each.per.place == "cluster" and each.pods.amount is None
        if _counts_itself(each.pods.where, tree)
    }
    for clause in (c for c in tree.clauses(Filter) if not c.at_bind):
        parts = [p for p in conjuncts(*clause.requires) if "node" not in tree.read_by(p)]
        for bound, left in (found for p in parts for found in _bounds(p, holds=True)):
            name = getattr(left, "name", "")
            if own.get(name) == "pending":
                hint = "count those that go first, as in `peer.priority > pod.priority`"
                yield finding("pending pods that count each other all wait", bound.span, hint)
            elif own.get(name) == "" and clause.message is None:
                message = "this counts the pods of all nodes, so it lets in every node or none"
                hint = f"write `count {name} per node`, or a `limit … per cluster … strict`"
                yield finding(message, bound.span, hint)


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
            if isinstance(call, ast.Call) and call.function == "sum" and _is_asked(call):
                yield finding(message, call.span, f"write a {limit} instead, which counts them")
                break


def _is_asked(call: ast.Expr) -> bool:
    """Whether an expression reads what a pod asks for."""
    fields = (e for e in walk(call) if isinstance(e, ast.Select))
    return any(e.name in ("requests", "limits") and e.operand.type.name == "Peer" for e in fields)


@rule("P0319")
def count_in_filter(tree: Tree) -> Iterator[Diagnostic]:
    """A filter that bounds a number of pods, without those still on their way to the node."""
    message = "this count does not have the pods that are still on their way to the node"
    limit = "`limit … { all pods where … per node at most … strict }`"
    for clause in (c for c in tree.clauses(Filter) if not c.at_bind):
        for require in clause.requires:
            for bound, left in _bounds(require, holds=True):
                conditions = _counted(left)
                if conditions is not None and _is_kept(conditions, tree):
                    hint = f"write a {limit} instead, which counts them"
                    yield finding(message, bound.span, hint)


def _bounds(expr: ast.Expr, *, holds: bool) -> Iterator[tuple[ast.Expr, ast.Expr]]:
    """The upper bounds that a condition sets by being true, or false, with what they bound."""
    match expr:
        case ast.Unary("!", operand):
            yield from _bounds(operand, holds=not holds)
        case ast.Chain("&&" | "||", operands):
            for operand in operands:
                yield from _bounds(operand, holds=holds)
        case ast.Comprehension("exists") if not holds:
            yield expr, replace(expr, macro="filter")
        case ast.Comprehension("all", _, _, (ast.Unary("!") | ast.Binary("!="),)) if holds:
            yield expr, replace(expr, macro="filter")
        case ast.Binary(op, left, right) if op in MIRRORED:
            if isinstance(left, ast.Literal):
                op, left, right = MIRRORED[op], right, left
            op = op if holds else NEGATED[op]
            if op in ("<", "<=") or (op == "==" and right == ast.Literal(0, right.type)):
                yield expr, left
        case _:
            pass


def _counted(expr: ast.Expr) -> _Conditions | None:
    """The conditions of the pods of a node that a number counts; None for any other number."""
    match expr:
        case ast.Call("size", target, args):
            return _of_pods(target if target is not None else args[0])
        case ast.Chain("+", (counted, ast.Literal())) | ast.Chain("+", (ast.Literal(), counted)):
            return _counted(counted)
        case ast.Comprehension("filter"):
            return _of_pods(expr)
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
