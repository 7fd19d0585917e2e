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
BIG = """
kind: Pod
metadata: {name: big, namespace: ml}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 400}}}]}
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


def test_pasted_workloads_are_placed_and_each_pod_says_why(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/")
    page.get_by_role("link", name="Place pods").click()
    page.get_by_label("Manifests").fill(f"{MANIFEST}---\n{BIG}")
    page.get_by_role("button", name="Would they fit").click()
    placed = page.get_by_role("region", name="1 of 4 pods finds no place: ml/big.")
    expect(placed).to_contain_text("3 of 4 pods")
    rows = placed.locator("tbody tr")
    expect(rows).to_have_count(4)
    expect(rows.first).to_contain_text("arm-")
    expect(rows.last).to_contain_text("nowhere")
    expect(rows.last).to_contain_text("Insufficient cpu")
    expect(page.get_by_role("heading", name="Why shop/front-")).to_be_visible()
    answer = page.locator(".answer").first
    expect(answer).to_contain_text("5 of 12 nodes pass.")
    expect(answer).to_contain_text("The best is arm-b1")
    expect(page.locator(".lines li", has_text="governs")).to_contain_text("shop/shop")
    everybody_can_use_it(page, "place")
    page.locator(".group", has_text="a database runs there").first.get_by_text("general-a1").click()
    node = page.get_by_role("region", name="Node general-a1")
    expect(node).to_contain_text("at most 0 with this pod")
    assert "node=general-a1" in page.url
    node.get_by_role("link", name="close").click()
    rows.last.get_by_role("link", name="ml/big").click()
    expect(page.get_by_role("heading", name="Why ml/big")).to_be_visible()
    expect(page.locator(".cause")).to_contain_text("Insufficient cpu")
    page.get_by_label("Manifests").fill("kind: ConfigMap\nmetadata: {name: x}\n")
    page.get_by_role("button", name="Would they fit").click()
    expect(page.get_by_role("alert")).to_contain_text("There are no pods to schedule")


def test_nodes_that_come_are_among_the_others(page: Page, demo: Demo) -> None:
    """A policy of the demo keeps pods from nodes that have just joined."""
    page.goto(f"{demo.view}/ui/#/place")
    many = MANIFEST.replace("replicas: 3", "replicas: 60")
    page.get_by_label("Manifests").fill(many)
    page.get_by_label("Add nodes like").fill("arm-b1")
    page.get_by_label("So many").fill("3")
    page.keyboard.press("Enter")
    expect(page.locator("dt", has_text="New nodes in use").locator("..")).to_contain_text("0 of 3")
    rows = page.get_by_role("region", name="Where each pod goes").locator("tbody tr")
    expect(rows.last).to_contain_text("young-nodes: settled: the node has just joined (4 nodes)")
    page.get_by_label("Add nodes like").fill("nothing")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("nothing")
