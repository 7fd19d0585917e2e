"""Effects: what policies and clauses do in a cluster, in words."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

import pytest

from cli.command import Exit
from cli.main import main

_NODE = """
- apiVersion: v1
  kind: Node
  metadata: {name: NAME, uid: NAME, labels: {topology.kubernetes.io/zone: NAME}}
  status:
    allocatable: {cpu: "8", memory: 32Gi, pods: "110"}
    conditions: [{type: Ready, status: "True"}]"""
_POD = """
- apiVersion: v1
  kind: Pod
  metadata: {name: NAME, namespace: shop, uid: NAME, labels: {app: web}}
  spec: {containers: [{name: c, image: i}]SPEC}"""
CLUSTER = "".join(
    [
        "apiVersion: v1\nkind: List\nitems:",
        *(_NODE.replace("NAME", name) for name in ("a", "b")),
        _POD.replace("NAME", "web-1").replace("SPEC", ""),
        _POD.replace("NAME", "web-2").replace("SPEC", ", nodeName: a"),
        "\n",
    ]
)


def said(policies: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> Mapping[str, str]:
    """What `placet check --cluster` says of each policy and each clause."""
    (folder / "cluster.yaml").write_text(CLUSTER, encoding="utf-8")
    (folder / "p.policy").write_text(policies, encoding="utf-8")
    code = main(["check", "--cluster", str(folder / "cluster.yaml"), str(folder / "p.policy")])
    assert code == Exit.OK
    lines = capsys.readouterr().out.splitlines()
    pairs = (line.strip().partition(": ") for line in lines)
    return {name: text for name, _, text in pairs}


WEB = 'in namespace "shop" { for pods where pod.labels["app"] == "web"'


def test_a_policy_says_which_pods_it_selects(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f'policy web {WEB} filter "a" {{ require node.zone == "a" }} }}\n'
    text += 'policy none in namespace "shop" { for pods where pod.labels["app"] == "wep"'
    text += ' filter "b" { require node.ready } }\n'
    found = said(text, tmp_path, capsys)
    assert found["policy shop/web"] == "selects 2 of 2 pods"
    assert found["policy shop/none"] == "selects 0 of 2 pods"
    assert found["a"] == "rejects 1 of 2 nodes"
    assert "b" not in found


def test_a_clause_that_makes_no_difference_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"""policy web {WEB}
      filter "all" {{ require node.ready }}
      filter "none" {{ require node.zone == "c" }}
      score "equal" weight 1 {{ value node.ready }}
      score "zones" weight 1 {{ value node.zone == "a" }}
      limit "ten" {{ pods where peer.labels["app"] == "web" per node at most 10 strict }}
    }}
    """
    found = said(text, tmp_path, capsys)
    assert found["all"] == "passes on every node"
    assert found["none"] == "rejects all 2 nodes"
    assert found["equal"] == "gives all nodes the same score"
    assert found["zones"] == "gives nodes different scores"
    assert found["ten"] == "passes on every node"


def test_a_policy_says_from_which_it_takes_pods_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f'policy first {WEB} weight 200 filter "a" {{ require node.zone == "a" }} }}\n'
    text += f'policy second {WEB} weight 100 filter "b" {{ require node.zone == "b" }} }}\n'
    found = said(text, tmp_path, capsys)
    assert found["policy shop/first"] == "selects 2 of 2 pods, takes over 2 from shop/second"
    assert found["policy shop/second"] == "selects 2 of 2 pods, gives way to shop/first for 2"


def test_the_cluster_is_read_once_so_that_it_may_be_piped_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "p.policy").write_text(f"policy web {WEB} }}", encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", StringIO(CLUSTER))
    assert main(["check", "--cluster", "-", str(tmp_path / "p.policy")]) == Exit.OK
    assert capsys.readouterr().out.startswith("policy shop/web: selects 2 of 2 pods\n")
