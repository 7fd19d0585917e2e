"""Clause kinds: what a clause says of itself, for all kinds and for those that reject or count.

Most modules ask a clause, and do not tell its kind. `grammar.tree.clauses` has the kinds; the same
rules as in `grammar.tree.ast` hold.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Self

from grammar.tree.ast import NO_SPAN, Expr
from grammar.tree.clause_parts import (
    ClauseVerb,
    MissingGives,
    MissingRule,
    PodSet,
    SchedulerNeed,
    Strength,
    Template,
    TestedPart,
    WrittenCondition,
)
from grammar.tree.source import Span


@dataclass(frozen=True, slots=True)
class AnyClause:
    """The parts of every clause; `missing` says what a missing value means for it.

    The properties are what a clause says of itself; a kind overrides those that differ.
    """

    name: str
    _: KW_ONLY
    when: Expr | None = None
    missing: MissingRule | None = None
    span: Span = field(default=NO_SPAN, compare=False)
    name_span: Span = field(default=NO_SPAN, compare=False)

    @property
    def keyword(self) -> str:
        """The word that the clause starts with."""
        return type(self).__name__.lower()

    # ---- its expressions

    @property
    def conditions(self) -> tuple[WrittenCondition, ...]:
        """Its conditions: the `when`, the `where` of the pods that it counts, then its own."""
        found = [] if self.when is None else [WrittenCondition(self.when, "when")]
        if self.counted is not None and self.counted.where is not None:
            found.append(WrittenCondition(self.counted.where, "pods where"))
        return (*found, *self.own_conditions)

    @property
    def own_conditions(self) -> tuple[WrittenCondition, ...]:
        """The conditions that only this kind of clause has."""
        return ()

    @property
    def requirements(self) -> tuple[Expr, ...]:
        """The conditions of which each rejects the nodes where it is not true, one by one."""
        return ()

    @property
    def ends(self) -> tuple[Expr, ...]:
        """The two ends of its range."""
        return ()

    @property
    def domain(self) -> Expr | None:
        """The value that names the domain of a node."""
        return None

    @property
    def may_be_whole(self) -> bool:
        """Whether the whole cluster can stand in the place of a domain."""
        return False

    @property
    def texts(self) -> tuple[tuple[str, Template | None], ...]:
        """Its texts for people, each with its keyword."""
        return ()

    @property
    def when_reads_node(self) -> bool:
        """Whether its `when` may differ from node to node."""
        return False

    # ---- its effect

    @property
    def verb(self) -> ClauseVerb:
        """The verb for which it is evaluated on each node."""
        return "filter"

    @property
    def missing_gives(self) -> frozenset[MissingGives]:
        """What a `missing` in it can give."""
        return frozenset({"verdict"})

    @property
    def points_weight(self) -> float | None:
        """The weight of the points that it gives each node; None if it gives none."""
        return None

    @property
    def weight_name(self) -> Expr | None:
        """The parameter that gives this weight, until it is filled."""
        return None

    @property
    def weight_may_be_negative(self) -> bool:
        """Whether a negative weight turns its points around."""
        return False

    def weighing(self, weight: float) -> Self:
        """The same clause with a number as its weight."""
        raise NotImplementedError(f"a {self.keyword} clause has no weight")

    # ---- what it needs

    @property
    def counts_pods(self) -> bool:
        """Whether it is about how many pods there are."""
        return False

    @property
    def counted(self) -> PodSet | None:
        """The pods that it counts; None if it counts none, or the pods of one workload."""
        return None

    def counting(self, pods: PodSet) -> Self:
        """The same clause about other pods."""
        raise NotImplementedError(f"a {self.keyword} clause counts no pods")

    @property
    def may_sum(self) -> bool:
        """Whether it can add up an amount of the pods that it counts."""
        return False

    @property
    def counts_where_pod_may_be(self) -> bool:
        """Whether it counts only on nodes that the pod's own selectors and tolerations allow."""
        return False

    @property
    def needs_workloads(self) -> bool:
        """Whether counts need the workloads of pods: whose they are, or what these want."""
        return False

    @property
    def scheduler_needs(self) -> frozenset[SchedulerNeed]:
        """What it needs of the configuration of kube-scheduler, beyond a `filterVerb`."""
        return frozenset()

    # ---- how tests cover it

    @property
    def tested_parts(self) -> tuple[TestedPart, ...]:
        """The parts that tests cover, beside its `when`."""
        return ()


@dataclass(frozen=True, slots=True)
class ClauseThatRejects(AnyClause):
    """A clause that can reject a node, with the texts for that."""

    _: KW_ONLY
    message: Template | None = None
    detail: Template | None = None

    @property
    def texts(self) -> tuple[tuple[str, Template | None], ...]:
        return (("message", self.message), ("detail", self.detail))


@dataclass(frozen=True, slots=True)
class ClauseThatCounts(ClauseThatRejects):
    """A clause about how many pods there are. Without `pods`, the pods of one workload count."""

    strength: Strength
    _: KW_ONLY
    pods: PodSet | None = None

    @property
    def counts_by_workload(self) -> bool:
        """True for `of replicas`, and for a spread or limit without a `pods` line."""
        return self.pods is None or self.pods.where is None

    @property
    def counts_pods(self) -> bool:
        return True

    @property
    def counted(self) -> PodSet | None:
        return self.pods

    @property
    def needs_workloads(self) -> bool:
        return self.counts_by_workload

    @property
    def verb(self) -> ClauseVerb:
        return "filter" if self.strength.strict else "prioritize"

    @property
    def missing_gives(self) -> frozenset[MissingGives]:
        return frozenset({"verdict"} if self.strength.strict else {"verdict", "points"})

    @property
    def points_weight(self) -> float | None:
        return self.strength.weight

    @property
    def weight_name(self) -> Expr | None:
        return self.strength.weight_from

    def weighing(self, weight: float) -> Self:
        return replace(self, strength=replace(self.strength, weight=weight, weight_from=None))

    def counting(self, pods: PodSet) -> Self:
        return replace(self, pods=pods)

    @property
    def scheduler_needs(self) -> frozenset[SchedulerNeed]:
        return frozenset({"one decider" if self.strength.strict else "scores"})

    @property
    def tested_parts(self) -> tuple[TestedPart, ...]:
        return (TestedPart("bound"),)
