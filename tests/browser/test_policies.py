"""The page of a policy: its text in colours, its pods, its bounds, and the texts that it had."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import msgspec
import pytest
from playwright.sync_api import Page, Route, expect

from engine.decision.journal import Journal
from tests.browser.conftest import Demo, everybody_can_use_it
from tests.support.builders import kubectl_list, node, pod, raw
from tests.support.engines import Known, cache_of, engine_over
from tests.support.view_server import Cluster, Parts, running

pytestmark = pytest.mark.browser
NAME = "placementpolicies/shop/share"
RULES = """limit "zone" {
  pods where peer.labels["app"] == "web"
  per node.labels["topology.kubernetes.io/zone"]
  at most 3
  strict
}
"""


def policy(rules: str, manager: str = "kubectl-client-side-apply") -> bytes:
    metadata = {"name": "share", "namespace": "shop", "uid": "u", "generation": 1}
    written = [{"manager": manager, "time": "2026-11-21T12:00:00Z"}]
    return msgspec.json.encode(
        {
            "apiVersion": "placement-policy.scheduling.x-k8s.io/v1",
            "kind": "PlacementPolicy",
            "metadata": metadata | {"managedFields": written},
            "spec": {"podSelector": {"matchLabels": {"app": "web"}}, "rules": rules},
        }
    )


def parts() -> Parts:
    """A view over one object that selects four pods, two of them in one zone."""
    labels = {"app": "web"}
    pods = [
        # Of a scheduler that does not ask here, so that it is not on its way after the start.
        pod("web-0", "shop", labels=labels, spec={"schedulerName": "another"}),
        pod("web-1", "shop", labels=labels, on="a"),
        pod("web-2", "shop", labels=labels, on="a"),
        pod("web-3", "shop", labels=labels, on="b"),
        pod("other", "shop", on="b"),
    ]
    cache = cache_of([node("a", "eu-1"), node("b", "eu-2")], pods)
    cluster = Cluster("", bodies={NAME: policy(RULES)}, state=Known(cache))
    cluster.known = {f"shop/{each['metadata']['name']}": raw(each) for each in pods}
    engine = engine_over("", cache)
    engine.adopt(cluster.enforced.registry)
    cluster.engine = engine
    cluster.parts = [raw(kubectl_list([node("a", "eu-1"), node("b", "eu-2"), *pods]))]
    return Parts(Journal(), cluster=cluster)


def test_a_policy_object_shows_what_its_author_wrote(page: Page) -> None:
    with running(parts()) as found:
        page.goto(f"{found.urls[0]}/ui/#/policies/shop/share")
        text = page.locator(".text").first
        expect(text.locator("li").nth(1)).to_have_text("kind: PlacementPolicy")
        expect(text).to_contain_text("app: web")
        expect(text).not_to_contain_text("spec.podSelector")
        page.get_by_role("link", name="Edit it in the playground").click()
        expect(page.get_by_label("Text of the draft")).to_contain_text("kind: PlacementPolicy")
        page.get_by_role("button", name="Try it").click()
        expect(page.locator(".answer")).to_contain_text("0 pods would get another answer.")


def test_the_list_says_what_each_policy_does(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/policies")
    table = page.get_by_role("region", name="Policies", exact=True)
    row = table.locator("tbody tr", has_text="shop/shop")
    expect(row).to_contain_text("Web and api pods: away from databases")
    expect(row.locator("td").nth(2)).to_have_text(re.compile(r"^\d+1 waits$"))
    expect(row.locator("td").nth(3)).to_have_text(re.compile(r"^\d+$"))
    expect(page.get_by_text(re.compile("since this replica started, .+ ago"))).to_be_visible()
    # What only others use is folded, and nobody has written a weight.
    used = page.get_by_text(re.compile(r"\d+ policies that others use"))
    expect(page.get_by_text("avoid-hot-nodes")).to_be_hidden()
    used.click()
    expect(page.get_by_text("avoid-hot-nodes")).to_be_visible()
    expect(page.locator("main")).not_to_contain_text("101")
    everybody_can_use_it(page, "policies-open")


def test_the_list_is_filtered_and_sorted_and_the_address_keeps_both(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/policies")
    rows = page.get_by_role("region", name="Policies", exact=True).locator("tbody tr")
    expect(rows.first).to_contain_text("batch/batch")
    page.get_by_label("Sorted by").select_option("rejected nodes")
    expect(rows.first).not_to_contain_text("batch/batch")
    numbers = [text for text in rows.locator("td:nth-child(4)").all_inner_texts() if text]
    assert numbers == sorted(numbers, key=int, reverse=True)
    page.get_by_label("Name or description").fill("gpu")
    expect(rows).to_have_count(1)
    expect(page.get_by_text("card-packing")).to_be_visible()
    page.reload()
    expect(rows).to_have_count(1)
    expect(page.get_by_label("Sorted by")).to_have_value("rejects")
    page.get_by_label("Show").select_option("in audit")
    page.get_by_role("link", name="Show all").click()
    expect(rows.filter(has_text="shop/shop")).to_be_visible()


def test_the_list_says_who_changed_a_policy_last(page: Page) -> None:
    with running(parts()) as found:
        page.goto(f"{found.urls[0]}/ui/#/policies")
        cells = page.locator("tbody tr", has_text="shop/share").locator("td")
        expect(cells.nth(2)).to_have_text("41 waits")
        expect(cells.nth(4)).to_contain_text("ago")
        expect(cells.nth(4)).to_contain_text("by kubectl-client-side-apply")
        page.get_by_role("link", name="shop/share").click()
        expect(page.locator(".facts").first).to_contain_text("Mode")
        expect(page.locator(".facts").first).to_contain_text("by kubectl-client-side-apply")
        for word in ("Weight", "Digest"):
            expect(page.locator(".facts").first).not_to_contain_text(word)


def test_a_policy_has_its_pods_and_its_bounds(page: Page) -> None:
    with running(parts()) as found:
        page.goto(f"{found.urls[0]}/ui/#/policies/shop/share")
        selected = page.get_by_role("region", name="Pods that it selects")
        expect(selected).to_contain_text("4 pods of the cluster, 1 without a node.")
        expect(selected.locator("li", has_text="shop/web-0")).to_contain_text("waits")
        bounds = page.get_by_role("region", name="How full its bounds are")
        expect(bounds.locator(".fill").nth(0)).to_contain_text("eu-1")
        expect(bounds.locator(".fill").nth(0)).to_contain_text("2 of 3")
        expect(bounds.locator(".fill").nth(1)).to_contain_text("1 of 3")
        everybody_can_use_it(page, "policy-object")


def test_an_edit_is_shown_at_home(page: Page) -> None:
    made = parts()
    with running(made) as found:
        page.goto(f"{found.urls[0]}/ui/#/home")
        changed = page.get_by_role("region", name="What changed")
        expect(changed).to_contain_text("by kubectl-client-side-apply")
        made.cluster.bodies = {NAME: policy(RULES.replace("3", "2"), manager="argocd")}
        page.reload()
        expect(changed).to_contain_text("shop/share edited")
        expect(changed).to_contain_text("by argocd")


def test_a_policy_has_what_its_clauses_rejected(page: Page) -> None:
    made = parts()
    numbers = [None, 3.0, None, 1.0]
    series = {
        "rejected shop/share: zone": numbers,
        "rejected shop/share: long ago": [None] * 4,
        "full shop/share: zone": [50.0] * 4,
    }
    times = [1_764_000_000 + 60 * number for number in range(4)]
    history = {"replica": "placet-0", "kept": True, "times": times, "series": series}
    page.route("**/api/v1/history?*shop%2Fshare", lambda route: route.fulfill(json=history))
    with running(made) as found:
        page.goto(f"{found.urls[0]}/ui/#/policies/shop/share")
        page.get_by_role("link", name="how full its bounds were and what").click()
        rejected = page.get_by_role("region", name="Nodes rejected in a minute")
        expect(rejected.locator(".legend span")).to_have_count(1)
        expect(rejected).to_contain_text("shop/share: zone: now 1, at most 3")
        full = page.get_by_role("region", name="How full bounds are")
        expect(full).to_contain_text("shop/share: zone: now 50 %, at most 50 %")


def test_a_policy_has_its_gangs_and_its_cards(page: Page, demo: Demo) -> None:
    gang = {"gang": "batch/a", "policy": "batch/batch", "held": {"part": 2, "whole": 4}}
    of_policy = {"policy": "batch/batch", "waiting": 0, "gathering": 1, "given up": 0}

    def with_gangs(route: Route) -> None:
        status = route.fetch().json()
        gangs = [of_policy, of_policy | {"policy": "shop/shop"}]
        some = [gang | {"state": "gathering: 2 of 4 members are here", "for (s)": 12.3}]
        route.fulfill(json=status | {"facts": {"gangs": gangs, "some gangs": some}})

    groups = [
        {"name": "all nodes", "used": 600, "most": 2000},
        {"name": "n", "used": 6e9, "most": 8e9},
    ]
    bound = {"policy": "batch/batch", "clause": "gpu", "of": "milli", "groups": groups, "more": 0}
    fills = {"replica": "r", "at": "2026-11-21T12:00:00Z", "bounds": [bound]}
    page.route("**/api/v1/status", with_gangs)
    page.route("**/api/v1/fills", lambda route: route.fulfill(json=fills))
    page.goto(f"{demo.view}/ui/#/policies/batch/batch")
    numbers = page.get_by_role("region", name="gangs", exact=True)
    expect(numbers.locator("tr")).to_have_text(["WaitingGatheringGiven up", "010"])
    gangs = page.get_by_role("region", name="some gangs")
    expect(gangs.locator("tbody tr")).to_contain_text("gathering: 2 of 4 members are here12")
    expect(gangs.locator("tbody tr")).to_contain_text("2 of 4")
    assert gangs.locator(".bar .part").get_attribute("width") == "50"
    bounds = page.get_by_role("region", name="How full its bounds are")
    expect(bounds.locator(".fill")).to_have_text(["all nodes600 of 2,000", "n75 %"])
    everybody_can_use_it(page, "policy-gangs")


def test_the_bounds_of_a_file(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/policies/batch/batch")
    expect(page.get_by_role("region", name="How full its bounds are")).to_contain_text("6 of 6")


# ---- nothing from the cluster is ever markup: every text of every answer tries to be some


GOLDEN = Path(__file__).parents[1] / "golden" / "explanation" / "document.json"
MARKUP = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
# Of these the page knows the words.
WORDS = {"at", "since", "kind", "applies", "state", "action", "severity", "started", "expression"}
VIEWS = {
    "home": ("#/home", "figcaption"),
    "verdict": ("#/home?by=pod&pod=shop/web-1", ".legend a"),
    "decisions": ("#/decisions", "tbody tr"),
    "why": ("#/pods/shop/web-1", ".caveat"),
    "policies": ("#/policies", "tbody tr"),
    "policy": ("#/policies/shop/shop", ".text li"),
    "trends": ("#/trends", "h1"),
}


def poisoned(value: Any, key: str = "") -> Any:
    """The same answer with markup in every text, and in no word that the page knows."""
    match value:
        case str() if key not in WORDS and "T" not in value[10:11]:
            return value + MARKUP
        case list():
            return [poisoned(each, key) for each in value]
        case dict():
            return {name: poisoned(each, name) for name, each in value.items()}
        case _:
            return value


@pytest.mark.parametrize("view", VIEWS)
def test_no_text_is_markup(page: Page, demo: Demo, view: str) -> None:
    address, shown = VIEWS[view]

    def answer(route: Route) -> None:
        if "/explain/" in route.request.url:
            route.fulfill(json=poisoned(json.loads(GOLDEN.read_bytes()) | {"replica": "r"}))
        elif route.request.url.endswith("/stream"):
            route.abort()
        else:
            # A page that goes away leaves an answer half given: the connection is closed before it.
            try:
                with urlopen(route.request.url) as found:  # noqa: S310 - the demo's own address
                    body = json.dumps(poisoned(json.load(found)))
                route.fulfill(body=body, content_type="application/json")
            except HTTPError as error:
                # What is asked has a poisoned name.
                error.close()
                route.fulfill(status=error.code, body=MARKUP)

    page.route("**/api/v1/**", answer)
    page.goto(f"{demo.view}/ui/{address}")
    expect(page.locator(shown).first).to_be_visible()
    expect(page.locator("main")).to_contain_text("<img src=x" if view != "trends" else "Trends")
    assert page.locator("img, body script").count() == 0
    assert "owned" not in page.title().replace(MARKUP, "")
    page.unroute_all(behavior="ignoreErrors")
