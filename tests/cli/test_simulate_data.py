"""A burst of pods under a rule about load whose sample is older than all of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from cli.main import main

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
