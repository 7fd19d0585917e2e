"""Named counts in explanations: the numbers that rules and bounds have read."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.cli.conftest import Placet
from tests.support.builders import kubectl_list, node, pod, raw

POLICY = """
cluster policy teams {
  for pods where "team" in pod.labels
  count larger = pending pods where peer.priority > pod.priority
  count borrowed = sum peer.requests["cpu"] of all pods where peer.labels["team"] == "b"
  filter "important first" { require larger == 0 detail "{larger} wait" }
  limit "team a" when pod.labels["team"] == "a" {
    sum peer.requests["cpu"] of all pods where peer.labels["team"] == "a"
    per cluster
    at most "4" - borrowed
    strict
  }
}
"""
ASKED = ("explain", "shop/web", "n1", "--cluster", "cluster.json", "--policies", "teams.policy")


@pytest.fixture(autouse=True)
def files(folder: Path) -> None:
    pods = [
        pod("web", "shop", cpu="2", priority=1, labels={"team": "a"}),
        pod("large", "shop", priority=9),
        pod("lent", "other", cpu="3", labels={"team": "b"}, on="n1"),
    ]
    (folder / "cluster.json").write_bytes(raw(kubectl_list([node("n1"), *pods])))
    (folder / "teams.policy").write_text(POLICY)


def test_the_numbers_that_were_read_are_shown(placet: Placet) -> None:
    shown = placet(*ASKED).out
    assert (
        """
teams: important first fails
  1 wait
  larger == 0  = false
    larger     = 1

teams: team a fails
  "4" - borrowed  = 1
    borrowed      = 3
  0 in the cluster, 2 of this pod; at most 1
"""
        in shown
    )


def test_the_bound_is_data_too(placet: Placet) -> None:
    found = msgspec.json.decode(placet(*ASKED, "-o", "json").out)
    clauses = {each["clause"]: each for each in found["node"]["clauses"]}
    (bound,) = clauses["team a"]["expressions"]
    assert bound["part"] == "bound"
    assert [each["expression"] for each in bound["values"]] == ['"4" - borrowed', "borrowed"]


def test_a_node_without_the_number_of_a_bound(placet: Placet, folder: Path) -> None:
    limit = 'limit "few" { pods where true per node at most int(node.labels["slots"]) strict }'
    (folder / "teams.policy").write_text(f"cluster policy teams {{ {limit} }}")
    assert "  the node has no value for the domain, or for the bound\n" in placet(*ASKED).out
