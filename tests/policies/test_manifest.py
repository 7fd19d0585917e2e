"""Manifests to structs: what is taken, what is not, and which field is named for it."""

from __future__ import annotations

import pytest

from grammar.meaning.schema import load_schema
from grammar.messages.diagnostics import Diagnostic
from policies.admission import check_object
from policies.manifest_text import object_page
from policies.manifests import ManifestReading
from policies.manifests import manifest_from as read_manifest
from policies.resource import BoundedTarget, ClusterPlacementPolicy, PlacementPolicy
from tests.support.builders import (
    GROUP,
    WANT,
    Object,
    cluster_placement_policy,
    on_wanted,
    placement_policy,
    raw,
    without,
)

GOOD = on_wanted("40%")


def manifest_from(value: object, *, stored: bool = False) -> ManifestReading:
    return read_manifest(value, object_page("object", ""), stored=stored)


def line(diagnostic: Diagnostic) -> str:
    return f"{diagnostic.severity} {diagnostic.message}"


def said(value: object, *, stored: bool = False) -> list[str]:
    """Every diagnostic in one line each; nothing here may raise."""
    read = manifest_from(value, stored=stored)
    assert (read.manifest is None) == any(d.severity == "error" for d in read.diagnostics)
    return list(map(line, read.diagnostics))


@pytest.mark.parametrize("version", ["v1", "v1alpha1"])
@pytest.mark.parametrize("field", ["placementPolicy", "policy"])
def test_target_has_two_names_in_both_versions(version: str, field: str) -> None:
    spec = without(GOOD, "placementPolicy") | {field: {"action": "MustNot", "targetSize": 3}}
    read = manifest_from(placement_policy(spec, version=version))
    assert read.diagnostics == ()
    assert read.manifest is not None
    assert read.manifest.spec.target == BoundedTarget(
        targetSize=3, action="MustNot", bound="Exactly"
    )


def test_what_is_left_out_has_a_default() -> None:
    spec = without(GOOD, "enforcementMode")
    manifest = manifest_from(placement_policy(spec)).manifest
    assert isinstance(manifest, PlacementPolicy)
    assert (manifest.spec.weight, manifest.spec.enforcementMode) == (101, "BestEffort")
    assert manifest.spec.failurePolicy == "Fail"
    assert manifest.spec.target == BoundedTarget(targetSize="40%", action="Must", bound="Exactly")


def test_object_of_the_api_server_is_taken_whole() -> None:
    """With all the metadata that there is, and a status."""
    status = {
        "observedGeneration": 3,
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Compiled",
                "message": "",
                "observedGeneration": 3,
                "lastTransitionTime": "2026-11-21T10:00:00Z",
            }
        ],
        "inForce": {"generation": 3, "rules": ""},
        "matchedPods": 10,
        "placedPods": 4,
        "targetPods": 4,
        "violations": 0,
        "diagnostics": [],
    }
    value = cluster_placement_policy(GOOD | {"namespaceSelector": {}}) | {"status": status}
    value["metadata"] |= {"uid": "1", "generation": 3, "resourceVersion": "7", "managedFields": []}
    manifest = check_object("object", raw(value), load_schema()).manifest
    assert isinstance(manifest, ClusterPlacementPolicy)
    assert (manifest.metadata.uid, manifest.metadata.generation) == ("1", 3)
    assert manifest.status is not None
    assert manifest.status.conditions[0].type == "Ready"
    assert manifest.status.placedPods == 4


