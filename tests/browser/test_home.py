"""Home: the questions of an operator are answered where the page opens, or one action away."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.request import urlopen

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Demo, everybody_can_use_it

pytestmark = pytest.mark.browser
ZONE = "topology.kubernetes.io/zone"
REPORTS = "shop/reports-7d9c6b-0x"


def answered(demo: Demo, path: str) -> Any:
    with urlopen(f"{demo.view}/api/v1/{path}") as response:  # noqa: S310 - the demo's own address
        return json.load(response)


def section(page: Page, name: str) -> Any:
    return page.get_by_role("region", name=name, exact=True)


def test_the_page_opens_on_the_cluster(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("12 nodes 40 pods placed 2 wait")
    expect(page).to_have_title("Home · Placet")
    nodes = section(page, "Nodes")
    expect(nodes.locator("canvas")).to_have_count(3)
    expect(nodes).to_contain_text("eu-west-1b 5 nodes, cpu 23 %")


def test_pods_that_wait_say_why_as_the_terminal_does(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/")
    waiting = section(page, "Pods that wait")
    for pod in ("ml/train-large-0x", REPORTS):
        cause = answered(demo, f"explain/{pod}")["cause"]["text"]
        row = waiting.locator("li", has_text=pod)
        expect(row.locator(".why")).to_contain_text(cause[1:])
    waiting.get_by_role("link", name=REPORTS).click()
    expect(page.locator(".cause")).to_contain_text("a database runs there (2 nodes)")


def test_the_fullest_bounds_and_what_rejects(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/")
    fills = section(page, "What fills up")
    expect(fills.locator("li").nth(0)).to_contain_text("batch/batch: spot")
    expect(fills.locator("li").nth(1)).to_contain_text("3 of 3")
    rejecting = section(page, "What rejects most")
    expect(rejecting.locator(".fill").first).to_have_text(re.compile(r".+: .+\d+ nodes?"))
    expect(page.locator(".legend")).to_contain_text("90 % and more")
    page.get_by_text("Nodes as a list").click()
    expect(page.locator(".names").first).to_contain_text(re.compile(r"general-a1 \d+ %"))


def test_nodes_are_coloured_by_the_verdict_for_a_pod(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/")
    row = section(page, "Pods that wait").locator("li", has_text=REPORTS)
    row.get_by_role("button", name="Show on the nodes").click()
    legend = page.locator(".legend")
    explained = answered(demo, f"explain/{REPORTS}")
    rejected = sum(g["nodes"] for g in explained["groups"] if g["rejectedBy"])
    expect(legend).to_contain_text(f"{rejected} rejected by policies")
    # The colours that are drawn are those of the legend.
    found = page.evaluate(
        """() => { const found = {};
          for (const canvas of document.querySelectorAll(".squares canvas")) {
            const pen = canvas.getContext("2d"), side = 44, lines = canvas.height / side;
            for (let x = 0; x < canvas.width / side; x++) for (let y = 0; y < lines; y++) {
              const [r, g, b, a] = pen.getImageData(x * side + 4, y * side + 22, 1, 1).data;
              if (a) found[`rgb(${r}, ${g}, ${b})`] = (found[`rgb(${r}, ${g}, ${b})`] || 0) + 1;
            } }
          return found; }"""
    )
    of_legend = page.evaluate(
        "getComputedStyle(document.querySelector('.legend .rejected')).backgroundColor"
    )
    assert found[of_legend] == rejected
    assert sum(found.values()) == 12


def test_a_click_on_a_node_leads_to_what_each_clause_says(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/home?by=pod&pod={REPORTS}")
    expect(page.locator(".legend a")).to_be_visible()
    zone = page.locator("figure", has_text="eu-west-1a").locator("canvas")
    zone.click(position={"x": 66, "y": 22})
    node = page.get_by_role("region", name="Node general-a1")
    expect(node).to_contain_text("Pods5")
    assert "node=general-a1" in page.url
    node.get_by_role("link").click()
    expect(page.get_by_role("region", name="Node general-a1")).to_contain_text("databases")


def test_the_group_and_the_colour_are_in_the_address(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/")
    page.get_by_label("Grouped by").select_option("kubernetes.io/arch")
    page.get_by_label("Coloured by").select_option("memory")
    expect(page.locator("figcaption").first).to_contain_text("amd64 9 nodes")
    assert "label=kubernetes.io%2Farch" in page.url
    assert "by=memory" in page.url
    sent = page.url
    page.goto(f"{demo.view}/ui/#/policies")
    page.goto(sent)
    expect(page.get_by_label("Grouped by")).to_have_value("kubernetes.io/arch")
    expect(page.get_by_label("Coloured by")).to_have_value("memory")


def test_a_spread_says_what_its_numbers_are(page: Page, demo: Demo) -> None:
    group = {"name": "eu-west-1a", "used": 2, "most": 3}
    named = {"policy": "shop/shop", "clause": "zones", "of": "web", "groups": [group], "more": 0}
    bounds = [named | {"kind": "spread"}, named | {"clause": "all", "kind": "limit"}]
    found = {"replica": "r", "at": "2026-11-21T12:00:00Z", "bounds": bounds}
    page.route("**/api/v1/fills", lambda route: route.fulfill(json=found))
    page.goto(f"{demo.view}/ui/")
    fills = section(page, "What fills up").locator("li")
    expect(fills.nth(0)).to_contain_text("2 of 3")
    expect(fills.nth(0)).to_contain_text("as many more than in the emptiest place")
    expect(fills.nth(1)).not_to_contain_text("emptiest")
    everybody_can_use_it(page, "spread")


def many(nodes: int) -> dict[str, Any]:
    """The overview of a large cluster."""
    return {
        "replica": "placet-0",
        "at": "2026-11-21T12:00:00Z",
        "pods": 50_000,
        "waiting": 0,
        "edits": [
            {
                "address": "shop/web",
                "at": "2026-11-21T12:00:00Z",
                "by": "kubectl-edit",
                "action": "edited",
            }
        ],
        "nodes": {
            "label": ZONE,
            "labels": [ZONE],
            "groups": [f"zone-{number}" for number in range(6)],
            "names": [f"node-{number:05}" for number in range(nodes)],
            "group": [number % 6 for number in range(nodes)],
            "cpu": [number % 101 for number in range(nodes)],
            "memory": [number % 101 for number in range(nodes)],
            "pods": [10] * nodes,
            "cards": None,
            "state": [int(not number % 97) for number in range(nodes)],
        },
    }


# When the first and the last square are painted, and how many there are.
COUNTING = """
window.squares = { first: null, last: 0, count: 0 };
const fill = CanvasRenderingContext2D.prototype.fillRect;
CanvasRenderingContext2D.prototype.fillRect = function (...box) {
  window.squares.first = window.squares.first ?? performance.now();
  fill.apply(this, box);
  window.squares.last = performance.now();
  window.squares.count += 1;
};
"""


@pytest.mark.parametrize("width", [1440, 390])
def test_5000_nodes_are_drawn_within_200_ms(page: Page, demo: Demo, width: int) -> None:
    document = many(5_000)
    page.set_viewport_size({"width": width, "height": 900})
    page.add_init_script(COUNTING)
    page.route("**/api/v1/overview**", lambda route: route.fulfill(json=document))
    page.goto(f"{demo.view}/ui/")
    expect(page.get_by_role("heading", level=1)).to_contain_text("5,000 nodes")
    expect(page.locator("canvas")).to_have_count(6)
    expect(section(page, "What changed")).to_contain_text("edited")
    expect(section(page, "What changed")).to_contain_text("by kubectl-edit")
    squares = page.evaluate("window.squares")
    assert squares["count"] >= 5_000
    assert squares["last"] - squares["first"] < 200
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width == 1440:
        everybody_can_use_it(page, "home-5000")


def test_what_the_cluster_says_is_never_markup(page: Page, demo: Demo) -> None:
    hostile = "<img src=x onerror=\"document.title='owned'\">"
    document = many(3)
    document["nodes"]["names"][0] = document["nodes"]["groups"][0] = hostile
    document["edits"][0] |= {"by": hostile, "address": f"shop/{hostile}"}
    cause = {"kind": "policy", "text": hostile, "hint": hostile}
    waits = {"pod": f"shop/{hostile}", "pods": 2, "since": None, "asked": True}
    listed = {"replica": "r", "waiting": [waits | {"cause": cause, "problem": ""}]}
    group = {"name": hostile, "used": 1, "most": 2}
    bound = {"policy": hostile, "clause": hostile, "of": hostile, "groups": [group], "more": 0}

    def answer(route: Route) -> None:
        kind = route.request.url.partition("/api/v1/")[2].partition("?")[0]
        found = {
            "overview": document,
            "waiting": listed | {"more": 0, "complete": True},
            "fills": {"replica": "r", "at": "2026-11-21T12:00:00Z", "bounds": [bound]},
        }
        route.fulfill(json=found[kind])

    page.route(re.compile(r"/api/v1/(overview|waiting|fills)"), answer)
    page.goto(f"{demo.view}/ui/")
    expect(section(page, "Pods that wait")).to_contain_text(hostile)
    expect(section(page, "What fills up")).to_contain_text(hostile)
    expect(section(page, "What changed")).to_contain_text(hostile)
    expect(page.locator("figcaption").first).to_contain_text(hostile)
    assert page.locator("img").count() == 0
    expect(page).to_have_title("Home · Placet")


# ---- A pod as a funnel of reasons, the scores of its best nodes, and pods of manifests


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
    page.get_by_text("From all 12 nodes to those that are left").click()
    rows = section(page, "From all nodes to those that are left").locator("tbody tr")
    expect(rows.first).to_contain_text("kube-scheduler: node(s) didn't match")
    expect(rows.filter(has_text="shop/shop: databases")).to_be_visible()
    expect(page.get_by_text("rejects no node.")).to_be_visible()
    cells = [row.locator("td").all_inner_texts() for row in rows.all()]
    left = [12, *(int(texts[-1]) for texts in cells)]
    assert left[-1] == 0
    for (before, after), texts in zip(itertools.pairwise(left), cells, strict=True):
        assert 0 <= before - after <= int(texts[1]), texts


def test_pasted_workloads_are_placed_and_each_pod_says_why(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/")
    page.get_by_role("link", name="Try").click()
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


# ---- trends: numbers of a week as lines, and the same as text


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
        "series": series,
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


def test_the_health_of_the_replica_stands_above_the_trends(page: Page, demo: Demo) -> None:
    status = answered(demo, "status")
    lease = {"identity": "placet-0", "holder": "placet-1", "held": False, "failure": ""}
    cluster = {"missing": "", "lease": lease, "resources": {}, "failing": {"bind pods": "refused"}}
    failing = [{"name": "lease", "failure": "nobody holds it", "warning": False}]
    found = status | {"cluster": cluster, "failing": failing}
    page.route("**/api/v1/status", lambda route: route.fulfill(json=found))
    page.goto(f"{demo.view}/ui/#/trends")
    expect(page.get_by_role("heading", level=1)).to_have_text("Health")
    expect(page.get_by_role("alert")).to_have_text("lease: Nobody holds it.")
    facts = page.locator(".facts").first
    expect(facts).to_contain_text("Leaderplacet-1")
    expect(facts).to_contain_text("Started")
    expect(page.get_by_text("It cannot bind pods: refused")).to_be_visible()
    since = re.compile(r"the first one here is of \d+ \w+ \d{4}")
    expect(page.get_by_text(since)).to_be_visible()
    everybody_can_use_it(page, "health")


def test_the_charts_come_only_with_the_trends(page: Page, demo: Demo) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{demo.view}/ui/")
    expect(page.locator("canvas").first).to_be_visible()
    assert not [url for url in asked if url.endswith("uplot.js")]
    page.get_by_role("link", name="Health").click()
    expect(page.get_by_text("--history FILE")).to_be_visible()
    assert [url for url in asked if url.endswith("/ui/vendor/uplot.js")]
