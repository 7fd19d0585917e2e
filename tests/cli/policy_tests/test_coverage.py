"""The branches of each kind of clause, and those that a test takes."""

from pathlib import Path

import pytest

from tests.cli.policy_tests.conftest import run

RAN = 'node "n" pod "shop/p" {"labels": {"app": "web"}}'
ONE = 'limit "l" { pods where peer.labels["app"] == "web" per node at most 1 strict }'


@pytest.mark.parametrize(
    ("policy", "items", "missed"),
    [
        ('filter "f" { require node.ready }', "", ['filter "f" never rejected a node']),
        ('bind "f" { require !node.ready }', "", ['bind "f" never accepted a node']),
        (
            'filter "f" { require node.ready require node.zone == "a" missing fail }',
            "",
            ['filter "f" never accepted a node'],
        ),
        (
            'filter "f" when pod.priority > 5 { require node.ready }',
            "",
            ['filter "f" never rejected a node'],
        ),
        (
            'bind "b" { require node.ready wait until pod.name == "r" for at most 5s }',
            "",
            ['bind "b" never rejected a node'],
        ),
        (
            'bind "b" { wait until pod.name == "r" for at most 5s }',
            'pod "shop/q" expect held "n" by "b"',
            [],
        ),
        ('score "s" weight 1 { value 1 }', 'expect score "n" == 0', []),
        (
            'score "s" weight 1 when pod.priority > 5 { value 1 }',
            "",
            ['score "s" was never computed'],
        ),
        (ONE, "", ['limit "l" never rejected a node']),
        (
            ONE,
            'pod "shop/q" {"labels": {"app": "web"}} on "n"',
            ['limit "l" never accepted a node'],
        ),
        (
            'for pods where pod.labels["app"] == "web" filter "f" { require node.ready }',
            "",
            ["policy shop/p never skipped a pod", 'filter "f" never rejected a node'],
        ),
        ('preempt "k" { protect victim where victim.priority > 5 }', "", []),
    ],
)
def test_branches_that_no_test_takes(
    tmp_path: Path, policy: str, items: str, missed: list[str]
) -> None:
    file = tmp_path / "some.policy"
    file.write_text(
        f'policy p in namespace "shop" {{ {policy} }}test "it" {{ {RAN} {items} expect pass "n" }}',
        encoding="utf-8",
    )
    _, coverage = run(file)
    assert sorted(branch.never for branch in coverage.missed) == sorted(missed)


def test_policies_of_test_files_have_no_branches(tmp_path: Path) -> None:
    text = 'policy p in namespace "shop" { filter "f" { require node.ready } }'
    (tmp_path / "some_test.policy").write_text(
        f'{text} test "it" {{ {RAN} expect pass "n" }}', encoding="utf-8"
    )
    _, coverage = run(tmp_path)
    assert (coverage.branches, coverage.percent) == ((), 100.0)
