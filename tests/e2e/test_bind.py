"""Placet as the only binder: what it refuses to bind, and bindings whose answers get lost."""

import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import kube_scheduler
from tests.e2e.manifests import node, pod
from tests.e2e.placet import REPOSITORY, placet
from tests.e2e.process import kubeconfig, until
from tests.e2e.service_account import ServiceAccount
from tests.e2e.stage import GOVERNED, Stage, stage
from tests.support.api_proxy import api_proxy
from tests.support.fake_api_server import Request

pytestmark = pytest.mark.e2e

PODS = 500
LOST = 0.05
READY = '  bind "ready" { require node.ready message "the node is leaving" }'


NOT_N2 = '  filter "not n2" { require node.name != "n2" message "not on n2" }'


def refusal(answer: tuple[int, str]) -> str:
    """The text of an answer with status 200."""
    status, body = answer
    assert status == 200
    text = json.loads(body)["Error"]
    assert isinstance(text, str)
    return text


def test_nothing_is_bound_unless_it_is_asked_for(cluster: Cluster, served: Stage) -> None:
    """Who reaches the port cannot bind, though Placet has the right to."""
    cluster.create_nodes([node("n1")])
    cluster.create_pods([pod("web", cluster.namespace, GOVERNED)])
    server = served.watch(NOT_N2)
    server.wait_ready()
    web = cluster.pod("web")
    assert server.filter(web, ["n1"])["NodeNames"] == ["n1"]
    status, text = server.bind(web, "n1")
    assert status == 200
    assert "this server binds no pods: start `placet serve` with --bind" in text
    assert cluster.placements() == {}


def test_only_what_filter_offered_is_bound(cluster: Cluster, served: Stage) -> None:
    """Without an answer of filter, only what would be scheduled anyway."""
    cluster.create_nodes(node(f"n{number}") for number in (1, 2, 3))
    where = cluster.namespace
    cluster.create_pods(
        [
            pod("web", where, GOVERNED),
            pod("new", where, GOVERNED),
            pod("huge", where, GOVERNED, cpu="999"),
            pod("foreign", where, GOVERNED, schedulerName="another"),
        ]
    )
    server = served.watch(NOT_N2, None, "--bind")
    server.wait_ready()
    # Before, the first replica of a cluster remembers no answers.
    server.wait_leading()
    web, new, huge, foreign = (cluster.pod(name) for name in ("web", "new", "huge", "foreign"))

    assert refusal(server.bind(foreign, "n1")) == (
        "placet: the pod is for scheduler `another`, and Placet binds pods of `default-scheduler`:"
        " see --scheduler-name"
    )
    gone = "placet: node `nowhere` does not exist, or is not known yet"
    assert refusal(server.bind(huge, "nowhere")) == gone
    full = "placet: node `n1` has not enough `cpu` left for the pod"
    assert refusal(server.bind(huge, "n1")) == full
    assert refusal(server.bind(new, "n2")) == "policy web: not on n2"
    assert server.filter(web, ["n1", "n2"])["NodeNames"] == ["n1"]
    for name in ("n2", "n3", "nowhere"):
        text = f"placet: filter has not offered node `{name}` to the pod"
        assert refusal(server.bind(web, name)) == text
    assert cluster.placements() == {}
    _, metrics = server.get("/metrics")
    assert 'placet_requests_total{code="200",outcome="refused",verb="bind"} 7.0' in metrics
    assert server.process.tail().count('outcome="refused"') == 7

    assert refusal(server.bind(web, "n1")) == ""
    assert cluster.placements() == {"web": "n1"}


