"""The engine of a server follows its files: policies, snapshots, and what is wrong with either."""

import asyncio
import json
import logging
import os
import resource
import socket
import tempfile
import time
import tracemalloc
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from cli.demo.demo_cluster import Demo
from engine.cache.cluster_file import ClusterFileError
from engine.decision.verdict import Feasible
from engine.errors import NotSyncedError, WaitingError
from engine.objects.remembered import MOST_REMEMBERED, Memory
from grammar.meaning.schema import load_schema
from policies.manifest_text import GROUP
from server.metrics.metrics import Metrics
from server.runtime.file_cluster import ClusterFiles, ClusterSource, FileCluster
from server.runtime.observers import LogObserver
from server.runtime.policies import PolicyReader, PolicyReloader
from tests.support.builders import Object, controller, kubectl_list, node, pod, raw
from tests.support.fake_clock import HandClock
from tests.support.pseudo_terminal import hung_mount
from tests.support.served import PROCESSES
from tests.support.simulated import reloader_of

LOG = logging.getLogger("placet.test")
SCHEMA = load_schema()
OBSERVER = LogObserver(LOG, Metrics(CollectorRegistry(), "0"))
NODES = (node("n1", labels={"disk": "ssd"}), node("n2", labels={"disk": "hdd"}))


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger=LOG.name)


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    return write(tmp_path / "a.policy", disk("ssd"))


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    return write(tmp_path / "cluster.json", kubectl_list(NODES))


def disk(kind: str, field: str = "labels") -> str:
    return (
        'cluster policy a { filter "disk" { '
        f'require node.{field}["disk"] == "{kind}" message "needs {kind}" }} }}'
    )


def write(path: Path, content: str | Object) -> Path:
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return path


def reloader(policies: Path, cluster: Path | None) -> PolicyReloader:
    if cluster is None:
        return reloader_of([policies], lambda _: ClusterSource(), SCHEMA, OBSERVER, LOG)
    files = ClusterFiles([cluster])
    return reloader_of(
        [policies], lambda needs: FileCluster(files, SCHEMA, needs, LOG), SCHEMA, OBSERVER, LOG
    )


def settle(it: PolicyReloader) -> None:
    """A change counts at the second look."""
    asyncio.run(it.catch_up())
    asyncio.run(it.catch_up())


def passing(it: PolicyReloader, nodes: Sequence[Object] | None = None, uid: str = "a") -> list[str]:
    """The nodes for a pod, in names mode or with these nodes."""
    names = ["n1", "n2"]
    asked = raw(pod(uid))
    bodies = None if nodes is None else [raw(n) for n in nodes]
    verdicts = it.engine.filter(asked, names, bodies, time.monotonic() + 10)
    return [n for n, v in zip(names, verdicts, strict=True) if isinstance(v, Feasible)]


def test_edit_of_a_policy_is_in_force(policies: Path, cluster: Path) -> None:
    it = reloader(policies, cluster)
    assert passing(it) == ["n1"]
    write(policies, disk("hdd"))
    settle(it)
    assert passing(it) == ["n2"]


