"""Nothing from the cluster is ever markup: every text of every answer tries to be some."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Demo

pytestmark = pytest.mark.browser
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
