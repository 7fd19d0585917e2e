"""Repair on a real control plane, with faults: its leaders are killed, and others are in its way.

`make repair-faults` runs these, in half an hour.
"""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import DEPLOYMENTS, ControlPlane
from tests.e2e.deployments import LABEL, Rolled
from tests.e2e.drifting import (
    FIRST,
    FLAGS,
    SHARE,
    SPOT,
    WEB,
    Drifting,
    budget,
    deployed,
    drifted,
    repair,
    said,
    spot_and_steady,
    web,
)
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import node
from tests.e2e.placet import Placet, Replicas, placet
from tests.e2e.policies import define, policy
from tests.e2e.process import until
from tests.e2e.stage import GOVERNED, Stage

pytestmark = pytest.mark.e2e
PODS = int(os.environ.get("PODS") or "100")
# For so long policies contradict each other.
MINUTES = 10
KEY = "placet.dev/repair"
# A term begins with a minute without evictions.
TERM_SECONDS = 90.0
STILL_SECONDS = 15.0


def still(found: Drifting, seconds: float = STILL_SECONDS) -> None:
    """Nothing is evicted for so long, though not all are moved yet."""
    before = len(found.evictions.made)
    time.sleep(seconds)
    assert len(found.evictions.made) == before < found.moved


def wait_said(server: Placet, holds: Callable[[dict[str, Any]], bool], seconds: float) -> None:
    until(lambda: holds(said(server)), seconds, lambda: str(said(server)), 0.5)


def wait_repaired(found: Drifting, seconds: float, report: Callable[[], str]) -> None:
    """As few pods were moved as must, none twice, and the budget held."""
    until(found.is_repaired, seconds, report, 0.5)
    names = found.evictions.names()
    assert len(set(names)) == len(names) == found.moved
    assert found.evictions.fewest == found.pods - 1


