"""An expression that somebody typed: checked by itself, and evaluated as a policy's would be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.program.compiler import Compiler
from engine.program.frame import Frame
from engine.program.trace import Step, Tracer
from grammar import mistakes
from grammar.ast import Expr
from grammar.checker import Checker
from grammar.clauses import Let, Policy
from grammar.diagnostics import Diagnostic, human
from grammar.environment import Environment
from grammar.errors import EvaluationError, MissingError
from grammar.parser import parse_expression, parse_rules
from grammar.policy_checker import VARIABLES, check_policy
from grammar.reads import Definitions, reads
from grammar.schema import Schema
from grammar.source import Source, Span
from policies.annotations import named_annotations

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
        definitions = (
            *self.environment.lets.values(),
            *(d.body for d in self.environment.defs.values()),
        )
        return named_annotations([Policy("", tuple(Let("", e) for e in (self.expr, *definitions)))])


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
    for read in reads(expr, _bodies(environment)):
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
        compiler = Compiler(expression.environment)
        self._expression = expression
        self._run = compiler.compile(expression.expr)
        self._places = compiler.places

    def evaluate(self, frame: Frame) -> object | Failure:
        """The value in the frame, or why there is none."""
        frame.locals = [None] * self._places
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


def _bodies(environment: Environment) -> Definitions:
    defs = environment.defs
    parameters = {name: frozenset(p for p, _ in d.params) for name, d in defs.items()}
    return Definitions(environment.lets, {n: d.body for n, d in defs.items()}, parameters)


def _unavailable(name: str, hint: str, span: Span) -> Diagnostic:
    return replace(mistakes.unavailable(name, "this expression", span), hint=hint or None)