SPECS: list[tuple[Object, list[str]]] = [
    (
        without(GOOD, "podSelector"),
        ["error spec.podSelector: is missing"],
    ),
    (
        without(GOOD, "nodeSelector"),
        ["error spec.nodeSelector: is missing"],
    ),
    (
        GOOD | {"nodeSelector": {}},
        ["error spec.nodeSelector: is empty and would select every node"],
    ),
    (
        GOOD | {"nodeSelector": {"matchLabels": {}, "matchExpressions": []}},
        ["error spec.nodeSelector: is empty and would select every node"],
    ),
    (
        GOOD | {"annotationSelector": {}},
        ["error spec.annotationSelector: is empty and would select every node"],
    ),
    ({"podSelector": {}}, ["error spec: has no effect"]),
    (GOOD | {"weight": 100}, ["error spec.weight: `100` must be greater than 100"]),
    (GOOD | {"weight": -1}, ["error spec.weight: `-1` must be greater than 100"]),
    (GOOD | {"weight": 2**31}, ["error spec.weight: is more than 2147483647"]),
    (GOOD | {"weight": "200"}, ["error spec.weight: is a string, not a whole number"]),
    (
        GOOD | {"policy": {"targetSize": 1}},
        ["error spec.policy: is the same field as `spec.placementPolicy`"],
    ),
    (
        GOOD | {"enforcementMode": "Strickt"},
        ["error spec.enforcementMode: `Strickt` is not allowed"],
    ),
    (GOOD | {"failurePolicy": "Pass"}, ["error spec.failurePolicy: `Pass` is not allowed"]),
    (GOOD | {"nodeSelecter": WANT}, ["error spec.nodeSelecter: unknown field"]),
    (GOOD | {"namespaceSelector": {}}, ["error spec.namespaceSelector: unknown field"]),
    (GOOD | {"rules": "x" * 65537}, ["error spec.rules: is longer than 65536"]),
    (GOOD | {"rules": ["x"]}, ["error spec.rules: is a list, not a string"]),
    (GOOD | {"podSelector": []}, ["error spec.podSelector: is a list, not an object"]),
    (
        GOOD | {"podSelector": {"matchLabels": {"app": 1}}},
        ["error spec.podSelector.matchLabels[...]: is a whole number, not a string"],
    ),
    (
        GOOD | {"weight": 1, "nodeSelector": {}, "placementPolicy": {"targetSize": "140%"}},
        [
            "error spec.weight: `1` must be greater than 100",
            "error spec.placementPolicy.targetSize: `140%` is not a percentage from 0% to 100%",
            "error spec.nodeSelector: is empty and would select every node",
        ],
    ),
]


@pytest.mark.parametrize(("spec", "problems"), SPECS, ids=[p[0] for _, p in SPECS])
def test_bad_field_is_named(spec: Object, problems: list[str]) -> None:
    assert said(placement_policy(spec)) == problems


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ({}, "is missing"),
        ({"targetSize": "140%"}, "`140%` is not a percentage from 0% to 100%"),
        ({"targetSize": "-1%"}, "`-1%` is not a percentage from 0% to 100%"),
        ({"targetSize": "1.5%"}, "`1.5%` is not a percentage from 0% to 100%"),
        ({"targetSize": "40"}, "`40` is not a percentage from 0% to 100%"),
        ({"targetSize": "40%\n"}, "`40%\n` is not a percentage from 0% to 100%"),
        ({"targetSize": -1}, "`-1` is not a number of pods"),
        ({"targetSize": 2**31}, f"`{2**31}` is not a number of pods"),
        ({"targetSize": True}, "is a bool, not a whole number or a string"),
        ({"targetSize": 1.5}, "is a number, not a whole number or a string"),
        ({"targetSize": None}, "is nothing, not a whole number or a string"),
    ],
)
@pytest.mark.parametrize("field", ["placementPolicy", "policy"])
def test_bad_target_size_is_named_by_the_name_it_has(
    target: Object, problem: str, field: str
) -> None:
    spec = without(GOOD, "placementPolicy") | {field: target}
    assert said(placement_policy(spec)) == [f"error spec.{field}.targetSize: {problem}"]


def test_only_a_percentage_is_rounded() -> None:
    spec = without(GOOD, "placementPolicy")
    target = {"targetSize": 3, "rounding": "Up"}
    problem = "error spec.placementPolicy.rounding: `3` pods are not rounded"
    assert said(placement_policy(spec | {"placementPolicy": target})) == [problem]


