"""Tables: typed rows by key, with their time, as expressions read them.

A Table is immutable: a source that has something new makes another one. The engine keeps the last
one of each TableSpec; whoever reads `data.NAME` gets LiveRows, which leaves out what is stale.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeGuard

import msgspec

from engine.cache.cluster_copy import DataText
from engine.program.frame import Evaluate, Frame
from grammar.messages.texts import counted, shown
from grammar.syntax.formatter import print_data
from grammar.tree.policy import ROW, Column, Data, TableSource
from grammar.values.errors import MissingError
from grammar.values.time import NEVER, SECOND, Duration, Timestamp

# The most rows of a table, and the most bytes of a text that rows are read from.
MOST_ROWS, MOST_BYTES = 20_000, 8 << 20
_DIGEST_LENGTH = 16
# The most bytes of a text in a row, and of a key.
MOST_TEXT, MOST_KEY = 1024, 253


@dataclass(frozen=True, eq=False)
class TableSpec:
    """A table's specification, a compiled `data` block: the source, and the form of the rows.

    `digest` is equal for blocks of equal meaning, in whichever policy they stand. `by` and
    `values` are of a table from objects: the key of an object, and the values of its columns; they
    read `object` of the frame. The policy reads rows by these `keys` of nodes: labels, or the name,
    which is empty here.
    """

    name: str
    digest: str
    source: TableSource
    columns: tuple[Column, ...]
    every: float
    stale: float
    by: Evaluate | None = None
    values: tuple[Evaluate, ...] = ()
    slots: int = 0
    keys: frozenset[str] = frozenset()

    @cached_property
    def lasts(self) -> int | None:
        """For how many nanoseconds after its time a row is read; None if the source is watched."""
        return None if self.source.is_watched else int(self.stale * SECOND)

    @cached_property
    def row(self) -> type[msgspec.Struct]:
        """The class of its rows: an attribute for each column, None where it is missing.

        The garbage collector leaves rows alone: a cell refers to nothing that refers to a row.
        """
        fields: list[Any] = [(column.name, Any, None) for column in self.columns]
        return msgspec.defstruct(
            f"{ROW}{self.name}", [("time", Timestamp), *fields], frozen=True, kw_only=True, gc=False
        )


# The labels of each node, by its name.
Labels = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table: the rows of a source by key, none read from `until` on, none for `shared` keys."""

    spec: TableSpec
    rows: Mapping[str, Any]
    until: int = NEVER
    shared: frozenset[str] = frozenset()

    def row_until(self, row: Any) -> int:
        """The moment from which on a row is stale, in nanoseconds."""
        lasts = self.spec.lasts
        return self.until if lasts is None else min(self.until, int(row.time.nanos) + lasts)

    def use(self, nodes: Labels, keys: Collection[str]) -> tuple[str, int | None]:
        """Why no row is of use, or an empty text, and how many of the nodes have no row.

        `nodes` are labels by the names of nodes; those without such a label do not count. The
        number is None if no policy reads rows by a label of nodes or by their names.
        """
        rows, is_empty = self.rows, not self.rows and not self.spec.source.is_watched
        said = ({has.get(k) if k else name for k in keys} - {None} for name, has in nodes.items())
        asked = [each for each in said if each]
        lacking = sum(map(rows.keys().isdisjoint, asked)) if asked else None
        if lacking is None or lacking < len(asked):
            return "it has no rows" if is_empty else "", lacking
        why = "it has no rows"
        if rows:
            what = "a node" if "" in keys else f"the label `{shown(min(keys))}` of a node"
            why = f"no key of its {counted(len(rows), 'row')} is {what}, as in `{shown(min(rows))}`"
        return f"{why}; {counted(lacking, 'node')} without a row", lacking


# The last table of each specification, by its digest. Another one is another object.
Tables = Mapping[str, Table]


def source_label(name: str, kind: str) -> str:
    """A source in metrics, logs and names of tasks, whichever policies declare it."""
    return f"{name} ({kind})"


class Row(Protocol):
    """A row of a table: its time, and an attribute for each column."""

    time: Timestamp
    __struct_fields__: tuple[str, ...]


