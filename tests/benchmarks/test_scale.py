"""The largest cluster: 65,000 nodes and 500,000 pods; it takes several gigabytes, and half an hour.

Each rule is that of a team of its own, in a policy of a namespace, which has a budget of time.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from itertools import cycle, islice
from pathlib import Path

import pytest

from tests.benchmarks import shop
from tests.benchmarks.live import PREFIX, Watching, flags_for, large_cluster, most_mib, spent
from tests.benchmarks.offers import Offers, asked, keep_alive, latency
from tests.benchmarks.results import Record
from tests.e2e.placet import Placet, placet
from tests.e2e.process import until

NODES, PODS = 65_000, 500_000
# The names of a call, and the pods that are asked about: kube-scheduler offers 3,250 by default.
ASKED = {500: 400, 5_000: 200, 65_000: 60}
READY_SECONDS, EVENT_SECONDS = 1800.0, 600.0
EVENTS, EVENTS_A_SECOND = 5_000, 1_000
_APP = 'peer.labels["app"] == pod.labels["app"]'
RULES = {
    "share": (
        f'share "s" {{ all pods where {_APP} on nodes where node.labels["pool"] == "web"'
        " at most 90% strict }"
    ),
    "spread": f'spread "s" {{ all pods where {_APP} over node.zone skew at most 900 strict }}',
    "limit": f'limit "l" {{ all pods where {_APP} per node at most 100 strict }}',
}

pytestmark = pytest.mark.bench


def test_the_largest_cluster(tmp_path: Path, record: Record) -> None:
    """The time to a first answer, memory, latencies by names and by rule, and events."""
    policies = shop.policies(tmp_path / "policies")
    for team, rule in RULES.items():
        selected = f'for pods where pod.labels["team"] == "{team}"'
        text = f'policy {team} in namespace "{shop.NAMESPACE}" {{ {selected} {rule} }}'
        (policies / f"{team}.policy").write_text(text)
    with (
        large_cluster(NODES, PODS) as url,
        placet(tmp_path, policies, *flags_for(tmp_path, url)) as server,
    ):
        began = time.perf_counter()
        server.process.wait_ready(server.is_ready, READY_SECONDS)
        pid = server.process.child.pid
        what = f"{NODES:,} nodes, {PODS:,} pods"
        detail = f"s; {spent(pid):.0f} s of processor time"
        record(f"{what}: ready", time.perf_counter() - began, None, detail)
        record(f"{what}: memory when ready", most_mib(pid), None, "MiB at most")
        with keep_alive(server.port, PREFIX) as connection:
            watched = Watching(connection, url)
            for names, pods in ASKED.items():
                _asked(record, watched, f"{names:,} names", names, pods, shop.TEAM)
            for team in RULES:
                _asked(record, watched, f"5,000 names, a {team}", 5_000, 100, team)
            _events(record, watched, server)
        record(f"{what}: memory after all", most_mib(pid), None, "MiB at most")


def _asked(record: Record, server: Watching, what: str, names: int, pods: int, team: str) -> None:
    """The first calls, which pay for what is kept, and those that follow."""
    step = NODES // names
    # A pod that was offered nodes and comes back was not bound, which is another matter.
    made = (
        pod.replace(b'"uid":"', f'"uid":"{team}-{names}-{number}-'.encode())
        for number, pod in enumerate(islice(cycle(shop.asked_pods(team=team)), shop.SHAPES + pods))
    )
    offers = Offers(list(made), [f"n{number * step}" for number in range(names)])
    shapes = [offers.next() for _ in range(shop.SHAPES)]
    first = list(asked(server.connection, offers, shapes, again=True))
    later = [offers.next() for _ in range(pods)]
    kept = list(asked(server.connection, offers, later, again=True))
    paused = sum(each.paused for each in first), sum(each.paused for each in kept)
    new, known = (latency([each.seconds for each in some]) for some in (first, kept))
    errors = Counter(re.sub(r"\d+", "N", each.error)[:90] for each in kept if each.error)
    detail = (
        f"ms; first pods of {shop.SHAPES} shapes {new}; asked again: {paused[0]} and {paused[1]}"
    )
    detail += "".join(f"; {number} of {text!r}" for text, number in errors.most_common(2))
    record(f"{what}, p50", known.half, None, detail)
    record(f"{what}, p99", known.most, None, f"ms, of {pods} pods")


def _events(record: Record, watched: Watching, server: Placet) -> None:
    """The processor time of an event: pods go and come back."""

    def version() -> str:
        return str(server.resources()["pods"]["resourceVersion"])

    pid = server.process.child.pid
    before, old = spent(pid), version()
    time.sleep(10)
    idle = (spent(pid) - before) / 10
    before, began = spent(pid), time.perf_counter()
    watched.churn(EVENTS_A_SECOND, EVENTS // EVENTS_A_SECOND)
    until(lambda: int(version()) >= int(old) + EVENTS, EVENT_SECONDS, server.process.tail)
    used = spent(pid) - before - idle * (time.perf_counter() - began)
    record("an event about a pod", used / EVENTS * 1e6, None, f"µs of processor time; {EVENTS}")
    record("at rest", idle, None, "s of processor time a second")
