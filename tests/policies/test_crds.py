"""The definitions for the API server: those that are shipped, and what a schema must have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from cli.commands.crds import FOLDER
from cli.main import main
from policies.resource import KINDS
from tests.support.definitions import definitions, texts

KIND_AND_SHORT_NAME = [("PlacementPolicy", "plp"), ("ClusterPlacementPolicy", "cplp")]
VERSIONS = [
    (made["spec"]["names"]["kind"], version)
    for made in definitions().values()
    for version in made["spec"]["versions"]
]
IDS = [f"{kind} {version['name']}" for kind, version in VERSIONS]
each_version = pytest.mark.parametrize(("kind", "version"), VERSIONS, ids=IDS)


def schemas(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """A schema and all in it, by path."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from schemas(inner, f"{path}.{name}")
    for word in ("items", "additionalProperties"):
        if word in schema:
            yield from schemas(schema[word], f"{path}[]")


def test_shipped_definitions_are_those_of_the_structs() -> None:
    """`make crds` writes them."""
    assert {f.name: f.read_text(encoding="utf-8") for f in FOLDER.iterdir()} == texts()


def test_texts_say_what_the_definitions_say() -> None:
    for name, made in definitions().items():
        assert yaml.safe_load(texts()[name]) == yaml.safe_load(yaml.safe_dump(made))


def test_command_prints_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crds"]) == 0
    printed = list(yaml.safe_load_all(capsys.readouterr().out))
    assert {made["spec"]["names"]["kind"] for made in printed} == KINDS.keys()


@pytest.mark.parametrize(("kind", "short"), KIND_AND_SHORT_NAME)
def test_names_scope_and_versions(kind: str, short: str) -> None:
    (made,) = (d for d in definitions().values() if d["spec"]["names"]["kind"] == kind)
    spec = made["spec"]
    assert made["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}"
    assert spec["names"]["shortNames"] == [short]
    assert spec["names"]["categories"] == ["placet"]
    assert spec["scope"] == ("Namespaced" if kind == "PlacementPolicy" else "Cluster")
    assert spec["conversion"] == {"strategy": "None"}
    stored = [(v["name"], v["served"], v["storage"]) for v in spec["versions"]]
    assert stored == [("v1", True, True), ("v1alpha1", True, False)]


@each_version
def test_columns_and_status(kind: str, version: dict[str, Any]) -> None:
    columns = {0: list[str](), 1: list[str]()}
    for column in version["additionalPrinterColumns"]:
        columns[column.get("priority", 0)].append(column["name"])
    assert columns == {
        0: ["Ready", "Reason", "Mode", "Target", "Placed", "Matched", "Weight", "Age"],
        1: ["Conflicting", "Violations", "Message"],
    }
    assert version["subresources"] == {"status": {}}


@each_version
def test_everything_has_a_bound(kind: str, version: dict[str, Any]) -> None:
    """Without one the API server takes the checks for dearer than it allows."""
    loose = []
    for path, schema in schemas(version["schema"]["openAPIV3Schema"]):
        match schema:
            case {"type": "string", "enum": _} | {"type": "string", "maxLength": _}:
                pass
            case {"type": "array", "maxItems": _} | {"type": "object", "maxProperties": _}:
                pass
            case {"type": "object", "properties": _} | {"type": "integer" | "boolean"}:
                pass
            case {"x-kubernetes-int-or-string": True, "maxLength": _}:
                pass
            case {"x-kubernetes-preserve-unknown-fields": True}:
                # No check reads it, so it costs nothing there.
                assert path.endswith(".parameters[]")
            case _:
                loose.append(path)
    assert loose == [".apiVersion", ".kind", ".metadata"]


@each_version
def test_schema_is_structural(kind: str, version: dict[str, Any]) -> None:
    """Every part has a type, and no word that a structural schema does not know."""
    for path, schema in schemas(version["schema"]["openAPIV3Schema"]):
        untyped = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
        assert "type" in schema or any(schema.get(word) for word in untyped), path
        assert not schema.keys() & {"$ref", "$defs", "title", "anyOf", "const"}, path


@each_version
def test_both_spellings_of_the_target_are_kept(kind: str, version: dict[str, Any]) -> None:
    """What is not in a schema is pruned."""
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert {"placementPolicy", "policy"} <= spec["properties"].keys()
    assert ("namespaceSelector" in spec["properties"]) == (kind == "ClusterPlacementPolicy")
    assert spec["properties"]["weight"]["default"] == 101
    weight = spec["properties"]["weight"]["x-kubernetes-validations"][0]["rule"]
    assert weight == ("self > 100" if version["name"] == "v1" else "self >= 100")
