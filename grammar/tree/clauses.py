"""Clauses, policies and tests as a syntax tree; the same rules as in `grammar.tree.ast` hold.

Each kind of clause says here all that is asked of clauses: the conditions, the counted pods, the
verb, the weight of the points, and the parts that tests cover. So most modules
treat all kinds alike. The few that do not are named beside the union `Clause`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Literal as OneOf
from typing import Self, TypeVar, get_args

from grammar.tree.ast import NO_SPAN, Expr, Literal, MapLiteral
from grammar.tree.clause_parts import (
    AnyClause,
    Bound,
    Bounds,
    ClauseThatCounts,
    ClauseThatRejects,
    ClauseVerb,
    Keep,
    MissingGives,
    NodeSet,
    Order,
    Per,
    Pick,
    Repair,
    SchedulerNeed,
    WaitUntil,
    WrittenCondition,
)
from grammar.tree.data import Count, Data, Group
from grammar.tree.source import Span
from grammar.tree.types import Type

# ---- tests


@dataclass(frozen=True, slots=True)
class TestObject:
    """An object of a test: `namespace "NAME" {…}`, `node "NAME" {…}` or a pod.

    A pod is `pod "ns/NAME" {…} [on "NODE"]`.
    """

    kind: OneOf["namespace", "node", "pod"]
    name: str
    body: MapLiteral | None
    on: str | None = None
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Expectation:
    """`expect pass NODE`, `expect reject NODE by CLAUSE`, `expect bound NODE`, and so on.

    The text of the clause has to contain the `message`. A score has `op` and `number`: `expect
    score NODE op N`. The `victims` are the pods of `expect evict POD, … on NODE`; `expect evict
    none on NODE` has none.
    """

    kind: OneOf["pass", "reject", "held", "bound", "score", "evict"]
    node: str
    clause: str | None = None
    op: str | None = None
    number: float | None = None
    victims: tuple[str, ...] = ()
    message: str | None = None
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """`cluster "FILE"` in a test: a snapshot; its path is relative to the policy file."""

    path: str
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class TestTime:
    """The time of a test, `at "TIME"`: the value of `now`."""

    time: str
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class TestData:
    """`data "NAME" {KEY: {COLUMN: VALUE}}` in a test: the rows of a table."""

    name: str
    body: MapLiteral
    span: Span = field(default=NO_SPAN, compare=False)


TestItem = TestObject | Expectation | ClusterFile | TestTime | TestData


@dataclass(frozen=True, slots=True)
class Test:
    """A `test` block."""

    name: str
    items: tuple[TestItem, ...]
    span: Span = field(default=NO_SPAN, compare=False)
    name_span: Span = field(default=NO_SPAN, compare=False)


# ---- kinds of clauses


@dataclass(frozen=True, slots=True)
class Filter(ClauseThatRejects):
    """A filter: every `require` must be true. A `bind` looks at the binding, and may `wait`."""

    requires: tuple[Expr, ...]
    _: KW_ONLY
    at_bind: bool = False
    wait: WaitUntil | None = None

    @property
    def keyword(self) -> str:
        return "bind" if self.at_bind else "filter"

    @property
    def own_conditions(self) -> tuple[WrittenCondition, ...]:
        found = tuple(WrittenCondition(e, "require", self.missing) for e in self.requires)
        waits = WrittenCondition(self.wait.condition, "wait until") if self.wait else None
        return found if waits is None else (*found, waits)

    @property
    def requirements(self) -> tuple[Expr, ...]:
        return self.requires

    @property
    def scheduler_needs(self) -> frozenset[SchedulerNeed]:
        waits: frozenset[SchedulerNeed] = frozenset({"waiting binding"} if self.wait else ())
        return waits | frozenset({"check at binding"} if self.at_bind else ())


@dataclass(frozen=True, slots=True)
class Score(AnyClause):
    """A score: a value scaled to 0..100, with its weight in the policy's mean.

    The weight is the name of a parameter until the parameter is filled.
    """

    weight: float | Expr
    value: Expr
    _: KW_ONLY
    weight_may_be_negative = True
    range: Bounds | Order | None = None

    @property
    def ends(self) -> tuple[Expr, ...]:
        return (self.range.low, self.range.high) if isinstance(self.range, Bounds) else ()

    @property
    def verb(self) -> ClauseVerb:
        return "prioritize"

    @property
    def missing_gives(self) -> frozenset[MissingGives]:
        return frozenset({"points"})

    @property
    def points_weight(self) -> float | Expr | None:
        return self.weight

    def weighing(self, weight: float) -> Self:
        return replace(self, weight=weight)

    @property
    def scheduler_needs(self) -> frozenset[SchedulerNeed]:
        return frozenset({"scores"})

    @property
    def tested(self) -> OneOf["verdict", "value"] | None:
        return "value"


@dataclass(frozen=True, slots=True)
class Share(ClauseThatCounts):
    """A share: a bound on the pods on the nodes for which `on` is true."""

    on: Expr
    bound: Bound

    @property
    def needs_workloads(self) -> bool:
        """Also of a part of the wanted pods, and of an exact number, which a rollout passes."""
        return self.counts_by_workload or self.bound.percent or self.bound.kind == "exactly"

    @property
    def own_conditions(self) -> tuple[WrittenCondition, ...]:
        return (WrittenCondition(self.on, "on nodes where"),)


@dataclass(frozen=True, slots=True)
class Spread(ClauseThatCounts):
    """A spread: the count in a node's domain minus the lowest count of all domains.

    `nodes` are the nodes on which pods count, and whose domains are compared; `eligible` by
    default. Only domains of nodes with one value of `within` are compared.
    """

    over: Expr
    skew: int | Expr
    _: KW_ONLY
    min_domains: int | Expr | None = None
    nodes: NodeSet | None = None
    within: Expr | None = None

    @property
    def domain(self) -> Expr | None:
        return self.over

    @property
    def counts_where_pod_may_be(self) -> bool:
        return self.nodes != "all"


@dataclass(frozen=True, slots=True)
class Limit(ClauseThatCounts):
    """A limit: a bound on pods of a node, a domain or the cluster, or on the nodes that have some.

    It can bound the sum of an amount of the pods instead. A `mutual` one of a pod that is there
    already keeps other pods out, too.
    """

    per: Per
    bound: Bound
    _: KW_ONLY
    mutual: bool = False
    may_sum = True

    @property
    def own_conditions(self) -> tuple[WrittenCondition, ...]:
        where = self.per.where
        return () if where is None else (WrittenCondition(where, "nodes where"),)

    @property
    def added(self) -> Expr | None:
        """What is added up of each pod, or of each node; None where these are counted."""
        return self.per.amount or (None if self.pods is None else self.pods.amount)

    @property
    def domain(self) -> Expr | None:
        return self.per.domain


@dataclass(frozen=True, slots=True)
class Preempt(AnyClause):
    """A `preempt`: the protected victims, and the candidate nodes that are kept."""

    _: KW_ONLY
    protect: tuple[Expr, ...] = ()
    allow: Expr | None = None
    keep: Keep | None = None

    @property
    def own_conditions(self) -> tuple[WrittenCondition, ...]:
        found = [WrittenCondition(e, "protect", self.missing) for e in self.protect]
        if self.allow is not None:
            found.append(WrittenCondition(self.allow, "allow"))
        return tuple(found)

    @property
    def verb(self) -> ClauseVerb:
        return "preempt"


@dataclass(frozen=True, slots=True)
class Cards(ClauseThatRejects):
    """Cards of nodes, of which a pod takes some, or a part of one.

    `on` are the amounts of each card, or of one of `count` alike ones. The pod takes the amounts
    `take` of so many cards as `number` says, or of one. Without a `pick` the first cards with room
    are taken. `index` is the annotation for their numbers, `writes` are others.
    """

    on: Expr
    take: Expr
    _: KW_ONLY
    count: Expr | None = None
    number: Expr | None = None
    index: str | None = None
    pick: Pick | None = None
    writes: MapLiteral | None = None

    @property
    def scheduler_needs(self) -> frozenset[SchedulerNeed]:
        return frozenset({"binding with cards"})


@dataclass(frozen=True, slots=True)
class Gang(ClauseThatRejects):
    """A gang: pods that are bound together or not at all, and held until enough are there.

    Its members are the pods of the namespace with the same value of `by`. Without a `by` they are
    the pods of the named PodGroup, else of the workload. `at_least` so many must be there, or so
    many `percent` of the wanted replicas; without it, the number of the group, or all of these. All
    members are on nodes with one value of `within`.
    """

    _: KW_ONLY
    by: Expr | None = None
    at_least: float | Expr | None = None
    percent: bool = False
    within: Expr | None = None
    seconds: float = 60.0
    seconds_span: Span = field(default=NO_SPAN, compare=False)

    @property
    def domain(self) -> Expr | None:
        return self.within

    @property
    def needs_workloads(self) -> bool:
        return self.by is None

    @property
    def scheduler_needs(self) -> frozenset[SchedulerNeed]:
        return frozenset({"one decider", "waiting binding"})


# ---- all kinds
#
# A new kind belongs in these unions. `match` with `assert_never` then finds each place that has a
# case for every kind: what its parts may read (`grammar.checker.policy_checker`), its layout
# (`grammar.tree.printer`), its program (`engine.program.policy_compiler`), what other schedulers
# are told of it (`engine.portable.portable_clauses`), and the evidence of its program
# (`engine.explanation.evidence`). No other module asks which kind a clause is; what is about one
# kind alone takes its clauses by `of_kind`.

CountingClause = Share | Spread | Limit
RejectingClause = Filter | CountingClause | Cards | Gang
Clause = Filter | Score | Share | Spread | Limit | Cards | Gang | Preempt
# The words that clauses begin with, in the order in which people are told of them.
CLAUSE_WORDS = (*(kind.__name__.lower() for kind in get_args(Clause)), "bind")
K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument, `NAME: VALUE`: the value of a parameter of a policy that is used."""

    name: str
    value: Expr
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Use:
    """`use "NAME" (…)`: another policy's clauses, and values for its parameters."""

    name: str
    arguments: tuple[Argument, ...] = ()
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Let:
    """A `let`: a named expression, evaluated wherever its name is used."""

    name: str
    value: Expr
    span: Span = field(default=NO_SPAN, compare=False)
    name_span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a `def` or of a policy: its declared type, and the default of a policy's."""

    name: str
    type: Type
    default: Expr | None = None
    type_span: Span = field(default=NO_SPAN, compare=False)
    name_span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Def:
    """A `def`: a named expression with typed parameters."""

    name: str
    parameters: tuple[Parameter, ...]
    result: Type
    body: Expr
    span: Span = field(default=NO_SPAN, compare=False)
    name_span: Span = field(default=NO_SPAN, compare=False)
    result_span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting: `description`, `weight`, `mode`, `failure`, `portable` or `repair`, once at most.

    `portable` has no value.
    """

    name: OneOf["description", "weight", "mode", "failure", "portable", "repair"]
    value: str | int | Repair = ""
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class ForPods:
    """`for pods where e`: the pods that the policy selects."""

    where: Expr
    span: Span = field(default=NO_SPAN, compare=False)


Item = Setting | ForPods | Let | Def | Use | Data | Group | Count | Clause


def of_kind(items: Iterable[object], kind: type[K]) -> tuple[K, ...]:
    """The clauses of one kind, or the programs of one, in their order."""
    return tuple(item for item in items if isinstance(item, kind))


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy as written. `namespace` is None for a policy of all namespaces.

    `values` are for parameters of the policies that it uses, where a `use` does not set them. Only
    an object has them.
    """

    name: str
    items: tuple[Item, ...]
    namespace: str | None = None
    cluster: bool = False
    parameters: tuple[Parameter, ...] = ()
    values: tuple[Argument, ...] = ()
    span: Span = field(default=NO_SPAN, compare=False)
    name_span: Span = field(default=NO_SPAN, compare=False)

    @property
    def selector(self) -> Expr | None:
        return next((i.where for i in self.items if isinstance(i, ForPods)), None)

    @property
    def only_used(self) -> bool:
        """Whether it is `for pods where false`: its clauses exist only for `use`."""
        selector = self.selector
        return isinstance(selector, Literal) and selector.value is False

    @property
    def clauses(self) -> tuple[Clause, ...]:
        return tuple(i for i in self.items if isinstance(i, Clause))

    @property
    def address(self) -> str:
        """Its name in messages and metrics: `namespace/name`, or the name alone."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def portable(self) -> bool:
        """Whether its clauses may be told to others, as parts of the pod."""
        return any(isinstance(i, Setting) and i.name == "portable" for i in self.items)

    @property
    def repair(self) -> Repair | None:
        """How pods that break its clauses may be evicted; None where they may not."""
        values = (i.value for i in self.items if isinstance(i, Setting))
        return next((value for value in values if isinstance(value, Repair)), None)

    def setting(self, name: str, default: str | int) -> str | int:
        values = (i.value for i in self.items if isinstance(i, Setting) and i.name == name)
        return next((value for value in values if not isinstance(value, Repair)), default)


@dataclass(frozen=True, slots=True)
class File:
    """A file: its policies and tests, in order."""

    blocks: tuple[Policy | Test, ...]

    @property
    def policies(self) -> tuple[Policy, ...]:
        return tuple(b for b in self.blocks if isinstance(b, Policy))

    @property
    def tests(self) -> tuple[Test, ...]:
        return tuple(b for b in self.blocks if isinstance(b, Test))
