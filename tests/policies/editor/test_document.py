"""Texts in an editor: what is shown at the offset `^`."""

from collections.abc import Sequence

import pytest

from grammar.meaning.schema import Schema
from grammar.tree.source import Source, Span
from policies.editor.completion import Samples
from policies.editor.edited_text import EditedDocument, Meaning, complete, document, meaning
from policies.validation import Validator

HEAD = """\
policy shop(slots: int = 3) {
  for pods where pod.namespace == "shop"
  let wide = node.allocatable["cpu"] > "8"
  def fits(other: Node): bool = other.ready
"""
COUNTED = f"""{HEAD}  group zone by node.zone
  count waiting = pending pods where peer.priority > pod.priority
"""
DATA = (
    HEAD
    + """\
  data "load" { from metrics }
  data "racks" { from file "racks.csv" by "rack" columns { watts: double, owner: string } }
"""
)
OTHER = """\
policy spot(least: int) {
  description "Only spot nodes."
  for pods where false
  filter "spot" { require node.pods.size() < least }
}
"""


class Shop(Samples):
    """A cluster with one label."""

    def keys(self, operand: str) -> Sequence[str]:
        return ["capacity", "topology.kubernetes.io/zone"] if operand == "node.labels" else []

    def values(self, operand: str) -> Sequence[str]:
        return ["spot", "on-demand"] if operand == 'node.labels["capacity"]' else []


def made(text: str, schema: Schema) -> tuple[EditedDocument, int]:
    """The document of a text with a mark, beside another file; and the offset of the mark."""
    before, _, after = text.partition("^")
    sources = [Source("shop.policy", before + after), Source("spot.policy", OTHER)]
    found = document("shop.policy", Validator(schema).validate(sources), schema)
    assert found is not None
    return found, len(before)


def offered(text: str, schema: Schema) -> list[str]:
    """The candidates, each with what it replaces before it."""
    of, offset = made(text, schema)
    replaced = of.source.text
    return [f"{replaced[c.start : offset]}|{c.text}" for c in complete(of, offset, Shop())]


def said(text: str, schema: Schema) -> Meaning | None:
    return meaning(*made(text, schema), Shop())


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (HEAD + '  filter "f" { require node.zo^', ["zo|zone"]),
        (HEAD + '  filter "f" { require node.zo^ }\n}\npolicy next {', ["zo|zone"]),
        (HEAD + '  filter "f" { require wi^', ["wi|wide"]),
        (HEAD + '  filter "f" { require slo^', ["slo|slots"]),
        (HEAD + '  filter "f" { require fi^', ["fi|fits("]),
        (HEAD + "  def big(item: Node): bool = item.usa^", ["usa|usage["]),
        (HEAD + '  filter "broken" { require }\n  filter "f" { requ^', ["requ|require"]),
        (HEAD + '  filter "f" { require node.labels["cap^', ['cap|capacity"']),
        (HEAD + '  filter "f" { require node.labels["cap^"] == 1 }', ["cap|capacity"]),
        (HEAD + '  filter "f" { require node.labels["capacity"] == "s^', ['s|spot"']),
        (HEAD + '  filter "f" { require node.pods.exists(p, p.labe^', ["labe|labels"]),
        (HEAD + '  filter "f" { require node.pods.transformList(i, p, p.labe^', ["labe|labels"]),
        (HEAD + '  filter "f" { message "on node.zo^" }', []),
        (HEAD + '  use "sp^', ['sp|spot"']),
        (HEAD + '  use "spot" (le^', ["le|least: "]),
        (DATA + '  filter "f" { require da^', ["da|data"]),
        (DATA + '  filter "f" { require data.^', ["|load[", "|racks["]),
        (DATA + '  filter "f" { require data.lo^', ["lo|load["]),
        (
            DATA + '  filter "f" { require data.load[node.name].^',
            ["|cpu", "|memory", "|time", "|age"],
        ),
        (DATA + '  filter "f" { require data.racks["r1"].wa^', ["wa|watts"]),
        (DATA + '  data "new" { fr^', ["fr|from"]),
        (DATA + '  data "new" { from objects "v1/Pod" by obj^', ["obj|object"]),
        (DATA + '  data "new" { from objects "v1/Pod" by no^', []),
        (
            DATA + '  data "new" { from objects "v1/Pod" by object.a columns { b = string(ob^',
            ["ob|object"],
        ),
        (HEAD + "  mode ^", ["|enforce", "|audit"]),
        (HEAD + "  count waiting = pen^", ["pen|pending"]),
        (HEAD + "  count all = all ^", ["|ended", "|pending", "|placed", "|pods", "|ready"]),
        (COUNTED + "  count more per zo^", ["zo|zone"]),
        (COUNTED + '  filter "f" { require wai^', ["wai|waiting"]),
        (COUNTED + '  spread "s" when wai^', ["wai|waiting"]),
        (COUNTED + '  spread "s" { over node.name wit^', ["wit|within"]),
        (COUNTED + '  spread "s" { over node.name within zo^', ["zo|zone"]),
        (COUNTED + '  limit "l" { sum node.allocatable["cpu"] ov^', ["ov|over"]),
        (HEAD + '  gang "g" { of pods b^', ["b|by"]),
        (HEAD + '  gang "g" { wi^', ["wi|within"]),
        (HEAD + '  gang "g" { of replicas for at most ^', ["|30s", "|1m", "|5m"]),
        (HEAD + '  bind "b" { wait un^', ["un|until"]),
        (HEAD + "  sco^", ["sco|score"]),
        ("polic^", ["polic|policy"]),
        (HEAD + "}\n\npol^", ["pol|policy"]),
        ('test "t" { exp^', ["exp|expect"]),
        (HEAD + "  # nod^", []),
        ("}}} ^", ["|cluster", "|policy", "|test"]),
        ("", ["|cluster", "|policy", "|test"]),
        ('test "t" { expect ^', ["|bind", "|evict", "|pass", "|reject", "|score"]),
        ('test "t" { expect wait "n" by "g" mess^', ["mess|message"]),
    ],
)
def test_completion(text: str, first: list[str], schema: Schema) -> None:
    found = offered(text, schema)
    assert found[: len(first)] == first
    assert bool(found) == bool(first)


