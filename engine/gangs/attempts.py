"""Attempts: whether a whole gang would fit now, and where.

They belong to Gangs and live as long as they do. An attempt changes nothing but the pods in flight:
those that it has placed count where they would go.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from weakref import ReferenceType, ref

import numpy as np

from engine.cache.node_table import NodeRows, NodeTable
from engine.decision.placement import Placement
from engine.decision.plugin_filters import PluginFilters
from engine.decision.verb_call import CallOpener, VerbCall
from engine.errors import BadObjectError, EngineError
from engine.gangs.gang import GangState
from engine.gangs.members import GangName, shared_value
from engine.gangs.node_room import Mask, NodeRoom
from engine.gangs.paper import Member, Paper, Suits
from engine.objects.peer import Peer
from engine.objects.request_pod import RequestPodReader
from engine.program.frame import Frame
from engine.program.program import GangProgram
from grammar.values.errors import EvaluationError

# The rows of the nodes with each value of `within`, as `shared_value` gives it.
RowsByValue = Mapping[tuple[str, Hashable], NodeRows]


class Attempts:
    """Places gangs on paper. `suits` gives our scores of nodes."""

    def __init__(
        self,
        calls: CallOpener,
        placement: Placement,
        plugins: PluginFilters,
        pods: RequestPodReader,
        suits: Suits,
    ) -> None:
        self._calls = calls
        self._placement = placement
        self._plugins = plugins
        self._pods = pods
        self._suits = suits
        self._room = NodeRoom()
        self._by_value: dict[GangProgram, tuple[ReferenceType[NodeTable], RowsByValue]] = {}

    def retain(self, programs: frozenset[GangProgram]) -> None:
        """Forgets all other clauses."""
        self._by_value = {p: each for p, each in self._by_value.items() if p in programs}

    def beside(self, uid: str, call: VerbCall) -> VerbCall | None:
        """A call about another pod in the time of this one; None if its JSON is not known.

        Raises EngineError where there is no decision about it.
        """
        body = call.cluster.pods.body(uid)
        if body is None:
            return None
        try:
            return self._calls.beside(self._pods.other(body), call)
        except BadObjectError:
            return None

    def within(
        self, name: GangName, table: NodeTable, rows: NodeRows, placed: Iterable[str]
    ) -> Mask:
        """Which of the rows have a value that one of these nodes has, too."""
        if name.program.domain is None:
            return np.ones(len(rows), np.bool_)
        there = table.find(list(placed))
        found = np.zeros(len(rows), np.bool_)
        for each in self._rows_by_value(name.program, table).values():
            if np.isin(there, each).any():
                found |= np.isin(rows, each)
        return found

    def place(
        self,
        gang: GangState,
        call: VerbCall,
        waiting: Mapping[str, Peer],
        only: NodeRows | None,
        others: Iterable[GangState],
        freed: Iterable[GangState] = (),
    ) -> Mapping[str, str] | str:
        """The nodes of the members that are still needed, by uid, the asked pod among them.

        They stay in flight there. If they do not fit beside the places of the others, the text says
        how many do. What is held of `freed` gangs counts as free. `waiting` are the members without
        a node, and `only` the rows that kube-scheduler asks about for the pod of the call, None for
        all. Raises EngineError, and then nothing has changed.
        """
        call.evaluation.time.charge(gang.clause.policy)
        table, held = call.snapshot.table, len(gang.holds)
        for uid in gang.places.keys() - gang.holds.keys():
            # They are placed anew.
            self._placement.in_flight.forget(uid)
        members = self._to_place(gang, call, waiting, only)
        if len(members) + held < gang.quorum:
            return f"{len(members) + held} of {gang.quorum} members are known"
        paper = self._paper(members, table, call, others)
        for other in freed:
            for uid in other.holds:
                if (row := table.rows.get(other.places[uid])) is not None:
                    paper.leave(call.cluster.pods.pod(other.keys[uid]), row)
        best, where = 0, ""
        try:
            for value, rows in self._sets_of_rows(gang, members, paper, table):
                fitting = paper.fill(members, rows)
                if fitting == len(members):
                    names = {row: name for name, row in table.rows.items()}
                    return {uid: names[row] for uid, row in paper.places.items()}
                paper.undo(members)
                if fitting > best:
                    best, where = fitting, value
        except EngineError:
            paper.undo(members)
            raise
        in_one = f", in {where}" if where else ""
        return f"{best + held} of {gang.quorum} members fit{in_one}"

    def _to_place(
        self, gang: GangState, call: VerbCall, waiting: Mapping[str, Peer], only: NodeRows | None
    ) -> list[Member]:
        """As many members as are still needed, the asked pod among them; the largest first."""
        needed = gang.quorum - len(gang.holds)
        found = [Member.of(call, only)]
        others = [pod for uid, pod in waiting.items() if uid != call.pod.uid]
        if gang.gathers:
            others = [pod for pod in others if pod.uid in gang.places]
        for pod in sorted(others, key=lambda each: (-each.priority, each.name)):
            if len(found) >= needed:
                break
            other = self.beside(pod.uid, call)
            if other is not None and gang.clause in other.plan.gangs:
                found.append(Member.of(other))
        return sorted(found, key=lambda each: sorted(each.needs.items()), reverse=True)

    def _paper(
        self,
        members: Sequence[Member],
        table: NodeTable,
        call: VerbCall,
        others: Iterable[GangState],
    ) -> Paper:
        """What is left beside the places of all others."""
        check, pods = call.evaluation.time.check, call.cluster.pods
        resources = set[str]().union(*(member.needs for member in members))
        free = self._room.columns(table, resources, check)
        paper = Paper(table, free, self._placement, self._plugins, self._suits, check)
        for other in others:
            for uid, node in other.places.items():
                row = table.rows.get(node)
                # What is held counts on its node already.
                if uid not in other.holds and row is not None:
                    paper.stand(pods.pod(other.keys[uid]), row)
        return paper

    def _sets_of_rows(
        self, gang: GangState, members: Sequence[Member], paper: Paper, table: NodeTable
    ) -> Iterable[tuple[str, NodeRows]]:
        """The sets of rows to try, each with the value that its nodes share.

        Those with the least room come first, of those with room enough; else the one with most.
        """
        rows = np.fromiter(table.rows.values(), np.intp, len(table.rows))
        if gang.clause.domain is None:
            return [("", rows)]
        by_value = self._rows_by_value(gang.clause, table)
        if gang.holds:
            held = table.find([gang.places[uid] for uid in gang.holds])
            by_value = {v: each for v, each in by_value.items() if np.isin(held, each).all()}
        found = [
            (int(paper.capacity(members, each).sum()), str(value), each)
            for (_, value), each in by_value.items()
        ]
        found.sort(key=lambda each: each[:2])
        enough = [each for each in found if each[0] >= len(members)]
        return [(value, each) for _, value, each in enough or found[-1:]]

    def _rows_by_value(self, program: GangProgram, table: NodeTable) -> RowsByValue:
        """The rows with each value of `within`, kept for the last table."""
        known = self._by_value.get(program)
        if known is not None and known[0]() is table:
            return known[1]
        assert program.domain is not None, "the clause has a `within`"
        frame = Frame(None, self._calls.now(), slots=self._calls.registry.slots)
        found: dict[tuple[str, Hashable], list[int]] = {}
        for row in table.rows.values():
            frame.node = table.nodes[row]
            frame.refill()
            # A node without a value is in no set.
            with suppress(EvaluationError):
                found.setdefault(shared_value(program.domain(frame)), []).append(row)
        by_value = {value: np.array(each, np.intp) for value, each in found.items()}
        self._by_value[program] = ref(table), by_value
        return by_value
