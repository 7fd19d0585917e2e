"""Program: a compiled policy, with its selector and clauses as closures.

A registry owns it. It is immutable and is replaced when its policy changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from engine.program.frame import Evaluate, Evaluation, Message
from engine.program.pod_shape import Path
from grammar.checker.policy_checker import Checked
from grammar.tree.clauses import MissingRule, NodeSet, Order
from grammar.values.errors import EvaluationError, MissingError

# The two ends of a score's range, or how it compares the nodes of a request.
Range = tuple[float, float] | Order | None


@dataclass(frozen=True, slots=True)
class Condition:
    """A compiled `when`: evaluated once per pod, or per node if it reads the node."""

    evaluate: Evaluate
    per_node: bool


@dataclass(frozen=True, slots=True, eq=False)
class FilterProgram:
    """A compiled filter clause, checked again at bind if `at_bind`.

    A node passes if every one of `requires` is true. `passes_missing` is `missing pass`.
    `resolvable` says that preemption may help. `time_dependent` says that the outcome may change
    with the time alone. The time is looked at after `nodes_per_look` nodes. `of_pod` are the parts
    that read only the pod; see `pod_values`. Nodes with equal `labels` are alike to the clause; it
    is None if more of a node is read, or the time.
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
    nodes_per_look: int
    of_pod: tuple[Evaluate, ...]
    labels: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class ScoreProgram:
    """A compiled score clause. A range that is computed is a part of `value`.

    `missing` are the points of a node without a value. The sign of the weight does not turn them.
    `of_pod` are the parts of the value and its range that read only the pod.
    """

    policy: str
    name: str
    weight: float
    when: Condition | None
    value: Evaluate
    range: Range
    missing: float
    time_dependent: bool
    nodes_per_look: int
    of_pod: tuple[Evaluate, ...]


@dataclass(frozen=True, slots=True)
class Peers:
    """The pods that a clause counts.

    `where` reads `peer` and the frame's pod; None means the pods of the same workload. With
    `replicas` the total is the number of pods that the workload wants, not the existing ones. With
    `placed` only pods with a node count. With `everywhere` the pods of every namespace count, or of
    those for which `namespaces` is true. `by_pod` says that the set depends on the frame's pod, of
    which it reads the parts `of_pod`; `by_labels` that peers with equal labels count alike, and
    `time_dependent` that the set may change with the time. Each pod adds `amount`, which reads
    `peer`; None means that it adds one.
    """

    where: Evaluate | None = None
    by_pod: bool = False
    of_pod: tuple[Evaluate, ...] = ()
    by_labels: bool = False
    time_dependent: bool = False
    everywhere: bool = False
    namespaces: Evaluate | None = None
    placed: bool = False
    replicas: bool = False
    amount: Evaluate | None = None


@dataclass(frozen=True, slots=True)
class BoundProgram:
    """A compiled bound: so many pods, or so many percent of them.

    `amount` is None where the clause computes it for each group.
    """

    kind: OneOf["at most", "at least", "exactly"]
    amount: float | None
    percent: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class CountProgram:
    """The common part of share, spread and limit clauses.

    `weight` is None for a strict clause, else its weight in the mean. With `terminating` a
    terminating pod counts until it is gone. `number` computes the number of the bound for the
    group of the frame's node; it is None where that number is a constant. `needs_workloads` says
    that counts need the workloads of pods.
    """

    policy: str
    name: str
    when: Condition | None
    peers: Peers
    weight: float | None
    number: Evaluate | None
    message: Message
    missing: MissingRule | None
    terminating: bool
    nodes_per_look: int
    needs_workloads: bool


@dataclass(frozen=True, slots=True, eq=False)
class ShareProgram:
    """A compiled share: bounds the number of the pods on the nodes for which `on` is true.

    `time_dependent` says that these nodes may change with the time alone.
    """

    count: CountProgram
    on: Evaluate
    bound: BoundProgram
    time_dependent: bool


@dataclass(frozen=True, slots=True, eq=False)
class SpreadProgram:
    """A compiled spread: bounds a domain's count minus the least count of all domains.

    `skew` is None where the clause computes it for each domain. `min_domains` may be computed for
    the pod. `nodes` are those on which pods count, and whose domains are compared.
    """

    count: CountProgram
    domain: Evaluate
    skew: float | None
    min_domains: float | Evaluate | None
    nodes: NodeSet


