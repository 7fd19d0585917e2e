"""The schema: what it says of pods and nodes, and that the file holds together."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from grammar.meaning.schema import Field, Schema, load_schema, parse_schema
from grammar.syntax.parser import parse_expression
from grammar.tree.source import Source
from grammar.tree.types import (
    BOOL,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    QUANTITY,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
)
from grammar.values.maps import EmptyRecord
from grammar.values.quantity import Quantity
from grammar.values.time import Duration, Timestamp

GENERATOR = Path(__file__).parents[2] / "support" / "schema"
GENERATED = "# ---- Fields of the API objects"


def all_fields(schema: Schema) -> Iterator[tuple[str, Field]]:
    for record in schema.records.values():
        for field in record.fields.values():
            yield f"{record.name}.{field.name}", field


@pytest.mark.parametrize(
    ("record", "name", "type_", "optional"),
    [
        ("Pod", "spec", Type("PodSpec"), False),
        ("Node", "metadata", Type("ObjectMeta"), False),
        ("ObjectMeta", "creationTimestamp", TIMESTAMP, False),
        ("ObjectMeta", "deletionTimestamp", TIMESTAMP, True),
        ("PodSpec", "nodeName", STRING, False),
        ("PodSpec", "priority", INT, True),
        ("PodSpec", "affinity", Type("Affinity"), True),
        ("PodSpec", "containers", list_of(Type("Container")), False),
        ("PodSpec", "nodeSelector", map_of(STRING, STRING), False),
        ("NodeSpec", "unschedulable", BOOL, False),
        ("NodeStatus", "allocatable", map_of(STRING, QUANTITY), False),
        ("NodeSystemInfo", "kernelVersion", STRING, False),
        ("Container", "restartPolicy", STRING, True),
        ("Volume", "persistentVolumeClaim", Type("PersistentVolumeClaimVolumeSource"), True),
        ("HTTPGetAction", "port", DYN, False),
        ("Toleration", "tolerationSeconds", INT, True),
    ],
)
def test_api_fields_have_the_types_of_kubernetes(
    schema: Schema, record: str, name: str, type_: Type, optional: bool
) -> None:
    field = schema.field(record, name)
    assert field is not None
    assert (field.type, field.optional, field.native, field.derived) == (
        type_,
        optional,
        False,
        None,
    )


def test_server_side_apply_is_left_out(schema: Schema) -> None:
    assert schema.field("ObjectMeta", "managedFields") is None


def test_unknown_names_have_no_field(schema: Schema) -> None:
    assert schema.field("Node", "lables") is None
    assert schema.field("Nodes", "labels") is None


def test_short_forms_carry_their_expression(schema: Schema) -> None:
    zone = schema.field("Node", "zone")
    assert zone is not None
    assert zone.derived == 'self.metadata.labels["topology.kubernetes.io/zone"]'
    assert (zone.type, zone.parameter, zone.native) == (STRING, None, False)
    usage = schema.field("Node", "usage")
    assert usage is not None
    assert usage.derived == "(self.requested[r] + pod.requests[r]) / self.allocatable[r]"
    assert (usage.type, usage.parameter) == (DOUBLE, "r")


def test_counts_that_need_the_cluster_can_be_missing(schema: Schema) -> None:
    native = {name: field for name, field in all_fields(schema) if field.native}
    assert {name for name, field in native.items() if field.optional} == {
        "Node.requested",
        "Node.free",
        "Node.pods",
        "NodeGroup.requested",
        "NodeGroup.free",
    }
    assert {name for name, field in native.items() if not field.optional} == {
        "Node.allocatable",
        "Node.cards",
        "Node.chosen",
        "NodeGroup.value",
        "NodeGroup.nodes",
        "NodeGroup.ready",
        "NodeGroup.allocatable",
        "NodeGroup.capacity",
        "NodeGroup.labels",
        "Pod.requests",
        "Pod.limits",
        "Pod.workload",
        "Pod.group",
        "Pod.failures",
        "Pod.hostPorts",
    }


@pytest.mark.parametrize(
    ("type_", "zero"),
    [
        (BOOL, False),
        (INT, 0),
        (DOUBLE, 0.0),
        (STRING, ""),
        (DYN, 0),
        (list_of(STRING), ()),
        (map_of(STRING, QUANTITY), {}),
        (QUANTITY, Quantity.parse("0")),
        (DURATION, Duration.parse("0s")),
        (TIMESTAMP, Timestamp.parse("0001-01-01T00:00:00Z")),
        (Type("PodSpec"), EmptyRecord("PodSpec")),
    ],
    ids=str,
)
def test_absent_fields_read_as_the_zero_value_of_go(
    schema: Schema, type_: Type, zero: object
) -> None:
    found = schema.zero(type_)
    assert found == zero
    assert type(found) is type(zero)


def test_a_zero_map_is_not_shared(schema: Schema) -> None:
    type_ = map_of(STRING, STRING)
    assert schema.zero(type_) is not schema.zero(type_)


@pytest.mark.parametrize("type_", [Type("Nothing"), Type("ip"), Type("<A>")], ids=str)
def test_what_no_field_can_be_has_no_zero(schema: Schema, type_: Type) -> None:
    with pytest.raises(ValueError, match="no field has the type"):
        schema.zero(type_)


def test_every_type_in_the_file_is_one_of_the_language(schema: Schema) -> None:
    def known(type_: Type) -> bool:
        return all(map(known, type_.args)) and schema.zero(type_) is not None

    assert all(known(field.type) for _, field in all_fields(schema))


def test_every_record_can_be_reached(schema: Schema) -> None:
    def records(type_: Type) -> Iterator[str]:
        if type_.is_record:
            yield type_.name
        for argument in type_.args:
            yield from records(argument)

    reached: set[str] = set()
    ahead = ["Pod", "Node", "Namespace", "NodeGroup"]
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += (n for f in schema.records[name].fields.values() for n in records(f.type))
    assert reached == set(schema.records)


def test_what_is_not_the_api_has_a_sentence(schema: Schema) -> None:
    own = {"Peer", "PeerContainer", "HostPort", "Workload", "Namespace"}
    for name, field in all_fields(schema):
        if field.native or field.derived or name.split(".")[0] in own:
            assert field.doc, name
            assert field.doc[0].isupper(), name
            assert field.doc.endswith("."), name
    for name in own | {"Pod", "Node"}:
        assert schema.records[name].doc.endswith("."), name


def test_short_forms_are_expressions(schema: Schema) -> None:
    for name, field in all_fields(schema):
        if field.derived is not None:
            expr, problems = parse_expression(Source(name, field.derived))
            assert expr is not None, problems


def test_a_record_may_be_continued() -> None:
    text = "# A.\nA\n  # One\n  # text.\n  a  int\n\n# No doc.\n\nA\n  b[i]  map(string, A)? = x\n"
    record = parse_schema(text).records["A"]
    assert record.doc == "A."
    assert record.fields == {
        "a": Field("a", INT, doc="One text."),
        "b": Field("b", map_of(STRING, Type("A")), optional=True, derived="x", parameter="i"),
    }


def test_sizes_and_words_of_a_field() -> None:
    text = "A.a  most 3, 4 of B C …\nA.b  of D\n\nA\n  a  string\n  b  string\n  c  string\n"
    fields = parse_schema(text).records["A"].fields
    assert fields == {
        "a": Field("a", STRING, most=(3, 4), words=("B", "C"), open=True),
        "b": Field("b", STRING, words=("D",)),
        "c": Field("c", STRING),
    }


def test_words_of_a_field_differ(schema: Schema) -> None:
    words = [field.words for _, field in all_fields(schema) if field.words]
    assert words
    assert all(len(set(each)) == len(each) for each in words)


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("  a  int\n", "line 1: neither a record nor a field:   a  int"),
        ("A\n  a\n", "line 2: neither a record nor a field:   a"),
        ("A\n  a  int\n\nA\n  a  int\n", "line 5: `a` occurs twice"),
        ("pod\n", "line 1: neither a record nor a field: pod"),
        ("A\n  a  int\nA.b  of C\n", "line 3: there is no A.b"),
    ],
)
def test_mistakes_in_the_file_name_their_line(text: str, mistake: str) -> None:
    with pytest.raises(ValueError, match=r"^line") as raised:
        parse_schema(text)
    assert str(raised.value) == mistake


def test_loading_is_fast_enough_for_every_command() -> None:
    def measured() -> float:
        # Not the time of other tests on the same machine.
        start = time.process_time()
        load_schema()
        return time.process_time() - start

    assert min(measured() for _ in range(5)) < 0.015


@pytest.mark.e2e
def test_the_api_part_is_what_the_go_types_say() -> None:
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        pytest.skip("needs Go")
    command = [go, "run", "."]
    printed = subprocess.run(command, cwd=GENERATOR, check=True, capture_output=True, text=True)
    text = files("grammar.meaning").joinpath("schema.txt").read_text("utf-8")
    _, _, generated = text[text.index(GENERATED) :].partition("\n\n")
    assert generated == printed.stdout