@pytest.mark.parametrize("field", ["podSelector", "nodeSelector", "annotationSelector"])
@pytest.mark.parametrize(
    ("requirement", "problem"),
    [
        ({"key": "a", "operator": "In"}, "values: `In` needs a value"),
        ({"key": "a", "operator": "NotIn", "values": []}, "values: `NotIn` needs a value"),
        ({"key": "a", "operator": "Exists", "values": ["b"]}, "values: `Exists` takes no values"),
        ({"key": "a", "operator": "Equals"}, "operator: `Equals` is not allowed"),
        ({"operator": "Exists"}, "key: is missing"),
        ({"key": "", "operator": "Exists"}, "key: is empty"),
    ],
)
def test_bad_requirement_is_named(field: str, requirement: Object, problem: str) -> None:
    spec = GOOD | {field: {"matchExpressions": [requirement]}}
    assert said(placement_policy(spec)) == [f"error spec.{field}.matchExpressions[0].{problem}"]


@pytest.mark.parametrize("values", [[], ["1", "2"], ["x"], ["1.5"]])
def test_comparisons_take_one_whole_number(values: list[str]) -> None:
    requirement = {"key": "a", "operator": "Gt", "values": values}
    spec = GOOD | {"nodeSelector": {"matchExpressions": [requirement]}}
    problem = "error spec.nodeSelector.matchExpressions[0].values: `Gt` needs one whole number"
    assert said(placement_policy(spec)) == [problem]


def test_pods_have_no_comparisons() -> None:
    requirement = {"key": "a", "operator": "Gt", "values": ["1"]}
    spec = GOOD | {"podSelector": {"matchExpressions": [requirement]}}
    (problem,) = manifest_from(placement_policy(spec)).diagnostics
    assert problem.hint == "write `DoesNotExist`, `Exists`, `In` or `NotIn`"


@pytest.mark.parametrize(
    ("version", "stored", "weight", "severity"),
    [
        ("v1alpha1", False, 100, "warning"),
        ("v1alpha1", False, 99, "error"),
        ("v1", False, 100, "error"),
        ("v1", True, 100, "warning"),
        ("v1", True, 99, "error"),
    ],
)
def test_weight_of_the_old_manifests(
    version: str, stored: bool, weight: int, severity: str
) -> None:
    """All of theirs have 100. Once it is stored, an object is shown in every version."""
    value = placement_policy(GOOD | {"weight": weight}, version=version)
    problem = f"{severity} spec.weight: `{weight}` must be greater than 100"
    assert said(value, stored=stored) == [problem]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([], "kind: must be"),
        (None, "kind: must be"),
        ({"apiVersion": "apps/v1", "kind": "Deployment"}, "kind: must be"),
        ({"apiVersion": 1, "kind": "PlacementPolicy"}, "kind: must be"),
        ({"apiVersion": f"{GROUP}/v1", "kind": {}}, "kind: must be"),
        (placement_policy(GOOD, version="v2"), "apiVersion: unknown version `v2`"),
        (placement_policy(GOOD) | {"apiVersion": GROUP}, "apiVersion: unknown version ``"),
        (placement_policy(GOOD, name=""), "metadata.name: is missing"),
        (placement_policy(GOOD, name="Web_1"), "metadata.name: `Web_1` is not a name"),
        (without(placement_policy(GOOD), "spec"), "spec: is missing"),
        (without(placement_policy(GOOD), "metadata"), "metadata: is missing"),
        (placement_policy(GOOD) | {"spec": None}, "spec: is nothing, not an object"),
        (
            cluster_placement_policy(GOOD) | {"metadata": {"name": "a", "namespace": "b"}},
            "metadata.namespace: a ClusterPlacementPolicy has no namespace",
        ),
    ],
)
def test_bad_object_is_told_why(value: object, problem: str) -> None:
    (found,) = said(value)
    assert found.startswith(f"error {problem}")


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b'"x"', b"[" * 100_000, b"{} {}"])
def test_what_is_no_object_is_told_so(data: bytes) -> None:
    checked = check_object("object", data, load_schema())
    assert checked.manifest is None
    assert len(checked.file.diagnostics) == 1
