"""The gate in `placet doctor`: what asks, what marks, and what serves must agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.doctor.configuration_text import configurations
from cli.doctor.context import ConfigurationContext
from cli.doctor.findings import examine
from cli.doctor.requirements import Marking, SchedulerRequirements, read_requirements
from cli.doctor.schema import placets
from engine.objects.gate import GATE
from tests.support.scheduler_configs import OURS, Json, configuration, ours

ADMISSION = Path(__file__).parents[3] / "deploy" / "admission"
ASKS = ours(managedResources=[{"name": GATE}])
MARKS = Marking(("MutatingWebhookConfiguration placet-gate",), frozenset({"shop"}), tells=True)
POLICY = Marking(("MutatingAdmissionPolicy placet-gate",), frozenset({"shop"}))
NOTHING = Marking((), frozenset({"shop"}))
ELSEWHERE = Marking(MARKS.by, frozenset({"mall"}))
STRICT = SchedulerRequirements(strict=("shop/web/one",), scores=("s",), namespaces=("shop",))
PORTABLE = SchedulerRequirements(portable=("shop/web",))
LENIENT = SchedulerRequirements(scores=("s",), namespaces=("shop",))


def found(
    entry: Json,
    marking: Marking | None = None,
    needs: SchedulerRequirements | None = None,
    *,
    serves: bool = True,
) -> list[tuple[str, str, str]]:
    (read,) = configurations([("s.yaml", json.dumps(configuration(entry)))], lambda _path: None)
    context = ConfigurationContext(
        read, *placets(read.extenders), 5.0, needs, gate=serves, marking=marking
    )
    findings = [d for d, _ in examine(context) if d.code in ("gate", "managed-resources")]
    return [(d.severity, d.message, d.hint or "") for d in findings]


@pytest.mark.parametrize("marking", [None, MARKS])
@pytest.mark.parametrize("needs", [None, LENIENT])
def test_what_agrees_has_no_finding(
    marking: Marking | None, needs: SchedulerRequirements | None
) -> None:
    assert found(ASKS, marking, needs) == []
    assert found(OURS, NOTHING, needs, serves=False) == []
    # The webhook tells others, and its marker has no effect.
    assert found(OURS, MARKS, PORTABLE, serves=False) == []
    ignored = ours(managedResources=[{"name": GATE, "ignoredByScheduler": True}])
    assert found(ignored, marking, needs) == []


@pytest.mark.parametrize(
    ("entry", "marking", "needs", "serves", "severity", "message"),
    [
        (ASKS, None, None, False, "warning", "nobody reports pods that were created without"),
        (OURS, None, None, True, "warning", "but it asks about every pod"),
        (OURS, None, STRICT, True, "error", "but it asks about every pod"),
        (ASKS, NOTHING, None, True, "error", f"nothing gives new pods `{GATE}`"),
        (OURS, MARKS, None, False, "warning", f"`{MARKS.by[0]}` marks new pods for nothing"),
        (ASKS, ELSEWHERE, LENIENT, True, "warning", "policies of `shop` have no effect"),
        (ASKS, POLICY, PORTABLE, True, "warning", "nobody is told of the portable policies"),
        (OURS, NOTHING, PORTABLE, False, "warning", "nobody is told of the portable policies"),
        (ASKS, ELSEWHERE, STRICT, True, "error", "policies of `shop` have no effect"),
    ],
)
def test_what_does_not_agree(
    entry: Json,
    marking: Marking | None,
    needs: SchedulerRequirements | None,
    serves: bool,
    severity: str,
    message: str,
) -> None:
    ((level, text, hint),) = found(entry, marking, needs, serves=serves)
    assert level == severity
    assert message in text
    assert hint


def test_hints_work_when_applied() -> None:
    ((_, _, label),) = found(ASKS, ELSEWHERE, LENIENT)
    assert label == "run `kubectl label namespace shop placet.dev/scheduling=enabled`"
    ((_, _, add),) = found(OURS, None)
    assert add.startswith(f"write `managedResources: [{{name: {GATE}}}]`")
    assert yaml.safe_load(add.split("`")[1]) == {"managedResources": [{"name": GATE}]}


def objects(*files: str) -> list[dict[str, Any]]:
    return [each for file in files for each in yaml.safe_load_all((ADMISSION / file).read_text())]


def namespace(name: str, value: str | None) -> dict[str, Any]:
    labels = None if value is None else {"placet.dev/scheduling": value}
    return {"metadata": {"name": name, "labels": labels}}


def test_what_ships_is_recognised() -> None:
    inside = [namespace("shop", "enabled"), namespace("bank", "strict"), namespace("mall", None)]
    found = Marking.of(objects("gate.yaml", "gate-policy.yaml", "pods.yaml"), inside)
    assert found.by == (
        "MutatingWebhookConfiguration placet-gate",
        "MutatingAdmissionPolicy placet-gate",
    )
    assert found.namespaces == {"shop", "bank"}


def test_a_policy_without_a_binding_marks_nothing() -> None:
    policy, _binding = objects("gate-policy.yaml")
    assert Marking.of([policy], []).by == ()


def test_what_policies_need_is_read_from_files(tmp_path: Path) -> None:
    rule = 'filter "ready" { require node.ready }'
    (tmp_path / "a.policy").write_text(
        f'policy web in namespace "shop" {{ portable {rule} }}\n'
        f'policy db in namespace "bank" {{ {rule} }} cluster policy c {{ {rule} }}'
    )
    needs = read_requirements([tmp_path])
    assert (needs.namespaces, needs.portable) == (("bank", "shop"), ("shop/web",))
