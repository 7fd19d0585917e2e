"""The library's tables from objects: their keys and columns, as the API server has these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from engine.program.frame import Frame
from engine.program.policy_compiler import compile_policy
from engine.program.tables import TableSpec
from grammar.meaning.schema import load_schema
from grammar.values.errors import EvaluationError
from grammar.values.time import Timestamp
from policies.loader import library_sources
from policies.validation import check_source

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
