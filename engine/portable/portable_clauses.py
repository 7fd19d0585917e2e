"""Portable clauses: the clauses of a policy that other schedulers are told of, and the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import islice, product

import msgspec

from engine.clauses import MEANINGS
from engine.objects.request_pod import ObjectCodec, Pod
from engine.program.pod_shape import PodReads
from engine.selectors.terms import Frozen, LabelConditions, Part, Telling, UnportableError
from grammar.checker.policy_checker import Checked
from grammar.tree.ast import Literal
from grammar.tree.clause_parts import ClauseThatRejects
from grammar.tree.types import STRING
from grammar.tree.walk import children, walk


@dataclass(frozen=True, slots=True)
class Left:
    """Left clause, about which only Placet can decide, and why."""

    clause: str
    reason: str


def selects(checked: Checked, pod: Pod, frozen: Frozen) -> bool:
    """Whether a policy selects the pod, now and as long as it exists.

    Raises UnportableError if that may change.
    """
    selector = checked.policy.selector
    conditions = LabelConditions(checked.environment, pod, frozen)
    return selector is None or conditions.of_pod(selector)


def parts_of(
    checked: Checked, pod: Pod, frozen: Frozen, exempt: Collection[str]
) -> Iterator[Part | Left]:
    """What each rejecting clause says about a pod that the policy selects.

    `exempt` are the namespaces about whose pods no policy decides.
    """
    policy = checked.policy
    for part in (checked, *checked.uses):
        telling = Telling(LabelConditions(part.environment, pod, frozen), policy, exempt)
        for clause in part.policy.clauses:
            # A clause that gives points rejects no node.
            if not isinstance(clause, ClauseThatRejects) or clause.points_weight is not None:
                continue
            said = MEANINGS[type(clause)].portable
            if policy.setting("mode", "enforce") != "enforce":
                said = "the policy is in `mode audit`"
            try:
                yield said(clause, telling) if callable(said) else Left(clause.name, said)
            except UnportableError as refusal:
                yield Left(clause.name, str(refusal))


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
    best: dict[str, ClauseVerdict] = {}
    refusal = ""
    for pod in islice(_pods(checked, codec, frozen), pods):
        try:
            selects(checked, pod, frozen)
        except UnportableError as error:
            refusal = str(error)
            break
        for each in parts_of(checked, pod, frozen, ()):
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
