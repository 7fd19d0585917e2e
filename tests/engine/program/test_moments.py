"""Moments: how long results last; and loops over lists: their fuel, and their variables."""

from __future__ import annotations

from contextlib import suppress

import pytest

from engine.program.compiler import Compiler
from engine.program.frame import Evaluate, Frame
from grammar.checker.expression_checker import Checker
from grammar.checker.policy_checker import VARIABLES
from grammar.meaning.environment import Environment
from grammar.meaning.schema import load_schema
from grammar.syntax.parser import parse_expression
from grammar.tree.source import Source
from grammar.values.errors import EvaluationError
from grammar.values.time import NEVER, SECOND, Timestamp


def compiled(text: str) -> tuple[Evaluate, Frame]:
    environment = Environment(variables=VARIABLES, schema=load_schema())
    expr, found = parse_expression(Source("t", text))
    assert expr is not None, found
    compiler = Compiler(environment)
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


MINUTE = 60 * SECOND


@pytest.mark.parametrize(
    ("text", "until"),
    [
        pytest.param("now < timestamp(60)", MINUTE, id="it turns then"),
        pytest.param("timestamp(60) <= now", MINUTE, id="the other way round"),
        pytest.param("now > timestamp(0)", 1, id="it turns now"),
        pytest.param("now == timestamp(60)", MINUTE, id="equal then"),
        pytest.param("now >= timestamp(-60)", NEVER, id="it has turned"),
        pytest.param('now - timestamp(-60) < duration("3m")', 2 * MINUTE, id="an age"),
        pytest.param('timestamp(60) - now > duration("20s")', 40 * SECOND, id="what is left"),
        pytest.param('now - duration("1m") > timestamp(0)', MINUTE, id="a time before"),
        pytest.param("now < timestamp(60) || now < timestamp(90)", MINUTE, id="what was looked at"),
        pytest.param("now > timestamp(60) || now > timestamp(30)", 30 * SECOND, id="the first"),
        pytest.param("[1].exists(x, now > timestamp(60))", MINUTE, id="in a macro"),
        pytest.param('now - timestamp(-60) + (now - now) < duration("3m")', SECOND, id="thrice"),
        pytest.param("now.getHours() == 0", MINUTE, id="the calendar"),
        pytest.param('now.getDate("+05:45") == 1', MINUTE, id="in a zone"),
        pytest.param("[now].exists(now, now.getHours() == 0)", SECOND, id="a variable of the name"),
        pytest.param("now.getSeconds() == 0", SECOND, id="the seconds"),
        pytest.param('(now + duration("30s")).getHours() == 0', SECOND, id="of another time"),
        pytest.param('now.getHours("nowhere") == 0', MINUTE, id="no zone"),
        pytest.param("(true ? now : now) < timestamp(60)", SECOND, id="not a sum"),
        pytest.param(
            'now - timestamp("1600-01-01T00:00:00Z") > duration("1s")', SECOND, id="error"
        ),
        pytest.param("1 < 2", NEVER, id="it reads no time"),
    ],
)
def test_how_long_a_result_lasts(text: str, until: int) -> None:
    run, frame = compiled(text)
    frame.now = Timestamp(0)
    with suppress(EvaluationError):
        run(frame)
    assert frame.until == until
