"""The gate on a real control plane: who is marked, who is asked about, and what is reported."""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.api import Api, ApiError
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, started_kube_scheduler
from tests.e2e.manifests import node, pod
from tests.e2e.placet import placet
from tests.e2e.policies import define, policy, wait_ready
from tests.e2e.process import free_port, needs_mutating_policies, until
from tests.e2e.recorder import recorder
from tests.e2e.stage import GOVERNED
from tests.e2e.webhooks import webhook_replicas

pytestmark = pytest.mark.e2e

LOG = logging.getLogger(__name__)
ADMISSION = Path(__file__).parents[2] / "deploy" / "admission"
GATE, OPT_IN = "placet.dev/gate", "placet.dev/scheduling"
MANAGED = {"managedResources": [{"name": GATE}]}
SECONDS = 30.0
PODS = int(os.environ.get("PODS") or 1_000)
# The API server sees a new label of a namespace this much later: its own watch brings it.
LABEL_SECONDS = 1.0
READY = 'filter "ready" { require node.ready }'
by_policy_and_webhook = pytest.mark.parametrize(
    "by", [pytest.param("policy", marks=needs_mutating_policies), "webhook"]
)


@pytest.fixture
def other(plane: ControlPlane) -> Iterator[Cluster]:
    """Return a namespace that does not opt in."""
    made = Cluster(plane, f"e2e-{secrets.token_hex(4)}")
    yield made
    made.delete_pods()


@contextmanager
def applied(cluster: Cluster, *objects: dict[str, Any] | Path) -> Iterator[None]:
    """Admission objects for as long as a block runs."""
    texts = [each.read_text() if isinstance(each, Path) else json.dumps(each) for each in objects]
    for text in texts:
        cluster.kubectl("apply", "-f", "-", text=text)
    try:
        yield
    finally:
        for text in texts:
            cluster.kubectl("delete", "--ignore-not-found", "-f", "-", text=text)


def label(cluster: Cluster, value: str = "enabled") -> None:
    cluster.kubectl("label", "--overwrite", "namespace", cluster.namespace, f"{OPT_IN}={value}")


def dry_run(cluster: Cluster, made: dict[str, Any]) -> dict[str, Any]:
    """Return a pod as the API server would store it."""
    text = json.dumps(made)
    shown = cluster.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", text=text)
    found: dict[str, Any] = json.loads(shown)
    return found


def is_marked(found: dict[str, Any]) -> bool:
    sides = found["spec"]["containers"][0]["resources"]
    both = [(sides.get(side) or {}).get(GATE) for side in ("requests", "limits")]
    assert both in (["0", "0"], [None, None])
    return both == ["0", "0"]


def wait_marks(cluster: Cluster) -> None:
    """Return once pods of the namespace are marked."""
    made = pod("asked", cluster.namespace)
    until(lambda: is_marked(dry_run(cluster, made)), SECONDS, lambda: "pods are marked")


@needs_mutating_policies
def test_only_marked_pods_are_asked_about(
    plane: ControlPlane, cluster: Cluster, other: Cluster, tmp_path: Path
) -> None:
    """Of two namespaces one opts in; a policy and a score would apply to the pods of both."""
    cluster.create_nodes(node(f"n{number}") for number in range(10))
    policies = tmp_path / "web.policy"
    policies.write_text(f'cluster policy all {{ {READY} score "s" weight 1 {{ value 1 }} }}')
    label(cluster)
    flags = f"--kubeconfig={plane.placet_kubeconfig}", "--lease=none", "--gate"
    with (
        applied(cluster, ADMISSION / "gate-policy.yaml"),
        placet(tmp_path, policies, *flags) as server,
        recorder(server.port) as calls,
    ):
        server.wait_ready()
        wait_marks(cluster)
        entry = extender(calls.address, node_cache_capable=True) | MANAGED
        with started_kube_scheduler(plane, tmp_path, [entry], {}):
            marked = [f"in-{number}" for number in range(50)]
            others = [f"out-{number}" for number in range(50)]
            cluster.create_pods(pod(name, cluster.namespace, GOVERNED) for name in marked)
            other.create_pods(pod(name, other.namespace, GOVERNED) for name in others)
            cluster.wait_placed(marked)
            other.wait_placed(others)
    for verb in ("filter", "prioritize"):
        assert sorted(call.pod for call in calls.calls(verb)) == sorted(marked)
    assert calls.failures() == []


