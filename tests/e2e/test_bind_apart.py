"""A bind that waits, on a real kube-scheduler with the configuration that Placet writes for it."""

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

pytestmark = pytest.mark.e2e

READY = "example.com/ready"
POLICY = f"""policy volumes {{
  for pods where pod.labels["waits"] == "yes"
  bind "ready" {{ wait until pod.annotations["{READY}"] == "true" for at most 60s }}
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
        time.sleep(HELD_SECONDS / 2)
        cluster.create_pods([pod("other", cluster.namespace, cpu="1")])
        assert cluster.wait_placed(["other"]) == {"other": "n1"}
        cluster.create_pods([pod("third", cluster.namespace, cpu="1")])
        cluster.wait_refused("third")
        time.sleep(HELD_SECONDS / 2)
        assert "held" not in cluster.placements()
        assert "held" not in [each["regarding"]["name"] for each in cluster.events("Pod")]
        cluster.kubectl("-n", cluster.namespace, "annotate", "pod", "held", f"{READY}=true")
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
