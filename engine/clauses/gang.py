"""Gang: who its members are and how many must be there, which `engine.gangs` goes by.

An explanation lists the members once, beside the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.cache.informers import Needs
from engine.clauses.meaning import ClauseMeaning
from engine.program.pod_shape import COMPUTED, Path, paths_as_peer
from engine.program.policy_compiler import PolicyCompiler
from engine.program.program import GangProgram
from grammar.clauses.gang import Gang


def _programs(clause: Gang, compiler: PolicyCompiler) -> Iterator[GangProgram]:
    number = clause.at_least
    yield GangProgram(
        policy=compiler.policy.address,
        name=clause.name,
        when=compiler.condition(clause.when),
        message=compiler.message(clause.message, clause.name),
        by=compiler.optional(clause.by),
        number=None if number is None else compiler.number(number),
        percent=clause.percent,
        domain=None if clause.within is None else compiler.shared(clause.within),
        seconds=clause.seconds,
    )


def _pod_reads(clause: Gang, compiler: PolicyCompiler) -> Iterator[Path]:
    """The paths of the pod that say in which gang it is: it is a `peer`, too."""
    if clause.by is None:
        yield from (*COMPUTED["workload"], *COMPUTED["group"])
        return
    for path in compiler.peer_reads.written(clause.by):
        yield from paths_as_peer(path)


GANG = ClauseMeaning(
    kind=Gang,
    programs=_programs,
    pod_reads=_pod_reads,
    needs=lambda gang: Needs(groups=gang.by is None),
    portable="pods that are bound together have no equivalent",
)
