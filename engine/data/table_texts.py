"""Texts of tables: the rows that hold now, as texts with which a copy of the cluster is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from engine.cache.cluster_copy import DataText
from engine.program.tables import Table
from grammar.values.quantity import Quantity
from grammar.values.time import Duration, Timestamp


def texts_of(tables: Iterable[Table], now: int) -> Mapping[str, DataText]:
    """The rows of each table that are not stale at a moment, in nanoseconds, by its digest.

    Each row says how old it is.
    """
    return {
        table.spec.digest: DataText(f"data {table.spec.name}", _rows(table, now), "json")
        for table in tables
    }


def _rows(table: Table, now: int) -> bytes:
    names = [column.name for column in table.spec.columns]
    return msgspec.json.encode(
        {
            key: {
                "age": str(Duration(max(0, now - row.time.nanos))),
                **{name: _written(getattr(row, name)) for name in names},
            }
            for key, row in table.rows.items()
            if table.row_until(row) > now
        }
    )


def _written(value: object) -> object:
    return str(value) if isinstance(value, Quantity | Duration | Timestamp) else value
