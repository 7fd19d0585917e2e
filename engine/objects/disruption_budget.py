"""DisruptionBudget: a PodDisruptionBudget, and the pods that no budget allows to be evicted.

kube-scheduler may evict such a pod all the same, but avoids it. So the rule here is that of
DefaultPreemption in 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from engine.objects.api_types import ObjectMeta
from engine.objects.decoding import JsonInt, ObjectDecoder
from engine.objects.peer import Peer
from grammar.values.nodes import all_hold


class _LabelExpression(msgspec.Struct, frozen=True, gc=False):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None

    @property
    def is_valid(self) -> bool:
        has_values = self.operator in ("In", "NotIn")
        return has_values == bool(self.values) and (
            has_values or self.operator in ("Exists", "DoesNotExist")
        )


class _LabelSelector(msgspec.Struct, frozen=True, gc=False):
    matchLabels: dict[str, str] | None = None
    matchExpressions: tuple[_LabelExpression, ...] | None = None


class _BudgetSpec(msgspec.Struct, frozen=True, gc=False):
    selector: _LabelSelector | None = None


class _BudgetStatus(msgspec.Struct, frozen=True, gc=False):
    disruptionsAllowed: JsonInt | None = None
    disruptedPods: dict[str, msgspec.Raw] | None = None


class _SlimBudget(msgspec.Struct, frozen=True, gc=False):
    metadata: ObjectMeta | None = None
    spec: _BudgetSpec | None = None
    status: _BudgetStatus | None = None


class DisruptionBudget(msgspec.Struct, frozen=True, gc=False):
    """Disruption budget: how many of some pods of a namespace may be evicted beside `disrupted`.

    `disrupted` are the names of pods whose eviction the API server has counted already.
    """

    name: str
    namespace: str
    allowed: int
    disrupted: frozenset[str]
    labels: Mapping[str, str]
    expressions: tuple[_LabelExpression, ...]

    def covers(self, pod: Peer) -> bool:
        """Whether an eviction of the pod counts. An empty selector selects nothing."""
        if pod.namespace != self.namespace or pod.name in self.disrupted or not pod.labels:
            return False
        if not (self.labels or self.expressions):
            return False
        labels = pod.labels
        are_equal = all(labels.get(key) == value for key, value in self.labels.items())
        return are_equal and all_hold(self.expressions, labels)


_BUDGET = ObjectDecoder("PodDisruptionBudget", _SlimBudget)


def decode_budget(data: bytes | msgspec.Raw) -> DisruptionBudget:
    """The budget of an object's JSON. Raises BadObjectError, naming the path.

    As in kube-scheduler, an invalid selector selects nothing.
    """
    slim = _BUDGET.decode(data)
    metadata, spec, status = (
        slim.metadata or ObjectMeta(),
        slim.spec or _BudgetSpec(),
        slim.status or _BudgetStatus(),
    )
    selector = spec.selector or _LabelSelector()
    if not all(expression.is_valid for expression in selector.matchExpressions or ()):
        selector = _LabelSelector()
    return DisruptionBudget(
        metadata.name or "",
        metadata.namespace or "",
        status.disruptionsAllowed or 0,
        frozenset(status.disruptedPods or ()),
        selector.matchLabels or {},
        selector.matchExpressions or (),
    )


# The budgets of a cluster, by namespace.
Budgets = Mapping[str, Sequence[DisruptionBudget]]


def by_namespace(budgets: Iterable[DisruptionBudget]) -> Budgets:
    found: dict[str, list[DisruptionBudget]] = {}
    for budget in budgets:
        found.setdefault(budget.namespace, []).append(budget)
    return found


def violating(pods: Iterable[Peer], budgets: Budgets) -> frozenset[str]:
    """The uids of the pods whose eviction would violate a budget, if all were evicted in order."""
    left: dict[tuple[str, str], int] = {}
    found = set()
    for pod in pods:
        for budget in budgets.get(pod.namespace, ()):
            if budget.covers(pod):
                key = budget.namespace, budget.name
                left[key] = left.get(key, budget.allowed) - 1
                if left[key] < 0:
                    found.add(pod.uid)
    return frozenset(found)
