"""Values of the language as a terminal shows them: as they would be written, records by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from engine.program.compiler import Compiler
from engine.program.fast_paths import FAST_PATHS
from engine.program.frame import Frame
from engine.program.needs import named_annotations
from engine.program.trace import Step, Tracer
from grammar import catalogue as mistakes
from grammar.ast import Expr
from grammar.checker import Checker
from grammar.clauses import Policy
from grammar.diagnostics import Diagnostic, human
from grammar.environment import Environment
from grammar.errors import EvaluationError, MissingError
from grammar.parser import parse_expression, parse_rules
from grammar.policy_checker import VARIABLES, check_policy
from grammar.printer import print_string
from grammar.schema import Schema
from grammar.source import Source, Span
from grammar.types import DYN, Type
from grammar.values.format import show
from grammar.values.kinds import kind, type_of
from grammar.values.maps import key_values
from grammar.values.optional import Optional
from grammar.walk import Definitions, reads

_WIDTH = 100
# A part of a value: the name it has in it, or empty, and itself.
_Part = tuple[str, object, Type]


class Values:
    """Shows values of the schema's types."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def typed(self, value: object, type_: Type) -> str:
        """`value : type`, on several lines where one would be too long."""
        name = str(type_)
        if type_ == DYN:
            name = str(type_of(value)) if kind(value) != "record" else "object"
        return f"{self.text(value, type_)} : {name}"

    def text(self, value: object, type_: Type) -> str:
        """The value, on several lines where one would be too long."""
        return "\n".join(self._lines(value, type_, "", _WIDTH))

    def line(self, value: object, type_: Type) -> str:
        """The value on one line, however long."""
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
        return [f"{name}{left}", *(f"  {row}" for rows in inside for row in _comma(rows)), right]

    def _parts(self, value: object, type_: Type) -> list[_Part] | None:
        """What a value consists of; None for one that has no parts."""
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
        """The fields that a record has, short forms aside."""
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


def _comma(rows: list[str]) -> list[str]:
    return [*rows[:-1], f"{rows[-1]},"]


# ---- An expression that somebody typed: checked by itself, and evaluated as a policy's would be.

NAME = "expression"


@dataclass(frozen=True, slots=True)
class Expression:
    """A text with its typed tree; `names` are the variables that it reads."""

    source: Source
    expr: Expr
    environment: Environment
    names: frozenset[str]

    @property
    def annotations(self) -> frozenset[str]:
        """The annotations of other pods that it may read."""
        bodies = (d.body for d in self.environment.defs.values())
        return named_annotations((self.expr, *self.environment.lets.values(), *bodies))


@dataclass(frozen=True, slots=True)
class Failure:
    """An expression that has no value here: the error, and the innermost part that it is from."""

    error: EvaluationError
    step: Step

    @property
    def missing(self) -> bool:
        """Whether something is not there, which clauses have a rule for."""
        return isinstance(self.error, MissingError)

    @property
    def diagnostic(self) -> Diagnostic:
        """What is wrong, and where; there is no code for it."""
        return Diagnostic("", "error", str(self.error), self.step.expr.span)

    def text(self, source: Source) -> str:
        """What is wrong, with a caret in place."""
        return human(self.diagnostic, source).replace("error[]", "error", 1)


def check(
    text: str, schema: Schema, hidden: Mapping[str, str], definitions: str = ""
) -> tuple[Expression | None, list[Diagnostic], Source]:
    """The expression, or the mistakes in it.

    `hidden` are the variables that cannot be read here, with what to do about each or "".
    `definitions` are `let` and `def` that it can use, without mistakes. They stand behind it in its
    source, so that no two of its parts are at the same place.
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
            found.append(_unavailable(name, hidden[name], read.span))
    if any(d.severity == "error" for d in found):
        return None, found, source
    return Expression(source, expr, environment, frozenset(names)), found, source


class Evaluator:
    """Evaluates one expression, again and again; it is compiled once."""

    def __init__(self, expression: Expression) -> None:
        compiler = Compiler(expression.environment, fast_paths=FAST_PATHS)
        self._expression = expression
        self._run = compiler.compile(expression.expr)
        self._slots = compiler.slots

    def evaluate(self, frame: Frame) -> object | Failure:
        """The value in the frame, or why there is none."""
        frame.locals = [None] * self._slots
        frame.refill()
        try:
            return self._run(frame)
        except EvaluationError:
            return self._failure(frame)

    def _failure(self, frame: Frame) -> Failure:
        """The same once more, part by part."""
        frame.refill()
        steps = Tracer(self._expression.environment).trace(self._expression.expr, frame)
        error = steps[0].outcome
        assert isinstance(error, EvaluationError), "what fails once fails twice"
        innermost = max((s for s in steps if s.outcome is error), key=lambda s: s.depth)
        return Failure(error, innermost)


def _environment(text: str, definitions: str, schema: Schema) -> Environment:
    """What names mean to a text with definitions behind it."""
    if not definitions:
        return Environment(variables=VARIABLES, schema=schema)
    before = "".join("\n" if c == "\n" else " " for c in text)
    items, _ = parse_rules(Source(NAME, f"{before}\n{definitions}"))
    return check_policy(Policy("", items, cluster=True), schema).environment


def _unavailable(name: str, hint: str, span: Span) -> Diagnostic:
    return replace(mistakes.unavailable(name, "this expression", span), hint=hint or None)
