"""Finding: pods, nodes, workloads, policies, clauses and reasons by some words; on the event loop.

It goes over what the replica knows, a few milliseconds at a time, and keeps nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from engine.decision.journal import Journal
from engine.decision.verb_call import ClusterState
from engine.decision.verdict import Feasible, full_reason
from engine.engine import Engine
from engine.errors import NotSyncedError
from engine.explanation.fills import selects
from engine.objects.peer import Peer, key_of
from engine.program.frame import Frame
from grammar.messages.texts import counted
from grammar.values.time import Timestamp
from server.answers.overview_answers import (
    FoundKind,
    FoundList,
    FoundName,
    PodOfWorkload,
    SelectedPods,
    WorkloadDetail,
)
from server.view.turns import Turns, waiting_first

MOST_TEXT = 200
# The results of one kind, and the pods of a workload that are listed.
_MOST_OF_A_KIND, _MOST_PODS = 20, 200


@dataclass(slots=True)
class _Results:
    """The best results of one kind so far, each with its rank, and how many there are."""

    number: int = 0
    best: list[tuple[int, str, FoundName]] = field(default_factory=list)

    def add(self, rank: int, found: FoundName) -> None:
        self.number += 1
        self.best.append((rank, found.name, found))
        if len(self.best) >= 4 * _MOST_OF_A_KIND:
            self._shorten()

    def listed(self) -> Sequence[FoundName]:
        self._shorten()
        return [found for _, _, found in self.best]

    def _shorten(self) -> None:
        self.best.sort(key=lambda each: each[:2])
        del self.best[_MOST_OF_A_KIND:]


class Finder:
    """What one replica finds."""

    def __init__(
        self,
        replica: str,
        engine: Engine,
        journal: Journal,
        cluster: ClusterState,
        policies: Callable[[], Iterable[str]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`policies` gives the addresses of all policies, in force or not."""
        self._replica = replica
        self._engine = engine
        self._journal = journal
        self._cluster = cluster
        self._policies = policies
        self._clock = clock

    async def find(self, text: str) -> FoundList:
        """What has all the words of a text in its name; nothing for a text without words."""
        words = text.lower().split()
        kinds: dict[FoundKind, _Results] = {}
        turns = Turns(self._clock)
        for each in self._everything() if words else ():
            name = each.name.lower()
            if all(word in name for word in words):
                own = name.rpartition("/")[2]
                rank = 0 if words[0] in (name, own) else 1 if own.startswith(words[0]) else 2
                kinds.setdefault(each.kind, _Results()).add(rank, each)
            await turns.take()
        found = [one for results in kinds.values() for one in results.listed()]
        more = sum(results.number for results in kinds.values()) - len(found)
        return FoundList(self._replica, found, more)

    def _everything(self) -> Iterator[FoundName]:
        for address in self._policies():
            yield FoundName("policy", address, "")
        for program in self._engine.registry.programs:
            for clause in program.source.policy.clauses:
                yield FoundName("clause", f"{program.address}: {clause.name}", program.address)
        yield from self._reasons()
        try:
            snapshot = self._cluster.snapshot()
        except NotSyncedError:
            return
        for name in snapshot.table.rows:
            yield FoundName("node", name, "")
        workloads = Counter[str]()
        for pod in waiting_first(snapshot):
            yield FoundName("pod", key_of(pod), pod.nodeName)
            if (owner := pod.workload) is not None:
                workloads[f"{pod.namespace}/{owner.title}"] += 1
        for name, number in workloads.items():
            yield FoundName("workload", name, counted(number, "pod"))

    def _reasons(self) -> Iterator[FoundName]:
        """The reasons in the decisions that are kept, each with the last pod that has it."""
        seen: set[str] = set()
        for record in self._journal:
            for verdict in record.answered.verdicts if record.answered is not None else ():
                if isinstance(verdict, Feasible):
                    continue
                text = full_reason(verdict.policy, verdict.clause, verdict.reason)
                if text not in seen:
                    seen.add(text)
                    yield FoundName("reason", text, f"{record.namespace}/{record.name}")

    async def selected(self, address: str) -> SelectedPods | None:
        """The pods that a policy selects; None if it is not in force. Raises NotSyncedError."""
        registry = self._engine.registry
        program = next((p for p in registry.programs if p.address == address), None)
        if program is None:
            return None
        turns, found = Turns(self._clock), list[Peer]()
        frame, number, waiting = Frame(None, Timestamp.now(), slots=registry.slots), 0, 0
        for pod in waiting_first(self._cluster.snapshot()):
            if selects(program, pod, frame) and not self._engine.exemptions.exempts(pod):
                number += 1
                waiting += not pod.nodeName
                if len(found) < _MOST_OF_A_KIND:
                    found.append(pod)
            await turns.take()
        exactly = program.select is None or program.selects_by is not None
        listed = [_pod_of(pod) for pod in found]
        return SelectedPods(self._replica, address, number, waiting, exactly, listed)

    async def workload(self, namespace: str, kind: str, name: str) -> WorkloadDetail | None:
        """The pods of a workload, those that wait first; None if no pod is of it.

        Raises NotSyncedError.
        """
        turns, found = Turns(self._clock), list[Peer]()
        for pod in waiting_first(self._cluster.snapshot()):
            owner = pod.workload
            if owner is not None and (pod.namespace, owner.kind, owner.name) == (
                namespace,
                kind,
                name,
            ):
                found.append(pod)
            await turns.take()
        if not found:
            return None
        listed = [_pod_of(pod) for pod in found[:_MOST_PODS]]
        waiting = sum(not pod.nodeName for pod in found)
        wanted = found[0].workload.replicas if found[0].workload is not None else None
        return WorkloadDetail(
            self._replica, namespace, kind, name, wanted, len(found), waiting, listed
        )


def _pod_of(pod: Peer) -> PodOfWorkload:
    return PodOfWorkload(key_of(pod), pod.nodeName or None, pod.phase)
