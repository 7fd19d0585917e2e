"""The other commands that ask a running cluster: eval, repl, simulate and test."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engine.cache.cluster_file import read_cluster
from engine.cluster.data_fetching import METRICS
from engine.errors import ApiError
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


async def test_a_long_list_says_how_much_of_it_has_come(
    placet: Placet, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = list[str]()
    monkeypatch.setattr("cli.streams.PassingLine.show", lambda _, text: said.append(text))
    monkeypatch.setattr("cli.live.CHUNK", 2)
    async with live_shop(folder):
        assert (await asked(placet, "explain", "web-1")).code == 0
    assert {"nodes: 0 MiB …", "pods: 0 MiB …"} <= {*said}


def set_of(uid: str) -> builders.Object:
    """A pod of a CloneSet of this uid."""
    made = builders.pod(f"set-{uid}", "shop")
    owner = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": uid}
    made["metadata"]["ownerReferences"] = [{**owner, "uid": uid, "controller": True}]
    return made


def put_scales(server: FakeApiServer, *uids: str) -> None:
    """CloneSets that want four pods each."""
    path = "/apis/apps.kruise.io/v1alpha1"
    kinds = [{"name": "clonesets", "kind": "CloneSet"}, {"name": "clonesets/scale", "kind": ""}]
    server.single.folders |= {"/apis/apps.kruise.io"}
    server.single.objects[path] = {"resources": kinds}
    for uid in uids:
        scale = f"{path}/namespaces/shop/clonesets/{uid}/scale"
        server.single.folders |= {scale.removesuffix("/scale")}
        server.single.objects[scale] = {"metadata": {"uid": uid}, "spec": {"replicas": 4}}


SHARE = 'share "s" { of replicas on nodes where node.zone == "a" at most 50% strict }'


async def test_an_owner_of_another_kind_is_asked_for_its_scale(
    placet: Placet, folder: Path
) -> None:
    repl = {"stdin": ":pod shop/set-s\n:explain\npod.workload.replicas\n"}
    async with live_shop(folder, policy("s", SHARE), set_of("s")) as server:
        unknown = await asked(placet, "explain", "set-s")
        unknown_there = await asked(placet, "repl", **repl)
        before = json.loads((await asked(placet, "simulate", "-o", "json")).out)
        put_scales(server, "s")
        known = await asked(placet, "explain", "set-s")
        known_there = await asked(placet, "repl", **repl)
        after = json.loads((await asked(placet, "simulate", "-o", "json")).out)
        value = await asked(placet, "eval", "--pod", "set-s", "pod.workload.replicas")
    for out in (unknown.out, unknown_there.out):
        assert "how many pods `CloneSet/s` wants is not known" in out
    for out in (known.out, known_there.out):
        assert "n-1" in out
        assert "is not known" not in out
    assert before != after
    assert "4 : int" in known_there.out
    assert value.out == "4 : int\n"


async def test_a_cluster_whose_owners_are_asked_is_decoded_once(
    placet: Placet, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = list[object]()

    def reading(*parts: Any) -> object:
        decoded.append(read := read_cluster(*parts))
        return read

    monkeypatch.setattr("engine.cache.cluster_copy.read_cluster", reading)
    for name in ("old", "new"):
        (folder / f"{name}.policy").write_text(f"cluster policy {name} {{ {SHARE} }}")
    async with live_shop(folder, policy("s", SHARE), set_of("s")) as server:
        put_scales(server, "s")
        known = await asked(placet, "explain", "set-s")
        once = len(decoded)
        diff = ("simulate", "--diff", "old.policy", "new.policy", "--context", "test")
        both = await asked(placet, *diff)
        scales = [r.path for r in server.requests if r.path.endswith("/scale")]
    assert "is not known" not in known.out
    assert "no pod moves" in both.out, "one simulation does not change the other one"
    assert (once, len(decoded)) == (1, 2)
    assert len(scales) == 2, "one for each command"


async def test_owners_that_do_not_say_what_they_want_hold_no_command(
    placet: Placet, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uids = [f"s{number}" for number in range(20)]
    async with live_shop(folder, policy("s", SHARE), *map(set_of, uids)) as server:
        put_scales(server, *uids)
        path = "/apis/apps.kruise.io/v1alpha1/namespaces/shop/clonesets/s1/scale"
        denial = 'User "u" cannot get resource "clonesets/scale" in API group "apps.kruise.io"'
        server.single.denied[f"GET {path}"] = ApiError(403, "Forbidden", denial)
        denied = await asked(placet, "explain", "set-s1")
        other = await asked(placet, "explain", "set-s2")
        server.held = "/scale"
        monkeypatch.setattr("cli.live._DATA_SECONDS", 0.5)
        late = await asked(placet, "explain", "set-s2")
        server.go_on.set()
    assert "note: cannot read how many pods CloneSet/s1 in `shop` wants" in denied.err
    assert "how many pods `CloneSet/s1` wants is not known" in denied.out
    assert "is not known" not in other.out
    assert "note: some owners of pods did not say within 0.5 s how many they want" in late.err
    assert "how many pods `CloneSet/s2` wants is not known" in late.out


async def test_pods_that_have_ended_are_read_where_policies_count_them(
    placet: Placet, folder: Path
) -> None:
    """As the running Placet does; and only there."""
    rules = (
        'count done = ended pods where peer.labels["tier"] == "web"\n'
        'filter "first" { require done == 0 message "one has ended" }'
    )
    ended = builders.pod("old", "shop", labels={"tier": "web"}, on="n-1", phase="Succeeded")
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": now}
    ended["status"]["conditions"] = [ready]
    async with live_shop(folder, policy("s", rules), ended) as server:
        done = await asked(placet, "explain", "web-1", "n-1")
        server.requests.clear()
        await asked(placet, "eval", "node.zone")
        lists = [request for request in server.requests if request.path == "/api/v1/pods"]
    assert "one has ended" in done.out
    assert len(lists) == 1


async def test_eval(placet: Placet, folder: Path) -> None:
    async with live_shop(folder) as server:
        alone = await asked(placet, "eval", "1 + 1")
        assert not server.requests
        done = await asked(placet, "eval", "--pod", "web-1", "--node", "n-1", 'node.free["memory"]')
        document = await asked(placet, "eval", "-o", "json", "node.zone")
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
        "eval": ["eval", "node.zone"],
        "repl": ["repl", "--context", "test"],
        "simulate": ["simulate"],
    }[command]
    async with live_shop(folder) as server:
        server.forbidden = {PATHS["Node"]}
        done = await asked(placet, *arguments)
    assert done.code == 2
    assert "you may not list nodes\n" in done.err
