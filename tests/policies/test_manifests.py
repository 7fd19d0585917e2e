"""Files of manifests: their places, what does not belong, and what commands make of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.main import main
from grammar.meaning.schema import Schema
from grammar.tree.source import Source
from policies.loader import load
from policies.validation import CheckedFile, check_source
from tests.support.builders import GROUP, on_wanted, placement_policy
from tests.support.definitions import texts

HEAD = f"""\
apiVersion: {GROUP}/v1
kind: PlacementPolicy
metadata: {{name: web, namespace: shop}}
spec:
  podSelector: {{matchLabels: {{app: web}}}}
"""
GOOD = HEAD + '  rules: |\n    filter "ready" { require node.ready }\n'


def places(file: CheckedFile) -> list[tuple[str, int, int, str]]:
    """Code, line, column, and what is underlined, of every diagnostic."""
    source = file.source
    return [
        (d.code, *source.position(d.span.start), source.slice(d.span)) for d in file.diagnostics
    ]


def check(text: str, schema: Schema, name: str = "web.yaml") -> CheckedFile:
    return check_source(Source(name, text), schema)


def test_good_file(schema: Schema) -> None:
    file = check(f"---\n# two\n---\n{GOOD}---\n{GOOD.replace('web,', 'api,')}", schema)
    assert places(file) == []
    assert [p.policy.address for p in file.policies] == ["shop/web", "shop/api"]
    assert file.whole


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "windows"])
def test_places_in_rules_are_places_in_the_file(schema: Schema, end: str) -> None:
    rules = """\
  rules: |

    # Ünïcode, and an empty line
    filter "ready" { require node.redy }

    filter "other" {
      require node.ready and true
    }
  weight: 50
"""
    file = check((HEAD + rules).replace("\n", end), schema)
    assert places(file) == [("P0503", 14, 11, "50")]
    file = check((HEAD + rules.replace("50", "500")).replace("\n", end), schema)
    assert places(file) == [("P0102", 9, 35, "redy"), ("P0001", 12, 26, "and")]


def test_places_in_quoted_rules_are_places_in_the_file(schema: Schema) -> None:
    """As in JSON; but nothing is mended there, where the edit would have to be quoted too."""
    rules = '"# \\ud83d\\ude00 \\u00fc \\t\\nfilter \\"ready\\" { require node.redy }"'
    value = HEAD + "  rules: " + rules.replace("\\ud83d\\ude00", "\\U0001F600")
    file = check(value, schema)
    assert [(code, text) for code, _, _, text in places(file)] == [("P0102", "redy")]
    assert file.diagnostics[0].fix is None
    value = json.dumps(placement_policy({"podSelector": {}, "rules": json.loads(rules)}))
    file = check(value, schema, "web.json")
    assert [(code, text) for code, _, _, text in places(file)] == [("P0102", "redy")]


@pytest.mark.parametrize(
    "written",
    [
        "'# first\n\n    filter \"ready\" { require node.redy }'",
        '"# first\n\n    filter \\"ready\\" { require node.redy }"',
        '>\n    # first\n\n    filter "ready" { require node.redy }',
    ],
    ids=["quoted", "double-quoted", "folded"],
)
def test_rules_written_otherwise_are_where_they_begin(schema: Schema, written: str) -> None:
    file = check(f"{HEAD}  rules: {written}\n", schema)
    (found,) = file.diagnostics
    assert (found.code, found.fix) == ("P0102", None)
    assert places(file)[0][1] == 6


def test_fields_are_underlined(schema: Schema) -> None:
    text = f"""\
{HEAD}  nodeSelector:
    matchExpressions:
    - key: a
      operator: In
  placementPolicy:
    targetSize: 140%
