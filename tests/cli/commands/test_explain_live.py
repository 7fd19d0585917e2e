"""`placet explain` of a running cluster: its pods, nodes and policies, over HTTP."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.cli.conftest import Placet
from tests.cli.live import (
    HEADROOM,
    asked,
    environment,
    live_shop,
    policy,
    put,
    put_event,
)
from tests.recorder.api_server import PATHS, POLICIES
from tests.support.builders import Object, controller, node, pod
from tests.support.fake_api_server import FakeApiServer

__all__ = ["environment"]
pytestmark = pytest.mark.usefixtures("environment")
NAMESPACED = "/api/v1/namespaces/shop"


def pending(
    server: FakeApiServer,
    message: str,
    name: str = "web-1",
    owner: Object | None = None,
    **spec: object,
) -> None:
    """A pending pod of the shop about which kube-scheduler has said something."""
    waiting = pod(name, "shop", cpu="1", memory="1Gi", spec=spec, owner=owner)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    if message:
        waiting["status"]["conditions"] = [{**condition, "message": message}]
    put(server, waiting)


async def test_the_current_context_gives_nodes_pods_and_policies(
    placet: Placet, folder: Path
) -> None:
    async with live_shop(folder) as server:
        put_event(server, "web-1", "0/4 nodes are available: 4 needs 1Gi to spare.")
        done = await asked(placet, "explain", "web-1")
        ours = [r for r in server.requests if "placet/" in r.headers["User-Agent"]]
    assert done.code == 0
    assert done.err == f"asking `test` at {server.url}\n"
    assert done.out.startswith("cause: 2 of 4 nodes would pass the policies now")
    assert "event 2026-11-21T10:05:00Z FailedScheduling (3 times): 0/4 nodes" in done.out
    assert "shop/headroom  governs" in done.out
    assert "n-2   fails           shop/headroom: headroom: needs 1Gi to spare" in done.out
    assert {request.kind for request in ours} == {"list"}


async def test_a_pod_is_one_of_the_namespace(placet: Placet, folder: Path) -> None:
    async with live_shop(folder):
        here = await asked(placet, "explain", "db-0")
        there = await asked(placet, "explain", "-n", "far", "db-0")
        slash = await asked(placet, "explain", "far/db-0")
        anywhere = await asked(placet, "explain", "-A", "db-0")
        typed = await asked(placet, "explain", "pod/web-1")
        both = await asked(placet, "explain", "-n", "shop", "far/db-0")
    assert here.code == 2
    assert "there is no pod `shop/db-0` in `test`" in here.err
    for done in (there, slash, anywhere):
        assert "cause: it is not pending: it has the node `n-2`" in done.out
    assert "pod shop/web-1 at" in typed.out
    assert "-n shop is not the namespace of `far/db-0`" in both.err


async def test_without_a_pod_every_pending_one_has_its_cause(placet: Placet, folder: Path) -> None:
    async with live_shop(folder) as server:
        pending(server, "0/4 nodes are available: 4 Insufficient cpu.", "web-7")
        done = await asked(placet, "explain")
        named = await asked(placet, "explain", "-o", "name")
        every = await asked(placet, "explain", "-A", "-o", "json")
    assert re.search(r"shop/web-1 +kube-scheduler has not tried to place it yet", done.out)
    assert re.search(r"shop/web-7 +3 of 4 nodes would pass the policies now; kube-sch", done.out)
    assert named.out == "pod/web-1\npod/web-7\n"
    assert [each["cause"]["kind"] for each in json.loads(every.out)["pending"]] == [
        "not asked yet",
        "kube-scheduler",
    ]


async def test_pending_pods_of_one_workload_with_one_cause_are_one_row(
    placet: Placet, folder: Path
) -> None:
    full, other = ("0/4 nodes are available: 4 Insufficient cpu.", "")
    job = controller("Job", "import", "shop", replicas=9)
    async with live_shop(folder) as server:
        put(server, job)
        for number in range(7):
            pending(server, full if number else other, f"import-{number}", owner=job)
        done = await asked(placet, "explain")
        wide = await asked(placet, "explain", "-o", "wide")
        data = await asked(placet, "explain", "-o", "json")
    rows = [line.split()[0] for line in done.out.splitlines() if line.startswith("shop/")]
    assert rows == ["shop/import-0", "shop/import-1", "shop/web-1"]
    assert re.findall(r"\(and (\d+) like it\)", " ".join(done.out.split())) == ["5"]
    assert sum(line.startswith("shop/") for line in wide.out.splitlines()) == 8
    assert len(json.loads(data.out)["pending"]) == 8


async def test_a_policy_object_has_selectors_and_no_for(placet: Placet, folder: Path) -> None:
    other = policy("other", 'use "library/headroom"', podSelector={"matchLabels": {"app": "db"}})
    every = {**policy("every", "", podSelector={}), "kind": "ClusterPlacementPolicy"}
    every["metadata"].pop("namespace")
    every["spec"] |= other["spec"] | {"namespaceSelector": {"matchLabels": {"team": "a"}}}
    async with live_shop(folder, other, every):
        done = await asked(placet, "explain", "web-1")
    assert re.search(r"shop/other +no +its podSelector does not match\n", done.out)
    assert re.search(r"every +no +its podSelector or namespaceSelector does not match", done.out)


@pytest.mark.parametrize("form", ["json", "yaml"])
async def test_programs_get_documents(placet: Placet, folder: Path, form: str) -> None:
    async with live_shop(folder):
        done = await asked(placet, "explain", "web-1", "n-4", "-o", form)
    found = json.loads(done.out) if form == "json" else yaml.safe_load(done.out)
    shown = found["node"]
    assert {each["address"]: each["applies"] for each in found["policies"]}["shop/headroom"] == (
        "governs"
    )
    assert (found["version"], found["cause"]["kind"]) == (2, "not asked yet")
    assert (shown["node"], shown["passes"]) == ("n-4", False)
    values = shown["clauses"][0]["expressions"][0]["values"]
    assert {"expression": 'node.free["memory"]', "depth": 2, "value": "7Gi"} in values
    there = [{"name": "shop/web-2", "presence": "bound"}]
    assert shown["clauses"][1]["counts"]["pods"] == there


async def test_names_are_of_the_nodes_that_are_offered(placet: Placet, folder: Path) -> None:
    async with live_shop(folder):
        done = await asked(placet, "explain", "web-1", "-o", "name")
    assert done.out == "node/n-1\nnode/n-3\n"


async def test_wide_lists_every_node(placet: Placet, folder: Path) -> None:
    async with live_shop(folder) as server:
        for number in range(30):
            put(server, node(f"m-{number:02}"))
        done = await asked(placet, "explain", "web-1", "-o", "wide")
    assert sum(line.startswith("m-") for line in done.out.splitlines()) == 30


async def test_files_are_never_mixed_with_a_cluster(placet: Placet, folder: Path) -> None:
    async with live_shop(folder) as server:
        (folder / "shop.policy").write_text("cluster policy a {}")
        done = await asked(placet, "explain", "web-1", "--policies", "shop.policy")
        assert not server.requests
        both = await asked(placet, "explain", "web-1", "--cluster", "c.json", "--context", "test")
    assert done.code == 2
    assert "there is no cluster\n  = help: give --cluster SNAPSHOT, or ask a running" in done.err
    assert "--cluster does not work with --context" in both.err


async def test_policy_files_come_beside_the_policies_of_a_chosen_cluster(
    placet: Placet, folder: Path
) -> None:
    (folder / "shop.policy").write_text(
        'cluster policy mine { filter "none" { require node.name == "n-1" } }'
    )
    async with live_shop(folder):
        done = await asked(
            placet, "explain", "web-1", "--context", "test", "--policies", "shop.policy"
        )
    assert "mine: none" in done.out
    assert "shop/headroom: headroom" in done.out


def test_no_kubeconfig_names_both_ways(
    placet: Placet, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(folder / "absent"))
    for command in (["explain", "a"], ["eval", "--pod", "a", "pod.name"]):
        done = placet(*command)
        assert done.code == 2
        assert "there is no kubeconfig" in done.err
        assert "--kubeconfig" in done.err
        assert "--cluster SNAPSHOT" in done.err


# ---- policies that are not in force

BROKEN = policy("headroom", 'filter "a" { require node.nme }', enforcementMode="Strict")


async def test_a_strict_policy_without_a_valid_version_is_the_cause(
    placet: Placet, folder: Path
) -> None:
    async with live_shop(folder, BROKEN):
        done = await asked(placet, "explain", "web-1")
    assert done.code == 0
    assert "cause: the policy `shop/headroom` has no valid version" in done.out
    assert "rules:1:27 error[P0102]: Node has no field `nme`" in done.out


async def test_the_last_valid_version_decides(placet: Placet, folder: Path) -> None:
    old = {"generation": 1, "rules": HEADROOM["spec"]["rules"]}
    async with live_shop(folder, {**BROKEN, "status": {"inForce": old}}):
        done = await asked(placet, "explain", "web-1", "n-2")
    assert "its last valid version is in force instead" in done.out
    assert 'node.free["memory"] - pod.requests["memory"] >= "1Gi"  = false' in done.out


async def test_a_broken_policy_beside_good_ones_is_listed(placet: Placet, folder: Path) -> None:
    bad = policy("bad", 'filter "a" { require node.nme }')
    unreadable = policy("odd", "", weight="heavy")
    other = policy("away", 'filter "a" { require node.nme }', namespace="far")
    async with live_shop(folder, HEADROOM, bad, unreadable, other):
        done = await asked(placet, "explain", "web-1")
    assert "shop/bad      it is not enforced" in done.out
    assert "shop/odd      it is not enforced" in done.out
    assert "far/away" not in done.out
    assert "shop/headroom  governs" in done.out


async def test_the_cause_comes_first(placet: Placet, folder: Path) -> None:
    bad = policy("bad", 'filter "a" { require node.nme }')
    async with live_shop(folder, HEADROOM, bad) as server:
        put_event(server, "web-1", "0/4 nodes are available: 4 needs 1Gi to spare.")
        explained = await asked(placet, "explain", "web-1")
    beginning, _, _ = explained.out.partition("\npod shop/web-1 at ")
    at = [beginning.index(each) for each in ("cause: ", "event ", "not in force")]
    assert at == [0, *sorted(at[1:])]


# ---- a developer with rights in one namespace


async def test_without_the_right_to_nodes_the_pod_and_its_policies_are_shown(
    placet: Placet, folder: Path
) -> None:
    status = {"conditions": [{"type": "Ready", "status": "True"}], "matchedPods": 7}
    async with live_shop(folder, {**HEADROOM, "status": status}) as server:
        server.forbidden = {
            PATHS["Node"],
            PATHS["Pod"],
            f"{POLICIES}/placementpolicies",
            f"{POLICIES}/clusterplacementpolicies",
        }
        said = "0/4 nodes are available: 4 needs 1Gi to spare."
        pending(server, said)
        put_event(server, "web-1", said)
        done = await asked(placet, "explain", "web-1")
        document = await asked(placet, "explain", "web-1", "-o", "json")
        other = await asked(placet, "explain", "wbe-1")
        listed = await asked(placet, "explain")
    assert done.code == 0
    assert "cause: the last answer was: needs 1Gi to spare (4 nodes)" in done.out
    assert f"PodScheduled is False: Unschedulable: {said}" in done.out
    assert "FailedScheduling (3 times)" in done.out
    assert re.search(r"shop/headroom +True +7", done.out)
    for right in (
        "list nodes",
        "list pods in all namespaces",
        "list clusterplacementpolicies",
    ):
        assert f"you may not {right}\n" in done.out
        assert right in json.loads(document.out)["lacks"]
    assert "db-0" not in done.out
    assert "a similar name exists: `web-1`" in other.err
    assert listed.code == 2
    assert "you may not list nodes and list pods in all namespaces" in listed.err


async def test_rights_that_matter_less_are_notes(placet: Placet, folder: Path) -> None:
    async with live_shop(folder) as server:
        server.forbidden = {
            f"{POLICIES}/clusterplacementpolicies",
            f"{NAMESPACED}/events",
            PATHS["Namespace"],
        }
        done = await asked(placet, "explain", "web-1")
    assert "note: you may not list clusterplacementpolicies" in done.err
    assert "list namespaces" not in done.err  # no policy reads them
    assert "you may not list events in the namespace `shop`" in done.out
    assert "2 of 4 nodes pass" in done.out


async def test_a_source_of_data_that_cannot_be_read_is_named(placet: Placet, folder: Path) -> None:
    rule = 'filter "calm" { require data.load[node.name].cpu < "6" missing pass }'
    text = f'cluster policy calm {{ for pods where true data "load" {{ from metrics }} {rule} }}'
    (folder / "calm.policy").write_text(text)
    (folder / "load.csv").write_text("key,cpu\nn-1,7\n")
    words = ("explain", "web-1", "--context", "test", "--policies", "calm.policy")
    async with live_shop(folder):
        done = await asked(placet, *words)
        given = await asked(placet, *words, "--data", "load=load.csv")
    assert 'warning: `data "load"` has no rows here: ' in done.err
    assert "what reads it finds nothing" not in done.err
    assert "= help: give its rows with `--data load=FILE`" in done.err
    assert "calm: calm" not in done.out
    assert "has no rows" not in given.err
    assert "calm: calm" in given.out


async def test_policies_in_files_of_the_running_placet_are_asked_for(
    placet: Placet, folder: Path
) -> None:
    """Where no policy of the cluster applies: its own decision is the answer."""
    async with live_shop(folder, policy("far", HEADROOM["spec"]["rules"], "far")):
        alone = await asked(placet, "explain", "web-1")
        assert "no policy applies" in alone.out
        assert "note: policies in files of a running Placet are not known here: " in alone.err
        plain = await asked(placet, "explain", "web-1", "-o", "json")
        known = json.loads(plain.out) | {
            "policies": [
                {"address": "shop/by-file", "applies": "governs", "because": "so", "digest": ""}
            ]
        }

        async def handle(request: web.Request) -> web.Response:
            assert request.path == "/api/v1/explain/shop/web-1"
            return web.json_response(known)

        app = web.Application()
        app.router.add_get("/{path:.*}", handle)
        async with TestServer(app) as view:
            done = await asked(placet, "explain", "web-1", "--url", f"http://127.0.0.1:{view.port}")
    assert "shop/by-file  governs" in done.out
    assert "note:" not in done.err
