"""Domains: those that are the same for all nodes, or that nodes lack, and unknown labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from grammar.meaning.absence import unguarded_keys
from grammar.meaning.folding import constants
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic, Fix, nearest
from grammar.rules.rule import Rule, Tree
from grammar.tree import ast
from grammar.tree.clauses import Limit
from grammar.tree.printer import print_expression, print_string
from grammar.tree.source import Span
from grammar.tree.types import Type
from grammar.tree.walk import walk

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


class ConstantDomain(Rule):
    """A domain that is the same for all nodes.

    Mostly it is the key of the label whose value was meant.
    """

    code = "P0157"
    wrong = 'spread "zones" { over "topology.kubernetes.io/zone" skew at most 1 strict }'
    right = 'spread "zones" { over node.zone skew at most 1 strict }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        groups = tree.environment.groups.values()
        for clause, out in zip(tree.written.clauses, tree.policy.clauses, strict=True):
            domain, whole = clause.domain, out.domain
            # A group of all nodes is meant: it has what they have together.
            if domain is None or whole is None or any(domain is group.by for group in groups):
                continue
            if "node" not in tree.read_by(domain):
                hint = _domain_hint(domain, whole, tree, may_be_whole=clause.may_be_whole)
                yield catalogue.one_domain(hint, domain.span)


def _domain_hint(domain: ast.Expr, whole: ast.Expr, tree: Tree, *, may_be_whole: bool) -> str:
    keys = [c.value for c in constants(whole, tree.environment) if isinstance(c.value, str)]
    if keys and (field := _FIELDS.get(keys[0].lower())) is not None:
        return f"write `{field}`"
    if keys:
        return f"write `node.labels[{print_expression(domain)}]`, the value of the label"
    if may_be_whole:
        return "write `per cluster`, or what differs from node to node, such as `node.zone`"
    return "write what differs from node to node, such as `node.zone`"


class NodesWithoutDomain(Rule):
    """A limit of none per domain, which rejects nodes without a domain.

    Anti-affinity, which it stands for, has nothing against these nodes. `missing` says what is
    meant.
    """

    code = "P0336"
    wrong = (
        'limit "apart" {\n'
        '  all pods where peer.labels["tier"] == "batch"\n'
        '  per domain node.labels["rack"]\n'
        "  at most 0\n"
        "  strict\n"
        "}"
    )
    right = (
        'limit "apart" {\n'
        '  all pods where peer.labels["tier"] == "batch"\n'
        '  per domain node.labels["rack"]\n'
        "  at most 0\n"
        "  strict\n"
        "  missing pass\n"
        "}"
    )

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
        for clause in tree.clauses(Limit):
            bound, domain = clause.bound, clause.per.domain
            if not clause.strength.strict or clause.missing or domain is None:
                continue
            is_none = bound.kind == "at most" and tree.constant(bound.amount) == 0
            if not is_none or clause.pods is None or clause.added is not None:
                continue
            if (key := next(unguarded_keys(domain), None)) is not None:
                shown = tree.shown(key)
                message = f"nodes without `{shown}` are rejected, as they are in no domain"
                hint = "add `missing pass`, as in anti-affinity, or `missing fail` to keep it so"
                yield self.found(message, domain.span, hint)


class UnknownLabel(Rule):
    """A label key that no node of the given cluster has."""

    code = "P0320"
    wrong = 'filter "arm" { require node.labels["kubernetes.io/arhc"] == "arm64" }'
    right = 'filter "arm" { require node.labels["kubernetes.io/arch"] == "arm64" }'

    def look(self, tree: Tree) -> Iterator[Diagnostic]:
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
            found = self.found(f"0 of {nodes:,} nodes have the label `{key}`", span, "", remedy)
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
