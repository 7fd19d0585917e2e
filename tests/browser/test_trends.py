"""Trends: numbers of a week as lines, and the same as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Demo, everybody_can_use_it

pytestmark = pytest.mark.browser


def a_day() -> Mapping[str, Any]:
    """A history of a day, with a point for two minutes."""
    points = range(720)
    series = {
        "full batch/batch: spot": [100 - (n % 300) / 5 for n in points],
        "full batch/batch: zone": [60 + (n % 100) / 4 for n in points],
        "p99 filter": [0.004 + (n % 37) / 20_000 for n in points],
        "p99 prioritize": [0.002 + (n % 53) / 30_000 for n in points],
        "rejected nodes": [float(n * 7 % 190) for n in points],
        "waiting pods": [float(max(0, 12 - abs(n - 400) // 9)) for n in points],
    }
    return {
        "replica": "placet-0",
        "kept": True,
        "times": [1_764_000_000 + 120 * n for n in points],
        "series": [{"name": name, "numbers": numbers} for name, numbers in series.items()],
    }


def test_a_day_is_drawn(page: Page, demo: Demo) -> None:
    page.route("**/api/v1/history**", lambda route: route.fulfill(json=a_day()))
    page.goto(f"{demo.view}/ui/#/trends")
    waiting = page.get_by_role("region", name="Pods that wait")
    expect(waiting.locator("canvas")).to_be_visible()
    expect(waiting.locator(".legend")).to_have_text("waiting pods: now 0, at most 12")
    fills = page.get_by_role("region", name="How full bounds are")
    expect(fills.locator(".legend")).to_contain_text("batch/batch: spot: now 76.2 %, at most 100 %")
    expect(page.get_by_text("survive a restart of the replica")).to_be_visible()
    everybody_can_use_it(page, "trends")
    page.get_by_label("The last").select_option("168")
    assert page.url.endswith("#/trends?hours=168")


def test_the_charts_come_only_with_the_trends(page: Page, demo: Demo) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{demo.view}/ui/")
    expect(page.locator("canvas").first).to_be_visible()
    assert not [url for url in asked if url.endswith("uplot.js")]
    page.get_by_role("link", name="Trends").click()
    expect(page.get_by_text("--history FILE")).to_be_visible()
    assert [url for url in asked if url.endswith("/ui/vendor/uplot.js")]
