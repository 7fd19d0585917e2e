"""Data blocks: how they are parsed, printed and checked, and where their tables can be read."""

from __future__ import annotations

import pytest

from engine.clauses.programs import compile_policy
from grammar.meaning.schema import Schema
from grammar.messages.diagnostics import mend
from grammar.syntax.formatter import format_file, print_data
from grammar.syntax.parser import parse_file
from grammar.tree.policy import Data, FromConfigMap, FromFile, FromMetrics, FromPrometheus
from grammar.tree.source import Source
from grammar.tree.types import DOUBLE, QUANTITY, STRING
from policies.validation import Validator, check_source

LOAD = 'data "load" { from metrics }'
BLOCKS = (
    LOAD,
    'data "load" { from metrics every 10s for at most 2m }',
    'data "power" { from prometheus "http://p:9090" query "sum by (node) (watts)" by "node" }',
    'data "racks" { from configmap "shop/racks" file "r.csv" by "rack" columns { watts: double } }',
    'data "prices" { from file "a/prices.json" by "type" columns { hour: double, until: timestamp } }',  # noqa: E501 - one text
    'data "names" { from objects "v1/Pod" by object.metadata.name columns { a = string(object.a) } }',  # noqa: E501 - one text
)


def block(text: str) -> Data:
    file, found = parse_file(Source("p", f"policy p {{ {text} }}"))
    assert list(found) == []
    (item,) = file.policies[0].items
    assert isinstance(item, Data)
    return item


@pytest.mark.parametrize("length", ["1m30s", '"1m30s"', "90s", "'90s'"])
def test_lengths_are_written_with_or_without_quotes(length: str) -> None:
    assert block(f'data "load" {{ from metrics every {length} }}').every == 90


def findings(text: str, schema: Schema) -> list[tuple[str, str]]:
    """The code and the message of each finding."""
    checked = check_source(Source("p.policy", text), schema)
    return [(each.code, each.message) for each in checked.diagnostics]


def cluster(text: str) -> str:
    return f"cluster policy p {{ {text} }}"


# ---- parsing and printing


def test_the_parts_of_a_block() -> None:
    data = block('data "load" { for at most 2m every 10s from metrics }')
    assert (data.name, data.source, data.every, data.stale) == ("load", FromMetrics(), 10, 120)
    assert [(c.name, c.type) for c in data.columns] == [("cpu", QUANTITY), ("memory", QUANTITY)]
    assert data.variable == "data.load"


def test_usual_ages() -> None:
    """Three times of what is asked; five minutes for what is watched."""
    asked, slow, watched = (
        block(LOAD),
        block('data "a" { from metrics every 1m }'),
        block(BLOCKS[3]),
    )
    assert [(d.every, d.stale) for d in (asked, slow, watched)] == [(30, 90), (60, 180), (30, 300)]


def test_sources_with_their_texts() -> None:
    sources = [block(BLOCKS[number]).source for number in (2, 3, 4)]
    assert sources == [
        FromPrometheus("http://p:9090", "sum by (node) (watts)", "node"),
        FromConfigMap("shop/racks", "r.csv", "rack"),
        FromFile("a/prices.json", "type"),
    ]


def test_words_of_a_block_can_name_columns() -> None:
    data = block('data "a" { from file "a.csv" by "k" columns { from: double, key: string } }')
    assert [(c.name, c.type) for c in data.columns] == [("from", DOUBLE), ("key", STRING)]


@pytest.mark.parametrize("text", BLOCKS)
def test_a_block_is_printed_as_it_is_read(text: str) -> None:
    assert print_data(block(text)) == text
    source = Source("p", f"policy p {{\n  {text}\n}}\n")
    formatted = format_file(parse_file(source)[0], source)
    again = Source("p", formatted)
    assert parse_file(again)[0] == parse_file(source)[0]
    assert format_file(parse_file(again)[0], again) == formatted


def test_comments_stay_where_they_are() -> None:
    text = """\
cluster policy p {
  # before
  data "racks" {  # head
    # about the source
    from configmap "kube-system/racks" file "racks.csv" by "rack"  # of ops
    # about every
    every 10s
    for at most 2m  # old
    columns {
      # about watts
      watts: double,  # in W
      owner: string  # who
      # end
    }  # after
    # last
  }
}
"""
    source = Source("p", text)
    assert format_file(parse_file(source)[0], source) == text


def test_a_long_block_is_laid_out_in_lines() -> None:
    text = (
        'policy p { data "claims" { from objects "v1/PersistentVolumeClaim" '
        'by object.metadata.namespace + "/" + object.metadata.name columns { '
        "class = string(object.spec.storageClassName), volume = string(object.spec.volumeName) } } }"  # noqa: E501 - one text
    )
    source = Source("p", text)
    assert (
        format_file(parse_file(source)[0], source)
        == """\
policy p {
  data "claims" {
    from objects "v1/PersistentVolumeClaim"
      by object.metadata.namespace + "/" + object.metadata.name
    columns {
      class = string(object.spec.storageClassName),
      volume = string(object.spec.volumeName)
    }
  }
}
"""
    )


