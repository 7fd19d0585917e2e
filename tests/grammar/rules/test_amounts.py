"""Checks of amounts: filters that add up what pods ask for, and the limits to write instead."""

from __future__ import annotations

import pytest

from tests.grammar.rules.helpers import diagnostics, found

CPU = 'node.pods.map(p, p.requests["cpu"]).sum()'


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        pytest.param(f'filter "f" {{ require {CPU} <= "4" }}', [f"P0318 {CPU}"], id="requests"),
        pytest.param(
            'filter "f" { require node.pods.map(p, p.limits["cpu"]).sum() <= "4" }',
            ['P0318 node.pods.map(p, p.limits["cpu"]).sum()'],
            id="limits",
        ),
        pytest.param(
            'filter "f" { require node.pods.filter(p, p.namespace == "web")'
            '.map(p, p.requests["cpu"]).sum() + pod.requests["cpu"] <= "4" }',
            ['P0318 node.pods.filter(p, p.namespace == "web").map(p, p.requests["cpu"]).sum()'],
            id="of some pods",
        ),
        pytest.param(
            f'let used = {CPU} filter "f" {{ require used <= "4" }}', [f"P0318 {CPU}"], id="a let"
        ),
        pytest.param(
            "def used(r: string): quantity = node.pods.map(p, p.requests[r]).sum()"
            ' filter "f" { require used("cpu") <= "4" }',
            ['P0318 used("cpu")'],
            id="a def",
        ),
        pytest.param(
            'let all = node.pods.map(p, p.requests["cpu"]) filter "f" { require all.sum() <= "4" }',
            ["P0318 all.sum()"],
            id="what is added up is a let",
        ),
        pytest.param(f'bind "f" {{ require {CPU} <= "4" }}', [], id="checked at the binding"),
        pytest.param(
            f'score "f" weight 10 {{ value {CPU} range "0" .. "4" }}', [], id="a preference"
        ),
        pytest.param(
            'filter "f" { require node.pods.exists(p, p.requests["cpu"] > "1") }',
            [],
            id="nothing is added up",
        ),
        pytest.param(
            'filter "f" { require node.pods.map(p, p.priority).sum() < 4 }', [], id="no amounts"
        ),
        pytest.param(
            'filter "f" { require pod.requests["cpu"] <= "4" }', [], id="of the pod itself"
        ),
    ],
)
def test_sums_in_filters(items: str, wanted: list[str]) -> None:
    assert found(items, ["P0318"]) == wanted


@pytest.mark.parametrize(
    "items",
    [
        pytest.param(f'filter "f" {{ require {CPU} < "4" }}', id="another relation"),
        pytest.param(f'filter "f" when node.ready {{ require {CPU} <= "4" }}', id="a `when`"),
        pytest.param(f'filter "f" {{ require {CPU} <= "4" require node.ready }}', id="two rules"),
        pytest.param(f'filter "f" {{ require {CPU} - "1" <= "4" }}', id="a difference"),
        pytest.param(f'filter "f" {{ require {CPU} <= "1" || node.ready }}', id="an alternative"),
        pytest.param(
            f'filter "f" {{ require {CPU} + node.free["cpu"] <= "4" }}', id="more than the pod"
        ),
        pytest.param(
            f'filter "f" {{ require {CPU} <= (now > node.metadata.creationTimestamp ? '
            'quantity("4") : quantity("2")) }',
            id="a bound that changes with the time",
        ),
    ],
)
def test_the_form_of_a_limit_is_hinted_at(items: str) -> None:
    (warning,) = diagnostics(items, ["P0318"])
    form = "`limit … { sum … of all pods where … per node at most … strict }`"
    assert warning.hint == f"write a {form} instead, which counts them"
