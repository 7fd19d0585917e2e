"""Gangs as a replica holds them: over HTTP, and in the terminal with `--decision`."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import ClientSession

from tests.cli.conftest import Placet, placet
from tests.support.builders import kubectl_list, raw
from tests.support.view_server import NODES, PODS, POLICY, Parts, held_gang, running, view_of

__all__ = ["placet"]


@pytest.fixture
def parts() -> Parts:
    return held_gang()


HELD = "held on `n0` since 12 s: 1 of 3 members are here (gangs: together)"


async def test_a_member_is_held(parts: Parts) -> None:
    async with view_of(parts) as url, ClientSession(url) as session:
        async with session.get("/api/v1/explain/shop/a-0") as response:
            found = await response.json()
        async with session.get("/api/v1/explain/shop/a-2") as response:
            other = await response.json()
    assert found["cause"]["kind"] == "gang"
    assert found["cause"]["text"] == HELD
    gang = found["gang"]
    assert (gang["state"], gang["seconds"], gang["exist"], gang["held"]) == ("gathering", 12, 3, 1)
    held = {"pod": "shop/a-0", "presence": "held", "node": "n0", "seconds": 12.0}
    assert gang["members"][0] == held
    assert other["cause"]["text"].startswith("its gang gathers since 12 s, and it has a place on")
    assert other["passing"] == 1
    assert other["groups"][1]["rejectedBy"][0]["text"] == (
        "gangs: together: another node was chosen"
    )


async def test_a_simulation_names_what_is_held(parts: Parts) -> None:
    """It counts on its node, so two more places are left for the others."""
    async with view_of(parts) as url, ClientSession(url) as session:
        headers = {"Content-Type": "application/json"}
        async with session.post("/api/v1/simulate", data=b"{}", headers=headers) as response:
            found = await response.json()
    assert found["held"] == {"shop/a-0": "n0"}
    assert [each["pod"] for each in found["pods"]] == ["shop/a-1", "shop/a-2"]


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
    # The line is broken at the width of the terminal.
    assert f"cause: {HELD}" in " ".join(done.out.split())
    assert "\nshop/a-0  held since 12 s  n0\n" in done.out
    assert '"state": "gathering"' in data.out