def test_columns_over_the_objects_of_a_key_keep_their_words() -> None:
    text = """\
policy p {
  data "volumes" {
    from objects "v1/PersistentVolumeClaim" by object.metadata.namespace
    columns { number = count, size = sum int(object.size), max = most int(object.n) }
  }
}
"""
    source = Source("p", text)
    assert format_file(parse_file(source)[0], source) == text


def test_tests_give_rows() -> None:
    text = 'test "t" {\n  data "load" {"n1": {"cpu": "7"}}\n}\n'
    source = Source("p", text)
    assert format_file(parse_file(source)[0], source) == text


# ---- what is wrong in a block


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ('data "a b" { from metrics }', "P0135", "`a b` is not a name that an expression can read"),
        ('data "ä" { from metrics }', "P0135", "`ä` is not a name that an expression can read"),
        (
            'data "a" { from prometheus "p:9090" query "q" by "k" }',
            "P0135",
            "`p:9090` is not the address of a Prometheus",
        ),
        (
            'data "a" { from prometheus "http://u:p@x" query "q" by "k" }',
            "P0135",
            "`http://u:p@x` is not the address of a Prometheus",
        ),
        (
            'data "a" { from configmap "racks" file "e" by "k" columns { w: double } }',
            "P0135",
            "`racks` is not the namespace and name of a ConfigMap",
        ),
        (
            'data "a" { from file "../a.csv" by "k" columns { w: double } }',
            "P0135",
            "`../a.csv` is not a file in the folder of data",
        ),
        (
            'data "a" { from objects "Pod" by string(object.a) columns { w = string(object.a) } }',
            "P0135",
            "`Pod` is not a version and a kind",
        ),
        ('data "a" { from file "a.csv" by "k" }', "P0135", "the data block needs `columns`"),
        (
            'data "a" { from metrics columns { w: double } }',
            "P0135",
            "data `from metrics` has the columns `cpu` and `memory`, and no others",
        ),
        (
            'data "a" { from file "a.csv" by "k" columns { w: list(int) } }',
            "P0135",
            "a column cannot be `list(int)`",
        ),
        (
            'data "a" { from file "a.csv" by "k" columns { w = 1.0 } }',
            "P0135",
            "the column `w` has no type",
        ),
        (
            'data "a" { from objects "v1/Pod" by string(object.a) columns { w: double } }',
            "P0135",
            "the column `w` has no expression",
        ),
        (
            'data "a" { from objects "v1/Pod" by string(object.a) columns { w = object.a } }',
            "P0135",
            "the column `w` has no type",
        ),
        (
            'data "a" { from objects "v1/Pod" by string(object.a) columns { w = sum "a" } }',
            "P0135",
            "there is no sum of `string`",
        ),
        (
            'data "a" { from file "a.csv" by "k" columns { w: double, w: int } }',
            "P0205",
            "the column `w` is defined twice",
        ),
        (
            'data "a" { from file "a.csv" by "k" columns { age: double } }',
            "P0205",
            "the field of every row `age` is defined twice",
        ),
        (f"{LOAD} {LOAD}", "P0205", "the data `load` is defined twice"),
        (
            'data "a" { from objects "v1/Pod" by node.name columns { w = string(object.a) } }',
            "P0101",
            "unknown name `node`",
        ),
        ('data "a" { every 10s }', "P0202", "the data block needs `from`"),
        (
            'data "a" { from metrics from metrics }',
            "P0201",
            "`from` is given twice in the data block",
        ),
        ('data "a" { from metrics every 0.5s }', "P0215", None),
    ],
)
def test_what_is_wrong_in_a_block(
    text: str, code: str, message: str | None, schema: Schema
) -> None:
    """It is reported once."""
    found = findings(cluster(text), schema)
    assert [c for c, _ in found] == [code]
    assert message is None or found[0][1] == message


def test_a_column_of_a_wrong_type_is_reported_once(schema: Schema) -> None:
    rule = 'filter "f" { require data.a[node.name].w < 1.0 }'
    text = f'data "a" {{ from file "a.csv" by "k" columns {{ w: float }} }} {rule}'
    assert [code for code, _ in findings(cluster(text), schema)] == ["P0135"]


# ---- who may declare what


@pytest.mark.parametrize("number", [0, 2, 4, 5])
def test_a_policy_of_a_namespace_declares_configmaps_alone(number: int, schema: Schema) -> None:
    text = f'policy p in namespace "shop" {{ {BLOCKS[number]} }}'
    assert [code for code, _ in findings(text, schema)] == ["P0136"]


