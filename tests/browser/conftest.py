"""One browser and one demo server for all tests, and screenshots of what the browser shows."""

from __future__ import annotations

import json
import re
import shutil
import socket
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect, sync_playwright

from cli.demo.demo_cluster import POD, node_names
from tests.cli.test_serve import serving, until

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium")
_VIEW = re.compile(r"view on (http://\S+)")

_RENAME = """([from, to]) => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    if (node.data.trim() === from) node.data = to;
  }
}"""


@dataclass(frozen=True)
class Demo:
    """A demo server: the URL of its verbs, and that of its view."""

    url: str
    view: str

    def ask(self, name: str, tier: str = "web", namespace: str = "shop") -> None:
        """Asks where a pod of the shop may go."""
        metadata = {"name": name, "namespace": namespace, "uid": name, "labels": {"tier": tier}}
        body = json.dumps({"Pod": POD | {"metadata": metadata}, "NodeNames": node_names()})
        request = urllib.request.Request(  # noqa: S310 - the demo's own address
            f"{self.url}/api/scheduler/filter",
            body.encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
            assert response.status == 200


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with serving(tmp_path_factory.mktemp("demo"), "--demo") as server:
        until(lambda: _VIEW.search(server.err.read_text("utf-8")) is not None)
        found = _VIEW.search(server.err.read_text("utf-8"))
        assert found
        demo = Demo(server.url, found[1])
        # One pod of the cluster, one that is not there, and one that no policy of the shop selects.
        demo.ask("web-7d9c6b-0x")
        demo.ask("web-7d9c6b-6new")
        demo.ask("batch-1", tier="batch")
        yield demo


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium; on Debian run: apt-get install chromium")
    with sync_playwright() as playwright:
        # Its sandbox needs rights that a container has not; it shows pages of this test only.
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of a new visitor, on a screen; what goes wrong in its scripts fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    page = context.new_page()
    # A busy machine takes its time.
    page.set_default_timeout(30_000)
    expect.set_options(timeout=30_000)
    failures: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on("console", lambda m: failures.append(m.text) if "Content Security" in m.text else None)
    yield page
    context.close()
    assert not failures


def picture(page: Page, name: str) -> None:
    """Keeps a screenshot, which does not name this machine; `make screenshots` copies some."""
    page.evaluate(_RENAME, [socket.gethostname(), "placet-0"])
    page.screenshot(path=ROOT / "build" / "screenshots" / f"{name}.png", full_page=True)


def everybody_can_use_it(page: Page, view: str) -> None:
    """Nothing is cut off or hard to read, on a screen and on a phone, in light and in the dark."""
    for width, scheme in ((1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        violations = Axe().run(page).response["violations"]
        assert not [(v["id"], v["nodes"][0]["html"]) for v in violations]
        picture(page, f"page-{view}-{width}-{scheme}")
