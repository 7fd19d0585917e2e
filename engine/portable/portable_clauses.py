"""Portable clauses: parts of a pod's spec, as node affinity, spread constraints and pod affinity.

No part rejects a node that its clause does not reject. A part that rejects the same nodes is exact.
Sources: KEP-895 and KEP-3094 (spread constraints), `interpodaffinity` and
`component-helpers/scheduling/corev1/nodeaffinity` of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import msgspec

from engine.objects.codec import ObjectCodec, Pod
from engine.portable.label_conditions import Frozen, LabelConditions
from engine.portable.selectors import ALWAYS, NEVER, Term, Terms, UnportableError, expressions
from engine.program.pod_shape import PodReads
from grammar.checker.policy_checker import Checked
from grammar.clauses.cards import Cards
from grammar.clauses.filter import Filter
from grammar.clauses.gang import Gang
from grammar.clauses.limit import Limit
from grammar.clauses.share import Share
from grammar.clauses.spread import Spread
from grammar.meaning.constants import constant
from grammar.tree.ast import Expr, Literal
from grammar.tree.clause_parts import ClauseThatRejects, Per, PodSet
from grammar.tree.types import STRING
from grammar.tree.walk import children, walk

HOST = "kubernetes.io/hostname"
_POLICIES = {
    "eligible": {"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Honor"},
    "selected": {"nodeAffinityPolicy": "Honor", "nodeTaintsPolicy": "Ignore"},
    "all": {"nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Ignore"},
}
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """Part of a pod's spec that a clause becomes: only one list has items, or `nodes` limits.

    `spread` are topology spread constraints, `away` terms of required pod anti-affinity, and `near`
    of required pod affinity.
    """

    clause: str
    exact: bool
    nodes: Terms = ALWAYS
    spread: tuple[Json, ...] = ()
    away: tuple[Json, ...] = ()
    near: tuple[Json, ...] = ()

    @property
    def says_nothing(self) -> bool:
        """Whether the clause keeps this pod from no node."""
        return self.nodes == ALWAYS and not (self.spread or self.away or self.near)


@dataclass(frozen=True, slots=True)
class Left:
    """Left clause, about which only Placet can decide, and why."""

    clause: str
    reason: str


class PortablePolicy:
    """A policy, with the policies that it uses, that may be told to other schedulers."""

    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._audits = checked.policy.setting("mode", "enforce") != "enforce"
        self._ignores_errors = checked.policy.setting("failure", "fail") == "ignore"

    def selects(self, pod: Pod, frozen: Frozen) -> bool:
        """Whether the policy selects the pod, now and as long as it exists.

        Raises UnportableError if that may change.
        """
        selector = self._checked.policy.selector
        conditions = LabelConditions(self._checked.environment, pod, frozen)
        return selector is None or conditions.of_pod(selector)

    def parts(self, pod: Pod, frozen: Frozen, exempt: Collection[str]) -> Iterator[Part | Left]:
        """What each rejecting clause says about a pod that the policy selects.

        `exempt` are the namespaces about whose pods no policy decides.
        """
        for checked in (self._checked, *self._checked.uses):
            conditions = LabelConditions(checked.environment, pod, frozen)
            for clause in checked.policy.clauses:
                # A clause that gives points rejects no node.
                if not isinstance(clause, ClauseThatRejects) or clause.points_weight is not None:
                    continue
                try:
                    yield self._part(clause, checked, conditions, exempt)
                except UnportableError as refusal:
                    yield Left(clause.name, str(refusal))

    def _part(
        self,
        clause: ClauseThatRejects,
        checked: Checked,
        conditions: LabelConditions,
        exempt: Collection[str],
    ) -> Part:
        if self._audits:
            raise UnportableError("the policy is in `mode audit`")
        match clause:
            case Filter():
                return self._filter(clause, conditions)
            case Share():
                raise UnportableError("a number of pods on some nodes has no equivalent")
            case Spread():
                return self._spread(clause, checked, conditions)
            case Limit():
                return self._limit(clause, checked, conditions, exempt)
            case Cards():
                raise UnportableError("what is left of cards has no equivalent")
            case Gang():
                raise UnportableError("pods that are bound together have no equivalent")
            case _:
                raise TypeError(clause.keyword)

    # ---- filters

    def _filter(self, clause: Filter, conditions: LabelConditions) -> Part:
        if clause.wait is not None:
            raise UnportableError("a binding that waits has no equivalent")
        algebra = conditions.algebra
        sides = [conditions.of_node(expr) for expr in clause.requires]
        may_fail = any(each.may_fail for each in sides)
        if may_fail and self._ignores_errors:
            raise UnportableError("`failure ignore` passes nodes for which it fails")
        if clause.missing == "pass":
            if may_fail:
                raise UnportableError("`missing pass` passes nodes for which it may fail")
            accepted = algebra.both(algebra.others(each.false) for each in sides)
        else:
            accepted = algebra.both(each.true for each in sides)
        if clause.when is None:
            return Part(clause.name, exact=True, nodes=accepted)
        when = conditions.of_node(clause.when)
        # Where the condition is missing, the clause does not apply.
        elsewhere = algebra.others(when.true)
        exact = self._ignores_errors or not when.may_fail
        return Part(clause.name, exact, nodes=algebra.either((elsewhere, accepted)))

    # ---- clauses that count

    def _spread(self, clause: Spread, checked: Checked, conditions: LabelConditions) -> Part:
        _rejects_missing(clause)
        if clause.pods is not None and clause.pods.all:
            raise UnportableError("a spread constraint counts the pods of one namespace")
        if clause.within is not None:
            raise UnportableError("a spread constraint compares the domains of all nodes")
        key = conditions.label(clause.over)
        selector = _one(_counted(clause.pods, conditions))
        if not selector:
            raise UnportableError("a spread constraint with a selector of all pods counts none")
        constraint: Json = {
            "maxSkew": _whole(clause.skew, checked),
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": _label_selector(selector),
            **_POLICIES[clause.nodes or "eligible"],
        }
        if clause.min_domains is not None:
            constraint["minDomains"] = _whole(clause.min_domains, checked)
        applies = _applies(clause, conditions)
        return Part(clause.name, exact=True, spread=(constraint,) if applies else ())

    def _limit(
        self, clause: Limit, checked: Checked, conditions: LabelConditions, exempt: Collection[str]
    ) -> Part:
        if clause.pods is not None and clause.pods.amount is not None:
            raise UnportableError("a sum has no equivalent")
        if clause.bound.percent or clause.bound.kind == "exactly":
            raise UnportableError("only `at most` and `at least` have equivalents")
        number = _whole(clause.bound.amount, checked)
        counted = _counted(clause.pods, conditions)
        if clause.bound.kind == "at least":
            return self._near(clause, conditions, counted, number)
        if not clause.mutual:
            raise UnportableError(
                "pod anti-affinity keeps others out, too, as a `mutual` limit does"
            )
        key = HOST if clause.per.scope == "node" else _domain(clause.per, conditions)
        itself = conditions.selects_itself(counted)
        if number - bool(itself) != 0:
            raise UnportableError("anti-affinity leaves no room for one more of the pods")
        everywhere = clause.pods is not None and clause.pods.all
        of_all = self._checked.policy.namespace is None
        away = []
        for term in sorted(counted, key=sorted):
            made: Json = {"topologyKey": key, "labelSelector": _label_selector(term)}
            if everywhere and of_all:
                made["namespaceSelector"] = _all_but(exempt)
            away.append(made)
        # Anti-affinity passes nodes without the label. It would also keep out exempt pods. So the
        # term leaves out their namespaces, although the limit counts exempt pods.
        exact = (not everywhere or (of_all and not exempt)) and itself is not None
        exact = exact and (clause.per.scope == "node" or clause.missing == "pass")
        return Part(clause.name, exact, away=tuple(away) if _applies(clause, conditions) else ())

    def _near(
        self, clause: Limit, conditions: LabelConditions, counted: Terms, number: int
    ) -> Part:
        _rejects_missing(clause)
        if number != 1:
            raise UnportableError("pod affinity needs one pod, and no more")
        key = _domain(clause.per, conditions)
        selector = _one(counted)
        term: Json = {"topologyKey": key, "labelSelector": _label_selector(selector)}
        if clause.pods is not None and clause.pods.all:
            term["namespaceSelector"] = {}
        applies = _applies(clause, conditions)
        return Part(clause.name, exact=True, near=(term,) if applies else ())


def _applies(clause: ClauseThatRejects, conditions: LabelConditions) -> bool:
    """Whether the clause applies to the pod: where its `when` is missing, it does not."""
    return clause.when is None or conditions.of_pod(clause.when)


def _rejects_missing(clause: ClauseThatRejects) -> None:
    if clause.missing == "pass":
        raise UnportableError("`missing pass` passes nodes without the label")


def _whole(number: float | Expr, checked: Checked) -> int:
    found = constant(number, checked.environment)
    if found is None:
        raise UnportableError("its number is not constant")
    return int(found)


def _domain(per: Per, conditions: LabelConditions) -> str:
    """The label whose values are the domains."""
    if per.domain is None:
        what = "nodes" if per.of_nodes else f"pods per {per.scope}"
        raise UnportableError(f"a number of {what} has no equivalent")
    return conditions.label(per.domain)


def _counted(pods: PodSet | None, conditions: LabelConditions) -> Terms:
    """The pods that a clause counts, by their labels."""
    if pods is None or pods.where is None:
        raise UnportableError("the pods of a workload have no selector: write `pods where`")
    if pods.namespaces is not None:
        raise UnportableError("the labels of a namespace can change")
    found = conditions.of_peer(pods.where).true
    if found == NEVER:
        raise UnportableError("it counts no pods")
    if any(r.operator in ("Gt", "Lt") for term in found for r in term):
        raise UnportableError("a selector of pods has no comparisons of numbers")
    return found


def _one(terms: Terms) -> Term:
    if len(terms) > 1:
        raise UnportableError("a selector of pods has no `||`")
    (term,) = terms
    return term


def _label_selector(term: Term) -> Json:
    return {"matchExpressions": expressions(term)} if term else {}


def _all_but(namespaces: Collection[str]) -> Json:
    if not namespaces:
        return {}
    key, values = "kubernetes.io/metadata.name", sorted(namespaces)
    return {"matchExpressions": [{"key": key, "operator": "NotIn", "values": values}]}


# ---- whatever the pod


# The pods that are tried: whether a clause can be told may depend on the pod's labels.
MOST_PODS = 256


@dataclass(frozen=True, slots=True)
class ClauseVerdict:
    """Verdict on a clause: all of it can be told, a part (not `exact`), or nothing, with a reason.

    A clause without a name is the policy itself.
    """

    clause: str
    exact: bool
    reason: str = ""


def portability(
    checked: Checked, codec: ObjectCodec, frozen: Frozen, pods: int = MOST_PODS
) -> list[ClauseVerdict]:
    """A verdict for each clause that rejects nodes.

    Where a clause depends on the pod, the best verdict counts, among so many `pods`.
    """
    policy = PortablePolicy(checked)
    best: dict[str, ClauseVerdict] = {}
    refusal = ""
    for pod in islice(_pods(checked, codec, frozen), pods):
        try:
            policy.selects(pod, frozen)
        except UnportableError as error:
            refusal = str(error)
            break
        for each in policy.parts(pod, frozen, ()):
            found = (
                ClauseVerdict(each.clause, exact=False, reason=each.reason)
                if isinstance(each, Left)
                else ClauseVerdict(each.clause, each.exact)
            )
            known = best.get(each.clause)
            if known is None or (known.reason and not found.reason) or found.exact > known.exact:
                best[each.clause] = found
    if refusal:
        return [ClauseVerdict("", exact=False, reason=f"its `for`: {refusal}")]
    return [*best.values()]


def _pods(checked: Checked, codec: ObjectCodec, frozen: Frozen) -> Iterator[Pod]:
    """Pods whose frozen labels have the texts of the policy as values, or others."""
    parts = (checked, *checked.uses)
    exprs = (expr for part in parts for expr in walk(part.policy))
    texts = {str(e.value) for e in exprs if isinstance(e, Literal) and e.type == STRING} | {"x"}
    read = {path[2] for path in _paths(checked) if path[:2] == ("metadata", "labels") and path[2:]}
    keys = sorted(read & frozen.labels)
    values = sorted(text for text in texts if len(text) <= 63)
    metadata = {"name": "pod", "namespace": checked.policy.namespace or "default", "uid": "pod"}
    for chosen in product(values, repeat=len(keys)):
        labels = dict(zip(keys, chosen, strict=True))
        body = {"metadata": {**metadata, "labels": labels}, "spec": {"containers": []}}
        yield codec.pod(msgspec.json.encode(body))


def _paths(checked: Checked) -> Iterator[tuple[str, ...]]:
    for part in (checked, *checked.uses):
        environment = part.environment
        definitions = environment.definitions
        for name in ("pod", "peer"):
            reads = PodReads(definitions, name)
            for expr in children(part.policy):
                for path in reads.written(expr):
                    yield ("metadata", *path) if name == "peer" else path
