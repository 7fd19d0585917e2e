"""Journal: the last answer about each of the last pods, for people who ask afterwards.

The journal belongs to the engine and lives as long as the server. It is bounded by pods and by
bytes: the oldest records are forgotten. Records are formatted when somebody reads them.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from engine.cache.node_table import KnownRows
from engine.counting.bounds import ON
from engine.counting.groups import CountHeadroom
from engine.decision.preemption import Victims
from engine.decision.registry import Selection
from engine.decision.verb_call import VerbCall
from engine.decision.verdict import Decision, Feasible, Rejected, Scores, Verdict
from engine.objects.request_pod import RequestPod
from grammar.values.format import show
from grammar.values.time import Timestamp

MOST_PODS = 1000
MOST_BYTES = 32 << 20
# What a record takes besides its nodes; a name that nothing else keeps; one in a table of nodes.
_RECORD_BYTES, _NAME_BYTES, _NODE_BYTES = 1024, 80, 64


Key = tuple[str, str]
Codes = npt.NDArray[np.int16] | npt.NDArray[np.int32]
_MOST_SMALL = int(np.iinfo(np.int16).max)


class RecordedNodes(msgspec.Struct, frozen=True, eq=False):
    """The nodes of a request: their places in a table of nodes, or where there is none, names."""

    rows: npt.NDArray[np.int32] | None
    table: Mapping[str, int] = {}
    named: Sequence[str] = ()

    def names(self) -> Sequence[str]:
        """In the order of the request."""
        if self.rows is None:
            return self.named
        by_place = {row: name for name, row in self.table.items()}
        return [by_place[row] for row in self.rows.tolist()]

    @property
    def bytes(self) -> int:
        return self.rows.nbytes if self.rows is not None else len(self.named) * _NAME_BYTES


class RecordedVerdicts(msgspec.Struct, frozen=True, eq=False):
    """A verdict per node; `codes` has a node's index into `verdicts`, whose first is Feasible."""

    nodes: RecordedNodes
    codes: Codes
    verdicts: Sequence[Verdict]


class RecordedScores(msgspec.Struct, frozen=True, eq=False):
    """A score 0..10 per node."""

    nodes: RecordedNodes
    points: npt.NDArray[np.int8]


class PreemptionDetail(msgspec.Struct, frozen=True):
    """The last call of preempt: how many nodes kube-scheduler proposed, and how many are kept."""

    at: str
    offered: int
    kept: int


class CountedGroup(msgspec.Struct, frozen=True):
    """A group of nodes of a clause, and the pods or the sum there, without the pod in question."""

    name: str
    pods: float


class RecordedCounts(msgspec.Struct, frozen=True, eq=False):
    """The recorded counts of a strict clause: the pods in each group; `is_sum` says thousandths.

    `pods` are by the number of the group. `names` has the number of each group that is a domain, by
    the type and the value of the domain, or of each node; None where a share has two sides and a
    limit the whole cluster. `is_of_nodes` says that the objects of nodes alone give these values.
    """

    policy: str
    clause: str
    is_share: bool
    is_sum: bool
    is_of_nodes: bool
    pods: npt.NDArray[np.int64]
    names: Mapping[Any, int] | None

    def by_group(self) -> tuple[str, str, Sequence[CountedGroup]]:
        """The policy, the clause, and each group with any pods, the fullest first."""
        name_of, groups = self.group_names(), np.flatnonzero(self.pods)
        unit = 1000 if self.is_sum else 1
        pairs = zip(groups.tolist(), self.pods[groups].tolist(), strict=True)
        found = [CountedGroup(name_of(g), n / unit if unit > 1 else n) for g, n in pairs]
        found.sort(key=lambda each: (-each.pods, each.name))
        return self.policy, self.clause, found

    def group_names(self) -> Callable[[int], str]:
        """What gives the name of a group by its number."""
        if self.is_share:
            return lambda group: "its nodes" if group == ON else "other nodes"
        if self.names is None:
            return lambda _: "the cluster"
        known = {group: name for name, group in self.names.items()}

        def name_of(group: int) -> str:
            name = known.get(group)
            # A domain is kept with its type, because 1 is not true.
            return show(name[1]) if isinstance(name, tuple) else str(name)

        return name_of


