"""`placet simulate`: tables, JSON, data and errors."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from pathlib import Path

import pytest

from cli.main import main
from tests.cli.conftest import Placet
from tests.support import openb
from tests.support.builders import kubectl_list, node, pod, raw

CARDS = """\
policy cards {
  for pods where pod.requests["nvidia.com/gpu"] > "0"
  score "fill" weight 1 { value node.usage["nvidia.com/gpu"] range 0 .. 1 }
}
"""
PLAIN = """\
cluster policy plain {
  for pods where pod.labels["qos"] == "BE"
  filter "no cards" {
    require node.allocatable["nvidia.com/gpu"] == "0"
    message "only what is plain"
  }
}
"""
FILES = ("--cluster", "nodes.json", "--pods", "pods.json")


@pytest.fixture(autouse=True)
def files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    openb.write_small(folder)
    (folder / "cards.policy").write_text(CARDS, encoding="utf-8")
    (folder / "plain.policy").write_text(PLAIN, encoding="utf-8")
    (folder / "none.policy").write_text("# kube-scheduler alone\n", encoding="utf-8")


def test_a_result_has_placed_and_pending_pods_and_the_allocation(placet: Placet) -> None:
    done = placet("simulate", *FILES, "--policies", "cards.policy")
    assert done.code == 0
    assert (
        done.out
        == """\
3 of 5 pods placed on 3 nodes, 2 pending

pending   nodes  because
      2  1 to 3  Insufficient nvidia.com/gpu
      1       2  node(s) didn't match Pod's node affinity/selector

resource        allocated    of   part
cpu                    11    24  45.8%
memory                7Gi  48Gi  14.6%
nvidia.com/gpu          2     4  50.0%
pods                    3   330   0.9%

policy  placed  pending
cards        2        2
(none)       1        0
"""
    )
    assert done.err == ""


def test_a_difference_shows_which_pods_move(placet: Placet) -> None:
    done = placet("simulate", *FILES, "--diff", "cards.policy", "plain.policy")
    assert done.code == 0
    assert (
        done.out
        == """\
5 pods on 3 nodes

                          cards.policy  plain.policy
placed                               3             3
pending                              2             2
cpu allocated                    45.8%         45.8%
memory allocated                 14.6%         14.6%
nvidia.com/gpu allocated         50.0%         75.0%
pods allocated                    0.9%          0.9%

under cards.policy
policy  placed  pending
cards        2        2
(none)       1        0
pending   nodes  because
      2  1 to 3  Insufficient nvidia.com/gpu
      1       2  node(s) didn't match Pod's node affinity/selector

under plain.policy
policy  placed  pending
(none)       3        2
pending  nodes  because
      2      2  node(s) didn't match Pod's node affinity/selector
      1      1  Insufficient nvidia.com/gpu
      1      1  plain: no cards: only what is plain

1 pod now pending, 1 pod now placed, 0 pods moved

