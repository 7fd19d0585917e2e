"""Share: a bound on the pods on the nodes for which a condition is true."""

from __future__ import annotations

from collections.abc import Iterator

from engine.clauses.meaning import ClauseMeaning, CountEvidence
from engine.counting.bounds import OFF, ON, GroupCounts, wanted_on
from engine.program.policy_compiler import PolicyCompiler
from engine.program.program import CountClause
from grammar.clauses.share import Share
from grammar.tree.printer import print_expression
from grammar.tree.walk import conjuncts


def _programs(clause: Share, compiler: PolicyCompiler) -> Iterator[CountClause]:
    yield CountClause(
        kind="share",
        count=compiler.count(clause, clause.bound.amount),
        bound=compiler.bound(clause.bound),
        groups_are="sides",
        place=compiler.compiled(clause.on),
        conditions=tuple(map(print_expression, conjuncts(clause.on))),
    )


def _counted(clause: CountClause, counts: GroupCounts, group: int) -> CountEvidence:
    bound = counts.bound_of(clause, group)
    wanted = wanted_on(bound, counts.total, counts.pods)
    every = counts.pods if bound.amount == 100 else counts.total
    rounded = f" rounded {bound.rounding}" if bound.rounding else ""
    share = f" ({bound} of {every}{rounded})" if bound.percent else ""
    there, off = int(counts.high[ON]), int(counts.high[OFF])
    elsewhere = f" and {off} elsewhere" if bound.kind != "at most" else ""
    text = f"{there} on these nodes{elsewhere}, {bound.kind} {wanted}{share}"
    place = "one" if group == ON else "not one"
    return f"{text}; this node is {place} of them", [ON], ()


SHARE = ClauseMeaning(
    kind=Share,
    programs=_programs,
    portable="a number of pods on some nodes has no equivalent",
    counted=_counted,
)
