"""Registry: the enforced policies, and which of them concern a pod.

A registry is immutable; the engine adopts another one as a whole when policies change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from engine.counting.mutual_limits import MutualLimit
from engine.errors import NotSyncedError, WaitingError
from engine.program.frame import Evaluation
from engine.program.pod_shape import Shapes
from engine.program.program import Program, ScoreProgram
from grammar.messages.texts import shown
from grammar.values.errors import EvaluationError, MissingError

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Unselectable:
    """An unselectable policy: its `for` could not be evaluated for this pod."""

    program: Program
    error: str


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection: the policies that concern one pod.

    `guardrails` all apply, then `governing` if there is one. The policies in `gave_way` select the
    pod too and do not apply. `audited` policies are evaluated beside it and never reject;
    `unselectable` ones reject every node (`missing fail`). Of a pod that is exempt there are none,
    and `exempt` says why.
    """

    guardrails: tuple[Program, ...] = ()
    governing: Program | None = None
    gave_way: tuple[Program, ...] = ()
    audited: tuple[Program, ...] = ()
    unselectable: tuple[Unselectable, ...] = ()
    exempt: str = ""

    @property
    def enforced(self) -> tuple[Program, ...]:
        """The policies that apply, guardrails first: a rejection names the first that rejects."""
        return (*self.guardrails, self.governing) if self.governing is not None else self.guardrails

    def of(self, kind: type[K]) -> tuple[K, ...]:
        """The clauses of one kind of the policies that apply, in their order."""
        return tuple(clause for program in self.enforced for clause in program.of(kind))

    @property
    def programs(self) -> tuple[Program, ...]:
        """All of these policies."""
        broken = (each.program for each in self.unselectable)
        return (*self.enforced, *self.gave_way, *self.audited, *broken)

    @property
    def empty(self) -> bool:
        return not (self.guardrails or self.governing or self.audited or self.unselectable)


