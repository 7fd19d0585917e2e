"""The value of every part of an expression for one pod and node: the compiler, wrapped."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from engine.program.compiler import Compiler
from engine.program.frame import Evaluate, Frame
from grammar.ast import Expr, Literal
from grammar.environment import Environment
from grammar.errors import EvaluationError
from grammar.values.format import show


@dataclass(frozen=True, slots=True)
class Step:
    """One evaluation of a part: its value, or the error in its place.

    `depth` is how deep the part is in the expression. Inside a macro a part is evaluated once per
    item, and has a step for each.
    """

    expr: Expr
    depth: int
    outcome: object

    @property
    def text(self) -> str:
        """The outcome as people read it; of an object only that it is one."""
        if isinstance(self.outcome, EvaluationError):
            return f"error: {self.outcome}"
        try:
            return show(self.outcome)
        except EvaluationError:
            return str(self.expr.type)


class Tracer:
    """Compiles an expression so that running it notes every part, the outer before the inner."""

    def __init__(self, environment: Environment) -> None:
        self._steps: list[Step | None] = []
        self._depth = 0
        self._compiler = Compiler(environment, wrap=self._noting)

    def trace(self, expr: Expr, frame: Frame) -> list[Step]:
        """Evaluates the expression in the frame and gives its steps; the first is the whole.

        What was not needed, as the rest of a decided `&&`, has no step. Constants have none.
        """
        run = self._compiler.compile(expr)
        frame.locals = [None] * self._compiler.slots
        self._steps = []
        # An error is in the step of the whole expression.
        with suppress(EvaluationError):
            run(frame)
        return [s for s in self._steps if s is not None]

    def _noting(self, expr: Expr, evaluate: Evaluate) -> Evaluate:
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
