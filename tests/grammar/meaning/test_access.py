"""Tests of access: every field of a pod, and reads of fields through other names."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammar.meaning.access import OPEN_FIELDS
from grammar.messages.diagnostics import Diagnostic
from grammar.tree.source import Source
from grammar.tree.types import Type
from policies.validation import check_source
from tests.support.books import section
from tests.support.engines import SCHEMA

NAMESPACED = 'policy p in namespace "shop"'
CLUSTER = "cluster policy p"
EVERYWHERE = "policy p"


def diagnostics(items: str, head: str = NAMESPACED) -> Sequence[Diagnostic]:
    text = f"{head} {{ {items} }}"
    return check_source(Source("p.policy", text), SCHEMA).diagnostics


def refused(items: str) -> list[str]:
    """The messages of reads that a policy of a namespace may not make; no other errors."""
    found = diagnostics(items)
    others = [d for d in found if d.severity == "error" and d.code != "P0120"]
    assert not others, others
    return [d.message for d in found if d.code == "P0120"]


def paths_of(start: str, record: str) -> dict[tuple[str, str], str]:
    """An expression for each field of each record below a start, by the record and the field."""
    found: dict[tuple[str, str], str] = {}
    queue, seen = deque([(start, record)]), {record}
    while queue:
        path, name = queue.popleft()
        for field in SCHEMA.records[name].fields.values():
            here = f"{path}.{field.name}"
            if field.parameter is not None:
                continue
            found[name, field.name] = here
            kind: Type = field.type
            while kind.name in ("list", "map"):
                here += "[0]" if kind.name == "list" else '["k"]'
                kind = kind.args[-1]
            if kind.is_record and kind.name not in seen:
                seen.add(kind.name)
                queue.append((here, kind.name))
    return found


POD = paths_of("pod", "Pod")
PEER = tuple(SCHEMA.records["Peer"].fields)
# `age` is a short form of `created`.
OPEN = {*OPEN_FIELDS, "age"}


# ---- every field


def test_each_field_of_the_pod() -> None:
    """Only the values of `env` are closed."""
    # `has` takes a selection, which not every short form is.
    tests = {
        field: f"dyn({path}) == 1" if field[1] in ("age", "priority") else f"has({path})"
        for field, path in POD.items()
    }
    found = [f for f, test in tests.items() if refused(f'filter "f" {{ require {test} }}')]
    assert found == [("EnvVar", "value")]


@pytest.mark.parametrize(
    "clause",
    [
        'filter "f" {{ require node.pods.exists(p, dyn(p.{}) == 1) }}',
        'score "f" weight 1 {{ value node.pods.exists(p, dyn(p.{}) == 1) }}',
        'filter "f" {{ require node.ready detail "{{node.pods.map(p, p.{})}}" }}',
        'preempt "f" {{ protect pods where dyn(victim.{}) == 1 }}',
        'preempt "f" {{ require victims.exists(v, dyn(v.{}) == 1) }}',
        'preempt "f" {{ pick 1 least victims.filter(v, dyn(v.{}) == 1).size() }}',
        'limit "f" {{ all pods where dyn(peer.{}) == 1 per node at most 1 strict }}',
        (
            'share "f" {{ all pods where dyn(peer.{}) == 1 on nodes where node.ready'
            " at most 1 strict }}"
        ),
    ],
    ids=["filter", "score", "detail", "protect", "allow", "keep", "limit", "share"],
)
def test_each_field_of_other_pods(clause: str) -> None:
    assert {field for field in PEER if not refused(clause.format(field))} == OPEN


def test_each_field_of_pods_of_the_own_namespace() -> None:
    own = 'limit "f" {{ pods where dyn(peer.{0}) == 1 per node at most 1 strict }}'
    assert [field for field in PEER if refused(own.format(field))] == []


def test_each_field_that_a_sum_adds_up() -> None:
    added = 'limit "f" {{ sum dyn(peer.{}) of {}pods where true per node at most 1 strict }}'
    fields = {*PEER} - {"age"}
    assert not any(refused(added.format(field, "")) for field in fields)
    assert {f for f in fields if not refused(added.format(f, "all "))} == OPEN - {"age"}


def test_the_reference_lists_these_fields() -> None:
    page = section("language", "What a policy may read")
    (row,) = (line for line in page.splitlines() if "clause with `all pods`" in line)
    assert set(re.findall(r"`(\w+)`", row.split("|")[2])) == OPEN


def test_names_of_variables_can_be_read() -> None:
    text = 'pod.spec.containers.exists(c, c.env.exists(e, e.name == "A" && !has(e.valueFrom)))'
    assert refused(f'filter "f" {{ require {text} }}') == []


# ---- reads behind other names

# What may be done with an object without reading it.
_STEPS = (
    "cel.bind(x, {}, x)",
    "[{}][0]",
    "[{}].first().value()",
    "[[{}]].flatten()[0]",
    "[{}].reverse().slice(0, 1)[0]",
    '{{"a": {}}}["a"]',
    "optional.of({}).value()",
    "optional.of({0}).or(optional.of({0})).orValue({0})",
    "[optional.of({})].unwrapOpt()[0]",
    "(true ? {0} : {0})",
    "[{}].map(peer, peer)[0]",
    "[{}].filter(pod, true)[0]",
    "[{}].sortBy(x, 1)[0]",
    "[{}].transformList(i, x, x)[0]",
    '{{"a": {}}}.transformMap(k, v, v)["a"]',
    "optional.of({}).optMap(x, x).value()",
    "optional.of({}).optFlatMap(x, optional.of(x)).value()",
)
# What makes a value of unknown type of it, compares it or shows it.
_USES = (
    'dyn({}) == "a"',
    "{0} == {0}",
    "{0} in [{0}]",
    '[dyn({}), "a"].size() > 0',
    "[{}].distinct().size() > 0",
    "[{0}].indexOf({0}) == 0",
    '"%s".format([{}]) == ""',
    "type({}) == type(1)",
    "optional.ofNonZeroValue({}).hasValue()",
    '(true ? dyn("a") : {}) == "a"',
    "unwrapped({})",
    "unwrapped([{}])",
)
_DEFS = "def unwrapped(x: dyn): bool = x == 1 "
STEPS = st.lists(st.sampled_from(_STEPS), max_size=4)


def wrapped(start: str, steps: Sequence[str], *, by_let: bool) -> tuple[str, str]:
    """Definitions, and an expression for the start behind these steps."""
    lets, expression = "", start
    for number, step in enumerate(steps):
        expression = step.format(expression)
        if by_let:
            lets += f"let l{number} = {expression} "
            expression = f"l{number}"
    return lets, expression


@given(STEPS, st.booleans(), st.sampled_from(PEER))
def test_a_hidden_read_of_another_pod(steps: list[str], by_let: bool, field: str) -> None:
    lets, pod = wrapped("node.pods[0]", steps, by_let=by_let)
    items = f'{lets} filter "f" {{ require dyn({pod}.{field}) == 1 }}'
    assert bool(refused(items)) is (field not in OPEN)


@given(STEPS, st.booleans(), st.sampled_from(["annotations", "labels"]))
def test_a_hidden_read_of_a_peer_of_any_namespace(
    steps: list[str], by_let: bool, field: str
) -> None:
    lets, pod = wrapped("peer", steps, by_let=by_let)
    limit = f'limit "f" {{ all pods where "a" in {pod}.{field} per node at most 1 strict }}'
    assert bool(refused(f"{lets} {limit}")) is (field not in OPEN)


@given(STEPS, st.booleans(), st.sampled_from(["value", "?value", "name"]))
def test_a_hidden_read_of_env(steps: list[str], by_let: bool, field: str) -> None:
    lets, entry = wrapped("pod.spec.containers[0].env[0]", steps, by_let=by_let)
    items = f'{lets} filter "f" {{ require dyn({entry}.{field}) == 1 }}'
    assert bool(refused(items)) is (field != "name")


@given(
    STEPS,
    st.booleans(),
    st.sampled_from(_USES),
    st.sampled_from(["pod", "node", "pod.spec", "pod.spec.containers[0]", "node.pods[0]"]),
)
def test_a_whole_object_is_not_used(steps: list[str], by_let: bool, use: str, start: str) -> None:
    lets, value = wrapped(start, steps, by_let=by_let)
    items = f'{_DEFS} {lets} filter "f" {{ require {use.format(value)} }}'
    assert refused(items) != []


@pytest.mark.parametrize(
    "items",
    [
        (
            'let a = peer.annotations["a"] limit "f" { all pods where a == "b" per node at most 1'
            " strict }"
        ),
        (
            'def a(k: string): string = peer.annotations[k] limit "f" { all pods where'
            ' a("k") == "b" per node at most 1 strict }'
        ),
        (
            'let a = peer.annotations["a"] let b = a limit "f" { all pods where b == "b" per node'
            " at most 1 strict }"
        ),
        (
            "let all = pod.spec.containers.map(c, c.env).flatten().map(e, e.value)"
            ' filter "f" { require all == [] }'
        ),
        (
            'for pods where pod.spec.containers.exists(c, c.env.exists(e, e.value == "a"))'
            ' filter "f" { require node.ready }'
        ),
        'filter "f" when pod.spec.initContainers[0].env[0].value == "a" { require node.ready }',
        'filter "f" { require node.ready message "{pod.spec.containers[0].env[0].value}" }',
        'def d(): dyn = pod filter "f" { require d().spec.x == 1 }',
        (
            'count x per node.pods.exists(p, p.uid == "a") = pods where true'
            ' filter "f" { require x < 3 }'
        ),
    ],
)
def test_reads_in_every_part(items: str) -> None:
    assert refused(items) != []


@pytest.mark.parametrize(
    "items",
    [
        'let unused = peer.annotations["a"] filter "f" { require node.ready }',
        'let a = peer.annotations["a"] limit "f" { pods where a == "b" per node at most 1 strict }',
        'filter "f" { require node.pods.size() < 9 && size(pod.spec.containers) == 1 }',
        'filter "f" { require pod.spec.tolerations == [] && pod.spec.?affinity.hasValue() }',
    ],
)
def test_what_stays_open(items: str) -> None:
    assert refused(items) == []


# ---- policies for several namespaces


@pytest.mark.parametrize("head", [CLUSTER, f"{EVERYWHERE}"])
def test_a_policy_for_several_namespaces_is_warned_once(head: str) -> None:
    items = (
        'for pods where pod.name == "a" '
        'filter "f" { require pod.spec.containers.exists(c, c.env.exists(e, e.value == "a")) }'
        'filter "g" { require pod.spec.containers.exists(c, c.env.exists(e, e.value == "b")) }'
        'limit "h" { all pods where "a" in peer.annotations per node at most 1 strict }'
    )
    found = [d for d in diagnostics(items, head) if d.code in ("P0120", "P0316")]
    kind = head.removesuffix(" p")
    assert [(d.severity, d.message) for d in found] == [
        (
            "warning",
            f"this {kind} reads `env` values of pods and `annotations` of pods of other namespaces",
        )
    ]


def test_a_policy_that_only_others_use_is_not_warned() -> None:
    items = 'for pods where false filter "f" { require node.pods.all(p, "a" in p.annotations) }'
    assert [d.code for d in diagnostics(items, EVERYWHERE)] == []


def test_a_policy_that_reads_little_has_no_warning() -> None:
    limit = 'limit "h" { all pods where "a" in peer.labels per node at most 1 strict }'
    assert [d.code for d in diagnostics(limit, CLUSTER)] == []


# ---- names


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("a" * 253, []), ("a" * 254, ["P0211"]), ("a\\nb", ["P0211"]), ("a\\u202eb", ["P0211"])],
)
def test_names_can_be_shown(name: str, wanted: list[str]) -> None:
    clause = f'filter "{name}" {{ require node.ready }}'
    assert [d.code for d in diagnostics(clause)] == wanted
    head = f'policy "{name}" in namespace "shop"'
    assert [d.code for d in diagnostics('filter "f" { require node.ready }', head)] == wanted
