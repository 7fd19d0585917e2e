"""A draft that leaves the page as objects."""

from __future__ import annotations

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
