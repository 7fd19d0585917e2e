"""Expectations, the policies that decide in a test, and cluster files."""

import json
from pathlib import Path

import pytest

from tests.cli.policy_tests.conftest import RunTest, run
from tests.support.builders import kubectl_list, node, pod, raw

LIMIT = 'limit "one each" { pods where peer.labels["app"] == "web" per node at most 1 strict }'
COUNTS = f'policy p in namespace "shop" {{ {LIMIT} }}'
WEB = '{"labels": {"app": "web"}}'


def test_each_node_is_filtered_separately(run_test: RunTest) -> None:
    """A server would offer only one of the feasible nodes, to keep the strict count exact."""
    result = run_test(
        COUNTS,
        f'node "a" node "b" node "c" pod "shop/w1" {WEB} on "a" pod "shop/w2" {WEB}'
        'expect reject "a" by "one each" expect pass "b" expect pass "c"',
    )
    assert (result.outcome, result.diagnostics) == ("passed", ())


def test_many_rejections_are_not_reported_as_a_loop(run_test: RunTest) -> None:
    """A server would answer with an error for a pod that is rejected this often."""
    expected = 'expect reject "a" by "one each" ' * 9
    nodes = " ".join(f'node "n{i}"' for i in range(9))
    result = run_test(
        COUNTS, f'node "a" {nodes} pod "shop/w1" {WEB} on "a" pod "shop/w2" {WEB} {expected}'
    )
    assert result.diagnostics == ()


def test_last_pod_without_a_node_is_tested(run_test: RunTest) -> None:
    policy = 'cluster policy p { filter "f" { require pod.name == "b" } }'
    result = run_test(policy, 'node "n" pod "a" pod "b" pod "c" on "n" expect pass "n"')
    assert result.diagnostics == ()


@pytest.mark.parametrize("op", ["== 5", "!= 4", "< 6", "<= 5", "> 4", ">= 5", ">= 4.5"])
def test_score_is_compared(run_test: RunTest, op: str) -> None:
    policy = 'cluster policy p { score "s" weight 1 { value 45 } }'
    assert run_test(policy, f'node "n" pod "a" expect score "n" {op}').diagnostics == ()


@pytest.mark.parametrize("op", ["== 4", "!= 5", "< 5", "<= 4.5", "> 5", ">= 6"])
def test_another_score_is_shown(run_test: RunTest, op: str) -> None:
    policy = 'cluster policy p { score "s" weight 1 { value 45 } }'
    (found,) = run_test(policy, f'node "n" pod "a" expect score "n" {op}').diagnostics
    assert (found.label, found.notes) == (
        "it is 5",
        ("s: 45 of 100, weight 1", 'in the test "it"'),
    )


def test_only_nodes_that_pass_have_scores(run_test: RunTest) -> None:
    """The node that does not pass has the highest value."""
    policy = (
        'cluster policy p { filter "f" { require node.name != "c" }'
        ' score "s" weight 1 { value node.allocatable["cpu"] range minmax } }'
    )
    nodes = " ".join(
        f'node "{n}" {{"allocatable": {{"cpu": {cpu}}}}}'
        for n, cpu in zip("abc", (2, 4, 8), strict=True)
    )
    assert run_test(policy, f'{nodes} pod "p" expect score "b" == 10').diagnostics == ()


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
            "rejected by `for`: its `for` cannot be evaluated (division by zero)",
        ),
    ],
)
def test_failure_shows_the_answer(
    run_test: RunTest, policy: str, expected: str, message: str, label: str
) -> None:
    result = run_test(f"cluster policy p {{ {policy} }}", f'node "n" pod "a" expect {expected}')
    assert [(f.message, f.label) for f in result.diagnostics] == [(message, label)]
    assert result.outcome == "failed"