FIRST: dict[str, dict[str, Any]] = {
    "requests": {"requests": {"cpu": "100m"}},
    "limits": {"limits": {"cpu": "100m", "memory": "64Mi"}},
    "nothing": {},
}


@by_policy_and_webhook
def test_a_marker_changes_nothing_else(cluster: Cluster, tmp_path: Path, by: str) -> None:
    """The class of service, other resources, what LimitRange adds, and containers that follow."""
    limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "defaults", "namespace": cluster.namespace},
        "spec": {"limits": [{"type": "Container", "defaultRequest": {"memory": "32Mi"}}]},
    }
    plain = {name: dry_run(cluster, _pod(cluster, name)) for name in FIRST}
    label(cluster)
    with webhook_replicas(tmp_path, 1) as replicas:
        marks: Path | dict[str, Any] = ADMISSION / "gate-policy.yaml"
        if by == "webhook":
            marks = replicas.configuration(ADMISSION / "gate.yaml")
        with applied(cluster, marks):
            wait_marks(cluster)
            for name, before in plain.items():
                found = dry_run(cluster, _pod(cluster, name))
                assert is_marked(found)
                assert found["status"]["qosClass"] == before["status"]["qosClass"]
                assert unmarked(found) == before["spec"]
            cluster.apply(limits)
            (first, second) = dry_run(cluster, _pod(cluster, "nothing"))["spec"]["containers"]
            assert first["resources"]["requests"] == {"memory": "32Mi", GATE: "0"}
            assert second["resources"]["requests"] == {"memory": "32Mi"}
            kept = _pod(cluster, "nothing")
            kept["spec"]["containers"][1]["resources"] = {"limits": {GATE: "7"}}
            resources = [c["resources"] for c in dry_run(cluster, kept)["spec"]["containers"]]
            assert [each.get("limits") for each in resources] == [None, {GATE: "7"}]
            static = pod("static", cluster.namespace, nodeName="n-1")
            assert not is_marked(dry_run(cluster, static))


def _pod(cluster: Cluster, name: str) -> dict[str, Any]:
    made = pod(name, cluster.namespace)
    (container,) = made["spec"]["containers"]
    container["resources"] = FIRST[name]
    made["spec"]["containers"] = [container, {"name": "second", "image": "registry.example/s:1"}]
    return made


def unmarked(found: dict[str, Any]) -> dict[str, Any]:
    """The spec of a pod without the marker in its first container."""
    spec: dict[str, Any] = found["spec"]
    resources = spec["containers"][0]["resources"]
    for side in ("requests", "limits"):
        del resources[side][GATE]
        if not resources[side]:
            del resources[side]
    return spec


@needs_mutating_policies
def test_what_a_quota_and_a_range_say_about_the_marker(cluster: Cluster) -> None:
    """An amount of 0 is within any maximum; a minimum for the marker refuses every marked pod."""
    label(cluster)

    def limits(**bounds: str) -> dict[str, Any]:
        found = {name: {GATE: amount} for name, amount in bounds.items()}
        return {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "gate", "namespace": cluster.namespace},
            "spec": {"limits": [{"type": "Container", **found}]},
        }

    with applied(cluster, ADMISSION / "gate-policy.yaml"):
        wait_marks(cluster)
        cluster.apply(limits(max="0", min="0", default="0", defaultRequest="0"))
        assert is_marked(dry_run(cluster, pod("asked", cluster.namespace)))