---
{HEAD}"""
    assert [(*found, text.split("\n")[0]) for *found, text in places(check(text, schema))] == [
        ("P0503", 8, 7, "key: a"),
        ("P0503", 11, 17, "140%"),
        ("P0503", 16, 1, "spec"),
    ]


def test_json(schema: Schema) -> None:
    """Tabs too, and texts that YAML reads in another way."""
    value = placement_policy(on_wanted("140%") | {"rules": "# \U0001f600"})
    file = check(json.dumps(value, indent="\t"), schema, "web.json")
    assert [(code, text) for code, _, _, text in places(file)] == [("P0503", '"140%"')]


def test_list_is_its_items(schema: Schema) -> None:
    items = [placement_policy(on_wanted("140%"), name) for name in ("a", "b")]
    file = check(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), schema)
    assert [(code, text) for code, _, _, text in places(file)] == [("P0503", '"140%"')] * 2


def test_documents_of_other_kinds_do_not_belong(schema: Schema) -> None:
    """Those of other groups are counted; what may be a misspelt policy is an error."""
    misspelt = GOOD.replace("PlacementPolicy", "PlacementPolice")
    text = f"{GOOD}---\napiVersion: v1\nkind: ConfigMap\n---\n- 1\n---\n{misspelt}"
    file = check(text, schema)
    assert [(d.code, d.message) for d in file.diagnostics] == [
        ("P0502", "this is not a policy"),
        ("P0502", f"`PlacementPolice` of `{GROUP}/v1` is not a policy"),
    ]
    assert len(file.policies) == file.others == 1
    assert not file.whole


def test_what_has_no_kind_is_called_this(schema: Schema) -> None:
    """As a kustomization, of which `placet check` says what to check."""
    (found,) = check("resources: [a.yaml]\n", schema).diagnostics
    assert (found.code, found.message) == ("P0502", "this is not a policy")


def test_object_without_a_namespace_is_in_the_default_one(schema: Schema) -> None:
    file = check(GOOD.replace(", namespace: shop", ""), schema)
    assert places(file) == [("P0322", 3, 18, "web")]
    assert [p.policy.address for p in file.policies] == ["default/web"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a: [", "a.yaml"),
        ("a: \t- b\n\t- c", "a.yaml"),
        ("{" * 5_000, "a.yaml"),
        ("- " * 5_000, "a.yaml"),
        ("? [a]\n: b", "a.yaml"),
        ("a: !!python/object:os.system x", "a.yaml"),
        ("a: \x00", "a.yaml"),
        ("{'a': 1}", "a.json"),
        ('{"a": 1} x', "a.json"),
    ],
)
def test_what_cannot_be_read_is_told_so(schema: Schema, text: str, name: str) -> None:
    file = check(text, schema, name)
    assert [d.code for d in file.diagnostics] == ["P0501"]
    assert not file.whole


def test_empty_file_has_no_policies(schema: Schema) -> None:
    file = check("# nothing\n", schema)
    assert (file.policies, file.diagnostics, file.whole) == ((), (), True)


def test_names_are_taken_once_across_forms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.policy").write_text('policy web in namespace "shop" { }', encoding="utf-8")
    (tmp_path / "b.yml").write_text(GOOD, encoding="utf-8")
    assert main(["check", "-o", "plain", str(tmp_path)]) == 1
    assert f"{tmp_path / 'b.yml'}:3:18: error[P0205]" in capsys.readouterr().out


def test_folder_has_other_yaml_too(tmp_path: Path) -> None:
    """Files without a manifest of ours are passed over, unless they are named."""
    (tmp_path / "pods.json").write_text('{"kind": "PodList"}', encoding="utf-8")
    (tmp_path / "web.yaml").write_text(GOOD, encoding="utf-8")
    for name, text in texts().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    loaded = load([tmp_path])
    assert [Path(s.name).name for s in loaded.sources] == ["web.yaml"]
    loaded = load([tmp_path / "pods.json"])
    assert [Path(s.name).name for s in loaded.sources] == ["pods.json"]


def test_folder_with_nothing_of_ours_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text('{"kind": "PodList"}', encoding="utf-8")
    (problem,) = load([tmp_path]).problems
    assert problem.message == f"the folder `{tmp_path}` has no policy files"


def test_check_mends_rules_in_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(GOOD.replace("node.ready", "node.redy") + "  weight: 200\n", encoding="utf-8")
    assert main(["check", "--fix", str(file)]) == 0
    assert file.read_text(encoding="utf-8") == GOOD + "  weight: 200\n"


def test_check_names_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(GOOD.replace("node.ready", "node.redy"), encoding="utf-8")
    assert main(["check", str(file)]) == 1
    printed = capsys.readouterr().out
    assert f"--> {file}:7:35" in printed
    assert '7 |     filter "ready" { require node.redy }' in printed


def test_fmt_leaves_manifests_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "web.yaml"
    text = GOOD.replace("{ require", "{require")
    file.write_text(text, encoding="utf-8")
    assert main(["fmt", str(tmp_path)]) == 0
    assert file.read_text(encoding="utf-8") == text