def is_row(value: object) -> TypeGuard[Row]:
    """Whether a value is a row of a table."""
    return type(value).__name__.startswith(ROW)


# Why a rule has no value of a table.
NO_ROW, STALE_ROW, NO_ROWS = "no row in", "only a stale row in", "no rows in"


class LiveRows(Mapping[str, Any]):
    """The rows of a table that are not stale at the time of a frame, which learns how long."""

    __slots__ = ("_frame", "_table")

    def __init__(self, table: Table, frame: Frame) -> None:
        self._table = table
        self._frame = frame

    def __getitem__(self, key: str) -> Any:
        row, name = self._table.rows.get(key), f"`data.{self._table.spec.name}`"
        if row is None:
            more = ": several objects have this key" if key in self._table.shared else ""
            raise MissingError(f"there is no row `{key}` in {name}{more}", f"{NO_ROW} {name}")
        if not self._holds(row):
            age = Duration(self._frame.now.nanos - row.time.nanos)
            text = f"the row `{key}` of {name} is stale: it is {age} old"
            raise MissingError(text, f"{STALE_ROW} {name}")
        return row

    def __iter__(self) -> Iterator[str]:
        return (key for key, row in self._table.rows.items() if self._holds(row))

    def __len__(self) -> int:
        return sum(map(self._holds, self._table.rows.values()))

    def __contains__(self, key: object) -> bool:
        rows = self._table.rows
        return isinstance(key, str) and key in rows and self._holds(rows[key])

    def _holds(self, row: Any) -> bool:
        until, frame = self._table.row_until(row), self._frame
        if until <= frame.now.nanos:
            return False
        frame.holds_until(until)
        return True


def digest_of(data: Data) -> str:
    """The digest of a block: of the text, with the types of the columns."""
    types = ",".join(str(column.type) for column in data.columns)
    return hashlib.sha256(f"{print_data(data)} {types}".encode()).hexdigest()[:_DIGEST_LENGTH]


def read_table(data: Data) -> Evaluate:
    """The closure of `data.NAME`."""
    digest, name = digest_of(data), f"`data.{data.name}`"

    def run(frame: Frame) -> object:
        table = frame.tables.get(digest)
        if table is None:
            raise MissingError(f"there are no rows of {name} yet", f"{NO_ROWS} {name}")
        return LiveRows(table, frame)

    return run


class SourceStatus(msgspec.Struct, frozen=True, rename="camel"):
    """How a source does, for people: its rows, their age in seconds, and what went wrong last.

    `policies` are the addresses of those that declare it. `is_stale` says that no row is read.
    `reason` is one word of few. `told_error` is as `error`, but of a source that is asked again and
    again another one at most once a minute while the reason stays. `left_out` are the rows of
    the last sample that have no value, and `cause` says why of one. `lacking` is the number of
    nodes without a row, None where rows are not by node.
    """

    name: str
    digest: str
    kind: str
    policies: tuple[str, ...]
    rows: int = 0
    age: float | None = None
    error: str = ""
    reason: str = ""
    told_error: str = ""
    is_stale: bool = False
    left_out: int = 0
    cause: str = ""
    lacking: int | None = None

    @property
    def is_read(self) -> bool:
        """Whether the source was read, whatever is wrong with its rows."""
        return self.reason in ("useless", "doubtful")

    @property
    def label(self) -> str:
        return source_label(self.name, self.kind)


def texts_of(tables: Iterable[Table], now: int) -> Mapping[str, DataText]:
    """The rows of each table that are not stale at a moment, in nanoseconds, by its digest.

    Each row says how old it is.
    """
    return {
        table.spec.digest: DataText(f"data {table.spec.name}", _rows(table, now), "yaml")
        for table in tables
    }


def _rows(table: Table, now: int) -> bytes:
    rows = {
        key: {
            "age": str(Duration(max(0, now - row.time.nanos))),
            **{each.name: getattr(row, each.name) for each in table.spec.columns},
        }
        for key, row in table.rows.items()
        if table.row_until(row) > now
    }
    # It is ASCII: YAML allows fewer characters as they are. Amounts and times are texts.
    return json.dumps(rows, default=str).encode()