def test_a_policy_of_a_namespace_reads_its_own_configmaps(schema: Schema) -> None:
    own = f'policy p in namespace "shop" {{ {BLOCKS[3]} }}'
    assert findings(own, schema) == []
    (found,) = findings(own.replace("shop/racks", "other/racks"), schema)
    assert found == ("P0136", "a policy of `shop` cannot read `other/racks`")


def test_a_policy_that_is_used_brings_its_tables(schema: Schema) -> None:
    """They are read by its own clauses alone."""
    rule = 'filter "hot" { require data.load[node.name].cpu < "4" missing pass }'
    used = f"policy hot {{ for pods where false {LOAD} {rule} }}"
    user = 'policy p in namespace "shop" { use "hot" }'
    validation = Validator(schema).validate([Source("p.policy", f"{used} {user}")])
    assert list(validation.findings()) == []
    tables = {c.policy.name: compile_policy(c).tables for c in validation.policies}
    assert [t.name for t in tables["p"]] == ["load"]
    assert [t.digest for t in tables["p"]] == [t.digest for t in tables["hot"]]
    other = rule.replace('"hot"', '"other"')
    validation = Validator(schema).validate([Source("p.policy", f"{used} {user[:-1]} {other} }}")])
    assert [d.code for d, _ in validation.findings()] == ["P0137"]


# ---- where tables can be read


READ = 'data.load[node.name].cpu > "1"'


@pytest.mark.parametrize(
    "text",
    [
        f'filter "a" {{ require {READ} }}',
        f'filter "a" when {READ} {{ require node.ready }}',
        f'bind "a" {{ require {READ} }}',
        'bind "a" { wait until data.load["n"].cpu > "1" for at most 1m }',
        f'score "a" weight 1 {{ value {READ} }}',
        f'preempt "a" {{ protect pods where {READ} }}',
        f'preempt "a" {{ require {READ} }}',
        'filter "a" { require node.ready detail "{data.load[node.name].cpu}" }',
        f'let hot = {READ} filter "a" {{ require hot }}',
    ],
)
def test_where_tables_can_be_read(text: str, schema: Schema) -> None:
    assert findings(cluster(f"{LOAD} {text}"), schema) == []


@pytest.mark.parametrize(
    "text",
    [
        'limit "a" { pods where data.load[peer.name].cpu > "1" per node at most 1 strict }',
        'limit "a" { sum data.load[peer.name].cpu of pods where true per node at most 1 strict }',
        'limit "a" { pods where true per node at most size(data.load) strict }',
        'limit "a" { pods where true per data.load[node.name].cpu > "1" at most 1 strict }',
        f'limit "a" {{ pods where true used node where {READ} at most 2 strict }}',
        f'share "a" {{ of replicas on nodes where {READ} at most 4 strict }}',
        'share "a" { of replicas on nodes where node.ready at most size(data.load) strict }',
        'spread "a" { over node.zone skew at most size(data.load) strict }',
        'spread "a" { over node.zone at least size(data.load) skew at most 1 strict }',
        'score "a" weight 1 { value node.usage["cpu"] range 0 .. size(data.load) }',
    ],
)
def test_counts_and_ranges_read_tables(text: str, schema: Schema) -> None:
    assert findings(cluster(f"{LOAD} {text}"), schema) == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('for pods where data.load["n"].cpu > "1"', "P0111"),
        ('limit "a" when size(data.load) > 1 { per node at most 1 strict }', "P0111"),
        ('group g by data.load[node.name].cpu > "1"', "P0111"),
        (
            'limit "a" { pods where peer.name in data.load per node at most 1 strict mutual }',
            "P0131",
        ),
        ('gang "a" when size(data.load) > 1 { }', "P0111"),
        ('filter "a" { require node.ready message "{data.load[node.name].cpu}" }', "P0210"),
        (f'let hot = {READ} filter "a" {{ require node.ready message "{{hot}}" }}', "P0210"),
    ],
)
def test_where_tables_cannot_be_read(text: str, code: str, schema: Schema) -> None:
    assert [found for found, _ in findings(cluster(f"{LOAD} {text}"), schema)] == [code]


# ---- names that do not exist


@pytest.mark.parametrize(
    ("wrong", "right", "code"),
    [
        ('data.laod[node.name].cpu < "4"', 'data.load[node.name].cpu < "4"', "P0137"),
        ('data.load[node.name].memry < "4"', 'data.load[node.name].memory < "4"', "P0102"),
    ],
)
def test_a_name_that_is_similar_is_mended(
    wrong: str, right: str, code: str, schema: Schema
) -> None:
    text = cluster(f'{LOAD} filter "f" {{ require {wrong} }}')
    mended = mend(Source("p.policy", text), lambda source: check_source(source, schema).diagnostics)
    assert [found.code for found, _ in mended.applied] == [code]
    assert mended.source.text == text.replace(wrong, right)


