"""Fields of records behind `dyn`: the plain evaluator and the compiler read what a type would."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from engine.program.frame import Frame
from grammar.checker.policy_checker import VARIABLES
from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
from grammar.values.errors import EvaluationError
from grammar.values.optional import NONE
from tests.support.builders import node, pod, raw
from tests.support.engines import CODEC, NOW, SCHEMA, compiled, engine_of, peer_of, snapshot_of

ENVIRONMENT = Environment(variables=VARIABLES, schema=SCHEMA)
FULL = pod("web-1", labels={"app": "web"}, spec={"priority": 7, "tolerations": [{"key": "a"}]})
EMPTY = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "empty"}}
VIEW = next(iter(snapshot_of([node("n1", "z1")], [pod("db-0", on="n1")]).nodes.values()))
# Short forms that read more than their record.
TYPED_ONLY = {"age", "usage", "cards", "chosen"}


def outcomes(text: str, body: dict[str, Any]) -> Iterator[tuple[str, object]]:
    """What the plain evaluator and the compiled program give: a value, or the kind of error."""
    checked, run, slots = compiled(text, ENVIRONMENT)
    decoded, peer = CODEC.pod(raw(body)), peer_of(FULL)
    frame = Frame(decoded, NOW, slots=slots)
    frame.node, frame.peer = VIEW, peer
    variables = {"pod": decoded, "node": VIEW, "peer": peer, "now": NOW}
    for evaluation in (partial(evaluate, checked, variables, ENVIRONMENT), partial(run, frame)):
        try:
            yield "value", evaluation()
        except EvaluationError as error:
            yield type(error).__name__, str(error)


def paths(start: str, record: str, depth: int = 1) -> Iterator[tuple[str, str]]:
    """The path of a record and the name of a field, for each field of each record below."""
    for field in SCHEMA.records[record].fields.values():
        if field.name in TYPED_ONLY:
            continue
        yield start, field.name
        if field.type.is_record and depth:
            yield from paths(f"{start}.{field.name}", field.type.name, depth - 1)


PATHS = [*paths("pod", "Pod"), *paths("node", "Node"), *paths("peer", "Peer")]


@pytest.mark.parametrize("body", [FULL, EMPTY], ids=["full", "empty"])
def test_each_field_is_what_it_is_with_a_type(body: dict[str, Any]) -> None:
    assert len(PATHS) > 90
    for start, name in PATHS:
        typed = set(map(str, outcomes(f"{start}.{name}", body)))
        assert set(map(str, outcomes(f"dyn({start}).{name}", body))) == typed, name


def test_has_is_what_it_is_with_a_type() -> None:
    for start, name in PATHS:
        if name in ("priority", "ready"):  # `has` takes a selection, which these are not
            continue
        typed = set(outcomes(f"has({start}.{name})", FULL))
        assert set(outcomes(f"has(dyn({start}).{name})", FULL)) == typed, name


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("dyn(pod).?spec.?priority.orValue(0)", 7),
        ('dyn(optional.of(pod)).name.orValue("")', "web-1"),
        ("dyn(pod).spec.?runtimeClassName", NONE),
        ('dyn(pod).labels["app"] == "web"', True),
        ('dyn({"name": "a"}).name', "a"),
        ("[dyn(pod), dyn(node)].map(x, x.name)", ("web-1", "n1")),
        ("has(dyn(optional.of(pod)).name)", True),
        ("has(dyn(optional.none()).name)", False),
        ("[dyn(node), 1].exists(x, x.ready)", True),
    ],
)
def test_selections(text: str, value: object) -> None:
    assert set(outcomes(text, FULL)) == {("value", value)}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("dyn(pod).nmae", "Pod has no field `nmae`"),
        ("dyn(peer).has_claims", "Peer has no field `has_claims`"),
        ("dyn(pod.spec).node", "PodSpec has no field `node`"),
        ("dyn(1).name", "no such overload: `.name` of a value without fields"),
        ("has(dyn(1).name)", "no such overload: `.name` of a value without fields"),
    ],
)
def test_a_field_that_is_not_there_is_an_error(text: str, error: str) -> None:
    assert set(outcomes(text, FULL)) == {("EvaluationError", error)}


def test_policies_pass_nodes_by_fields_behind_dyn() -> None:
    """Both were rejected on every node."""
    text = """cluster policy p {
      def named(c: dyn): bool = c.name == "main"
      def pinned(c: Container): bool = c.image == "main"
      filter "name" { require dyn(pod).metadata.name == "web-1" }
      filter "named" { require pod.spec.containers.all(c, named(c)) }
      filter "pinned" { require pod.spec.containers.all(c, pinned(c)) }
      filter "node" { require dyn(node).zone == "z1" }
    }"""
    containers = {"containers": [{"name": "main", "image": "main"}]}
    verdicts = engine_of(text, [node("n1", "z1")]).filter(
        raw(pod("web-1", spec=containers)), ["n1"], None, math.inf
    )
    assert [type(v).__name__ for v in verdicts] == ["Feasible"]
