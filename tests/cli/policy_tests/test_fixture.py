"""Fixtures of policy tests: nodes, pods, rows of data, and the branches that are taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.main import main
from tests.cli.policy_tests.conftest import RunTest

NODE, POD = 'node "n"', 'pod "shop/p"'


@pytest.mark.parametrize(
    ("condition", "items"),
    [
        ("node.ready", NODE),
        ('node.allocatable["cpu"] == quantity("8")', NODE),
        ('node.free["memory"] == quantity("32Gi")', NODE),
        ('node.allocatable["pods"] == 110', NODE),
        ('node.age == "24h"', NODE),
        ('node.labels["kubernetes.io/hostname"] == "n"', NODE),
        ("!node.ready", NODE + '{"ready": false}'),
        ('node.zone == "a" && node.region == "b"', NODE + '{"zone": "a", "region": "b"}'),
        ('node.age == "15m"', NODE + '{"age": "15m"}'),
        (
            'node.uid == "u" && node.annotations["a"] == "b"',
            NODE + '{"uid": "u", "annotations": {"a": "b"}}',
        ),
        ('node.free["gpus"] == 2 && node.free["cpu"] == 8', NODE + '{"allocatable": {"gpus": 2}}'),
        ("node.spec.unschedulable", NODE + '{"spec": {"unschedulable": true}}'),
        (
            'node.spec.taints.exists(t, t.effect == "NoExecute")',
            NODE + '{"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}',
        ),
        (
            'node.ready && node.status.nodeInfo.kubeletVersion == "v1.36.2"',
            NODE + '{"status": {"nodeInfo": {"kubeletVersion": "v1.36.2"}}}',
        ),
        (
            'now - node.metadata.creationTimestamp == duration("90m")',
            NODE + '{"metadata": {"creationTimestamp": now - duration("90m")}}',
        ),
        ('now == timestamp("2026-01-01T00:00:00Z")', NODE),
        ('now == timestamp("2026-01-31T12:00:00Z")', NODE + 'at "2026-01-31T13:00:00+01:00"'),
        ('namespaceObject.labels["kubernetes.io/metadata.name"] == "shop"', NODE),
        (
            (
                'namespaceObject.labels["team"] == "web" && namespaceObject.annotations["a"] == "b"'
                ' && namespaceObject.labels["kubernetes.io/metadata.name"] == "shop"'
            ),
            NODE + 'namespace "shop" {"labels": {"team": "web"}, "annotations": {"a": "b"}}',
        ),
        ('!("team" in namespaceObject.labels)', NODE + 'namespace "ads" {"labels": {"team": "a"}}'),
    ],
)
def test_node_has_defaults_and_given_fields(run_test: RunTest, condition: str, items: str) -> None:
    policy = f'cluster policy p {{ filter "f" {{ require {condition} }} }}'
    assert run_test(policy, f'{items} {POD} expect pass "n"').diagnostics == ()


@pytest.mark.parametrize(
    ("condition", "body"),
    [
        ('pod.namespace == "shop" && pod.name == "p"', ""),
        ('pod.priority == 0 && pod.requests["cpu"] == 0 && pod.age == "0s"', ""),
        ('pod.labels["a"] == "b"', '{"labels": {"a": "b"}}'),
        ('pod.requests["cpu"] == quantity("500m")', '{"requests": {"cpu": "500m"}}'),
        ('pod.requests["memory"] == "3Gi"', '{"requests": {"memory": quantity("1Gi") * 3}}'),
        ('pod.limits["memory"] == "1Gi"', '{"limits": {"memory": "1Gi"}}'),
        ("pod.priority == 7", '{"priority": 7}'),
        ('pod.age == "1h"', '{"age": duration("1h")}'),
        ('pod.workload.kind == "Deployment"', '{"workload": {"name": "web"}}'),
        ("pod.workload.replicas == 1", '{"workload": {"name": "web"}}'),
        ("pod.workload.replicas == 5", '{"workload": {"name": "web", "replicas": 5}}'),
        (
            'pod.group.name == "g" && pod.group.minCount == 3',
            '{"group": {"name": "g", "minCount": 3}}',
        ),
        ("pod.group.name == 'g' && !has(pod.group.minCount)", '{"group": {"name": "g"}}'),
        (
            'pod.workload.kind == "Job" && pod.workload.replicas == 3',
            '{"workload": {"kind": "Job", "name": "sum", "replicas": 3}}',
        ),
        ('pod.spec.containers[0].image == "i"', '{"spec": {"containers": [{"image": "i"}]}}'),
        ("pod.status.startTime < now", '{"status": {"startTime": now - duration("1s")}}'),
    ],
)
def test_pod_has_defaults_and_given_fields(run_test: RunTest, condition: str, body: str) -> None:
    policy = f'cluster policy p {{ filter "f" {{ require {condition} }} }}'
    assert run_test(policy, f'{NODE} {POD} {body} expect pass "n"').diagnostics == ()


@pytest.mark.parametrize(
    ("items", "message", "hint"),
    [
        (NODE + '{"lables": {}}', "Node has no field `lables`", "a similar name exists: `labels`"),
        (
            NODE + '{"spec": {"unschedulabel": true}}',
            "NodeSpec has no field `unschedulabel`",
            "a similar name exists: `unschedulable`",
        ),
        (
            NODE + '{"spec": {"taints": [{"efect": "k"}]}}',
            "Taint has no field `efect`",
            "a similar name exists: `effect`",
        ),
        (
            NODE + '{"requested": {}}',
            "a test cannot set `requested`",
            "it is computed from the pods on the node",
        ),
        (NODE + '{"name": "m"}', "a test cannot set `name`", "write it before the fields"),
        (
            'pod "b" {"hostPorts": []}',
            "a test cannot set `hostPorts`",
            "set `ports` of a container in `spec`",
        ),
        (NODE + '{"age": "soon"}', "this is not an age: ", None),
        (NODE + '{"ready": "yes"}', "this must be true or false", None),
        (NODE + '{"zone": 1}', "a zone must be a string", None),
        (NODE + '{"labels": []}', "this is not a map", None),
        (NODE + '{"labels": {}, "labels": {}}', "`labels` is given twice", None),
        (NODE + "{1: 2}", "a field name must be a string", None),
        (
            NODE + '{"zone": pod.name}',
            "this cannot be evaluated: ",
            "use constants, which may read `now`",
        ),
        (NODE + '{"allocatable": {"cpu": "many"}}', "bad Node at `status.capacity[...]`", None),
        (
            NODE + '{"uid": 1 / 0}',
            "this cannot be evaluated: ",
            "use constants, which may read `now`",
        ),
        (
            NODE + 'pod "b" {"workload": {}}',
            "the workload has no name",
            'as in {"name": "web", "replicas": 5}',
        ),
        (
            NODE + 'pod "b" {"group": {"minCount": 3}}',
            "the group has no name",
            'as in {"name": "bert", "minCount": 4}',
        ),
        (
            NODE + 'pod "b" {"group": {"name": "g", "minCount": 0}}',
            "`minCount` must be a whole number from 1",
            None,
        ),
        (NODE + 'pod "b" {"priority": "high"}', "", None),
        (NODE + 'pod "b" on "m"', "there is no node `m` in this test", None),
        (NODE + 'at "noon"', "this is not a time: ", "as in 2026-01-31T12:00:00Z"),
        (
            NODE + 'pod "b" {"workload": {"name": "w", "replicas": "3"}}',
            "`replicas` must be a whole number from 0",
            None,
        ),
        (
            NODE + 'pod "b" {"requests": {}, "spec": {"containers": []}}',
            "a test cannot set `containers`",
            "set `resources` in `containers`, or set `requests` and `limits` without it",
        ),
        (
            NODE + 'pod "b" {"metadata": {"name": "c"}}',
            "a test cannot set `name`",
            "write it before the fields",
        ),
        (
            NODE + 'pod "b" {"spec": {"nodeName": "n"}}',
            "a test cannot set `nodeName`",
            'write `on "NODE"` after the pod',
        ),
        (NODE + 'pod "a/b/c"', "`a/b/c` is not a valid name", "as in `shop/web-1`"),
        (NODE + 'node ""', "the name is empty", "as in `node-1`"),
        (NODE + NODE, "`n` is given twice", None),
        (NODE + 'namespace "a" namespace "a"', "`a` is given twice", None),
        (NODE + 'namespace "a/b"', "`a/b` is not a valid name", "as in `shop`"),
        (
            NODE + 'namespace "a" {"lables": {}}',
            "Namespace has no field `lables`",
            "a similar name exists: `labels`",
        ),
        (NODE + 'namespace "a" {"labels": {"a": 1}}', "bad Namespace at `metadata.labels", None),
        (
            NODE + 'at "2026-01-31T12:00:00Z" at "2026-01-31T13:00:00Z"',
            "the time is given twice",
            None,
        ),
        ("", "the test has no node", 'add one, as in `node "node-1"`'),
    ],
)
def test_test_that_cannot_be_set_up(
    run_test: RunTest, items: str, message: str, hint: str | None
) -> None:
    result = run_test(
        'cluster policy p { filter "f" { require node.ready } }', f'{items} {POD} expect pass "n"'
    )
    assert result.outcome == "error"
    (found,) = result.diagnostics
    assert found.message.startswith(message)
    assert found.hint == hint
    assert result.suite.source.slice(found.span)


# ---- rows of tables in tests of policies: their age, and what is wrong with them


POLICY = """cluster policy p {
  for pods where true
  data "load" { from metrics for at most 2h }
  filter "not hot" { require data.load[node.name].cpu < "6" missing pass }
}
"""
REST = """  node "n1"
  pod "shop/a"
  expect reject "n1" by "not hot"
}
"""


def outcome(folder: Path, capsys: pytest.CaptureFixture[str], rows: str) -> tuple[int, str]:
    file = folder / "p.policy"
    file.write_text(f'{POLICY}test "t" {{\n  {rows}\n{REST}')
    code = main(["test", str(file)])
    return code, capsys.readouterr().out


@pytest.mark.parametrize(("age", "code"), [("119m", 0), ("121m", 1)])
def test_a_row_can_be_as_old_as_it_says(
    age: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = f'data "load" {{ "n1": {{"cpu": "7", "age": "{age}"}} }}'
    assert outcome(tmp_path, capsys, rows)[0] == code


@pytest.mark.parametrize(
    ("rows", "error", "hint"),
    [
        (
            'data "laod" { "n1": {"cpu": "7"} }',
            'no policy here has `data "laod"`',
            "write `load`",
        ),
        (
            'data "load" { "n1": {"cpu": "hot"} }',
            "data load: row `n1`, column `cpu`: `hot` is not a quantity",
            "fix the rows of `load`",
        ),
        (
            'data "load" { "n1": {"cpu": "7", "age": "old"} }',
            "data load: row `n1`, column `age`: write a number and a unit",
            "fix the rows of `load`",
        ),
    ],
)
def test_wrong_rows_are_an_error_of_their_test(
    rows: str, error: str, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = outcome(tmp_path, capsys, rows)
    assert code == 1
    assert f"error: {error}" in out
    assert f"= help: {hint}" in out
