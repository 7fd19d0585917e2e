"""The page: what calls of filter wait while ten readers follow and a draft is tried."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

import pytest
from playwright.sync_api import sync_playwright

from tests.benchmarks import shop
from tests.benchmarks.extenders import ROOT
from tests.benchmarks.live import PREFIX, flags_for, held, large_cluster
from tests.benchmarks.offers import KeepAlive, Offers, keep_alive
from tests.benchmarks.page_readers import HOME, ask
from tests.benchmarks.results import AtMost, Record
from tests.e2e.placet import placet
from tests.support import builders

pytestmark = pytest.mark.bench

NODES, PODS = 1_000, 5_000
ROUNDS, CALLS = 6, 400
# kube-scheduler asks about a hundred pods a second.
PAUSE_SECONDS = 0.01


@contextmanager
def looking(view: int, *what: str, least: int = 1_000) -> Iterator[Callable[[], int]]:
    """Ten people who have the page open; with `draft` one of them is in the playground.

    Then they begin when a draft was tried. What is yielded ends them, and says how many drafts were
    tried. Each of them gets at least so many bytes of decisions.
    """
    command = [sys.executable, "-m", "tests.benchmarks.page_readers", str(view), *what]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as readers:
        assert readers.stdout is not None
        told = [readers.stdout.readline()]

        def ended() -> int:
            if readers.poll() is None:
                told.extend(readers.communicate(timeout=120)[0].splitlines())
            return len(told) - 1

        try:
            yield ended
        finally:
            ended()
    assert int(told[-1]) > least, "each reader has seen decisions"


# What other pages ask.
EVERYTHING = (
    "policies",
    "policies/shop/web",
    "history?hours=168",
    "history?hours=168&policy=shop/web",
    "drift",
    "status",
    "decisions?limit=1000",
    "find?text=w1",
)


def p99(connection: KeepAlive, offers: Offers, calls: int) -> float:
    """Seconds within which 99 of 100 calls are answered, with a pause after each."""
    taken = []
    for _ in range(calls):
        body = offers.body(*offers.next())
        taken.append(connection.post("filter", body).seconds)
        time.sleep(PAUSE_SECONDS)
    return quantiles(taken, n=100)[98]


def test_filter_while_people_look(tmp_path: Path, record: Record) -> None:
    policies = shop.policies(tmp_path / "policies")
    offers = Offers(shop.asked_pods(), [f"n{number}" for number in range(NODES)])
    alone, looked, tried, trials = [], [], [], 0
    with (
        large_cluster(NODES, PODS) as url,
        placet(tmp_path, policies, *flags_for(tmp_path, url)) as server,
    ):
        server.wait_ready()
        with keep_alive(server.port, PREFIX) as connection:
            p99(connection, offers, CALLS)
            for _ in range(ROUNDS):
                alone.append(p99(connection, offers, CALLS))
                with looking(server.view_port):
                    looked.append(p99(connection, offers, CALLS))
                with looking(server.view_port, "draft") as ended:
                    tried.append(p99(connection, offers, CALLS))
                trials += ended()
    without = f"{median(alone) * 1000:.2g} ms without"
    for what, beside, detail, target in (
        ("ten readers beside", looked, without, AtMost(1.3)),
        ("ten readers and a trial beside", tried, f"{without}; {trials} trials", None),
    ):
        ratios = [each / before for each, before in zip(beside, alone, strict=True)]
        rounds = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        record(f"filter p99, {what}", median(ratios), target, f"{detail}; single rounds {rounds}")


def test_the_page_holds_the_loop(tmp_path: Path, record: Record) -> None:
    """The longest step while nobody asks for a decision but all of the page is used."""
    with held(tmp_path, 5_000, 50_000) as server:
        with keep_alive(server.port, PREFIX) as connection:
            offers = Offers(shop.asked_pods(), [f"n{number}" for number in range(5_000)])
            p99(connection, offers, 50)
        server.forget()
        with looking(server.view, "draft", least=0):
            for _ in range(5):
                for path in (*EVERYTHING, *HOME):
                    ask(server.view, path)
        longest = server.longest()
    detail = f"ms of processor time; {longest['step'][:120]}"
    record("the longest step of the page", longest["seconds"] * 1000, AtMost(20), detail)


# The time from the start of the navigation until the squares of all nodes are painted.
_DRAWN = """() => new Promise((found) => {
  const look = () => document.querySelectorAll(".squares canvas").length
    ? requestAnimationFrame(() => found(performance.now())) : requestAnimationFrame(look);
  look();
})"""


def test_home_shows(tmp_path: Path, record: Record) -> None:
    """The squares of 5,000 nodes with 50,000 pods, in Debian's Chromium."""
    if (chromium := shutil.which("chromium")) is None:
        pytest.skip("there is no chromium; on Debian run: apt-get install chromium")
    taken = []
    with held(tmp_path, 5_000, 50_000) as server, sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        for _ in range(11):
            page.goto("about:blank")
            page.goto(f"http://127.0.0.1:{server.view}/ui/", wait_until="commit")
            taken.append(float(page.evaluate(_DRAWN)))
            # What is kept of the nodes serves for a second.
            time.sleep(1.5)
        browser.close()
    detail = f"ms; from {min(taken[1:]):.0f} to {max(taken[1:]):.0f}, first {taken[0]:.0f}"
    record("home of 5,000 nodes and 50,000 pods shows", median(taken[1:]), AtMost(300), detail)


# The time from the start of the navigation until rows are there, and painted.
_SHOWN = """() => new Promise((found) => {
  const look = () => document.querySelector("tbody tr")
    ? requestAnimationFrame(() => found(performance.now())) : requestAnimationFrame(look);
  look();
})"""


def test_the_list_shows(tmp_path: Path, record: Record) -> None:
    """A thousand decisions, in Debian's Chromium."""
    if (chromium := shutil.which("chromium")) is None:
        pytest.skip("there is no chromium; on Debian run: apt-get install chromium")
    policies = shop.policies(tmp_path / "policies")
    snapshot = shop.snapshot(tmp_path / "cluster.json", 100, 100)
    taken = []
    with placet(tmp_path, policies, f"--cluster={snapshot}") as server, sync_playwright() as tool:
        server.wait_ready()
        names = [f"n{number}" for number in range(100)]
        for number in range(1_000):
            server.filter(builders.pod(f"pod-{number}", "shop", labels={"app": "web-1"}), names)
        browser = tool.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        for _ in range(11):
            page.goto("about:blank")
            page.goto(f"http://127.0.0.1:{server.view_port}/ui/#/decisions", wait_until="commit")
            taken.append(float(page.evaluate(_SHOWN)))
        browser.close()
    # The first one starts the browser's own processes.
    detail = f"ms; from {min(taken[1:]):.0f} to {max(taken[1:]):.0f}, first {taken[0]:.0f}"
    record("the list of 1,000 decisions shows", median(taken[1:]), AtMost(100), detail)