class Registry:
    """A registry of compiled policies by namespace, without those that only provide clauses.

    `shapes` tells pods apart by what the policies read of them. `reads_groups`: some policy has a
    `group` or a `count`; `counts`: some policy does, or counts pods; `soft_counts`: some policy
    does so as a preference; `reads_peers`: some policy reads more than labels of the pods that it
    counts. `mutual` are the limits that hold for the pods there, too. `tables` are what
    policies read beside pods and nodes, and `groups` the groups of nodes that they read, by their
    digests; rows of tables are read by these `keys` of nodes. `annotations` are the keys
    of the annotations that they read of pods that count.
    """

    def __init__(
        self,
        programs: Iterable[Program] = (),
        *,
        refusing: Iterable[Program] = (),
        complete: bool = True,
        annotations: frozenset[str] = frozenset(),
    ) -> None:
        """`refusing` stand for policies without a valid version whose pods wait: they select these.

        If it is not `complete`, there may be others, which nobody has seen yet.
        """
        self.complete = complete
        self.annotations = annotations
        self.refusing = tuple(refusing)
        self.programs = tuple(p for p in programs if not p.only_used)
        every = (*self.programs, *self.refusing)
        self.slots = max((p.slots for p in every), default=0)
        self.groups = {group.digest: group for p in self.programs for group in p.groups}
        self.reads_groups = bool(self.groups) or any(p.named for p in self.programs)
        # Pods on their way count in what is requested in a group.
        counts = [(program, clause) for program in self.programs for clause in program.counts]
        self.counts = bool(counts) or self.reads_groups
        tables = [table for p in self.programs for table in p.tables]
        self.tables = {table.digest: table for table in tables}
        self.keys: dict[str, frozenset[str]] = {}
        for table in tables:
            self.keys[table.digest] = self.keys.get(table.digest, frozenset()) | table.keys
        self.soft_counts = any(c.count.weight is not None for _, c in counts) or any(
            p.conditional or any(c.groups.pods for c in p.of(ScoreProgram)) for p in self.programs
        )
        self.shapes = Shapes(path for p in every for path in p.reads)
        self._everywhere = tuple(p for p in self.programs if p.namespace is None)
        self._namespaced: dict[str, tuple[Program, ...]] = {}
        for program in self.programs:
            if program.namespace is not None:
                known = self._namespaced.get(program.namespace, ())
                self._namespaced[program.namespace] = (*known, program)
        self._mutual = [(p, clause) for p, clause in counts if clause.mutual is not None]
        peers = [clause.count.peers for _, clause in counts]
        by_labels = (p.by_labels and p.where is not None and p.amount is None for p in peers)
        self.reads_peers = bool(self._mutual) or self.reads_groups or not all(by_labels)

    @cached_property
    def mutual(self) -> Sequence[MutualLimit]:
        """Made where they are used first: they share the memory of the thread that decides."""
        return [
            MutualLimit(program, clause, self._ahead(program)) for program, clause in self._mutual
        ]

    @property
    def guardrails(self) -> Iterator[Program]:
        """The policies that apply beside the one that governs a pod."""
        return (p for p in self._everywhere if p.cluster and not p.audit)

    def deciding(self, kind: type) -> list[Program]:
        """The policies of the cluster with such clauses, in the order in which they decide."""
        found = (p for p in self._everywhere if p.of(kind) and not p.audit)
        return sorted(found, key=lambda program: (not program.cluster, *_precedence(program)))

    def contenders(self, namespace: str) -> list[Program]:
        """The policies of which the first one that selects a pod of the namespace governs it."""
        known = (*self._everywhere, *self._namespaced.get(namespace, ()))
        return sorted((p for p in known if not p.cluster and not p.audit), key=_precedence)

    def anew(self) -> Registry:
        """The same policies, without what their limits have learned of pods."""
        return Registry(
            self.programs,
            refusing=self.refusing,
            complete=self.complete,
            annotations=self.annotations,
        )

    def _ahead(self, program: Program) -> list[Program]:
        """The policies that govern a pod in place of this one, as far as a pod there can tell.

        A limit of a policy whose `for` reads more than is known of a pod that is there is left out.
        """
        if program.cluster or program.audit:
            return []
        own = program.namespace
        others = self.programs if own is None else (*self._everywhere, *self._namespaced[own])
        return [
            other
            for other in others
            if not (other.cluster or other.audit)
            and other.selects_by is not None
            and _precedence(other) < _precedence(program)
        ]

    def select(self, namespace: str, evaluation: Evaluation) -> Selection:
        """The policies that concern the evaluation's pod.

        One of the policies that select the pod governs it: the one with the highest weight; then
        one that can reject; then a namespaced one; then the first by name
        (docs/language/policies.md, Which policies decide about a pod).

        Raises WaitingError for a pod that a policy without a valid version selects,
        NotSyncedError while the policies are not all known, and ExpensivePolicyError.
        """
        frame, time = evaluation.frame(), evaluation.time
        if not self.complete:
            raise NotSyncedError("not synced: the policies of the cluster are not known yet")
        for program in self.refusing:
            if program.namespace in (None, namespace) and _selects(program, evaluation):
                text = f"policy {program.address} is not enforced: no valid version loaded yet"
                raise WaitingError(text, policy=program.address)
        matching: list[Program] = []
        broken: list[Unselectable] = []
        for program in (*self._everywhere, *self._namespaced.get(namespace, ())):
            if program.select is not None:
                time.charge(program.address)
            try:
                if program.select is None or program.select(frame) is True:
                    matching.append(program)
            except MissingError:
                continue
            except EvaluationError as error:
                if not program.passes_missing and not program.audit:
                    broken.append(Unselectable(program, shown(str(error))))
        time.rest()
        contenders = sorted((p for p in matching if not p.cluster and not p.audit), key=_precedence)
        return Selection(
            guardrails=tuple(p for p in matching if p.cluster and not p.audit),
            governing=contenders[0] if contenders else None,
            gave_way=tuple(contenders[1:]),
            audited=tuple(p for p in matching if p.audit),
            unselectable=tuple(broken),
        )


def _selects(program: Program, evaluation: Evaluation) -> bool:
    if program.select is None:
        return True
    evaluation.time.charge(program.address)
    try:
        return program.select(evaluation.frame()) is True
    except EvaluationError:
        return False


def _precedence(program: Program) -> tuple[int, bool, bool, str]:
    return (-program.weight, not program.strict, program.namespace is None, program.name)
