"""`placet simulate` with nodes that come or go, of files and of a running server."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Placet
from tests.support.builders import controller, kubectl_list, node, pod, raw

RULE = 'policy p { for pods where pod.name != "" filter "zone" { require node.zone == "a" } }\n'
OWNER = controller("ReplicaSet", "web")
NODES = [node("n-1", "a", cpu="2"), node("n-2", "b", cpu="2")]
WEB = pod("web-1", cpu="2", on="n-1", owner=OWNER)
FILES = ("--cluster", "cluster.json", "--policies", "p.policy")


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    (folder / "cluster.json").write_bytes(raw(kubectl_list([*NODES, WEB])))
    (folder / "p.policy").write_text(RULE, encoding="utf-8")
    (folder / "pods.json").write_bytes(raw(kubectl_list([pod("new", cpu="1")])))
    (folder / "like.json").write_bytes(raw(node("like", "a", cpu="2")))


def test_a_drain_ends_with_1_where_a_pod_finds_no_place(placet: Placet) -> None:
    done = placet("simulate", *FILES, "--drain", "n-1")
    assert (done.code, done.out.splitlines()[0]) == (
        1,
        "the pod of 1 node finds no place: default/web-1",
    )
    done = placet("simulate", *FILES, "--drain", "n-1", "--add-nodes", "like.json=1", "-o", "json")
    found = json.loads(done.out)
    assert (done.code, found["added"]) == (0, ["like.json-new-1"])
    assert found["pods"][0]["node"] == "like.json-new-1"


def test_what_would_be_enough_decides_the_exit_code(placet: Placet) -> None:
    plain = ("simulate", *FILES, "--pods", "pods.json")
    assert placet(*plain).code == 0, "it does not judge"
    assert placet(*plain, "--add-nodes", "n-2=3").code == 1
    assert placet(*plain, "--add-nodes", "n-1=1").code == 0


@pytest.mark.parametrize("text", ["n-1", "n-1=0", "=3", "n-1=x", "n-1=10001"])
def test_what_is_no_number_of_nodes(placet: Placet, text: str) -> None:
    done = placet("simulate", *FILES, "--add-nodes", text)
    assert done.code == 2
    assert f"`{text}` is not TEMPLATE=N with N from 1 to 10000, such as m5.large=3" in done.err


def test_a_mistake_about_a_node_is_told(placet: Placet) -> None:
    done = placet("simulate", *FILES, "--drain", "n-9")
    assert (done.code, done.out) == (2, "")
    assert "there is no node `n-9`" in done.err


def test_a_template_that_cannot_be_looked_at(placet: Placet) -> None:
    done = placet("simulate", *FILES, "--drain", "n-1", "--add-nodes", f"{'a' * 300}=1")
    assert done.code == 2
    assert "a`: file name too long" in done.err


def test_a_template_that_is_nested_too_deeply(placet: Placet, tmp_path: Path) -> None:
    file = tmp_path / "deep.json"
    file.write_text("[" * 50_000)
    done = placet("simulate", *FILES, "--drain", "n-1", "--add-nodes", f"{file}=1")
    assert done.code == 2
    assert f"`{file}` is nested too deeply" in done.err
