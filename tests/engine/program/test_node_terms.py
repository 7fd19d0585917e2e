"""`node.matches`: it reads the labels and the name of a node, and spends steps for what it reads.

`tests/engine/objects/test_resources.py` has the rules of requirements, and tests/differential
compares scores with kube-scheduler's plugin.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from engine.decision.verdict import Feasible, Rejected, Verdict
from engine.program.compiler import Compiler
from engine.program.frame import Frame
from grammar.checker.expression_checker import Checker
from grammar.checker.policy_checker import VARIABLES
from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
from grammar.syntax.parser import parse_expression
from grammar.tree.source import Source
from grammar.values.errors import EvaluationError, StepLimitError
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import CODEC, NOW, SCHEMA, checked, engine_of, node_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
AFFINITY = "pod.spec.affinity.nodeAffinity"
FIRST = f"{AFFINITY}.{PREFERRED}[0].preference"
SELECTOR = f"{AFFINITY}.{REQUIRED}"
ENVIRONMENT = Environment(variables=VARIABLES, schema=SCHEMA)


def in_zone(*zones: str) -> Object:
    return {"matchExpressions": [{"key": "zone", "operator": "In", "values": [*zones]}]}


def named(*names: str) -> Object:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [*names]}]}


def asked(term: Object, *required: Object) -> Object:
    preferred = [{"weight": 1, "preference": term}]
    affinity = {PREFERRED: preferred, REQUIRED: {"nodeSelectorTerms": [*required]}}
    return pod("p", spec={"affinity": {"nodeAffinity": affinity}})


def value(text: str, term: Object, *required: Object) -> object:
    """The value by the compiler, which is that by the plain evaluator."""
    expr, found = parse_expression(Source("t", text))
    assert expr is not None, found
    checker = Checker(ENVIRONMENT)
    tree = checker.check(expr)
    assert not checker.found, checker.found
    there, here = CODEC.pod(raw(asked(term, *required))), node_of(node("n", labels={"zone": "a"}))
    compiler = Compiler(ENVIRONMENT)
    compiled = compiler.compile(tree)
    frame = Frame(there, NOW, slots=compiler.slots, check=lambda: None)
    frame.node = here
    compiled_value = outcome(lambda: compiled(frame))
    variables = {"pod": there, "node": here}
    assert compiled_value == outcome(lambda: evaluate(tree, variables, ENVIRONMENT))
    return compiled_value


def outcome(run: Callable[[], object]) -> object:
    """The value, or the class of the error."""
    try:
        return run()
    except EvaluationError as error:
        return error.__class__


@pytest.mark.parametrize(
    ("term", "wanted"),
    [
        (in_zone("a", "b"), True),
        (in_zone("b"), False),
        (named("n"), True),
        (named("m"), False),
        ({**in_zone("a"), **named("m")}, False),
        ({}, False),
        ({"matchExpressions": [{"key": "zone", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]}, False),
    ],
)
def test_a_term(term: Object, wanted: object) -> None:
    assert value(f"node.matches({FIRST})", term) is wanted


def test_a_selector_has_one_of_its_terms() -> None:
    assert value(f"node.matches({SELECTOR})", {}, in_zone("b"), named("n")) is True
    assert value(f"node.matches({SELECTOR})", {}, in_zone("b"), {}) is False
    assert value(f"node.matches({SELECTOR})", {}) is False


def test_a_value_whose_type_shows_at_run_time() -> None:
    assert value(f"node.matches(dyn({FIRST}))", in_zone("a")) is True
    assert value(f"dyn(node).matches({FIRST})", in_zone("a")) is True
    assert value("dyn(node).matches(dyn(pod))", in_zone("a")) is EvaluationError
    assert value('dyn("zone").matches("^z")', in_zone("a")) is True


def test_many_values_take_their_steps() -> None:
    many = in_zone(*(f"z{number}" for number in range(2_000)))
    each = "lists.range(1000).all(i, !node.matches(" + FIRST + "))"
    assert value(each, many) is StepLimitError
    assert value(each, in_zone("b")) is True


def test_a_pod_that_leaves_the_node_changes_nothing() -> None:
    """kube-scheduler evicts no pods for a filter that reads labels and names alone."""
    text = f'cluster policy p {{ filter "f" {{ require node.matches({SELECTOR}) }} }}'
    engine = engine_of(text, [node("n", labels={"zone": "a"})])

    def verdict(term: Object) -> Verdict:
        (found,) = engine.filter(raw(asked(term, term)), ["n"], None, math.inf)
        return found

    assert isinstance(verdict(in_zone("a")), Feasible)
    rejected = verdict(in_zone("b"))
    assert isinstance(rejected, Rejected)
    assert not rejected.resolvable


def test_a_policy_of_a_namespace_may_match_nodes() -> None:
    (policy,) = checked(
        f'policy p in namespace "shop" {{ filter "f" {{ require node.matches({SELECTOR}) }} }}'
    )
    assert not policy.broken
