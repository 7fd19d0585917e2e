"""Command `manifests`: the rights for what policies declare as data, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.commands.manifests import FILE, resource_name
from cli.main import main

POLICY = """\
cluster policy p {
  for pods where true
  data "load" { from metrics }
  data "power" { from prometheus "http://p:9090" query "up" by "node" }
  data "racks" {
    from configmap "kube-system/racks" file "racks.csv" by "rack" columns { watts: double }
  }
  data "room" {
    from configmap "kube-system/room" file "room.csv" by "rack" columns { watts: double }
  }
  data "shop" { from configmap "shop/prices" file "a.csv" by "type" columns { hour: double } }
  data "claims" {
    from objects "v1/PersistentVolumeClaim" by object.metadata.name
    columns { volume = string(object.spec.volumeName) }
  }
  data "zones" {
    from objects "storage.k8s.io/v1/CSIStorageCapacity" by object.metadata.name
    columns { size = string(object.capacity) }
  }
}
"""


def added(capsys: pytest.CaptureFixture[str], *args: str) -> list[dict[str, Any]]:
    """The manifests after those of the installation."""
    assert main(["manifests", *args]) == 0
    text = capsys.readouterr().out
    installed = FILE.read_text(encoding="utf-8")
    assert text.startswith(installed)
    return list(yaml.safe_load_all(text.removeprefix(installed)))


def test_rights_are_those_for_the_data_of_policies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.policy").write_text(POLICY)
    found = added(capsys, "--policies", str(tmp_path))
    rules = {
        (each["kind"], each["metadata"].get("namespace", "")): each["rules"]
        for each in found
        if "rules" in each
    }
    verbs = ["list", "watch"]
    assert rules == {
        ("ClusterRole", ""): [
            {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": verbs},
            {"apiGroups": ["metrics.k8s.io"], "resources": ["nodes"], "verbs": ["get", "list"]},
            {
                "apiGroups": ["storage.k8s.io"],
                "resources": ["csistoragecapacities"],
                "verbs": verbs,
            },
        ],
        ("Role", "kube-system"): [
            {
                "apiGroups": [""],
                "resources": ["configmaps"],
                "resourceNames": ["racks", "room"],
                "verbs": ["get", *verbs],
            }
        ],
        ("Role", "shop"): [
            {
                "apiGroups": [""],
                "resources": ["configmaps"],
                "resourceNames": ["prices"],
                "verbs": ["get", *verbs],
            }
        ],
    }
    bindings = [each for each in found if "roleRef" in each]
    subject = {"kind": "ServiceAccount", "name": "placet", "namespace": "kube-system"}
    assert [each["subjects"] for each in bindings] == [[subject]] * 3
    assert [each["roleRef"]["kind"] for each in bindings] == ["ClusterRole", "Role", "Role"]


def test_policies_without_data_need_no_rights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.policy").write_text("cluster policy p { for pods where true }")
    assert added(capsys, "--policies", str(tmp_path)) == []
    assert added(capsys) == []


@pytest.mark.parametrize(
    ("kind", "resource"),
    [("Pod", "pods"), ("StorageClass", "storageclasses"), ("NetworkPolicy", "networkpolicies")],
)
def test_resources_are_guessed_as_in_kubernetes(kind: str, resource: str) -> None:
    assert resource_name(kind) == resource


@pytest.mark.parametrize("text", [None, "policy"])
def test_nothing_is_written_for_policies_that_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    """The output goes to `kubectl apply`."""
    if text is not None:
        (tmp_path / "p.policy").write_text(text)
    assert main(["manifests", "--policies", str(tmp_path / "p.policy")]) == 2
    assert capsys.readouterr().out == ""