@needs_mutating_policies
def test_a_webhook_that_replaces_resources_is_followed_by_the_marker(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """As an autoscaler of requests may: another policy sets all resources after ours."""
    replaces = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": "zz-replaces"},
        "spec": {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ],
                "namespaceSelector": {"matchLabels": {OPT_IN: "enabled"}},
            },
            "mutations": [
                {
                    "patchType": "JSONPatch",
                    "jsonPatch": {
                        "expression": '[JSONPatch{op: "replace", path: '
                        '"/spec/containers/0/resources", value: '
                        '{"requests": {"cpu": "7m"}}}]'
                    },
                }
            ],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "zz-replaces"},
        "spec": {"policyName": "zz-replaces"},
    }
    del plane
    label(cluster)
    with webhook_replicas(tmp_path, 1) as replicas:
        for marks in (
            ADMISSION / "gate-policy.yaml",
            replicas.configuration(ADMISSION / "gate.yaml"),
        ):
            with applied(cluster, marks, replaces, binding):
                wait_replaced(cluster)
                wait_marks(cluster)
                assert _cpu(dry_run(cluster, pod("asked", cluster.namespace))) == "7m"


def wait_replaced(cluster: Cluster) -> None:
    made = pod("asked", cluster.namespace)
    until(lambda: _cpu(dry_run(cluster, made)) == "7m", SECONDS, lambda: "resources are replaced")


