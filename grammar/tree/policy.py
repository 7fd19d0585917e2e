"""Policies and tests as a syntax tree like `grammar.tree.ast`, and what they give a name to.

A policy names tables, groups of nodes and numbers of pods. What every clause says of itself is in
`grammar.tree.clause_parts`, and each kind of clause in `grammar.clauses`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar, get_args
from typing import Literal as OneOf

from grammar.tree.ast import NO_SPAN, Expr, Literal, MapLiteral, Named, Placed
from grammar.tree.clause_parts import AnyClause, Per, PodSet, Repair
from grammar.tree.source import Span
from grammar.tree.types import DOUBLE, INT, QUANTITY, Type

# ---- tables

# What stands before the name of a table, and what the name of the type of its rows begins with.
DATA = "data."
ROW = "Row of "
# How often a source is asked, and after how many times of that a row is stale.
EVERY_SECONDS, STALE_TIMES = 30.0, 3
# How long the last rows of a source that is watched hold after it has failed.
STALE_SECONDS = 300.0
# The longest time after which a row can be stale.
MOST_STALE = 7 * 86_400.0
# How the description of a column begins.
COLUMN_OF = "A column of "


@dataclass(frozen=True, slots=True)
class Column(Placed):
    """A column: its type as declared, or the expression of its value in `from objects`.

    `over` says what the objects of one key have together, as in `sum quantity(…)`.
    """

    name: str
    type: Type
    value: Expr | None = None
    over: OneOf["", "sum", "most", "count"] = ""
    type_span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class _Source(Placed):
    """What every source says of itself; `span` is the place of its first text."""

    word: ClassVar[str]
    # The words before its other texts, in their order.
    words: ClassVar[tuple[str, ...]] = ()
    columns: ClassVar[tuple[Column, ...]] = ()
    is_watched: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class FromMetrics(_Source):
    """`from metrics`: what nodes use, from metrics.k8s.io; a row for each node."""

    word = "metrics"
    columns = (Column("cpu", QUANTITY), Column("memory", QUANTITY))
    is_watched = False


@dataclass(frozen=True, slots=True)
class FromPrometheus(_Source):
    """`from prometheus URL query TEXT by LABEL`: a row for each value of the label."""

    url: str
    query: str
    key: str
    word = "prometheus"
    words = ("query", "by")
    columns = (Column("value", DOUBLE),)
    is_watched = False


@dataclass(frozen=True, slots=True)
class FromConfigMap(_Source):
    """`from configmap "NAMESPACE/NAME" file ENTRY by COLUMN`: a row for each row of its text."""

    name: str
    entry: str
    by: str
    word = "configmap"
    words = ("file", "by")


@dataclass(frozen=True, slots=True)
class FromFile(_Source):
    """`from file PATH by COLUMN`: a row for each row of a file: CSV, JSON or YAML by its name."""

    path: str
    by: str
    word = "file"
    words = ("by",)


@dataclass(frozen=True, slots=True)
class FromObjects(_Source):
    """`from objects "GROUP/VERSION/KIND" by EXPR`: a row for each object, which is `object`."""

    kind: str
    by: Expr
    word = "objects"
    words = ("by",)


TableSource = FromMetrics | FromPrometheus | FromConfigMap | FromFile | FromObjects


def usual_stale(source: TableSource, every: float) -> float:
    """After how many seconds a row is stale where the block does not say it."""
    return STALE_SECONDS if source.is_watched else STALE_TIMES * every


@dataclass(frozen=True, slots=True)
class Data(Named):
    """`data "NAME" {…}`: a table, which expressions read as `data.NAME[KEY].COLUMN`.

    `names` has the parameters that give texts of the source, by field, until they are filled. A
    source that is not watched is asked `every` so many seconds. A row is stale, and so missing,
    so many seconds after its time, or after a source that is watched has failed.
    """

    name: str
    source: TableSource
    columns: tuple[Column, ...]
    names: tuple[tuple[str, Expr], ...] = ()
    every: float = EVERY_SECONDS
    stale: float = STALE_SECONDS
    from_span: Span = field(default=NO_SPAN, compare=False)
    every_span: Span = field(default=NO_SPAN, compare=False)
    stale_span: Span = field(default=NO_SPAN, compare=False)
    columns_span: Span = field(default=NO_SPAN, compare=False)

    @property
    def variable(self) -> str:
        """The name by which expressions read the table."""
        return f"data.{self.name}"

    @property
    def row(self) -> Type:
        """The type of its rows."""
        return Type(f"{ROW}{self.name}")


# ---- groups and counts

# What the name of the type of a group begins with.
GROUP = "Group of "
# What may be read where the name of a count is read: a count of the cluster, or one of nodes.
COUNT, COUNT_OF_NODES = "count", "count of nodes"


@dataclass(frozen=True, slots=True)
class Group(Named):
    """`group NAME by EXPR`: the name stands for the group of the node that is being evaluated.

    `by` reads the node alone. A node without a value is in no group.
    """

    name: str
    by: Expr

    @property
    def type(self) -> Type:
        """The type of the name."""
        return Type(f"{GROUP}{self.name}")


@dataclass(frozen=True, slots=True)
class Count(Named):
    """`count NAME [per …] = [sum a of] [all] [STATE] pods where e`: a number of pods, or a sum.

    It is of the cluster, of the node that is being evaluated, or of another place of this node.
    """

    name: str
    pods: PodSet
    per: Per

    @property
    def keyword(self) -> str:
        """The words for this kind of count, as a key of `STATES`."""
        return "count" if self.per.place == "cluster" else "count of a place"

    @property
    def type(self) -> Type:
        """The type of the name, once what each pod adds is checked."""
        amount = self.pods.amount
        if amount is None:
            return INT
        return amount.type if amount.type in (INT, QUANTITY) else DOUBLE

    @property
    def stands_for(self) -> str:
        """What may be read where its name is read."""
        return COUNT if self.per.place == "cluster" else COUNT_OF_NODES


def is_group(kind: Type) -> bool:
    """Whether a type is that of a group."""
    return kind.name.startswith(GROUP)


# ---- tests


@dataclass(frozen=True, slots=True)
class TestObject(Placed):
    """An object of a test: `namespace "NAME" {…}`, `node "NAME" {…}` or a pod.

    A pod is `pod "ns/NAME" {…} [on "NODE"]`.
    """

    kind: OneOf["namespace", "node", "pod"]
    name: str
    body: MapLiteral | None
    on: str | None = None


ExpectedKind = OneOf["pass", "reject", "wait", "bind", "score", "evict"]
EXPECTED: tuple[ExpectedKind, ...] = get_args(ExpectedKind)


@dataclass(frozen=True, slots=True)
class Expectation(Placed):
    """`expect pass NODE`, `expect reject NODE by CLAUSE`, `expect bind NODE`, and so on.

    The text of the clause has to contain the `message`. A score has `op` and `number`: `expect
    score NODE op N`. The `victims` are the pods of `expect evict POD, … on NODE`; `expect evict
    none on NODE` has none.
    """

    kind: ExpectedKind
    node: str
    clause: str | None = None
    op: str | None = None
    number: float | None = None
    victims: tuple[str, ...] = ()
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterFile(Placed):
    """`cluster "FILE"` in a test: a snapshot; its path is relative to the policy file."""

    path: str


@dataclass(frozen=True, slots=True)
class TestTime(Placed):
    """The time of a test, `at "TIME"`: the value of `now`."""

    time: str


@dataclass(frozen=True, slots=True)
class TestData(Placed):
    """`data "NAME" {KEY: {COLUMN: VALUE}}` in a test: the rows of a table."""

    name: str
    body: MapLiteral


TestItem = TestObject | Expectation | ClusterFile | TestTime | TestData


@dataclass(frozen=True, slots=True)
class Test(Named):
    """A `test` block."""

    name: str
    items: tuple[TestItem, ...]


# ---- policies


@dataclass(frozen=True, slots=True)
class Argument(Placed):
    """An argument, `NAME: VALUE`: the value of a parameter of a policy that is used."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Use(Placed):
    """`use "NAME" (…)`: another policy's clauses, and values for its parameters."""

    name: str
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True, slots=True)
class Let(Named):
    """A `let`: a named expression, evaluated wherever its name is used."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a `def` or of a policy: its declared type, and the default of a policy's."""

    name: str
    type: Type
    default: Expr | None = None
    type_span: Span = field(default=NO_SPAN, compare=False)
    name_span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Def(Named):
    """A `def`: a named expression with typed parameters."""

    name: str
    parameters: tuple[Parameter, ...]
    result: Type
    body: Expr
    result_span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Setting(Placed):
    """A setting: `description`, `weight`, `mode`, `missing`, `portable` or `repair`, once at most.

    `portable` has no value.
    """

    name: OneOf["description", "weight", "mode", "missing", "portable", "repair"]
    value: str | int | Repair = ""


