"""Checks of amounts: filters that add up what pods ask for, and the limits to write instead."""

from __future__ import annotations

from tests.grammar.rules.helpers import diagnostics, found
from tests.support.rows import rows

CPU = 'node.pods.map(p, p.requests["cpu"]).sum()'


@rows(
    ("items", "wanted"),
    {
        "requests": (f'filter "f" {{ require {CPU} <= "4" }}', [f"P0318 {CPU}"]),
        "limits": (
            'filter "f" { require node.pods.map(p, p.limits["cpu"]).sum() <= "4" }',
            ['P0318 node.pods.map(p, p.limits["cpu"]).sum()'],
        ),
        "of some pods": (
            (
                'filter "f" { require node.pods.filter(p, p.namespace == "web")'
                '.map(p, p.requests["cpu"]).sum() + pod.requests["cpu"] <= "4" }'
            ),
            ['P0318 node.pods.filter(p, p.namespace == "web").map(p, p.requests["cpu"]).sum()'],
        ),
        "a let": (f'let used = {CPU} filter "f" {{ require used <= "4" }}', [f"P0318 {CPU}"]),
        "a def": (
            (
                "def used(r: string): quantity = node.pods.map(p, p.requests[r]).sum()"
                ' filter "f" { require used("cpu") <= "4" }'
            ),
            ['P0318 used("cpu")'],
        ),
        "what is added up is a let": (
            'let all = node.pods.map(p, p.requests["cpu"]) filter "f" { require all.sum() <= "4" }',
            ["P0318 all.sum()"],
        ),
        "checked at the binding": (f'bind "f" {{ require {CPU} <= "4" }}', []),
        "a preference": (f'score "f" weight 10 {{ value {CPU} range "0" .. "4" }}', []),
        "nothing is added up": (
            'filter "f" { require node.pods.exists(p, p.requests["cpu"] > "1") }',
            [],
        ),
        "no amounts": ('filter "f" { require node.pods.map(p, p.priority).sum() < 4 }', []),
        "of the pod itself": ('filter "f" { require pod.requests["cpu"] <= "4" }', []),
    },
)
def test_sums_in_filters(items: str, wanted: list[str]) -> None:
    assert found(items, ["P0318"]) == wanted


@rows(
    "items",
    {
        "another relation": f'filter "f" {{ require {CPU} < "4" }}',
        "a `when`": f'filter "f" when node.ready {{ require {CPU} <= "4" }}',
        "two rules": f'filter "f" {{ require {CPU} <= "4" require node.ready }}',
        "a difference": f'filter "f" {{ require {CPU} - "1" <= "4" }}',
        "an alternative": f'filter "f" {{ require {CPU} <= "1" || node.ready }}',
        "more than the pod": f'filter "f" {{ require {CPU} + node.free["cpu"] <= "4" }}',
        "a bound that changes with the time": (
            f'filter "f" {{ require {CPU} <= (now > node.metadata.creationTimestamp ? '
            'quantity("4") : quantity("2")) }'
        ),
    },
)
def test_the_form_of_a_limit_is_hinted_at(items: str) -> None:
    (warning,) = diagnostics(items, ["P0318"])
    form = "`limit … { sum … of all pods where … per node at most … strict }`"
    assert warning.hint == f"write a {form} instead, which counts them"
