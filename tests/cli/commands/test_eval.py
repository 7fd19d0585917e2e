"""`placet eval`: values, types, mistakes and what has no value."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import shop
from tests.cli.conftest import Placet
from tests.support.builders import pod, raw

CLUSTER = ("--cluster", "cluster.json")


@pytest.fixture(autouse=True)
def files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "96")
    shop.write(folder)


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("1 + 2", "3 : int"),
        ('"a" + "b"', '"ab" : string'),
        ('quantity("1500m") < "2"', "true : bool"),
        ('[1, 2].map(n, {"n": n})', '[{"n": 1}, {"n": 2}] : list(map(string, int))'),
        ('optional.of("a")', 'optional.of("a") : optional(string)'),
        ("dyn([])", "[] : list"),
        ("[]", "[] : list(dyn)"),
        ('duration("90m")', "5400s : duration"),
    ],
)
def test_constants_need_no_cluster(placet: Placet, expression: str, shown: str) -> None:
    done = placet("eval", expression)
    assert (done.code, done.out, done.err) == (0, f"{shown}\n", "")


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ('node.free["memory"]', "1536Mi : quantity"),
        ("pod.name", '"web-2" : string'),
        ('pod.spec.containers[0].image.startsWith("registry")', "true : bool"),
        ('node.usage["cpu"]', "1 : double"),
        ("size(node.pods)", "2 : int"),
        ("pod.workload.kind", '"ReplicaSet" : string'),
        ("now", "2026-11-21T10:00:00Z : timestamp"),
    ],
)
def test_a_pod_and_a_node_are_those_of_the_snapshot(
    placet: Placet, expression: str, shown: str
) -> None:
    """`now` is the snapshot's newest time, and the pod is not counted where it runs."""
    done = placet("eval", expression, *CLUSTER, "--pod", "web-2", "--node", "n-2")
    assert (done.code, done.out, done.err) == (0, f"{shown}\n", "")


def test_an_object_shows_its_fields_on_as_many_lines_as_it_needs(placet: Placet) -> None:
    done = placet("eval", "node.status", *CLUSTER, "--node", "n-2")
    assert (
        done.out
        == """\
{
  capacity: {"cpu": 4, "memory": 2Gi, "pods": 110},
  allocatable: {"cpu": 4, "memory": 2Gi, "pods": 110},
  conditions: [
    {
      type: "Ready",
      status: "True",
      lastHeartbeatTime: 2026-11-21T10:00:00Z,
      lastTransitionTime: 2026-11-21T10:00:00Z,
    },
  ],
} : NodeStatus
"""
    )


def test_all_nodes_are_a_table(placet: Placet) -> None:
    """A node without a value is a finding."""
    done = placet("eval", 'node.labels["capacity"]', *CLUSTER)
    assert done.code == 1
    assert (
        done.out
        == """\
node  value : string
n-1   "spot"
n-2   error: there is no key `capacity`
n-3   error: there is no key `capacity`
n-4   error: there is no key `capacity`
"""
    )


def test_a_pod_may_come_from_a_manifest_alone(placet: Placet, folder: Path) -> None:
    (folder / "pod.json").write_bytes(raw(pod("new", cpu="2")))
    done = placet("eval", 'pod.requests["cpu"]', "--pod-file", "pod.json")
    assert (done.code, done.out) == (0, "2 : quantity\n")


def test_a_mistake_is_shown_in_its_place(placet: Placet) -> None:
    done = placet("eval", "node.nme", *CLUSTER, "--node", "n-1")
    assert (done.code, done.out) == (2, "")
    assert (
        done.err
        == """\
error[P0102]: Node has no field `nme`
 --> expression:1:6
  |
1 | node.nme
  |      ^^^ unknown field
  = help: a similar name exists: `name`
"""
    )


