"""Alerts and dashboard: they name metrics and labels that there are, and pages that exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.every_metric import every_metric, series
from tests.test_documentation import anchor, headings

FILES = Path(__file__).parents[2] / "deploy" / "chart" / "files"
ALERTS, DASHBOARD = FILES / "alerts.yaml", FILES / "dashboard.json"
# Grafana replaces them before Prometheus sees a query.
VARIABLES = {"$job": ".+", "$__rate_interval": "1m"}


def rules() -> list[dict[str, Any]]:
    """The alerts of all groups."""
    groups = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def panels() -> Iterator[tuple[str, str, str]]:
    """The titles and queries of panels, with the legend of each query."""
    for panel in json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], _filled(target["expr"]), target["legendFormat"]


def expressions() -> Mapping[str, str]:
    """Every expression, by the alert or by the panel and the legend."""
    alerts = {f"alert {rule['alert']}": rule["expr"] for rule in rules()}
    return alerts | {f"{title}: {legend}": query for title, query, legend in panels()}


def _filled(query: str) -> str:
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    return query


def selectors(expression: str) -> list[tuple[str, frozenset[str]]]:
    """The names of metrics in an expression, each with the labels that its selector names."""
    found = re.findall(r"\b((?:placet|process)_\w+)(?:\{([^}]*)\})?", _without_grouping(expression))
    return [(name, frozenset(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", text))) for name, text in found]


def grouping(expression: str) -> frozenset[str]:
    """The labels that an expression groups or matches by."""
    found = re.findall(_GROUPING, expression)
    return frozenset(label.strip() for labels in found for label in labels.split(",")) - {""}


def _without_grouping(expression: str) -> str:
    return re.sub(_GROUPING, "", expression)


_GROUPING = r"\b(?:by|on|group_left)\s*\(([\w\s,]*)\)"


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
