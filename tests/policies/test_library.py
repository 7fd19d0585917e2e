"""The policies that ship: without findings, tested, explained on a page, and with tables."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from cli.main import main
from engine.clauses.programs import compile_policy
from engine.decision.preemption import Victims
from engine.program.frame import Frame
from engine.program.tables import TableSpec
from grammar.meaning.schema import load_schema
from grammar.syntax.formatter import format_file, print_parameter
from grammar.syntax.parser import parse_file
from grammar.tree.source import Source
from grammar.values.errors import EvaluationError
from grammar.values.time import Timestamp
from policies.loader import is_test_file, library_sources, load
from policies.validation import Validator, check_source
from tests.support.builders import node, pod, raw
from tests.support.engines import engine_of

LIBRARY = Path(str(files("policies") / "library"))
SOURCES = load([LIBRARY, Path(str(files("cli") / "demo"))]).sources
SHIPPED = [source for source in SOURCES if not is_test_file(source.name)]
PAGE = (Path(__file__).parents[2] / "docs" / "library.md").read_text(encoding="utf-8")
README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def name_of(source: Source) -> str:
    return Path(source.name).stem


@pytest.mark.parametrize("source", SHIPPED, ids=name_of)
def test_shipped_policy_is_exemplary(source: Source) -> None:
    checked = check_source(source, load_schema())
    assert [each.code for each in checked.diagnostics] == []
    assert [p.policy.name for p in checked.policies] == [name_of(source)]
    assert all(p.policy.setting("description", "") for p in checked.policies)


def test_policies_of_the_readme_have_no_findings() -> None:
    fences = re.findall(r"(?ms)^```(\w*)\n(.*?)^```$", README)
    texts = {"": "readme.policy", "yaml": "readme.yaml"}
    sources = [
        Source(texts[kind], text)
        for kind, text in fences
        if kind in texts and re.match(r"policy |.*\nkind: PlacementPolicy", text)
    ]
    assert len(sources) == 2
    assert [check_source(source, load_schema()).diagnostics for source in sources] == [(), ()]


@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_shipped_file_is_laid_out_as_fmt_would(source: Source) -> None:
    assert format_file(parse_file(source)[0], source) == source.text


@pytest.mark.parametrize("source", [s for s in SHIPPED if "gpu" in Path(s.name).parts], ids=name_of)
def test_a_policy_about_cards_has_at_most_twelve_lines(source: Source) -> None:
    """As fmt lays it out, which the test above compares; comments aside."""
    lines = [line for line in source.text.splitlines() if line and not line.startswith("#")]
    assert len(lines) <= 12


@pytest.mark.process
def test_every_policy_of_the_library_is_tested(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["test", "-v", str(LIBRARY)])
    done = capsys.readouterr()
    assert (code, done.err) == (0, ""), done.out
    tested = set(re.findall(r"(?m)^\S+/(\S+)_test\.policy: ", done.out))
    assert tested == {name_of(source) for source in library_sources()}


@pytest.mark.parametrize("source", library_sources(), ids=name_of)
def test_library_policy_governs_nothing_unasked(source: Source) -> None:
    """It is a guardrail, or there for `use` alone; both can be used."""
    (checked,) = check_source(source, load_schema()).policies
    assert checked.policy.cluster or checked.policy.only_used
    user = f'policy u in namespace "u" {{ use "library/{checked.policy.name}" }}'
    if checked.environment.cards:
        # Cards are shared by the pods of all namespaces.
        found = Validator(load_schema()).validate([Source("u.policy", user)]).findings()
        assert "P0133" in {each.code for each, _ in found}
        user = user.replace('in namespace "u" {', '{ for pods where pod.namespace == "u"')
    assert list(Validator(load_schema()).validate([Source("u.policy", user)]).findings()) == []


def test_page_says_what_the_files_say() -> None:
    """Each by its name, with its description, its kind and its parameters."""
    found = re.findall(r"(?m)^\| `(\S+)` \| (.*?) \| (.*?) \| (.*?) ?\|$", PAGE)
    wanted = []
    for source in library_sources():
        (checked,) = check_source(source, load_schema()).policies
        policy = checked.policy
        (written,) = parse_file(source)[0].policies
        declared = ", ".join(f"`{print_parameter(p)}`" for p in written.parameters)
        description = policy.setting("description", "")
        wanted.append(
            (policy.name, description, "cluster" if policy.cluster else "`use`", declared)
        )
    assert sorted(found) == sorted(wanted)


def test_every_policy_says_when_to_choose_it() -> None:
    texts = {source.name: source.text for source in library_sources()}
    assert [name for name, text in texts.items() if not text.startswith("# ")] == []


def test_databases_are_not_evicted() -> None:
    """By either label; whoever else would be evicted still is."""
    source = next(s for s in library_sources() if name_of(s) == "protect-databases")
    labels = {
        "db": {"tier": "db"},
        "labelled": {"app.kubernetes.io/component": "database"},
        "web": {"tier": "web"},
        "bare": {},
    }
    victims = [pod(name, labels=found, on=f"n-{name}") for name, found in labels.items()]
    nodes = [node(victim["spec"]["nodeName"]) for victim in victims]
    engine = engine_of(source.text, nodes, victims)
    proposed = {f"n-{v['metadata']['name']}": Victims([v["metadata"]["uid"]], 0) for v in victims}
    kept = engine.preempt(raw(pod("urgent", priority=1000)), proposed, math.inf)
    assert set(kept) == {"n-web", "n-bare"}


# ---- the library's tables from objects: their keys and columns, as the API server has these


ZONE = "topology.kubernetes.io/zone"
CLAIM = {
    "metadata": {"namespace": "shop", "name": "data"},
    "spec": {
        "storageClassName": "fast",
        "volumeName": "pv-1",
        "resources": {"requests": {"storage": "20Gi"}},
    },
}
NEW_CLAIM = {
    "metadata": {"namespace": "shop", "name": "data"},
    "spec": {"resources": {"requests": {"storage": "20Gi"}}},
}
TERM = {
    "matchExpressions": [
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": ZONE, "operator": "In", "values": ["eu-1a"]},
    ]
}
VOLUME = {
    "metadata": {"name": "pv-1", "labels": {ZONE: "eu-1b"}},
    "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [TERM]}}},
}
CAPACITY = {
    "metadata": {"namespace": "kube-system", "name": "csisc-x"},
    "storageClassName": "local",
    "nodeTopology": {"matchLabels": {ZONE: "eu-1a"}},
    "capacity": "100Gi",
}
NUMA = {
    "metadata": {"name": "n1"},
    "zones": [
        {
            "name": "node-0",
            "type": "Node",
            "resources": [
                {"name": "memory", "available": "8Gi"},
                {"name": "cpu", "available": "3"},
            ],
        },
        {"name": "node-1", "type": "Node", "resources": [{"name": "cpu", "available": "5500m"}]},
        {"name": "core-0", "type": "Core", "resources": [{"name": "cpu", "available": "9"}]},
        {"name": "node-2", "type": "Node", "resources": [{"name": "memory", "available": "8Gi"}]},
    ],
}


def table(policy: str, name: str) -> TableSpec:
    (source,) = (s for s in library_sources() if s.name.endswith(f"/{policy}.policy"))
    (checked,) = check_source(source, load_schema()).policies
    (spec,) = (t for t in compile_policy(checked).tables if t.name == name)
    return spec


def row(spec: TableSpec, found: Mapping[str, Any]) -> tuple[object, Mapping[str, str]]:
    """The key, and the columns that have a value, as texts."""
    frame = Frame(None, Timestamp(0), slots=spec.slots)
    frame.object = found
    assert spec.by is not None
    values: dict[str, str] = {}
    for column, evaluate in zip(spec.columns, spec.values, strict=True):
        try:
            values[column.name] = str(evaluate(frame))
        except EvaluationError:
            continue
    return spec.by(frame), values


@pytest.mark.parametrize(
    ("policy", "name", "found", "key", "columns"),
    [
        ("follow-the-volume", "claims", CLAIM, "shop/data", {"volume": "pv-1"}),
        ("follow-the-volume", "claims", NEW_CLAIM, "shop/data", {}),
        ("follow-the-volume", "volumes", VOLUME, "pv-1", {"label": "eu-1b", "affinity": "eu-1a"}),
        ("follow-the-volume", "volumes", {"metadata": {"name": "nfs"}, "spec": {}}, "nfs", {}),
        ("local-volumes-off-spot", "claims", CLAIM, "shop/data", {"class": "fast"}),
        ("local-volumes-off-spot", "claims", NEW_CLAIM, "shop/data", {"class": ""}),
        (
            "zone-with-capacity",
            "claims",
            NEW_CLAIM,
            "shop/data",
            {"class": "", "volume": "", "size": "20Gi"},
        ),
        ("zone-with-capacity", "capacity", CAPACITY, "local/eu-1a", {"largest": "100Gi"}),
        (
            "zone-with-capacity",
            "capacity",
            {**CAPACITY, "maximumVolumeSize": "10Gi"},
            "local/eu-1a",
            {"largest": "10Gi"},
        ),
        ("numa-fits", "numa", NUMA, "n1", {"cpu": "5500m"}),
        ("numa-fits", "numa", {"metadata": {"name": "n1"}, "zones": []}, "n1", {}),
    ],
)
def test_a_row_of_an_object(
    policy: str, name: str, found: Mapping[str, Any], key: str, columns: Mapping[str, str]
) -> None:
    assert row(table(policy, name), found) == (key, columns)


def test_an_object_without_a_zone_has_no_key() -> None:
    spec = table("zone-with-capacity", "capacity")
    with pytest.raises(EvaluationError):
        row(spec, {**CAPACITY, "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": "n1"}}})
