"""An operator's questions: each is answered on the page after at most two actions from home."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import Demo

pytestmark = pytest.mark.browser
REPORTS = "shop/reports-7d9c6b-0x"
SCREENS = [(1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")]


class Operator:
    """Somebody at the page, whose actions are counted: clicks, choices, and words with Enter."""

    def __init__(self, page: Page, view: str) -> None:
        self.page = page
        self.actions = 0
        page.goto(f"{view}/ui/")
        expect(page.get_by_role("heading", level=1)).to_contain_text("12 nodes")

    def click(self, what: Locator) -> None:
        self.actions += 1
        what.click()

    def section(self, name: str) -> Locator:
        return self.page.get_by_role("region", name=name, exact=True)


def what_waits(who: Operator) -> None:
    waits = who.section("Pods that wait").locator("li")
    expect(waits).to_have_count(2)
    expect(waits.filter(has_text=REPORTS)).to_be_visible()


def why_it_waits(who: Operator) -> None:
    row = who.section("Pods that wait").locator("li", has_text=REPORTS)
    expect(row.locator(".why")).to_contain_text("database runs there")
    who.click(row.get_by_role("link", name=REPORTS))
    expect(who.page.get_by_text("From all nodes to those that are left")).to_be_visible()


def how_full_each_bound_is(who: Operator) -> None:
    fills = who.section("What fills up")
    expect(fills.locator(".fill").first).to_contain_text("6 of 6")
    who.click(fills.get_by_role("link").first)
    bounds = who.section("How full its bounds are")
    expect(bounds.locator(".fill").first).to_be_visible()


def which_policy_hurts(who: Operator) -> None:
    rejecting = who.section("What rejects most").locator(".fill")
    expect(rejecting.first).to_contain_text("nodes")
    who.click(rejecting.first.get_by_role("link"))
    expect(who.section("Pods that it selects")).to_contain_text("of the cluster")


def where_a_pod_would_go(who: Operator) -> None:
    who.click(who.page.get_by_role("link", name="Place pods"))
    # A manifest is there to begin with.
    who.click(who.page.get_by_role("button", name="Would they fit"))
    expect(who.section("All 3 pods find a place.").locator("tbody tr")).to_have_count(3)


def what_changed(who: Operator) -> None:
    expect(who.section("What changed")).to_contain_text("No policy has changed since")
    who.click(who.page.get_by_role("link", name="Trends"))
    expect(who.page.get_by_label("The last")).to_have_value("24")


QUESTIONS = [
    what_waits,
    why_it_waits,
    how_full_each_bound_is,
    which_policy_hurts,
    where_a_pod_would_go,
    what_changed,
]


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_each_question_is_answered_in_two_actions(
    page: Page, demo: Demo, width: int, scheme: str
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    actions: dict[str, int] = {}
    question: Callable[[Operator], None]
    for question in QUESTIONS:
        who = Operator(page, demo.view)
        question(who)
        actions[question.__name__] = who.actions
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.goto("about:blank")
    assert max(actions.values()) <= 2, actions
