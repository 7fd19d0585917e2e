"""A draft that leaves the page: as its text, as a file, and as a link that has it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from playwright.sync_api import Page, expect

from tests.browser.conftest import Demo
from tests.browser.editing import write

pytestmark = pytest.mark.browser
DRAFT = """policy link in namespace "shop" {
  filter "grüße" { require node.labels["zone"] == "<b>a</b>" }
}
"""


def test_a_link_has_the_draft(page: Page, demo: Demo) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=demo.view)
    page.goto(f"{demo.view}/ui/#/playground")
    write(page, DRAFT)
    page.get_by_role("button", name="Copy a link").click()
    expect(page.get_by_text("Link copied.")).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{demo.view}/ui/#/playground?name=draft.policy&text=")
    page.goto("about:blank")
    page.goto(link)
    text = page.get_by_label("Text of the draft")
    expect(text).to_contain_text('filter "grüße"')
    expect(text).to_contain_text("<b>a</b>")
    assert page.locator(".cm-content b").count() == 0
    page.get_by_role("button", name="Copy the text").click()
    expect(page.get_by_text("Text copied.")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()").strip() == DRAFT.strip()


def test_a_draft_is_copied_as_an_object(page: Page, demo: Demo) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=demo.view)
    page.goto(f"{demo.view}/ui/#/playground")
    write(page, DRAFT)
    page.get_by_role("button", name="Copy as PlacementPolicy").click()
    expect(page.get_by_text("PlacementPolicy copied.")).to_be_visible()
    found = yaml.safe_load(page.evaluate("navigator.clipboard.readText()"))
    assert found["metadata"] == {"name": "link", "namespace": "shop"}
    assert "grüße" in found["spec"]["rules"]
    write(page, DRAFT.replace("{\n", "{ for pods where pod.priority > 3\n", 1))
    page.get_by_role("button", name="Copy as PlacementPolicy").click()
    expect(page.get_by_text("selects pods by more than labels")).to_be_visible()


def test_a_draft_is_saved_as_a_file(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/playground")
    write(page, DRAFT)
    with page.expect_download() as found:
        page.get_by_role("button", name="Save as a file").click()
    assert found.value.suggested_filename == "draft.policy"
    assert Path(found.value.path()).read_text("utf-8").strip() == DRAFT.strip()


@pytest.mark.parametrize("broken", ["%%%", "AAAA", "a" * 300])
def test_a_broken_link_says_so(page: Page, demo: Demo, broken: str) -> None:
    page.goto(f"{demo.view}/ui/#/playground?text={broken}")
    expect(page.get_by_role("alert")).to_contain_text("The link has no draft that can be read")
