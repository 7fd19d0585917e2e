"""Gangs, and bindings that wait: what their parts may be, and what is said of other parts."""

from __future__ import annotations

import pytest

from grammar.meaning.schema import load_schema
from grammar.tree.clauses import Gang, of_kind
from grammar.tree.source import Source
from policies.validation import check_source

BY = 'of pods by peer.labels["job"]'


def said(items: str) -> list[str]:
    """The errors of a policy of these items: code, and what stands at its place."""
    source = Source("p.policy", f'policy p in namespace "n" {{ {items} }}')
    found = check_source(source, load_schema()).diagnostics
    return [f"{d.code} {source.slice(d.span)}" for d in found if d.severity == "error"]


def gang(parts: str) -> str:
    return f'gang "g" {{ {parts} }}'


def wait(condition: str, length: str = "1m") -> str:
    return f'bind "b" {{ wait until {condition} for at most {length} }}'


@pytest.mark.parametrize(
    ("items", "wanted"),
    [
        (gang(""), []),
        (gang("of replicas at least 50%"), []),
        (gang(f"{BY} at least 8 within node.zone for at most 1h30m message 'm'"), ["P0215 1h30m"]),
        (gang(f'{BY} at least int(pod.annotations["members"])'), []),
        (gang(f'{BY} at least pod.annotations["m"]'), ['P0105 pod.annotations["m"]']),
        (gang(BY), ['P0202 "g"']),
        (gang(f"{BY} at least 8%"), ['P0214 "g"']),
        (gang(f"{BY} at least 0"), ["P0204 0"]),
        (gang(f"{BY} at least 1 - 1"), ["P0204 1 - 1"]),
        (gang("at least 0%"), ["P0204 0%"]),
        (gang("at least 101%"), ["P0204 101%"]),
        (gang(f"{BY} at least now.getHours()"), ["P0111 now"]),
        (gang(f"{BY} at least size(node.labels)"), ["P0111 node.labels"]),
        (gang("of pods by pod.name at least 2"), ["P0111 pod.name"]),
        (gang("of pods by peer.labels at least 2"), ["P0105 peer.labels"]),
        (gang("within pod.name"), ["P0111 pod.name"]),
        (gang("within node.labels"), ["P0105 node.labels"]),
        (gang("within 'rack'"), ["P0157 'rack'"]),
        (gang("for at most 1m for at most 2m"), ["P0201 for at most 2m"]),
        (wait("true == pod.spec.hostNetwork && node.ready"), []),
        (wait("pod.name"), ["P0105 pod.name"]),
        (wait("now > timestamp('2026-01-01T00:00:00Z')"), ["P0111 now"]),
        (wait("node.ready", "2h"), ["P0215 2h"]),
        (wait("node.ready", "0.5s"), ["P0215 0.5s"]),
        ('bind "b" { message "m" }', ['P0202 "b"']),
    ],
)
def test_the_parts_of_a_gang_and_of_a_wait(items: str, wanted: list[str]) -> None:
    """Each error is at the part that is wrong."""
    assert said(items) == wanted


@pytest.mark.parametrize(
    ("length", "seconds"), [("1s", 1), ("90s", 90), ("2m", 120), ("1m30s", 90), ("0.5h", 1800)]
)
def test_lengths_of_time(length: str, seconds: float) -> None:
    """A member is held for a minute if nothing else is written."""
    source = Source("p.policy", f"cluster policy p {{ {gang(f'for at most {length}')} }}")
    (checked,) = check_source(source, load_schema()).policies
    (found,) = of_kind(checked.policy.items, Gang)
    assert found.seconds == seconds


def test_what_gangs_need_of_kube_scheduler() -> None:
    """A gang needs one decider and a binding that waits, and the latter is all a wait adds."""
    items = f"{gang('')} {wait('node.ready')}"
    source = Source("p.policy", f"cluster policy p {{ {items} }}")
    (checked,) = check_source(source, load_schema()).policies
    held, waiting = checked.policy.clauses
    assert held.scheduler_needs == {"one decider", "waiting binding"}
    assert waiting.scheduler_needs == {"check at binding", "waiting binding"}