@pytest.mark.parametrize("broken", [disk("hdd", "lables"), "cluster policy a {", "\0"])
def test_broken_edit_keeps_the_last_good_version(
    policies: Path, cluster: Path, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    """And says in the log what is wrong, where."""
    it = reloader(policies, cluster)
    write(policies, broken)
    settle(it)
    assert passing(it) == ["n1"]
    assert f"{policies}:1:" in caplog.text
    assert "policy a: the last valid version stays enforced" in caplog.text


def test_pods_of_a_policy_that_never_held_wait(
    policies: Path, cluster: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Readiness names it, until it is valid."""
    write(policies, disk("ssd", "lables"))
    it = reloader(policies, cluster)
    with pytest.raises(WaitingError, match="policy a is not enforced: no valid version loaded yet"):
        passing(it)
    assert "policy a is not enforced: no valid version loaded yet" in caplog.text
    said = "1 policy is not in force as written: a (the pods that it selects wait)"
    assert (it.readiness()[0].failure, it.readiness()[0].is_warning) == (said, True)
    write(policies, disk("ssd"))
    settle(it)
    assert (passing(it), it.readiness()[0].failure) == (["n1"], "")


def test_a_server_that_keeps_all_pods_waiting_for_a_file_is_not_ready(
    policies: Path, cluster: Path
) -> None:
    """So a rollout with a broken file ends at its first replica."""
    write(policies, "polcy a {")
    it = reloader(policies, cluster)
    with pytest.raises(WaitingError):
        passing(it)
    assert not it.readiness()[0].is_warning
    write(policies, disk("ssd"))
    settle(it)
    write(policies, "polcy a {")
    settle(it)
    assert passing(it) == ["n1"]
    assert it.readiness()[0].is_warning


def test_a_file_that_could_not_be_read_is_read_again(policies: Path, cluster: Path) -> None:
    """Nothing of it changes when the machine has files to open again. Until then pods wait."""
    usual, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    clock = HandClock()
    reader = PolicyReader([policies], SCHEMA, LOG, PROCESSES[0], clock)
    with tempfile.TemporaryFile() as file:
        free = file.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, most))
    try:
        for _ in range(2):
            found = reader.read({})
            assert not found.policies
            assert [each.address for each in found.registry.refusing] == [str(policies)]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (usual, most))
    assert reader.failure.startswith(f"cannot read `{policies}`: too many open files")
    assert not reader.changed()
    clock.seconds += 4
    assert reader.changed()
    assert [each.policy.address for each in reader.read({}).policies] == ["a"]
    clock.seconds += 10_000
    assert not reader.changed()


def test_removed_file_removes_its_policies(policies: Path, cluster: Path) -> None:
    it = reloader(policies, cluster)
    policies.unlink()
    settle(it)
    assert passing(it) == ["n1", "n2"]


def test_snapshot_is_read_again_when_it_changes(policies: Path, cluster: Path) -> None:
    it = reloader(policies, cluster)
    write(cluster, kubectl_list([NODES[0], node("n2", labels={"disk": "ssd"})]))
    settle(it)
    assert passing(it) == ["n1", "n2"]


def test_a_snapshot_that_lacks_what_policies_read_has_a_warning(
    policies: Path, cluster: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(policies, 'policy one { for pods where true limit "one" { per node at most 1 strict } }')
    owner = controller("ReplicaSet", "web-5c", owner=controller("Deployment", "web"))
    write(cluster, kubectl_list([*NODES, pod("web-5c-a", owner=owner)]))
    reloader(policies, cluster)
    assert "cluster: the snapshot lacks replicasets that policies read" in caplog.text


@pytest.mark.process
def test_snapshots_that_were_replaced_leave_the_memory(policies: Path, cluster: Path) -> None:
    """Their objects are left out of garbage collections only until another snapshot is read."""
    it = reloader(policies, cluster)
    tables = []
    for number in range(3):
        write(cluster, kubectl_list([NODES[0], node(f"other-{number}")]))
        settle(it)
        assert passing(it) == ["n1"]
        tables.append(weakref.ref(it.view.snapshot().table))
    assert tables[0]() is None
    assert tables[2]() is not None


def test_snapshot_that_cannot_be_read_leaves_the_last_one(
    policies: Path, cluster: Path, caplog: pytest.LogCaptureFixture
) -> None:
    it = reloader(policies, cluster)
    write(cluster, cluster.read_text(encoding="utf-8")[:-5])
    settle(it)
    assert passing(it) == ["n1"]
    assert "is not JSON: input data was truncated" in caplog.text
    assert "the last snapshot stays" in caplog.text
    cluster.unlink()
    settle(it)
    assert passing(it) == ["n1"]


def test_server_does_not_start_without_the_cluster_it_was_given(
    policies: Path, tmp_path: Path
) -> None:
    with pytest.raises(ClusterFileError, match="no such file"):
        reloader(policies, tmp_path / "cluster.json")


def test_annotations_that_a_new_policy_reads_are_read(policies: Path, cluster: Path) -> None:
    """A snapshot keeps no others of pods, so it is read again."""
    marked = pod("b", on="n1", annotations={"example.com/noisy": "true"})
    write(cluster, kubectl_list([*NODES, marked]))
    it = reloader(policies, cluster)
    write(
        policies,
        'cluster policy quiet { filter "quiet" { require '
        '!node.pods.exists(p, "example.com/noisy" in p.annotations) } }',
    )
    settle(it)
    assert passing(it) == ["n2"]


def test_without_a_cluster_nodes_must_come_along(policies: Path) -> None:
    """Names alone get an error, never a rejection."""
    it = reloader(policies, None)
    assert passing(it, NODES) == ["n1"]
    with pytest.raises(NotSyncedError, match="no cluster view"):
        passing(it)


def test_a_thread_that_reads_a_snapshot_takes_its_own_memory(
    policies: Path, cluster: Path, memory_of: Callable[[int], Memory]
) -> None:
    """What decides must not lose there what it is about to use."""
    memory = memory_of(MOST_REMEMBERED)
    it = reloader(policies, cluster)
    before = memory.bytes
    write(cluster, kubectl_list([*NODES, *(pod(f"p{n}", labels={"n": f"{n}"}) for n in range(9))]))
    settle(it)
    assert len(it.view.snapshot().pending) == 9
    assert memory.bytes == before


def test_demo_needs_no_files(policies: Path) -> None:
    it = reloader_of(
        [policies], lambda needs: FileCluster(Demo(), SCHEMA, needs, LOG), SCHEMA, OBSERVER, LOG
    )
    assert len(it.view.snapshot().nodes) == 12


# ---- paths that are no readable files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "policies"
    made.mkdir()
    write(made / "a.policy", disk("ssd"))
    return made


def pipe(folder: Path) -> None:
    os.mkfifo(folder / "b.policy")


def socket_file(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(folder / "b.policy"))


def huge(name: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        with (folder / name).open("wb") as file:
            file.write(f"# {GROUP}/v1".encode())
            file.truncate(40 * 1024 * 1024)

    return make


def dangling(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).symlink_to("nothing")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (pipe, "b.policy`: it is not a regular file"),
        (socket_file, "cannot read"),
        (huge("b.policy"), "b.policy`: it has 41,943,040 bytes; the limit is 1,048,576"),
        (huge("b.yaml"), "b.yaml`: it has 41,943,040 bytes; the limit is 4,194,304"),
        (dangling("b.policy"), "b.policy` is a link to nothing"),
        (dangling("team"), "team` is a link to nothing"),
    ],
    ids=["pipe", "socket", "text", "manifests", "file", "folder"],
)
def test_what_is_no_policy_file_stops_no_edit_and_is_told(
    folder: Path, caplog: pytest.LogCaptureFixture, make: Callable[[Path], None], told: str
) -> None:
    """Nothing of it is read."""
    it = reloader(folder, None)
    assert passing(it, NODES) == ["n1"]
    make(folder)
    tracemalloc.start()
    settle(it)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8 * 1024 * 1024
    assert told in caplog.text
    write(folder / "a.policy", disk("hdd"))
    settle(it)
    assert passing(it, NODES) == ["n2"]


def test_a_large_file_without_policies_is_passed_over(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As a snapshot of a cluster beside them."""
    with (folder / "cluster.json").open("wb") as file:
        file.truncate(40 * 1024 * 1024)
    assert passing(reloader(folder, None), NODES) == ["n1"]
    assert "cluster.json" not in caplog.text


def test_a_folder_that_vanishes_keeps_its_policies(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Readiness warns of it, until the folder is back."""
    it = reloader(folder, None)
    folder.rename(folder.with_name("gone"))
    settle(it)
    assert passing(it, NODES) == ["n1"]
    assert f"`{folder}` does not exist" in caplog.text
    assert "policy a: the last valid version stays enforced" in caplog.text
    check = it.readiness()[0]
    assert check.is_warning
    assert check.failure == f"`{folder}` does not exist: the last versions stay enforced"
    folder.with_name("gone").rename(folder)
    write(folder / "a.policy", disk("hdd"))
    settle(it)
    assert passing(it, NODES) == ["n2"]
    assert it.readiness()[0].failure == ""


def test_a_folder_that_is_emptied_has_no_policies(folder: Path) -> None:
    """Whoever removes files removes their policies."""
    it = reloader(folder, None)
    (folder / "a.policy").unlink()
    settle(it)
    assert passing(it, NODES) == ["n1", "n2"]


@pytest.mark.process
def test_a_hung_mount_stops_no_edit_and_is_told(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    it = reloader(folder, None)
    (folder / "hung").mkdir()
    with hung_mount(folder / "hung"):
        settle(it)
        told = f"cannot read `{folder / 'hung'}`: the file system does not answer"
        assert told in caplog.text
        write(folder / "a.policy", disk("hdd"))
        settle(it)
        assert passing(it, NODES) == ["n2"]


@pytest.mark.process
def test_policies_of_a_mount_that_hangs_stay(folder: Path) -> None:
    it = reloader(folder, None)
    with hung_mount(folder):
        settle(it)
        assert passing(it, NODES) == ["n1"]
        assert "does not answer: the last versions stay enforced" in it.readiness()[0].failure


def test_the_pod_of_a_call_counts_by_its_annotations(policies: Path, cluster: Path) -> None:
    """Also those that an edit of a policy names first."""
    it = reloader(policies, cluster)
    there = pod("there", on="n1", annotations={"units": "4"})
    write(cluster, kubectl_list([*NODES, there]))
    settle(it)
    write(
        policies,
        'cluster policy a { limit "units" { sum int(peer.annotations["units"]) of all pods where'
        " true per node at most 7 strict } }",
    )
    settle(it)
    found = {}
    for units in ("3", "4", "8"):
        asked = raw(pod(f"takes-{units}", annotations={"units": units}))
        names = ["n1", "n2"]
        verdicts = it.engine.filter(asked, names, None, time.monotonic() + 10)
        found[units] = [n for n, v in zip(names, verdicts, strict=True) if isinstance(v, Feasible)]
    assert found == {"3": ["n1", "n2"], "4": ["n2"], "8": []}
