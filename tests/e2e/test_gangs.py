"""Gangs on a real kube-scheduler: whole groups or none, and nothing held in vain.

kube-scheduler asks Placet to bind by an entry of its own, whose timeout is above every wait.
"""

import json
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane, controller_manager
from tests.e2e.gangs import (
    MEMBERS,
    POLICIES,
    RACK,
    SECONDS,
    SHORT_SECONDS,
    SIZE,
    GangServer,
    by_group,
    gang_server,
    group,
    hold,
    policy,
    wait_whole,
)
from tests.e2e.kubelets import PlacedPod, kubelets
from tests.e2e.manifests import controller, node, owned_by, pod, priority_class
from tests.e2e.placet import REPOSITORY
from tests.e2e.process import until

pytestmark = pytest.mark.e2e

# How late places may be free after what ends a gang.
FREE_SECONDS = 1.0
# A policy file is read again every half second.
IN_FORCE_SECONDS = 1.5


@pytest.fixture(scope="module")
def gangs(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GangServer]:
    """One Placet and one kube-scheduler for most tests here."""
    with gang_server(plane, tmp_path_factory.mktemp("gangs")) as running:
        yield running


def patch(plane: ControlPlane, cluster: Cluster, name: str, body: dict[str, object]) -> None:
    Api(plane).request("PATCH", f"/api/v1/namespaces/{cluster.namespace}/pods/{name}", body)


def waits_free(cluster: Cluster, gangs: GangServer, cpu: str) -> float:
    """How long a pod waits that takes the whole node where members are held."""
    began = time.monotonic()
    cluster.create_pods([pod("next", cluster.namespace, cpu=cpu)])
    cluster.wait_placed(["next"])
    return time.monotonic() - began


def test_as_many_whole_groups_as_there_is_room_for(cluster: Cluster, gangs: GangServer) -> None:
    """Of ten groups that each need a node of their own, six are bound whole, and four wait."""
    cluster.create_nodes(node(f"n{number}") for number in range(6))
    cluster.create_pods(
        member for number in range(10) for member in group(cluster, f"g{number}", kind="in-node")
    )
    until(
        lambda: len(cluster.placements()) == 6 * SIZE,
        SECONDS,
        lambda: f"{by_group(cluster.placements())}; {gangs.server.process.tail()}",
    )
    groups = by_group(cluster.placements())
    assert sorted(sum(each.values()) for each in groups.values()) == [SIZE] * 6
    assert all(len(each) == 1 for each in groups.values()), groups
    time.sleep(2)
    assert len(cluster.placements()) == 6 * SIZE
    assert gangs.held() == 0


def test_gangs_of_which_one_fits_at_a_time(cluster: Cluster, gangs: GangServer) -> None:
    """One is whole at once, the next when that is gone; nobody is held in vain."""
    before = gangs.given_up(), gangs.held_seconds(state="given_up")
    cluster.create_nodes(node(f"n{number}", cpu="5") for number in range(2))
    every = [group(cluster, name, 6) for name in "abcd"]
    # One of each in turn: two half gangs would take all the places.
    cluster.create_pods(member for turn in zip(*every, strict=True) for member in turn)
    left = set("abcd")
    while left:
        until(lambda: len(cluster.placements()) >= 6, 30.0, gangs.server.process.tail)
        time.sleep(1)
        [(name, nodes)] = by_group(cluster.placements()).items()
        assert nodes.total() == 6
        assert gangs.held() == 0
        left.remove(name)
        for number in range(6):
            cluster.delete_pod(f"{name}-{number}")
    assert (gangs.given_up(), gangs.held_seconds(state="given_up")) == before


def test_each_gang_in_one_rack(cluster: Cluster, gangs: GangServer) -> None:
    """Twenty gangs of 8 in twenty racks of 12 places, on nodes of different sizes."""
    cluster.create_nodes(
        node(f"r{rack}-{number}", {RACK: f"r{rack}"}, cpu=cpu)
        for rack in range(20)
        for number, cpu in enumerate(("6", "4", "2"))
    )
    names = [f"g{number}" for number in range(20)]
    cluster.create_pods(member for name in names for member in group(cluster, name, kind="in-rack"))
    wait_whole(cluster, gangs, *names)
    racks = [
        {on.partition("-")[0] for on in nodes} for nodes in by_group(cluster.placements()).values()
    ]
    assert all(len(each) == 1 for each in racks), racks
    assert len(set[str]().union(*racks)) == 20


