"""A trace has the value of every part that was evaluated."""

from __future__ import annotations

from engine.program.frame import Frame
from engine.program.trace import Step, Tracer
from grammar.checker.expression_checker import Checker
from grammar.checker.policy_checker import VARIABLES
from grammar.meaning.environment import Environment
from grammar.syntax.parser import parse_expression
from grammar.tree.printer import print_expression
from grammar.tree.source import Source
from grammar.values.time import Timestamp
from tests.support.builders import node, pod, raw
from tests.support.engines import CODEC, SCHEMA, snapshot_of


def traced(text: str) -> list[Step]:
    expr, found = parse_expression(Source("t", text))
    assert expr is not None, found
    environment = Environment(variables=VARIABLES, schema=SCHEMA)
    checker = Checker(environment)
    checked = checker.check(expr)
    assert not checker.found
    snapshot = snapshot_of([node("n1", zone="a")])
    frame = Frame(CODEC.pod(raw(pod("p", cpu="2"))), Timestamp.ZERO, slots=0)
    frame.node = snapshot.nodes["n1"]
    return Tracer(environment).trace(checked, frame)


def shown(text: str) -> list[tuple[int, str, str]]:
    return [(s.depth, print_expression(s.expr), s.text) for s in traced(text)]


def test_every_part_has_its_value() -> None:
    """Outer before inner, by depth; constants are not repeated."""
    assert shown('node.free["cpu"] - pod.requests["cpu"] >= "1"') == [
        (0, 'node.free["cpu"] - pod.requests["cpu"] >= 1', "true"),
        (1, 'node.free["cpu"] - pod.requests["cpu"]', "6"),
        (2, 'node.free["cpu"]', "8"),
        (3, "node.free", "{cpu: 8, memory: 32Gi, pods: 110}"),
        (4, "node", "Node"),
        (2, 'pod.requests["cpu"]', "2"),
        (3, "pod.requests", "{cpu: 2}"),
        (4, "pod", "Pod"),
    ]


def test_an_unevaluated_part_has_no_step() -> None:
    """A decided `||` says nothing of the rest."""
    texts = [t for _, t, _ in shown('node.zone == "a" || pod.name == "q"')]
    assert 'pod.metadata.name == "q"' not in texts


def test_an_error_is_a_value_of_the_trace() -> None:
    """It shows at the part where it began and at all that it reached."""
    steps = traced('node.labels["absent"] == "x"')
    assert steps[0].text == "error: there is no key `absent`"
    assert steps[1].text == "error: there is no key `absent`"


def test_a_macro_has_a_step_for_each_item() -> None:
    """So that one sees which item decided."""
    values = [v for _, t, v in shown("[1, 2, 3].exists(x, x > 1)") if t == "x > 1"]
    assert values == ["false", "true"]
