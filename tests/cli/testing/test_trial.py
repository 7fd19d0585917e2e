"""What tests ask, by which policies they are decided, and what is left of a cluster file."""

import json
from pathlib import Path

import pytest

from tests.cli.testing.conftest import Try, run
from tests.support.builders import kubectl_list, node, pod, raw

LIMIT = 'limit "one each" { pods where peer.labels["app"] == "web" per node at most 1 strict }'
COUNTS = f'policy p in namespace "shop" {{ {LIMIT} }}'
WEB = '{"labels": {"app": "web"}}'


def test_each_node_is_asked_about_by_itself(tried: Try) -> None:
    """A strict count sends the pod to one of the nodes that would do; a test is of the rules."""
    result = tried(
        COUNTS,
        f'node "a" node "b" node "c" pod "shop/w1" {WEB} on "a" pod "shop/w2" {WEB}'
        'expect reject "a" by "one each" expect pass "b" expect pass "c"',
    )
    assert (result.outcome, result.found) == ("passed", ())


def test_many_rejections_are_no_loop(tried: Try) -> None:
    """Of a pod that is rejected again and again, kube-scheduler is told an error instead."""
    expected = 'expect reject "a" by "one each" ' * 9
    nodes = " ".join(f'node "n{i}"' for i in range(9))
    result = tried(
        COUNTS, f'node "a" {nodes} pod "shop/w1" {WEB} on "a" pod "shop/w2" {WEB} {expected}'
    )
    assert result.found == ()


def test_last_pod_without_a_node_is_tested(tried: Try) -> None:
    policy = 'cluster policy p { filter "f" { require pod.name == "b" } }'
    result = tried(policy, 'node "n" pod "a" pod "b" pod "c" on "n" expect pass "n"')
    assert result.found == ()


@pytest.mark.parametrize("op", ["== 5", "!= 4", "< 6", "<= 5", "> 4", ">= 5", ">= 4.5"])
def test_score_is_compared(tried: Try, op: str) -> None:
    policy = 'cluster policy p { score "s" weight 1 { value 45 } }'
    assert tried(policy, f'node "n" pod "a" expect score "n" {op}').found == ()


@pytest.mark.parametrize("op", ["== 4", "!= 5", "< 5", "<= 4.5", "> 5", ">= 6"])
def test_score_that_is_another_is_shown(tried: Try, op: str) -> None:
    policy = 'cluster policy p { score "s" weight 1 { value 45 } }'
    (found,) = tried(policy, f'node "n" pod "a" expect score "n" {op}').found
    assert (found.label, found.notes) == ("it is 5", ("s: 45 of 100, weight 1",))


def test_scores_are_of_the_nodes_that_pass(tried: Try) -> None:
    """The one that does not would be the most."""
    policy = (
        'cluster policy p { filter "f" { require node.name != "c" }'
        ' score "s" weight 1 { value node.allocatable["cpu"] range minmax } }'
    )
    nodes = " ".join(
        f'node "{n}" {{"allocatable": {{"cpu": {cpu}}}}}'
        for n, cpu in zip("abc", (2, 4, 8), strict=True)
    )
    assert tried(policy, f'{nodes} pod "p" expect score "b" == 10').found == ()


@pytest.mark.parametrize(
    ("policy", "expected", "message", "label"),
    [
        (
            'filter "f" { require true }',
            'score "n" > 1',
            "`n` has no score",
            "no score applies to the pod",
        ),
        (
            'filter "f" { require 1 / size(node.pods) > 1 }',
            'pass "n"',
            "`n` does not pass",
            "rejected by `f`: policy p: f (division by zero)",
        ),
        (
            'for pods where 1 / size(pod.labels) > 1 filter "f" { require true }',
            'pass "n"',
            "`n` does not pass",
            "rejected by `for`: policy p: its `for` cannot be evaluated (division by zero)",
        ),
    ],
)
def test_failure_says_what_is_there_instead(
    tried: Try, policy: str, expected: str, message: str, label: str
) -> None:
    result = tried(f"cluster policy p {{ {policy} }}", f'node "n" pod "a" expect {expected}')
    assert [(f.message, f.label) for f in result.found] == [(message, label)]
    assert result.outcome == "failed"


@pytest.mark.parametrize(
    ("items", "message", "hint"),
    [
        ('expect pass "N-1"', "there is no node `N-1` here", "a similar name exists: `n-1`"),
        (
            'expect reject "n-1" by "hedroom"',
            "there is no clause that rejects `hedroom` here",
            "a similar name exists: `headroom`",
        ),
        ('expect reject "n-1" by "score"', "there is no clause that rejects `score` here", None),
        ("", "the test expects nothing", 'as in `expect pass "node-1"`'),
    ],
)
def test_expectation_that_makes_no_sense_is_an_error(
    tried: Try, items: str, message: str, hint: str | None
) -> None:
    policy = (
        'cluster policy p { filter "headroom" { require node.ready }'
        ' score "score" weight 1 { value 1 } }'
    )
    result = tried(policy, f'node "n-1" pod "a" {items}')
    assert result.outcome == "error"
    assert [(f.message, f.hint) for f in result.found] == [(message, hint)]


