"""Defaulting: what the API server fills in, where an object does not come from one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.cache.cluster_file import documents
from engine.objects.workload_pods import as_stored
from tests.support.builders import Object, kubectl_list, node, pod, raw

GPU = "nvidia.com/gpu"


def stored(made: Object, *beside: Object) -> Any:
    (document,) = as_stored([raw(kubectl_list([made, *beside]))])
    return msgspec.json.decode(document)["items"][0]


def asking(resources: Object, /, **spec: Any) -> Object:
    made = pod("p", spec=spec)
    made["spec"]["containers"][0]["resources"] = resources
    return made


@pytest.mark.parametrize(
    ("resources", "requests"),
    [
        ({"limits": {GPU: 1, "cpu": "2"}}, {GPU: 1, "cpu": "2"}),
        ({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}, {"cpu": "1"}),
        ({"limits": {"cpu": "2"}, "requests": {"cpu": 0}}, {"cpu": 0}),
        ({"limits": {"cpu": "2"}, "requests": None}, {"cpu": "2"}),
        ({"limits": {"cpu": "2"}, "requests": {"memory": "1Gi"}}, {"cpu": "2", "memory": "1Gi"}),
        ({"limits": {}}, None),
        ({"requests": {"cpu": "1"}}, {"cpu": "1"}),
    ],
)
@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_limits_are_requests(resources: Object, requests: Object | None, kind: str) -> None:
    made = asking({})
    made["spec"][kind] = [{"name": "c", "resources": resources}]
    assert stored(made)["spec"][kind][0]["resources"].get("requests") == requests


@pytest.mark.parametrize(
    ("own", "level", "requests"),
    [
        ({}, {"limits": {"cpu": "2"}}, {"cpu": "2"}),
        ({"requests": {"cpu": "1"}}, {"limits": {"cpu": "2"}}, {"cpu": "1"}),
        (
            {"requests": {"memory": "1Gi"}},
            {"limits": {"cpu": "2"}},
            {"cpu": "2", "memory": "1Gi"},
        ),
        ({"requests": {"cpu": "1"}}, {"requests": {"memory": "2Gi"}}, {"memory": "2Gi"}),
        (
            {"limits": {"hugepages-2Mi": "4Mi"}},
            {"requests": {"cpu": "1"}},
            {"cpu": "1", "hugepages-2Mi": "4Mi"},
        ),
        ({"requests": {"cpu": "1"}}, {}, None),
    ],
)
def test_resources_of_the_pod(own: Object, level: Object, requests: Object | None) -> None:
    found = stored(asking(own, resources=level))["spec"]["resources"]
    assert found.get("requests") == requests


def test_ports_of_a_pod_on_the_host_network() -> None:
    ports = [{"containerPort": 80}, {"containerPort": 81, "hostPort": 82}]
    made = asking({}, hostNetwork=True)
    made["spec"]["containers"][0]["ports"] = ports
    found = stored(made)["spec"]["containers"][0]["ports"]
    assert [each["hostPort"] for each in found] == [80, 82]
    del made["spec"]["hostNetwork"]
    assert "hostPort" not in stored(made)["spec"]["containers"][0]["ports"][0]


@pytest.mark.parametrize(
    ("spec", "priority"),
    [
        ({"priorityClassName": "high"}, 1000),
        ({"priorityClassName": "system-node-critical"}, 2_000_001_000),
        ({"priorityClassName": "unknown"}, None),
        ({"priorityClassName": "high", "priority": 7}, 7),
        ({}, 5),
    ],
)
def test_priority_classes_of_the_file(spec: Object, priority: int | None) -> None:
    high = {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000}
    usual = {"kind": "PriorityClass", "metadata": {"name": "u"}, "value": 5, "globalDefault": True}
    assert stored(asking({}, **spec), high, usual)["spec"].get("priority") == priority


def test_nodes_have_what_their_capacity_is() -> None:
    made = node("n")
    made["status"]["capacity"] = {"cpu": "4"}
    assert stored(made)["status"]["allocatable"] == made["status"]["allocatable"]
    del made["status"]["allocatable"]
    assert stored(made)["status"]["allocatable"] == {"cpu": "4"}


def test_a_node_without_a_time_is_as_new_as_the_newest_object() -> None:
    made = node("n")
    del made["metadata"]["creationTimestamp"]
    newest = pod("p", created="2026-11-25T00:00:00Z")
    assert stored(made, newest)["metadata"]["creationTimestamp"] == "2026-11-25T00:00:00Z"
    assert stored(made)["metadata"]["creationTimestamp"] > "2026"


def test_what_was_stored_stays_as_it_is() -> None:
    made = asking({"limits": {"cpu": "2"}})
    made["metadata"]["resourceVersion"] = "7"
    document = raw(kubectl_list([made]))
    assert as_stored([document])[0] is document


@pytest.mark.parametrize("text", ['{"kind":', '{"kind": 7}', "[]", '{"kind":"Pod","spec":[]}', "7"])
def test_what_cannot_be_read_stays_as_it_is(text: str) -> None:
    assert as_stored([text.encode()]) == [text.encode()]


def test_files_have_it(tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    limits = "{containers: [{name: c, resources: {limits: {cpu: 2}}}]}"
    file.write_text(f"kind: Pod\nmetadata: {{name: p}}\nspec: {limits}\n")
    (found,) = map(msgspec.json.decode, documents(file))
    assert found["spec"]["containers"][0]["resources"]["requests"] == {"cpu": 2}
