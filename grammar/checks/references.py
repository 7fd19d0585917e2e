"""Checks of what a policy refers to: labels, patterns, `let`s, `def`s, and domains of nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from grammar.checker.policy_checker import Checked
from grammar.meaning.absence import unguarded_keys
from grammar.meaning.folding import constant, constants
from grammar.meaning.schema import print_as_written
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Fix, nearest
from grammar.tree import ast
from grammar.tree.ast import (
    Binary,
    Call,
    DefCall,
    Expr,
    Ident,
    Index,
    LetReference,
    Literal,
    Select,
)
from grammar.tree.clauses import Def, Let, Limit, of_kind
from grammar.tree.groups import Count, Group
from grammar.tree.printer import print_expression, print_string
from grammar.tree.source import Span
from grammar.tree.types import Type
from grammar.tree.walk import roots, walk
from grammar.values import strings as regex
from grammar.values.errors import EvaluationError

_NODE = Type("Node")


def unknown_labels(checked: Checked, known: Mapping[str, int], nodes: int) -> Iterator[Diagnostic]:
    """A warning (P0320) for each constant label key that no node of a cluster has.

    `known` has the number of nodes by label key; the cluster has `nodes` nodes.
    """
    warned: set[tuple[str, Span]] = set()
    for expr in walk(checked.policy):
        key = _key(expr)
        if key is None or key[0] in known or key in warned:
            continue
        warned.add(key)
        yield _warning(*key, known, nodes, is_text=not isinstance(expr, Select))


def _key(expr: Expr) -> tuple[str, Span] | None:
    """The constant key of `node.labels["k"]`, `node.labels[?"k"]`, `"k" in node.labels`."""
    match expr:
        case Index(holder, Literal(str() as key, _, span)) if _node_labels(holder):
            return key, span
        case Binary("in", Literal(str() as key, _, span), holder) if _node_labels(holder):
            return key, span
        case Select(holder, name) if _node_labels(holder):
            return name, expr.name_span
        case _:
            return None


def _node_labels(expr: Expr) -> bool:
    match expr:
        case Select(Select(node, "metadata"), "labels"):
            return node.type == _NODE
        case _:
            return False


def _warning(
    key: str, span: Span, known: Mapping[str, int], nodes: int, *, is_text: bool
) -> Diagnostic:
    hint = remedy = None
    if (close := nearest(key, known)) is not None:
        remedy = Fix(span, print_string(close)) if is_text else None
        hint = f"a similar label exists: {known[close]:,} of {nodes:,} nodes have `{close}`"
    message = f"0 of {nodes:,} nodes have the label `{key}`"
    return Diagnostic(
        "P0320", "warning", message, span, label="no node has it", hint=hint, remedy=remedy
    )


_PATTERN_FUNCTIONS = frozenset({"matches", "find", "findAll"})


def bad_patterns(checked: Checked) -> Iterator[Diagnostic]:
    """An error (P0119) for each constant regular expression that RE2 does not accept."""
    for expr in walk(checked.policy):
        if not isinstance(expr, Call) or expr.function not in _PATTERN_FUNCTIONS:
            continue
        operands = expr.args if expr.target is None else (expr.target, *expr.args)
        if len(operands) > 1 and isinstance(constant := operands[1], Literal):
            try:
                regex.pattern(str(constant.value))
            except EvaluationError as error:
                meant = glob_as_pattern(str(constant.value))
                literal = print_expression(replace(constant, value=meant)) if meant else None
                yield catalogue.bad_pattern(str(error), constant.span, literal)


_GLOB = re.compile(r"[\w.*?/@:-]*[*?][\w.*?/@:-]*\Z")


def glob_as_pattern(text: str) -> str | None:
    """The regular expression that a glob such as `*-gpu` or `eu-?a` stands for; None for others."""
    if _GLOB.match(text) is None:
        return None
    # `gpu-.*` is a regular expression already.
    parts = {"*": ".*", "?": ".", ".": r"\."}
    made = ("".join(parts.get(c, c) for c in part) for part in text.split(".*"))
    return "^" + ".*".join(made) + "$"


def unused_definitions(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0303) for each `let`, `def`, `group`, `count` and parameter that nothing uses."""
    named = {*checked.environment.groups, *checked.environment.counts}
    used = {e.name for e in walk(checked.policy) if isinstance(e, LetReference | DefCall)}
    used |= {e.name for e in walk(checked.policy) if isinstance(e, Ident) and e.name in named}
    used |= {item.per.group for item in checked.policy.items if isinstance(item, Count)}
    # Where the name of a group is a domain, what the group is by stands in its place.
    domains = [value.expr for clause in checked.policy.clauses for value in clause.values]
    groups = checked.environment.groups.values()
    used |= {group.name for group in groups if any(each is group.by for each in domains)}
    used |= {e.let for e in walk(checked.policy) if isinstance(e, Literal)}
    for item in checked.policy.items:
        if isinstance(item, Let | Def | Group | Count) and item.name not in used:
            word = type(item).__name__.lower()
            message = f"{word} `{item.name}` is never used"
            edit = Fix(item.span, "")
            yield Diagnostic(
                "P0303", "warning", message, item.name_span, hint="delete it", remedy=edit
            )
    if checked.template is None:
        return
    named = {e.name for e in walk(checked.template.items) if isinstance(e, Ident)}
    for parameter in checked.template.parameters:
        if parameter.name not in named:
            message = f"parameter `{parameter.name}` is never used"
            yield Diagnostic("P0303", "warning", message, parameter.name_span, hint="delete it")


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


