"""Gang: who its members are and how many must be there, which `engine.gangs` goes by.

An explanation lists the members once, beside the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from engine.cache.informers import Needs
from engine.clauses.meaning import ClauseMeaning
from engine.program.frame import Evaluate
from engine.program.pod_shape import COMPUTED, Path, paths_as_peer
from engine.program.policy_compiler import PolicyCompiler
from engine.program.program import PartProgram
from grammar.clauses.gang import Gang
from grammar.tree.printer import print_expression


@dataclass(frozen=True, slots=True)
class Role:
    """Role of members: those for which `where` is true of the frame's `peer`; `text` says it."""

    number: float | Evaluate
    where: Evaluate
    text: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GangProgram(PartProgram):
    """A compiled gang: pods that are bound together, or not at all.

    `by` gives the gang of the frame's `peer`; a pod where it is missing is in none. Without `by`
    the pods of the PodGroup that a pod names are a gang, else those of the workload. `number` is
    how many members must be there, or how many `percent` of the wanted replicas; it reads `pod`,
    and None stands for those of the `roles`, else of the group, else all wanted replicas. A member
    has the first role of these that is its own. `domain` is the value of a node that all members
    share. A member is held at bind for so many `seconds`.
    """

    by: Evaluate | None
    number: float | Evaluate | None
    percent: bool
    roles: Sequence[Role] = ()
    domain: Evaluate | None
    seconds: float
    binding_work: ClassVar[str] = "holds gangs"


def _programs(clause: Gang, compiler: PolicyCompiler) -> Iterator[GangProgram]:
    needed = clause.of_all
    yield GangProgram(
        policy=compiler.policy.address,
        name=clause.name,
        when=compiler.condition(clause.when),
        message=compiler.message(clause.message, clause.name),
        by=compiler.optional(clause.by),
        number=None if needed is None else compiler.number(needed.amount),
        percent=needed is not None and needed.percent,
        roles=[
            Role(
                compiler.number(each.amount),
                compiler.compiled(each.where),
                print_expression(each.where),
            )
            for each in clause.numbers
            if each.where is not None
        ],
        domain=None if clause.within is None else compiler.shared(clause.within),
        seconds=clause.seconds,
    )


def _pod_reads(clause: Gang, compiler: PolicyCompiler) -> Iterator[Path]:
    """The paths of the pod that say in which gang it is: it is a `peer`, too."""
    if clause.by is None:
        yield from (*COMPUTED["workload"], *COMPUTED["group"])
    for expr in (clause.by, *(each.where for each in clause.numbers)):
        for path in compiler.peer_reads.written(expr) if expr is not None else ():
            yield from paths_as_peer(path)


GANG = ClauseMeaning(
    kind=Gang,
    programs=_programs,
    pod_reads=_pod_reads,
    needs=lambda gang: Needs(groups=gang.by is None, workloads=True, ended=True, quotas=True),
    portable="pods that are bound together have no equivalent",
)
