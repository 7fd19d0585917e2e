"""Data: the tables, groups of nodes and numbers of pods to which a policy gives a name.

The same rules as in `grammar.tree.ast` hold.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar

from grammar.tree.ast import NO_SPAN, Expr
from grammar.tree.clause_parts import Per, PodSet
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
class Column:
    """A column: its type as declared, or the expression of its value in `from objects`."""

    name: str
    type: Type
    value: Expr | None = None
    span: Span = field(default=NO_SPAN, compare=False)
    type_span: Span = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class _Source:
    """What every source says of itself; `span` is the place of its first text."""

    _: KW_ONLY
    span: Span = field(default=NO_SPAN, compare=False)
    word: ClassVar[str]
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
    """`from prometheus URL query TEXT key LABEL`: a row for each value of the label."""

    url: str
    query: str
    key: str
    word = "prometheus"
    columns = (Column("value", DOUBLE),)
    is_watched = False


@dataclass(frozen=True, slots=True)
class FromConfigMap(_Source):
    """`from configmap "NAMESPACE/NAME" key ENTRY by COLUMN`: a row for each row of a text in it."""

    name: str
    entry: str
    by: str
    word = "configmap"


@dataclass(frozen=True, slots=True)
class FromFile(_Source):
    """`from file PATH by COLUMN`: a row for each row of a file: CSV, JSON or YAML by its name."""

    path: str
    by: str
    word = "file"


@dataclass(frozen=True, slots=True)
class FromObjects(_Source):
    """`from objects "GROUP/VERSION/KIND" by EXPR`: a row for each object, which is `object`."""

    kind: str
    by: Expr
    word = "objects"


TableSource = FromMetrics | FromPrometheus | FromConfigMap | FromFile | FromObjects


def usual_stale(source: TableSource, every: float) -> float:
    """After how many seconds a row is stale where the block does not say it."""
    return STALE_SECONDS if source.is_watched else STALE_TIMES * every


@dataclass(frozen=True, slots=True)
class Data:
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
    span: Span = field(default=NO_SPAN, compare=False)
    name_span: Span = field(default=NO_SPAN, compare=False)
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
class Group:
    """`group NAME by EXPR`: the name stands for the group of the node that is being evaluated.

    `by` reads the node alone. A node without a value is in no group.
    """

    name: str
    by: Expr
    span: Span = field(default=NO_SPAN, compare=False)
    name_span: Span = field(default=NO_SPAN, compare=False)

    @property
    def type(self) -> Type:
        """The type of the name."""
        return Type(f"{GROUP}{self.name}")


@dataclass(frozen=True, slots=True)
class Count:
    """`count NAME [per …] = [sum a of] [all] [STATE] pods where e`: a number of pods, or a sum.

    It is of the cluster, of the node that is being evaluated, or of its group.
    """

    name: str
    pods: PodSet
    per: Per
    span: Span = field(default=NO_SPAN, compare=False)
    name_span: Span = field(default=NO_SPAN, compare=False)

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
        return COUNT if self.per.scope == "cluster" else COUNT_OF_NODES


def is_group(kind: Type) -> bool:
    """Whether a type is that of a group."""
    return kind.name.startswith(GROUP)
