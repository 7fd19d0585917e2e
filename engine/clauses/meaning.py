"""Meaning of a kind of clause: a value with a function for each question of the engine.

The table MEANINGS of the package has those of all kinds. What a kind leaves out is answered as for
most kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from typing import Literal as OneOf

from engine.cache.informers import Needs
from engine.counting.bounds import GroupCounts
from engine.counting.groups import PodInGroup
from engine.program.frame import Frame
from engine.program.pod_shape import Path
from engine.program.policy_compiler import PolicyCompiler
from engine.program.program import ClauseProgram
from engine.selectors.terms import Part, Telling
from grammar.tree.ast import Expr
from grammar.tree.clause_parts import AnyClause

C = TypeVar("C", bound=AnyClause)
# A sentence, the groups whose pods are shown, and the emptiest domain if its pods are shown, too.
CountEvidence = tuple[str, Sequence[int], Sequence[int]]
# A sentence, and the pods that it is about.
PodEvidence = tuple[str, Sequence[PodInGroup]]
ToldPart = tuple[OneOf["require", "bound", "value"], Expr]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClauseMeaning(Generic[C]):
    """The meaning of a kind of clause.

    - `programs` compiles a clause; `pod_reads` are paths of the pod that these read beyond what its
      expressions do.
    - `needs` has the parts of a cluster that a clause reads, beyond those of its expressions.
    - `portable` gives the part of a pod that tells other schedulers of a clause that rejects nodes,
      or raises UnportableError; a text is the reason why there is none.
    - `counted` is the evidence of a program that counts, for the node of a group. `evidence` is
      that of another clause on the node of a frame, with the values of expressions that the clause
      stands for; it raises EvaluationError. It names pods beside its text, which has numbers alone.
    - `told` gives the parts that can differ between nodes, beside the `when`, and a bound that is
      computed; without it these are the requirements.
    """

    kind: type[C]
    programs: Callable[[C, PolicyCompiler], Iterable[ClauseProgram]]
    pod_reads: Callable[[C, PolicyCompiler], Iterable[Path]] | None = None
    needs: Callable[[C], Needs] | None = None
    portable: Callable[[C, Telling], Part] | str = "it has no equivalent"
    counted: Callable[[Any, GroupCounts, int], CountEvidence] | None = None
    evidence: Callable[[C, Callable[[Expr], object], Frame], PodEvidence] | None = None
    told: Callable[[C], Iterable[ToldPart]] | None = None
