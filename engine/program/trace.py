"""Tracer: the value of every part of an expression for one pod and node.

It is the compiler with a wrap around each closure, so it runs the same code as a decision does, but
for fast paths and kept values.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from engine.program.compiler import Compiler
from engine.program.frame import Evaluate, Frame
from engine.program.tables import is_row
from grammar.meaning.environment import Environment
from grammar.tree.ast import Expr, Literal
from grammar.values.errors import EvaluationError
from grammar.values.format import show


@dataclass(frozen=True, slots=True)
class Step:
    """One step: the evaluation of a part, as its value or its error.

    `depth` is the depth of the part in the expression. A part inside a macro has a step for each
    item.
    """

    expr: Expr
    depth: int
    outcome: object

    @property
    def text(self) -> str:
        """The outcome as text; for an object only its type, with its time for a row of a table."""
        if isinstance(self.outcome, EvaluationError):
            return f"error: {self.outcome}"
        if is_row(self.outcome):
            return f"{self.expr.type}, of {self.outcome.time}"
        try:
            return show(self.outcome)
        except EvaluationError:
            return str(self.expr.type)


class Tracer:
    """A tracer runs expressions and records every part, outer parts first."""

    def __init__(self, environment: Environment) -> None:
        self._steps: list[Step | None] = []
        self._depth = 0
        self._compiler = Compiler(environment, wrap=self._recording)

    def trace(self, expr: Expr, frame: Frame) -> list[Step]:
        """The steps of an evaluation in the frame; the first is that of the whole expression.

        A part that is not evaluated, such as the rest of a decided `&&`, has no step. Constants
        have none either.
        """
        run = self._compiler.compile(expr)
        frame.locals = [None] * self._compiler.slots
        self._steps = []
        # The step of the whole expression has the error.
        with suppress(EvaluationError):
            run(frame)
        return [s for s in self._steps if s is not None]

    def _recording(self, expr: Expr, evaluate: Evaluate) -> Evaluate:
        if isinstance(expr, Literal):
            return evaluate

        def run(frame: Frame) -> object:
            depth, slot = self._depth, len(self._steps)
            self._steps.append(None)
            self._depth += 1
            try:
                value = evaluate(frame)
            except EvaluationError as error:
                self._steps[slot] = Step(expr, depth, error)
                raise
            else:
                self._steps[slot] = Step(expr, depth, value)
                return value
            finally:
                self._depth = depth

        return run
