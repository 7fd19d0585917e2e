"""The gate in `placet doctor`: what asks and what serves must agree."""

from __future__ import annotations

import json

import pytest
import yaml

from cli.doctor.configuration_text import configurations
from cli.doctor.context import ConfigurationContext, SchedulerRequirements
from cli.doctor.findings import examine
from cli.doctor.schema import placets
from engine.objects.gate import GATE
from tests.support.scheduler_configs import OURS, Json, configuration, ours

ASKS = ours(managedResources=[{"name": GATE}])
STRICT = SchedulerRequirements(strict=("shop/web/one",), scores=("s",))
LENIENT = SchedulerRequirements(scores=("s",))


def found(
    entry: Json,
    needs: SchedulerRequirements | None = None,
    *,
    serves: bool = True,
) -> list[tuple[str, str, str]]:
    (read,) = configurations([("s.yaml", json.dumps(configuration(entry)))])
    context = ConfigurationContext(read, *placets(read.extenders), 5.0, needs, gate=serves)
    findings = [d for d, _ in examine(context) if d.code in ("gate", "managed-resources")]
    return [(d.severity, d.message, d.hint or "") for d in findings]


@pytest.mark.parametrize("needs", [None, LENIENT])
def test_what_agrees_has_no_finding(needs: SchedulerRequirements | None) -> None:
    assert found(ASKS, needs) == []
    assert found(OURS, needs, serves=False) == []
    ignored = ours(managedResources=[{"name": GATE, "ignoredByScheduler": True}])
    assert found(ignored, needs) == []


@pytest.mark.parametrize(
    ("entry", "needs", "serves", "severity", "message"),
    [
        (ASKS, None, False, "warning", "nobody reports pods that were created without"),
        (OURS, None, True, "warning", "but it asks about every pod"),
        (OURS, STRICT, True, "error", "but it asks about every pod"),
    ],
)
def test_what_does_not_agree(
    entry: Json,
    needs: SchedulerRequirements | None,
    serves: bool,
    severity: str,
    message: str,
) -> None:
    ((level, text, hint),) = found(entry, needs, serves=serves)
    assert level == severity
    assert message in text
    assert hint


def test_hints_work_when_applied() -> None:
    ((_, _, add),) = found(OURS)
    assert add.startswith(f"write `managedResources: [{{name: {GATE}}}]`")
    assert yaml.safe_load(add.split("`")[1]) == {"managedResources": [{"name": GATE}]}
