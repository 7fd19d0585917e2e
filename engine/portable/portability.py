"""Portability: which clauses of a policy others can be told of, whatever the pod."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product

import msgspec

from engine.objects.codec import ObjectCodec, Pod
from engine.portable.label_conditions import Frozen
from engine.portable.portable_clauses import Left, PortablePolicy
from engine.portable.selectors import UnportableError
from engine.program.pod_shape import PodReads
from grammar.checker.policy_checker import Checked
from grammar.tree.ast import Literal
from grammar.tree.types import STRING
from grammar.tree.walk import Definitions, children, walk

# The pods that are tried: whether a clause can be told may depend on the pod's labels.
MOST_PODS = 256


@dataclass(frozen=True, slots=True)
class ClauseVerdict:
    """What can be told of a clause: all of it, a part (not `exact`), or nothing, with the reason.

    A clause without a name is the policy itself.
    """

    clause: str
    exact: bool
    reason: str = ""


def portability(
    checked: Checked, codec: ObjectCodec, frozen: Frozen, pods: int = MOST_PODS
) -> list[ClauseVerdict]:
    """A verdict for each clause that rejects nodes.

    Where a clause depends on the pod, it is that of a pod for which the most can be told, of so
    many `pods`.
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
    texts = {str(e.value) for e in _literals(checked)} | {"x"}
    read = {path[2] for path in _paths(checked) if path[:2] == ("metadata", "labels") and path[2:]}
    keys = sorted(read & frozen.labels)
    values = sorted(text for text in texts if len(text) <= 63)
    metadata = {"name": "pod", "namespace": checked.policy.namespace or "default", "uid": "pod"}
    for chosen in product(values, repeat=len(keys)):
        labels = dict(zip(keys, chosen, strict=True))
        body = {"metadata": {**metadata, "labels": labels}, "spec": {"containers": []}}
        yield codec.pod(msgspec.json.encode(body))


def _literals(checked: Checked) -> Iterator[Literal]:
    for part in (checked, *checked.uses):
        for expr in walk(part.policy):
            if isinstance(expr, Literal) and expr.type == STRING:
                yield expr


def _paths(checked: Checked) -> Iterator[tuple[str, ...]]:
    for part in (checked, *checked.uses):
        environment = part.environment
        definitions = Definitions(environment.lets, environment.defs)
        for name in ("pod", "peer"):
            reads = PodReads(definitions, name)
            for expr in children(part.policy):
                for path in reads.written(expr):
                    yield ("metadata", *path) if name == "peer" else path
