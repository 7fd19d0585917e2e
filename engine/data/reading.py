"""Temporary."""

import csv
import io

import msgspec
import yaml

from grammar.values.quantity import Quantity
from grammar.values.time import Duration, Timestamp


class DataError(Exception):
    pass


P = {
    "double": float,
    "int": int,
    "string": str,
    "bool": lambda v: v in (True, "true"),
    "quantity": lambda v: Quantity.parse(str(v)),
    "duration": lambda v: Duration.parse(v),
    "timestamp": lambda v: Timestamp.parse(v),
}


def rows_of_text(spec, data, form, at):
    key = getattr(spec.source, "by", "key")
    key = key if isinstance(key, str) else "key"
    raw = (
        list(csv.DictReader(io.StringIO(data.decode())))
        if form == "csv"
        else (msgspec.json.decode(data) if form == "json" else yaml.safe_load(data))
    )
    items = raw.items() if isinstance(raw, dict) else [(r[key], r) for r in raw]
    return {
        k: spec.row(
            time=Timestamp(at),
            **{
                c.name: P[c.type.name](v[c.name])
                for c in spec.columns
                if v.get(c.name) not in (None, "")
            },
        )
        for k, v in items
    }