pod                     cards.policy                          plain.policy
openb/p-2  now pending  n-2                                   pending: node(s) didn't match Pod's \
node affinity/selector
openb/p-3  now placed   pending: Insufficient nvidia.com/gpu  n-2
"""
    )
    assert done.err == ""


def test_policies_that_change_nothing_move_no_pod(placet: Placet) -> None:
    done = placet("simulate", *FILES, "--diff", "none.policy", "cards.policy")
    assert done.out.endswith("\nno pod moves\n")


def test_json_has_every_pod(placet: Placet) -> None:
    found = json.loads(placet("simulate", *FILES, "--policies", "cards.policy", "-o", "json").out)
    assert (found["nodes"], found["placed"], found["pending"]) == (3, 3, 2)
    assert found["allocation"]["cpu"] == {
        "requested": 11000,
        "allocatable": 24000,
        "part": 0.458333,
    }
    assert found["policies"][0] == {"policy": "cards", "placed": 2, "pending": 2}
    assert found["pods"][0] == {"pod": "openb/p-0", "policy": None, "node": "n-0"}
    assert found["pods"][3] == {
        "pod": "openb/p-3",
        "policy": "cards",
        "node": None,
        "reasons": {"Insufficient nvidia.com/gpu": 3},
        "nearest": {"node": "n-0", "reasons": ["Insufficient nvidia.com/gpu"]},
    }
    assert found["because"][0] == {
        "reason": "Insufficient nvidia.com/gpu",
        "pods": 2,
        "fewestNodes": 1,
        "mostNodes": 3,
    }


def test_json_of_a_difference_has_both_and_every_change(placet: Placet) -> None:
    done = placet("simulate", *FILES, "--diff", "cards.policy", "plain.policy", "-o", "json")
    found = json.loads(done.out)
    assert found.keys() == {"old", "new", "changes"}
    assert found["changes"] == [
        {"pod": "openb/p-2", "change": "now pending", "old": "n-2", "new": None},
        {"pod": "openb/p-3", "change": "now placed", "old": None, "new": "n-2"},
    ]


def test_pods_of_the_file_are_scheduled_again_and_other_pods_stay(
    placet: Placet, folder: Path
) -> None:
    """Pods of the snapshot that are in --pods too leave their nodes first."""
    stays = pod("stays", cpu="3", on="n-1")
    moves = pod("moves", cpu="2", on="n-1", labels={"app": "web"})
    ended = pod("ended", on="n-1", phase="Succeeded")
    going = pod("going", on="n-1", deleted="2026-11-21T11:00:00Z")
    nodes = [node("n-1", cpu="4"), node("n-2", cpu="4")]
    (folder / "all.json").write_bytes(raw(kubectl_list([*nodes, stays, moves, ended, going])))
    (folder / "pods.json").write_bytes(raw(kubectl_list([moves, ended, going, nodes[0]])))
    world = (
        "--cluster",
        "all.json",
        "--policies",
        "none.policy",
        "--pods",
        "pods.json",
        "-o",
        "json",
    )
    done = placet("simulate", *world)
    assert json.loads(done.out)["pods"] == [{"pod": "default/moves", "policy": None, "node": "n-2"}]
    assert done.err.splitlines()[:2] == [
        "note: skipped 1 object that is not a pod",
        "note: skipped 2 pods that have ended or are being deleted",
    ]


def test_ignored_constraints_are_noted(placet: Placet, folder: Path) -> None:
    term = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}
    container = {"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}
    spec = {"affinity": {"podAntiAffinity": term}, "containers": [container]}
    pods = [pod("a", spec=spec), pod("b", spec={"affinity": {"podAntiAffinity": term}})]
    (folder / "pods.json").write_bytes(raw(kubectl_list(pods)))
    done = placet("simulate", *FILES[:2], "--pods", "pods.json", "--policies", "none.policy")
    assert done.err.startswith(
        "note: the model ignores constraints of some pods: "
        "host ports (1 pod), pod anti-affinity (2 pods)\n"
    )


@pytest.mark.parametrize(
    ("name", "text", "arguments", "message"),
    [
        ("x.json", "{}", ["--cluster", "x.json"], "`x.json` is not a cluster file"),
        ("x.json", '{"kind": "List", "items": []}', ["--cluster", "x.json"], "there are no nodes"),
        ("x.json", "[]", ["--cluster", "x.json", "--drain", "n"], "`x.json` is not a cluster file"),
        ("x", "", ["--cluster", "gone.yaml"], "cannot read `gone.yaml`: no such file"),
        ("x", "", ["--cluster", "gone.json"], "cannot read `gone.json`: no such file"),
        ("x", "", ["--pods", "nodes.json"], "there are no pods to schedule in `nodes.json`"),
        ("x", "", ["--pods", "gone.yaml"], "cannot read `gone.yaml`: no such file"),
        (
            "x.yaml",
            "kind: Node",
            ["--pods", "x.yaml"],
            "there are no pods to schedule in `x.yaml`: of Node no pods are known",
        ),
        ("x.yaml", "a: [", ["--pods", "x.yaml"], "`x.yaml` is neither YAML nor JSON"),
        ("x.json", "[1]", ["--pods", "x.json"], "`x.json` has something that is not an object"),
        ("x.json", "{,}", ["--pods", "x.json"], "`x.json` is not JSON"),
        ("x.yaml", "kind: Pod", ["--pods", "x.yaml"], "a pod in `x.yaml` has no name"),
        (
            "x.yaml",
            "{kind: Pod, metadata: {name: a}, spec: 3}",
            ["--pods", "x.yaml"],
            "`metadata`, `spec` or `status` of a pod in `x.yaml` is not an object",
        ),
        (
            "x.yaml",
            "{kind: Pod, metadata: {name: a}, spec: {priority: high}}",
            ["--pods", "x.yaml"],
            "pod `default/a` in `x.yaml` cannot be read: bad Pod at `spec.priority`",
        ),
        (
            "x.yaml",
            "kind: PodList\nitems: [{metadata: {name: a}}, {metadata: {name: a}}]",
            ["--pods", "x.yaml"],
            "`x.yaml` has two pods `default/a`",
        ),
        ("x", "", ["--policies", "gone.policy"], "`gone.policy` does not exist"),
        ("x", "", ["--diff", "none.policy", "none.policy"], "`none.policy` is both"),
    ],
)
def test_bad_input_is_one_line_with_a_hint(
    placet: Placet, folder: Path, name: str, text: str, arguments: list[str], message: str
) -> None:
    (folder / name).write_text(text, encoding="utf-8")
    flags = {"--cluster": "nodes.json", "--pods": "pods.json", "--policies": "none.policy"}
    if arguments[0] == "--diff":
        del flags["--policies"]
    given = [f for flag, value in flags.items() if flag != arguments[0] for f in (flag, value)]
    done = placet("simulate", *given, *arguments)
    assert done.code == 2
    assert done.err.startswith(f"error: {message}"), done.err
    assert re.search(r"\n  = help: \S", done.err)
    assert done.err.count("\n") == 2


def test_a_snapshot_gives_its_pending_pods_and_its_policies(placet: Placet, folder: Path) -> None:
    policy = {
        "apiVersion": "placement-policy.scheduling.x-k8s.io/v1",
        "kind": "ClusterPlacementPolicy",
        "metadata": {"name": "own"},
        "spec": {
            "podSelector": {},
            "rules": 'filter "third" { require node.name == "n-3" message "another node" }',
        },
    }
    items = [node("n-1"), node("n-2"), pod("waits"), policy]
    (folder / "all.json").write_bytes(raw(kubectl_list(items)))
    world = ("--cluster", "all.json", "-ojson")
    own = json.loads(placet("simulate", *world).out)["pods"]
    other = json.loads(placet("simulate", *world, "--policies", "none.policy").out)["pods"]
    assert own[0]["reasons"] == {"own: third: another node": 2}
    assert [each["pod"] for each in own] == [each["pod"] for each in other] == ["default/waits"]
    assert other[0]["node"] is not None
    elsewhere = placet("simulate", "--cluster", "all.json", "-n", "shop")
    assert elsewhere.err.startswith(
        "error: no pod is pending in the namespace `shop` of `all.json`"
    )
    (folder / "bare.json").write_bytes(raw(kubectl_list(items[:-1])))
    bare = placet("simulate", "--cluster", "bare.json")
    assert (bare.code, bare.err.splitlines()[0]) == (2, "error: there are no policies")


def test_policies_with_errors_are_shown_and_nothing_is_simulated(
    placet: Placet, folder: Path
) -> None:
    text = 'cluster policy a { filter "a" { require node.nme } }'
    (folder / "bad.policy").write_text(text, encoding="utf-8")
    done = placet("simulate", *FILES, "--diff", "none.policy", "bad.policy")
    assert (done.code, done.out) == (2, "")
    assert "error[P0102]: Node has no field `nme`" in done.err
    assert "error: the policies have 1 error\n  = help: fix them" in done.err


@pytest.mark.parametrize("weight", ["0", "-1", "1.5", "²", str(2**31)])
def test_a_weight_that_kube_scheduler_rejects_is_an_error(placet: Placet, weight: str) -> None:
    done = placet("simulate", *FILES, "--policies", "none.policy", f"--weight={weight}")
    assert done.code == 2
    assert f"`{weight}` is not a whole number from 1 to 2147483647" in done.err


@pytest.mark.thorough
@openb.with_trace
def test_the_openb_trace_runs_in_a_minute(placet: Placet, folder: Path) -> None:
    openb.write(openb.TRACE / openb.NODES, openb.TRACE / openb.PODS, folder)
    began = time.monotonic()
    done = placet(
        *("simulate", *FILES, "--policies", "cards.policy", "-o", "json"),
    )
    assert time.monotonic() - began < 60
    found = json.loads(done.out)
    assert (found["nodes"], found["placed"] + found["pending"]) == (1523, 8152)
    assert found["allocation"]["nvidia.com/gpu"]["allocatable"] == 6212
    assert [p for p in found["pods"] if p["node"] is None and not p["reasons"]] == []


# ---- A burst of pods under a rule about load whose sample is older than all of them


NODES, PODS = 10, 200
POLICY = """cluster policy p {{
  for pods where true
  data "load" {{ from metrics }}
  score "load" weight 1 {{
    value {value}
    range 1 .. 0
  }}
}}
"""
SAMPLE = 'data.load[node.name].cpu / node.allocatable["cpu"]'
WITH_RECENT = (
    '(data.load[node.name].cpu + node.since(data.load[node.name].time)["cpu"])'
    ' / node.allocatable["cpu"]'
)


def burst(folder: Path, capsys: pytest.CaptureFixture[str], value: str) -> list[int]:
    """How many of the pods each node gets. Three of the nodes were somewhat less loaded."""
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{number}"},
            "status": {"allocatable": {"cpu": "32", "memory": "128Gi", "pods": "250"}},
        }
        for number in range(NODES)
    ]
    requests = {"resources": {"requests": {"cpu": "500m"}}}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{number}", "namespace": "shop", "uid": f"p{number}"},
            "spec": {"containers": [{"name": "main", "image": "main", **requests}]},
        }
        for number in range(PODS)
    ]
    for name, items in (("nodes", nodes), ("pods", pods)):
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        (folder / f"{name}.json").write_text(text)
    (folder / "p.policy").write_text(POLICY.format(value=value))
    rows = "".join(f"n{number},{4 if number < 3 else 8}\n" for number in range(NODES))
    (folder / "load.csv").write_text(f"key,cpu\n{rows}")
    words = ["simulate", "--cluster", "nodes.json", "--policies", "p.policy"]
    assert (
        main(
            [
                *words,
                "--data",
                "load=load.csv",
                "--pods",
                "pods.json",
                "--weight",
                "10",
                "-o",
                "json",
            ]
        )
        == 0
    )
    placed = Counter(pod["node"] for pod in json.loads(capsys.readouterr().out)["pods"])
    return [placed[f"n{number}"] for number in range(NODES)]


def test_a_table_that_only_the_new_policies_declare_can_be_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    burst(tmp_path, capsys, SAMPLE)
    (tmp_path / "old.policy").write_text("cluster policy p { for pods where true }")
    words = [
        "simulate",
        "--cluster",
        "nodes.json",
        "--pods",
        "pods.json",
        "--data",
        "load=load.csv",
    ]
    assert main([*words, "--diff", "old.policy", "p.policy"]) == 0
    assert "data" not in capsys.readouterr().err
    assert main([*words, "--policies", "old.policy"]) == 2
    assert 'no policy here has `data "load"`' in capsys.readouterr().err


def test_a_burst_follows_an_old_sample_unless_recent_pods_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fault that Trimaran is known for, and what `node.since` does about it."""
    monkeypatch.chdir(tmp_path)
    fair = PODS / NODES
    assert max(burst(tmp_path, capsys, SAMPLE)) > 3 * fair
    assert max(burst(tmp_path, capsys, WITH_RECENT)) <= 1.5 * fair
