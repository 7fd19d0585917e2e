"""The replies about an expression: value, parts, type, cost, speed and absent fields."""

import re
from pathlib import Path

import pytest

from tests.cli import shop
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


def test_an_expression_fails_only_if_no_node_has_a_value(say: Say) -> None:
    said = say('node.labels["capacity"]')
    assert said.out.splitlines()[1:3] == ['n-1   "spot"', "n-2   error: there is no key `capacity`"]
    assert not said.failed
    assert say('node.labels["nowhere"]').failed


def test_many_nodes_are_grouped_by_their_values(say: Say) -> None:
    say(":set rows 2")
    assert say("node.zone").out == (
        "nodes  value : string                         which\n"
        '    2  "a"                                    n-1, n-4\n'
        '    1  "b"                                    n-2\n'
        "    1  1 other value, `:set rows` shows more\n"
    )


def test_annotations_of_other_pods_can_be_read(say: Say, folder: Path) -> None:
    database = pod("db-0", "far", annotations={"team": "data"}, on="n-2")
    (folder / "cluster.json").write_bytes(raw(kubectl_list([*shop.cluster(), database])))
    say(":reload")
    say(":node n-2")
    line = 'node.pods.filter(p, "team" in p.annotations).map(p, p.annotations["team"])'
    assert say(line).out == '["data"] : list(string)\n'


def test_type_needs_no_pod_and_no_node(say: Say) -> None:
    assert say(":type pod.requests").out == "pod.requests : map(string, quantity)\n"
    assert say(":type peer.labels").out == "peer.labels : map(string, string)\n"


def test_trace_shows_every_part_through_lets(say: Say) -> None:
    say('let spot = node.labels["capacity"] == "spot"')
    say(":node n-1")
    assert (
        say(':trace spot && node.zone == "b"').out
        == """\
  spot && node.zone == "b"               = false
    spot                                 = true
      node.labels["capacity"] == "spot"  = true
        node.labels["capacity"]          = "spot"
    node.zone == "b"                     = false
      node.zone                          = "a"
"""
    )


def test_cost_of_an_expression_and_of_the_policies(say: Say) -> None:
    assert say(":cost node.pods.exists(p, p.name == pod.name)").out.startswith(
        "cost of expression in steps for one node, of 1,000,000\n"
    )
    say('filter "f" { require node.ready }')
    assert say(":cost").out.startswith("cost of session in steps for one node")


def test_bench_says_how_long_a_node_takes(say: Say) -> None:
    assert re.fullmatch(
        r"\d+\.\d\d µs per node \(4 nodes, \d+ times?\)\n", say(":bench node.ready").out
    )
    lines = say(':bench node.labels["capacity"]').out.splitlines()
    assert lines[1] == "without 3 nodes where it has no value"
    assert say(':bench node.labels["nowhere"]').failed


def test_missing_lists_absent_fields_and_keys(web: Say) -> None:
    web('let spot = node.labels[?"capacity"].orValue("") == "spot"')
    assert web(
        ':missing spot && has(node.labels["gpu"]) || pod.labels["team"] == node.zone'
    ).out == (
        "reads                     absent  which\n"
        'node.labels[?"capacity"]  3 of 4  n-2, n-3, n-4\n'
        'node.labels["gpu"]        4 of 4  n-1, n-2, n-3, n-4\n'
        'pod.labels["team"]        1 of 1  the pod\n'
    )
    assert web(":missing node.zone").out == "nothing that it reads is absent\n"
    assert web(":missing 1 + 2").out == "it reads no field that can be absent\n"