def test_what_is_missing_is_shown_in_its_place(placet: Placet) -> None:
    """The innermost part, not the whole expression."""
    text = 'node.ready && node.labels["x"] == "a"'
    done = placet("eval", text, *CLUSTER, "--node", "n-1")
    assert (done.code, done.out) == (1, "")
    assert (
        done.err
        == """\
error: there is no key `x`
 --> expression:1:15
  |
1 | node.ready && node.labels["x"] == "a"
  |               ^^^^^^^^^^^^^^^^
"""
    )


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("pod.name", "give a pod with --pod NS/NAME or --pod-file FILE"),
        ("peer.name", "it exists only in `preempt` and `pods where` clauses"),
    ],
)
def test_a_variable_that_is_nothing_here_says_what_to_name(
    placet: Placet, expression: str, hint: str
) -> None:
    done = placet("eval", expression)
    assert done.code == 2
    assert "error[P0111]" in done.err
    assert f"= help: {hint}\n" in done.err


@pytest.mark.process
@pytest.mark.parametrize("no_colour", [False, True], ids=["a terminal", "NO_COLOR"])
def test_a_terminal_has_colour_unless_told_otherwise(folder: Path, no_colour: bool) -> None:
    command = [sys.executable, "-m", "cli", "eval", "node.name", *CLUSTER]
    ours = {"PYTHONPATH": str(Path(__file__).parents[3]), "TERM": "xterm", "COLUMNS": "60"}
    environment = {k: v for k, v in os.environ.items() if k not in {"NO_COLOR", "TERM"}} | ours
    more = {"NO_COLOR": "1"} if no_colour else {}
    master, slave = os.openpty()
    try:
        subprocess.run(command, env=environment | more, stdout=slave, cwd=folder, check=True)
        shown = os.read(master, 4096)
    finally:
        os.close(slave)
        os.close(master)
    assert (b"\x1b[1m" in shown) is not no_colour
    assert b"n-1" in shown


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        ("", "`pod.yaml` is empty"),
        (
            "kind: Pod\nspec: [1]\n",
            "`pod.yaml` is not a manifest of one pod: its spec is not an object",
        ),
        ("kind: Pod\nspec: {containers: 1}\n", "bad Pod at `spec.containers`"),
        ("kind: Pod\n---\nkind: Pod\n", "`pod.yaml` has several pods and workloads: Pod, Pod"),
        ("[", "`pod.yaml` is neither YAML nor JSON"),
    ],
    ids=["empty", "a list for a spec", "a number for containers", "two", "no YAML"],
)
def test_a_manifest_that_is_none_is_an_error(
    placet: Placet, folder: Path, manifest: str, message: str
) -> None:
    (folder / "pod.yaml").write_text(manifest, encoding="utf-8")
    done = placet("eval", "pod.name", "--pod-file", "pod.yaml")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {message}")
    assert "\n  = help: " in done.err


# ---- tables of data

LOAD = """\
policy load {
  for pods where pod.priority >= 0
  data "load" {
    from configmap "kube-system/load" file "load.csv" by "node" columns { cpu: double }
    every 30s for at most 90s
  }
  filter "hot" { require data.load[node.name].cpu < 0.8 missing pass }
}
"""


def test_tables_of_policies_are_read_from_files(placet: Placet, folder: Path) -> None:
    (folder / "load.policy").write_text(LOAD, encoding="utf-8")
    (folder / "load.csv").write_text("node,cpu\nn-1,0.5\nn-2,0.9\n", encoding="utf-8")
    given = ("--policies", "load.policy", "--data", "load=load.csv")
    assert placet("eval", 'data.load["n-1"].cpu', *given).out == "0.5 : double\n"
    done = placet("eval", "data.load[node.name].cpu > 0.8", *given, *CLUSTER, "--node", "n-2")
    assert (done.out, done.err) == ("true : bool\n", "")
    done = placet("eval", 'data.load["n-1"].cpus', *given)
    assert done.code == 2
    assert "Row of load has no field `cpus`" in done.err
    done = placet("eval", 'data.load["n-1"].cpu', *given[:2])
    assert (done.code, done.out) == (1, "")
    assert 'warning: `data "load"` has no rows here' in done.err
