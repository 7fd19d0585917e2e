"""Helpers of the tests of counting: clauses from text, groups, and the counts of a clause.

These functions alone know the signatures of `engine.counting`; tables and tests do not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.cache.cache import Cache
from engine.cache.node_table import NodeTable, NodeWithPods
from engine.cache.pods_excluding import KnownPods
from engine.counting.bounds import GroupCounts
from engine.counting.count_clauses import CountClauses
from engine.counting.groups import CountContext, CountGroups, CountHeadroom
from engine.counting.in_flight_pods import AskedPod, InFlightPods
from engine.counting.node_groups import CallGroups, KnownGroups
from engine.counting.pod_counter import PodCounter
from engine.objects.peer import Peer, Workload
from engine.objects.request_pod import RequestPodReader
from engine.program.frame import CheckDeadline, Frame, Report, unlimited
from engine.program.program import BoundProgram, CountClause, Program
from grammar.values.errors import EvaluationError
from grammar.values.time import Timestamp
from tests.support.builders import Object, pod, raw
from tests.support.engines import (
    CODEC,
    NOW,
    CheckedTime,
    cache_of,
    evaluation_of,
    frame_of,
    peer_of,
    programs_of,
    unexpected,
)

ASKED = pod("asked", labels={"app": "web"})

# Clauses about pods of the app web, to be completed: a bound, a skew, a domain and a bound.
WEB = 'pods where peer.labels["app"] == "web"'
ON_SPOT = 'on nodes where node.labels["cap"] == "spot"'
SHARE = f'share "s" {{ of {WEB} {ON_SPOT} %s strict }}'
SPREAD = f'spread "z" {{ {WEB} over node.labels["zone"] skew at most %s strict }}'
LIMIT = f'limit "l" {{ {WEB} per %s strict }}'


def node_groups_of(program: Program, table: NodeTable) -> CallGroups:
    """The groups of nodes that a program reads, in a call without pods on their way."""
    known = KnownGroups({spec.digest: spec for spec in program.groups})
    return CallGroups(known, table, tuple, lambda: None)


def clauses_of(text: str) -> Sequence[CountClause]:
    """The count clauses of a text, in the order shares, spreads, limits."""
    (program,) = programs_of(f"cluster policy p {{ {text} }}")
    return program.counts


def clause_of(text: str) -> CountClause:
    (clause,) = clauses_of(text)
    return clause


def bound_of(text: str) -> BoundProgram:
    """`at most 40%` and the like."""
    clause = clause_of(f'share "s" {{ pods where true on nodes where true {text} strict }}')
    assert clause.kind == "share"
    return clause.bound


def numbers(
    high: Sequence[int],
    low: Sequence[int] | None = None,
    *,
    own: int = 1,
    total: int = 0,
    pods: int | None = None,
    anywhere: bool = True,
    waits: int = 0,
    domains: Sequence[bool] | None = None,
) -> GroupCounts:
    """Counts by group; by default a watch has shown every pod, and every group is a domain.

    There are as many `pods` as are wanted, the `total`, if nothing else is said.
    """
    return GroupCounts(
        high=np.array(high, np.int64),
        low=np.array(high if low is None else low, np.int64),
        own=own,
        total=total,
        pods=total if pods is None else pods,
        anywhere=anywhere,
        waits=waits,
        domains=np.array([True] * len(high) if domains is None else domains, np.bool_),
    )


@dataclass
class Reports:
    """The errors that were reported, as `clause: error`."""

    heard: list[str] = field(default_factory=list)

    def __call__(self, policy: str, clause: str, error: EvaluationError) -> None:
        assert policy == "p"
        self.heard.append(f"{clause}: {error}")


def groups_of(text: str) -> CountGroups:
    """The groups of a clause before they have seen a node."""
    return CountGroups(clause_of(text))


class _RecordingFrame(Frame):
    """A frame that records the nodes that it is used for."""

    def __init__(self, asked: Object) -> None:
        self.used: list[str] = []
        super().__init__(CODEC.pod(raw(asked)), NOW, slots=8)

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "node" and isinstance(value, NodeWithPods):
            self.used.append(value.name)


def update(
    groups: CountGroups,
    table: NodeTable,
    asked: Object = ASKED,
    *,
    check: CheckDeadline = unlimited,
    report: Report = unexpected,
) -> list[str]:
    """Bring the groups up to date; return the nodes that were evaluated for that, in order."""
    frame = _RecordingFrame(asked)
    groups.update(table, evaluation_of(frame, check, report))
    return frame.used


@dataclass
class Counted:
    """The counts of a clause by the name of a group, without those that are zero."""

    high: dict[str, int]
    low: dict[str, int]
    own: int
    total: int
    pods: int
    anywhere: bool


@dataclass
class Counting:
    """A cluster, the pods in flight, and clocks that the test moves."""

    cache: Cache
    seconds: float = 0.0
    now: Timestamp = NOW
    in_flight: InFlightPods = field(init=False)

    def __post_init__(self) -> None:
        self.in_flight = InFlightPods(lambda: self.seconds)
        self.cache.add_event_handler(self.in_flight.pod_changed)

    @property
    def table(self) -> NodeTable:
        return self.cache.snapshot().table

    def offer(self, offered: Object, *nodes: str, best: str | None = None) -> None:
        """Offer a pod these nodes; our own scores rank `best` first."""
        rows = self.table.find(nodes)
        predicted = self.table.find([best or nodes[0]])
        self.in_flight.offer(
            AskedPod(offered["metadata"]["uid"], lambda: peer_of(offered), 0),
            self.table,
            rows,
            int(predicted[0]),
            is_narrow=False,
        )

    def counter(
        self,
        asked: Object = ASKED,
        *,
        replicas: int | None = None,
        pods: KnownPods | None = None,
        check: CheckDeadline = unlimited,
        report: Report = unexpected,
    ) -> PodCounter:
        """The counter of one request."""
        request = RequestPodReader(CODEC).read(raw(asked))

        def peer() -> Peer:
            known = self.cache.snapshot()
            namespace = known.namespaces.get(request.namespace)
            labels = namespace.labels if namespace is not None else {}
            return request.rooted(known.workloads.get(request.controller), labels)

        root = self.cache.snapshot().workloads.get(request.controller)
        if replicas is not None:
            root = Workload("ReplicaSet", "web-1", request.controller, replicas)
        shape = raw(asked["metadata"]["labels"])
        context = CountContext(
            request,
            peer,
            frame_of(asked, self.now),
            CheckedTime(lambda: 0.0, math.inf, look=check),
            root,
            shape,
            report,
        )
        in_flight = self.in_flight.others(request.uid, self.table)
        return PodCounter(pods or self.cache, in_flight, self.table, context)

    def count(
        self,
        clause: CountClause,
        asked: Object = ASKED,
        *,
        predicted: bool = False,
        replicas: int | None = None,
        pods: KnownPods | None = None,
        report: Report = unexpected,
    ) -> Counted:
        """The counts of a clause by the number of a group, or by the node of a limit per node."""
        groups = CountGroups(clause)
        update(groups, self.table, asked)
        counter = self.counter(asked, replicas=replicas, pods=pods, report=report)
        found = counter.count(clause, groups, predicted=predicted)
        per_node = clause.groups_are == "nodes"
        names = {row: name for name, row in self.table.rows.items() if per_node}

        def named(counts: Iterable[int]) -> dict[str, int]:
            return {names.get(i, str(i)): int(n) for i, n in enumerate(counts) if n}

        return Counted(
            named(found.high),
            named(found.low),
            found.own,
            found.total,
            found.pods,
            found.anywhere,
        )

    def headrooms(
        self,
        text: str,
        asked: Object = ASKED,
        nodes: Sequence[str] | None = None,
        *,
        report: Report = unexpected,
    ) -> list[CountHeadroom]:
        """The headroom of each strict clause of a text, over these nodes or all."""
        table = self.table
        rows = table.find(list(table.rows) if nodes is None else nodes)
        evaluation = evaluation_of(frame_of(asked))
        clauses = CountClauses(clauses_of(text), evaluation)
        counter = self.counter(asked, report=report)
        return clauses.headrooms(counter, table, rows, evaluation)

    def deletion_cost(self, text: str, to: str, asked: Object = ASKED) -> int | None:
        """The deletion cost that strict clauses give a pod that is about to be bound to a node."""
        evaluation, counter = evaluation_of(frame_of(asked)), self.counter(asked)
        rows = self.table.find([to])
        clauses = CountClauses(clauses_of(text), evaluation)
        clauses.headrooms(counter, self.table, rows, evaluation)
        return clauses.deletion_cost(counter, int(rows[0]))


def counting_of(nodes: Iterable[Object], pods: Iterable[Object] = ()) -> Counting:
    """A cluster with these nodes and pods, and nothing in flight."""
    return Counting(cache_of(nodes, pods))
