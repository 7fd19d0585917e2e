"""Simulations by a running server: how long 200 pods take, and what decisions notice of it."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.benchmarks import shop
from tests.benchmarks.live import PREFIX, Held, held
from tests.benchmarks.offers import Offers, keep_alive
from tests.benchmarks.results import AtMost, Record
from tests.support import builders

pytestmark = pytest.mark.bench

NODES, PODS, ASKED, ROUNDS = 5_000, 150_000, 200, 5


def test_would_two_hundred_pods_fit(tmp_path: Path, record: Record) -> None:
    """Pods of four workloads, after kube-scheduler has asked about some of the shop's."""
    taken, busy, summaries = [], [], set[str]()
    with held(tmp_path, NODES, PODS) as server:
        names = [f"n{number}" for number in range(NODES)]
        with keep_alive(server.port, PREFIX) as connection:
            offers = Offers(shop.asked_pods(), names)
            for _ in range(20):
                connection.post("filter", offers.body(*offers.next()))
        # The first question starts the process that reads texts.
        _ask(server, 0)
        server.forget()
        for number in range(ROUNDS):
            began, worked = time.perf_counter(), _processor_seconds(server)
            summaries.add(_ask(server, number + 1)["summary"])
            taken.append(time.perf_counter() - began)
            busy.append(_processor_seconds(server) - worked)
        longest = server.longest()
    assert summaries == {f"all {ASKED} pods find a place"}
    unit = f"s, {median(busy):.2f} of them of a processor; {NODES:,} nodes and {PODS:,} pods"
    record("whether 200 pods would fit", median(taken), AtMost(2), unit)
    detail = f"ms of processor time; {longest['step'][:120]}"
    record("the longest step of a simulation", longest["seconds"] * 1000, AtMost(20), detail)


def _ask(server: Held, number: int) -> dict[str, Any]:
    """The answer about pods that nobody has asked about yet."""
    url = f"http://127.0.0.1:{server.view}/api/v1"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    headers = {"Content-Type": "application/json"}
    pods = []
    for each in range(ASKED):
        shape = 4 * number + each % 4
        labels = {"app": f"web-{shape:x}", "team": shop.TEAM, "zone": "eu-1a"}
        name, cpu = f"asked-{number}-{each}", f"{100 + shape}m"
        pods.append(builders.pod(name, shop.NAMESPACE, cpu=cpu, memory="64Mi", labels=labels))
    body = json.dumps({"pods": pods}).encode()
    request = urllib.request.Request(f"{url}/simulate", body, headers)  # noqa: S310 - ours
    with opener.open(request, timeout=60) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def _processor_seconds(server: Held) -> float:
    """The processor time of the server and its threads so far."""
    fields = Path(f"/proc/{server.process.child.pid}/stat").read_text("ascii").rpartition(")")[2]
    user, system = fields.split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
