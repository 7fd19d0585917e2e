"""The other commands that ask a running cluster: eval, repl, simulate and test."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from engine.cluster.data_fetching import METRICS
from tests.cli.conftest import Placet
from tests.cli.live import asked, environment, live_shop, policy
from tests.recorder.api_server import PATHS
from tests.support import builders
from tests.support.fake_api_server import FakeApiServer
from tests.support.kubeconfig import kubeconfig

__all__ = ["environment"]

pytestmark = pytest.mark.usefixtures("environment")
TEST = """\
test "web fits" {
  cluster "cluster.json"
  pod "shop/new" {"labels": {"tier": "web"}, "requests": {"memory": "512Mi"}}
  expect pass "n-1"
}
"""


async def test_explain(placet: Placet, folder: Path) -> None:
    async with live_shop(folder):
        done = await asked(placet, "explain", "web-1", "-o", "wide")
        document = await asked(placet, "explain", "web-1", "-o", "json")
    assert done.code == 0
    assert "shop/headroom: headroom" in done.out
    found = json.loads(document.out)
    assert (found["passing"], found["nodes"]) == (2, 4)
    assert found["clauses"][0] == {
        "policy": "shop/headroom",
        "clause": "headroom",
        "fails": 1,
        "failsOnlyThis": 1,
        "errors": 0,
        "message": "needs 1Gi to spare",
        "counts": False,
        "requires": [{"text": 'node.free["memory"] - pod.requests["memory"] >= "1Gi"', "fails": 1}],
    }
    assert found["cause"]["kind"] == "not asked yet"


async def test_an_owner_of_another_kind_is_asked_for_its_scale(
    placet: Placet, folder: Path
) -> None:
    share = 'share "s" { of replicas on nodes where node.zone == "a" at most 50% strict }'
    made = builders.pod("set-0", "shop")
    owner = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "set"}
    made["metadata"]["ownerReferences"] = [{**owner, "uid": "s", "controller": True}]
    async with live_shop(folder, policy("s", share), made) as server:
        unknown = await asked(placet, "explain", "set-0")
        path = "/apis/apps.kruise.io/v1alpha1"
        scale = f"{path}/namespaces/shop/clonesets/set/scale"
        server.single.folders |= {"/apis/apps.kruise.io", scale.removesuffix("/scale")}
        kinds = [{"name": "clonesets", "kind": "CloneSet"}, {"name": "clonesets/scale", "kind": ""}]
        wants = {"metadata": {"uid": "s"}, "spec": {"replicas": 4}}
        server.single.objects |= {path: {"resources": kinds}, scale: wants}
        known = await asked(placet, "explain", "set-0")
    assert "how many pods `CloneSet/set` wants is not known" in unknown.out
    assert "is not known" not in known.out


async def test_eval(placet: Placet, folder: Path) -> None:
    async with live_shop(folder) as server:
        alone = await asked(placet, "eval", "1 + 1")
        assert not server.requests
        done = await asked(placet, "eval", "--pod", "web-1", "--node", "n-1", 'node.free["memory"]')
        document = await asked(placet, "eval", "--all-nodes", "-o", "json", "node.zone")
    assert (alone.out, alone.err) == ("2 : int\n", "")
    assert done.out == "4Gi : quantity\n"
    assert json.loads(document.out)["n-3"] == {"value": "c"}


async def test_the_repl_has_the_policies_of_the_cluster(placet: Placet, folder: Path) -> None:
    async with live_shop(folder):
        done = await asked(placet, "repl", stdin=":pod shop/web-1\n:explain n-2\n")
        (folder / "own.policy").write_text('cluster policy own { filter "o" { require true } }')
        files = await asked(placet, "repl", "--policies", "own.policy", stdin="node.zone\n")
        both = await asked(
            placet,
            "repl",
            "--context",
            "test",
            "--policies",
            "own.policy",
            stdin=":pod shop/web-1\n:explain n-2\n",
        )
    assert "shop/headroom: headroom fails: needs 1Gi to spare" in done.out
    assert "begin with `placet repl --cluster SNAPSHOT`" in files.err
    assert "shop/headroom: headroom fails" in both.out
    assert "own: o holds" in both.out


def test_a_repl_without_a_kubeconfig_begins_without_a_cluster(placet: Placet, folder: Path) -> None:
    done = placet("repl", stdin="1 + 1\n")
    assert (done.code, done.out, done.err) == (0, "2 : int\n", "")
    asked_node = placet("repl", stdin="node.zone\n")
    assert "begin with `placet repl --cluster SNAPSHOT`, or with `--kubeconfig" in asked_node.err
    strict = placet("repl", "--kubeconfig", str(folder / "absent"), stdin="1 + 1\n")
    assert strict.code == 2
    assert "there is no kubeconfig" in strict.err


def test_a_repl_begins_although_its_cluster_is_not_there(placet: Placet, folder: Path) -> None:
    kubeconfig(folder / "config", "http://127.0.0.1:1", {"token": "static"})
    done = placet("repl", stdin="1 + 1\n")
    assert (done.code, done.out) == (0, "2 : int\n")
    assert "no cluster is loaded: `http://127.0.0.1:1` cannot be reached" in done.err


async def test_simulate_places_the_pending_pods(placet: Placet, folder: Path) -> None:
    async with live_shop(folder):
        done = await asked(placet, "simulate", "-o", "json")
        far = await asked(placet, "simulate", "-n", "far")
    assert done.code == 0
    assert "shop/web-1" in done.out
    assert "no pod is pending in the namespace `far` of `test`" in far.err


async def test_simulate_compares_files_on_a_running_cluster(placet: Placet, folder: Path) -> None:
    (folder / "old.policy").write_text(
        'policy a in namespace "shop" { score "one" weight 1 { value 1 } }'
    )
    (folder / "new.policy").write_text(
        'policy a in namespace "shop" { filter "a" { require node.zone == "b" } }'
    )
    async with live_shop(folder):
        offline = await asked(placet, "simulate", "--diff", "old.policy", "new.policy")
        done = await asked(
            placet,
            "simulate",
            "--context",
            "test",
            "--diff",
            "old.policy",
            "new.policy",
            "-o",
            "json",
        )
    assert "there is no cluster" in offline.err
    assert done.code == 0
    assert "n-2" in done.out


CALM = """\
cluster policy calm {
  for pods where true
  data "load" { from metrics }
  filter "calm" { require data.load[node.name].cpu < "6" missing fail message "hot" }
}
"""


def hot_nodes(server: FakeApiServer, folder: Path) -> None:
    """One node of the cluster is idle; a file has a policy about that."""
    (folder / "calm.policy").write_text(CALM)
    time = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    usage = {"n-1": {"cpu": "7"}, "n-2": {"cpu": "1"}}
    items = [
        {"metadata": {"name": name}, "timestamp": time, "usage": used}
        for name, used in usage.items()
    ]
    server.single.folders.add(METRICS.rpartition("/")[0])
    server.single.objects[METRICS] = {"kind": "NodeMetricsList", "items": items}


async def test_simulate_reads_the_sources_of_data(placet: Placet, folder: Path) -> None:
    async with live_shop(folder) as server:
        hot_nodes(server, folder)
        words = ("simulate", "--context", "test", "--policies", "calm.policy", "-o", "json")
        done = await asked(placet, *words)
        (folder / "load.csv").write_text("key,cpu\nn-1,1\nn-2,9\n")
        given = await asked(placet, *words, "--data", "load=load.csv")
    assert "has no rows" not in done.err
    placed = {each["node"] for each in json.loads(done.out)["pods"]} - {None}
    assert placed == {"n-2"}, "where a row is missing, no pod may run"
    placed = {each["node"] for each in json.loads(given.out)["pods"]} - {None}
    assert placed == {"n-1"}


async def test_the_repl_reads_the_sources_of_data(placet: Placet, folder: Path) -> None:
    lines = ":pod shop/web-1\n:explain n-1\n:explain n-2\n"
    async with live_shop(folder) as server:
        hot_nodes(server, folder)
        context = "--context", "test"
        done = await asked(placet, "repl", *context, "--policies", "calm.policy", stdin=lines)
    assert "calm: calm fails: hot" in done.out
    assert "calm: calm holds" in done.out
    assert "has no rows" not in done.err


@pytest.mark.parametrize("command", ["eval", "repl", "simulate"])
async def test_without_the_right_to_nodes_others_name_it(
    placet: Placet, folder: Path, command: str
) -> None:
    arguments = {
        "eval": ["eval", "--all-nodes", "node.zone"],
        "repl": ["repl", "--context", "test"],
        "simulate": ["simulate"],
    }[command]
    async with live_shop(folder) as server:
        server.forbidden = {PATHS["Node"]}
        done = await asked(placet, *arguments)
    assert done.code == 2
    assert "you may not list nodes\n" in done.err