def test_test_needs_a_pod_and_a_policy(tried: Try) -> None:
    (found,) = tried("", 'node "n" pod "a" expect pass "n"').found
    assert found.message == "no policy decides in this test"
    (found,) = tried(COUNTS, 'node "n" pod "a" on "n" expect pass "n"').found
    assert found.message == "the test has no pod to test"


# ---- files


def test_policies_of_other_files_do_not_decide(tmp_path: Path) -> None:
    """But for the file that a test file is about, also when nobody names it."""
    test = 'test "it" { node "n" pod "shop/a" expect reject "n" by "f" }'
    never = 'cluster policy %s { filter "%s" { require node.name == "m" } }'
    (tmp_path / "a.policy").write_text(never % ("a", "a"), encoding="utf-8")
    (tmp_path / "shop.policy").write_text(never % ("shop", "f"), encoding="utf-8")
    (tmp_path / "shop_test.policy").write_text(test, encoding="utf-8")
    for paths in ([tmp_path], [tmp_path / "shop_test.policy"]):
        (result,), _ = run(*paths)
        assert result.found == ()


def test_cluster_file_is_found_beside_the_policy(tmp_path: Path) -> None:
    """What the test gives comes on top; its pod is the last that waits, the time its newest."""
    inside = tmp_path / "below"
    inside.mkdir()
    objects = [
        node("n-1", "a", created="2026-11-21T10:00:00Z"),
        node("n-2", "b"),
        pod("first", "shop", labels={"app": "db"}),
        pod("last", "shop", labels={"app": "web"}, created="2026-11-21T12:00:00Z"),
        pod("web", "shop", labels={"app": "web"}, on="n-1"),
    ]
    (inside / "cluster.json").write_bytes(raw(kubectl_list(objects)))
    policy = COUNTS.replace("}", '} filter "age" { require node.age >= "2h" }', 1)
    (inside / "some.policy").write_text(
        policy
        + 'test "as it is" { cluster "cluster.json"'
        + ' expect reject "n-1" by "one each" expect pass "n-2" }'
        + 'test "with more" { cluster "cluster.json" node "n-2" {"age": "1h"} node "n-3"'
        + ' pod "shop/web" on "n-3" expect pass "n-1" expect reject "n-2" by "age" }',
        encoding="utf-8",
    )
    results, _ = run(tmp_path)
    assert [(r.outcome, r.found) for r in results] == [("passed", ())] * 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read `{}`: no such file or directory"),
        ("", "`{}` is empty"),
        ("[1]", "`{}` is not a cluster file: it is not a Kubernetes object"),
        (json.dumps(kubectl_list([])), "there are no nodes in `{}`"),
    ],
)
def test_cluster_file_that_is_none(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "cluster.json").write_text(content, encoding="utf-8")
    (tmp_path / "some.policy").write_text(
        COUNTS + 'test "it" { cluster "cluster.json" pod "a" expect pass "n" }', encoding="utf-8"
    )
    (result,), _ = run(tmp_path)
    assert result.outcome == "error"
    (found,) = result.found
    assert found.message.startswith(message.format(tmp_path / "cluster.json"))


def test_manifests_are_tested_by_the_file_beside_them(tmp_path: Path) -> None:
    """Also when nobody names them; a file of another kind is not one."""
    manifest = {
        "apiVersion": "placement-policy.scheduling.x-k8s.io/v1",
        "kind": "PlacementPolicy",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "podSelector": {"matchLabels": {"app": "web"}},
            "nodeSelector": {"matchLabels": {"disk": "ssd"}},
            "policy": {"action": "Must"},
        },
    }
    (tmp_path / "web.json").write_text(json.dumps(manifest), encoding="utf-8")
    (tmp_path / "web.yaml").write_bytes(raw(kubectl_list([node("n")])))
    (tmp_path / "web_test.policy").write_text(
        f"""test "it" {{ node "ssd" {{"labels": {{"disk": "ssd"}}}} node "hdd"
        pod "shop/web" {WEB} expect pass "ssd" expect reject "hdd" by "placement" }}""",
        encoding="utf-8",
    )
    for paths in ([tmp_path], [tmp_path / "web_test.policy"]):
        (result,), _ = run(*paths)
        assert result.found == ()
