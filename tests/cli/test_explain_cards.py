"""explain says what is left of the cards of a node, and who has the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.main import main
from engine.cards.node_cards import TAKEN, Taken, annotation
from tests.support.builders import kubectl_list, node, pod

POLICY = """
policy gpu {
  for pods where "milli" in pod.annotations
  cards "gpu" {
    on node int(node.labels["gpu-count"]) of {"milli": 1000}
    take int(pod.annotations["count"]) of {"milli": int(pod.annotations["milli"])}
    message "no card has room"
  }
}
"""
LEFT = "card 0 has 300 of 1000 milli; card 1 has 1000 of 1000 milli"


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    its = {"milli": "700", "count": "1"}
    here = {**its, TAKEN: annotation({"gpu": Taken((0,), {"milli": 700})})}
    objects = [
        node("n1", labels={"gpu-count": "2"}),
        node("n2"),
        pod("there", "ml", annotations=here, on="n1"),
        pod("one", "ml", annotations={"milli": "400", "count": "1"}),
        pod("two", "ml", annotations={"milli": "400", "count": "2"}),
    ]
    cluster, policy = tmp_path / "cluster.json", tmp_path / "gpu.policy"
    cluster.write_text(json.dumps(kubectl_list(objects)))
    policy.write_text(POLICY)
    return ["--cluster", str(cluster), "--policies", str(policy)]


@pytest.mark.parametrize(
    ("name", "verdict", "takes"),
    [
        ("one", "gpu: gpu holds", "400 milli of 1 card"),
        ("two", "gpu: gpu fails: no card has room", "400 milli of each of 2 cards"),
    ],
)
def test_a_node_is_explained_by_its_cards(
    files: list[str], capsys: pytest.CaptureFixture[str], name: str, verdict: str, takes: str
) -> None:
    assert main(["explain", f"ml/{name}", "n1", *files]) == 0
    shown = capsys.readouterr().out
    assert verdict in shown
    assert f"  the pod takes {takes}; {LEFT}\n    bound: ml/there\n" in shown


def bound_by_others(files: list[str], *names: str) -> None:
    """Adds pods without a number to the node."""
    cluster = Path(files[1])
    objects = json.loads(cluster.read_text())
    takes = {"milli": "200", "count": "1"}
    objects["items"] += [pod(name, "ml", annotations=takes, on="n1") for name in names]
    cluster.write_text(json.dumps(objects))


GUESSED = "card 0 has 100 of 1000 milli; card 1 has 1000 of 1000 milli"


def test_a_pod_whose_card_is_guessed_is_told_apart(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    bound_by_others(files, "old")
    assert main(["explain", "ml/two", "n1", *files]) == 0
    shown = capsys.readouterr().out
    assert f"; {GUESSED}\n    bound: ml/there\n    guessed: ml/old\n" in shown
    assert main(["explain", "ml/two", "n1", "-o", "json", *files]) == 0
    (clause,) = json.loads(capsys.readouterr().out)["node"]["clauses"]
    assert clause["counts"]["text"].endswith(GUESSED)
    assert clause["counts"]["pods"] == [
        {"name": "ml/old", "presence": "guessed"},
        {"name": "ml/there", "presence": "bound"},
    ]


def test_several_pods_whose_cards_are_guessed(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    bound_by_others(files, "old", "older")
    main(["explain", "ml/two", "n1", *files])
    assert "guessed: ml/old, ml/older\n" in capsys.readouterr().out


def test_cards_that_cannot_be_read_are_named(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "ml/one", "n2", *files]) == 0
    assert "there is no key `gpu-count`" in capsys.readouterr().out
