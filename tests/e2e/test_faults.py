"""Trust under faults of the API server and the network: the cache becomes what the server has."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.chaos.nemesis import play
from tests.chaos.rig import stored_as_json
from tests.chaos.schedule import schedule, text
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gangs import (
    GangServer,
    by_group,
    entries,
    gang_server,
    group,
    hold,
    policy,
    wait_whole,
)
from tests.e2e.kube_scheduler import kube_scheduler
from tests.e2e.manifests import huge_node, node, pod
from tests.e2e.placet import Replicas
from tests.e2e.process import until
from tests.e2e.service_account import ServiceAccount
from tests.e2e.stage import GOVERNED, Stage
from tests.e2e.trial import NODES, PODS, Start, trials
from tests.support.api_proxy import Edit, unchanged
from tests.support.fake_api_server import Answer

pytestmark = pytest.mark.e2e

RESOURCES = 2  # nodes and pods: the policy reads nothing else


@pytest.fixture
def start(plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path) -> Iterator[Start]:
    """Return what starts a trial."""
    with trials(plane, cluster, served, tmp_path) as starting:
        yield starting


def test_api_server_killed_and_started_again(start: Start, plane: ControlPlane) -> None:
    """A crash: connections break off, for a while nobody is there, then versions are unknown."""
    trial = start(directly=True)

    plane.api_server.kill()
    time.sleep(3.0)
    failures = trial.server.cache()["resources"]["pods"]["failures"]
    stayed = trial.server.is_ready()
    plane.api_server.start()
    trial.change()

    trial.wait_changed()
    assert sum(failures.values()) >= 1
    assert stayed, "what is known goes on being decided by"
    trial.check(most_lists=2 * RESOURCES, most_requests=0)


def test_history_compacted_while_a_watch_hung(start: Start, plane: ControlPlane) -> None:
    """The watch goes on from a version that nobody knows any more: 410, and one list heals it."""
    trial = start()

    trial.proxy.freeze()
    trial.change()
    plane.etcd.compact()
    plane.api_server.kill()
    plane.api_server.start()
    trial.change()
    trial.proxy.cut()
    trial.proxy.thaw()

    trial.wait_changed()
    trial.check(most_lists=RESOURCES, most_requests=10 * RESOURCES)
    assert trial.server.relists() == {
        resource: {"first": 1, "expired": 1} for resource in ("nodes", "pods")
    }


def test_stream_that_stops_without_an_end(start: Start) -> None:
    """No byte and no FIN: the watch is begun anew after the time that `--watch-idle` says.

    One that is silent from its start leads to a list, for bookmarks do not come that often.
    """
    trial = start("--watch-idle=5s")
    trial.change()
    trial.wait_changed()

    trial.proxy.freeze()
    began = time.monotonic()
    trial.change()
    assert not trial.knows_change()
    trial.wait_changed()

    elapsed = time.monotonic() - began
    assert elapsed < 5.0 + 3.0
    trial.check(most_lists=RESOURCES * (1 + int(elapsed / 5.0)), most_requests=10 * RESOURCES)


def test_connections_that_break_off(start: Start) -> None:
    """Several times in a row, with changes in between: watches go on from where they were."""
    trial = start()

    for _ in range(3):
        trial.proxy.cut()
        trial.change()
        trial.wait_changed()

    trial.check(most_lists=0, most_requests=5 * RESOURCES)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(429, b"too many requests", {"Retry-After": "1"}),
        Answer(500, b"etcdserver: no leader"),
        Answer(200, b"<html>maintenance</html>"),
    ],
    ids=["429", "500", "garbage"],
)
def test_server_that_does_not_serve(start: Start, answer: Answer) -> None:
    """For some seconds every request is answered so, watches that were open having broken off."""
    trial = start()

    trial.proxy.answer = answer
    trial.proxy.cut()
    trial.change()
    time.sleep(4.0)
    resources = trial.server.resources()
    trial.proxy.answer = None

    trial.wait_changed()
    assert all(each["failure"] for each in resources.values())
    trial.check(most_lists=0, most_requests=8 * RESOURCES)


def test_lines_that_got_lost(start: Start, cluster: Cluster) -> None:
    """No watch tells of what it has left out: comparing finds it, and asks for a list.

    Watches go on from the last line that came, so that breaking off does not help.
    """
    trial = start()

    trial.proxy.edit = _without(b'"name":"new-1"', b'"name":"p1"')
    trial.change()
    behind = {"nodes": NODES - 1, "pods": PODS + 1}
    until(lambda: trial.objects() == behind, 10.0, lambda: f"{behind}, not {trial.objects()}")
    found = trial.server.compare()["differences"]
    assert {(each["kind"], each["key"]) for each in found} == {
        ("missing", "new-1"),
        ("extra", f"{cluster.namespace}/p1"),
    }
    trial.proxy.edit = unchanged
    trial.proxy.cut()

    trial.wait_changed()
    # Comparing has listed each resource five times, a second apart: it might have been on its way.
    trial.check(most_lists=6 * RESOURCES, most_requests=12 * RESOURCES)
    relists = trial.server.relists()
    assert {name: each.get("compare") for name, each in relists.items()} == dict.fromkeys(
        relists, 1
    )


def _without(*names: bytes) -> Edit:
    """What loses the lines that name one of these."""
    return lambda _path, line: [] if any(name in line for name in names) else [line]


def test_lines_that_come_twice_or_late(start: Start) -> None:
    """Each line again at once, and once more after the next ones: old states change nothing."""
    trial = start()
    kept: dict[str, list[bytes]] = {}

    def repeat(path: str, line: bytes) -> list[bytes]:
        late = kept.setdefault(path, [])
        late.append(line)
        return [line, line, *([late.pop(0)] if len(late) > 5 else [])]

    trial.proxy.edit = repeat
    for _ in range(6):
        trial.change()
    trial.wait_changed()

    trial.proxy.edit = unchanged
    trial.check(most_lists=0, most_requests=6 * RESOURCES)


def test_node_of_three_megabytes(start: Start, cluster: Cluster) -> None:
    """One line of a watch, and then one item of a list."""
    trial = start()

    cluster.create_nodes([huge_node("huge", 3_000_000)])
    more = {"nodes": NODES + 1, "pods": PODS}
    until(lambda: trial.objects() == more, 10.0, lambda: f"{more}, not {trial.objects()}")
    cluster.label_node("huge", {"changed": "1"})
    trial.change()

    until(trial.knows_change, 10.0, trial.server.process.tail)
    trial.check(most_lists=0, most_requests=4 * RESOURCES)


def test_token_that_is_replaced(
    start: Start, plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """The old token is taken back; the file has a new one, which a 401 makes Placet read."""
    account, file = ServiceAccount(plane, cluster.namespace), tmp_path / "token"
    old = account.token("old")
    file.write_text(old)
    trial = start(user={"tokenFile": str(file)})

    file.write_text(account.token("new"))
    account.revoke("old")
    until(lambda: account.is_refused(old), 30.0, lambda: "the old token refused")
    trial.proxy.cut()
    trial.change()

    trial.wait_changed()
    trial.check(most_lists=0, most_requests=4 * RESOURCES)


# ---- two schedules of faults, of two minutes each; `make chaos` plays others


MINUTES = 2


@pytest.fixture(scope="module")
def stored(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return a control plane that both schedules have for themselves."""
    with stored_as_json(programs, tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.mark.parametrize(("seed", "binds"), [(1, True), (2, False)], ids=["bindVerb", "without"])
def test_nothing_sticks_and_nothing_overruns(
    stored: ControlPlane, tmp_path: Path, seed: int, binds: bool
) -> None:
    plan = schedule(seed, MINUTES, binds=binds)
    report = play(stored, Cluster(stored, f"chaos-{seed}"), tmp_path, plan, binds=binds)
    sys.stdout.write(f"{report}\n")
    assert report.findings == [], text(plan[: report.phases])


# ---- retries: the pods of a controller that failed, as a real API server shows them


ELSEWHERE = """filter "elsewhere" {
  require !pod.failures.exists(f, f.node == node.name && f.reason == "Evicted")
}"""
OTHERS = 'filter "any" { require true }'
NAMES = ["n1", "n2"]


def test_a_retry_goes_to_another_node_also_when_the_failed_pod_is_gone(
    cluster: Cluster, served: Stage
) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j"}

    def attempt(name: str, **spec: str) -> None:
        made = pod(name, cluster.namespace, GOVERNED, **spec)
        made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        cluster.create_pods([made])

    cluster.create_nodes(map(node, NAMES))
    attempt("j-0", nodeName="n1")
    server = served.watch(OTHERS)
    server.wait_ready()
    attempt("j-1", schedulerName="nobody")
    retry = cluster.pod("j-1")
    assert server.filter(retry, NAMES)["NodeNames"] == NAMES

    failed = {"status": {"phase": "Failed", "reason": "Evicted"}}
    cluster.kubectl(
        *("patch", "pod", "j-0", "-n", cluster.namespace, "--subresource=status", "--type=merge"),
        *("-p", json.dumps(failed)),
    )
    # What failed before the first policy that reads it is known, as long as it is there.
    served.write_policy(ELSEWHERE)
    until(lambda: server.filter(retry, NAMES)["NodeNames"] == ["n2"], 30, lambda: "a retry on n2")
    cluster.delete_pod("j-0")
    until(lambda: "j-0" not in cluster.placements(), 30, lambda: "the failed pod gone")
    server.wait_ready()
    assert server.filter(retry, NAMES)["NodeNames"] == ["n2"]
    served.schedule(server)
    attempt("j-2")
    assert cluster.wait_placed(["j-2"]) == {"j-2": "n2"}


# ---- gangs when a process ends that has to do with them, and with whole nodes in requests


# How late places may be free after what ends a gang.
FREE_SECONDS = 1.0


def test_full_nodes(plane: ControlPlane, cluster: Cluster, tmp_path: Path) -> None:
    """With nodeCacheCapable false the same: one of two gangs is whole, the other waits."""
    cluster.create_nodes(node(f"n{number}", cpu="5") for number in range(2))
    with gang_server(plane, tmp_path, policy("job"), node_cache_capable=False) as gangs:
        both = [group(cluster, name, 6) for name in ("a", "b")]
        cluster.create_pods(member for pair in zip(*both, strict=True) for member in pair)
        until(lambda: len(cluster.placements()) >= 6, 20.0, gangs.server.process.tail)
        time.sleep(1)
        assert len(by_group(cluster.placements())) == 1
        assert gangs.held() == 0


def test_a_kube_scheduler_that_is_killed(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """Its calls end with it, so the gang is given up; the next one binds it whole."""
    cluster.create_nodes([node("n0", cpu="4")])
    with gang_server(plane, tmp_path, policy("job")) as gangs:
        hold(cluster, gangs)
        gangs.scheduler.kill()
        gangs.wait_held(0, FREE_SECONDS)
        assert gangs.given_up("client_gone") == 1
        cluster.delete_pod("g-3")
        with kube_scheduler(plane, tmp_path, entries(f"http://127.0.0.1:{gangs.server.port}")):
            cluster.create_pods(group(cluster, "g", 4)[3:])
            wait_whole(cluster, gangs, "g", size=4, seconds=20)


def test_a_placet_that_ends_while_it_holds_calls(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """Another replica decides from then on: nobody is bound alone, and in the end all are."""
    cluster.create_nodes([node("n0", cpu="4")])
    with ExitStack() as running:
        replicas = Replicas(plane, tmp_path, running, policy("job"), "--bind")
        address = f"http://127.0.0.1:{replicas.switch.port}"
        scheduler = running.enter_context(kube_scheduler(plane, tmp_path, entries(address)))
        hold(cluster, GangServer(replicas.asked(), scheduler, tmp_path))
        assert replicas.restart() == 0
        asked = GangServer(replicas.asked(), scheduler, tmp_path)
        asked.wait_held(3)
        assert cluster.placements() == {}
        replicas.kill()
        cluster.delete_pod("g-3")
        cluster.create_pods(group(cluster, "g", 4)[3:])
        wait_whole(cluster, asked, "g", size=4)