def test_a_member_that_does_not_exist(cluster: Cluster, gangs: GangServer) -> None:
    """Seven of eight exist: nobody is offered a node. With the eighth, all are bound."""
    gathering = gangs.value("placet_gangs_total", state="gathering")
    cluster.create_nodes([node("n0")])
    members = group(cluster, "g")
    cluster.create_pods(members[:-1])
    cluster.wait_refused("g-0", text="of 8 members exist")
    time.sleep(1)
    assert gangs.value("placet_gangs_total", state="gathering") == gathering
    cluster.create_pods(members[-1:])
    assert wait_whole(cluster, gangs, "g") < 15


def test_a_member_that_nobody_asks_about(cluster: Cluster, gangs: GangServer) -> None:
    """The others are held for as long as the policy says, and then their room is free."""
    cluster.create_nodes([node("n0", cpu="4")])
    hold(cluster, gangs, kind="short")
    seconds = waits_free(cluster, gangs, cpu="4")
    assert seconds < SHORT_SECONDS + FREE_SECONDS
    assert set(cluster.placements()) == {"next"}
    assert gangs.given_up("late") >= 1


def test_a_pod_of_higher_priority_takes_the_places(cluster: Cluster, gangs: GangServer) -> None:
    """kube-scheduler deletes no held pod: their places are free as soon as the gang is given up."""
    cluster.apply(priority_class("gang-high", 1000))
    cluster.create_nodes([node("n0", cpu="4")])
    hold(cluster, gangs)
    cluster.create_pods([pod("high", cluster.namespace, cpu="4", priorityClassName="gang-high")])
    began = time.monotonic()
    cluster.wait_placed(["high"])
    assert time.monotonic() - began < 5
    assert gangs.given_up("preempted") == 1
    for number in range(4):
        assert "deletionTimestamp" not in cluster.pod(f"g-{number}")["metadata"]
    cluster.delete_pod("high")


def test_a_gang_of_higher_priority_takes_the_places(cluster: Cluster, gangs: GangServer) -> None:
    """It does not wait until the time of the other one is over."""
    cluster.apply(priority_class("gang-high", 1000))
    cluster.create_nodes([node("n0", cpu="4")])
    hold(cluster, gangs)
    cluster.create_pods(group(cluster, "high", 4, priorityClassName="gang-high"))
    assert wait_whole(cluster, gangs, "high", size=4) < 20


def test_pods_that_run_go_for_a_whole_gang_or_stay(cluster: Cluster, gangs: GangServer) -> None:
    """Four make room for a gang of four, and none for one of five that would not fit even then."""
    cluster.apply(priority_class("gang-high", 1000))
    cluster.create_nodes(node(f"n{number}", cpu="2") for number in range(2))
    low = [pod(f"low-{n}", cluster.namespace, cpu="1", nodeName=f"n{n % 2}") for n in range(4)]
    cluster.create_pods(low)
    cluster.create_pods(group(cluster, "large", 5, priorityClassName="gang-high"))
    cluster.wait_refused("large-4", text="Insufficient cpu")
    time.sleep(3)
    assert len(cluster.placements()) == len(low)
    cluster.delete_pod("large-4")
    cluster.create_pods(group(cluster, "high", 4, priorityClassName="gang-high"))
    assert wait_whole(cluster, gangs, "high", size=4) < 20
    assert all(name.startswith("high") for name in cluster.placements())


@pytest.mark.parametrize("change", ["deleted", "relabelled", "number", "cordoned", "node"])
def test_a_change_while_members_are_held(
    plane: ControlPlane, cluster: Cluster, gangs: GangServer, change: str
) -> None:
    """The gang is given up at once, and the room of the other members is free.

    Until then their statuses show the node that they will have.
    """
    cluster.create_nodes([node("n0", cpu="4")])
    hold(cluster, gangs)

    def shown() -> list[str]:
        statuses = (cluster.pod(f"g-{n}")["status"] for n in range(1, 3))
        return [status.get("nominatedNodeName", "") for status in statuses]

    until(lambda: shown() == ["n0", "n0"], 10.0, lambda: str(shown()))
    given_up = gangs.given_up()
    match change:
        case "deleted":
            cluster.delete_pod("g-0")
        case "relabelled":
            patch(plane, cluster, "g-0", {"metadata": {"labels": {"job": "other"}}})
        case "number":
            patch(plane, cluster, "g-0", {"metadata": {"annotations": {MEMBERS: "x"}}})
        case "cordoned":
            cluster.kubectl("cordon", "n0")
        case _:
            cluster.delete_node("n0")
    until(lambda: gangs.held() == 0, FREE_SECONDS + 1, gangs.server.process.tail, 0.05)
    assert gangs.given_up() == given_up + 1
    if change == "cordoned":
        cluster.kubectl("uncordon", "n0")
    if change == "node":
        cluster.create_nodes([node("n0", cpu="4")])
    assert waits_free(cluster, gangs, cpu="4") < 5
    until(lambda: shown() == ["", ""], 5.0, lambda: str(shown()))


