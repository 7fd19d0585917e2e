"""Syntax tree of policies, clauses and tests; the same rules as in `grammar.tree.ast` hold."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Literal as OneOf

from grammar.tree.ast import NO_SPAN, Expr, Literal, MapLiteral
from grammar.tree.source import Span
from grammar.tree.types import Type

MissingRule = OneOf["fail", "pass"] | float
# The ranges that compare the nodes of a request.
Order = OneOf["minmax", "rank"]
# The nodes that a spread counts.
NodeSet = OneOf["eligible", "selected", "all"]


@dataclass(frozen=True, slots=True)
class Template:
    """A text with expressions in braces, in order; `{{` and `}}` are already single braces here."""

    parts: tuple[str | Expr, ...]
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Bounds:
    """`range a .. b`: two numbers, quantities or durations, or expressions for them."""

    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True)
class PodSet:
    """`[sum a of] [all|placed] pods where e`. `where` is None for the pods of the workload.

    `amount` is what each of the pods adds; without it each adds one. `namespaces` restricts `all`
    pods to the namespaces for which it is true. Only an object with a `namespaceSelector` has it;
    it reads `namespaceObject`.
    """

    where: Expr | None
    all: bool = False
    placed: bool = False
    namespaces: Expr | None = None
    amount: Expr | None = None
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Bound:
    """`at most|at least|exactly N` or `N%`. The amount is a number, or an expression for it."""

    kind: OneOf["at most", "at least", "exactly"]
    amount: float | Expr
    percent: bool = False
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Strength:
    """`strict`, or `best effort weight N` with its weight, or the parameter that gives it."""

    weight: float | None = None
    span: Span = field(default=NO_SPAN, compare=False)
    weight_from: Expr | None = None

    @property
    def strict(self) -> bool:
        return self.weight is None


@dataclass(frozen=True, slots=True)
class Per:
    """`per node`, `per cluster`, `per domain e`; or `used|empty nodes where e`, to count nodes."""

    scope: OneOf["node", "cluster", "domain", "used nodes", "empty nodes"]
    domain: Expr | None = None
    where: Expr | None = None

    @property
    def of_nodes(self) -> bool:
        return self.scope in ("used nodes", "empty nodes")


@dataclass(frozen=True, slots=True)
class Keep:
    """`keep N by e`."""

    count: int
    by: Expr


@dataclass(frozen=True, slots=True)
class _NamedClause:
    """The parts of every clause; `missing` says what a missing value means for it."""

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


@dataclass(frozen=True, slots=True)
class _RejectingClause(_NamedClause):
    """A clause that can reject a node, with the texts for that."""

    _: KW_ONLY
    message: Template | None = None
    detail: Template | None = None


@dataclass(frozen=True, slots=True)
class _CountingClause(_RejectingClause):
    """A clause about how many pods there are. Without `pods`, the pods of one workload count."""

    strength: Strength
    _: KW_ONLY
    pods: PodSet | None = None

    @property
    def counts_by_workload(self) -> bool:
        """True for `of replicas`, and for a spread or limit without a `pods` line."""
        return self.pods is None or self.pods.where is None

    @property
    def needs_workloads(self) -> bool:
        """Whether counts need the workloads of pods: whose they are, or what these want."""
        return self.counts_by_workload


@dataclass(frozen=True, slots=True)
class Filter(_RejectingClause):
    """Every `require` must be true. `bind` is the same, checked again before the binding."""

    requires: tuple[Expr, ...]
    _: KW_ONLY
    at_bind: bool = False

    @property
    def keyword(self) -> str:
        return "bind" if self.at_bind else "filter"


@dataclass(frozen=True, slots=True)
class Score(_NamedClause):
    """A value scaled to 0..100, with its weight in the policy's mean.

    `weight_from` is the parameter that gives the weight, until it is filled.
    """

    weight: float
    value: Expr
    _: KW_ONLY
    weight_from: Expr | None = None
    range: Bounds | Order | None = None


@dataclass(frozen=True, slots=True)
class Share(_CountingClause):
    """A bound on the pods on the nodes for which `on` is true."""

    on: Expr
    bound: Bound

    @property
    def needs_workloads(self) -> bool:
        """Also of a part of the wanted pods, and of an exact number, which a rollout passes."""
        return self.counts_by_workload or self.bound.percent or self.bound.kind == "exactly"


@dataclass(frozen=True, slots=True)
class Spread(_CountingClause):
    """The count in a node's domain minus the lowest count of all domains.

    `nodes` are those on which pods count, and whose domains are compared; `eligible` by default.
    """

    over: Expr
    skew: int | Expr
    _: KW_ONLY
    min_domains: int | Expr | None = None
    nodes: NodeSet | None = None


@dataclass(frozen=True, slots=True)
class Limit(_CountingClause):
    """A bound on the pods on a node, in a domain or in the cluster, or on the nodes that have some.

    It can bound the sum of an amount of the pods instead. A `mutual` one of a pod that is there
    already keeps other pods out, too.
    """

    per: Per
    bound: Bound
    _: KW_ONLY
    mutual: bool = False


@dataclass(frozen=True, slots=True)
class Preempt(_NamedClause):
    """The protected victims, and the candidate nodes that are kept."""

    _: KW_ONLY
    protect: tuple[Expr, ...] = ()
    allow: Expr | None = None
    keep: Keep | None = None


@dataclass(frozen=True, slots=True)
class Pick:
    """`pick least e` or `pick most e`: the order in which cards are taken."""

    order: OneOf["least", "most"]
    by: Expr


@dataclass(frozen=True, slots=True)
class Cards(_RejectingClause):
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


# A new kind of clause belongs in these unions: `match` with `assert_never` then finds every place
# that must know it.
CountingClause = Share | Spread | Limit
RejectingClause = Filter | CountingClause | Cards
Clause = RejectingClause | Score | Preempt


@dataclass(frozen=True, slots=True)
class Argument:
    """`NAME: VALUE`: the value of a parameter of a policy that is used."""

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
    """A named expression, evaluated wherever its name is used."""

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
    """A named expression with typed parameters."""

    name: str
    parameters: tuple[Parameter, ...]
    result: Type
    body: Expr
    span: Span = field(default=NO_SPAN, compare=False)
    name_span: Span = field(default=NO_SPAN, compare=False)
    result_span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Setting:
    """`description`, `weight`, `mode`, `failure` or `portable`, each at most once.

    `portable` has no value.
    """

    name: OneOf["description", "weight", "mode", "failure", "portable"]
    value: str | int = ""
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class ForPods:
    """`for pods where e`: the pods that the policy selects."""

    where: Expr
    span: Span = field(default=NO_SPAN, compare=False)


Item = Setting | ForPods | Let | Def | Use | Clause


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

    def setting(self, name: str, default: str | int) -> str | int:
        return next(
            (i.value for i in self.items if isinstance(i, Setting) and i.name == name), default
        )


@dataclass(frozen=True, slots=True)
class TestNamespace:
    """`namespace "NAME" {…}` in a test."""

    name: str
    body: MapLiteral | None
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class TestNode:
    """`node "NAME" {…}` in a test."""

    name: str
    body: MapLiteral | None
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class TestPod:
    """`pod "ns/NAME" {…} [on "NODE"]` in a test."""

    name: str
    body: MapLiteral | None
    on: str | None = None
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Expectation:
    """`expect pass NODE`, `expect reject NODE by CLAUSE`, or `expect score NODE op N`."""

    kind: OneOf["pass", "reject", "score"]
    node: str
    clause: str | None = None
    op: str | None = None
    number: float | None = None
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """`cluster "FILE"` in a test: a snapshot; its path is relative to the policy file."""

    path: str
    span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class At:
    """`at "TIME"` in a test: the value of `now`."""

    time: str
    span: Span = field(default=NO_SPAN, compare=False)


TestItem = TestNamespace | TestNode | TestPod | Expectation | ClusterFile | At


@dataclass(frozen=True, slots=True)
class Test:
    """A `test` block."""

    name: str
    items: tuple[TestItem, ...]
    span: Span = field(default=NO_SPAN, compare=False)
    name_span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class File:
    """The policies and tests of a file, in order."""

    blocks: tuple[Policy | Test, ...]

    @property
    def policies(self) -> tuple[Policy, ...]:
        return tuple(b for b in self.blocks if isinstance(b, Policy))

    @property
    def tests(self) -> tuple[Test, ...]:
        return tuple(b for b in self.blocks if isinstance(b, Test))
