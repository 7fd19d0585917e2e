"""The snapshot: requested and free resources, counted pods, and workloads."""

import pytest

from engine.cache.node_table import NodeWithPods, as_offered
from engine.objects.peer import Workload, decode_controller
from engine.objects.request_pod import decode_namespace
from grammar.values.quantity import Quantity
from grammar.values.time import Timestamp
from tests.support.builders import CREATED, controller, namespace, node, pod, raw
from tests.support.engines import cache_of, node_of, peer_of, snapshot_of


def shown(amounts: dict[str, Quantity] | None) -> dict[str, str]:
    assert amounts is not None
    return {resource: str(amount) for resource, amount in amounts.items()}


def test_free_is_allocatable_minus_requests() -> None:
    """Every resource that either side names is there, and pods are one of them."""
    pods = [
        pod("a", cpu="1500m", memory="1Gi", on="n1"),
        pod("b", cpu="500m", on="n1", spec={"overhead": {"memory": "64Mi"}}),
    ]
    view = snapshot_of([node("n1", cpu="8", memory="32Gi", pods="110")], pods).nodes["n1"]
    assert shown(view.requested) == {"cpu": "2", "memory": "1088Mi", "pods": "2"}
    assert shown(view.free) == {"cpu": "6", "memory": "31680Mi", "pods": "108"}
    assert view.pods is not None
    assert [p.name for p in view.pods] == ["a", "b"]


def test_free_is_below_zero_on_an_over_full_node() -> None:
    """A resource that the node does not have at all counts too."""
    request = {"resources": {"requests": {"cpu": "9", "example.com/fpga": "1"}}}
    full = pod("a", on="n1", spec={"containers": [{"name": "main"} | request]})
    view = snapshot_of([node("n1", cpu="8")], [full]).nodes["n1"]
    assert view.free is not None
    assert str(view.free["cpu"]) == "-1"
    assert str(view.free["example.com/fpga"]) == "-1"
    assert str(view.free["example.com/other"]) == "0"


@pytest.mark.parametrize(
    ("phase", "deleted", "counts"),
    [
        ("Running", None, True),
        ("Pending", None, True),
        ("Unknown", None, True),
        ("Running", CREATED, True),
        ("Succeeded", None, False),
        ("Failed", None, False),
        ("Failed", CREATED, False),
    ],
)
def test_pods_count_until_they_have_ended(phase: str, deleted: str | None, counts: bool) -> None:
    """A terminating pod still takes its place, as for kube-scheduler."""
    one = pod("a", cpu="1", on="n1", phase=phase, deleted=deleted)
    known = snapshot_of([node("n1")], [one])
    assert shown(known.nodes["n1"].requested)["pods"] == str(int(counts))
    assert ("default/a" in known.pods()) == counts


def test_pods_without_a_node_are_pending() -> None:
    known = snapshot_of([node("n1")], [pod("a"), pod("b", on="n1"), pod("c", "shop")])
    assert list(known.pending) == ["default/a", "shop/c"]
    assert set(known.pods()) == {"default/a", "default/b", "shop/c"}


def test_a_pod_on_an_unknown_node_counts_on_no_node() -> None:
    known = snapshot_of([node("n1")], [pod("a", cpu="1", on="gone")])
    assert shown(known.nodes["n1"].requested) == {"pods": "0"}
    assert not known.pending
    assert list(known.strays) == ["default/a"]
    assert known.pods()["default/a"].nodeName == "gone"


def test_of_two_of_one_name_the_later_counts() -> None:
    pods = [pod("a", cpu="1", on="n1"), pod("a", cpu="2", on="n2")]
    known = snapshot_of([node("n1", cpu="4"), node("n2"), node("n1", cpu="8")], pods)
    assert str(known.nodes["n1"].allocatable["cpu"]) == "8"
    assert shown(known.nodes["n1"].requested)["pods"] == "0"
    assert shown(known.nodes["n2"].requested)["cpu"] == "2"


def test_newest_is_the_latest_time_of_all_objects() -> None:
    nodes = [node("n1", created="2026-11-20T00:00:00Z")]
    pods = [pod("a", created="2026-11-21T09:00:00Z"), pod("b", created="2026-11-21T08:00:00Z")]
    assert snapshot_of(nodes, pods).newest() == Timestamp.parse("2026-11-21T09:00:00Z")
    assert snapshot_of([], []).newest() is None


def test_workload_is_the_root_controller() -> None:
    """Through a ReplicaSet to its Deployment; how many pods it wants, only the snapshot says."""
    deployment = controller("Deployment", "web", replicas=5)
    replica_set = controller("ReplicaSet", "web-1", replicas=3, owner=deployment)
    job = controller("Job", "train", replicas=2, owner=controller("CronJob", "nightly"))
    agent = controller("DaemonSet", "agent")
    objects = [deployment, replica_set, job, agent]
    known = snapshot_of(
        [node("n1")],
        [pod(o["kind"], owner=o) for o in objects],
        controllers=[decode_controller(o["kind"], raw(o)) for o in objects],
    )
    found = {p.name: p.workload for p in known.pods().values()}
    web = Workload("Deployment", "web", deployment["metadata"]["uid"])
    assert found["Deployment"] == found["ReplicaSet"] == web
    assert found["Job"] == Workload("Job", "train", job["metadata"]["uid"])
    sizes = {w.name: w.replicas for w in known.workloads.values()}
    assert sizes == {"web": 5, "train": 2, "agent": None}
    assert known.workloads[replica_set["metadata"]["uid"]].name == "web"


