"""Needs of policies: the optional parts of the cluster that the cache has to keep for them."""

from __future__ import annotations

from collections.abc import Iterable

from engine.cache.informers import Needs
from engine.cards.node_cards import TAKEN
from engine.objects.form_annotation import FORM
from engine.objects.request_pod import BYPASS
from grammar.tree.ast import Ident, Literal, Select
from grammar.tree.clauses import Cards, Limit, Policy, of_kind
from grammar.tree.walk import walk


def needs(policies: Iterable[Policy]) -> Needs:
    """The needs of checked policies."""
    known = tuple(policies)
    read = list(walk(known))
    # A mutual limit of a pod that bypasses policies keeps nobody out.
    mutual = any(limit.mutual for p in known for limit in of_kind(p.items, Limit))
    bypass = {BYPASS} if mutual else set()
    cards = [c for p in known for c in of_kind(p.items, Cards)]
    taken = {TAKEN} if cards else set()
    taken |= {c.index for c in cards if c.index is not None}
    form = {FORM} if any(p.portable for p in known) else set()
    return Needs(
        namespaces=any(isinstance(e, Ident) and e.name == "namespaceObject" for e in read)
        or any(isinstance(e, Select) and e.name == "namespaceLabels" for e in read),
        workloads=any(isinstance(e, Select) and e.name == "workload" for e in read)
        or any(c.needs_workloads for p in known for c in p.clauses),
        annotations=frozenset[str]().union(*map(named_annotations, known), bypass, taken, form),
    )


def named_annotations(tree: object) -> frozenset[str]:
    """Every text that could be the key of an annotation of another pod, if any is read in a tree.

    This may be too many keys, never too few: a key may stand in a `let`, far from where it is used.
    A key that is computed during evaluation cannot be known, so its annotation is missing.
    """
    read = list(walk(tree))
    if not any(isinstance(e, Select) and e.name == "annotations" for e in read):
        return frozenset()
    return frozenset(
        e.name if isinstance(e, Select) else str(e.value)
        for e in read
        if isinstance(e, Select) or (isinstance(e, Literal) and isinstance(e.value, str))
    )
