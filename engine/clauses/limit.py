"""Limit: a bound on pods of one place, or on places; for others pod affinity."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from engine.cache.informers import Needs
from engine.cache.tallies import FULL
from engine.clauses.meaning import ClauseMeaning, CountEvidence, ToldPart
from engine.counting.bounds import ON, GroupCounts
from engine.program.operations import THOUSANDTHS
from engine.program.policy_compiler import PolicyCompiler
from engine.program.program import CountClause, GroupKind, Mutual, everywhere
from engine.selectors.terms import Json, Part, Telling, Terms, UnportableError, label_selector
from grammar.clauses.limit import Limit
from grammar.tree.ast import Expr
from grammar.values.quantity import NANO, Quantity

HOST = "kubernetes.io/hostname"
_GROUPS: Mapping[str, GroupKind] = {"node": "nodes", "cluster": "cluster"}
_PLACES = {"nodes": "on this node", "cluster": "in the cluster"}


def _programs(clause: Limit, compiler: PolicyCompiler) -> Iterator[CountClause]:
    per = clause.per
    place = per.domain
    groups_are: GroupKind = "domains" if isinstance(per.place, Expr) else _GROUPS[per.place]
    yield CountClause(
        kind="limit",
        # As for InterPodAffinity, where a terminating pod is there until it is gone.
        count=compiler.count(clause, clause.bound.amount, terminating=True),
        bound=compiler.bound(clause.bound, is_sum=clause.added is not None),
        groups_are="used places" if per.counted else groups_are,
        place=everywhere if place is None else compiler.compiled(place),
        among=everywhere if per.where is None else compiler.compiled(per.where),
        empty=per.counted == "empty",
        amount=compiler.optional(per.amount),
        mutual=_mutual(clause, compiler) if clause.mutual else None,
        of_nodes=place is not None and compiler.is_of_nodes(place),
    )


def _mutual(clause: Limit, compiler: PolicyCompiler) -> Mutual:
    where = clause.pods.where if clause.pods is not None else None
    applies, counts = compiler.reads(clause.when), compiler.reads(where)
    assert applies is not None, "a check refuses it"
    assert counts is not None, "a check refuses it"
    return Mutual(applies, counts)


def _needs(clause: Limit) -> Needs:
    return Needs(ended=clause.pods is not None and clause.pods.state == "ended")


# ---- what other schedulers are told


def _portable(clause: Limit, telling: Telling) -> Part:
    conditions, exempt = telling.conditions, telling.exempt
    if clause.pods is not None and clause.pods.amount is not None:
        raise UnportableError("a sum has no equivalent")
    if clause.bound.percent or clause.bound.kind == "exactly":
        raise UnportableError("only `at most` and `at least` have equivalents")
    number = telling.whole(clause.bound.amount)
    counted = telling.counted(clause.pods)
    if clause.bound.kind == "at least":
        return _near(clause, telling, counted, number)
    if not clause.mutual:
        raise UnportableError("pod anti-affinity keeps others out, too, as a `mutual` limit does")
    key = HOST if clause.per.place == "node" else _domain(clause, telling)
    itself = conditions.selects_itself(counted)
    if number - bool(itself) != 0:
        raise UnportableError("anti-affinity leaves no room for one more of the pods")
    everywhere = clause.pods is not None and clause.pods.all
    of_all = telling.policy.namespace is None
    away = []
    for term in sorted(counted, key=sorted):
        made: Json = {"topologyKey": key, "labelSelector": label_selector(frozenset({term}))}
        if everywhere and of_all:
            made["namespaceSelector"] = _all_but(exempt)
        away.append(made)
    # Anti-affinity passes nodes without the label. It would also keep out exempt pods. So the
    # term leaves out their namespaces, although the limit counts exempt pods.
    exact = (not everywhere or (of_all and not exempt)) and itself is not None
    exact = exact and (clause.per.place == "node" or telling.policy.passes_missing(clause))
    return Part(clause.name, exact, away=tuple(away) if telling.applies(clause) else ())


def _near(clause: Limit, telling: Telling, counted: Terms, number: int) -> Part:
    telling.reject_missing(clause)
    if number != 1:
        raise UnportableError("pod affinity needs one pod, and no more")
    key = _domain(clause, telling)
    term: Json = {"topologyKey": key, "labelSelector": label_selector(counted)}
    if clause.pods is not None and clause.pods.all:
        term["namespaceSelector"] = {}
    return Part(clause.name, exact=True, near=(term,) if telling.applies(clause) else ())


def _domain(clause: Limit, telling: Telling) -> str:
    """The label whose values are the domains."""
    per = clause.per
    if per.counted:
        raise UnportableError("a number of places has no equivalent")
    if per.domain is None:
        raise UnportableError(f"a number of pods per {per.place} has no equivalent")
    return telling.conditions.label(per.domain)


def _all_but(namespaces: Collection[str]) -> Json:
    if not namespaces:
        return {}
    key, values = "kubernetes.io/metadata.name", sorted(namespaces)
    return {"matchExpressions": [{"key": key, "operator": "NotIn", "values": values}]}


# ---- what is said of a node


def _told(clause: Limit) -> Iterator[ToldPart]:
    if isinstance(clause.bound.amount, Expr):
        yield "bound", clause.bound.amount


def _counted(clause: CountClause, counts: GroupCounts, group: int) -> CountEvidence:
    here, bound = int(counts.high[group]), counts.bound_of(clause, group)
    if clause.groups_are == "used places":
        is_sum = clause.amount is not None
        places = "nodes" if clause.place is everywhere else "places"
        most = _sum(bound.amount or 0) if is_sum else bound
        used = f"up to {here} of {counts.total} {places} are used with this pod"
        if is_sum:
            used = f"up to {_sum(here)} of {_sum(counts.total)} on used nodes with this pod"
        used = used if here else f"with this pod no more {places} are used"
        every = range(ON, len(counts.high))
        unit = "empty" if clause.empty else "used"
        return f"{used}; {bound.kind} {most} {unit}", every, ()
    where = _PLACES.get(clause.groups_are, "in this node's domain")
    text = f"{here} {where}, {bound.kind} {bound} with this pod"
    if clause.is_sum:
        own = "no amount" if counts.own == FULL else _sum(counts.own)
        text = f"{_sum(here)} {where}, {own} of this pod; {bound.kind} {_sum(bound.amount or 0)}"
    return text, [group], ()


def _sum(thousandths: float) -> str:
    """A sum, which is in thousandths, as an amount."""
    if thousandths >= FULL:
        return "more than any bound"
    return str(Quantity(int(thousandths) * NANO // THOUSANDTHS))


LIMIT = ClauseMeaning(
    kind=Limit, programs=_programs, needs=_needs, portable=_portable, counted=_counted, told=_told
)
