"""`placet status`: what replicas are and know."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from engine.decision.journal import Journal
from server.answers import FailedCheck, ReplicaStatus
from tests.cli.conftest import Placet
from tests.cli.test_serve import BARE, NO_VIEW, serving
from tests.support.every_metric import full_status
from tests.support.fake_api_server import Answer, fake_api_server
from tests.support.kubeconfig import kubeconfig
from tests.support.view_server import Parts, running, status_of


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "96")


def test_the_status_of_every_replica(placet: Placet, tmp_path: Path) -> None:
    """The leader says so, and the other one names the leader."""
    with running(Parts(Journal()), Parts(Journal(), "placet-1")) as found:
        file = kubeconfig(tmp_path / "kubeconfig", found.api_url, {"token": "t"})
        shown = placet("status", "--kubeconfig", str(file)).out
        answer = json.loads(placet("status", "--kubeconfig", str(file), "-o", "json").out)
    first, second = shown.split("\n\nreplica ")
    assert first == STATUS.rstrip()
    assert "leader: `placet-0_x` holds the Lease\n" in second
    assert [each["replica"] for each in answer["replicas"]] == ["placet-0", "placet-1"]


STATUS = """\
replica placet-0, version 1.2.3, ready, started at 2026-11-21T12:00:00Z
leader: this replica holds the Lease
0 decisions; the last ones about 0 pods are kept

policy in force  kind    mode     weight  digest
shop/web         policy  enforce     101  0123456789ab

not in force  instead                                     because
shop/broken   the pods that it selects wait               a.policy:1:1: …
shop/web      its last valid version is in force instead  web.policy:2:3: …

informer  objects  synced  silent  failure
pods            3  yes        2 s

no pod is in flight
"""


def test_an_api_server_that_is_not_there_is_the_hint(placet: Placet, tmp_path: Path) -> None:
    """It, and no pod of Placet, is what is missing."""
    file = kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:9", {"token": "t"})
    done = placet("status", "--kubeconfig", str(file))
    assert done.code == 2
    error, hint = done.err.splitlines()
    assert error.endswith("`http://127.0.0.1:9` cannot be reached: connection refused")
    assert (
        hint == "  = help: check that the API server runs, and that the kubeconfig has its address"
    )


def test_what_fails_is_named(placet: Placet) -> None:
    def failing(replica: str, journal: Journal) -> ReplicaStatus:
        checks = [
            FailedCheck("cluster", "not synced", warning=False),
            FailedCheck("api", "slow", warning=True),
        ]
        return msgspec.structs.replace(
            status_of(replica, journal),
            ready=False,
            failing=checks,
            cluster=None,
            policies=(),
        )

    with running(replace(Parts(Journal()), status=failing)) as found:
        shown = placet("status", "--url", found.urls[0]).out
    assert ", not ready, started" in shown
    assert "  failing: cluster: not synced\n  warning: api: slow\n" in shown
    assert "no cluster is watched\n" in shown
    assert "no policy is in force\n" in shown


def test_what_capabilities_know(placet: Placet) -> None:
    with running(replace(Parts(Journal()), status=lambda *_: full_status())) as found:
        shown = placet("status", "--url", found.urls[0]).out
    assert FACTS in shown


FACTS = """
gangs
policy    waiting  longest wait (s)
ml/gangs        3              4000

some gangs
gang  policy      held  state
ml/a  ml/gangs  5 of 8
ml/b  ml/gangs          6 of 8 members exist

repairs
policy    moving      why
shop/web  shop/web-1

"""


@pytest.mark.process
def test_a_real_server_answers(placet: Placet, tmp_path: Path) -> None:
    with serving(tmp_path, "--demo") as server:
        answer = json.loads(placet("status", "--url", server.view, "-o", "json").out)
    (status,) = answer["replicas"]
    assert (status["ready"], status["podsInFlight"]) == (True, 0)
    assert "shop/shop" in {each["address"] for each in status["policies"]}


@pytest.mark.process
def test_a_policy_that_runs_in_its_last_valid_version_is_named(
    placet: Placet, tmp_path: Path
) -> None:
    file, text = (
        tmp_path / "web.policy",
        'policy web in namespace "shop" { filter "a" { require %s } }',
    )
    file.write_text(text % "node.ready", encoding="utf-8")
    with serving(tmp_path, "--no-cluster", "--policies", str(file)) as server:
        assert "last valid" not in placet("status", "--url", server.view).out
        file.write_text(text % "node.redy", encoding="utf-8")
        ends = time.monotonic() + 20
        while "its last valid version" not in (shown := placet("status", "--url", server.view).out):
            assert time.monotonic() < ends, shown
            time.sleep(0.2)


@pytest.mark.process
def test_a_server_may_have_no_view(tmp_path: Path) -> None:
    with serving(tmp_path, *BARE, *NO_VIEW) as server:
        assert server.view == ""


@pytest.mark.parametrize("port", ["x", "-1", "65536", "localhost:1"])
def test_a_wrong_port_is_an_error(placet: Placet, port: str) -> None:
    done = placet("serve", "--demo", f"--view-port={port}")
    assert done.code == 2
    assert f"`{port}` is not a port" in done.err


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"null"])
async def test_a_server_that_is_no_api_server(placet: Placet, tmp_path: Path, body: bytes) -> None:
    async with fake_api_server() as server:
        server.answers.append(Answer(200, body))
        file = kubeconfig(tmp_path / "kubeconfig", server.url, {"token": "t"})
        done = await asyncio.to_thread(placet, "status", "--kubeconfig", str(file))
    assert done.code == 2
    assert "the answer of the API server is not a list of pods" in done.err
