"""Loops over lists: their fuel, and the slots of their variables."""

from __future__ import annotations

import pytest

from engine.program.compiler import Compiler
from engine.program.fast_paths import FAST_PATHS
from engine.program.frame import Evaluate, Frame
from grammar.checker import Checker
from grammar.environment import Environment
from grammar.parser import parse_expression
from grammar.policy_checker import VARIABLES
from grammar.schema import load_schema
from grammar.source import Source
from grammar.values.time import Timestamp


def compiled(text: str) -> tuple[Evaluate, Frame]:
    environment = Environment(variables=VARIABLES, schema=load_schema())
    expr, found = parse_expression(Source("t", text))
    assert expr is not None, found
    compiler = Compiler(environment, fast_paths=FAST_PATHS)
    run = compiler.compile(Checker(environment).check(expr))
    return run, Frame(None, Timestamp.ZERO, slots=compiler.slots)


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2, 3].exists(x, x > 3)",
        "[1, 2, 3].all(x, x > 0)",
        "[1, 2, 3].map(x, x).size() == 3",
        "[1, 2, 3].filter(x, x > 0).size() == 3",
        '["a", "b", "c"].all(x, [x].exists(y, y == x))',
    ],
)
def test_fuel(text: str) -> None:
    run, frame = compiled(text)
    before = frame.fuel
    run(frame)
    assert before - frame.fuel >= 3


def test_inner_variable_hides_outer() -> None:
    run, frame = compiled('[["a"], ["b"]].map(x, x.filter(x, x == "b").size() + x.size())')
    assert run(frame) == (1, 2)
