"""The page: what each view shows of the demo, and how one gets from one to another."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from cli.demo.demo_cluster import demo_cluster
from engine.decision.journal import Journal
from grammar.values.time import Timestamp
from tests.browser.conftest import Demo, everybody_can_use_it
from tests.browser.editing import write
from tests.cli.test_serve import serving, until
from tests.support.builders import node, pod, raw
from tests.support.engines import engine_of, peer_of
from tests.support.view_server import Cluster, Parts, held_gang, running

pytestmark = pytest.mark.browser
GOLDEN = Path(__file__).parents[1] / "golden" / "explanation"
POD = "shop/web-7d9c6b-0x"


def test_decisions_appear_as_they_are_made(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/decisions")
    expect(page.locator(".live")).to_have_text("live")
    row = page.locator("tbody tr", has_text=POD)
    expect(row).to_contain_text("shop/shop")
    expect(row).to_contain_text("5 of 12")
    expect(row.locator(".took")).to_have_text(re.compile(r"filter [\d.]+ ms"))
    demo.ask("web-live")
    expect(page.locator("tbody tr").first).to_contain_text("shop/web-live")


def test_decisions_are_filtered_and_the_address_keeps_the_filter(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/decisions")
    expect(page.locator("tbody tr", has_text=POD)).to_be_visible()
    page.get_by_label("Pod or policy").fill("batch")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.reload()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_label("Outcome").select_option("none")
    expect(page.get_by_text("No decision matches")).to_be_visible()
    page.get_by_role("link", name="Show all").click()
    expect(page.locator("tbody tr", has_text=POD)).to_be_visible()


def test_a_paused_list_says_how_many_are_new(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/decisions")
    expect(page.locator("tbody tr", has_text=POD)).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    demo.ask("web-late")
    expect(page.locator(".live")).to_contain_text("1 new")
    expect(page.locator("tbody tr", has_text="web-late")).to_have_count(0)
    page.get_by_role("button", name="Continue").click()
    expect(page.locator("tbody tr", has_text="web-late")).to_be_visible()


def test_a_list_that_breaks_off_goes_on(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/policies")
    page.route("**/decisions?*", lambda route: route.abort())
    page.goto(f"{demo.view}/ui/#/decisions")
    expect(page.locator(".live")).to_have_text("reconnecting")
    expect(page.get_by_role("alert")).to_contain_text("Check that it runs")
    page.unroute("**/decisions?*")
    expect(page.locator(".live")).to_have_text("live")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_why_shows_the_golden_explanation(page: Page, demo: Demo) -> None:
    """The same document as in the renderings of the terminal, as a replica would answer it."""
    document = json.loads((GOLDEN / "document.json").read_bytes()) | {"replica": "placet-0"}
    page.route("**/api/v1/explain/**", lambda route: route.fulfill(json=document))
    page.goto(f"{demo.view}/ui/#/pods/shop/web-1/n-2")
    expect(page.locator(".cause")).to_contain_text("own plugins reject the others")
    expect(page.locator(".answer").first).to_contain_text("1 of 4 nodes passes.")
    shown = page.locator("main")
    for group in document["groups"]:
        for each in group["rejectedBy"]:
            expect(shown).to_contain_text(each["text"])
    for miss in document["nearest"]:
        for each in miss["rejectedBy"]:
            for part in each.get("expressions", ()):
                for value in part["values"]:
                    expect(shown).to_contain_text(value["expression"])
    for each in document["unfit"]:
        expect(shown).to_contain_text(each["text"])
    expect(shown).to_contain_text(document["said"])
    for policy in document["policies"]:
        row = page.locator(".lines li", has_text=policy["because"]).first
        applies = "does not apply" if policy["applies"] == "no" else policy["applies"]
        expect(row).to_contain_text(applies)
    for broken in document["notInForce"]:
        expect(shown).to_contain_text(f"{broken['instead']}: {broken['because']}")
    (relaxed,) = next(
        each["rejectedBy"] for each in document["groups"] if len(each["rejectedBy"]) == 1
    )
    text = f"Without {relaxed['policy']}: {relaxed['clause']}, 1 more node would pass."
    expect(shown).to_contain_text(text)
    for change in document["changes"]:
        expect(page.locator(".lines li", has_text=change["text"])).to_contain_text(change["what"])
    node = page.get_by_role("region", name="Node n-2")
    expect(node).to_contain_text('node.free["memory"]')


def test_why_says_what_decides_and_what_each_clause_read(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/decisions")
    page.get_by_role("link", name=POD).click()
    expect(page.locator(".answer")).to_contain_text("5 of 12 nodes pass.")
    expect(page.locator(".answer")).to_contain_text("The best is arm-b1 with 7 points of 10")
    expect(page.locator(".lines li", has_text="governs")).to_contain_text("shop/shop")
    expect(page.locator(".caveat")).to_contain_text("kube-scheduler asks only about nodes that")
    # The pod was offered the same nodes then.
    expect(page.locator(".sides")).to_contain_text("5 of 12 nodes pass")
    page.locator(".group", has_text="a database runs there").first.get_by_text("general-a1").click()
    node = page.get_by_role("region", name="Node general-a1")
    clause = node.locator("details[open]", has_text="shop/shop: databases")
    expect(clause).to_contain_text("rejects")
    expect(clause).to_contain_text("at most 0 with this pod")


FEATURES = ("ssd", "gpu", "arm", "spot", "old", "hot")
CLAUSES = (
    f'filter "{each}" {{ require !("{each}" in node.labels) message "no {each} nodes" }}'
    for each in FEATURES
)
MANY = f"cluster policy nodes {{ {' '.join(CLAUSES)} }}"


@pytest.mark.parametrize(("nodes", "most"), [(12, 1500), (500, 2000)])
def test_why_is_three_blocks_on_a_page_or_two(page: Page, nodes: int, most: int) -> None:
    """However many nodes there are, and however many reasons."""
    every = [
        node(
            f"node-{number:03}",
            labels={each: "" for place, each in enumerate(FEATURES) if number >> place & 1},
        )
        | {"spec": {"taints": [{"key": f"team-{number % 9}", "effect": "NoSchedule"}]}}
        for number in range(nodes)
    ]
    waits = pod("web-1", "shop")
    engine = engine_of(MANY, every, [waits])
    known = {"shop/web-1": raw(waits)}
    with running(Parts(Journal(), cluster=Cluster(MANY, engine, known=known))) as served:
        page.set_viewport_size({"width": 1440, "height": 900})
        page.goto(f"{served.urls[0]}/ui/#/pods/shop/web-1")
        for block in ("Cause", "Nodes by reason", "What would help"):
            expect(page.get_by_role("region", name=block)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollHeight") <= most
        everybody_can_use_it(page, f"why-{nodes}")
        for fold in page.locator("details").all():
            fold.evaluate("fold => { fold.open = true; }")
        everybody_can_use_it(page, f"why-{nodes}-open")
        groups = page.get_by_role("region", name="Nodes by reason").locator(".group")
        if nodes > 12:
            expect(groups).to_have_count(10)
            page.get_by_role("button", name=re.compile(r"^6\d more$")).click()
        expect(
            page.get_by_text("kube-scheduler: node(s) had untolerated taint").first
        ).to_be_visible()


def test_numbers_have_three_digits_and_texts_are_whole(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/pods/ml/train-large-0x/general-a1")
    values = page.get_by_role("region", name="Node general-a1").locator("code.value")
    expect(values.first).to_be_attached()
    texts = values.all_text_contents()
    assert any(re.fullmatch(r"\d\.\d\d", text) for text in texts), texts
    assert not [text for text in texts if re.search(r"\d\.\d{4,}", text)]
    page.goto(f"{demo.view}/ui/#/pods/{POD}/general-c1")
    values = page.get_by_role("region", name="Node general-c1").locator("code.value")
    expect(values.filter(has_text='"').first).to_have_text(re.compile(r'^"[\d:T-]+\.\d{9}Z"$'))
    expect(values.filter(has_not_text='"').last).to_have_text(re.compile(r"^[\d:T-]+Z$"))


def test_the_parts_of_a_score_add_up_to_the_answer(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/pods/{POD}/arm-b1")
    node = page.get_by_role("region", name="Node arm-b1")
    expect(node.locator(".answer")).to_contain_text("Score 7 of 10")
    cells = node.locator("tbody > tr > td:last-child")
    *parts, together = [float(text) for text in cells.all_inner_texts()]
    assert sum(parts) == pytest.approx(together, abs=0.02)
    assert round(together) == 7
    widths = node.locator(".terms rect:not(.all)").evaluate_all(
        "parts => parts.map(part => part.width.baseVal.value)"
    )
    assert sum(widths) == pytest.approx(together * 10, abs=0.2)


def test_of_a_pod_that_is_gone_the_last_decision_is_shown(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/pods/shop/web-7d9c6b-6new")
    expect(page.get_by_text("So only its last decision is shown")).to_be_visible()
    expect(page.get_by_role("heading", name="Then, at")).to_be_visible()
    group = page.locator(".group", has_text="a database runs there")
    expect(group).to_contain_text("general-a1")


def test_a_pod_that_nobody_knows_has_an_empty_state(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/pods/shop/nobody")
    expect(page.locator(".empty")).to_contain_text("kubectl placet ui --replica NAME")
    page.goto(f"{demo.view}/ui/#/nowhere/here")
    expect(page.locator(".empty")).to_contain_text("There is no such view")
    expect(page.get_by_role("heading", level=1)).to_have_text("nowhere/here")


def test_another_replica_is_chosen_at_the_top(page: Page, demo: Demo) -> None:
    port = urlsplit(demo.view).port
    page.route("http://127.0.0.1:9/**", lambda route: route.fulfill(body="the other one"))
    page.goto(f"{demo.view}/ui/?replicas=placet-0:{port},placet-1:9#/policies")
    chosen = page.get_by_label("Replica")
    expect(chosen).to_have_value(str(port))
    chosen.select_option("placet-1")
    page.wait_for_url(f"http://127.0.0.1:9/ui/?replicas=placet-0:{port},placet-1:9#/policies")
    page.goto(f"{demo.view}/ui/#/decisions")
    expect(page.locator(".whose span").first).to_be_visible()


def test_policies_lead_to_their_texts(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/policies")
    row = page.locator("tbody tr", has_text="shop/shop")
    expect(row).to_contain_text("in force")
    row.get_by_role("link").click()
    expect(page.locator(".text li").nth(1)).to_have_text('policy shop in namespace "shop" {')
    expect(page.get_by_text("Nothing is wrong with it.")).to_be_visible()
    page.goto(f"{demo.view}/ui/#/policies/shop/nothing")
    expect(page.locator(".empty")).to_contain_text("There is no such policy here")


ARM = """policy shop in namespace "shop" {
  filter "arm" { require node.labels["kubernetes.io/arch"] == "arm64" }
}
"""


def test_an_edit_in_the_playground_moves_the_counts(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/policies/shop/shop")
    page.get_by_role("link", name="Edit it in the playground").click()
    expect(page.get_by_label("Text of the draft")).to_contain_text(
        'policy shop in namespace "shop" {'
    )
    page.get_by_role("button", name="Try it").click()
    result = page.get_by_role("heading", name="What would change").locator("..")
    expect(result).to_contain_text("0 pods would get another answer. (42 pods on 12 nodes)")
    write(page, ARM)
    page.keyboard.press("Control+Enter")
    expect(result).to_contain_text("16 pods would get another answer, 1 of which waits.")
    expect(result).to_contain_text("16 pass fewer nodes")
    expect(result).to_contain_text("selects 16 of 42 pods")
    row = result.locator("tr", has_text=POD)
    expect(row).to_contain_text("5 → 2")
    expect(row.locator(".gone")).to_contain_text("spot-a1")
    everybody_can_use_it(page, "trial")
    write(page, ARM.replace("arm64", "sparc"))
    page.keyboard.press("Control+Enter")
    expect(result).to_contain_text("16 pass no node any more")
    # What was written is still there, and nothing of it is in force.
    page.get_by_role("link", name="Home").click()
    page.get_by_role("link", name="Try").click()
    page.get_by_label("What to try").get_by_role("link", name="Policies").click()
    expect(page.get_by_label("Text of the draft")).to_contain_text("sparc")
    page.goto(f"{demo.view}/ui/#/policies/shop/shop")
    expect(page.locator(".text")).not_to_contain_text("sparc")


def test_the_editor_marks_what_is_wrong_as_it_is_written(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/playground")
    write(page, ARM.replace("node.", "nod."))
    mark = page.locator(".cm-lintRange-error")
    expect(mark).to_have_text("nod")
    expect(page.locator(".note.error")).to_contain_text("line 2: unknown name `nod`")
    expect(page.get_by_role("button", name="Try it")).to_be_disabled()
    mark.hover()
    expect(page.locator(".cm-tooltip")).to_contain_text("hint: a similar name exists: `node`")
    write(page, ARM)
    expect(page.locator(".note.error")).to_have_count(0)
    expect(page.get_by_role("button", name="Try it")).to_be_enabled()


def test_the_editor_completes_and_explains_names(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/playground")
    write(page, ARM)
    page.keyboard.press("Control+Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Home")
    page.keyboard.type("let free = node.al")
    choice = page.locator(".cm-tooltip-autocomplete li", has_text="allocatable")
    expect(choice).to_be_visible()
    page.keyboard.press("Escape")


def test_a_draft_is_tried_on_a_cluster_that_is_pasted(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/playground")
    page.get_by_label("Try it on").select_option("pasted")
    write(page, ARM)
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_role("alert")).to_contain_text("has no nodes")
    whole = demo_cluster(Timestamp.now())
    wanted = {"arm-b1", "spot-a1", POD.rpartition("/")[2]}
    items = [each for each in whole["items"] if each["metadata"]["name"] in wanted]
    page.locator("textarea").fill(json.dumps(whole | {"items": items}))
    page.get_by_role("button", name="Try it").click()
    expect(page.get_by_text("(1 pod on 2 nodes)")).to_be_visible()
    expect(page.locator(".changes tbody tr")).to_contain_text(POD)


def test_the_editor_comes_only_with_the_playground(page: Page, demo: Demo) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{demo.view}/ui/#/decisions")
    expect(page.locator("tbody tr").first).to_be_visible()
    assert not [url for url in asked if "codemirror" in url]
    page.get_by_role("link", name="Try").click()
    page.get_by_label("What to try").get_by_role("link", name="Policies").click()
    expect(page.get_by_label("Text of the draft")).to_be_visible()
    assert [url for url in asked if url.endswith("/ui/vendor/codemirror.js")]


def test_the_members_of_a_gang_and_what_is_held(page: Page) -> None:
    """A gang of three gathers; one member is held since 12 seconds, and leads to its node."""
    with running(held_gang()) as found:
        page.goto(f"{found.urls[0]}/ui/#/pods/shop/a-0")
        expect(page.locator(".cause")).to_contain_text("Held on `n0` since 12 s")
        gang = page.locator("section", has=page.get_by_role("heading", name="Gang shop/a"))
        expect(gang).to_contain_text("It gathers since 12 s: 1 of 3 members are here.")
        expect(gang).to_contain_text("3 needed, 3 exist, 3 have a place, 1 held.")
        rows = gang.locator("tbody tr")
        expect(rows).to_have_count(3)
        expect(rows.nth(0)).to_contain_text("held since 12 s")
        expect(rows.nth(1)).to_contain_text("placed")
        everybody_can_use_it(page, "gang")
        rows.nth(1).get_by_role("link").first.click()
        expect(page.locator(".cause")).to_contain_text("it has a place on")
        rows.nth(0).get_by_role("link").last.click()
        expect(page.get_by_role("region", name="Node n0")).to_be_visible()


def test_a_part_of_an_explanation_is_shown_by_its_shape(page: Page, demo: Demo) -> None:
    """Of a capability that the page does not know: texts, numbers, bars, and links."""
    row = {"pod": "shop/a", "where": "node-1", "seats": {"part": 3, "whole": 4}, "cost": 2.6}
    seats = {
        "title": "seats of <b>shop</b>",
        "texts": ["3 of 4 are taken", "one is left"],
        "rows": [row, row | {"pod": "shop/b", "seats": None}],
        "more": 7,
        "names": {"pod": "pod", "where": "node"},
    }
    note = {"texts": ["two seats would be enough"], "afterNodes": True}

    def with_parts(route: Route) -> None:
        found = route.fetch().json()
        route.fulfill(json=found | {"parts": [seats, note]})

    page.route("**/api/v1/explain/**", with_parts)
    page.goto(f"{demo.view}/ui/#/pods/shop/reports-7d9c6b-0x")
    part = page.locator("section", has=page.get_by_role("heading", name="Seats of <b>shop</b>"))
    expect(part).to_contain_text("3 of 4 are taken.One is left.")
    expect(part.locator("th.right")).to_have_text(["Cost"])
    assert part.locator(".bar .part").get_attribute("width") == "75"
    expect(part).to_contain_text("and 7 more")
    assert part.get_by_role("link").first.get_attribute("href") == "#/pods/shop/a"
    expect(page.get_by_text("two seats would be enough")).to_be_visible()
    everybody_can_use_it(page, "part")
    node = part.get_by_role("link", name="node-1").first
    assert node.get_attribute("href") == "#/pods/shop/reports-7d9c6b-0x/node-1"


def test_the_keyboard_reaches_everything(page: Page, demo: Demo) -> None:
    page.goto(f"{demo.view}/ui/#/decisions")
    expect(page.locator("tbody tr", has_text=POD)).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Pod or policy")).to_be_focused()


VIEWS = {
    "home": ("#/home", ".squares"),
    "verdict": ("#/home?by=pod&pod=shop/reports-7d9c6b-0x&node=general-a1", ".legend a"),
    "decisions": ("#/decisions", "tbody tr"),
    "why": (f"#/pods/{POD}", ".groups"),
    "node": (f"#/pods/{POD}/general-c1", ".node [open] .values"),
    "then": ("#/pods/shop/web-7d9c6b-6new", ".group"),
    "unknown": ("#/pods/shop/nobody", ".empty"),
    "policies": ("#/policies", "tbody tr"),
    "policy": ("#/policies/shop/shop", ".text li"),
    "place-empty": ("#/place", "textarea"),
    "nowhere": ("#/nowhere/at/all", ".empty"),
    "playground": ("#/playground/shop/shop", ".cm-line"),
}


@pytest.mark.parametrize("view", VIEWS)
def test_nothing_is_cut_off_and_everybody_can_use_it(page: Page, demo: Demo, view: str) -> None:
    """On a screen and on a phone, in light and in the dark."""
    address, shown = VIEWS[view]
    page.goto(f"{demo.view}/ui/{address}")
    expect(page.locator(shown).first).to_be_visible()
    everybody_can_use_it(page, view)


AUDITED = """
policy gpus {
  mode audit
  for pods where pod.namespace == "shop"
  filter "gpu" { require node.labels["gpu"] == pod.labels["gpu"] }
}
"""


def test_a_policy_in_audit_mode_says_what_it_would_have_done(page: Page) -> None:
    nodes = [node("n1", labels={"gpu": "a"}), node("n2", labels={"gpu": "b"})]
    engine = engine_of(AUDITED, nodes)
    waiting, elsewhere = (
        pod(name, "shop", labels={"gpu": gpu}) for name, gpu in (("web-1", "c"), ("web-2", "a"))
    )
    for each in (waiting, elsewhere):
        engine.filter(raw(each), ["n1", "n2"], None, math.inf)
    elsewhere["spec"]["nodeName"] = "n2"
    engine.audits.log.pod_changed(None, peer_of(elsewhere), 1)
    with running(Parts(Journal(), cluster=Cluster(AUDITED, engine))) as served:
        page.goto(f"{served.urls[0]}/ui/#/policies/gpus")
        audit = page.locator("section.audit")
        expect(audit).to_contain_text("It would have kept 1 pod of 1 workload pending since ")
        expect(audit).to_contain_text("and sent 1 pod to another node")
        row = audit.locator("tbody tr", has_text="shop/web-1")
        expect(row).to_contain_text("waited")
        expect(row).to_contain_text("2 of 2")
        expect(audit.locator("tbody tr", has_text="shop/web-2")).to_contain_text("n2")
        page.goto(f"{served.urls[0]}/ui/#/policies")
        expect(page.locator("tbody tr", has_text="gpus")).to_contain_text("audit")


# ---- an operator's questions: each is answered on the page after at most two actions from home


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
    for block in ("Cause", "Nodes by reason", "What would help"):
        expect(who.section(block)).to_be_visible()


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
    who.click(who.page.get_by_role("link", name="Try"))
    # A manifest is there to begin with.
    who.click(who.page.get_by_role("button", name="Would they fit"))
    expect(who.section("All 3 pods find a place.").locator("tbody tr")).to_have_count(3)


def what_changed(who: Operator) -> None:
    expect(who.section("What changed")).to_contain_text("No policy has changed since")
    who.click(who.page.get_by_role("link", name="Health"))
    expect(who.page.get_by_label("The last")).to_have_value("24")


def what_was_decided(who: Operator) -> None:
    who.click(who.page.get_by_role("link", name="Decisions"))
    expect(who.page.locator("tbody tr, .empty").first).to_be_visible()


def what_policies_do(who: Operator) -> None:
    who.click(who.page.get_by_role("link", name="Policies"))
    row = who.page.locator("tbody tr", has_text="shop/shop")
    expect(row).to_contain_text("1 waits")


QUESTIONS = [
    what_waits,
    why_it_waits,
    how_full_each_bound_is,
    which_policy_hurts,
    where_a_pod_would_go,
    what_changed,
    what_was_decided,
    what_policies_do,
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


def test_after_a_restart_each_question_is_answered_in_two_actions(
    page: Page, tmp_path: Path
) -> None:
    """With the numbers from before it, or since when they are."""
    for is_again in (False, True):
        with serving(tmp_path, "--demo", "--history", "history") as server:
            until((tmp_path / "history").exists)
            if not is_again:
                continue
            actions: dict[str, int] = {}
            for question in (*QUESTIONS[:3], where_a_pod_would_go, what_changed, *QUESTIONS[-2:]):
                who = Operator(page, server.view)
                question(who)
                actions[question.__name__] = who.actions
                page.goto("about:blank")
            assert max(actions.values()) <= 2, actions
            page.goto(f"{server.view}/ui/#/decisions")
            expect(page.locator(".empty")).to_contain_text(re.compile("since it started, .+ ago"))
            page.goto(f"{server.view}/ui/")
            expect(page.get_by_role("region", name="What rejects most")).to_contain_text(
                re.compile("since this replica started, .+ ago")
            )
            page.goto(f"{server.view}/ui/#/trends")
            expect(page.get_by_text("survive a restart of the replica")).to_be_visible()
            expect(
                page.get_by_role("region", name="Pods that wait").locator("canvas")
            ).to_be_visible()
