"""Finding: everything that has a name is two actions away, from wherever one is."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Demo

pytestmark = pytest.mark.browser

LEADS_TO = {
    "orders-db-0": ("shop/orders-db-0", "#/pods/shop/orders-db-0"),
    "statefulset orders": ("shop/StatefulSet/orders-db", "#/workloads/shop/StatefulSet/orders-db"),
    "gpu-a": ("gpu-a1", "#/home?node=gpu-a1"),
    "leaving": ("leaving-nodes", "#/policies/leaving-nodes"),
    "databases": ("shop/shop: databases", "#/policies/shop/shop"),
    "maintenance soon": (
        "leaving-nodes: maintenance: the node goes into maintenance soon",
        "#/pods/",
    ),
}


@pytest.mark.parametrize("text", LEADS_TO)
def test_a_word_leads_to_what_has_it(page: Page, demo: Demo, text: str) -> None:
    """The key, the word, and the link; the address of the search can be sent."""
    name, address = LEADS_TO[text]
    page.goto(f"{demo.view}/ui/#/health")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.keyboard.press("/")
    field = page.get_by_label("A part of a name")
    expect(field).to_be_focused()
    page.keyboard.type(text)
    link = page.get_by_role("link", name=name, exact=True)
    expect(link.first).to_be_visible()
    sent = page.url
    link.first.click()
    expect(page).to_have_url(re.compile(re.escape(address)))
    page.goto(sent)
    expect(page.get_by_role("link", name=name, exact=True).first).to_be_visible()


def test_nothing_is_found_of_a_word_that_no_name_has(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/find?text=nowhere-to-be-found")
    expect(page.locator(".empty")).to_contain_text("Nothing has this in its name")


def test_the_keys_are_shown(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_contain_text("find anything")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.press("?")
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()


def test_a_key_that_is_written_is_no_command(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/playground")
    page.get_by_label("Text of the draft").click()
    page.keyboard.type("?/")
    expect(page.get_by_label("Text of the draft")).to_contain_text("?/")
    assert page.url.endswith("#/playground")


def test_a_workload_says_why_its_pods_wait(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/workloads/shop/Deployment/reports")
    expect(page.locator(".answer")).to_contain_text("1 pod, 1 without a node.")
    expect(page.locator(".cause")).to_contain_text("a database runs there (2 nodes)")
    page.goto(f"{demo.view}/ui/#/workloads/shop/Deployment/nothing")
    expect(page.locator(".empty")).to_contain_text("No pod is of a Deployment")
