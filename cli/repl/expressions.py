"""Expressions of `eval` and the REPL, checked and evaluated like expressions of a policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.enforced import named_annotations
from engine.program.compiler import Compiler
from engine.program.fast_paths import FAST_PATHS
from engine.program.frame import Frame
from engine.program.trace import Step, Tracer
from grammar.checker.expression_checker import Checker
from grammar.checker.policy_checker import VARIABLES, Checked, check_policy
from grammar.meaning.environment import Environment
from grammar.meaning.schema import Schema
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic
from grammar.syntax.parser import parse_expression, parse_rules
from grammar.tree.ast import Expr
from grammar.tree.clauses import Policy
from grammar.tree.groups import COUNT_OF_NODES
from grammar.tree.source import Source
from grammar.tree.walk import reads
from grammar.values.errors import EvaluationError

NAME = "expression"


@dataclass(frozen=True, slots=True)
class Expression:
    """A source with its typed tree; `names` are the variables that it reads.

    `definitions` are those that it can use, None if there are none.
    """

    source: Source
    expr: Expr
    environment: Environment
    names: frozenset[str]
    definitions: Checked | None = None

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
    """What `_checked` gives; an expression with a mistake is checked again for hints."""
    checked = _checked(text, schema, hidden, definitions)
    if checked[0] is not None:
        return checked
    # Only a mistake needs them.
    from policies.hints import with_hints  # noqa: PLC0415

    return with_hints(lambda: _checked(text, schema, hidden, definitions))


def _checked(
    text: str, schema: Schema, hidden: Mapping[str, str], definitions: str
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
    defined = _defined(text, definitions, schema) if definitions else None
    environment = Environment(variables=VARIABLES, schema=schema, uniform_literals=True)
    if defined is not None:
        environment = defined.environment
    checker = Checker(environment)
    expr = checker.check(parsed)
    found = list(checker.found)
    names = set()
    for read in reads(expr, environment.definitions):
        name = read.path[0]
        if name in VARIABLES:
            names.add(name)
        count = environment.counts.get(name)
        if name in environment.groups or (count and count.stands_for == COUNT_OF_NODES):
            # It is that of a node.
            names.add("node")
        if name in hidden or (count and "pod" in hidden):
            problem = catalogue.unavailable(name, "this expression", read.span)
            found.append(replace(problem, hint=hidden.get(name, hidden.get("pod")) or None))
    if any(d.severity == "error" for d in found):
        return None, found, source
    return Expression(source, expr, environment, frozenset(names), defined), found, source


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


def _defined(text: str, definitions: str, schema: Schema) -> Checked:
    before = "".join("\n" if c == "\n" else " " for c in text)
    items, _ = parse_rules(Source(NAME, f"{before}\n{definitions}"))
    return check_policy(Policy("", items, cluster=True), schema)