def test_a_placet_that_was_killed_binds_what_fits(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """It dies between filter and bind, and the next one has no answer of filter."""
    cluster.create_nodes([node("n1", cpu="2"), node("n2", cpu="2")])
    names = ["one", "two", "three"]
    cluster.create_pods(pod(name, cluster.namespace, GOVERNED, cpu="1500m") for name in names)
    pods = {name: cluster.pod(name) for name in names}
    with stage(plane, cluster, tmp_path) as first:
        server = first.watch(READY, None, "--bind", "--lease=none")
        server.wait_ready()
        for each in pods.values():
            assert server.filter(each, ["n1", "n2"])["NodeNames"] == ["n1", "n2"]
        server.process.kill()
    with stage(plane, cluster, tmp_path) as second:
        server = second.watch(READY, None, "--bind", "--lease=none")
        server.wait_ready()
        assert refusal(server.bind(pods["one"], "n1")) == ""
        assert refusal(server.bind(pods["two"], "n1")).startswith(
            "placet: node `n1` has not enough `cpu`"
        )
        assert server.filter(pods["two"], ["n1", "n2"])["NodeNames"] == ["n1", "n2"]
        assert refusal(server.bind(pods["two"], "n2")) == ""
    assert cluster.placements() == {"one": "n1", "two": "n2"}


def test_without_the_right_to_bind_the_remedy_is_named(
    plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path
) -> None:
    """The account has the role of deploy/rbac, without that of deploy/rbac/bind."""
    cluster.create_nodes([node("n1")])
    cluster.create_pods([pod("web", cluster.namespace, GOVERNED)])
    token = ServiceAccount(plane, cluster.namespace).token("one")
    file = kubeconfig(tmp_path / "placet.kubeconfig", plane.url, plane.authority, {"token": token})
    server = served.watch(READY, file, "--bind")
    server.wait_ready()
    web = cluster.pod("web")
    server.filter(web, ["n1"])
    assert refusal(server.bind(web, "n1")) == (
        f"placet: cannot bind pods: the service account `{cluster.namespace}/placet` may not "
        "create pods/binding: run `kubectl apply -f deploy/rbac/bind/placet.yaml` with this "
        "subject in its bindings"
    )
    assert cluster.placements() == {}


def test_every_pod_is_bound_once_though_answers_get_lost(
    plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path
) -> None:
    """Of each twenty answers about bindings one never comes; the Binding is there all the same."""
    cluster.create_nodes(node(f"n{number}", cpu="64") for number in range(10))
    dice = random.Random(1)
    lost: list[str] = []

    def loses(request: Request) -> bool:
        if not request.path.endswith("/binding") or dice.random() >= LOST:
            return False
        lost.append(request.path)
        return True

    with api_proxy(plane.url, plane.authority, tmp_path / "proxy.crt") as proxy:
        file = kubeconfig(
            tmp_path / "placet.kubeconfig",
            proxy.url,
            tmp_path / "proxy.crt",
            {"token": plane.placet_token},
        )
        server = served.watch(READY, file, "--bind")
        server.wait_ready()
        proxy.loses.append(loses)
        calls = served.schedule(server, binds=True)
        names = [f"web-{number}" for number in range(PODS)]
        cluster.create_pods(pod(name, cluster.namespace, GOVERNED) for name in names)

        where = cluster.wait_placed(names, seconds=120.0)

        assert len(lost) > 5
        assert calls.failures() == []
        # A pod is bound before the call about it has been answered.
        until(lambda: len(calls.calls("bind")) >= PODS, 10.0, server.process.tail)
        answers = {call.pod: call.answer["Error"] for call in calls.calls("bind")}
        assert answers == dict.fromkeys(names, ""), "a lost answer is looked up, and no error"
        assert len(where) == PODS
        posts = [r.path for r in proxy.requests if r.path.endswith("/binding")]
        assert len(posts) == PODS + len(lost)
        assert server.compare()["count"] == 0


# ---- A bind that waits, on a real kube-scheduler with the configuration that Placet writes for it


READY_MARK = "example.com/ready"
POLICY = f"""policy volumes {{
  for pods where pod.labels["waits"] == "yes"
  bind "ready" {{ wait until pod.annotations["{READY_MARK}"] == "true" for at most 60s }}
}}
"""
# Longer than the `httpTimeout` of filter, which is 5 s, by enough for a busy machine.
HELD_SECONDS = 8.0


def written(url: str, *arguments: str) -> list[dict[str, Any]]:
    """Return the extenders that `placet scheduler-config` writes."""
    done = subprocess.run(
        [sys.executable, "-m", "cli", "scheduler-config", "--url", url, *arguments],
        env={"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    extenders = yaml.safe_load(done.stdout)["extenders"]
    assert isinstance(extenders, list)
    return extenders


@contextmanager
def scheduled(
    plane: ControlPlane, cluster: Cluster, folder: Path, *, apart: bool
) -> Iterator[None]:
    """Placet that binds, and kube-scheduler; with or without an entry for bind alone."""
    cluster.create_nodes([node("n1", cpu="2")])
    file = folder / "volumes.policy"
    file.write_text(POLICY)
    with ExitStack() as programs:
        flags = f"--kubeconfig={plane.placet_kubeconfig}", "--bind", "--lease=none"
        server = programs.enter_context(placet(folder, file, *flags))
        server.wait_ready()
        url = f"http://127.0.0.1:{server.port}/api/scheduler"
        more = ("--policies", str(file)) if apart else ("--verbs", "filter,prioritize,preempt,bind")
        extenders = written(url, *more)
        assert len(extenders) == (2 if apart else 1)
        programs.enter_context(kube_scheduler(plane, folder, extenders))
        yield


def test_a_bind_may_take_longer_than_filter(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """Meanwhile the pod holds its room, and others are scheduled."""
    with scheduled(plane, cluster, tmp_path, apart=True):
        cluster.create_pods([pod("held", cluster.namespace, {"waits": "yes"}, cpu="1")])
        log = tmp_path / "placet.log"
        offered = re.compile(r'verb="filter" pod="\S+/held".* returned=1 ')
        until(lambda: bool(offered.search(log.read_text())), 60, lambda: "a node for `held`")
        time.sleep(HELD_SECONDS / 2)
        cluster.create_pods([pod("other", cluster.namespace, cpu="1")])
        assert cluster.wait_placed(["other"]) == {"other": "n1"}
        cluster.create_pods([pod("third", cluster.namespace, cpu="1")])
        cluster.wait_refused("third")
        time.sleep(HELD_SECONDS / 2)
        assert "held" not in cluster.placements()
        events = [(each["regarding"]["name"], each["reason"]) for each in cluster.events("Pod")]
        assert ("held", "FailedScheduling") not in events
        cluster.kubectl("-n", cluster.namespace, "annotate", "pod", "held", f"{READY_MARK}=true")
        assert cluster.wait_placed(["held"]) == {"held": "n1"}


def test_in_one_entry_a_bind_has_the_time_of_filter(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """So doctor calls that an error."""
    with scheduled(plane, cluster, tmp_path, apart=False):
        cluster.create_pods([pod("held", cluster.namespace, {"waits": "yes"}, cpu="1")])
        time.sleep(HELD_SECONDS)
        assert "held" not in cluster.placements()
        told = [each["note"] for each in cluster.events("Pod")]
        assert any("Client.Timeout exceeded" in note for note in told), told