@pytest.mark.parametrize(
    ("items", "message", "hint"),
    [
        (
            'expect pass "N-1"',
            "there is no node `N-1` in this test",
            "a similar name exists: `n-1`",
        ),
        (
            'expect reject "n-1" by "hedroom"',
            "there is no rejecting clause `hedroom` in this test",
            "a similar name exists: `headroom`",
        ),
        (
            'expect reject "n-1" by "score"',
            "there is no rejecting clause `score` in this test",
            None,
        ),
        ("", "the test has no expectation", 'add one, as in `expect pass "node-1"`'),
    ],
)
def test_expectation_that_no_answer_can_meet_is_an_error(
    run_test: RunTest, items: str, message: str, hint: str | None
) -> None:
    policy = (
        'cluster policy p { filter "headroom" { require node.ready }'
        ' score "score" weight 1 { value 1 } }'
    )
    result = run_test(policy, f'node "n-1" pod "a" {items}')
    assert result.outcome == "error"
    assert [(f.message, f.hint) for f in result.diagnostics] == [(message, hint)]


def test_test_needs_a_pod_and_a_policy(run_test: RunTest) -> None:
    (found,) = run_test("", 'node "n" pod "a" expect pass "n"').diagnostics
    assert found.message == "the test has no policy"
    (found,) = run_test(COUNTS, 'node "n" pod "a" on "n" expect pass "n"').diagnostics
    assert found.message == "the test has no pod to test"


# ---- files


def test_policies_of_other_files_do_not_decide(tmp_path: Path) -> None:
    """The file beside a test file decides, even if it is not given."""
    test = 'test "it" { node "n" pod "shop/a" expect reject "n" by "f" }'
    never = 'cluster policy %s { filter "%s" { require node.name == "m" } }'
    (tmp_path / "a.policy").write_text(never % ("a", "a"), encoding="utf-8")
    (tmp_path / "shop.policy").write_text(never % ("shop", "f"), encoding="utf-8")
    (tmp_path / "shop_test.policy").write_text(test, encoding="utf-8")
    for paths in ([tmp_path], [tmp_path / "shop_test.policy"]):
        (result,) = run(*paths)
        assert result.diagnostics == ()


def test_cluster_file_is_found_beside_the_policy(tmp_path: Path) -> None:
    """Objects of the test are added; the file has the pod, its last pending one, and the time."""
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
    results = run(tmp_path)
    assert [(r.outcome, r.diagnostics) for r in results] == [("passed", ())] * 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read `{}`: no such file or directory"),
        ("", "`{}` is empty"),
        ("[1]", "`{}` is not a cluster file: it is not a Kubernetes object"),
        (json.dumps(kubectl_list([])), "there are no nodes in `{}`"),
    ],
)
def test_invalid_cluster_file_is_an_error(
    tmp_path: Path, content: str | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "cluster.json").write_text(content, encoding="utf-8")
    (tmp_path / "some.policy").write_text(
        COUNTS + 'test "it" { cluster "cluster.json" pod "a" expect pass "n" }', encoding="utf-8"
    )
    (result,) = run(tmp_path)
    assert result.outcome == "error"
    (found,) = result.diagnostics
    assert found.message.startswith(message.format(tmp_path / "cluster.json"))


def test_manifests_are_tested_by_the_file_beside_them(tmp_path: Path) -> None:
    """They decide even if they are not given; the YAML file is not a manifest."""
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
        (result,) = run(*paths)
        assert result.diagnostics == ()


PREEMPT = (
    'policy p in namespace "shop" {'
    ' limit "two" { pods where peer.labels[?"app"].orValue("") == "web" per node at most 2 strict }'
    ' preempt "p" { protect pods where victim.labels[?"tier"].orValue("") == "db" } }'
)
FULL = (
    'node "n" {"allocatable": {"cpu": 3}} node "room"'
    ' pod "shop/a" {"requests": {"cpu": 3}, "labels": {"app": "web"}} on "n"'
    ' pod "shop/b" {"labels": {"app": "web"}} on "n" '
)
URGENT = 'pod "shop/c" {"requests": {"cpu": 1}, "labels": {"app": "web"}, "priority": 1} '


