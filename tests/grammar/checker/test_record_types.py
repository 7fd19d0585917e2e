"""Types of a `def`: records of the schema, unknown names, and what keeps the type of a record."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from grammar.messages.diagnostics import Diagnostic
from grammar.tree.source import Source
from policies.validation import check_source
from tests.support.engines import SCHEMA


def diagnostics(items: str, head: str = "cluster policy p") -> Sequence[Diagnostic]:
    return check_source(Source("p.policy", f"{head} {{ {items} }}"), SCHEMA).diagnostics


def messages(items: str, head: str = "cluster policy p") -> list[tuple[str, str]]:
    return [(d.code, d.message) for d in diagnostics(items, head)]


def errors(items: str) -> list[tuple[str, str]]:
    return [(d.code, d.message) for d in diagnostics(items) if d.severity == "error"]


@pytest.mark.parametrize(
    "items",
    [
        (
            'def f(c: Container): bool = c.image == "a"'
            ' filter "f" { require pod.spec.containers.all(c, f(c)) }'
        ),
        (
            'def f(c: list(Container)): bool = c[0].image == "a"'
            ' filter "f" { require f(pod.spec.containers) }'
        ),
        (
            "def f(n: Node): bool = n.ready && n.zone == n.region && n.age > '1m'"
            ' filter "f" { require f(node) }'
        ),
        (
            'def first(p: Pod): Container = p.spec.containers[0] filter "f"'
            ' { require first(pod).image == "a" }'
        ),
        (
            'def small(p: Peer): bool = p.requests["cpu"] < "1" filter "f"'
            " { require node.pods.all(p, small(p)) }"
        ),
        (
            'def f(t: map(string, Toleration)): bool = t["a"].key == "a" filter "f"'
            ' { require f({"a": pod.spec.tolerations[0]}) }'
        ),
        "def f(n: NodeStatus): int = size(n.addresses) filter 'f' { require f(node.status) > 1 }",
    ],
)
def test_a_record_is_a_type(items: str) -> None:
    assert messages(items) == []


def test_fields_of_a_record_type_are_checked() -> None:
    items = 'def f(c: Container): bool = c.imge == "a" filter "f" { require f(pod.spec) }'
    assert errors(items) == [
        ("P0102", "Container has no field `imge`"),
        ("P0105", "this is a PodSpec, not a Container"),
    ]


@pytest.mark.parametrize(
    ("declared", "name", "fixed"),
    [
        ("container", "container", "Container"),
        ("Contaner", "Contaner", "Container"),
        ("list(cntainer)", "cntainer", None),
        ("strng", "strng", "string"),
        ("list(int, int)", "list(int, int)", None),
        ("map(int)", "map(int)", None),
        ("int(int)", "int(int)", None),
        ("error", "error", None),
        ("optional(int)", "optional(int)", None),
    ],
)
@pytest.mark.parametrize("place", ["parameter", "result"])
def test_an_unknown_type_is_one_error(
    declared: str, name: str, fixed: str | None, place: str
) -> None:
    both = {"parameter": (declared, "bool"), "result": ("bool", declared)}[place]
    items = f'def f(x: {both[0]}): {both[1]} = x filter "f" {{ require dyn(f(node.ready)) }}'
    (found,) = diagnostics(items)
    assert (found.code, found.message) == ("P0113", f"unknown type `{name}`")
    assert (found.fix.text if found.fix is not None else None) == fixed
    start = found.span.start - len("cluster policy p { ")
    assert items[start:].startswith(declared)


# ---- a dyn is no record


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ('def f(c: Container): bool = c.image == "" filter "f" { require f(dyn(1)) }', "Container"),
        (
            'def f(c: list(Pod)): bool = c[0].name == "" filter "f" { require f([dyn(pod)]) }',
            "list(Pod)",
        ),
        (
            'def f(c: list(Pod)): bool = c[0].name == "" filter "f" { require f(dyn([])) }',
            "list(Pod)",
        ),
        (
            'def f(c: dyn): Container = c filter "f" { require f(pod).image == "" }',
            "Container",
        ),
    ],
)
def test_a_dyn_is_not_taken_for_a_record(items: str, message: str) -> None:
    """Its fields would be read by the names of another type."""
    (found,) = (d for d in diagnostics(items) if d.severity == "error")
    assert found.code == "P0105"
    assert found.message.endswith(f", not a {message}")
    assert found.hint == "give the object itself, or declare `dyn`"


@pytest.mark.parametrize("name", ["age", "usage"])
def test_short_forms_that_read_more_need_a_type(name: str) -> None:
    """`age` reads the time, and `usage` the pod: what depends on them must be known."""
    assert errors(f'def f(x: dyn): dyn = x.{name} filter "f" {{ require f(node) == 1 }}') == [
        ("P0129", f"`{name}` needs an object whose type is known"),
    ]
    text = f'def f(x: dyn): dyn = x["{name}"] filter "f" {{ require f({{"{name}": 1}}) == 1 }}'
    assert errors(text) == []


# ---- what a policy of a namespace may read

NAMESPACED = 'policy p in namespace "shop"'


@pytest.mark.parametrize(
    ("items", "what"),
    [
        (
            (
                'def f(e: EnvVar): string = e.value filter "f" { require'
                ' f(pod.spec.containers[0].env[0]) == "" }'
            ),
            "`env` values of pods",
        ),
        (
            (
                'def f(p: Peer): bool = "a" in p.annotations limit "f"'
                " { pods where f(peer) per node at most 1 strict }"
            ),
            "`annotations` of pods of other namespaces",
        ),
        (
            'def f(c: dyn): dyn = c.env filter "f" { require size(f(pod.spec.containers[0])) > 0 }',
            "`Container` as a whole",
        ),
        (
            (
                'def f(c: Container): dyn = c filter "f"'
                " { require f(pod.spec.containers[0]).env[0].value == '' }"
            ),
            "`Container` as a whole",
        ),
    ],
)
def test_reads_through_a_record_type_are_found(items: str, what: str) -> None:
    expected = ("P0120", f"a policy of a namespace cannot read {what}")
    assert messages(items, NAMESPACED) == [expected]


def test_a_policy_of_a_namespace_may_give_objects_to_a_typed_def() -> None:
    items = (
        'def f(c: Container): Container = c def g(c: Container): bool = c.image == "a"'
        ' filter "f" { require pod.spec.containers.all(c, g(f(c))) }'
    )
    assert messages(items, NAMESPACED) == []