def test_the_leader_is_killed_three_times(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """The next one goes on within rate and budget, and moves no pod twice."""
    rate, text = 20, 'policy web in namespace "{}" {{\n  for pods where {}\n{}\n}}\n'
    selected = f'pod.labels["app"] == "{GOVERNED["app"]}"'
    first = text.format(cluster.namespace, selected, FIRST)
    cluster.create_nodes(spot_and_steady("64"))
    cluster.apply(budget(cluster.namespace))
    began = time.monotonic()
    with ExitStack() as running:
        replicas = Replicas(plane, tmp_path, running, first, "--repair=on")
        address = f"http://127.0.0.1:{replicas.switch.port}"
        entry = extender(address, node_cache_capable=True)
        running.enter_context(kube_scheduler(plane, tmp_path, [entry]))
        found = running.enter_context(deployed(plane, cluster, tmp_path, [web(PODS)]))
        found.evictions.begin()

        def report() -> str:
            repairs = [said(each) for each in replicas.leading()]
            return f"{len(found.evictions.made)} evicted, {found.on_spot()} on spot, {repairs}"

        replicas.write(text.format(cluster.namespace, selected, repair(rate)))
        for kill in range(1, 4):
            found.wait_evicted(kill * found.moved // 4, 180.0 + TERM_SECONDS, report)
            replicas.kill_leader()
        wait_repaired(found, 300.0, report)
        assert found.evictions.most_in(60.0) <= rate
        seconds = time.monotonic() - began
        print(f"{found.moved} pods moved in {seconds:.0f} s")  # noqa: T201 - for -rP
        time.sleep(STILL_SECONDS)
        assert found.is_repaired()


CONTRADICTION = """
policy web in namespace "{namespace}" {{
  for pods where pod.labels["{label}"] == "web"
  repair at most 60 per minute
  limit "apart" {{ pods where peer.labels["{label}"] == "cache" per node at most 0 strict }}
}}
policy cache in namespace "{namespace}" {{
  for pods where pod.labels["{label}"] == "cache"
  repair at most 60 per minute
  limit "beside" {{ pods where peer.labels["{label}"] == "web" per node at least 1 strict }}
}}
"""
TOGETHER = """
policy all in namespace "{namespace}" {{
  for pods where pod.labels["app"] == "web"
  filter "spot" {{ require {spot} }}
}}
"""


def test_policies_that_contradict_each_other(
    plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path
) -> None:
    """Few pods are moved, then the repair stops with a reason, and nothing moves any more."""
    nodes = [node(f"n{number}", {"capacity": "steady"}) for number in range(2)]
    cluster.create_nodes([node("spot-0", {"capacity": "spot"}), *nodes])
    file = tmp_path / "both.policy"
    file.write_text(TOGETHER.format(namespace=cluster.namespace, spot=SPOT))
    with placet(tmp_path, file, f"--kubeconfig={plane.placet_kubeconfig}", *FLAGS) as server:
        server.wait_ready()
        served.schedule(server)
        deployments = [web(2), Rolled("cache", 2, {"type": "RollingUpdate"})]
        with deployed(plane, cluster, tmp_path, deployments) as found:
            file.write_text(CONTRADICTION.format(namespace=cluster.namespace, label=LABEL))
            began = time.monotonic()
            found.wait_evicted(1, 2 * TERM_SECONDS, lambda: str(server.drift()))
            time.sleep(MINUTES * 60.0)
            times = [at - began for at, _ in found.evictions.made]
            stopped = [s for name in ("web", "cache") if (s := said(server, name))["stopped"]]
            print(f"evictions at {[round(at) for at in times]} s; {stopped}")  # noqa: T201
            assert len(times) <= 12
            assert times[-1] < MINUTES * 30.0, "nothing moves in the second half"
            assert stopped
            assert all(each["state"] == "stopped" for each in stopped)
            assert any("break it again" in each["text"] for each in stopped)


ROLLED_OUT = (
    "its workload is being rolled out",
    "others have deleted pods of its workload lately",
)


def test_a_rollout_is_left_alone(
    plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path
) -> None:
    """Also where somebody has paused it half-way."""
    with drifted(plane, cluster, served, tmp_path, 20, 60) as (found, server):
        found.wait_evicted(2, TERM_SECONDS, lambda: str(said(server)))
        found.rollouts.pause_in_the_middle(WEB, "v2")
        # It has deleted pods of the workload, too.
        wait_said(server, lambda each: each["text"] in ROLLED_OUT, 30.0)
        still(found, 40.0)
        before = len(found.evictions.made)
        found.rollouts.resume(WEB)
        found.rollouts.wait_complete(120.0)
        assert len(found.evictions.made) == before
        # New pods keep to the share.
        until(lambda: found.on_spot() <= found.wanted, 60.0, lambda: str(said(server)), 0.5)


def test_a_budget_that_refuses(
    plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path
) -> None:
    """The API server refuses a pod of two budgets (500), and of one that is not read yet (429).

    Both look as if an eviction were allowed.
    """
    cluster.create_nodes(spot_and_steady("64"))
    server = served.watch(FIRST, None, *FLAGS)
    server.wait_ready()
    served.schedule(server)
    path = f"/apis/policy/v1/namespaces/{cluster.namespace}/poddisruptionbudgets"
    api = Api(plane)
    second = budget(cluster.namespace)
    second["metadata"]["name"] = "second"
    for each in (budget(cluster.namespace), second):
        api.request("POST", path, each)

    def allow(name: str, generation: int) -> None:
        """As the controller does that does not run here."""
        numbers = dict.fromkeys(("currentHealthy", "expectedPods", "disruptionsAllowed"), 10)
        status = {**numbers, "desiredHealthy": 0, "observedGeneration": generation}
        api.request("PATCH", f"{path}/{name}/status", {"status": status})

    allow(WEB, 0)
    allow("second", 1)
    with deployed(plane, cluster, tmp_path, [web(10)], DEPLOYMENTS) as found:
        found.evictions.begin()
        served.write_policy(repair(60))
        wait_said(server, lambda each: "more than one PodDisruptionBudget" in each["text"], 90.0)
        failed = said(server)["failed"]
        api.request("DELETE", f"{path}/second")
        wait_said(server, lambda each: each["state"] == "waiting" and each["refused"] > 0, 90.0)
        still(found, 60.0)
        state = said(server)
        assert state["text"] == "a disruption budget does not allow it"
        assert 1 <= state["refused"] <= 6, "the pauses grow"
        assert (state["evicted"], state["returned"]) == (0, 0)
        assert 1 <= failed <= state["failed"] <= 3
        assert state["stopped"] == []
        allow(WEB, 1)
        wait_repaired(found, 180.0, lambda: str(said(server)))


def test_switches(plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path) -> None:
    """Of a policy, of a namespace, and of the server: each stops the repair at once."""
    define(cluster)
    cluster.create_nodes(spot_and_steady("64"))
    cluster.apply(policy(cluster, enforcementMode="Strict", rules=FIRST))
    server = served.watch_objects(None, *FLAGS)
    server.wait_ready()
    served.schedule(server)
    cluster.apply(budget(cluster.namespace))
    namespaced = f"--namespace={cluster.namespace}"
    with deployed(plane, cluster, tmp_path, [web(30)]) as found:
        assert found.on_spot() == found.pods
        found.evictions.begin()
        spec: dict[str, Any] = {"rules": SHARE, "repair": {"perMinute": 60}}
        cluster.apply(policy(cluster, enforcementMode="Strict", **spec))
        found.wait_evicted(2, TERM_SECONDS, lambda: str(said(server)))

        cluster.kubectl("annotate", namespaced, "placementpolicy", WEB, f"{KEY}=off")
        wait_said(server, lambda each: each["state"] == "off", 10.0)
        assert said(server)["text"] == f"its annotation `{KEY}` is `off`"
        still(found)
        cluster.kubectl("annotate", namespaced, "placementpolicy", WEB, f"{KEY}-")
        found.wait_evicted(len(found.evictions.made) + 2, 30.0, lambda: str(said(server)))

        cluster.kubectl("annotate", "namespace", cluster.namespace, f"{KEY}=off")
        wait_said(server, lambda each: each["text"] == f"`{KEY}` of its namespace is `off`", 10.0)
        still(found)
        cluster.kubectl("annotate", "namespace", cluster.namespace, f"{KEY}-")
        found.wait_evicted(len(found.evictions.made) + 2, 30.0, lambda: str(said(server)))

        server.process.kill()
        time.sleep(2.0)
        reach, folder = f"--kubeconfig={plane.placet_kubeconfig}", tmp_path / "off"
        folder.mkdir()
        with placet(folder, None, reach, "--lease=none", "--repair=off") as other:
            other.wait_ready()
            wait_said(other, lambda each: each["state"] == "off", 60.0)
            assert said(other)["text"] == "this server repairs nothing: see `--repair`"
            still(found)
