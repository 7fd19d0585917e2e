"""Quorums: how many members of a gang are placed together.

It belongs to Gangs and lives as long as they do. The number is that of the clause, an expression
that each member evaluates, or comes from the PodGroup or the wanted replicas of the workload.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from engine.decision.verb_call import VerbCall
from engine.gangs.attempts import Attempts
from engine.gangs.gang import KnownGang, Numbers
from engine.gangs.held_calls import MOST_HELD_OF_NAMESPACE
from engine.gangs.members import GangName
from engine.objects.peer import Peer
from engine.objects.pod_group import GroupName
from grammar.values.errors import EvaluationError


class Quorums:
    """Reads the numbers that members say."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts

    def of(self, call: VerbCall, name: GangName) -> int | str:
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

    def read(
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
                other = self._attempts.beside(uid, call)
                is_member = other is not None and gang.clause in other.plan.gangs
                number = self.of(other, gang.name) if other is not None and is_member else ""
                known = body, number if isinstance(number, int) else None
            read[uid] = known
        return read
