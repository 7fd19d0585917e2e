"""The pods that the controllers of Kubernetes create."""

import pytest

from engine.objects.workload_pods import WorkloadError, kind_called, pinned, pods_of
from tests.support.builders import Object


def workload(kind: str, **spec: object) -> Object:
    """A workload `web` whose template has the label `app`."""
    version = "batch/v1" if kind in ("Job", "CronJob") else "apps/v1"
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c"}]}}
    body: Object = {"template": template, **spec}
    if kind == "CronJob":
        body = {"jobTemplate": {"metadata": {"labels": {"run": "yes"}}, "spec": body}}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "web"}, "spec": body}


def names(kind: str, **spec: object) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods_of(workload(kind, **spec), "shop").pods]


@pytest.mark.parametrize(
    ("kind", "spec", "expected"),
    [
        ("StatefulSet", {"replicas": 2}, ["web-0", "web-1"]),
        ("StatefulSet", {"replicas": 2, "ordinals": {"start": 5}}, ["web-5", "web-6"]),
        ("StatefulSet", {}, ["web-0"]),
        ("ReplicaSet", {"replicas": 0}, []),
        ("Job", {"parallelism": 3}, ["web-1", "web-2", "web-3"]),
        ("Job", {"parallelism": 3, "completions": 2}, ["web-1", "web-2"]),
        ("Job", {"completions": 5}, ["web-1"]),
        ("Job", {"parallelism": 2, "completionMode": "Indexed"}, ["web-0", "web-1"]),
        ("CronJob", {"parallelism": 2}, ["web-run-1", "web-run-2"]),
        ("DaemonSet", {}, ["web-1"]),
    ],
)
def test_a_workload_has_as_many_pods_as_it_wants_at_once(
    kind: str, spec: Object, expected: list[str]
) -> None:
    assert names(kind, **spec) == expected


def test_pods_of_a_deployment_belong_to_a_replica_set_of_their_template() -> None:
    made = pods_of(workload("Deployment", replicas=2), "shop")
    first, second = (pod["metadata"] for pod in made.pods)
    digest = first["labels"]["pod-template-hash"]
    assert first["labels"] == {"app": "web", "pod-template-hash": digest}
    assert (first["name"], second["name"]) == (f"web-{digest}-1", f"web-{digest}-2")
    (owner,) = first["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == (
        "ReplicaSet",
        f"web-{digest}",
        True,
    )
    deployment, replica_set = (each["metadata"] for each in made.controllers)
    assert owner["uid"] == replica_set["uid"]
    assert replica_set["ownerReferences"][0]["uid"] == deployment["uid"]
    changed = workload("Deployment")
    changed["spec"]["template"]["spec"]["hostNetwork"] = True
    other = pods_of(changed, "shop").example["metadata"]["labels"]["pod-template-hash"]
    assert other != digest


def test_a_workload_of_the_cluster_keeps_its_uid() -> None:
    known = {("Deployment", "shop/web"): "u-1"}
    made = pods_of(workload("Deployment"), "shop", lambda kind, key: known.get((kind, key)))
    assert made.controllers[0]["metadata"]["uid"] == "u-1"


def test_a_workload_that_wants_no_pod_has_an_example() -> None:
    made = pods_of(workload("Deployment", replicas=0), "shop")
    assert (made.pods, made.example["metadata"]["namespace"]) == ([], "shop")


def test_pods_of_jobs_and_of_stateful_sets_are_labelled() -> None:
    indexed = pods_of(workload("Job", completionMode="Indexed"), "shop").example["metadata"]
    assert indexed["labels"]["batch.kubernetes.io/job-completion-index"] == "0"
    assert indexed["labels"]["job-name"] == "web"
    run = pods_of(workload("CronJob"), "shop").example["metadata"]
    assert run["labels"]["batch.kubernetes.io/job-name"] == "web-run"
    ordinal = pods_of(workload("StatefulSet"), "shop").example["metadata"]["labels"]
    assert ordinal["apps.kubernetes.io/pod-index"] == "0"
    assert ordinal["statefulset.kubernetes.io/pod-name"] == "web-0"


def test_the_pod_of_a_daemon_set_is_for_one_node_and_tolerates_its_state() -> None:
    made = pods_of(workload("DaemonSet"), "shop")
    assert made.of_each_node
    keys = [each["key"] for each in made.example["spec"]["tolerations"]]
    assert "node.kubernetes.io/unschedulable" in keys
    assert "node.kubernetes.io/network-unavailable" not in keys
    there = pinned(made.example, "n-1")
    assert there["metadata"]["name"] == "web-n-1"
    required = there["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert required["nodeSelectorTerms"] == [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n-1"]}]}
    ]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (workload("Deployment", replicas=-1), "`replicas` of the Deployment `shop/web` is no num"),
        (workload("Deployment", replicas="3"), "`replicas` of the Deployment `shop/web` is no num"),
        (workload("Deployment", template={}), "the Deployment `shop/web` has no pod template"),
        ({"kind": "Job", "metadata": {}}, "a Job has no name"),
        (
            workload("Job", parallelism="2", completions=3),
            "`parallelism` of the Job `shop/web` is no number",
        ),
    ],
)
def test_a_workload_without_pods_is_an_error(item: Object, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        pods_of(item, "shop")


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("deploy", "Deployment"),
        ("deployments.apps", "Deployment"),
        ("sts", "StatefulSet"),
        ("CronJob", "CronJob"),
        ("deploy.batch", None),
        ("shop", None),
    ],
)
def test_kinds_are_called_as_kubectl_calls_them(word: str, kind: str | None) -> None:
    assert kind_called(word) == kind
