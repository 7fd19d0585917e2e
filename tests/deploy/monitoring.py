"""The alerts and the dashboard that the chart has: their expressions, and what these name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

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