def constant_domains(checked: Checked, out: Checked) -> Iterator[Diagnostic]:
    """An error (P0157) for each domain that does not read the node: all nodes are in the same.

    Mostly it is the key of the label whose value was meant. `out` is the policy written out.
    """
    definitions = checked.environment.definitions
    for clause, written in zip(checked.policy.clauses, out.policy.clauses, strict=True):
        domain, whole = clause.domain, written.domain
        if domain is None or whole is None:
            continue
        # A group of all nodes is meant: it has what they have together.
        is_group = any(domain is group.by for group in checked.environment.groups.values())
        if not is_group and "node" not in roots([domain], definitions):
            hint = _domain_hint(domain, whole, checked, may_be_whole=clause.may_be_whole)
            yield catalogue.one_domain(hint, domain.span)


def _domain_hint(domain: ast.Expr, whole: ast.Expr, checked: Checked, *, may_be_whole: bool) -> str:
    keys = [c.value for c in constants(whole, checked.environment) if isinstance(c.value, str)]
    if keys and (field := _FIELDS.get(keys[0].lower())) is not None:
        return f"write `{field}`"
    if keys:
        return f"write `node.labels[{print_expression(domain)}]`, the value of the label"
    if may_be_whole:
        return "write `per cluster`, or what differs from node to node, such as `node.zone`"
    return "write what differs from node to node, such as `node.zone`"


def nodes_without_domain(checked: Checked) -> Iterator[Diagnostic]:
    """A warning (P0336) for each limit of none per domain, which rejects nodes without a domain.

    Anti-affinity, which it stands for, has nothing against these nodes. `missing` says what is
    meant.
    """
    for clause in of_kind(checked.policy.items, Limit):
        if not clause.strength.strict or clause.missing:
            continue
        bound, domain = clause.bound, clause.per.domain
        is_none = bound.kind == "at most" and constant(bound.amount, checked.environment) == 0
        if domain is None or not is_none or clause.pods is None or clause.pods.amount is not None:
            continue
        if (key := next(unguarded_keys(domain), None)) is not None:
            shown = print_as_written(key, checked.environment.schema)
            message = f"nodes without `{shown}` are rejected, as they are in no domain"
            hint = "add `missing pass`, as in anti-affinity, or `missing fail` to keep it so"
            yield Diagnostic("P0336", "warning", message, domain.span, hint=hint)