def hint(text: str, schema: Schema) -> str:
    (found,) = check_source(Source("p.policy", text), schema).diagnostics
    return found.hint or ""


def test_hints_of_other_names(schema: Schema) -> None:
    """The block that is proposed makes the text legal."""
    rule = 'filter "f" { require data.other[node.name].cpu < "4" }'
    assert hint(cluster(rule), schema) == 'declare it with `data "other" { from … }`'
    assert findings(cluster(f'data "other" {{ from metrics }} {rule}'), schema) == []
    rule = 'filter "f" { require data.load[node.name].watts < "4" }'
    assert hint(cluster(f"{LOAD} {rule}"), schema) == "it has `cpu`, `memory`, `time` and `age`"


def test_a_hint_of_another_name_is_legal(schema: Schema) -> None:
    """A row is made of its object alone."""
    rule = 'filter "f" { require has(data.a["x"].w) }'
    for wrong in ("by node ", "by pod.name "):
        text = f'data "a" {{ from objects "v1/Pod" {wrong} columns {{ w = string(object.b) }} }}'
        said = hint(cluster(f"{text} {rule}"), schema)
        assert said == "write `object.metadata.name`: it reads `object` alone"
        mended = text.replace(wrong, "by object.metadata.name ")
        assert findings(cluster(f"{mended} {rule}"), schema) == []


def test_a_hint_of_a_column_is_legal(schema: Schema) -> None:
    text = 'data "a" { from objects "v1/Pod" by string(object.a) columns { w = object.a } }'
    said = hint(cluster(text), schema)
    assert said == "write its type, such as `string(object.a)`"
    assert findings(cluster(text.replace("w = object.a", "w = string(object.a)")), schema) == []


# ---- sources by parameters

SHARED = """
policy power (
  map: string = "kube-system/x",
  url: string = "http://p:9090",
  text: string = "up",
  kind: string = "v1/Pod",
  file: string = "a.csv"
) {
  for pods where false
  data "m" { from configmap map file "x.csv" by "k" columns { a: double } }
  data "p" { from prometheus url query text by "node" }
  data "o" { from objects kind by string(object.metadata.name) columns { a = string(object.b) } }
  data "f" { from file file by "k" columns { a: double } }
  filter "f" { require data.m["a"].a < 1.0 missing pass }
}
policy deeper (url: string = "http://p:9090") { for pods where false use "power" (url: url) }
"""


def test_a_source_takes_parameters(schema: Schema) -> None:
    values = 'map: "shop/y", url: "http://q", text: "down", kind: "v1/Node", file: "b.csv"'
    user = f'cluster policy u {{ for pods where true use "power" ({values}) }}'
    assert used(f"{SHARED} {user}", schema) == []
    source = Source("p.policy", SHARED)
    printed = format_file(parse_file(source)[0], source)
    for text in ("configmap map file", "prometheus url query text by", "objects kind by"):
        assert text in printed


@pytest.mark.parametrize(
    ("user", "code"),
    [
        ('use "power"', None),
        ('use "power" (map: "shop/y")', None),
        ('use "deeper"', None),
        ('use "power" (map: "kube-system/y")', "P0136"),
        ('use "power" (url: "http://q:9090")', "P0136"),
        ('use "power" (text: "down")', "P0136"),
        ('use "power" (kind: "v1/Secret")', "P0136"),
        ('use "power" (file: "b.csv")', "P0136"),
        ('use "deeper" (url: "http://q:9090")', "P0136"),
    ],
)
def test_a_namespace_chooses_its_own_configmaps_alone(
    user: str, code: str | None, schema: Schema
) -> None:
    found = used(f'{SHARED} policy u in namespace "shop" {{ {user} }}', schema)
    assert found == ([code] if code else [])


def used(text: str, schema: Schema) -> list[str]:
    """The codes of a text in which policies use others."""
    validation = Validator(schema).validate([Source("p.policy", text)])
    return [found.code for found, _ in validation.findings()]


@pytest.mark.parametrize(
    ("parameter", "code"),
    [("map: int = 1", "P0105"), ("other: string", "P0101"), ('map: string = "a"', "P0135")],
)
def test_what_is_no_text_of_a_source(parameter: str, code: str, schema: Schema) -> None:
    block = 'data "m" { from configmap map file "x.csv" by "k" columns { a: double } }'
    rule = 'filter "f" { require data.m["a"].a < 1.0 missing pass }'
    text = f"policy p ({parameter}) {{ for pods where false {block} {rule} }}"
    assert code in [found for found, _ in findings(text, schema)]
