"""Data: the rows of a table, from what its source has sent.

Pure functions from bytes to rows, without state; a keeper of `engine.cluster` calls them in a
thread. What they read may be hostile. So all of it is bounded, and goes in short steps, between
which other threads run.

A sample is refused as a whole if it is not what the policy declares: a text that is no value of its
column, two rows with one key, a column that is gone. Half of such a table would be a guess. One row
is left out, and counted, if the source itself says that there is no value: a NaN of Prometheus, a
series without the label, an object without a key. An empty cell is a missing column of its row.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import yaml

from engine.cache.cluster_copy import Form
from engine.objects.remembered import bytes_of
from engine.program.frame import Frame
from engine.program.tables import MOST_BYTES, MOST_KEY, MOST_ROWS, MOST_TEXT, TableSpec
from grammar.messages.texts import counted, shown
from grammar.tree.policy import FromConfigMap, FromFile, FromPrometheus
from grammar.values.errors import EvaluationError
from grammar.values.lists import PLUS
from grammar.values.quantity import Quantity
from grammar.values.time import SECOND, Duration, Timestamp
from policies.resource import read_json

# A row is of the class `TableSpec.row`.
Row = Any
# The forms of texts, by the end of the name of a file or of an entry of a ConfigMap.
FORMS: Final[Mapping[str, Form]] = {
    ".csv": "csv",
    # JSON is YAML.
    ".json": "yaml",
    ".yaml": "yaml",
    ".yml": "yaml",
}
# The most objects that a table from objects has rows of: they come one by one, and not as a text.
MOST_OBJECTS = 100_000
# The most bytes of a text that stands for a source: whoever gives it gives it to himself.
MOST_GIVEN_BYTES = 64 << 20
# The column of the keys in a text that stands for a source which names no column.
_KEY = "key"
# What a row of a text in place of a source can say of itself.
_AGE = "age"
# Clocks differ by so much at most.
_CLOCKS_DIFFER = 10 * SECOND
_MOST_SHOWN = 80
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?\Z", re.ASCII)
_WHOLE = re.compile(r"[+-]?\d{1,20}\Z", re.ASCII)
_LEAST_INT, _MOST_INT = -(2**63), 2**63 - 1


class DataError(Exception):
    """Data that is no table; the text is one sentence for people."""


class NoRoomError(Exception):
    """No room: the rows of a text take more bytes than there are for them."""


@dataclass(frozen=True, slots=True)
class RowSample:
    """Sample of rows: the answer of a source, and how many were left out because of `cause`.

    The rows of a text take about so many `bytes`. `doubt` says why they may not be all, or not of
    the time that they say. Several objects have each key of `shared`, so none has a row.
    """

    rows: Mapping[str, Row]
    left_out: int = 0
    cause: str = ""
    bytes: int = 0
    doubt: str = ""
    shared: frozenset[str] = frozenset()


def form_of_name(name: str) -> Form:
    """The form of a text by its name; CSV for a name that does not say."""
    return next((form for end, form in FORMS.items() if name.lower().endswith(end)), "csv")


# ---- texts


def rows_of_text(
    spec: TableSpec,
    data: bytes,
    form: Form,
    at: int,
    *,
    complete: bool = True,
    room: int | None = None,
) -> RowSample:
    """The rows of a ConfigMap or file, or of a text in place of a source, all of the time `at`.

    The time is in nanoseconds. CSV has a header. YAML, and so JSON, is a list of objects, or a
    mapping from keys to objects, whose keys are the column `by`. Columns that are not declared are
    left alone. Those that are must be in the header of CSV, and some row of YAML has one of them,
    if the text is to be `complete`. One that is not stands
    for a source: a row can have an `age`, as in `90s`, and there can be as many as of objects. The
    rows take at most `room` bytes. Raises DataError, and NoRoomError.
    """
    most_rows, most_bytes = (
        (MOST_ROWS, MOST_BYTES) if complete else (MOST_OBJECTS, MOST_GIVEN_BYTES)
    )
    by = spec.source.by if isinstance(spec.source, FromConfigMap | FromFile) else _KEY
    needed = [column.name for column in spec.columns] if complete else []
    text = _text(data, most_bytes)
    is_csv = form == "csv"
    records = _records_of_csv(text, by, needed) if is_csv else _records_of_yaml(text, by)
    time, maker = Timestamp(at), _RowMaker(spec)
    rows: dict[str, Row] = {}
    known: set[str] = set()
    for place, record in records:
        key = _key(record.get(by), by, place)
        taken = time if complete else _aged(record, at, place)
        _add(rows, key, maker.row(taken, record, place), place, most_rows)
        known.update(record)
        maker.bytes += len(key)
        if room is not None and maker.bytes > room:
            raise NoRoomError
    if rows and not is_csv and known.isdisjoint(needed):
        _check_columns(known | {by}, by, needed)
    return RowSample(rows, bytes=maker.bytes)


def _text(data: bytes, most: int = MOST_BYTES) -> str:
    if len(data) > most:
        raise DataError(f"it has more than {most >> 20} MiB")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(f"line {line} is not UTF-8") from None


# A row as its source writes it, and where it stands.
_Record = tuple[str, Mapping[str, object]]


_LINES = re.compile(r"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+\Z")


def _records_of_csv(text: str, by: str, columns: Sequence[str]) -> Iterator[_Record]:
    # A StringIO would take four times the memory of the text.
    lines = (line.group() for line in _LINES.finditer(text))
    reader = csv.reader(lines, strict=True, skipinitialspace=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        if not header:
            raise DataError("it is empty: the first line names the columns")
        if double := next((name for name in header if name and header.count(name) > 1), ""):
            raise DataError(f"the first line has the column {_quoted(double)} twice")
        _check_columns(header, by, columns)
        for cells in reader:
            if not cells:
                continue
            place = f"line {reader.line_num}"
            if len(cells) != len(header):
                number = f"{len(cells)} cell{'s' * (len(cells) != 1)}"
                raise DataError(f"{place} has {number}, and the first line has {len(header)}")
            yield place, dict(zip(header, (cell.strip() or None for cell in cells), strict=True))
    except csv.Error as error:
        raise DataError(f"line {reader.line_num} is not CSV: {error}") from None


def _check_columns(known: Iterable[str], by: str, columns: Sequence[str]) -> None:
    found = {*known}
    if lost := next((name for name in (by, *columns) if name not in found), ""):
        names = ", ".join(map(_quoted, sorted(found - {"", by} if lost != by else found - {""})))
        others = f", only {shown(names)}" if names else ""
        raise DataError(f"there is no column {_quoted(lost)}{others}")


def _records_of_yaml(text: str, by: str) -> Iterator[_Record]:
    """The rows by the events of libyaml: nothing is built that is not needed.

    Texts are read by the types of their columns, whether they are in quotes or not.
    """
    try:
        yield from _YamlRows(text, by).records()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}" if mark is not None else "it"
        problem = getattr(error, "problem", None) or "it cannot be read"
        raise DataError(f"{place} is not YAML: {problem}") from None


# A character beyond 16 bits, as JSON may write it.
_PAIR = re.compile(r"\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}", re.ASCII)


class _YamlRows:
    """One pass through a YAML text."""

    def __init__(self, text: str, by: str) -> None:
        whole = _PAIR.sub(lambda found: str(msgspec.json.decode(f'"{found[0]}"')), text)
        self._loader = yaml.CSafeLoader(whole)
        self._by = by

    def records(self) -> Iterator[_Record]:
        """Raises DataError and YAMLError."""
        try:
            yield from self._records()
        finally:
            self._loader.dispose()

    def _records(self) -> Iterator[_Record]:
        self._next(), self._next()
        match self._next():
            case yaml.SequenceStartEvent():
                while isinstance(event := self._next(), yaml.MappingStartEvent):
                    yield self._place(event), self._mapping()
                if not isinstance(event, yaml.SequenceEndEvent):
                    raise DataError(f"{self._place(event)} is not an object")
            case yaml.MappingStartEvent():
                yield from self._keyed()
            case _:
                text = "it is neither a list of objects nor a mapping from keys to objects"
                raise DataError(text)
        self._next()
        if not isinstance(event := self._next(), yaml.StreamEndEvent):
            raise DataError(f"{self._place(event)} begins a second document")

    def _keyed(self) -> Iterator[_Record]:
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._scalar(event)
            place = f"row {_quoted(key)}"
            if not isinstance(self._next(), yaml.MappingStartEvent):
                raise DataError(f"{place} is not an object")
            yield place, {**self._mapping(), self._by: key}

    def _mapping(self) -> dict[str, object]:
        found: dict[str, object] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = str(self._scalar(event))
            if key in found:
                raise DataError(f"{self._place(event)} has {_quoted(key)} twice")
            found[key] = self._value(self._next())
        return found

    def _value(self, event: Any) -> object:
        """A text, None for null, or what is no cell: a list or an object, which is skipped."""
        if isinstance(event, yaml.ScalarEvent):
            is_plain = event.style is None or event.style == ""
            return None if is_plain and event.value in ("", "~", "null") else event.value
        depth = 1
        while depth:
            inner = self._next()
            depth += isinstance(inner, yaml.CollectionStartEvent)
            depth -= isinstance(inner, yaml.CollectionEndEvent)
        return []

    def _scalar(self, event: Any) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            raise DataError(f"{self._place(event)} has a key that is not a text")
        return str(event.value)

    def _next(self) -> Any:
        event = self._loader.get_event()
        # The texts of others are not multiplied.
        if isinstance(event, yaml.AliasEvent):
            raise DataError(f"{self._place(event)} has an alias, which a table may not have")
        return event

    @staticmethod
    def _place(event: Any) -> str:
        return f"line {event.start_mark.line + 1}"


# ---- rows


def _add(rows: dict[str, Row], key: str, row: Row, place: str, most: int = MOST_ROWS) -> None:
    if key in rows:
        raise DataError(f"{place} has the key {_quoted(key)} again")
    if len(rows) == most:
        raise DataError(f"it has more than {most:,} rows")
    rows[key] = row


def _key(value: object, by: str, place: str) -> str:
    """A key of a table, which is a text."""
    key = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if key is None or key == "":
        raise DataError(f"{place} has no {_quoted(by)}, which is the key")
    if not isinstance(key, str):
        raise DataError(f"{place} has a {_quoted(by)} that is not a text")
    if len(key.encode("utf-8", "replace")) > MOST_KEY:
        raise DataError(f"{place} has a key of more than {MOST_KEY} bytes")
    return key


def _aged(record: Mapping[str, object], at: int, place: str) -> Timestamp:
    """The time of a row that may say how old it is at a moment."""
    age = record.get(_AGE)
    if age is None or age == "":
        return Timestamp(at)
    try:
        return Timestamp.of(at - Duration.parse(str(age)).nanos)
    except EvaluationError as error:
        raise DataError(f"{place}, column {_quoted(_AGE)}: {error}") from None


# What a row takes besides its cells, its key, and its entry in the table; and a cell of any value.
_ROW_BYTES, _CELL_BYTES = 200, 8


class _RowMaker:
    """A maker of rows from cells as they are written, and the bytes of all of them so far.

    Equal texts of a column are one value.
    """

    def __init__(self, spec: TableSpec) -> None:
        self.bytes = 0
        self._make = spec.row
        self._size = _ROW_BYTES + _CELL_BYTES * len(spec.columns)
        self._columns: Sequence[tuple[str, Parser, dict[str, object]]] = [
            (column.name, _PARSERS[column.type.name], {}) for column in spec.columns
        ]

    def row(self, time: Timestamp, record: Mapping[str, object], place: str) -> Row:
        """Raises DataError."""
        values: dict[str, object] = {}
        self.bytes += self._size
        for name, parse, known in self._columns:
            cell = record.get(name)
            if cell is None:
                continue
            if isinstance(cell, str) and cell in known:
                values[name] = known[cell]
                continue
            try:
                values[name] = value = parse(cell)
            except EvaluationError as error:
                raise DataError(f"{place}, column {_quoted(name)}: {error}") from None
            self.bytes += bytes_of(value)
            if isinstance(cell, str):
                known[cell] = value
        return self._make(time=time, **values)


# The value of a cell. Raises EvaluationError, whose text says why there is none.
Parser = Callable[[object], object]


def _double(cell: object) -> float:
    if isinstance(cell, str) and _NUMBER.match(cell):
        cell = float(cell)
    if isinstance(cell, bool) or not isinstance(cell, int | float):
        raise _no_value(cell, "a number")
    try:
        value = float(cell)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise EvaluationError("the number is out of range")
    return value


def _int(cell: object) -> int:
    if isinstance(cell, str) and _WHOLE.match(cell):
        cell = int(cell)
    if isinstance(cell, bool) or not isinstance(cell, int):
        raise _no_value(cell, "a whole number")
    if not _LEAST_INT <= cell <= _MOST_INT:
        raise EvaluationError("the number is out of range")
    return cell


def _bool(cell: object) -> bool:
    if isinstance(cell, bool):
        return cell
    if cell not in ("true", "false"):
        raise _no_value(cell, "`true` or `false`")
    return cell == "true"


def _string(cell: object) -> str:
    if not isinstance(cell, str):
        raise _no_value(cell, "a text")
    if len(cell.encode("utf-8", "replace")) > MOST_TEXT:
        raise EvaluationError(f"the text has more than {MOST_TEXT:,} bytes")
    return cell


def _quantity(cell: object) -> object:
    if isinstance(cell, int) and not isinstance(cell, bool):
        cell = str(_int(cell))
    if isinstance(cell, float):
        cell = repr(_double(cell))
    return _parsed(cell, "a quantity", Quantity.written)


def _parsed(cell: object, kind: str, parse: Callable[[str], object]) -> object:
    if not isinstance(cell, str):
        raise _no_value(cell, kind)
    try:
        return parse(cell)
    except EvaluationError as error:
        raise EvaluationError(f"{_quoted(cell)} is not {kind}: {error}") from None


_PARSERS: Mapping[str, Parser] = {
    "double": _double,
    "int": _int,
    "bool": _bool,
    "string": _string,
    "quantity": _quantity,
    "duration": lambda cell: _parsed(cell, "a duration", Duration.parse),
    "timestamp": lambda cell: _parsed(cell, "a timestamp", Timestamp.parse),
}


def _no_value(cell: object, kind: str) -> EvaluationError:
    match cell:
        case dict():
            text = "an object"
        case list():
            text = "a list"
        case bool():
            text = f"`{'true' if cell else 'false'}`"
        case _:
            text = _quoted(cell)
    return EvaluationError(f"{text} is not {kind}")


def _quoted(value: object) -> str:
    return f"`{shown(str(value)[: 4 * _MOST_SHOWN], _MOST_SHOWN)}`"


# ---- metrics.k8s.io


class _NodeMetricsList(msgspec.Struct, frozen=True):
    kind: str
    items: list[msgspec.Raw] | None


class _Name(msgspec.Struct, frozen=True):
    name: str


class _NodeMetrics(msgspec.Struct, frozen=True):
    metadata: _Name
    timestamp: str
    usage: dict[str, Any]


def rows_of_metrics(spec: TableSpec, data: bytes, now: int) -> RowSample:
    """What nodes use, by a NodeMetricsList of metrics.k8s.io/v1beta1.

    A time after `now` counts as now: otherwise a wrong clock would keep a row for ever. A node with
    an amount below 0 is left out. Raises DataError.
    """
    found = read_json(_text(data), _NodeMetricsList)
    if found is None:
        raise DataError("the answer is not a NodeMetricsList")
    if found.kind != "NodeMetricsList":
        raise DataError(f"the answer is a {_quoted(found.kind)}, and not a NodeMetricsList")
    rows: dict[str, Row] = {}
    negative, maker = "", _RowMaker(spec)
    left_out, ahead = 0, 0
    for item in found.items or ():
        try:
            node = msgspec.json.decode(item, type=_NodeMetrics)
            said = Timestamp.parse(node.timestamp).nanos
            time, ahead = Timestamp(min(said, now)), ahead + _is_ahead(said, now)
        except (msgspec.MsgspecError, UnicodeDecodeError, EvaluationError) as error:
            raise DataError(f"item {len(rows) + left_out + 1} is no NodeMetrics: {error}") from None
        place = f"node {_quoted(node.metadata.name)}"
        row = maker.row(time, node.usage, place)
        if any(amount is not None and amount < Quantity.ZERO for amount in (row.cpu, row.memory)):
            left_out, negative = left_out + 1, f"{place} uses less than nothing"
            continue
        _add(rows, _key(node.metadata.name, "name", place), row, place)
    return RowSample(rows, left_out, negative, doubt=_ahead(ahead))


def _is_ahead(nanos: int, now: int) -> bool:
    return nanos > now + _CLOCKS_DIFFER


def _ahead(rows: int) -> str:
    """Why some rows are not of the time that their source says; empty for no rows."""
    number = f"the time of {counted(rows, 'row')} is to come"
    return f"{number}, so nobody knows how old they are" if rows else ""


# ---- Prometheus


class _Answer(msgspec.Struct, frozen=True):
    status: str
    data: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
    warnings: list[str] = []


class _Data(msgspec.Struct, frozen=True):
    resultType: str
    result: list[msgspec.Raw] = []


class _Series(msgspec.Struct, frozen=True):
    metric: dict[str, str]
    value: tuple[float, str]


def rows_of_prometheus(spec: TableSpec, data: bytes, now: int) -> RowSample:
    """A row for each series of an instant query, by the value of the key label.

    A time after `now` counts as now. A series without the label, and one whose value is NaN or
    infinite, is left out; two series with one key are none of the query's business, and refuse
    the whole. Raises DataError.
    """
    assert isinstance(spec.source, FromPrometheus)
    label = spec.source.key
    answer = read_json(_text(data), _Answer)
    if answer is not None and answer.status != "success":
        raise DataError(f"Prometheus answers: {shown(answer.error) or answer.status}")
    found = read_json(answer.data, _Data) if answer is not None else None
    if found is None:
        raise DataError("the answer is not one of the API of Prometheus")
    if found.resultType != "vector":
        kind = _quoted(found.resultType)
        raise DataError(f"the result of the query is a {kind}: it must be an instant vector")
    rows: dict[str, Row] = {}
    left_out, unlabelled, ahead, cause = 0, 0, 0, ""
    for number, item in enumerate(found.result, 1):
        try:
            series = msgspec.json.decode(item, type=_Series)
            value, said = _sample_of(series)
            time, ahead = Timestamp.of(min(said, now)), ahead + _is_ahead(said, now)
        except (EvaluationError, ValueError) as error:
            raise DataError(f"series {number} has no sample: {error}") from None
        key = series.metric.get(label, "")
        if not key or value is None:
            left_out, unlabelled = left_out + 1, unlabelled + (not key)
            cause = f"the value of {_quoted(key)} is {series.value[1]}"
            if not key:
                cause = f"a series has no label {_quoted(label)}"
            continue
        place = f"series {number}"
        _add(rows, _key(key, label, place), spec.row(time=time, value=value), place)
    if unlabelled and unlabelled == left_out and not rows:
        raise DataError(f"no series has the label {_quoted(label)}")
    warnings = shown("; ".join(answer.warnings)) if answer is not None else ""
    doubt = f"Prometheus warns: {warnings}" if warnings else _ahead(ahead)
    return RowSample(rows, left_out, cause, doubt=doubt)


_NO_VALUES = {"NaN", "+Inf", "-Inf", "Inf"}


def _sample_of(series: _Series) -> tuple[float | None, int]:
    """The value, None for one that is no number, and the nanoseconds. Raises EvaluationError."""
    seconds, text = series.value
    if not math.isfinite(seconds) or abs(seconds) >= _MOST_INT / SECOND:
        raise EvaluationError("its time is out of range")
    return (None if text in _NO_VALUES else _double(text)), int(seconds * SECOND)


# ---- objects


def row_of_object(
    spec: TableSpec, found: Mapping[str, Any], frame: Frame
) -> tuple[str, Row] | None:
    """The key and the row of an object, of the time of the frame; None if it has no key.

    A column without a value, or with one that is no cell of a table, is missing. Raises what
    `check` of the frame raises.
    """
    assert spec.by is not None
    frame.object = found
    try:
        frame.refill()
        key = spec.by(frame)
        if not isinstance(key, str) or not key or len(key.encode("utf-8", "replace")) > MOST_KEY:
            return None
        values: dict[str, object] = {}
        for column, evaluate in zip(spec.columns, spec.values, strict=True):
            frame.refill()
            try:
                value = evaluate(frame)
            except EvaluationError:
                continue
            if _is_cell(value):
                values[column.name] = value
        return key, spec.row(time=frame.now, **values)
    except EvaluationError:
        return None
    finally:
        frame.object = None


def row_of_both(spec: TableSpec, one: Row, other: Row) -> Row:
    """The row of a key that two objects have: what they are together, by the words of the columns.

    A column without a word is missing, and one in which either has no value.
    """
    values: dict[str, object] = {}
    for column in spec.columns:
        cells = getattr(one, column.name), getattr(other, column.name)
        if not column.over or None in cells:
            continue
        try:
            value = max(cells) if column.over == "most" else PLUS[column.type.name](*cells)
        except EvaluationError:
            continue
        if _is_cell(value):
            values[column.name] = value
    return spec.row(time=max(one.time, other.time, key=lambda time: time.nanos), **values)


def _is_cell(value: object) -> bool:
    """Whether a value may stand in a row: a short text, a finite number, an amount or a time."""
    match value:
        case str():
            return len(value.encode("utf-8", "replace")) <= MOST_TEXT
        case float():
            return math.isfinite(value)
        case bool() | int() | Quantity() | Duration() | Timestamp():
            return True
        case _:
            return False


def equal_rows(old: Row, new: Row) -> bool:
    """Whether two rows of a table have the same columns, whatever their times."""
    if old is None or new is None:
        return old is new
    names = old.__struct_fields__
    return all(getattr(old, n) == getattr(new, n) for n in names if n != "time")
