"""What a replica holds of a gang: over HTTP, and in the terminal with `--decision`."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from aiohttp import ClientSession

from engine.decision.after import AfterDecision
from engine.decision.journal import Journal
from engine.engine import Engine
from engine.program.policy_time import DecisionTime
from grammar.values.time import Timestamp
from tests.cli.conftest import Placet, placet
from tests.support.builders import Object, kubectl_list, node, pod, raw
from tests.support.engines import NOW, cache_of, engine_over, peer_of
from tests.support.view_server import Cluster, Parts, running, view_of

__all__ = ["placet"]

POLICY = """
policy gangs {
  for pods where "job" in pod.labels
  gang "together" { of pods by peer.labels["job"] at least 3 for at most 30s }
}
"""
PODS: list[Object] = [pod(f"a-{n}", "shop", cpu="1", labels={"job": "a"}) for n in range(3)]
NODES = [node(f"n{number}", cpu="2") for number in range(2)]


@pytest.fixture
def parts() -> Parts:
    """A replica that holds one of three members for 12 seconds."""
    journal, seconds = Journal(now=lambda: Timestamp.parse("2026-11-21T12:00:00Z")), [100.0]
    cache = cache_of(NODES)
    after = AfterDecision(journal=journal)
    time = DecisionTime(lambda: seconds[0], lambda: NOW)
    engine: Engine = engine_over(POLICY, cache, time=time, after=after)
    for each in PODS:
        cache.put_pod(peer_of(each), body=raw(each))
    names = [each["metadata"]["name"] for each in NODES]
    decided = engine.filter(raw(PODS[0]), names, None, math.inf)
    (place,) = [n for n, code in zip(names, decided.codes, strict=True) if not code]
    assert engine.admit(raw(PODS[0]), place, math.inf).waits
    cache.assume(peer_of(PODS[0]), place, math.inf)
    engine.gangs.hold(peer_of(PODS[0]).uid, lambda _: None)
    seconds[0] += 12
    known = {f"shop/{each['metadata']['name']}": raw(each) for each in PODS}
    return Parts(journal, cluster=Cluster(POLICY, engine, known))


async def test_a_member_is_held(parts: Parts) -> None:
    async with view_of(parts) as url, ClientSession(url) as session:
        async with session.get("/api/v1/explain/shop/a-0") as response:
            found = await response.json()
        async with session.get("/api/v1/explain/shop/a-2") as response:
            other = await response.json()
    assert found["cause"]["kind"] == "gang"
    assert found["cause"]["text"] == (
        "held on `n0` since 12 s: 1 of 3 members are here (gangs: together)"
    )
    gang = found["gang"]
    assert (gang["state"], gang["seconds"], gang["exist"], gang["held"]) == ("gathering", 12, 3, 1)
    held = {"pod": "shop/a-0", "presence": "held", "node": "n0", "seconds": 12.0}
    assert gang["members"][0] == held
    assert other["cause"]["text"].startswith("its gang gathers since 12 s, and it has a place on")
    assert other["passing"] == 1
    assert other["groups"][1]["rejectedBy"][0]["text"] == (
        "gangs: together: another node was chosen"
    )


def test_a_command_shows_it_with_the_last_decision(
    parts: Parts, placet: Placet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    cluster, policy = tmp_path / "cluster.json", tmp_path / "gangs.policy"
    cluster.write_bytes(raw(kubectl_list([*NODES, *PODS])))
    policy.write_text(POLICY)
    files = ("--cluster", str(cluster), "--policies", str(policy))
    with running(parts) as found:
        done = placet("explain", "shop/a-0", *files, "--decision", "--url", found.urls[0])
        data = placet(
            "explain", "shop/a-0", *files, "--decision", "--url", found.urls[0], "-o", "json"
        )
    assert "\n  it fits now\n" in done.out
    assert (
        "\ncause: held on `n0` since 12 s: 1 of 3 members are here (gangs: together)\n" in done.out
    )
    assert "\nshop/a-0  held since 12 s  n0\n" in done.out
    assert '"state": "gathering"' in data.out
