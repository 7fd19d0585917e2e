"""New pods: one bare pod through every door, where it is as the API server would store it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cli.commands.simulate import read_pods
from cli.policy_tests.runner import FixtureBuilder
from engine.cache.cluster_copy import ClusterCopy, ClusterDocuments, read_documents
from engine.cache.pod_manifests import PodQuery, read_pod
from engine.objects.request_pod import ObjectCodec
from grammar.syntax.parser import parse_file
from grammar.tree.source import Source
from server.view import trial
from tests.support.engines import CODEC, SCHEMA

CONTAINERS = '[{"name": "c", "image": "example/web", "resources": {"limits": {"cpu": "2"}}}]'
SPEC = f'{{"containers": {CONTAINERS}}}'
POD = f'{{"kind": "Pod", "metadata": {{"name": "web", "namespace": "shop"}}, "spec": {SPEC}}}'
DEPLOYMENT = f"""{{"kind": "Deployment", "apiVersion": "apps/v1",
  "metadata": {{"name": "api", "namespace": "shop"}},
  "spec": {{"replicas": 1, "template": {{"spec": {SPEC}}}}}}}"""
TIME = "2026-11-28T12:00:00Z"
NODE = f"""{{"kind": "Node", "metadata": {{"name": "n", "creationTimestamp": "{TIME}"}},
  "status": {{"capacity": {{"cpu": "8", "pods": "110"}}}}}}"""
CLASS = (
    '{"kind": "PriorityClass", "metadata": {"name": "usual"}, "value": 5, "globalDefault": true}'
)
CLUSTER = f'{{"kind": "List", "items": [{NODE}, {CLASS}, {POD}, {DEPLOYMENT}]}}'
WANTED = {
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "example/web",
                "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "imagePullPolicy": "Always",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        "priorityClassName": "usual",
        "priority": 5,
        "preemptionPolicy": "PreemptLowerPriority",
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{taint}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for taint in ("not-ready", "unreachable")
        ],
    },
    "status": {"phase": "Pending", "qosClass": "Burstable"},
}


@pytest.fixture
def read(tmp_path: Path) -> ClusterDocuments:
    (tmp_path / "cluster.json").write_text(CLUSTER)
    return read_documents([tmp_path / "cluster.json"])


@pytest.fixture
def cluster(read: ClusterDocuments) -> ClusterCopy:
    return read.cluster(ObjectCodec(SCHEMA))


def seen(body: bytes) -> Any:
    pod = msgspec.json.decode(body)
    assert pod["metadata"]["creationTimestamp"] >= TIME
    return {"spec": pod["spec"], "status": pod["status"]}


def test_files_snapshots_and_workloads(
    read: ClusterDocuments, cluster: ClusterCopy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pod.json").write_text(POD)
    (tmp_path / "deployment.json").write_text(DEPLOYMENT)
    query = PodQuery(known=cluster.uid, defaults=cluster.defaults)

    def doors() -> Iterator[tuple[str, bytes]]:
        yield "a snapshot", cluster.pod("shop/web").body
        yield "a workload of it", cluster.pod_of("Deployment", "api", "shop")[0].body
        for name in ("pod", "deployment"):
            file = tmp_path / f"{name}.json"
            yield f"--pod-file of a {name}", read_pod(file, query).body
            (found,) = read_pods(file, read).bodies.values()
            yield f"--pods of a {name}", found
        monkeypatch.setattr("sys.stdin", io.StringIO(POD))
        (found,) = read_pods(Path("-"), read).bodies.values()
        yield "standard input", found

    for door, body in doors():
        assert seen(body) == WANTED, door
        assert msgspec.json.decode(body)["metadata"]["creationTimestamp"] == TIME, door


@pytest.mark.parametrize("kind", [POD, DEPLOYMENT])
def test_texts_of_the_view(kind: str) -> None:
    """The classes stand in the text: the server does not know those of the cluster."""
    text = f"[{CLASS}, {kind}]"
    found, _ = trial.pods_of(text, "shop", {}, SCHEMA)
    (body,) = found.bodies.values()
    assert seen(body) == WANTED
    assert seen(trial.pod_of(text, None, SCHEMA).body) == WANTED


def test_tests(tmp_path: Path) -> None:
    (tmp_path / "cluster.json").write_text(CLUSTER)
    text = f'test "t" {{ cluster "cluster.json" pod "shop/x" {{"spec": {SPEC}}} expect pass "n" }}'
    (test,) = parse_file(Source("t.policy", text))[0].tests
    fixture = FixtureBuilder(SCHEMA, CODEC).build(test, tmp_path / "t.policy")
    assert seen(fixture.pod.body) == WANTED
    assert seen(fixture.cluster.pod("shop/web").body) == WANTED


def test_what_a_pod_says_itself_stays() -> None:
    own: dict[str, Any] = {
        "restartPolicy": "Never",
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        "schedulerName": "second",
        "volumes": [{"name": "v"}, {"name": "s", "secret": {"secretName": "s"}}],
    }
    pod = msgspec.json.decode(POD)
    pod["spec"] |= own
    pod["spec"]["containers"][0] |= {"image": "example/web:1", "ports": [{"containerPort": 80}]}
    found, _ = trial.pods_of(msgspec.json.encode([pod]).decode(), "shop", {}, SCHEMA)
    (body,) = found.bodies.values()
    spec = msgspec.json.decode(body)["spec"]
    volumes = [{"name": "v", "emptyDir": {}}, own["volumes"][1]]
    assert {key: spec[key] for key in own} == own | {"volumes": volumes}
    assert spec["priority"] == 2_000_001_000
    (container,) = spec["containers"]
    assert (container["imagePullPolicy"], container["ports"][0]["protocol"]) == (
        "IfNotPresent",
        "TCP",
    )
