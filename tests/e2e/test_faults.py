"""Trust under faults of the API server and the network: the cache becomes what the server has."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.manifests import huge_node
from tests.e2e.service_account import ServiceAccount
from tests.e2e.stage import Stage
from tests.e2e.trial import NODES, PODS, Start, trials
from tests.e2e.waiting import until
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
    assert failures >= 1
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
