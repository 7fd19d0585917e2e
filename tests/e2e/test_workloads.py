"""Gangs of JobSet, LeaderWorkerSet, Kueue and Spark: whole at each run, and each runs to its end.

Their controllers are the real ones, and the policies are those of docs/gangs.md. What a kubelet
does is played: pods of Jobs run for some seconds, and end. There is never room for all gangs, so
half of one would be seen: its members would be bound seconds after the first.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane, controller_manager
from tests.e2e.gangs import GangServer, gang_server
from tests.e2e.kubelets import Kubelets, PlacedPod, kubelets
from tests.e2e.manifests import node, owned_by, pod
from tests.e2e.placet import REPOSITORY
from tests.e2e.process import built_tool, until
from tests.e2e.projects import project

pytestmark = pytest.mark.e2e

POLICIES = (REPOSITORY / "docs/examples/workloads/workloads.policy").read_text(encoding="utf-8")
CONTROLLERS = ("job-controller", "statefulset-controller", "garbage-collector-controller")
# How long pods of Jobs run, and how far apart the members of a gang are bound at most.
RUN_SECONDS, WHOLE_SECONDS = 5.0, 2.0
END_SECONDS = 120.0
SET, LWS = "jobset.sigs.k8s.io", "leaderworkerset.sigs.k8s.io"
QUEUE = "kueue.x-k8s.io"
MEMBERS = "placet.dev/gang-members"


@dataclass
class Runs:
    """The runs of gangs: when their pods were bound, by the name of each gang.

    Pods of Jobs end well after some seconds; those whose names begin so fail instead, once. A pod
    whose gang is None is in none.
    """

    gang_of: Callable[[PlacedPod], str | None]
    ends: bool = True
    failing: set[str] = field(default_factory=set)
    bound: dict[str, list[float]] = field(default_factory=dict)
    kubelets: Kubelets | None = None

    def began(self, placed: PlacedPod) -> None:
        """Take a pod that has got its node."""
        if (gang := self.gang_of(placed)) is not None:
            self.bound.setdefault(gang, []).append(time.monotonic())
        if self.ends:
            assert self.kubelets is not None, "they run"
            named = {each for each in self.failing if placed.name.startswith(each)}
            self.failing -= named
            self.kubelets.end(placed, "Failed" if named else "Succeeded", RUN_SECONDS)

    def number(self, gang: str) -> int:
        """How many pods of a gang have been bound."""
        return len(self.bound.get(gang, ()))

    def check(self, gangs: GangServer, size: int, runs: Mapping[str, int]) -> None:
        """Assert that so many runs of each gang, and no others, have begun whole, as gangs."""
        assert {gang: len(times) / size for gang, times in self.bound.items()} == dict(runs)
        apart = {
            (gang, first // size): times[first + size - 1] - times[first]
            for gang, times in self.bound.items()
            for first in range(0, len(times), size)
        }
        assert all(seconds <= WHOLE_SECONDS for seconds in apart.values()), apart
        assert gangs.value("placet_gangs_total", state="released") == sum(runs.values())


@dataclass(frozen=True)
class Site:
    """Where gangs run: a cluster with the controllers of Jobs and StatefulSets, and Placet."""

    plane: ControlPlane
    cluster: Cluster
    gangs: GangServer
    folder: Path
    config: pytest.Config
    programs: ExitStack

    def install(self, program: Path, sample: dict[str, Any], default: str) -> None:
        running = project(self.plane, self.cluster, self.folder, program, sample, default)
        self.programs.enter_context(running)

    def install_jobset(self) -> None:
        sample = jobset("sample", {"leader": 1}, 1)
        self.install(built_tool(self.config, "jobset"), sample, '"completionMode": "Indexed"')

    def create(self, manifest: dict[str, Any]) -> None:
        where = ("-n", self.cluster.namespace, "create", "-f", "-")
        self.cluster.kubectl(*where, text=json.dumps(manifest))

    def start_controllers(self) -> None:
        """Start those of Kubernetes, which learn of kinds at their start."""
        running = controller_manager(self.plane, self.folder, CONTROLLERS)
        self.programs.enter_context(running)

    @contextmanager
    def runs(self, gang_of: Callable[[PlacedPod], str | None], **more: Any) -> Iterator[Runs]:
        found = Runs(gang_of, **more)
        with kubelets(self.plane, self.cluster.namespace, found.began) as running:
            found.kubelets = running
            yield found

    def wait_condition(self, kind: str, name: str, condition: str) -> None:
        """Return once an object has a condition that is true."""

        def has() -> bool:
            form = f'jsonpath={{.status.conditions[?(@.type=="{condition}")].status}}'
            where = ("-n", self.cluster.namespace, "get", kind, name)
            return self.cluster.kubectl(*where, "-o", form) == "True"

        until(has, END_SECONDS, lambda: self.told(kind), 0.5)

    def told_pods(self) -> str:
        return self.told("events")

    def told(self, kind: str) -> str:
        where = ("-n", self.cluster.namespace, "get", f"{kind},pods", "-o", "wide")
        server = self.gangs.server.process.tail()
        return f"{self.cluster.kubectl(*where)}\n{self.cluster.placements()}\n{server}"

    def field(self, kind: str, name: str, path: str) -> str:
        where = ("-n", self.cluster.namespace, "get", kind, name)
        return self.cluster.kubectl(*where, "-o", f"jsonpath={{{path}}}")


@pytest.fixture
def site(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path, pytestconfig: pytest.Config
) -> Iterator[Site]:
    with ExitStack() as programs:
        gangs = programs.enter_context(gang_server(plane, tmp_path, POLICIES))
        yield Site(plane, cluster, gangs, tmp_path, pytestconfig, programs)


def of_set(placed: PlacedPod) -> str | None:
    labels = placed.labels
    return f"{labels[f'{SET}/jobset-name']} {labels[f'{SET}/restart-attempt']}"


def jobset(name: str, jobs: Mapping[str, int], members: int, **spec: Any) -> dict[str, Any]:
    """A JobSet with so many pods of 1 CPU in a Job of each name."""
    template = pod("", "", cpu="1")["spec"]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {
            **spec,
            "replicatedJobs": [
                {
                    "name": job,
                    "replicas": 1,
                    "template": {
                        "spec": {
                            "backoffLimit": 0,
                            "completions": size,
                            "parallelism": size,
                            "template": {
                                "metadata": {"annotations": {MEMBERS: str(members)}},
                                "spec": template,
                            },
                        }
                    },
                }
                for job, size in jobs.items()
            ],
        },
    }


def in_queue(manifest: dict[str, Any]) -> dict[str, Any]:
    manifest["metadata"].setdefault("labels", {})[f"{QUEUE}/queue-name"] = "user-queue"
    return manifest


LEADER_AND_WORKERS = {"leader": 2, "workers": 2}


def test_jobset(site: Site) -> None:
    """Its example `simple/failure-policy.yaml`, with 1 CPU a pod, twice where one fits.

    One restarts as in the example, and one by the default strategy. The first pod of the leader's
    Job fails, so each set is restarted, and its second run is whole too.
    """
    cluster = site.cluster
    site.install_jobset()
    site.start_controllers()
    cluster.create_nodes(node(f"n{number}", cpu="3") for number in range(2))
    sets = {"one": "BlockingRecreate", "two": "Recreate"}
    failing = {f"{name}-leader-0-0" for name in sets}
    with site.runs(of_set, failing=failing) as runs:
        for name, strategy in sets.items():
            failure = {"restartStrategy": strategy, "maxRestarts": 3}
            site.create(jobset(name, LEADER_AND_WORKERS, 4, failurePolicy=failure))
        for name in sets:
            site.wait_condition("jobsets", name, "Completed")
            assert site.field("jobsets", name, ".status.restarts") == "1"
        runs.check(site.gangs, 4, {f"{name} {attempt}": 1 for name in sets for attempt in range(2)})


# ---- LeaderWorkerSet: groups that are made anew when one of their pods restarts


def of_group(placed: PlacedPod) -> str:
    return placed.labels[f"{LWS}/group-index"]


def restart_container(site: Site, name: str) -> None:
    """Say that the container of a pod has ended and runs again, as a kubelet does."""
    started = {"startedAt": "2026-01-01T00:00:00Z"}
    container = {"name": "nginx", "image": "nginx", "imageID": "", "ready": True}
    status = {
        "containerStatuses": [{**container, "restartCount": 1, "state": {"running": started}}]
    }
    path = f"/api/v1/namespaces/{site.cluster.namespace}/pods/{name}/status"
    Api(site.plane).request("PATCH", path, {"status": status})


def test_leader_worker_set(site: Site) -> None:
    """Its sample `leaderworkerset_v1_leaderworkerset.yaml`, as two groups of three, 1 CPU a pod.

    One fits. A worker's container restarts, and later a leader is deleted with what it owns: each
    time the group is made anew, and is whole again.
    """
    cluster, size, name = site.cluster, 3, "leaderworkerset-sample"
    program = built_tool(site.config, "lws")
    samples = program.parent / "lws-config" / "samples"
    sample = yaml.safe_load((samples / "leaderworkerset_v1_leaderworkerset.yaml").read_text())
    template = sample["spec"]["leaderWorkerTemplate"]
    sample["spec"]["replicas"], template["size"] = 2, size
    cpu = {"cpu": "1"}
    for container in template["workerTemplate"]["spec"]["containers"]:
        container["resources"] = {"limits": cpu, "requests": cpu}
    site.install(program, sample, "subdomainPolicy")
    site.start_controllers()
    cluster.create_nodes(node(f"n{number}", cpu="2") for number in range(2))
    with site.runs(of_group, ends=False) as runs:
        site.create(sample)
        until(lambda: any(runs.number(each) == size for each in "01"), 60.0, site.told_pods)
        time.sleep(WHOLE_SECONDS)
        [first] = runs.bound
        second = str(1 - int(first))
        restart_container(site, f"{name}-{first}-1")
        until(lambda: sum(map(runs.number, "01")) == 2 * size, 60.0, site.told_pods)
        time.sleep(WHOLE_SECONDS)
        cluster.create_nodes([node("n2", cpu="2")])
        site.wait_condition("leaderworkersets", name, "Available")
        begun = {each: runs.number(each) // size for each in (first, second)}
        assert begun == {first: 2, second: 1}
        runs.check(site.gangs, size, begun)
        flags = ("--wait=false", "--cascade=foreground")
        cluster.kubectl("-n", cluster.namespace, "delete", "pod", f"{name}-0", *flags)
        until(lambda: runs.number("0") == (begun["0"] + 1) * size, 60.0, site.told_pods)
        runs.check(site.gangs, size, begun | {"0": begun["0"] + 1})
        site.wait_condition("leaderworkersets", name, "Available")
        cluster.kubectl("-n", cluster.namespace, "delete", "leaderworkerset", name)
        until(lambda: not cluster.placements(), 60.0, site.told_pods)


# ---- Kueue: what has quota begins, and is whole where there is room


QUEUES = f"""
apiVersion: {QUEUE}/v1beta2
kind: ResourceFlavor
metadata: {{name: default-flavor}}
---
apiVersion: {QUEUE}/v1beta2
kind: ClusterQueue
metadata: {{name: cluster-queue}}
spec:
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: [cpu, memory]
    flavors:
    - name: default-flavor
      resources:
      - {{name: cpu, nominalQuota: 9}}
      - {{name: memory, nominalQuota: 36Gi}}