def test_what_completion_says_of_a_field(schema: Schema) -> None:
    found = complete(*made(HEAD + '  filter "f" { require node.zo^', schema), Samples())
    assert [(c.kind, c.note) for c in found] == [("field", "string")]
    assert "topology.kubernetes.io/zone" in found[0].about


def test_what_completion_says_of_names(schema: Schema) -> None:
    objects = DATA + '  data "new" { from objects "v1/Pod" by obj^'
    assert [c.about for c in complete(*made(objects, schema), Samples())] == [
        "The object that a row is made of."
    ]
    called = complete(*made(HEAD + '  filter "f" { require node.zone.startsW^', schema), Samples())
    assert [c.heading for c in called] == ["string.startsWith(string): bool"]
    variable = complete(*made(HEAD + '  filter "f" { require nod^', schema), Samples())
    assert variable[0].about.splitlines()[0] == "A candidate node."


@pytest.mark.parametrize(
    ("text", "heading", "about"),
    [
        ("for pods where no^de.zone", "node: Node", "A candidate node."),
        ("for pods where node.zo^ne", "node.zone: string", "= node.metadata.labels"),
        ("for pods where node.us^age", "node.usage[r]: double", "1.0 is full"),
        ("for pods where node.lab^els.capacity", "node.labels: map(string, string)", "labels"),
        ('filter "f" { require node.labels["capa^city"] ==', "string", "`spot`, `on-demand`."),
        ("let a = node.zone.starts^With(", "string.startsWith(string): bool", ""),
        ("let a = si^ze(node.pods)", "size(list(A)): int", ""),
        ("let a = math.grea^test(1, 2)", "math.greatest(", ""),
        ("let a = node.pods.exists(p, p.pha^se", "p.phase: string", "Pending"),
        ("let a = node.pods.exists(^p, p.phase", "p: Peer", ""),
        ("let a = node.pods.transformList(i, ^p, p.phase", "p: Peer", ""),
        ('filter "f" { require wi^de', 'let wide: bool = node.allocatable["cpu"] > "8"', ""),
        ('filter "f" { require fi^ts(node)', "def fits(other: Node): bool", ""),
        ('use "sp^ot" (least: 1)', "policy spot(least: int)", "Only spot nodes."),
        ('use "spot" (le^ast: 1)', "least: int", ""),
        ('use "library/spot-cei^ling"', "policy spot-ceiling(", "spot"),
        ('limit "l" { per no^de at most 1 }', "node: Node", "A candidate node."),
        ('filter "f" { req^uire node.ready }', None, ""),
        ('filter "f" { message "on node.zo^ne" }', None, ""),
        ("let a = nowhere^", None, ""),
    ],
)
def test_meaning(text: str, heading: str | None, about: str, schema: Schema) -> None:
    found = said(f"{HEAD}  {text}\n}}\n", schema)
    if heading is None:
        assert found is None
    else:
        assert found is not None
        assert heading in found.heading
        assert about in " ".join(found.about)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("let a = wi^de", "let wide"),
        ("let a = fi^ts(node)", "def fits"),
        ("let a = slo^ts", "policy shop(slots"),
        ("def big(item: Node): bool = it^em.ready", "  def big(item"),
        ("let a = node.pods.exists(p, ^p.phase == 1)", "  let a = node.pods.exists(p"),
        ('use "sp^ot" (least: 1)', "policy spot"),
        ('use "spot" (le^ast: 1)', "policy spot(least"),
        ('use "library/spot-^ceiling"', "policy spot-ceiling"),
    ],
)
def test_definition(text: str, line: str, schema: Schema) -> None:
    found = said(f"{HEAD}  {text}\n}}\n", schema)
    assert found is not None
    assert found.definition is not None
    source, span = found.definition
    assert source.text[: span.end].splitlines()[-1].strip() == line.strip()