def test_what_is_said_of_a_member_that_is_held(
    plane: ControlPlane, cluster: Cluster, gangs: GangServer
) -> None:
    """By a simulation, commands that ask the running Placet, and an event of each held pod."""

    def said(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "cli", *command, "--url", view],
            cwd=REPOSITORY,
            capture_output=True,
            check=False,
        )
        return " ".join(done.stdout.decode().split())

    cluster.create_nodes([node("n0", cpu="4")])
    hold(cluster, gangs, "h")
    names = [f"{cluster.namespace}/h-{number}" for number in range(3)]
    held = gangs.server.simulate({"namespace": cluster.namespace})["held"]
    assert held == dict.fromkeys(names, "n0")
    view = f"http://127.0.0.1:{gangs.server.view_port}"
    where = ("-n", cluster.namespace, "h-0", "--kubeconfig", str(plane.admin_kubeconfig))
    text = said("explain", *where, "--policies", str(gangs.file), "--decision")
    assert "cause: held on `n0` since" in text, text
    assert "3 of 4 members are here" in text
    (status,) = json.loads(said("status", "-o", "json"))["replicas"]
    rows = status["facts"]["held pods"]
    assert sorted(row["pod"] for row in rows if row["node"] == "n0") == names
    assert "held pods" in said("status")

    def events() -> dict[str, str]:
        found = [each for each in cluster.events("Pod") if each["reason"] == "Held"]
        return {each["regarding"]["name"]: each["note"] for each in found}

    until(lambda: len(events()) == 3, 20.0, lambda: str(events()))
    assert set(events()) == {"h-0", "h-1", "h-2"}
    text = r"its binding to node n0 waits: job: together: \d of 4 members are here"
    assert all(re.fullmatch(text, note) for note in events().values()), events()


def test_an_edit_of_the_policies_while_members_are_held(
    cluster: Cluster, gangs: GangServer
) -> None:
    """Another policy may change; an edit of the gang's own, or its end, gives the gang up."""
    cluster.create_nodes([node("n0", cpu="4")])
    hold(cluster, gangs)
    try:
        gangs.file.write_text(POLICIES + policy("other"))
        time.sleep(IN_FORCE_SECONDS)
        assert gangs.held() == 3
        given_up = gangs.given_up("policy")
        gangs.file.write_text(policy("job", "for at most 30s"))
        until(lambda: gangs.given_up("policy") > given_up, 20.0, gangs.server.process.tail, 0.05)
        # It gathers anew by the new policy, which is then deleted.
        gangs.wait_held(3)
        gangs.file.write_text(policy("other"))
        # Nobody knows of a gang any more, so members are pods like others.
        until(lambda: len(cluster.placements()) == 3, 20.0, lambda: str(cluster.placements()))
    finally:
        gangs.file.write_text(POLICIES)
        time.sleep(IN_FORCE_SECONDS)


def test_others_beside_a_gang_that_waits(cluster: Cluster, gangs: GangServer) -> None:
    """A held gang, and one for which there is no room: other pods are bound as they come."""
    cluster.create_nodes([node("n0", cpu="4"), node("n1", cpu="64")])
    hold(cluster, gangs)
    cluster.create_pods(group(cluster, "large", 80))
    names = [f"other-{number}" for number in range(100)]
    cluster.create_pods(pod(name, cluster.namespace, cpu="10m") for name in names)
    # The members are held for a minute.
    cluster.wait_placed(names, 40)
    assert gangs.held() == 3