@dataclass(frozen=True, slots=True)
class ForPods(Placed):
    """`for pods where e`: the pods that the policy selects."""

    where: Expr


Item = Setting | ForPods | Let | Def | Use | Data | Group | Count | AnyClause
K = TypeVar("K")


def of_kind(items: Iterable[object], kind: type[K]) -> tuple[K, ...]:
    """The clauses of one kind, or the programs of one, in their order."""
    return tuple(item for item in items if isinstance(item, kind))


@dataclass(frozen=True, slots=True)
class Policy(Named):
    """A policy as written. `namespace` is None for a policy of all namespaces.

    `values` are for parameters of the policies that it uses, where a `use` does not set them. Only
    an object has them, and says whether it is `strict`; of a text its clauses say so.
    """

    name: str
    items: tuple[Item, ...]
    namespace: str | None = None
    cluster: bool = False
    parameters: tuple[Parameter, ...] = ()
    values: tuple[Argument, ...] = ()
    strict: bool | None = field(default=None, compare=False)

    @property
    def selector(self) -> Expr | None:
        return next((i.where for i in self.items if isinstance(i, ForPods)), None)

    @property
    def only_used(self) -> bool:
        """Whether it is `for pods where false`: its clauses exist only for `use`."""
        selector = self.selector
        return isinstance(selector, Literal) and selector.value is False

    @property
    def clauses(self) -> tuple[AnyClause, ...]:
        return of_kind(self.items, AnyClause)

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

    def passes_missing(self, clause: AnyClause | None = None) -> bool:
        """Whether what has no value passes: the clause says so, or else the policy."""
        rule = None if clause is None else clause.missing
        return (self.setting("missing", "fail") if rule is None else rule) == "pass"

    def setting(self, name: str, default: str | int) -> str | int:
        values = (i.value for i in self.items if isinstance(i, Setting) and i.name == name)
        return next((value for value in values if not isinstance(value, Repair)), default)


@dataclass(frozen=True, slots=True)
class File:
    """A file: its policies and tests, in order."""

    blocks: tuple[Policy | Test, ...]

    @property
    def policies(self) -> tuple[Policy, ...]:
        return of_kind(self.blocks, Policy)

    @property
    def tests(self) -> tuple[Test, ...]:
        return of_kind(self.blocks, Test)
