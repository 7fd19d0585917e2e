"""Policy columns: what a policy does in two words of a table, from its clauses.

The mode says whether it keeps pods off nodes, prefers nodes, or only reports; the target what it is
about. What an object sets, such as its `enforcementMode`, concerns only a part of it.
"""

from __future__ import annotations

from collections import Counter

from grammar.tree.ast import Expr
from grammar.tree.clause_parts import Bound
from grammar.tree.clauses import Policy, Setting, Share, of_kind
from grammar.tree.printer import print_expression


def mode(policy: Policy) -> str:
    """`Strict`, `BestEffort`, both, or `Audit`; empty without a clause."""
    settings = (item for item in policy.items if isinstance(item, Setting))
    if any(s.name == "mode" and s.value == "audit" for s in settings):
        return "Audit"
    strict = any(c.verb != "prioritize" for c in policy.clauses)
    prefers = any(c.points_weight is not None for c in policy.clauses)
    return "+".join(["Strict"] * strict + ["BestEffort"] * prefers)


def target(policy: Policy) -> str:
    """`at most 40%` of a share, and the other clauses by their kinds: `filter, 2 scores`."""
    shares = [*of_kind(policy.items, Share)]
    kinds = Counter(c.keyword for c in policy.clauses if c not in shares)
    others = (kind if n == 1 else f"{n} {kind.removesuffix('s')}s" for kind, n in kinds.items())
    return ", ".join((*(_bound(share.bound) for share in shares), *others))


def _bound(bound: Bound) -> str:
    amount = bound.amount
    number = print_expression(amount) if isinstance(amount, Expr) else f"{amount:g}"
    return f"{bound.kind} {number}{'%' if bound.percent else ''}"