@dataclass(frozen=True, slots=True)
class Reads:
    """What a part of a mutual limit reads of pods that are there: paths of peers.

    `pod` are those that it reads of the pod that has the limit, `peer` those of the pod that it
    counts. `namespace` says that it reads the namespace of the former.
    """

    pod: frozenset[Path] = frozenset()
    peer: frozenset[Path] = frozenset()
    namespace: bool = False


@dataclass(frozen=True, slots=True)
class Mutual:
    """What a mutual limit reads: `applies` is its `when`, `counts` its `pods where`."""

    applies: Reads
    counts: Reads


@dataclass(frozen=True, slots=True, eq=False)
class LimitProgram:
    """A compiled limit: bounds the count per node, per domain, or in the cluster without both.

    The bound of a sum is in thousandths, as the sum is. With `nodes` the limit bounds the number of
    nodes instead: of those with a counted pod, or of those without one. They are among the nodes
    for which `pool` is true, or among all without it. A `mutual` limit of a pod that is there keeps
    other pods out, too.
    """

    count: CountProgram
    per_node: bool
    domain: Evaluate | None
    bound: BoundProgram
    nodes: OneOf["used", "empty"] | None = None
    pool: Evaluate | None = None
    mutual: Mutual | None = None


@dataclass(frozen=True, slots=True)
class PreemptProgram:
    """A compiled preempt clause.

    A victim for which one of `protects` is true is spared. `allows` says whether a candidate node
    stays. The first `keep` candidates by `order` stay. `passes_missing` is `missing pass`: what is
    missing neither protects nor forbids.
    """

    policy: str
    name: str
    when: Condition | None
    protects: tuple[Evaluate, ...]
    allows: Evaluate | None
    keep: int | None
    order: Evaluate | None
    passes_missing: bool


@dataclass(frozen=True, slots=True, eq=False)
class CardsProgram:
    """A compiled `cards` clause; that cards have room is a filter of the same name.

    `cards` are those of a node, `chosen` those that the pod takes, MissingError if too few have
    room. The value of `spare` is what others may take while the pod has room, see
    `grammar.values.cards.spare`. `number` and `take` are how many cards it takes, and the amounts
    of each. `index` is the annotation for their numbers, and `writes` are others with their texts.
    `is_known_of_peers` says that what it reads of the pod is also known of a pod that is there.
    """

    policy: str
    name: str
    when: Condition | None
    message: Message
    number: Evaluate
    take: Evaluate
    cards: Evaluate
    chosen: Evaluate
    spare: ScoreProgram
    index: str | None
    writes: tuple[tuple[str, Evaluate], ...]
    is_known_of_peers: bool


# The clauses that count pods.
CountClause = ShareProgram | SpreadProgram | LimitProgram
ClauseProgram = FilterProgram | ScoreProgram | CountClause | CardsProgram | PreemptProgram


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A compiled policy, with the clauses of the policies that it uses.

    An `only_used` policy governs no pod itself. A `strict` one can reject, which decides between
    policies of equal weight. `reads` are the paths of the pod that its selector and clauses read,
    messages aside. `digest` is that of `digest_of`. `selects_by` is what the selector reads of a
    pod that is there, None if it reads what is not known of such a pod.
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
    cards: tuple[CardsProgram, ...]
    preempts: tuple[PreemptProgram, ...]
    strict: bool
    slots: int
    reads: frozenset[Path]
    digest: str
    selects_by: Reads | None
    source: Checked

    @property
    def counts(self) -> tuple[CountClause, ...]:
        """The clauses that count pods."""
        return (*self.shares, *self.spreads, *self.limits)


def applies(clause: ScoreProgram | CountProgram | CardsProgram, evaluation: Evaluation) -> bool:
    """Whether the `when` of a clause is true for the frame's pod. Raises ExpensivePolicyError."""
    if clause.when is None:
        return True
    evaluation.time.charge(clause.policy)
    try:
        return clause.when.evaluate(evaluation.frame()) is True
    except MissingError:
        return False
    except EvaluationError as error:
        evaluation.report(clause.policy, clause.name, error)
        return False
    finally:
        evaluation.time.rest()
