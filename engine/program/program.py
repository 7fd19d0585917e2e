"""A policy compiled: its selector and clauses as closures, and what their failures mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal as OneOf

from engine.program.frame import Evaluate, LazyFrame
from engine.program.pod_shape import Path
from grammar.clauses import Bound, MissingRule
from grammar.values.quantity import Quantity
from grammar.values.time import Duration

Message = Callable[[LazyFrame], str]


@dataclass(frozen=True, slots=True)
class Condition:
    """A `when`: once per pod, or per node where it reads the node."""

    evaluate: Evaluate
    per_node: bool


@dataclass(frozen=True, slots=True, eq=False)
class FilterProgram:
    """A filter or bind clause. `passes_missing` is `missing pass`.

    `time_dependent` says that the outcome can change with the time alone.
    """

    policy: str
    name: str
    when: Condition | None
    requires: tuple[Evaluate, ...]
    reads_node: bool
    message: Message
    passes_missing: bool
    ignores_errors: bool
    resolvable: bool
    at_bind: bool
    time_dependent: bool


@dataclass(frozen=True, slots=True, eq=False)
class ScoreProgram:
    """A score clause. `missing` is its contribution, after the sign, where the value is missing."""

    policy: str
    name: str
    weight: float
    when: Condition | None
    value: Evaluate
    range: tuple[float, float] | OneOf["minmax", "rank"] | None
    missing: float
    time_dependent: bool


@dataclass(frozen=True, slots=True)
class Peers:
    """Which pods a clause counts.

    `where` is about `peer` and the frame's pod; None for the pods of the same workload. `replicas`
    says that the total is what the workload wants, not what there is; `placed` that only pods with
    a node count; `everywhere` that pods of every namespace do, or of those for which `namespaces`
    is true. `by_pod` says that another pod may count other ones, `by_labels` that those of the same
    labels count alike, `time_dependent` that the time can change which count.
    """

    where: Evaluate | None = None
    by_pod: bool = False
    by_labels: bool = False
    time_dependent: bool = False
    everywhere: bool = False
    namespaces: Evaluate | None = None
    placed: bool = False
    replicas: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class CountProgram:
    """What share, spread and limit clauses have in common.

    `weight` is None for a strict clause, else its weight in the mean. `terminating` says that pods
    count until they are gone.
    """

    policy: str
    name: str
    when: Condition | None
    peers: Peers
    weight: float | None
    message: Message
    missing: MissingRule | None
    terminating: bool


@dataclass(frozen=True, slots=True, eq=False)
class ShareProgram:
    """How many of the pods sit on the nodes for which `on` is true."""

    count: CountProgram
    on: Evaluate
    bound: Bound


@dataclass(frozen=True, slots=True, eq=False)
class SpreadProgram:
    """The count in a node's domain against the least count over the domains."""

    count: CountProgram
    domain: Evaluate
    skew: int
    min_domains: int | None


@dataclass(frozen=True, slots=True, eq=False)
class LimitProgram:
    """Cardinality per node, per cluster (no domain, not per node) or per domain."""

    count: CountProgram
    per_node: bool
    domain: Evaluate | None
    bound: Bound


CountClause = ShareProgram | SpreadProgram | LimitProgram


@dataclass(frozen=True, slots=True)
class PreemptProgram:
    """Which victims are spared, whether a candidate may stay, and which of them are kept."""

    policy: str
    name: str
    when: Condition | None
    protects: tuple[Evaluate, ...]
    allows: Evaluate | None
    keep: int | None
    order: Evaluate | None


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """One policy.

    `only_used` says that it governs no pod itself: its clauses are there for others.
    `strict` says that it can reject, which decides between policies of one weight. `reads` are the
    paths of the pod that its selector and clauses read, messages aside. `time_dependent` says that
    the time can change whether the policy, or one of its scores, applies at all.
    """

    address: str
    name: str
    namespace: str | None
    cluster: bool
    weight: int
    audit: bool
    ignores_errors: bool
    only_used: bool
    select: Evaluate | None
    filters: tuple[FilterProgram, ...]
    scores: tuple[ScoreProgram, ...]
    shares: tuple[ShareProgram, ...]
    spreads: tuple[SpreadProgram, ...]
    limits: tuple[LimitProgram, ...]
    preempts: tuple[PreemptProgram, ...]
    strict: bool
    slots: int
    reads: frozenset[Path]
    time_dependent: bool

    @property
    def counts(self) -> tuple[CountClause, ...]:
        """The clauses that count pods."""
        return (*self.shares, *self.spreads, *self.limits)


def magnitude(value: object) -> float:
    """A number for a score; quantities and durations count their units."""
    if isinstance(value, Quantity | Duration):
        return value.nanos / 1e9
    assert isinstance(value, int | float), "the checker lets nothing else be a score"
    return float(value)