@dataclass(frozen=True, slots=True)
class ConcernedPolicies:
    """The policies that concern a pod, by address; see `Selection`. `digests` has that of each."""

    governing: str | None = None
    guardrails: tuple[str, ...] = ()
    gave_way: tuple[str, ...] = ()
    audited: tuple[str, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)


class DecisionRecord(msgspec.Struct, eq=False):
    """The record of the last call of filter about a pod, and of prioritize after it.

    `offered` is how many nodes it was about, 0 where preempt is the only call so far.
    `answered` is None where no policy concerns the pod, and all pass; also where there was no
    decision, for which `error` has the reason. `generation` is the journal's at the time, and
    `number` counts the calls of filter. `counts` is what the strict clauses count. `seconds`
    and `scored_seconds` are how long the two decisions took. `preempted` is the last call of
    preempt about the pod, which may be older.
    """

    namespace: str
    name: str
    uid: str
    at: Timestamp
    generation: int
    number: int
    offered: int
    policies: ConcernedPolicies = ConcernedPolicies()
    answered: RecordedVerdicts | None = None
    scored: RecordedScores | None = None
    counts: Sequence[RecordedCounts] = ()
    error: str = ""
    seconds: float = 0.0
    scored_seconds: float = 0.0
    preempted: PreemptionDetail | None = None
    # Of what it had when the journal counted it.
    bytes: int = 0
    tables: Sequence[Mapping[str, int]] = ()


class Journal:
    """The journal: records of the last calls, by pod.

    Names of nodes are kept only where the cache does not have them. `generation` counts the policy
    sets that were enforced, and `number` the calls of filter that were recorded.
    """

    def __init__(
        self,
        most_pods: int = MOST_PODS,
        most_bytes: int = MOST_BYTES,
        now: Callable[[], Timestamp] = Timestamp.now,
    ) -> None:
        self.generation = 1
        self.number = 0
        self.bytes = 0
        self._most_pods = most_pods
        self._most_bytes = most_bytes
        self._now = now
        self._records: OrderedDict[Key, DecisionRecord] = OrderedDict()
        # Tables are shared by the records between two changes of the nodes, and counted once.
        self._tables: Counter[int] = Counter()
        self._last: RequestPod | None = None

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[DecisionRecord]:
        """The newest first."""
        return reversed(self._records.values())

    def find(self, namespace: str, name: str) -> DecisionRecord | None:
        return self._records.get((namespace, name))

    def adopted(self) -> None:
        """Other policies are enforced from now on."""
        self.generation += 1

    def filtered(
        self, call: VerbCall, names: Sequence[str], decided: Decision, seconds: float
    ) -> None:
        selection, answered = call.plan.selection, None
        if not selection.empty or np.count_nonzero(decided.codes):
            nodes = _nodes(names, decided.known_rows)
            # In half the bytes, unless there are too many verdicts for that.
            is_small = len(decided.verdicts) <= _MOST_SMALL
            codes = decided.codes.astype(np.int16) if is_small else decided.codes
            answered = RecordedVerdicts(nodes, codes, decided.verdicts)
        record = self._record(call.pod, len(names))
        record.policies, record.answered = concerned(selection), answered
        record.seconds = seconds
        if decided.headrooms:
            record.counts = recorded_counts(decided.headrooms, decided.known_rows)
        self._keep(record)
        self._last = call.pod

    def failed(self, pod: RequestPod, offered: int, error: str) -> None:
        """Records an error of filter, in place of a decision or after one."""
        if pod is self._last and (known := self.find(pod.namespace, pod.name)) is not None:
            known.error = error
            return
        record = self._record(pod, offered)
        record.error = error
        self._keep(record)

    def scored(self, pod: RequestPod, names: Sequence[str], scores: Scores, seconds: float) -> None:
        known = self.find(pod.namespace, pod.name)
        if known is None or known.uid != pod.uid:
            return
        known.scored_seconds = seconds
        known.scored = RecordedScores(
            _nodes(names, scores.known_rows), scores.points.astype(np.int8)
        )
        self._keep(known)

    def preempted(
        self, call: VerbCall, proposed: Mapping[str, Victims], kept: Mapping[str, Victims]
    ) -> None:
        """kube-scheduler asks no filter where its own plugins leave no node: then this is all."""
        pod = call.pod
        record = self.find(pod.namespace, pod.name)
        if record is None or record.uid != pod.uid:
            record = self._record(pod, 0)
            record.policies = concerned(call.plan.selection)
        record.preempted = PreemptionDetail(self._now().to_second(), len(proposed), len(kept))
        self._keep(record)

    def _record(self, pod: RequestPod, offered: int) -> DecisionRecord:
        self.number += 1
        now, key = self._now(), (pod.namespace, pod.name)
        return DecisionRecord(*key, pod.uid, now, self.generation, self.number, offered)

    def _keep(self, record: DecisionRecord) -> None:
        key = (record.namespace, record.name)
        if (known := self._records.get(key)) is not None:
            self._forget(known)
            if known.uid == record.uid and record.preempted is None:
                # filter is asked again as soon as the victims are gone.
                record.preempted = known.preempted
        self._records[key] = record
        record.bytes, record.tables = _size(record), _tables(record)
        self.bytes += record.bytes
        for table in record.tables:
            users = self._tables[id(table)] = self._tables[id(table)] + 1
            if users == 1:
                self.bytes += len(table) * _NODE_BYTES
        while len(self._records) > 1 and (
            len(self._records) > self._most_pods or self.bytes > self._most_bytes
        ):
            self._forget(next(iter(self._records.values())))

    def _forget(self, record: DecisionRecord) -> None:
        del self._records[record.namespace, record.name]
        self.bytes -= record.bytes
        for table in record.tables:
            users = self._tables[id(table)] = self._tables[id(table)] - 1
            if not users:
                del self._tables[id(table)]
                self.bytes -= len(table) * _NODE_BYTES