def _cpu(found: dict[str, Any]) -> str:
    amount: str = found["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return amount


@pytest.mark.parametrize("fault", ["down", "slow"])
def test_a_webhook_that_does_not_answer(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path, fault: str
) -> None:
    """With `strict` no pod is created; with `enabled` it is, and the policy's status counts it."""
    define(cluster)
    cluster.create_nodes(node(f"n{number}") for number in range(3))
    cluster.apply(policy(cluster, rules=READY))
    flags = f"--kubeconfig={plane.placet_kubeconfig}", "--lease=none", "--gate"
    with (
        silent_port(listens=fault == "slow") as port,
        webhook_replicas(tmp_path, 1) as replicas,
        applied(cluster, replicas.configuration(ADMISSION / "gate.yaml", port, seconds=1)),
        placet(tmp_path, None, *flags) as server,
    ):
        server.wait_ready()
        wait_ready(cluster, "web", "True")
        until(lambda: ungated(cluster) == (0, "False"), SECONDS, lambda: f"{ungated(cluster)}")
        label(cluster, "strict")
        strict = json.dumps(pod("strict", cluster.namespace, GOVERNED))
        until(
            lambda: cluster.try_kubectl("create", "-f", "-", text=strict).returncode != 0,
            SECONDS,
            lambda: "pods are refused",
        )
        cluster.delete_pods()
        refused = cluster.try_kubectl("create", "-f", "-", text=strict)
        assert 'failed calling webhook "strict.gate.placet.dev"' in refused.stderr
        label(cluster)
        time.sleep(LABEL_SECONDS)
        entry = extender(f"http://127.0.0.1:{server.port}", node_cache_capable=True) | MANAGED
        with started_kube_scheduler(plane, tmp_path, [entry], {}) as scheduler:
            scheduler.wait_ready()
            names = [f"web-{number}" for number in range(3)]
            cluster.create_pods(pod(name, cluster.namespace, GOVERNED) for name in names)
            until(lambda: ungated(cluster) == (3, "True"), 5.0, lambda: f"{ungated(cluster)}")
            cluster.wait_placed(names)
        until(lambda: len(events(cluster)) == 3, SECONDS, lambda: f"{events(cluster)}")
        assert all(f"without `{GATE}`" in each["note"] for each in events(cluster))
        cluster.delete_pods()
        until(lambda: ungated(cluster) == (0, "False"), SECONDS, lambda: f"{ungated(cluster)}")
        cluster.kubectl("-n", cluster.namespace, "delete", "plp", "web")


def events(cluster: Cluster) -> list[dict[str, Any]]:
    return [each for each in cluster.events("Pod") if each["reason"] == "Ungated"]


def ungated(cluster: Cluster) -> tuple[int | None, str]:
    """The number in the status of the policy, and its condition."""
    status = cluster.get("placementpolicies", "web").get("status", {})
    conditions = {each["type"]: each["status"] for each in status.get("conditions", [])}
    return status.get("ungatedPods"), conditions.get("Ungated", "")


@contextmanager
def silent_port(*, listens: bool) -> Iterator[int]:
    """A port where nobody listens, or where nobody answers."""
    if not listens:
        yield free_port()
        return
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield listener.getsockname()[1]


@dataclass
class Labelled:
    """When the label stood, by the clock of the test: pairs of a begin and an end."""

    since: float | None = None
    times: list[tuple[float, float]] = field(default_factory=list)

    def stood(self, began: float, ended: float) -> bool:
        return any(since + LABEL_SECONDS <= began and ended <= to for since, to in self.times)


@by_policy_and_webhook
def test_no_pod_is_created_unmarked_where_the_label_stood(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path, by: str
) -> None:
    """Many pods, while a replica is killed and the label is set and removed: PODS, or 1,000."""
    made: dict[str, tuple[float, float]] = {}
    refused: list[str] = []
    labelled, stands, done = Labelled(), threading.Event(), threading.Event()

    def create(share: range) -> None:
        stands.wait()
        with Api(plane).kept() as request:
            for number in share:
                name, began = f"web-{number}", time.monotonic()
                try:
                    path = f"/api/v1/namespaces/{cluster.namespace}/pods"
                    request("POST", path, pod(name, cluster.namespace, GOVERNED))
                except ApiError as error:
                    refused.append(str(error))
                else:
                    made[name] = began, time.monotonic()

    def toggle() -> None:
        while not done.is_set():
            label(cluster, "strict")
            labelled.since = time.monotonic()
            done.wait(LABEL_SECONDS)
            stands.set()
            # A number of pods, not of seconds: how many are created in a second is not known.
            enough = len(made) + PODS // 4
            while len(made) < enough and not done.wait(0.02):
                pass
            labelled.times.append((labelled.since, time.monotonic()))
            cluster.kubectl("label", "namespace", cluster.namespace, f"{OPT_IN}-")
            done.wait(0.5)

    with webhook_replicas(tmp_path) as replicas:
        marks: Path | dict[str, Any] = ADMISSION / "gate-policy.yaml"
        if by == "webhook":
            marks = replicas.configuration(ADMISSION / "gate.yaml")
        with applied(cluster, marks):
            label(cluster)
            wait_marks(cluster)
            threads = [
                threading.Thread(target=create, args=(range(start, PODS, 4),)) for start in range(4)
            ]
            toggling = threading.Thread(target=toggle)
            for thread in (toggling, *threads):
                thread.start()
            until(lambda: len(made) > PODS // 3, 600.0, lambda: f"{len(made)} pods; {refused[:3]}")
            replicas.replicas[0].kill()
            for thread in threads:
                thread.join()
            done.set()
            toggling.join()
    pods = Api(plane).request("GET", f"/api/v1/namespaces/{cluster.namespace}/pods")["items"]
    marked = {each["metadata"]["name"]: is_marked(each) for each in pods}
    assert marked.keys() == made.keys()
    inside = {name for name, times in made.items() if labelled.stood(*times)}
    assert [name for name in inside if not marked[name]] == []
    # What is refused while a replica ends is created again by its controller.
    assert len(refused) <= PODS // 100, refused[:3]
    assert len(inside) > PODS // 5
    LOG.info(
        "%d pods, %d of them while the label stood, %d refused, %d marked",
        len(made),
        len(inside),
        len(refused),
        sum(marked.values()),
    )
