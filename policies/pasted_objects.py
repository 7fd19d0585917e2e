"""Pasted objects: the parts of a pod of Kubernetes that say where it may run, as clauses.

Somebody pastes `nodeSelector`, `affinity` or `topologySpreadConstraints` among the rules of a
policy. The text is read as YAML into types that know every field; what has another field, or is no
YAML, has no answer. The selectors mean what they mean in the fields of our own objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from grammar.messages.plain_words import DOMAINS
from grammar.tree.printer import print_string
from policies.documents import DocumentError, read
from policies.resource import Base, NodeRequirement, NodeSelector, Selector
from policies.sugar import conditions

_Weight = Annotated[int, Meta(ge=1, le=100)]
_NEEDLESS = "a pod has its tolerations itself, and kube-scheduler compares them with the taints"
# What other clauses would be right where the pods have the label themselves.
_OF_OTHERS = ", if the label is that of other pods than these"
_GUARD = re.compile(r'(?<!!\()"[^"]+" in (\w+)\.labels && (?=\1\.labels\["[^"]+"\] (?:==|in) )')


class _Term(Base, frozen=True):
    matchExpressions: tuple[NodeRequirement, ...] = ()
    matchFields: tuple[NodeRequirement, ...] = ()


class _Terms(Base, frozen=True):
    nodeSelectorTerms: tuple[_Term, ...]


class _PreferredNodes(Base, frozen=True):
    preference: _Term
    weight: _Weight


class _PodTerm(Base, frozen=True):
    topologyKey: str
    labelSelector: Selector
    namespaces: tuple[str, ...] = ()


class _PreferredPods(Base, frozen=True):
    podAffinityTerm: _PodTerm
    weight: _Weight


class _NodeAffinity(Base, frozen=True):
    requiredDuringSchedulingIgnoredDuringExecution: _Terms | None = None
    preferredDuringSchedulingIgnoredDuringExecution: tuple[_PreferredNodes, ...] = ()


class _PodAffinity(Base, frozen=True):
    requiredDuringSchedulingIgnoredDuringExecution: tuple[_PodTerm, ...] = ()
    preferredDuringSchedulingIgnoredDuringExecution: tuple[_PreferredPods, ...] = ()


class _Spread(Base, frozen=True):
    maxSkew: Annotated[int, Meta(ge=1)]
    topologyKey: str
    whenUnsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    minDomains: int | None = None
    labelSelector: Selector | None = None


class _Affinity(Base, frozen=True):
    nodeAffinity: _NodeAffinity | None = None
    podAffinity: _PodAffinity | None = None
    podAntiAffinity: _PodAffinity | None = None


class _PastedParts(_Affinity, frozen=True):
    """The parts of a pod that say where it may run."""

    nodeSelector: dict[str, str] | None = None
    affinity: _Affinity | None = None
    topologySpreadConstraints: tuple[_Spread, ...] = ()
    nodeSelectorTerms: tuple[_Term, ...] = ()
    matchExpressions: tuple[NodeRequirement, ...] = ()
    tolerations: tuple[dict[str, str | int], ...] = ()
    spec: _PastedParts | None = None


def clauses_of(text: str) -> tuple[str, str] | None:
    """The clauses that a pasted part of a pod means, and what the hint adds; None without any.

    No clause and a reason stand for a part that needs none.
    """
    try:
        (document,) = read(text)
        parts = msgspec.convert(document.value, _PastedParts)
    except (DocumentError, ValueError, RecursionError):
        return None
    while parts.spec is not None:
        if parts != _PastedParts(spec=parts.spec):
            return None
        parts = parts.spec
    try:
        clauses = [*_nodes(parts), *_pods(parts), *map(_spread, parts.topologySpreadConstraints)]
    except ValueError:
        return None
    if not clauses:
        return ("", _NEEDLESS) if parts.tolerations else None
    made = _numbered(clauses)
    return made, _OF_OTHERS if "pods where" in made and "limit" in made else ""


def _numbered(clauses: list[tuple[str, str]]) -> str:
    """The clauses, each with a name of its own."""
    names: list[str] = []
    written = []
    for head, body in clauses:
        kind, name, *more = head.split()
        names.append(name)
        number = f" {names.count(name)}" if names.count(name) > 1 else ""
        written.append(" ".join([kind, f'"{name}{number}"', *more, f"{{ {body} }}"]))
    return " ".join(written)


def _nodes(parts: _PastedParts) -> Iterator[tuple[str, str]]:
    """The clauses about nodes, each as its head and its body."""
    if parts.nodeSelector:
        yield "filter nodes", f"require {_all(NodeSelector(matchLabels=parts.nodeSelector))}"
    affinity = parts.nodeAffinity or (parts.affinity.nodeAffinity if parts.affinity else None)
    required = affinity.requiredDuringSchedulingIgnoredDuringExecution if affinity else None
    terms = required.nodeSelectorTerms if required is not None else parts.nodeSelectorTerms
    if parts.matchExpressions:
        terms = (_Term(parts.matchExpressions),)
    if terms:
        yield "filter nodes", f"require {' || '.join(map(_term, terms))}"
    for each in affinity.preferredDuringSchedulingIgnoredDuringExecution if affinity else ():
        yield f"score nodes weight {each.weight}", f"value {_term(each.preference)}"


def _term(term: _Term) -> str:
    selected = [_all(NodeSelector(matchExpressions=term.matchExpressions))]
    for field in term.matchFields:
        if field.key != "metadata.name" or field.operator not in ("In", "NotIn"):
            raise ValueError(field.key)
        names = ", ".join(map(print_string, field.values))
        said = f"node.name in [{names}]"
        selected.append(said if field.operator == "In" else f"!({said})")
    return " && ".join(filter(None, selected))


def _all(selector: NodeSelector | Selector, owner: str = "node") -> str:
    """The conditions of a selector; in a clause, a label that is missing fails without a guard."""
    return _GUARD.sub("", " && ".join(conditions(selector, f"{owner}.labels")))


def _pods(parts: _PastedParts) -> Iterator[tuple[str, str]]:
    """The clauses about pods that run already."""
    around = parts.affinity or parts
    for affinity, name, bound in (
        (parts.podAffinity or around.podAffinity, "near", "at least 1"),
        (parts.podAntiAffinity or around.podAntiAffinity, "apart", "at most 0"),
    ):
        if affinity is None:
            continue
        for term in affinity.requiredDuringSchedulingIgnoredDuringExecution:
            yield f"limit {name}", f"{_counted(term)} {bound} strict"
        for each in affinity.preferredDuringSchedulingIgnoredDuringExecution:
            soft = f"{bound} best effort weight {each.weight}"
            yield f"limit {name}", f"{_counted(each.podAffinityTerm)} {soft}"


def _counted(term: _PodTerm) -> str:
    where = _all(term.labelSelector, "peer") or "true"
    if term.namespaces:
        listed = ", ".join(map(print_string, term.namespaces))
        where = f"{where} && peer.namespace in [{listed}]"
    domain = _domain(term.topologyKey)
    per = "per node" if domain == "node.name" else f"per domain {domain}"
    return f"{'all ' * bool(term.namespaces)}pods where {where} {per}"


def _spread(each: _Spread) -> tuple[str, str]:
    where = _all(each.labelSelector, "peer") if each.labelSelector is not None else ""
    pods = f"pods where {where} " if where else ""
    least = f" min domains {each.minDomains}" if each.minDomains is not None else ""
    soft = each.whenUnsatisfiable == "ScheduleAnyway"
    strength = "best effort weight 10" if soft else "strict"
    bound = f"skew at most {each.maxSkew}{least} {strength}"
    return "spread topology", f"{pods}over {_domain(each.topologyKey)} {bound}"


def _domain(key: str) -> str:
    return DOMAINS.get(key) or f"node.labels[{print_string(key)}]"
