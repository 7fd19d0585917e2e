"""A pod as a funnel of reasons, the scores of its best nodes, and pods of manifests."""

from __future__ import annotations

import itertools

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Demo, everybody_can_use_it

pytestmark = pytest.mark.browser
MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: front, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: front}}
  template:
    metadata: {labels: {app: front, tier: web}}
    spec:
      containers:
        - {name: c, image: i, resources: {requests: {cpu: 500m, memory: 1Gi}}}
"""


def test_the_funnel_ends_with_the_nodes_that_are_left(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/pods/shop/reports-7d9c6b-0x")
    funnel = page.get_by_role("region", name="From all nodes to those that are left")
    steps = funnel.locator("li")
    expect(steps.first).to_contain_text("12 left")
    expect(steps.nth(1)).to_contain_text("kube-scheduler: node(s) didn't match")
    expect(funnel.locator("li", has_text="shop/shop: databases")).to_contain_text("\N{MINUS SIGN}2")
    expect(steps.last).to_contain_text("0 left")
    texts = funnel.locator(".number").all_inner_texts()
    left = [int(text.split()[-2]) for text in texts]
    gone = [int(text.split()[0].removeprefix("\N{MINUS SIGN}")) for text in texts[1:]]
    assert [before - after for before, after in itertools.pairwise(left)] == gone


def test_the_parts_of_the_scores_stand_side_by_side(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/pods/shop/web-7d9c6b-0x")
    page.get_by_role("button", name="What each clause adds").click()
    compared = page.locator(".compared li")
    expect(compared).to_have_count(5)
    expect(page.locator(".legend")).to_contain_text("shop/shop: pack")
    first = compared.first.locator("svg")
    expect(first).to_have_attribute(
        "aria-label", "shop/shop: arm 5, shop/shop: pack 1.63, shop/shop: spot 0"
    )
    everybody_can_use_it(page, "scores")


def test_a_pasted_workload_is_placed(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/")
    page.get_by_role("link", name="Place a pod").click()
    page.get_by_label("Manifest").fill(MANIFEST)
    page.get_by_role("button", name="Where would it go").click()
    expect(page.get_by_role("heading", level=2).first).to_contain_text("shop/front-")
    answer = page.locator(".answer").first
    expect(answer).to_contain_text("5 of 12 nodes pass.")
    expect(answer).to_contain_text("The best is arm-b1")
    expect(page.locator(".lines li", has_text="governs")).to_contain_text("shop/shop")
    everybody_can_use_it(page, "place")
    page.locator(".group", has_text="a database runs there").first.get_by_text("general-a1").click()
    node = page.get_by_role("region", name="Node general-a1")
    expect(node).to_contain_text("at most 0 with this pod")
    assert page.url.endswith("#/place/general-a1")
    node.get_by_role("link", name="close").click()
    page.get_by_label("Manifest").fill("kind: ConfigMap\nmetadata: {name: x}\n")
    page.get_by_role("button", name="Where would it go").click()
    expect(page.get_by_role("alert")).to_contain_text("has neither a pod nor a workload")