@pytest.mark.parametrize(
    ("items", "message", "label"),
    [
        (f'{FULL}{URGENT}expect evict "shop/a" on "n"', None, None),
        (
            f'{FULL}{URGENT}expect evict none on "n"',
            "pods are evicted on `n`",
            "these are: `shop/a`",
        ),
        (
            f'{FULL}{URGENT}expect evict "shop/a", "shop/b" on "n"',
            "other pods are evicted on `n`",
            "these are: `shop/a`",
        ),
        (
            f'{FULL}{URGENT}expect evict none on "room"',
            "nobody would be evicted on `room`, whatever the policies say",
            "kube-scheduler proposes no victim",
        ),
        (
            f'{FULL.replace("app", "tier").replace("web", "db")}{URGENT}expect evict none on "n"',
            None,
            None,
        ),
        (
            (
                f"{FULL.replace('app', 'tier').replace('web', 'db')}{URGENT}"
                'expect evict "shop/a" on "n"'
            ),
            "nobody may be evicted on `n`",
            "the policies forbid it",
        ),
        (
            f'{FULL}{URGENT}expect evict "shop/d" on "n"',
            "there is no pod `shop/d` in this test",
            "",
        ),
    ],
)
def test_evictions_are_those_of_kube_scheduler_that_policies_allow(
    run_test: RunTest, items: str, message: str | None, label: str | None
) -> None:
    found = run_test(PREEMPT, items).diagnostics
    expected = [] if message is None else [(message, label)]
    assert [(each.message, each.label) for each in found] == expected


def test_the_nodes_of_one_test_compete_for_keep(run_test: RunTest) -> None:
    policy = 'cluster policy p { preempt "p" { pick 1 least node.free["memory"] } }'
    nodes = " ".join(
        f'node "n{i}" {{"allocatable": {{"cpu": 1, "memory": "{i}Gi"}}}}'
        f' pod "shop/p{i}" {{"requests": {{"cpu": 1}}}} on "n{i}"'
        for i in (1, 2)
    )
    asked = 'pod "shop/c" {"requests": {"cpu": 1}, "priority": 1}'
    expected = 'expect evict "shop/p1" on "n1" expect evict none on "n2"'
    assert run_test(policy, f"{nodes} {asked} {expected}").diagnostics == ()


HELD = (
    'policy p in namespace "ml" {'
    ' gang "together" { of pods by peer.labels["job"] at least int(pod.annotations["m"])'
    ' message "waits for its gang" }'
    ' bind "ready" { require pod.annotations[?"broken"].orValue("") == ""'
    ' wait until pod.annotations[?"ready"].orValue("true") == "true" for at most 60s'
    ' message "not ready" } }'
)
MEMBER = '{"labels": {"job": "a"}, "annotations": {"m": "%s"}, "requests": {"cpu": 1}}'
TWO = f'node "n" node "full" {{"allocatable": {{"cpu": 0}}}} pod "ml/a-1" {MEMBER % 2}'


