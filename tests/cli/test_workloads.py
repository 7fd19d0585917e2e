"""Workloads in the place of pods: explain, eval and simulate."""

from pathlib import Path

import pytest

from tests.cli import shop
from tests.cli.conftest import Placet
from tests.support.builders import Object, controller, kubectl_list, pod, raw

# What Helm prints: several kinds, and no namespaces.
CHART = """\
apiVersion: v1
kind: Service
metadata: {name: web}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: api}
spec:
  replicas: 3
  template:
    metadata: {labels: {tier: web}}
    spec:
      priorityClassName: high
      containers: [{name: c, image: x, resources: {limits: {cpu: 500m, memory: 128Mi}}}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  template:
    metadata: {labels: {tier: agent}}
    spec:
      nodeSelector: {capacity: spot}
      containers: [{name: c, image: x}]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shop.write(tmp_path)
    (tmp_path / "chart.yaml").write_text(CHART, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_pod_of_a_workload_in_a_file_is_explained(placet: Placet, folder: Path) -> None:
    done = placet("explain", "deploy/api", "--pod-file", "chart.yaml", "-n", "shop", *shop.WORLD)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("pod shop/api-")
    # The pods of the Deployment have the tier that the policy is for.
    assert "shop/shop     governs" in done.out


def test_a_chart_may_be_piped_in(placet: Placet, folder: Path) -> None:
    words = ("eval", "pod.workload.kind", "--cluster", "cluster.json", "--pod-file", "-")
    done = placet(*words, "--pod", "deployment/api", stdin=CHART)
    assert (done.out, done.err) == ('"Deployment" : string\n', "")
    done = placet(*words, stdin=CHART)
    hint = "  = help: name one of them, as in `deployment/api`"
    assert done.err == (
        f"error: `-` has several pods and workloads: Deployment `api`, DaemonSet `agent`\n{hint}\n"
    )


def test_a_pod_of_a_chart_has_its_priority(placet: Placet, folder: Path) -> None:
    words = ("eval", "pod.priority", "--pod-file", "chart.yaml", "--pod", "deploy/api")
    assert placet(*words, "--cluster", "cluster.json").out == "1000 : int\n"


def test_a_workload_of_the_cluster_stands_for_a_pending_pod_of_it(
    placet: Placet, folder: Path
) -> None:
    done = placet("explain", "rs/web", "-n", "shop", *shop.WORLD)
    assert (
        done.err
        == "note: ReplicaSet/web in namespace `shop` has 2 pods, 1 of them pending: this is web-1\n"
    )
    assert done.out.startswith("pod shop/web-1 at ")


def test_a_workload_without_pods_stands_for_the_pod_that_it_would_create(
    placet: Placet, folder: Path
) -> None:
    template = {"metadata": {"labels": {"tier": "web"}}, "spec": {"containers": [{"name": "c"}]}}
    job: Object = controller("Job", "import", "shop")
    job["spec"] = {"template": template}
    (folder / "cluster.json").write_bytes(raw(kubectl_list([*shop.cluster(), job])))
    done = placet("explain", "job/import", "-n", "shop", *shop.WORLD)
    assert done.err == (
        "note: Job/import in namespace `shop` has no pod: this is the pod that it would create\n"
    )
    assert done.out.startswith("pod shop/import-1 at ")
    done = placet("explain", "job/imports", "-n", "shop", *shop.WORLD)
    assert done.err == (
        "error: there is no Job `shop/imports`\n  = help: a similar name exists: `shop/import`\n"
    )


FULL = {"hard": {"pods": "2"}, "used": {"pods": "2"}}


@pytest.mark.parametrize(
    ("wanted", "status", "named"), [(5, FULL, True), (2, FULL, False), (5, {}, False)]
)
def test_the_quota_that_stops_the_pods_of_a_workload_is_named(
    placet: Placet, folder: Path, wanted: int, status: Object, *, named: bool
) -> None:
    """No pod tells it: those that it stops do not exist."""
    metadata = {"name": "team", "namespace": "shop"}
    quota: Object = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata}
    job: Object = controller("Job", "import", "shop", replicas=wanted)
    job["spec"]["template"] = {"spec": {"containers": [{"name": "c"}]}}
    made = [pod(f"import-{n}", "shop", owner=job) for n in range(2)]
    empty: Object = controller("ReplicaSet", "empty", "shop", replicas=1)
    empty["spec"]["template"] = job["spec"]["template"]
    items = [*shop.cluster(), job, empty, *made, {**quota, "status": status}]
    (folder / "cluster.json").write_bytes(raw(kubectl_list(items)))
    lines = placet("explain", "job/import", "-n", "shop", *shop.WORLD).err.splitlines()
    said = "note: Job/import has made 2 of its 5 pods: ResourceQuota/team has used 2 of 2 pods"
    assert lines[0].endswith("has 2 pods, 2 of them pending: this is import-0")
    assert lines[1:] == [said] * named
    lines = placet("explain", "rs/empty", "-n", "shop", *shop.WORLD).err.splitlines()
    said = "note: ReplicaSet/empty has made 0 of its 1 pods: ResourceQuota/team has used"
    assert [line.startswith(said) for line in lines[1:]] == [True] * bool(status)


def test_a_namespace_may_have_the_name_of_a_type(placet: Placet, folder: Path) -> None:
    text = (folder / "cluster.json").read_text().replace('"far"', '"jobs"')
    (folder / "cluster.json").write_text(text)
    done = placet("explain", "jobs/db-0", *shop.WORLD)
    assert done.out.startswith("pod jobs/db-0 at ")


def test_the_pods_of_workloads_are_scheduled(placet: Placet, folder: Path) -> None:
    done = placet("simulate", "--pods", "-", "-n", "shop", *shop.WORLD, stdin=CHART)
    assert done.code == 0
    # Of the DaemonSet one pod, because only one node has the label.
    assert "skipped 2 objects without pods" in done.err
    assert "of 4 pods placed" in done.out


def test_a_deployment_without_replicas_has_nothing_to_schedule(
    placet: Placet, folder: Path
) -> None:
    chart = CHART.replace("replicas: 3", "replicas: 0").partition(
        "---\napiVersion: apps/v1\nkind: D"
    )
    text = chart[0] + "---\napiVersion: apps/v1\nkind: D" + chart[2].partition("---")[0]
    done = placet("simulate", "--pods", "-", *shop.WORLD, stdin=text)
    assert done.code == 2
    assert done.err.startswith("error: there are no pods to schedule in `-`")
