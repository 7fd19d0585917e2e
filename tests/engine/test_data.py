"""Reading: which texts, answers and objects are tables, and what is said of those that are not."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from engine.cache.cluster_copy import Form
from engine.data import (
    DataError,
    NoRoomError,
    form_of_name,
    row_of_object,
    rows_of_metrics,
    rows_of_prometheus,
    rows_of_text,
)
from engine.program.frame import Frame
from engine.program.tables import MOST_BYTES, Table, texts_of
from grammar.values.quantity import Quantity
from grammar.values.time import SECOND, Duration, Timestamp
from tests.support.engines import CLAIMS, RACKS, spec_of

AT = 1_000 * SECOND
EVERY_TYPE = (
    'from file "x" by "k" columns { d: double, i: int, s: string, b: bool, q: quantity,'
    " t: duration, m: timestamp }"
)
LOAD = 'from prometheus "http://p:9090" query "up" by "node"'


def refused(text: str | bytes, form: Form = "csv", source: str = RACKS) -> str:
    """What is said of a text that is refused."""
    data = text if isinstance(text, bytes) else text.encode()
    with pytest.raises(DataError) as error:
        rows_of_text(spec_of(source), data, form, AT)
    return str(error.value)


def plain(rows: Any) -> dict[str, tuple[object, ...]]:
    """The rows without their times."""
    return {
        key: tuple(getattr(row, n) for n in row.__struct_fields__ if n != "time")
        for key, row in rows.items()
    }


# ---- texts

CODE = "found invalid Unicode character escape code"


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("csv", 'rack,watts,owner\r\nr1, 12.5 ,ops\r\n\r\nr2,,"a, b"\r\n'),
        ("csv", '\ufeffowner,more,rack,watts\nops,x,r1,1.25e1\n"a, b",,r2,'),
        ("yaml", '[{"rack":"r1","watts":12.5,"owner":"ops"},{"rack":"r2","owner":"a, b"}]'),
        (
            "yaml",
            '{"r1":{"watts":"12.5","owner":"ops","x":[1]},"r2":{"watts":null,"owner":"a, b"}}',
        ),
        ("yaml", "- {rack: r1, watts: 12.5, owner: ops}\n- rack: r2\n  watts:\n  owner: 'a, b'\n"),
        (
            "yaml",
            "r1: {watts: '12.5', owner: ops, x: [1, {y: 2}]}\nr2:\n  owner: a, b\n  watts: ~\n",
        ),
    ],
)
def test_rows_of_a_text(form: Form, text: str) -> None:
    rows = rows_of_text(spec_of(RACKS), text.encode(), form, AT).rows
    assert plain(rows) == {"r1": (12.5, "ops"), "r2": (None, "a, b")}
    assert rows["r1"].time == Timestamp(AT)


@pytest.mark.parametrize("form", ["csv", "yaml"])
def test_each_type_of_a_column(form: Form) -> None:
    cells = {"d": "-1e3", "i": "-7", "s": "007", "b": "true", "q": "1Gi", "t": "1h30m"}
    cells["m"] = "2026-01-31T12:00:00Z"
    text = {
        "csv": ",".join(["k", *cells]) + "\n" + ",".join(["a", *cells.values()]),
        "yaml": json.dumps({"a": cells}),
    }[form]
    rows = rows_of_text(spec_of(EVERY_TYPE), text.encode(), form, AT).rows
    expected = (-1000.0, -7, "007", True, Quantity.parse("1Gi"), Duration.parse("90m"))
    assert plain(rows) == {"a": (*expected, Timestamp.parse("2026-01-31T12:00:00Z"))}


def test_texts_of_json_have_all_characters() -> None:
    text = json.dumps([{"rack": "r1", "watts": 1, "owner": "\U0001f600"}], indent="\t")
    assert plain(rows_of_text(spec_of(RACKS), text.encode(), "yaml", AT).rows)["r1"] == (
        1.0,
        "\U0001f600",
    )


def test_an_escape_that_is_none_is_wrong_only_where_it_is_read() -> None:
    text = "r1: {watts: 1, owner: ops}  # \\ud8zz\\udczz"
    assert plain(rows_of_text(spec_of(RACKS), text.encode(), "yaml", AT).rows)["r1"] == (1.0, "ops")
    for each in (r"\ud8zz\udczz", r'\ud8"x\udc00', r"\ud83d", r"\udc00\ud83d"):
        with pytest.raises(DataError, match="line 1 is not YAML"):
            rows_of_text(spec_of(RACKS), f'[{{"rack": "{each}"}}]'.encode(), "yaml", AT)


def test_numbers_of_json_are_values_too() -> None:
    text = '[{"k":"a","d":1,"i":2,"b":false,"q":0.5,"s":"","t":null}, {"k":"b","q":3,"m":null}]'
    rows = plain(rows_of_text(spec_of(EVERY_TYPE), text.encode(), "yaml", AT).rows)
    assert rows["a"][:5] == (1.0, 2, "", False, Quantity.parse("500m"))
    assert rows["b"][4] == Quantity.parse("3")


def test_an_empty_list_is_an_empty_table() -> None:
    for form, text in (
        ("yaml", " {} \n"),
        ("yaml", "[]"),
        ("csv", "rack,watts,owner"),
    ):
        assert rows_of_text(spec_of(RACKS), text.encode(), form, AT).rows == {}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty: the first line names the columns"),
        ("rack,watts\n", "there is no column `owner`, only `watts`"),
        ("name,watts,owner\n", "there is no column `rack`, only `name`, `owner`, `watts`"),
        ("rack,watts,owner,rack\n", "the first line has the column `rack` twice"),
        ("rack,watts,owner\nr1,1\n", "line 2 has 2 cells, and the first line has 3"),
        ("rack,watts,owner\nr1,1,\n,2,\n", "line 3 has no `rack`, which is the key"),
        ("rack,watts,owner\nr1,1,\nr1,2,\n", "line 3 has the key `r1` again"),
        ("rack,watts,owner\nr1,hot,\n", "line 2, column `watts`: `hot` is not a number"),
        ("rack,watts,owner\nr1,NaN,\n", "line 2, column `watts`: `NaN` is not a number"),
        ("rack,watts,owner\nr1,inf,\n", "line 2, column `watts`: `inf` is not a number"),
        ("rack,watts,owner\nr1,1_0,\n", "line 2, column `watts`: `1_0` is not a number"),
        ("rack,watts,owner\nr1,1e999,\n", "line 2, column `watts`: the number is out of range"),
        (
            f"rack,watts,owner\nr1,,{'x' * 1025}",
            "line 2, column `owner`: the text has more than 1,024 bytes",
        ),
        (f"rack,watts,owner\n{'r' * 254},,", "line 2 has a key of more than 253 bytes"),
        (b"rack,watts,owner\nr\xff,1,\n", "line 2 is not UTF-8"),
        ('rack,watts,owner\n"r1,1,\n', "line 2 is not CSV: unexpected end of data"),
        (b"x" * (MOST_BYTES + 1), "it has more than 8 MiB"),
        (
            "rack,watts,owner\n" + "".join(f"r{n},1,\n" for n in range(20_001)),
            "it has more than 20,000 rows",
        ),
    ],
)
def test_what_is_no_csv_table(text: str | bytes, said: str) -> None:
    assert refused(text) == said


@pytest.mark.parametrize("complete", [True, False])
def test_a_column_that_no_row_has_is_missing(complete: bool) -> None:
    """In the text of a source as in one that stands for it."""
    rows = rows_of_text(spec_of(RACKS), b'{"r7": {"watts": 5}}', "yaml", AT, complete=complete).rows
    assert plain(rows) == {"r7": (5.0, None)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("7", "it is neither a list of objects nor a mapping from keys to objects"),
        ("", "it is neither a list of objects nor a mapping from keys to objects"),
        ("- 1", "line 1 is not an object"),
        ('[{"watts": 1}]', "line 1 has no `rack`, which is the key"),
        ('[{"rack": "a", "watt": 1}]', "there is no column `watts`, only `watt`"),
        ('[{"rack": "a", "watts": [1]}]', "line 1, column `watts`: a list is not a number"),
        ('[{"rack": "a", "watts": true}]', "line 1, column `watts`: `true` is not a number"),
        ('[{"rack": "a", "watts": NaN}]', "line 1, column `watts`: `NaN` is not a number"),
        (
            '[{"rack": "\\ud83d"}]',
            f"line 1 is not YAML: {CODE}",
        ),
        ("r1: 1", "row `r1` is not an object"),
        ("- {rack: r1, watts: 1}\n---\n- {rack: r2}", "line 2 begins a second document"),
        ("- {rack: r1, rack: r2}", "line 1 has `rack` twice"),
        ("r1: {watts: 1}\nr1: {watts: 2}", "row `r1` has the key `r1` again"),
        ("- {rack: r1, watts: .nan}", "line 1, column `watts`: `.nan` is not a number"),
        ("a: &x {watts: 1}\nb: *x", "line 2 has an alias, which a table may not have"),
        ("- {rack: r1", "line 2 is not YAML: did not find expected ',' or '}'"),
        ("? [a]\n: {watts: 1}", "line 1 has a key that is not a text"),
        ("\x07", "it is not YAML: it cannot be read"),
        ("[" * 1_000_000, "line 1 is not an object"),
    ],
)
def test_what_is_no_yaml_table(text: str, said: str) -> None:
    assert refused(text, "yaml") == said


def test_too_many_rows_of_yaml_are_refused() -> None:
    text = "{" + ",".join(f'"{n}":{{}}' for n in range(20_001)) + "}"
    assert refused(text, "yaml") == "it has more than 20,000 rows"


@pytest.mark.parametrize(
    ("column", "cell", "said"),
    [
        ("i", "1.5", "`1.5` is not a whole number"),
        ("i", "9223372036854775808", "the number is out of range"),
        ("b", "yes", "`yes` is not `true` or `false`"),
        ("q", "1Gib", "`1Gib` is not a quantity: `Gib` is not a suffix"),
        ("t", "1 hour", "`1 hour` is not a duration: write a number and a unit"),
        ("m", "today", "`today` is not a timestamp: write it as in RFC 3339"),
    ],
)
def test_a_cell_of_another_type(column: str, cell: str, said: str) -> None:
    header = "k,d,i,s,b,q,t,m"
    cells = ",".join(cell if name == column else "" for name in header.split(",")[1:])
    found = refused(f"{header}\na,{cells}\n", source=EVERY_TYPE)
    assert found.startswith(f"line 2, column `{column}`: {said}")


def test_what_others_wrote_is_shown_without_control_characters() -> None:
    assert refused("rack,watts,owner\nr1,\x1b[31m,\n").startswith(
        r"line 2, column `watts`: `\x1b[31m`"
    )


def test_the_form_is_that_of_the_name() -> None:
    names = ("racks.csv", "racks.JSON", "a.yaml", "b.yml", "racks")
    assert [form_of_name(name) for name in names] == ["csv", "yaml", "yaml", "yaml", "csv"]


# ---- metrics of nodes


def node_metrics(*items: tuple[str, str, dict[str, Any]]) -> bytes:
    found = [
        {"metadata": {"name": n}, "timestamp": at, "window": "20s", "usage": u}
        for n, at, u in items
    ]
    return json.dumps({"kind": "NodeMetricsList", "apiVersion": "v1", "items": found}).encode()


METRICS = spec_of("from metrics")


def test_rows_of_metrics() -> None:
    body = node_metrics(
        ("n1", "1970-01-01T00:16:00Z", {"cpu": "156340n", "memory": "1Gi"}),
        ("n2", "1970-01-01T01:00:00Z", {"cpu": "2"}),
        ("n3", "1970-01-01T00:16:00Z", {"cpu": "-1", "memory": "1Gi"}),
    )
    sample = rows_of_metrics(METRICS, body, AT)
    assert plain(sample.rows) == {
        "n1": (Quantity.parse("156340n"), Quantity.parse("1Gi")),
        "n2": (Quantity.parse("2"), None),
    }
    assert sample.rows["n1"].time == Timestamp(960 * SECOND)
    assert sample.rows["n2"].time == Timestamp(AT), "a clock that is ahead keeps no row for ever"
    assert (sample.left_out, sample.cause) == (1, "node `n3` uses less than nothing")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"<html>", "the answer is not a NodeMetricsList"),
        (b'{"kind":"Status","items":[]}', "the answer is a `Status`, and not a NodeMetricsList"),
        (b'{"kind":"NodeMetricsList","items":7}', "the answer is not a NodeMetricsList"),
        (node_metrics(("n1", "now", {})), "item 1 is no NodeMetrics: write it as in RFC 3339"),
        (
            node_metrics(("n1", "1970-01-01T00:16:00Z", {"cpu": "much"})),
            "node `n1`, column `cpu`: `much` is not a quantity",
        ),
        (
            node_metrics(*[("n1", "1970-01-01T00:16:00Z", {})] * 2),
            "node `n1` has the key `n1` again",
        ),
    ],
)
def test_what_are_no_metrics(body: bytes, said: str) -> None:
    with pytest.raises(DataError) as error:
        rows_of_metrics(METRICS, body, AT)
    assert str(error.value).startswith(said)


# ---- Prometheus


def vector(*series: tuple[dict[str, str], Any]) -> bytes:
    result = [{"metric": labels, "value": value} for labels, value in series]
    data = {"resultType": "vector", "result": result}
    return json.dumps({"status": "success", "data": data}).encode()


PROMETHEUS = spec_of(LOAD)


def test_rows_of_prometheus() -> None:
    body = vector(
        ({"node": "n1"}, [960.5, "1.5"]),
        ({"node": "n2"}, [2000, "-2"]),
        ({"node": "n3"}, [960, "NaN"]),
        ({"node": "n4"}, [960, "+Inf"]),
        ({"other": "n5"}, [960, "1"]),
    )
    sample = rows_of_prometheus(PROMETHEUS, body, AT)
    assert plain(sample.rows) == {"n1": (1.5,), "n2": (-2.0,)}
    assert sample.rows["n1"].time == Timestamp(960_500_000_000)
    assert sample.rows["n2"].time == Timestamp(AT)
    assert (sample.left_out, sample.cause) == (3, "a series has no label `node`")


def test_what_makes_an_answer_doubtful() -> None:
    ahead = vector(({"node": "n1"}, [AT / 1e9 + 60, "1"]), ({"node": "n2"}, [AT / 1e9 + 2, "1"]))
    said = "the time of 1 row is to come, so nobody knows how old they are"
    assert rows_of_prometheus(PROMETHEUS, ahead, AT).doubt == said
    partial = json.dumps({**json.loads(vector()), "warnings": ["store a is away"]}).encode()
    found = rows_of_prometheus(PROMETHEUS, partial, AT)
    assert found.doubt == "Prometheus warns: store a is away"


def test_no_series_are_an_empty_table() -> None:
    assert rows_of_prometheus(PROMETHEUS, vector(), AT).rows == {}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"[]", "the answer is not one of the API of Prometheus"),
        (b'{"status":"error","error":"parse error"}', "Prometheus answers: parse error"),
        (
            b'{"status":"success","data":{"resultType":"matrix","result":[]}}',
            "the result of the query is a `matrix`: it must be an instant vector",
        ),
        (vector(*[({"node": "n1"}, [1, "1"])] * 2), "series 2 has the key `n1` again"),
        (vector(({"job": "x"}, [1, "1"])), "no series has the label `node`"),
        (vector(({"node": "n1"}, [1, "many"])), "series 1 has no sample: `many` is not a number"),
        (
            vector(({"node": "n1"}, [1e300, "1"])),
            "series 1 has no sample: its time is out of range",
        ),
        (vector(({"node": "n1"}, "1")), "series 1 has no sample: Expected `array`"),
        (
            vector(*[({"node": str(n)}, [1, "1"]) for n in range(20_001)]),
            "it has more than 20,000 rows",
        ),
        (b" " * (MOST_BYTES + 1), "it has more than 8 MiB"),
    ],
)
def test_what_is_no_answer_of_prometheus(body: bytes, said: str) -> None:
    with pytest.raises(DataError) as error:
        rows_of_prometheus(PROMETHEUS, body, AT)
    assert str(error.value).startswith(said)


# ---- objects


def row(found: dict[str, Any], source: str = CLAIMS) -> tuple[str, Any] | None:
    spec = spec_of(source)
    return row_of_object(spec, found, Frame(None, Timestamp(AT), slots=spec.slots))


def claim(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "shop", "name": "data"}, "spec": spec}


def test_the_row_of_an_object() -> None:
    found = row(claim(volumeName="pv-1"))
    assert found is not None
    assert plain(dict([found])) == {"shop/data": ("pv-1",)}
    assert found[1].time == Timestamp(AT)


@pytest.mark.parametrize("name", [None, "x" * 1025])
def test_a_column_without_a_value_is_missing(name: str | None) -> None:
    found = row(claim(**({} if name is None else {"volumeName": name})))
    assert found is not None
    assert plain(dict([found])) == {"shop/data": (None,)}


@pytest.mark.parametrize("meta", [{}, {"namespace": "shop"}, {"namespace": "s", "name": "x" * 253}])
def test_an_object_without_a_key_has_no_row(meta: dict[str, str]) -> None:
    assert row({"metadata": meta, "spec": {}}) is None


# ---- time


@pytest.mark.thorough
def test_the_largest_texts_are_read_in_seconds() -> None:
    rows = "".join(f"r{n},{n},{'x' * 350}\n" for n in range(20_000))
    began = time.perf_counter()
    assert (
        len(rows_of_text(spec_of(RACKS), f"rack,watts,owner\n{rows}".encode(), "csv", AT).rows)
        == 20_000
    )
    assert time.perf_counter() - began < 10


# ---- texts of rows


def test_as_many_rows_as_objects_have_are_read_from_their_text() -> None:
    """What is asked of a copy of the cluster sees all rows of a table, whatever its source."""
    spec, time, number = spec_of(CLAIMS, "claims"), Timestamp(1_000 * SECOND), 25_000
    rows = {f"shop/{n}": spec.row(time=time, volume=f"{n}-{'x' * 500}") for n in range(number)}
    (text,) = texts_of([Table(spec, rows)], time.nanos + 5 * SECOND).values()
    assert len(text.text) > MOST_BYTES
    found = rows_of_text(spec, text.text, text.form, time.nanos + 5 * SECOND, complete=False).rows
    assert found == rows


def test_a_text_of_rows_may_have_any_character() -> None:
    spec = spec_of(RACKS)
    rows = {"\x85": spec.row(time=Timestamp(AT), watts=1.0, owner='\x01\x7f\ufeff\U0001f600"\\ü')}
    (text,) = texts_of([Table(spec, rows)], AT).values()
    assert rows_of_text(spec, text.text, text.form, AT, complete=False).rows == rows


def test_tables_of_one_name_have_a_text_each() -> None:
    first, second = spec_of("from metrics"), spec_of("from metrics every 10s")
    rows = {"n1": first.row(time=Timestamp(0))}
    found = texts_of([Table(first, rows), Table(second, rows)], 0)
    assert found.keys() == {first.digest, second.digest}


def test_the_rows_of_a_text_are_counted_before_they_are_kept() -> None:
    """Also those of columns without values; equal texts are one."""
    lines = "".join(f"r{number},1,ops\n" for number in range(1000))
    text = f"rack,watts,owner\n{lines}".encode()
    found = rows_of_text(spec_of(RACKS), text, "csv", AT)
    assert 200_000 < found.bytes < 300_000
    owners = {id(row.owner) for row in found.rows.values()}
    assert len(owners) == 1
    assert rows_of_text(spec_of(RACKS), text, "csv", AT, room=found.bytes).rows
    with pytest.raises(NoRoomError):
        rows_of_text(spec_of(RACKS), text, "csv", AT, room=found.bytes - 1)
