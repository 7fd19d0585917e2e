"""A snapshot without ReplicaSets: nobody waits for these, and a note says that they lack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from grammar.values.time import Timestamp
from tests.cli.conftest import Placet
from tests.support.builders import Object, controller, kubectl_list, node, pod, raw

SPREAD = """\
policy web in namespace "shop" {
  for pods where pod.labels["app"] == "web"
  spread "zones" { over node.zone skew at most 1 strict }
}
"""
NOTE = (
    "the snapshot lacks replicasets that policies read: they count as absent;"
    " `kubectl get nodes,pods,replicasets -A` writes them too"
)
OWNER = controller("ReplicaSet", "web-5c", owner=controller("Deployment", "web"))
WORLD = ("--cluster", "cluster.json", "--policies", "web.policy")
ZONE = "topology.kubernetes.io/zone"


@pytest.fixture(autouse=True)
def new_pod(folder: Path) -> Object:
    """The pod was created just now."""
    made = pod("web-5c-a", "shop", labels={"app": "web"}, owner=OWNER)
    made["metadata"]["creationTimestamp"] = Timestamp.now().to_second()
    (folder / "web.policy").write_text(SPREAD)
    write(folder, made)
    return made


def write(folder: Path, *others: Object) -> None:
    zones = [node(f"n{number}", labels={ZONE: f"{number}"}) for number in range(2)]
    (folder / "cluster.json").write_bytes(raw(kubectl_list([*zones, *others])))


def test_explain_has_a_verdict_and_one_note(placet: Placet) -> None:
    done = placet("explain", "shop/web-5c-a", *WORLD, "-o", "json")
    found = json.loads(done.out)
    assert (found["problem"], found["passing"], found["nodes"]) == (None, 2, 2)
    assert done.err == f"note: {NOTE}\n"


def test_simulate_places_the_pods(placet: Placet) -> None:
    done = placet("simulate", *WORLD, "--pods", "cluster.json")
    assert "1 pending" not in done.out
    assert done.err.count(NOTE) == 1


@pytest.mark.parametrize("command", [("explain", "shop/web-5c-a", "-o", "wide"), ("drift",)])
def test_the_others_say_it_too(placet: Placet, command: tuple[str, ...]) -> None:
    done = placet(*command, *WORLD)
    assert (done.code, "waiting until" in done.out) == (0, False)
    assert done.err.count(NOTE) == 1


def test_a_session_says_what_its_cluster_lacks(placet: Placet) -> None:
    done = placet("repl", *WORLD, stdin=":reload\n")
    assert " and 1 pod at " in done.out
    assert done.err == f"note: {NOTE}\n"


def test_with_its_replica_set_there_is_no_note(
    placet: Placet, folder: Path, new_pod: Object
) -> None:
    write(folder, new_pod, OWNER)
    assert placet("explain", "shop/web-5c-a", *WORLD).err == ""


def test_what_no_policy_reads_does_not_lack(placet: Placet, folder: Path) -> None:
    (folder / "web.policy").write_text(
        'policy web { for pods where true filter "zone" { require node.zone != "9" } }'
    )
    assert placet("explain", "shop/web-5c-a", *WORLD).err == ""