---
apiVersion: {QUEUE}/v1beta2
kind: LocalQueue
metadata: {{name: user-queue}}
spec: {{clusterQueue: cluster-queue}}
"""


def job(name: str) -> dict[str, Any]:
    """A Job of three pods."""
    template = pod("", "", cpu="1", restartPolicy="Never")
    spec = {"parallelism": 3, "completions": 3, "template": {"spec": template["spec"]}}
    return in_queue(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    )


def of_queue(placed: PlacedPod) -> str:
    names = (f"{SET}/jobset-name", f"{QUEUE}/pod-group-name", "batch.kubernetes.io/job-name")
    return next(placed.labels[name] for name in names if name in placed.labels)


def test_kueue(site: Site) -> None:
    """Its examples: `single-clusterqueue-setup.yaml` with `sample-job.yaml`, several times.

    Then `sample-jobset.yaml` and `kueue-pod-group.yaml`, with three pods of 1 CPU each. Three Jobs
    have quota at a time, and one of them room.
    """
    cluster, size = site.cluster, 3
    site.install_jobset()
    site.install(built_tool(site.config, "kueue"), job("sample"), '"suspend": true')
    site.start_controllers()
    cluster.kubectl("-n", cluster.namespace, "create", "-f", "-", text=QUEUES)
    cluster.create_nodes(node(f"n{number}", cpu="2") for number in range(2))
    jobs = ("one", "two", "three", "four")
    with site.runs(of_queue) as runs:
        for name in jobs[:3]:
            site.create(job(name))
        for name in jobs[:3]:
            until(lambda n=name: site.field("job", n, ".spec.suspend") == "false", 30.0, str)  # type: ignore[misc]
        site.create(job("four"))
        site.create(in_queue(jobset("set", {"workers": 2, "driver": 1}, size)))
        assert site.field("job", "four", ".spec.suspend") == "true"
        for number in range(size):
            labels = {f"{QUEUE}/pod-group-name": "group"}
            made = in_queue(pod(f"group-{number}", cluster.namespace, labels, cpu="1"))
            made["metadata"]["annotations"] = {f"{QUEUE}/pod-group-total-count": str(size)}
            made["spec"]["restartPolicy"] = "Never"
            site.create(made)
        for name in jobs:
            site.wait_condition("jobs", name, "Complete")
        site.wait_condition("jobsets", "set", "Completed")
        until(lambda: site.field("pod", "group-0", ".status.phase") == "Succeeded", 60.0, str)
        runs.check(site.gangs, size, dict.fromkeys((*jobs, "set", "group"), 1))


# ---- Spark: a driver makes its executors when it runs


def of_app(placed: PlacedPod) -> str | None:
    if placed.labels["spark-role"] == "driver":
        return None
    return placed.labels["spark-app-selector"]


def executor(driver: dict[str, Any], app: str, number: int, of: int) -> dict[str, Any]:
    labels = {
        "spark-app-selector": app,
        "spark-exec-id": str(number),
        "spark-exec-resourceprofile-id": "0",
        "spark-role": "executor",
    }
    made = pod(
        f"{app}-exec-{number}",
        driver["metadata"]["namespace"],
        labels,
        cpu="1",
        restartPolicy="Never",
    )
    made["metadata"]["annotations"] = {MEMBERS: str(of)}
    return owned_by(driver, made)


def test_spark(site: Site) -> None:
    """Pods as Spark makes them on Kubernetes: two drivers, each with three executors of its own.

    Six of the eight fit. An executor fails, and its driver makes another one, which comes alone.
    """
    cluster, size, apps = site.cluster, 3, ("spark-one", "spark-two")
    site.start_controllers()
    cluster.create_nodes(node(f"n{number}", cpu="3") for number in range(2))
    api, path = Api(site.plane), f"/api/v1/namespaces/{cluster.namespace}/pods"
    with site.runs(of_app, ends=False) as runs:
        assert runs.kubelets is not None
        for app in apps:
            labels = {"spark-app-selector": app, "spark-role": "driver"}
            made = pod(f"{app}-driver", cluster.namespace, labels, cpu="1", restartPolicy="Never")
            cluster.create_pods([made])
        cluster.wait_placed([f"{app}-driver" for app in apps])
        drivers = {app: api.request("GET", f"{path}/{app}-driver") for app in apps}
        for number in range(1, size + 1):
            cluster.create_pods(executor(drivers[app], app, number, size) for app in apps)
        left = [*apps]
        while left:
            until(lambda: any(runs.number(app) == size for app in left), 60.0, site.told_pods)
            app = next(app for app in left if runs.number(app) == size)
            time.sleep(WHOLE_SECONDS)
            assert set(runs.bound) == {*apps} - {*left} | {app}
            runs.kubelets.end(runs.kubelets.pods[f"{app}-exec-1"], "Failed")
            cluster.create_pods([executor(drivers[app], app, size + 1, size)])
            cluster.wait_placed([f"{app}-exec-{size + 1}"])
            runs.bound[app].pop()
            for each in [*runs.kubelets.pods.values()]:
                if each.name.startswith(app):
                    runs.kubelets.end(each, "Succeeded")
            left.remove(app)
        runs.check(site.gangs, size, dict.fromkeys(apps, 1))
        # The executors end with their driver.
        cluster.delete_pod("spark-one-driver")
        gone = f"{path}?labelSelector=spark-app-selector%3Dspark-one"
        until(lambda: not api.request("GET", gone)["items"], 30.0, site.told_pods)
