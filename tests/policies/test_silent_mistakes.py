"""Mistakes that Placet would accept: each is reported, and its hint, applied, decides as meant.

Every case is about the same two nodes. `small` is what the rule is meant to keep the pod off, and
`large` is where it may run.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import pytest

from engine.decision.preemption import Victims
from engine.decision.verdict import Feasible
from engine.program.policy_time import DecisionTime
from grammar.messages.diagnostics import Diagnostic
from grammar.tree.source import Source
from grammar.values.time import Timestamp
from policies.validation import Validator, check_source
from tests.support.builders import Object, controller, node, pod, raw
from tests.support.engines import SCHEMA, engine_of

WEB = controller("ReplicaSet", "web", "shop", replicas=3)
_WRITE = re.compile(r"write `([^`]+)`")
# The rules that only add a part to the clause.
_ADD = "add `missing pass`"


def nodes() -> list[Object]:
    """The nodes, with all that the cases read of them."""
    labels = {"dedicated": "batch", "rack": "r1", "kubernetes.io/arch": "arm64"}
    small = node("small", "a", cpu="4", memory="8Gi", labels=labels)
    large = node("large", "b", cpu="4", memory="32Gi", labels={"kubernetes.io/arch": "amd64"})
    small["spec"] = {"taints": [{"key": "batch", "effect": "NoSchedule"}]}
    pressure = {"type": "DiskPressure", "status": "True", "lastHeartbeatTime": None}
    small["status"]["conditions"].append(pressure)
    for each, version in ((small, "v1.29.9-gke.10"), (large, "v1.31.4-gke.1372000")):
        each["status"]["nodeInfo"] = {"kubeletVersion": version}
    return [small, large]


def there() -> list[Object]:
    """The pods that are there: one on each node."""
    busy = pod(
        "batch-1",
        "shop",
        on="small",
        cpu="3900m",
        memory="7Gi",
        labels={"tier": "batch"},
        owner=WEB,
    )
    idle = pod("idle-1", "shop", on="large", cpu="100m", memory="100Mi")
    return [busy, idle]


# An hour, a day and a month that no rule about time names.
ASKED_AT = Timestamp.parse("2026-06-10T14:30:00Z")
ASKED = pod("web-1", "shop", cpu="50m", memory="2Gi", labels={"tier": "web"}, owner=WEB)


@dataclass(frozen=True, slots=True)
class Case:
    """A mistake: the items of a policy, and the code of its only diagnostic."""

    id: str
    code: str
    items: str


def require(name: str, code: str, *texts: str) -> list[Case]:
    """Cases of one filter, with the definitions before a `|`."""
    found: list[Case] = []
    for number, text in enumerate(texts, 1):
        before, _, condition = text.rpartition(" | ")
        items = f'{before} filter "f" {{ require {condition} }}'
        found.append(Case(f"{name} {number}", code, items))
    return found


def items(name: str, code: str, *texts: str) -> list[Case]:
    return [Case(f"{name} {number}", code, text) for number, text in enumerate(texts, 1)]


FILTERS = (
    *require(
        "null",
        "P0330",
        'node.labels["dedicated"] == null',
        'null == node.labels["dedicated"]',
        '!(node.labels["dedicated"] != null)',
        'node.labels[?"dedicated"] == null',
        'let team = node.labels["dedicated"] | team == null',
        'let nothing = null | node.labels["rack"] == nothing',
        'def absent(value: string): bool = value == null | absent(node.labels["rack"])',
        'node.labels["rack"] == null || pod.spec.affinity.nodeAffinity != null',
        '!has(node.labels["rack"]) && node.spec.taints == null',
        "null == node.labels.rack",
    ),
    *require(
        "resource",
        "P0331",
        'node.free["memroy"] > pod.requests["memory"]',
        'pod.requests["memory"] < node.free["Memory"]',
        "node.free.memroy > pod.requests.memory",
        'node.allocatable["mem"] > "8Gi"',
        '"20Gi" < node.status.allocatable["memmory"]',
        'let left = node.free["memroy"] | left > "2Gi"',
        'let left = node.free | left["memroy"] > "2Gi"',
        'def room(r: string): bool = node.free[r] > pod.requests[r] | room("ram")',
        'def of(m: map(string, quantity)): quantity = m["memroy"] | of(node.free) > "2Gi"',
        'node.free[?"memroy"].orValue("0") > "2Gi"',
    ),
    *require(
        "usage",
        "P0332",
        'node.usage["cpu"] <= 90',
        '90.0 >= node.usage["cpu"]',
        '!(node.usage["cpu"] > 90)',
        '1.0 - node.usage["cpu"] >= 10',
        'let used = node.usage["cpu"] | used <= 90',
        'let most = 90 | node.usage["cpu"] <= most',
        "def used(r: string): double = (node.requested[r] + pod.requests[r]) / node.allocatable[r]"
        ' | used("cpu") <= 90',
        'def below(r: string, most: double): bool = node.usage[r] < most | below("cpu", 90.0)',
        '["cpu", "memory"].all(r, node.usage[r] <= 90)',
        '(node.usage["cpu"] + node.usage["memory"]) / 2.0 < 80',
        'node.requested["cpu"] / node.status.capacity["cpu"] <= 75',
    ),
    *require(
        "word",
        "P0333",
        '!node.spec.taints.exists(t, t.effect == "NoShedule")',
        '!node.spec.taints.exists(t, "noschedule" == t.effect)',
        '!node.spec.taints.exists(t, t.effect in ["NoExecute", "NoSchedul"])',
        'let bad = "NoShedule" | !node.spec.taints.exists(t, t.effect == bad)',
        "def bad(t: Taint, effect: string): bool = t.effect == effect"
        ' | !node.spec.taints.exists(t, bad(t, "NoShedule"))',
        '!node.status.conditions.exists(c, c.type == "DiskPresure" && c.status == "True")',
        '!node.status.conditions.exists(c, c.type == "DiskPressure" && c.status == "true")',
        '!node.pods.exists(p, p.labels[?"tier"].orValue("") == "batch" && p.phase == "running")',
        'node.labels["kubernetes.io/arch"] == "AMD64"',
        'node.labels[?"kubernetes.io/arch"].orValue("arm64") == "amd46"',
        'pod.status.phase == "pending" && node.zone == "b"',
    ),
    *require(
        "zone",
        "P0156",
        'now.getHours("Berlin") >= 1 && node.zone == "b"',
        '1 <= now.getHours("europe/berlin") && node.zone == "b"',
        'let zone = "berlin" | now.getDayOfWeek(zone) >= 1 && node.zone == "b"',
        "def hour(zone: string): int = now.getHours(zone)"
        ' | hour("America/New York") >= 1 && node.zone == "b"',
    ),
    *items(
        "domain",
        "P0157",
        'limit "l" { per "topology.kubernetes.io/zone" at most 1 strict }',
        'spread "s" { nodes all over "zone" skew at most 1 strict }',
        'spread "s" { nodes all over "kubernetes.io/hostname" skew at most 1 strict }',
        'let key = "topology.kubernetes.io/zone"'
        ' spread "s" { nodes all over key skew at most 1 strict }',
        "def key(name: string): string = 'topology.kubernetes.io/' + name"
        ' spread "s" { nodes all over key("zone") skew at most 1 strict }',
        'let key = "kubernetes.io/arch" spread "s" { nodes all over key skew at most 1 strict }',
    ),
)


@pytest.mark.parametrize("case", FILTERS, ids=lambda c: c.id)
def test_hint_of_a_mistake_keeps_the_pod_off_small(case: Case) -> None:
    assert decided(mended(case)) == {"small": False, "large": True}


def mended(case: Case) -> str:
    """The policy with the hints applied, until there is nothing more to say."""
    text = f'policy p in namespace "shop" {{ {case.items} }}'
    found = mistakes(text)
    assert {d.code for d in found} == {case.code}, found
    for _ in range(4):
        if not found:
            return text
        text = applied(text, found[0])
        found = mistakes(text)
    raise AssertionError(found)


def mistakes(text: str) -> list[Diagnostic]:
    """The diagnostics, without those of definitions that the remedy leaves unused."""
    return [d for d in diagnostics(text) if d.code != "P0303"]


def diagnostics(text: str) -> list[Diagnostic]:
    return list(check_source(Source("p.policy", text), SCHEMA).diagnostics)


def applied(text: str, diagnostic: Diagnostic) -> str:
    """The text with what the hint says in the place of what it is about."""
    hint = diagnostic.hint or ""
    if hint.startswith(_ADD):
        return text.replace(" strict }", " strict missing pass }")
    written = _WRITE.match(hint)
    assert written is not None, hint
    return text[: diagnostic.span.start] + written[1] + text[diagnostic.span.end :]


def decided(text: str) -> dict[str, bool]:
    """Whether the pod may run on each node."""
    names = ["small", "large"]
    engine = engine_of(text, nodes(), there(), time=DecisionTime(now=lambda: ASKED_AT))
    verdicts = engine.filter(raw(ASKED), names, None, math.inf)
    return {n: isinstance(v, Feasible) for n, v in zip(names, verdicts, strict=True)}


# ---- scores, and victims


@pytest.mark.parametrize(
    "text",
    [
        'score "s" weight 1 { value 1.0 - node.usage["cpu"] }',
        'score "s" weight 1 { value node.usage["cpu"] range 100 .. 0 }',
        'let u = node.usage["cpu"] let most = 100 score "s" weight 1 { value u range most .. 0 }',
    ],
)
def test_hint_for_a_score_prefers_large(text: str) -> None:
    policy = mended(Case("score", "P0332", text))
    engine = engine_of(policy, nodes(), there())
    small, large = engine.prioritize(raw(ASKED), ["small", "large"], None, math.inf) or (0, 0)
    assert (small, large) == (0, 10)


@pytest.mark.parametrize(
    "text",
    [
        'preempt "p" { protect pods where victim.labels["tier"] == "batch" }',
        'preempt "p" { protect pods where "batch" == victim.labels["tier"] }',
        'let batch = victim.labels["tier"] == "batch" preempt "p" { protect pods where batch }',
        (
            "def of(k: string): string = victim.labels[k]"
            ' preempt "p" { protect pods where of("tier") == "batch" }'
        ),
        'preempt "p" { protect pods where victim.labels["tier"] in ["batch"] }',
    ],
)
def test_hint_for_a_protection_frees_the_pod_without_the_label(text: str) -> None:
    policy = mended(Case("protect", "P0317", text))
    engine = engine_of(policy, nodes(), there())
    uids = [each["metadata"]["uid"] for each in there()]
    proposed = {n: Victims([uid], 0) for n, uid in zip(("small", "large"), uids, strict=True)}
    kept = engine.preempt(raw(ASKED), proposed, math.inf)
    assert list(kept) == ["large"]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ('(resource: "ram")', ['P0331 write `"memory"`']),
        ('(resource: "example.com/gpu")', []),
        ("", []),
    ],
)
def test_value_of_a_use_is_looked_at(values: str, wanted: list[str]) -> None:
    text = f'policy p in namespace "shop" {{ use "library/gpu-nodes" {values} }}'
    validation = Validator(SCHEMA).validate([Source("p.policy", text)])
    assert [f"{d.code} {d.hint}" for d, _ in validation.findings()] == wanted


# ---- near misses


@pytest.mark.parametrize(
    "text",
    [
        'filter "f" { require node.free["example.com/gpu"] >= pod.requests["example.com/gpus"] }',
        'filter "f" { require pod.requests["hugepages-2Mi"] == 0 && node.free["pods"] > 0 }',
        'let own = {"memroy": quantity("1")} filter "f" { require own["memroy"] >= "1" }',
        'filter "f" { require node.usage["cpu"] <= 1 && node.usage["memory"] < 1.2 }',
        'filter "f" { require 100.0 * node.usage["cpu"] <= 90 }',
        'score "s" weight 1 { value node.usage["cpu"] range 0 .. 1 }',
        'score "s" weight 1 { value node.usage["cpu"] * 100.0 }',
        'filter "f" { require now.getHours("Europe/Berlin") > 1 && now.getHours("+01:00") > 1 }',
        'filter "f" { require pod.status.phase != "" && pod.status.phase in ["Pending"] }',
        'filter "f" { require !node.status.conditions.exists(c, c.type == "KernelDeadlock") }',
        'filter "f" { require !has(pod.spec.affinity) || !has(pod.spec.affinity.podAffinity) }',
        'filter "f" { require has(pod.spec.affinity.nodeAffinity) && node.ready }',
        'filter "f" { require !has(pod.spec.affinity.nodeAffinity) missing pass }',
        'filter "f" { require !has(node.labels["disk"]) && !has(pod.spec.affinity) }',
        'filter "f" { require semver(node.status.nodeInfo.kubeletVersion).minor() > 30 }',
        'filter "f" { require kubernetesVersion(node.status.nodeInfo.kubeletVersion) > "1.30.0" }',
        'filter "f" { require semver(node.labels["version"]) > "1.30.0" }',
        'filter "f" { require dyn(node.labels)["disk"] == null }',
        'limit "l" { all pods where true per cluster at most 100 strict }',
        'limit "l" { pods where true per zone at most 1 strict missing fail }',
        'limit "l" { pods where peer.name != "" per node.name at most 0 strict }',
        'limit "l" { per zone at most 2 strict }',
        'let zone = node.zone spread "s" { nodes all over zone skew at most 1 strict }',
        'preempt "p" { protect pods where victim.labels["a"] == "b" missing pass }',
    ],
)
def test_what_may_be_meant_is_not_reported(text: str) -> None:
    assert diagnostics(f'policy p in namespace "shop" {{ {text} }}') == []


# ---- what sees through definitions is bounded


@pytest.mark.parametrize(
    "definitions",
    [
        "".join(f"let a{n} = a{n - 1} + a{n - 1} " for n in range(1, 30)),
        "".join(f"def b{n}(x: int): int = x + x let a{n} = b{n}(a{n - 1}) " for n in range(1, 30)),
    ],
    ids=["lets", "defs"],
)
def test_tower_of_definitions_is_not_written_out(definitions: str) -> None:
    found = diagnostics(
        f'policy p in namespace "shop" {{ let a0 = size(pod.name) {definitions}'
        ' filter "f" { require a29 > 0 } }'
    )
    assert {d.code for d in found} <= {"P0401"}
