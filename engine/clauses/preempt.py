"""Preempt: which victims are spared, and which candidate nodes stay."""

from __future__ import annotations

from collections.abc import Iterator

from engine.clauses.meaning import ClauseMeaning
from engine.program.policy_compiler import PolicyCompiler
from engine.program.program import PreemptProgram
from grammar.clauses.preempt import Preempt


def _programs(clause: Preempt, compiler: PolicyCompiler) -> Iterator[PreemptProgram]:
    keep = clause.keep
    yield PreemptProgram(
        policy=compiler.policy.address,
        name=clause.name,
        when=compiler.condition(clause.when),
        protects=tuple(map(compiler.compiled, clause.protect)),
        requires=tuple(map(compiler.compiled, clause.requires)),
        keep=keep.count if keep is not None else None,
        order=compiler.compiled(keep.by) if keep is not None else None,
        passes_missing=compiler.policy.passes_missing(clause),
    )


PREEMPT = ClauseMeaning(kind=Preempt, programs=_programs)
