"""Policies that mean something else than their authors do, each with its warning."""

from __future__ import annotations

import re

import pytest

from grammar.meaning.schema import Schema
from grammar.tree.source import Source
from policies.validation import check_source
from tests.support.seeds import edited

# The items of a policy, the code of the warning, and what its hint says to write.
WARNED = [
    (
        'filter "x" { require node.labels["nvidia.com/gpu.product"] == "Tesla-T4" }',
        None,
        "",
    ),
    (
        'filter "x" { require node.labels["disk-size"] > "100Gi" }',
        "P0338",
        'quantity(node.labels["disk-size"]) > "100Gi"',
    ),
    (
        'filter "x" { require pod.spec.containers.all(c, c.image.startsWith("a/b:*")) }',
        "P0344",
        'startsWith("a/b:")',
    ),
    (
        'filter "x" { require node.spec.taints.all(t, t.key != "node-role.kubernetes.io/master") }',
        "P0346",
        '"node-role.kubernetes.io/control-plane"',
    ),
    (
        'filter "x" { require node.status.conditions.exists(c, c.type == "KernelDeadlock") }',
        None,
        "",
    ),
    (
        'filter "x" { require node.status.conditions.all(c, c.type != "A" || c.status == "True") }',
        None,
        "",
    ),
    ('filter "x" { require node.status.nodeInfo.osImage == "Ubuntu 24.04.1 LTS" }', None, ""),
    (
        'filter "x" { require node.status.nodeInfo.kernelVersion >= "5.10" }',
        "P0338",
        'kubernetesVersion(node.status.nodeInfo.kernelVersion) >= kubernetesVersion("5.10")',
    ),
    (
        'filter "x" { require node.labels["node.kubernetes.io/instance-type"] == "m5.large" }',
        None,
        "",
    ),
    ('filter "x" { require node.zone == "us-east-1a" }', None, ""),
    (
        'filter "x" { require node.labels["topology.kubernetes.io/hostname"] == "a" }',
        "P0346",
        '"kubernetes.io/hostname"',
    ),
    ('filter "x" { require pod.spec.nodeName == "a" }', "P0349", 'node.name == "a"'),
    ('filter "x" { require node.ready message "$node is not ready" }', "P0345", "{pod.name}"),
    ('score "x" weight 5 { value node.free["cpu"] range 0 .. 8 }', None, ""),
    ('filter "x" { require node.free["memory"] > 16 }', "P0343", '"16Gi"'),
    ('filter "x" { require node.free["memory"] > "16" }', "P0343", '"16Gi"'),
    ('filter "x" { require node.free["memory"] >= pod.requests["memory"] + 2048 }', None, ""),
    ('filter "x" { require node.allocatable["memory"] >= 65536 }', "P0343", '"65536Mi"'),
    ('filter "x" { require node.free["cpu"] > 500 }', "P0343", '"500m"'),
    ('filter "x" { require node.free["cpu"] > 4000 }', "P0343", '"4000m"'),
    ('filter "x" { require node.free["cpu"] > 8 }', None, ""),
    ('filter "x" { require node.allocatable["cpu"] >= 128 }', None, ""),
    ('filter "x" { require node.free["memory"] > "16Gi" }', None, ""),
    ('filter "x" { require node.free["memory"] > 0 }', None, ""),
    ('filter "x" { require node.free["nvidia.com/gpu"] >= 8 }', None, ""),
    ('filter "x" { require node.free["memory"] / node.allocatable["memory"] > 0.1 }', None, ""),
    ('let most = 16 filter "x" { require node.free["memory"] > most }', "P0343", '"16Gi"'),
    (
        'filter "x" { require node.zone in ["eu-*", "us-1"] }',
        "P0344",
        'node.zone.matches("^eu-.*$") || node.zone == "us-1"',
    ),
    ('filter "x" { require node.name == "gpu-*" }', "P0344", 'node.name.matches("^gpu-.*$")'),
    ('filter "x" { require node.name != "gpu-?" }', "P0344", '!node.name.matches("^gpu-.$")'),
    (
        'filter "x" { require node.labels["pool"] == "^(a|b)$" }',
        "P0344",
        'node.labels["pool"].matches("^(a|b)$")',
    ),
    ('filter "x" { require node.name.matches("/^gpu/") }', "P0344", '"^gpu"'),
    ('filter "x" { require node.name.matches("gpu-*") }', "P0344", '"^gpu-.*$"'),
    ('filter "x" { require node.name.matches("^gpu-.*$") }', None, ""),
    ('filter "x" { require node.name.matches("gpu.*") }', None, ""),
    ('filter "x" { require node.name.startsWith("gpu-*") }', "P0344", 'startsWith("gpu-")'),
    ('filter "x" { require node.name.endsWith("*-gpu") }', "P0344", 'endsWith("-gpu")'),
    ('filter "x" { require pod.annotations["schedule"] == "* * * * *" }', None, ""),
    ('filter "x" { require node.ready message "{{ .pod.name }}" }', "P0345", "{pod.name}"),
    ('filter "x" { require node.ready message "{{pod.name}} waits" }', "P0345", "{pod.name}"),
    ('filter "x" { require node.ready message "${pod.name}" }', "P0345", "{pod.name}"),
    ('filter "x" { require node.ready message "%s waits" }', "P0345", "{pod.name}"),
    ('filter "x" { require node.ready message "{pod.name} needs {{braces}}" }', None, ""),
    ('filter "x" { require node.ready message "100% of {pod.name}" }', None, ""),
    ('filter "x" { require node.ready message "it costs 5 $" }', None, ""),
    ('filter "x" { require node.labels["kubernetes.io/arch"] == "x86_64" }', "P0346", '"amd64"'),
    ('filter "x" { require node.labels["kubernetes.io/arch"] in ["aarch64"] }', "P0346", '"arm64"'),
    (
        'filter "x" { require node.status.nodeInfo.architecture == "x86_64" }',
        "P0346",
        '"amd64"',
    ),
    (
        'filter "x" { require node.labels["failure-domain.beta.kubernetes.io/zone"] == "a" }',
        "P0346",
        '"topology.kubernetes.io/zone"',
    ),
    (
        'filter "x" { require node.labels["beta.kubernetes.io/instance-type"] == "m5.large" }',
        "P0346",
        '"node.kubernetes.io/instance-type"',
    ),
    (
        'filter "x" { require node.labels["node-role.kubernetes.io/worker"] == "true" }',
        "P0346",
        'has(node.labels["node-role.kubernetes.io/worker"])',
    ),
    ('filter "x" { require has(node.labels["node-role.kubernetes.io/worker"]) }', None, ""),
    ('filter "x" { require pod.workload.kind == "ReplicaSet" }', "P0346", '"Deployment"'),
    ('filter "x" { require pod.workload.kind == "StatefulSet" }', None, ""),
    (
        'filter "x" { require pod.kind == "Deployment" }',
        "P0333",
        'pod.workload.kind == "Deployment"',
    ),
    ('share "x" { of replicas on nodes where node.ready at most 40 strict }', "P0347", "40%"),
    ('share "x" { of replicas on nodes where node.ready at most 4 strict }', None, ""),
    ('share "x" { of replicas on nodes where node.ready at most 40% strict }', None, ""),
    (
        'let m = 40 share "x" { of replicas on nodes where node.ready at most m strict }',
        None,
        "",
    ),
    (
        'filter "x" when now.getHours() >= 22 && now.getHours() < 6 { require node.ready }',
        "P0348",
        "now.getHours() >= 22 || now.getHours() < 6",
    ),
    (
        'filter "x" { require node.zone != "a" || node.zone != "b" }',
        "P0348",
        'node.zone != "a" && node.zone != "b"',
    ),
    (
        'filter "x" { require node.zone == "a" && node.zone == "b" }',
        "P0348",
        'node.zone == "a" || node.zone == "b"',
    ),
    (
        'filter "x" { require node.ready && node.zone == "a" && node.zone == "b" }',
        "P0348",
        '(node.zone == "a" || node.zone == "b")',
    ),
    (
        'filter "x" { require node.ready || node.zone != "a" || node.zone != "b" }',
        "P0348",
        '`node.ready || node.zone != "a" && node.zone != "b"`',
    ),
    ('filter "x" { require node.zone == "a" || node.zone == "b" }', None, ""),
    ('filter "x" { require now.getHours() >= 9 && now.getHours() < 17 }', None, ""),
    ('filter "x" { require now.getHours() < 24 }', "P0348", "correct it"),
    ('filter "x" { require size(node.pods) >= 0 }', "P0348", "correct it"),
    ('filter "x" { require pod.status.phase == "Running" }', "P0349", "leave it out"),
    ('filter "x" { require pod.status.podIP == "10.0.0.1" }', "P0349", "leave it out"),
    ('limit "x" { pods where peer.phase == "Running" per node at most 1 strict }', None, ""),
    ('score "x" weight 1 { value 50 }', "P0350", "a value of the node"),
    ('score "x" weight 1 { value pod.priority > 10 }', "P0350", "a value of the node"),
    ('score "x" weight 1 { value node.ready }', None, ""),
    (
        'filter "x" { require node.labels["driver-version"] >= "1.10" }',
        "P0338",
        'semver(node.labels["driver-version"], true) >= semver("1.10", true)',
    ),
    (
        'filter "x" { require node.labels["driver"] >= "470.1.2" }',
        "P0338",
        'semver(node.labels["driver"], true) >= semver("470.1.2", true)',
    ),
]
_ABOUT = re.compile(r"P03(4[3-9]|50)|P033[3578]")


@pytest.mark.parametrize(("items", "code", "written"), WARNED, ids=[w[0] for w in WARNED])
def test_another_meaning_is_warned_of(
    items: str, code: str | None, written: str, schema: Schema
) -> None:
    text = f"cluster policy example {{\n  {items}\n}}\n"
    found = check_source(Source("example.policy", text), schema).diagnostics
    about = [d for d in found if _ABOUT.match(d.code)]
    assert [d.code for d in about] == ([code] if code is not None else [])
    for each in about:
        assert written in (each.hint or "")
        if each.remedy is not None:
            after = edited(text, each.remedy)
            left = check_source(Source("example.policy", after), schema).diagnostics
            assert [d.code for d in left if _ABOUT.match(d.code) or d.severity == "error"] == []


def test_a_policy_of_a_namespace_is_about_its_pods(schema: Schema) -> None:
    item = 'filter "x" when pod.namespace == "web" { require node.ready }'
    text = f'policy p in namespace "shop" {{ {item} }}'
    (found,) = check_source(Source("example.policy", text), schema).diagnostics
    assert (found.code, found.message) == (
        "P0348",
        "this is always false: `pod.namespace` is `shop` in this policy",
    )
