"""The answers to expressions: their values and types, on one node and on all."""

from pathlib import Path

import pytest

from tests.cli import shop
from tests.cli.conftest import Placet
from tests.cli.repl.conftest import Say
from tests.support.builders import kubectl_list, pod, raw


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1 + 2", "3 : int\n"),
        ('"500m" < quantity("1")', "true : bool\n"),
        ("[1, 2].map(x, x * 2)", "[2, 4] : list(int)\n"),
        ("now", "2026-11-21T10:00:00Z : timestamp\n"),
        ("1 +\n2", "3 : int\n"),
        ("# nothing", ""),
        ("", ""),
    ],
    ids=["sum", "quantity", "list", "time of the snapshot", "two lines", "comment", "nothing"],
)
def test_an_expression_shows_its_value_and_type(say: Say, text: str, shown: str) -> None:
    assert (said := say(text)).out == shown
    assert not said.failed


def test_without_a_node_all_nodes_have_a_row(say: Say) -> None:
    assert say("node.free.cpu").out == (
        "node  value : quantity\nn-1   4\nn-2   1\nn-3   4\nn-4   3\n"
    )
    say(":node n-2")
    assert say("node.free.cpu").out == "1 : quantity\n"
    assert say(":node *").out == "all of 4 nodes\n"


def test_a_count_is_about_the_chosen_pod(say: Say) -> None:
    assert say("count here per node = all pods where true").out == "added count here\n"
    say("count waiting = all pending pods where peer.priority >= pod.priority")
    assert "choose one" in say("waiting").err
    say(":pod shop/web-1")
    assert say("waiting").out == "0 : int\n"
    assert say("here").out.splitlines()[0].split() == ["node", "value", ":", "int"]
    say(":node n-4")
    assert say("here >= 0").out == "true : bool\n"


def test_a_group_is_that_of_the_node(say: Say) -> None:
    assert say("group zone by node.zone").out == "added group zone\n"
    shown = say("zone.nodes").out
    assert [row.split() for row in shown.splitlines()[1:]] == [
        ["n-1", "2"],
        ["n-2", "1"],
        ["n-3", "1"],
        ["n-4", "2"],
    ]
    say(":node n-4")
    assert say("zone.map(n, n.name)").out == '["n-1", "n-4"] : list(string)\n'


def test_a_node_without_a_value_is_a_finding(say: Say, placet: Placet) -> None:
    said = say('node.labels["capacity"]')
    assert said.out.splitlines()[1:3] == ['n-1   "spot"', "n-2   error: there is no key `capacity`"]
    assert said.failed
    evaluated = placet(
        "eval", 'node.labels["capacity"]', "--cluster", "cluster.json", "--all-nodes"
    )
    assert (evaluated.out, evaluated.code) == (said.out, 1)


def test_annotations_of_other_pods_can_be_read(say: Say, folder: Path) -> None:
    database = pod("db-0", "far", annotations={"team": "data"}, on="n-2")
    (folder / "cluster.json").write_bytes(raw(kubectl_list([*shop.cluster(), database])))
    say(":reload")
    say(":node n-2")
    line = 'node.pods.filter(p, "team" in p.annotations).map(p, p.annotations["team"])'
    assert say(line).out == '["data"] : list(string)\n'
