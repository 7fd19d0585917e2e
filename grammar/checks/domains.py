"""Domains: checks of domains that are the same for all nodes, and of nodes without a domain.

These checks look at policies that are written out; what they say is about the policy as written.
"""

from __future__ import annotations

from collections.abc import Iterator

from grammar.checker.policy_checker import Checked
from grammar.checks.clause_numbers import constant
from grammar.checks.conditions import unguarded_keys
from grammar.checks.known_words import constants
from grammar.meaning.schema import print_as_written
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic
from grammar.tree import ast
from grammar.tree.clauses import Limit, of_kind
from grammar.tree.printer import print_expression
from grammar.tree.walk import Definitions, reads

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
    definitions = Definitions(checked.environment.lets, checked.environment.defs)
    for clause, written in zip(checked.policy.clauses, out.policy.clauses, strict=True):
        domain, whole = clause.domain, written.domain
        if domain is None or whole is None:
            continue
        if not any(read.path[0] == "node" for read in reads(domain, definitions)):
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
