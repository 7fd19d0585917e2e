"""Values of expressions here, in a form that can be compared with those of Kubernetes' CEL."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from engine.program.compiler import Compiler
from engine.program.frame import Frame
from grammar.checker.expression_checker import Checker
from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
from grammar.syntax.parser import parse_expression
from grammar.tree.ast import Expr
from grammar.tree.source import Source
from grammar.values.errors import EvaluationError
from grammar.values.kinds import TypeValue, kind
from grammar.values.maps import key_values
from grammar.values.named_formats import Format
from grammar.values.optional import Optional
from grammar.values.quantity import Quantity
from grammar.values.time import Duration, Timestamp
from tests.differential.kubernetes_cel import There

# What stands for a value where there is none.
NO_VALUE = ("no value",)


class Here:
    """Placet, with variables. An expression is checked, and then evaluated in both ways."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._environment = Environment(variables={}, uniform_literals=True)
        self._values: dict[str, object] = {}
        types = {}
        for name, text in variables.items():
            checked = self._checked(text)
            assert checked is not None
            self._values[name] = evaluate(checked, {}, self._environment)
            types[name] = checked.type
        self._environment = Environment(variables=types, uniform_literals=True)

    def evaluate(self, text: str) -> object:
        """The plain form of the value, or NO_VALUE. Both evaluations agree."""
        checked = self._checked(text)
        if checked is None:
            return NO_VALUE
        compiler = Compiler(self._environment, read=lambda n: lambda _: self._values[n])
        run = compiler.compile(checked)
        plain, compiled = (
            _outcome(way)
            for way in (
                partial(evaluate, checked, self._values, self._environment),
                partial(run, Frame(None, Timestamp.ZERO, slots=compiler.slots)),
            )
        )
        assert same(plain, compiled), f"{text}: {plain} is not {compiled}"
        return plain

    def _checked(self, text: str) -> Expr | None:
        """The typed tree; None if it is refused."""
        expr, _ = parse_expression(Source("expression", text))
        if expr is None:
            return None
        checker = Checker(self._environment)
        checked = checker.check(expr)
        return None if checker.found else checked


def _outcome(way: partial[object]) -> object:
    try:
        return plain_form(way())
    except EvaluationError:
        return NO_VALUE


def plain_form(value: object) -> object:
    """A value as the name of its type and its content, as `There` has it."""
    name = kind(value)
    match value:
        case None | bool():
            return name, value
        case int() | float() | str():
            return name, value
        case Quantity() | Duration() | Timestamp():
            return name, value.nanos
        case Optional():
            return name, plain_form(value.value) if value.present else None
        case Mapping():
            return name, [[plain_form(k), plain_form(v)] for k, v in key_values(value)]
        case list() | tuple():
            return name, [plain_form(each) for each in value]
        case TypeValue():
            return name, value.name
        case Format():
            return name, value.name.lower()
        case _:
            return name, str(value)


def read(there: There) -> object:
    """The plain form of what Kubernetes gives."""
    return _read(there.value) if there.has_value else NO_VALUE


def _read(value: Any) -> object:
    name, content = value
    match name:
        case "int" | "duration":
            return name, int(content)
        case "double":
            return name, float(content)
        case "timestamp":
            return name, Timestamp.parse(content).nanos
        case "quantity":
            return name, Quantity.parse(content).nanos
        case "format":
            return name, content.lower()
        case "optional":
            return name, None if content is None else _read(content)
        case "list":
            return name, [_read(each) for each in content]
        case "map":
            return name, [[_read(key), _read(each)] for key, each in content]
        case _:
            return name, content


def same(one: object, other: object) -> bool:
    """Whether two plain forms are those of one value; maps have no order, and NaN is itself."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        if one[0] != other[0] or len(one) != len(other):
            return False
        if one[0] == "map":
            return _same_entries(one[1], other[1])
        return all(map(same, one[1:], other[1:]))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    return one == other


def _same_entries(one: list[Any], other: list[Any]) -> bool:
    def found(entry: Any) -> bool:
        return any(same(entry[0], k) and same(entry[1], v) for k, v in other)

    return len(one) == len(other) and all(map(found, one))


def parts(form: object) -> Iterator[object]:
    """A plain form and all forms inside it."""
    yield form
    if isinstance(form, tuple | list):
        for each in form:
            yield from parts(each)
