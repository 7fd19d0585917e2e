"""Gangs, and bindings that wait: what their parts may be, and what is said of other parts."""

from __future__ import annotations

import pytest

from grammar.clauses.gang import Gang
from grammar.meaning.schema import load_schema
from grammar.tree.policy import of_kind
from grammar.tree.source import Source
from policies.validation import Validator, check_source
from tests.grammar.rules import helpers

BY = 'of pods by peer.labels["job"]'
IS_CHIEF = 'where peer.labels["role"] == "chief"'
ROLE = f"at least 1 of pods {IS_CHIEF}"


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
        (gang(f"{BY} {ROLE} at least 4 of pods where peer.priority > 5"), []),
        (gang(f"{BY} at least 5 {ROLE} message 'm'"), []),
        (gang(f"{ROLE} at least 50%"), []),
        (gang(f"{BY} at least 5 {ROLE} at least 5"), ["P0201 at least 5"]),
        (gang(f"{BY} {ROLE} of pods where true"), ["P0214 true"]),
        (gang("of pods where peer.priority > 5 at least 2"), ["P0214 peer.priority > 5"]),
        (gang(f"{BY} at least 50% of pods where peer.priority > 5"), ["P0214 at least 50%"]),
        (gang(f"{BY} at least 0 of pods where peer.priority > 5"), ["P0204 0"]),
        (gang(f"{BY} at least 1 of pods where pod.name == ''"), ["P0111 pod.name"]),
        (gang(f"{BY} at least 1 of pods where peer.name"), ["P0105 peer.name"]),
        (gang("of pods by peer.labels at least 2"), ["P0105 peer.labels"]),
        (gang("within pod.name"), ["P0111 pod.name"]),
        (gang("within node.labels"), ["P0105 node.labels"]),
        (gang("within 'rack'"), ["P0157 'rack'"]),
        (gang("of pods by peer.nodeName at least 2"), ["P0341 peer.nodeName"]),
        (f"let phase = peer.phase {gang('of pods by phase at least 2')}", ["P0341 peer.phase"]),
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
    assert held.scheduler_needs == {"one decider"}
    assert held.held_seconds == 60
    assert waiting.scheduler_needs == {"check at binding"}
    assert waiting.held_seconds > 0


@pytest.mark.parametrize(
    ("by", "wanted"),
    [
        ('peer.labels["job"]', []),
        ('peer.name.split("-")[0]', []),
        ("peer.workload.name", []),
        ("peer.name", ["P0341 peer.name"]),
        ("peer.uid", ["P0341 peer.uid"]),
        ('"all"', ['P0341 "all"']),
        ("1 + 1", ["P0341 1 + 1"]),
    ],
)
def test_values_that_name_no_gang(by: str, wanted: list[str]) -> None:
    """What is the same for all pods, and what each pod has of its own."""
    assert helpers.found(gang(f"of pods by {by} at least 2"), ["P0341"]) == wanted


CHIEF, WORKER = 'peer.labels["role"] == "chief"', 'peer.labels["role"] == "worker"'


@pytest.mark.parametrize(
    ("parts", "wanted"),
    [
        ("at least 500", []),
        ("at least 2000", ["P0362 at least 2000"]),
        (f"{ROLE} at least 400 of pods where {WORKER}", []),
        (f"at least 200 of pods where {CHIEF} at least 301 of pods where {WORKER}", ["P0362"]),
        (f"at least 2 {ROLE} at least 3 of pods where {WORKER}", ["P0362 at least 2"]),
        (f"at least 4 {ROLE} at least 3 of pods where {WORKER}", []),
        (f"at least 3 {ROLE} at least int(pod.labels['n']) of pods where {WORKER}", []),
        (f"{ROLE} at least 2 of pods where {CHIEF} && peer.priority > 5", ["P0362"]),
        (f"at least 2 of pods where {CHIEF} && peer.priority > 5 {ROLE}", []),
        ("at least 1 of pods where true at least 1 of pods where peer.name == 'a'", ["P0362"]),
        ("at least 1 of pods where false", ["P0302 false"]),
        ("at least 1 of pods where peer.nodeName == ''", ["P0362 peer.nodeName"]),
        ("at least 1 of pods where peer.phase == 'Pending'", ["P0362 peer.phase"]),
    ],
)
def test_numbers_and_roles_that_no_gang_has(parts: str, wanted: list[str]) -> None:
    found = helpers.found(gang(f"{BY} {parts}"), ["P0362", "P0302"])
    assert len(found) == len(wanted)
    assert all(w in f for w, f in zip(wanted, found, strict=True)), found


@pytest.mark.parametrize(
    ("first", "second", "severity"),
    [
        ("", "", "error"),
        ("", 'when pod.labels["a"] == "x"', "error"),
        ("when is", "when is", "error"),
        ("when is", 'when pod.labels["a"] == "x"', "error"),
        ("when is", 'when pod.labels["b"] == "y"', "warning"),
        ("when is", "when pod.spec.priority > 5", "warning"),
        ("when is", "when !is", None),
        ("when is", 'when pod.labels["a"] in ["y", "z"]', None),
        ("when is && pod.spec.priority > 5", "when pod.spec.priority <= 5", None),
        ('when has(pod.labels["a"])', 'when !has(pod.labels["a"])', None),
    ],
)
def test_two_gangs_of_the_same_pods(first: str, second: str, severity: str | None) -> None:
    """An error where both apply to some pod, a warning where they may."""
    items = f'let is = pod.labels["a"] == "x" gang "1" {first} {{ }} gang "2" {second} {{ }}'
    found = helpers.diagnostics(items, ["P0342", "P0303"])
    assert [d.severity for d in found if d.code == "P0342"] == [severity][: severity is not None]


def test_a_gang_of_a_used_policy_is_another_gang() -> None:
    """The error is at the `use`."""
    text = """policy used in namespace "n" { for pods where false gang "g" { } }
    policy own in namespace "n" { use "used" gang "h" { } }
    policy apart in namespace "n" { use "used" filter "f" { require node.ready } }"""
    source = Source("p.policy", text)
    validation = Validator(load_schema()).validate([source])
    found = [f"{d.code} {source.slice(d.span)}" for d, _ in validation.findings()]
    assert found == ['P0342 use "used"']


@pytest.mark.parametrize(
    ("wrong", "mended"),
    [
        (gang("minMember 8"), gang("at least 8")),
        (gang("min_member: 8"), gang("at least 8")),
        (gang("minAvailable 8"), gang("at least 8")),
        (gang("at least 8 strict"), gang("at least 8 ")),
        (gang("over node.zone"), gang("within node.zone")),
        ('podGroup "g" { at least 8 }', gang("at least 8")),
        ('bind "b" { wait node.ready for at most 1m }', wait("node.ready")),
    ],
)
def test_what_others_write_has_a_remedy(wrong: str, mended: str) -> None:
    """A word of coscheduling, Volcano or Kueue, or of another clause: the edit makes it right."""
    text = f'policy p in namespace "n" {{ {wrong} }}'
    (found,) = check_source(Source("p.policy", text), load_schema()).diagnostics
    assert found.remedy is not None
    edit = found.remedy
    made = text[: edit.span.start] + edit.text + text[edit.span.end :]
    assert " ".join(made.split()) == " ".join(f'policy p in namespace "n" {{ {mended} }}'.split())
    assert not check_source(Source("p.policy", made), load_schema()).diagnostics
