"""Attempts: whether a whole gang would fit now, and where.

They belong to Gangs and live as long as they do. An attempt changes nothing but the pods in flight:
those that it has placed count where they would go.

The quorum, how many members are placed together, is that of the clause, an expression that each
member evaluates, or comes from the PodGroup or the wanted replicas of the workload.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from engine.cache.node_table import NodeRows, NodeTable
from engine.counting.domains import Domains, shared
from engine.decision.placement import PlacingParts
from engine.decision.verb_call import VerbCall
from engine.errors import BadObjectError, EngineError
from engine.gangs.gang import KnownGang, Numbers
from engine.gangs.held_calls import MOST_HELD_OF_NAMESPACE
from engine.gangs.members import GangName
from engine.gangs.paper import Mask, Member, NodeRoom, Paper, Suits
from engine.objects.peer import Peer
from engine.objects.pod_group import GroupName
from engine.objects.remembered import Remembered
from engine.objects.request_pod import RequestPod
from engine.objects.resources import needs
from engine.program.frame import Frame
from engine.program.program import GangProgram
from grammar.values.errors import EvaluationError

# The bytes of the members that are kept as they were decoded.
_MOST_OTHERS = 16 << 20
# More than this does not matter of the room of a node.
_ENOUGH = 1 << 20


class Attempts:
    """Attempts to place gangs on paper. `suits` gives our scores of nodes."""

    def __init__(self, parts: PlacingParts, suits: Suits) -> None:
        self._calls, self._placement, self._plugins, self._pods = parts
        self._suits = suits
        self._room = NodeRoom()
        self._domains: dict[GangProgram, Domains] = {}
        # By uid: the members of a gang that is tried again and again are decoded once.
        self._others: Remembered[str, RequestPod] = Remembered(
            _MOST_OTHERS, lambda uid, pod: len(uid) + pod.decoded_bytes
        )

    def retain(self, programs: frozenset[GangProgram]) -> None:
        """Forgets all other clauses, and pods that were decoded for other policies."""
        self._others.clear()
        self._domains = {p: each for p, each in self._domains.items() if p in programs}

    def beside(self, uid: str, call: VerbCall) -> VerbCall | None:
        """A call about another pod in the time of this one; None if its JSON is not known.

        Raises EngineError where there is no decision about it.
        """
        body = call.cluster.pods.body(uid)
        if body is None:
            return None
        try:
            other = self._others.get(uid)
            if other is None or other.body is not body:
                other = self._others.put(uid, self._pods.other(body))
            return self._calls.beside(other, call)
        except BadObjectError:
            return None

    def within(self, name: GangName, call: VerbCall, rows: NodeRows, placed: Iterable[str]) -> Mask:
        """Which of the rows have a value that one of these nodes has, too."""
        if name.program.domain is None:
            return np.ones(len(rows), np.bool_)
        table, check = call.snapshot.table, call.evaluation.time.check
        numbers = self._domains_of(name.program).of(table, check)
        return shared(numbers, rows, table.find(list(placed)))

    def place(
        self,
        gang: KnownGang,
        call: VerbCall,
        waiting: Mapping[str, Peer],
        only: NodeRows | None,
        others: Iterable[KnownGang],
        freed: Iterable[KnownGang] = (),
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
                fitting = paper.fitting(members, rows)
                if fitting is None or fitting == len(members):
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

    def without_room(self, pods: Iterable[Peer], table: NodeTable) -> Peer | None:
        """The first of the pods for which no node has room, whatever is on paper."""
        rows = np.fromiter(table.rows.values(), np.intp, len(table.rows))
        for wanted, pod in {frozenset(needs(pod.requests).items()): pod for pod in pods}.items():
            free = self._room.columns(table, (name for name, _ in wanted), lambda: None)
            if not free.capacity(dict(wanted), rows).any():
                return pod
        return None

    def _to_place(
        self, gang: KnownGang, call: VerbCall, waiting: Mapping[str, Peer], only: NodeRows | None
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
        others: Iterable[KnownGang],
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
        self, gang: KnownGang, members: Sequence[Member], paper: Paper, table: NodeTable
    ) -> Iterable[tuple[str, NodeRows]]:
        """The sets of rows to try, each with the value that its nodes share.

        Those with the least room come first, of those with room enough; else the one with most.
        """
        rows = np.fromiter(table.rows.values(), np.intp, len(table.rows))
        if gang.clause.domain is None:
            return [("", rows)]
        domains = self._domains_of(gang.clause)
        numbers = domains.of(table, paper.check)
        rows = rows[numbers[rows] >= 0]
        if gang.holds:
            held = table.find([gang.places[uid] for uid in gang.holds])
            # A node of theirs may have got another value since.
            is_one = len(np.unique(numbers[held])) == 1
            rows = rows[shared(numbers, rows, held) & is_one]
        room = np.minimum(paper.capacity(members, rows), _ENOUGH)
        sums = np.bincount(numbers[rows], room, len(domains.texts))
        there = np.unique(numbers[rows]).tolist()
        there.sort(key=lambda number: (sums[number], domains.texts[number]))
        tried = [number for number in there if sums[number] >= len(members)] or there[-1:]
        return ((domains.texts[number], rows[numbers[rows] == number]) for number in tried)

    def _domains_of(self, program: GangProgram) -> Domains:
        if program not in self._domains:
            assert program.domain is not None, "the clause has a `within`"
            frame = Frame(None, self._calls.now(), slots=self._calls.registry.slots)
            self._domains[program] = Domains(program.domain, frame)
        return self._domains[program]

    # ---- how many members are placed together

    def quorum(self, call: VerbCall, name: GangName) -> int | str:
        """The number that the pod of a call says, or why that cannot be told."""
        program = name.program
        number: object = program.number
        replicas: int | None = None
        if isinstance(name.value, GroupName) and number is None:
            group = call.cluster.pods.group(name.namespace, name.value)
            if group is None:
                return f"PodGroup {name.value.name} is not known"
            if group.minCount is None:
                return f"PodGroup {name.value.name} says no number of members"
            number = group.minCount
        elif program.by is None or program.percent:
            workload = call.cluster.pods.workload(str(name.value))
            replicas = workload.replicas if workload is not None else None
            if replicas is None and (number is None or program.percent):
                return "the number of its members is not known"
        if callable(number):
            call.evaluation.time.charge(program.policy)
            try:
                number = number(call.evaluation.frame())
            except EvaluationError as error:
                call.evaluation.report(program.policy, program.name, error)
                return "its number of members cannot be evaluated"
            finally:
                call.evaluation.time.rest()
        if number is None:
            number = replicas
        elif program.percent:
            assert replicas is not None, "a percentage is of the replicas"
            number = math.ceil(float(number) * replicas / 100)  # type: ignore[arg-type]
        found = max(1, int(number))  # type: ignore[call-overload]
        most = MOST_HELD_OF_NAMESPACE
        return found if found <= most else f"more than {most:,} members"

    def read_quorum(
        self, gang: KnownGang, call: VerbCall, quorum: int, waiting: Mapping[str, Peer]
    ) -> int:
        """Takes the largest number that members say; the number of those that say one.

        `quorum` is what the pod of the call says, and `waiting` are the members without a node.
        """
        gang.numbers = self._numbers(gang, call, quorum, waiting)
        told = {uid: number for uid, (_, number) in gang.numbers.items()} | {call.pod.uid: quorum}
        known = [number for number in told.values() if number is not None]
        gang.quorum = max(known)
        return len(known)

    def _numbers(
        self, gang: KnownGang, call: VerbCall, quorum: int, waiting: Mapping[str, Peer]
    ) -> Numbers:
        """What each waiting member says, read again only after it has changed."""
        if not callable(gang.clause.number):
            return dict.fromkeys(waiting, (None, quorum))
        read = dict[str, tuple[bytes | None, int | None]]()
        for uid in waiting:
            body, known = call.cluster.pods.body(uid), gang.numbers.get(uid)
            if known is None or known[0] is not body:
                other = self.beside(uid, call)
                is_member = other is not None and gang.clause in other.plan.gangs
                number = self.quorum(other, gang.name) if other is not None and is_member else ""
                known = body, number if isinstance(number, int) else None
            read[uid] = known
        return read
