"""Alerts and dashboard: they name metrics and labels that there are, and pages that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.deploy.monitoring import (
    DASHBOARD,
    expressions,
    grouping,
    panels,
    rules,
    selectors,
)
from tests.support.every_metric import every_metric, series
from tests.test_documentation import anchor, headings

ROOT = Path(__file__).parents[2]
# The labels that Prometheus gives to every series of a target.
OF_TARGETS = {"job", "instance", "namespace"}
SEVERITIES = {"critical", "warning", "info"}


def test_an_expression_names_metrics_and_labels_that_there_are() -> None:
    known = series(every_metric())
    for name, expression in expressions().items():
        named = selectors(expression)
        assert named, name
        missing = {metric for metric, _ in named} - known.keys()
        assert not missing, name
        for metric, labels in named:
            assert labels <= known[metric].labels | OF_TARGETS, (name, metric)
        every = OF_TARGETS | {"le"} | {label for m, _ in named for label in known[m].labels}
        assert grouping(expression) <= every, name


@pytest.mark.parametrize(("title", "query", "legend"), list(panels()))
def test_the_legend_of_a_panel_has_labels_that_are_left(
    title: str, query: str, legend: str
) -> None:
    wanted = set(re.findall(r"\{\{(\w+)\}\}", legend))
    kept = grouping(query) or OF_TARGETS
    assert wanted <= kept, title


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_says_how_bad_it_is_and_where_to_read_on(rule: dict[str, object]) -> None:
    labels, annotations = rule["labels"], rule["annotations"]
    assert isinstance(labels, dict)
    assert isinstance(annotations, dict)
    assert labels["severity"] in SEVERITIES
    assert set(annotations) == {"summary", "description", "runbook_url"}
    path, _, fragment = annotations["runbook_url"].partition("#")
    page = (ROOT / path).read_text(encoding="utf-8")
    assert fragment in map(anchor, headings(page))


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_names_labels_that_are_left(rule: dict[str, object]) -> None:
    texts = json.dumps(rule["annotations"])
    assert set(re.findall(r"\$labels\.(\w+)", texts)) <= grouping(str(rule["expr"]))


def test_every_alert_has_its_section_and_every_section_its_alert() -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    sections = [heading for heading in headings(page) if heading.startswith("Placet")]
    assert sorted(sections) == sorted(rule["alert"] for rule in rules())


def test_rows_of_the_dashboard_are_those_of_the_documentation() -> None:
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    rows = [panel["title"] for panel in dashboard["panels"] if panel["type"] == "row"]
    page = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    assert re.findall(r"(?m)^\| (\w+) \| (?!shows)", page)[: len(rows)] == rows
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
