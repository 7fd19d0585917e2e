"""The manifests of the chart on a real API server: it takes them all, and namespaces can opt in."""

import json
from pathlib import Path

import pytest
import yaml

from tests.e2e.cluster import Cluster
from tests.e2e.manifests import pod
from tests.e2e.policies import define
from tests.e2e.programs import needs_mutating_policies
from tests.e2e.waiting import until

pytestmark = pytest.mark.e2e

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = DEPLOY / "kustomize" / "base" / "placet.yaml"
OBJECTS = list(yaml.safe_load_all(MANIFESTS.read_text()))
# What opts pods of a namespace in.
POLICIES = [each for each in OBJECTS if each["kind"].startswith("MutatingAdmissionPolicy")]
SECONDS = 60.0


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(MANIFESTS, marks=needs_mutating_policies),
        *(
            pytest.param(file, marks=needs_mutating_policies if "policy" in file.stem else ())
            for file in sorted((DEPLOY / "admission").iterdir())
        ),
    ],
    ids=lambda file: file.stem,
)
def test_the_api_server_takes_every_object(cluster: Cluster, file: Path) -> None:
    """With all fields that it knows, and no others."""
    flags = ("--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts")
    text = cluster.kubectl("apply", *flags, "-f", str(file))
    assert text.count("(server dry run)") == len(list(yaml.safe_load_all(file.read_text())))


def test_the_api_server_takes_every_example_of_the_library(cluster: Cluster) -> None:
    define(cluster)
    flags = ("--dry-run=server", "--validate=strict")
    text = cluster.kubectl("apply", *flags, "-f", str(DEPLOY / "examples"))
    assert text.count("(server dry run)") == len([*(DEPLOY / "examples").glob("*.yaml")])


def test_one_name_lists_both_kinds(cluster: Cluster) -> None:
    define(cluster)
    names = ("one-per-zone", "headroom")
    for name in names:
        made = yaml.safe_load((DEPLOY / "examples" / f"{name}.yaml").read_text())
        made["metadata"].pop("namespace", None)
        cluster.kubectl("apply", "-n", cluster.namespace, "-f", "-", text=json.dumps(made))
    try:
        found = cluster.kubectl("get", "placet", "-n", cluster.namespace, "-o", "name")
        assert {line.rpartition("/")[2] for line in found.splitlines()} == set(names)
    finally:
        cluster.kubectl("delete", "clusterplacementpolicies", "--all")


def test_pods_are_as_restricted_as_the_standard_asks(cluster: Cluster) -> None:
    """A namespace that enforces it takes a pod of the Deployment's template."""
    label = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", cluster.namespace, label)
    (deployment,) = (each for each in OBJECTS if each["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    # The account is in another namespace.
    spec = template["spec"] | {"serviceAccountName": "default"}
    made = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "placet", "namespace": cluster.namespace},
        "spec": spec,
    }
    cluster.kubectl("create", "serviceaccount", "default", "-n", cluster.namespace)
    done = cluster.try_kubectl("create", "--dry-run=server", "-f", "-", text=json.dumps(made))
    assert done.returncode == 0, done.stderr


@needs_mutating_policies
def test_pods_of_a_namespace_that_opts_in_get_the_second_scheduler(cluster: Cluster) -> None:
    def scheduler(labels: dict[str, str] | None = None, **spec: object) -> str:
        text = json.dumps(pod("asked", cluster.namespace, labels, cpu="100m", **spec))
        answer = cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", text=text)
        found: str = json.loads(answer)["spec"]["schedulerName"]
        return found

    cluster.apply(*POLICIES)
    try:
        assert scheduler() == "default-scheduler"
        cluster.kubectl("label", "namespace", cluster.namespace, "placet.dev/scheduling=enabled")
        until(lambda: scheduler() == "placet", SECONDS, lambda: "the policy in force")
        assert scheduler(schedulerName="default-scheduler") == "placet"
        assert scheduler(schedulerName="other") == "other"
        assert scheduler(nodeName="n-1") == "default-scheduler"
    finally:
        for each in POLICIES:
            cluster.kubectl("delete", each["kind"], each["metadata"]["name"])