@pytest.mark.parametrize("kind", ["StatefulSet", "Job"])
def test_a_workload_is_a_gang(
    plane: ControlPlane, cluster: Cluster, gangs: GangServer, kind: str
) -> None:
    """By default all wanted replicas of a workload are placed together, and the last of a Job.

    While the last does not exist, a quota that is used up is named.
    """
    cluster.create_nodes([node("n0", cpu="4")])
    api = Api(plane)
    if kind == "Job":
        job = controller(kind, "whole", cluster.namespace)
        job["apiVersion"] = "batch/v1"
        del job["spec"]["selector"]
        job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
        job["spec"] |= {"parallelism": 4, "completions": 5}
        path = f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs"
        owner = api.request("POST", path, job)
    else:
        workload = controller(kind, "whole", cluster.namespace)
        workload["spec"] |= {"replicas": 4, "podManagementPolicy": "Parallel", "serviceName": "w"}
        owner = cluster.create(workload)
    members = [
        owned_by(owner, pod(f"w-{number}", cluster.namespace, {"app": "whole"}, cpu="1"))
        for number in range(4)
    ]
    cluster.create_pods(members[:3])
    cluster.wait_refused("w-0", text="of 4 members exist")
    quotas, full = f"/api/v1/namespaces/{cluster.namespace}/resourcequotas", {"pods": "3"}
    api.request("POST", quotas, {"metadata": {"name": "few"}, "spec": {"hard": full}})
    api.request("PATCH", f"{quotas}/few/status", {"status": {"hard": full, "used": full}})
    # Now kube-scheduler asks again.
    cluster.create_nodes([node("n1", cpu="0")])
    cluster.wait_refused("w-0", text="ResourceQuota/few has used 3 of 3 pods")
    api.request("DELETE", f"{quotas}/few")
    cluster.create_pods(members[3:])
    wait_whole(cluster, gangs, "w", size=4, seconds=15)
    if kind == "Job":
        base = f"/api/v1/namespaces/{cluster.namespace}/pods"
        for number in range(4):
            api.request("PATCH", f"{base}/w-{number}/status", {"status": {"phase": "Succeeded"}})
        api.request("PATCH", f"{path}/whole/status", {"status": {"succeeded": 4}})
        last = owned_by(owner, pod("w-last", cluster.namespace, {"app": "whole"}, cpu="1"))
        cluster.create_pods([last])
        cluster.wait_placed(["w-last"], 15)


def test_a_job_of_many_completions_ends(
    plane: ControlPlane, cluster: Cluster, gangs: GangServer, tmp_path: Path
) -> None:
    """Twenty times eight completions, with room for eight pods of which each tenth one fails.

    The first eight come together; of the others never more are wanted than the Job still makes.
    """
    cluster.create_nodes(node(f"n{number}", cpu="4") for number in range(2))
    template = pod("", "", {"app": "whole"}, cpu="1", restartPolicy="Never")
    del template["metadata"]["name"], template["metadata"]["namespace"]
    spec = {"parallelism": 8, "completions": 160, "backoffLimit": 1000, "template": template}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "long"}, "spec": spec}
    api, path = Api(plane), f"/apis/batch/v1/namespaces/{cluster.namespace}/jobs"
    dice, begun = Random(1), list[float]()

    def began(placed: PlacedPod) -> None:
        begun.append(time.monotonic())
        fails = dice.random() < 0.1
        running.end(placed, "Failed" if fails else "Succeeded", dice.uniform(0.1, 0.5))

    def status() -> dict[str, Any]:
        found: dict[str, Any] = api.request("GET", f"{path}/long")["status"]
        return found

    with (
        controller_manager(plane, tmp_path, ("job-controller",)),
        kubelets(plane, cluster.namespace, began) as running,
    ):
        api.request("POST", path, job)
        # The controller waits for some seconds after each failure without a later success.
        until(lambda: status().get("succeeded") == 160, 300.0, lambda: str(status()), 0.5)
        assert status()["failed"] > 0
        assert begun[7] - begun[0] < 2.0
        gangs.wait_held(0)


def test_a_strict_limit_of_a_gang(cluster: Cluster, gangs: GangServer) -> None:
    """Two of a gang on a node: eight do not fit on three large nodes, and do on four."""
    cluster.create_nodes(node(f"n{number}") for number in range(3))
    members = group(cluster, "g", kind="strict")
    cluster.create_pods(members[:-1])
    cluster.wait_refused("g-0", text="of 8 members exist")
    cluster.create_pods(members[-1:])
    cluster.wait_refused("g-7", text="6 of 8 members fit")
    time.sleep(1)
    assert cluster.placements() == {}
    cluster.create_nodes([node("n3")])
    wait_whole(cluster, gangs, "g", seconds=20)
    assert set(Counter(cluster.placements().values()).values()) == {2}
