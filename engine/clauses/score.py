"""Score: a value of each node, and the range in which it gives points."""

from __future__ import annotations

from engine.clauses.meaning import ClauseMeaning
from engine.program import operations
from engine.program.frame import Evaluate
from engine.program.policy_compiler import PolicyCompiler
from engine.program.program import Range, ScoreProgram
from grammar.clauses.score import Score
from grammar.meaning.constants import literal
from grammar.tree.ast import Expr
from grammar.tree.clause_parts import Bounds
from grammar.tree.walk import children


def score_program(clause: Score, compiler: PolicyCompiler) -> ScoreProgram:
    assert not isinstance(clause.weight, Expr), "parameters are filled"
    value, scale = _ranged(clause, compiler)
    return ScoreProgram(
        **compiler.on_nodes(clause, children((clause.value, clause.range))),
        weight=clause.weight,
        value=value,
        range=scale,
        missing=float(clause.missing or 0),
    )


def _ranged(clause: Score, compiler: PolicyCompiler) -> tuple[Evaluate, Range]:
    """The closure of a value, and its range. A computed range is a part of the closure."""
    value, scale = compiler.compiled(clause.value), clause.range
    if not isinstance(scale, Bounds):
        return value, scale
    low, high = (literal(end, compiler.environment) for end in clause.ends)
    if low is not None and high is not None:
        return value, (operations.magnitude(low), operations.magnitude(high))
    return operations.ranged(value, *map(compiler.compiled, clause.ends)), None


SCORE = ClauseMeaning(
    kind=Score,
    programs=lambda *given: (score_program(*given),),
    told=lambda score: (("value", score.value),),
)