def test_a_pod_carries_the_same_root_whenever_its_deployment_comes() -> None:
    deployment = controller("Deployment", "web", replicas=5)
    template = controller("ReplicaSet", "web-1", owner=deployment)
    found = []
    for first in ([deployment, template], [template, deployment]):
        cache = cache_of([], [])
        cache.put_pod(peer_of(pod("a", owner=template)))
        for each in first:
            cache.put_controller(decode_controller(each["kind"], raw(each)))
        found.append(cache.snapshot().pending["default/a"].workload)
    assert found[0] == found[1]


def test_workload_of_an_unknown_owner_has_no_size() -> None:
    """Of a ReplicaSet whose Deployment is not known, the root is known by name."""
    deployment = controller("Deployment", "web", replicas=5)
    replica_set = controller("ReplicaSet", "web-1", replicas=3, owner=deployment)
    known = snapshot_of(
        [],
        [pod("a", owner=replica_set)],
        controllers=[decode_controller("ReplicaSet", raw(replica_set))],
    )
    workload = known.pods()["default/a"].workload
    assert workload is not None
    assert (workload.kind, workload.name, workload.replicas) == ("Deployment", "web", None)


def test_namespaces_are_kept_by_name() -> None:
    shop = decode_namespace(raw(namespace("shop", {"team": "a"})))
    assert snapshot_of([], [], namespaces=[shop]).namespaces["shop"].labels == {"team": "a"}


def test_a_node_of_a_request_has_the_known_pods() -> None:
    """Its object is the request's: labels, allocatable and what is left of it."""
    known = snapshot_of([node("n1", cpu="8")], [pod("a", cpu="1", on="n1")]).nodes["n1"]
    view = as_offered(node_of(node("n1", cpu="4", labels={"new": "yes"})), known)
    assert view.labels["new"] == "yes"
    assert shown(view.requested) == {"cpu": "1", "pods": "1"}
    assert shown(view.free)["cpu"] == "3"
    assert view.pods == known.pods


def test_the_pods_of_an_unknown_node_are_missing() -> None:
    """Not an empty node: what is not known is missing, never zero."""
    view: NodeWithPods = as_offered(node_of(node("n1")), None)
    assert (view.requested, view.free, view.pods) == (None, None, None)
    assert str(view.allocatable["cpu"]) == "8"


@pytest.mark.parametrize(
    ("heartbeats", "newest", "ahead"),
    [
        (["10:00", "10:04"], "10:04", []),
        (["10:00", "10:59", "11:01"], "11:01", []),
        (["10:00", "10:04", "23:00"], "10:04", ["n2"]),
        (["10:00", "23:00"], "10:00", ["n1"]),
        (["23:00"], "23:00", []),
    ],
)
def test_a_clock_that_is_ahead_gives_no_time(
    heartbeats: list[str], newest: str, ahead: list[str]
) -> None:
    beats = (f"2026-11-21T{at}:00Z" for at in heartbeats)
    nodes = [node(f"n{number}", created=at) for number, at in enumerate(beats)]
    for each in nodes:
        each["metadata"]["creationTimestamp"] = CREATED
    found = snapshot_of(nodes, [])
    assert found.clocks_ahead() == ahead
    assert found.newest() == Timestamp.parse(f"2026-11-21T{newest}:00Z")


def test_a_row_that_somebody_uses_stands_for_one_name() -> None:
    """A pod on its way to a node that is gone counts on no other node."""
    known = cache_of([node("a"), node("b")])
    table, taken = known.snapshot().table, set[int]()
    first = table.rows["a"]
    for gone, new in (("a", "c"), ("b", "d"), ("c", "a")):
        known.remove_node(gone)
        known.put_node(node_of(node(new)))
        rows = known.snapshot().table.rows
        # Of `a` the row is as before, also while others come.
        assert (rows[new] == first) is (new == "a")
        taken.add(rows[new])
    assert len(taken) == 3
    del table
    known.remove_node("a")
    known.snapshot()
    known.put_node(node_of(node("e")))
    assert known.snapshot().table.rows["e"] < 5


def test_pods_have_new_labels_of_their_namespace_before_anybody_asks() -> None:
    """Who asks next would wait for all pods of a cluster."""
    heard: list[str] = []
    cache = cache_of([node("n1")], [pod("p", "shop", on="n1"), pod("q", "quiet", on="n1")])
    cache.add_event_handler(lambda _, new, __: heard.append(new.name if new else ""))
    cache.put_namespace(decode_namespace(raw(namespace("shop", {"team": "a"}))))
    assert heard == ["p"]
    cache.remove_namespace("shop")
    assert heard == ["p", "p"]
    cache.snapshot()
    assert heard == ["p", "p"]
