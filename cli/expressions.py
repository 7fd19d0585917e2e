"""Expressions of `eval` and the REPL: checked on their own, evaluated, and their values as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.program.compiler import Compiler
from engine.program.fast_paths import FAST_PATHS
from engine.program.frame import Frame
from engine.program.needs import named_annotations
from engine.program.trace import Step, Tracer
from grammar import catalogue
from grammar.ast import Expr
from grammar.checker import Checker
from grammar.clauses import Policy
from grammar.diagnostics import Diagnostic
from grammar.environment import Environment
from grammar.errors import EvaluationError
from grammar.parser import parse_expression, parse_rules
from grammar.policy_checker import VARIABLES, check_policy
from grammar.printer import print_string
from grammar.schema import Schema
from grammar.source import Source
from grammar.types import DYN, Type
from grammar.values.format import show
from grammar.values.kinds import kind, type_of
from grammar.values.maps import key_values
from grammar.values.optional import Optional
from grammar.walk import Definitions, reads

_WIDTH = 100
# A part of a value: its name or index label, its value, and its type.
_Part = tuple[str, object, Type]


class Values:
    """Text of values in the syntax of the language; records show their fields."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def typed(self, value: object, type_: Type) -> str:
        """`value : type`, on several lines if one is too long."""
        name = str(type_)
        if type_ == DYN:
            name = str(type_of(value)) if kind(value) != "record" else "object"
        text = "\n".join(self._lines(value, type_, "", _WIDTH))
        return f"{text} : {name}"

    def line(self, value: object, type_: Type) -> str:
        parts = self._parts(value, type_)
        if parts is None:
            return _scalar(value)
        left, right = _brackets(value)
        inside = (f"{name}{self.line(part, of)}" for name, part, of in parts)
        return f"{left}{', '.join(inside)}{right}"

    def _lines(self, value: object, type_: Type, name: str, width: int) -> list[str]:
        line = f"{name}{self.line(value, type_)}"
        parts = self._parts(value, type_)
        if len(line) <= width or not parts:
            return [line]
        left, right = _brackets(value)
        inside = [self._lines(part, of, label, width - 2) for label, part, of in parts]
        for rows in inside:
            rows[-1] += ","
        return [f"{name}{left}", *(f"  {row}" for rows in inside for row in rows), right]

    def _parts(self, value: object, type_: Type) -> list[_Part] | None:
        """The parts of a value; None for a scalar."""
        args = type_.args or (DYN, DYN)
        if isinstance(value, Optional):
            return [("", value.value, args[0])] if value.present else None
        match kind(value):
            case "list":
                assert isinstance(value, Sequence)
                return [("", item, args[0]) for item in value]
            case "map":
                assert isinstance(value, Mapping)
                pairs = sorted(((_scalar(k), v) for k, v in key_values(value)), key=lambda p: p[0])
                return [(f"{key}: ", item, args[-1]) for key, item in pairs]
            case "record":
                return self._fields(value, type_)
            case _:
                return None

    def _fields(self, value: object, type_: Type) -> list[_Part]:
        """The fields that a record has, without short forms."""
        record = self._schema.records.get(type_.name) or self._schema.records.get(
            type(value).__name__
        )
        fields = record.fields.values() if record is not None else ()
        found = ((f, getattr(value, f.name, None)) for f in fields if f.derived is None)
        return [(f"{f.name}: ", part, f.type) for f, part in found if part is not None]


def _scalar(value: object) -> str:
    if isinstance(value, str):
        return print_string(value)
    if isinstance(value, Optional):
        return "optional.none()"
    return show(value)


def _brackets(value: object) -> tuple[str, str]:
    if isinstance(value, Optional):
        return "optional.of(", ")"
    return ("[", "]") if kind(value) == "list" else ("{", "}")


# ---- expressions, which are checked and evaluated as those of a policy

NAME = "expression"


@dataclass(frozen=True, slots=True)
class Expression:
    """A source with its typed tree; `names` are the variables that it reads."""

    source: Source
    expr: Expr
    environment: Environment
    names: frozenset[str]

    @property
    def annotations(self) -> frozenset[str]:
        """The annotations of other pods that it can read."""
        bodies = (d.body for d in self.environment.defs.values())
        return named_annotations((self.expr, *self.environment.lets.values(), *bodies))


@dataclass(frozen=True, slots=True)
class Failure:
    """The error of an expression without a value, and the innermost part that it comes from."""

    error: EvaluationError
    step: Step

    @property
    def diagnostic(self) -> Diagnostic:
        """The error with its place; it has no code."""
        return Diagnostic("", "error", str(self.error), self.step.expr.span)


def check(
    text: str, schema: Schema, hidden: Mapping[str, str], definitions: str = ""
) -> tuple[Expression | None, list[Diagnostic], Source]:
    """The checked expression, or None; its diagnostics; and its source.

    `hidden` are the variables that cannot be read here, each with a hint or "". `definitions` are
    valid `let` and `def` that the expression can use. The source has them after the expression, so
    that no two parts have the same place.
    """
    source = Source(NAME, f"{text}\n{definitions}" if definitions else text)
    parsed, found = parse_expression(Source(NAME, text))
    if parsed is None:
        return None, found, source
    environment = _environment(text, definitions, schema)
    checker = Checker(environment)
    expr = checker.check(parsed)
    found = list(checker.found)
    names = set()
    for read in reads(expr, Definitions(environment.lets, environment.defs)):
        name = read.path[0]
        if name in VARIABLES:
            names.add(name)
        if name in hidden:
            problem = catalogue.unavailable(name, "this expression", read.span)
            found.append(replace(problem, hint=hidden[name] or None))
    if any(d.severity == "error" for d in found):
        return None, found, source
    return Expression(source, expr, environment, frozenset(names)), found, source


class Evaluator:
    """A compiled expression, for any number of evaluations."""

    def __init__(self, expression: Expression) -> None:
        compiler = Compiler(expression.environment, fast_paths=FAST_PATHS)
        self._expression = expression
        self._run = compiler.compile(expression.expr)
        self._slots = compiler.slots

    def evaluate(self, frame: Frame) -> object | Failure:
        frame.locals = [None] * self._slots
        try:
            return self._run(frame)
        except EvaluationError:
            return self._failure(frame)

    def _failure(self, frame: Frame) -> Failure:
        """The failing part, found by a traced second evaluation."""
        steps = Tracer(self._expression.environment).trace(self._expression.expr, frame)
        error = steps[0].outcome
        assert isinstance(error, EvaluationError), "evaluation is deterministic"
        innermost = max((s for s in steps if s.outcome is error), key=lambda s: s.depth)
        return Failure(error, innermost)


def _environment(text: str, definitions: str, schema: Schema) -> Environment:
    if not definitions:
        return Environment(variables=VARIABLES, schema=schema, uniform_literals=True)
    before = "".join("\n" if c == "\n" else " " for c in text)
    items, _ = parse_rules(Source(NAME, f"{before}\n{definitions}"))
    return check_policy(Policy("", items, cluster=True), schema).environment