@pytest.mark.parametrize(
    ("text", "heading", "about"),
    [
        (
            "data.lo^ad[node.name].cpu",
            "data.load: map(string, Row of load)",
            '`data "load" { from metrics }`',
        ),
        (
            "data.load[node.name].cp^u",
            "data.load[node.name].cpu: quantity",
            "A column of `data.load`. If absent: missing.",
        ),
        (
            "data.racks[node.name].ag^e",
            "data.racks[node.name].age: duration",
            "How long ago that was. `= now - data.racks[node.name].time`",
        ),
    ],
)
def test_meaning_of_data(text: str, heading: str, about: str, schema: Schema) -> None:
    found = said(f"{DATA}  let a = {text}\n}}\n", schema)
    assert found is not None
    assert (found.heading, " ".join(found.about)) == (heading, about)


def test_definition_of_data(schema: Schema) -> None:
    found = said(f"{DATA}  let a = data.ra^cks[node.name]\n}}\n", schema)
    assert found is not None
    assert found.definition is not None
    source, span = found.definition
    assert source.slice(span) == '"racks"'


def test_meaning_of_counts(schema: Schema) -> None:
    found = said(f'{COUNTED}  filter "f" {{ require wai^ting == 0 }}\n}}\n', schema)
    assert found is not None
    assert found.heading == "count waiting = pending pods where peer.priority > pod.priority"


@pytest.mark.parametrize("suffix", ["", '  filter "f" { message "{node.zo" require \' ` {{'])
def test_no_offset_of_any_text_fails(suffix: str, schema: Schema) -> None:
    text = f"{HEAD}{suffix}"
    of, _ = made(text, schema)
    for offset in range(0, len(text) + 1, 7):
        complete(of, offset, Shop())
        meaning(of, offset, Shop())


def test_a_manifest_has_diagnostics_only(schema: Schema) -> None:
    found = Validator(schema).validate([Source("a.yaml", "kind: PlacementPolicy\n")])
    of = document("a.yaml", found, schema)
    assert of is not None
    assert complete(of, 3, Samples()) == []
    assert meaning(of, 3, Samples()) is None
    assert document("b.yaml", found, schema) is None
    assert of.file.diagnostics[0].span != Span(0, 0)


# ---- strings and comments without an end


@pytest.mark.parametrize(
    ("text", "offers"),
    [
        ('node.labels["^', ['|capacity"', '|topology.kubernetes.io/zone"']),
        ("node.labels['^", ["|capacity'", "|topology.kubernetes.io/zone'"]),
        ('node.name == "a\\"^', []),
        ('"""x\nnode.labels["^', []),
        ("node.ready // no^", []),
        ("1.5Gi^", []),
        ('node.labels["capacity"^', ["|]"]),
    ],
)
def test_what_has_no_end(text: str, offers: list[str], schema: Schema) -> None:
    found = offered(f'{HEAD}  filter "f" {{ require {text}', schema)
    assert found == offers
