"""Members: the pods of each gang, found by the value that they share.

A gang is named by the clause, the namespace and the value of the pods: of `of pods by`, the name
of their PodGroup, or the uid of their workload. Members belong to Gangs and live as long as they
do; a policy that is not in force any more is forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from engine.cache.node_table import Snapshot
from engine.cache.pods_excluding import KnownPods
from engine.cache.tallies import Scope
from engine.counting.domains import shared_value
from engine.decision.verb_call import VerbCall
from engine.objects.peer import Peer
from engine.program.frame import Frame
from engine.program.program import GangProgram
from grammar.values.errors import EvaluationError
from grammar.values.time import Timestamp


@dataclass(frozen=True, slots=True, eq=False)
class GangName:
    """What pods of one gang have in common; names of equal parts are equal."""

    program: GangProgram
    namespace: str
    value: Hashable

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, GangName)
            and self.program is other.program
            and (self.namespace, self.value) == (other.namespace, other.value)
        )

    def __hash__(self) -> int:
        return hash((id(self.program), self.namespace, self.value))


class _Values:
    """The value of each pod for one clause; None for a pod that is in no gang."""

    def __init__(self, program: GangProgram, slots: int) -> None:
        self._program = program
        self._frame = Frame(None, Timestamp(0), slots=slots)

    def of(self, pod: Peer) -> Hashable:
        if pod.deletionTimestamp is not None:
            return None
        if self._program.by is None:
            if pod.group is not None and not self._program.percent:
                return pod.group
            return pod.workload.uid if pod.workload is not None else None
        frame = self._frame
        frame.peer = pod
        frame.refill()
        try:
            found = shared_value(self._program.by(frame))
            hash(found)
        except (EvaluationError, TypeError):
            # Lists and maps name no gang.
            return None
        return found


class Members:
    """Members of each gang: the waiting pods, kept event by event, and the numbers on nodes."""

    def __init__(self, slots: Callable[[], int]) -> None:
        self._slots = slots
        self._values: dict[GangProgram, _Values] = {}
        # By clause and namespace: the waiting pods by value and uid.
        self._waiting: dict[tuple[GangProgram, str], dict[Hashable, dict[str, Peer]]] = {}

    def name_of(self, program: GangProgram, pod: Peer) -> GangName | None:
        """The gang of a pod; None if it is in none of this clause."""
        value = self._of(program).of(pod)
        return None if value is None else GangName(program, pod.namespace, value)

    def of(self, call: VerbCall) -> GangName | None:
        """The gang of the pod of a call; None if it is in none."""
        if not call.plan.gangs:
            return None
        return self.name_of(call.plan.gangs[0], call.context(call.snapshot).peer())

    def waiting(self, name: GangName, snapshot: Snapshot) -> Mapping[str, Peer]:
        """The members without a node that kube-scheduler may place, by uid."""
        place = name.program, name.namespace
        found = self._waiting.get(place)
        if found is None:
            found = self._waiting[place] = {}
            for pod in snapshot.pending.values():
                if pod.namespace == name.namespace:
                    value = self._of(name.program).of(pod)
                    if value is not None:
                        self._add(place, pod, value)
        return found.get(name.value, {})

    def placed(self, name: GangName, pods: KnownPods, call: VerbCall) -> Mapping[str, int]:
        """The numbers of members on nodes, by the names of these, also of the held ones.

        Raises what the time of the call does.
        """
        values = self._of(name.program)
        scope = Scope(name.namespace)
        census = pods.tallies.census(
            ("gang", name.program), scope, values.of, call.evaluation.time.check
        )
        group = census.groups.get(name.value)
        return group.nodes if group is not None else {}

    def on_nodes(
        self, name: GangName, nodes: Iterable[str], snapshot: Snapshot
    ) -> Iterator[tuple[str, Peer]]:
        """The members on these nodes, also the held ones, each with its node."""
        for node in sorted(nodes):
            view = snapshot.node(node)
            for pod in (view.pods if view is not None else None) or ():
                if self.name_of(name.program, pod) == name:
                    yield node, pod

    def pod_changed(self, old: Peer | None, new: Peer | None) -> Collection[GangName]:
        """Takes a new state of a pod from the cache. Returns the gangs that it is or was in."""
        found = set[GangName]()
        for place in self._waiting:
            for pod, change in ((old, self._remove), (new, self._add)):
                if pod is None or pod.namespace != place[1]:
                    continue
                if (value := self._of(place[0]).of(pod)) is not None:
                    change(place, pod, value)
                    found.add(GangName(*place, value))
        return found

    def retain(self, programs: frozenset[GangProgram]) -> None:
        """Forgets all other clauses."""
        self._values = {p: v for p, v in self._values.items() if p in programs}
        self._waiting = {k: v for k, v in self._waiting.items() if k[0] in programs}

    def _of(self, program: GangProgram) -> _Values:
        if program not in self._values:
            self._values[program] = _Values(program, self._slots())
        return self._values[program]

    def _add(self, place: tuple[GangProgram, str], pod: Peer, value: Hashable) -> None:
        if not (pod.is_gated or pod.nodeName):
            self._waiting[place].setdefault(value, {})[pod.uid] = pod

    def _remove(self, place: tuple[GangProgram, str], pod: Peer, value: Hashable) -> None:
        members = self._waiting[place].get(value)
        if members is not None:
            members.pop(pod.uid, None)
            if not members:
                del self._waiting[place][value]