def _nodes(names: Sequence[str], known_rows: KnownRows | None) -> RecordedNodes:
    if known_rows is None:
        return RecordedNodes(None, named=names)
    return RecordedNodes(known_rows.rows.astype(np.int32), known_rows.nodes)


def concerned(selection: Selection) -> ConcernedPolicies:
    governing = selection.governing.address if selection.governing is not None else None
    parts = (selection.guardrails, selection.gave_way, selection.audited)
    guardrails, gave_way, audited = (tuple(p.address for p in part) for part in parts)
    every = (*selection.enforced, *selection.gave_way, *selection.audited)
    digests = {p.address: p.digest for p in every}
    return ConcernedPolicies(governing, guardrails, gave_way, audited, digests)


def recorded_counts(
    headrooms: Sequence[CountHeadroom], known_rows: KnownRows | None
) -> Sequence[RecordedCounts]:
    """What each clause counted. Of a limit that counts nodes there is nothing."""
    found = []
    for headroom in headrooms:
        clause, pods = headroom.clause, headroom.counts.high
        names: Mapping[Any, int] | None = headroom.names
        groups_are = clause.groups_are
        if groups_are == "used places":
            continue
        if groups_are == "nodes":
            if known_rows is None:
                continue
            names = known_rows.nodes
        count = clause.count
        found.append(
            RecordedCounts(
                count.policy,
                count.name,
                groups_are == "sides",
                count.peers.amount is not None,
                groups_are != "domains" or clause.of_nodes,
                pods,
                names,
            )
        )
    return found


def _text_size(verdict: Verdict) -> int:
    """The characters of a verdict's own texts; the names in it are shared."""
    if isinstance(verdict, Feasible):
        return 0
    return len(verdict.reason) + (len(verdict.error) if isinstance(verdict, Rejected) else 0)


def _tables(record: DecisionRecord) -> Sequence[Mapping[str, int]]:
    parts = [p.nodes for p in (record.answered, record.scored) if p is not None]
    return [nodes.table for nodes in parts if nodes.rows is not None]


def _size(record: DecisionRecord) -> int:
    size = _RECORD_BYTES + _NAME_BYTES * len(record.policies.digests)
    if record.answered is not None:
        size += record.answered.nodes.bytes + record.answered.codes.nbytes
        size += sum(map(_text_size, record.answered.verdicts))
    if record.scored is not None:
        size += record.scored.nodes.bytes + record.scored.points.nbytes
    for counts in record.counts:
        size += counts.pods.nbytes
    return size