@pytest.mark.parametrize(
    ("items", "message", "label"),
    [
        (f'{TWO} pod "ml/a-0" {MEMBER % 2} expect wait "n" by "together"', None, None),
        (
            (
                f'{TWO} pod "ml/a-0" {MEMBER % 2}'
                ' expect wait "n" by "together" message "1 of 2 members are here"'
            ),
            None,
            None,
        ),
        (
            (
                f'{TWO} pod "ml/a-0" {MEMBER % 2}'
                ' expect wait "n" by "together" message "2 of 2 members are here"'
            ),
            "the pod is held on `n` with another message",
            "it is `1 of 2 members are here`",
        ),
        (
            f'{TWO} pod "ml/a-0" {MEMBER % 3} expect wait "n" by "together"',
            "`n` does not pass",
            "rejected by `together`: waits for its gang: 2 of 3 members exist",
        ),
        (
            (
                f'{TWO} pod "ml/a-0" {MEMBER % 3}'
                ' expect reject "n" by "together" message "2 of 3 members exist"'
            ),
            None,
            None,
        ),
        (
            (
                f'{TWO} pod "ml/a-0" {MEMBER % 3}'
                ' expect reject "n" by "together" message "members fit"'
            ),
            "`n` is rejected with another message",
            "it is `waits for its gang: 2 of 3 members exist`",
        ),
        (
            f'node "n" pod "ml/a-0" {MEMBER % 1} expect wait "n" by "together"',
            "the pod is not held on `n`",
            "it is bound at once",
        ),
        (
            (
                f'node "n" pod "ml/a-1" {MEMBER % 2} on "n" pod "ml/a-0" {MEMBER % 2}'
                ' expect wait "n" by "together"'
            ),
            "the pod is not held on `n`",
            "it is bound at once",
        ),
        (
            (
                'node "n" pod "ml/a" {"annotations": {"ready": "no"}}'
                ' expect wait "n" by "ready" message "not ready"'
            ),
            None,
            None,
        ),
        (
            'node "n" pod "ml/a" {"annotations": {"ready": "no"}} expect wait "n" by "together"',
            "the pod is held on `n` by another clause",
            "held by `ready`: not ready",
        ),
        (
            'node "n" pod "ml/a" expect wait "n" by "ready"',
            "the pod is not held on `n`",
            "it is bound at once",
        ),
        ('node "n" pod "ml/a" expect bind "n"', None, None),
        (f'node "n" pod "ml/a-0" {MEMBER % 1} expect bind "n"', None, None),
        (
            f'{TWO} pod "ml/a-0" {MEMBER % 2} expect bind "n"',
            "the pod is held on `n`",
            "held by `together`: 1 of 2 members are here",
        ),
        (
            f'{TWO} pod "ml/a-0" {MEMBER % 3} expect bind "n"',
            "`n` does not pass",
            "rejected by `together`: waits for its gang: 2 of 3 members exist",
        ),
    ],
)
def test_a_binding_is_held_by_a_gang_or_a_condition(
    run_test: RunTest, items: str, message: str | None, label: str | None
) -> None:
    found = run_test(HELD, items).diagnostics
    expected = [] if message is None else [(message, label)]
    assert [(each.message, each.label) for each in found] == expected


def test_each_binding_is_the_first_of_its_gang(run_test: RunTest) -> None:
    """The gang of one test gathers anew for each node: a member is held on any of them."""
    nodes = f'{TWO} node "m" pod "ml/a-0" {MEMBER % 2}'
    held = 'by "together" message "1 of 2 members are here"'
    expected = f'expect wait "n" {held} expect wait "m" {held} expect wait "n" {held}'
    assert run_test(HELD, f"{nodes} {expected}").diagnostics == ()


def test_members_that_wait_count_in_strict_counts(run_test: RunTest) -> None:
    """The places of the other members stay in flight until the binding of the pod."""
    apart = 'limit "apart" { pods where "job" in peer.labels per node at most 1 strict }'
    policy = HELD.replace(" gang", f" {apart} gang", 1)
    items = f'{TWO} pod "ml/a-0" {MEMBER % 2}'
    waits = 'expect reject "n" by "together" message "1 of 2 members fit"'
    assert run_test(policy, f"{items} {waits}").diagnostics == ()
    held = 'node "m" expect wait "n" by "together"'
    assert run_test(policy, f"{items} {held}").diagnostics == ()


def test_only_clauses_that_wait_hold(run_test: RunTest) -> None:
    policy = HELD.replace(" gang", ' filter "good" { require node.ready } gang', 1)
    result = run_test(policy, f'{TWO} pod "ml/a-0" {MEMBER % 2} expect wait "n" by "good"')
    assert result.outcome == "error"
    (found,) = result.diagnostics
    assert found.message == "there is no waiting clause `good` in this test"
