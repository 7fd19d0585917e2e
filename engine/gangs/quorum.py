"""Quorum: how many members of a gang are placed together.

It is that of the clause, an expression that each member evaluates, or comes from the PodGroup or
the replicas of the workload; and it is no more than the gang still wants, because members that have
succeeded do not come again. Quorums live as long as Gangs do.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice

import msgspec

from engine.cache.tallies import Scope
from engine.clauses.gang import GangProgram
from engine.counting.bounds import number_of
from engine.decision.part import PartSite
from engine.decision.verb_call import VerbCall
from engine.gangs.gang import GangName, GangRole, KnownGang, Members, Numbers
from engine.gangs.paper import Attempts
from engine.objects.api_types import mapping, mappings
from engine.objects.peer import DEFAULT_SCHEDULER, FAILED, Peer, key_of
from engine.objects.pod_group import GroupName
from grammar.clauses.gang import MOST_MEMBERS
from grammar.messages.texts import named
from grammar.values.errors import EvaluationError

# The labels of pods that run before others are made: the leader of a LeaderWorkerSet that waits for
# it, and the driver of Spark.
_LEADERS = frozenset({("leaderworkerset.sigs.k8s.io/worker-index", "0"), ("spark-role", "driver")})
# The labels of pods of a JobSet, which may start its Jobs in order: its name, and how many it has.
_JOBSET, _JOBS = "jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/global-replicas"
# The controllers of a gang that are named.
_MOST_CONTROLLERS = 2
# The notes that are kept.
_MOST_NOTES = 20


def still_wanted(number: int, came: int, wants: int | None, *, is_all: bool) -> int:
    """How many members are placed together where none is on a node.

    `number` is what they say, and `came` how many have succeeded. `wants` is how many pods the
    workloads of the others want beside those that have ended, None if that is not known; these are
    all workloads of the gang if it `is_all`.
    """
    if wants is not None and is_all:
        left = wants
    else:
        # After a success all workloads of the gang were there.
        left = max(number - came, wants or 0) if came else number
    return max(1, min(number, left))


def lacking(exist: int, quorum: int, roles: Iterable[GangRole]) -> str:
    """What a gang lacks of which too few members exist; empty if there are enough."""
    if exist < quorum:
        return f"{exist} of {quorum} members exist"
    return next((text for each in roles if (text := each.lacks)), "")


class Quorums:
    """The quorums of gangs."""

    def __init__(self, site: PartSite, members: Members, attempts: Attempts) -> None:
        self._calls, self._pods = site.placing.calls, site.placing.placement.pods
        self._in_flight = site.placing.placement.in_flight
        self._members = members
        self._attempts = attempts
        # What is to be said of gangs that may never be whole; the first ones.
        self.notes: dict[str, None] = {}

    def of(self, call: VerbCall, name: GangName, on_nodes: Iterable[Peer] = ()) -> int | str:
        """The number of members placed together, by the pod of a call, or why there is none."""
        said = self.said(call, name)
        return said if isinstance(said, str) else self._still_wanted(call, name, said[0], on_nodes)

    def note(self, call: VerbCall, name: GangName, otherwise: str) -> None:
        """Notes which workloads of a gang never have all of their pods at the same time.

        `otherwise` is what its PodGroup says otherwise.
        """
        number, texts = self.of(call, name), [otherwise] if otherwise else []
        if isinstance(number, int) and number > 1:
            lacks = len(self.coming(call, name)) < number
            withheld = self._withheld(call, name, lacks=lacks)
            texts += [f"{text}, so its gang waits" for text in withheld]
        for text in texts if len(self.notes) < _MOST_NOTES else ():
            clause = f"{name.program.policy}: {name.program.name}"
            self.notes[f"{name.namespace}: {text} ({clause})"] = None

    def read(self, gang: KnownGang, call: VerbCall, said: Numbers) -> str:
        """Takes the largest number that members say. Returns what the gang lacks, or an empty text.

        The pod of the call has `said` numbers. A member without a number does not count. The
        priority is what the PodGroup says, else the highest one.
        """
        waiting, clause = self.coming(call, gang.name), gang.clause
        group = gang.name.group(call.cluster.pods)
        gang.priority = max(each.priority for each in (call.pod.peer, *waiting.values()))
        if group is not None and group.priority is not None:
            gang.priority = group.priority
        if callable(clause.number) or any(callable(each.number) for each in clause.roles):
            keys = {uid: key_of(pod) for uid, pod in waiting.items()}
            known_json = {uid for uid in keys if self._pods.body(uid) is not None}
            gang.numbers = {u: each for u, each in gang.numbers.items() if u in known_json}
            self._read(gang, keys, partial(self._attempts.about, call=call))
        else:
            gang.numbers = dict.fromkeys(waiting, ((), said))
        by_uid = {uid: number for uid, (_, number) in gang.numbers.items()} | {call.pod.uid: said}
        known = [numbers for numbers in by_uid.values() if not isinstance(numbers, str)]
        largest = max(known)
        gang.quorum = self._still_wanted(call, gang.name, largest[0])
        there = [waiting[uid] for uid, numbers in by_uid.items() if numbers and uid in waiting]
        roles = self.roles(call, gang.name, largest, there)
        gang.roles = {number: role.needed for number, role in enumerate(roles)}
        if roles:
            role_of = self._members.role_of
            gang.role_of = {uid: role_of(clause, pod) for uid, pod in waiting.items()}
        text = self.lacks(call, gang.name, len(known), gang.quorum, roles)
        # All are read again when an eighth is new, and at each question where some do not count.
        most = max(1, gang.quorum - len(known))
        all_count = len(known) >= len(self._members.waiting(gang.name, call.snapshot))
        gang.unread = min(1 + len(known) // 8, most) if all_count else 0
        return text

    def coming(self, call: VerbCall, name: GangName) -> Mapping[str, Peer]:
        """The waiting members of the schedulers that ask, by uid."""
        own, knows = call.pod.scheduler or DEFAULT_SCHEDULER, self._in_flight.knows
        waiting = self._members.waiting(name, call.snapshot)
        return {
            uid: p for uid, p in waiting.items() if p.schedulerName == own or knows(p.schedulerName)
        }

    def lacks(
        self,
        call: VerbCall,
        name: GangName,
        exist: int,
        quorum: int | str,
        roles: Sequence[GangRole],
    ) -> str:
        """What a gang lacks, and why the members that are missing do not come; empty for nothing.

        Where the number of members cannot be told, the gang lacks that number.
        """
        text = quorum if isinstance(quorum, str) else lacking(exist, quorum, roles)
        if not text or isinstance(quorum, str):
            return text
        coming, unbound = self.coming(call, name), self._members.unbound(name, call.snapshot)
        gated = [uid for uid, each in unbound.items() if each.is_gated]
        gates = {gate for uid in gated for gate in _gates(call.cluster.pods.body(uid))}
        rest = (each for uid, each in unbound.items() if uid not in coming and uid not in gated)
        others = Counter(each.schedulerName for each in rest)
        why = [f"{n} more of the scheduler `{s}`" for s, n in sorted(others.items())]
        if gated:
            by = named([f"`{gate}`" for gate in sorted(gates)], 2) or "a scheduling gate"
            why.insert(0, f"{len(gated)} more gated by {by}")
        why += dict.fromkeys(self._withheld(call, name, lacks=True))
        return f"{text}: {', '.join(why)}" if why else text

    def _withheld(self, call: VerbCall, name: GangName, *, lacks: bool) -> Iterator[str]:
        """The first known workloads of a gang that do not make all of their pods, and why not.

        Where the gang `lacks` members, these are also others, whose status does not say it.
        """
        unbound, pods = self._members.unbound(name, call.snapshot).values(), call.cluster.pods
        one_of = {each.workload.uid: each for each in unbound if each.workload is not None}
        known = ((c, one_of[uid]) for uid in sorted(one_of) if (c := pods.controller(uid)))
        for each, pod in islice(known, _MOST_CONTROLLERS):
            workload, made = each.workload, pods.workloads.made(each.workload.uid)
            if each.withholds:
                yield f"{workload.title} {each.withholds}"
            elif lacks and made < (each.wants or 0):
                yield f"{workload.title} has made {made} of its {each.wants} pods"
                yield from pods.full_quotas(pod)
        if not lacks:
            return
        coming = self.coming(call, name).values()
        sets = {each.labels[_JOBSET]: each for each in coming if _JOBSET in each.labels}
        for jobset, pod in sorted(sets.items())[:1]:
            # Where all of its Jobs have pods, they start together.
            if pod.labels.get(_JOBS) != str(len(one_of)):
                yield f"JobSet/{jobset} may start its Jobs one after another"
        for leader in sorted(p.name for p in coming if p.labels.items() & _LEADERS)[:1]:
            yield f"{leader} may have to run before the others are made"

    def roles(
        self, call: VerbCall, name: GangName, said: Numbers | str, pods: Iterable[Peer]
    ) -> Sequence[GangRole]:
        """The roles of a gang by the numbers that a member has said, and how many pods have each.

        Once members have ended, those that exist are enough.
        """
        program = name.program
        if not program.roles or isinstance(said, str):
            return ()
        is_less = self._still_wanted(call, name, said[0]) < said[0]
        exist = Counter(self._members.role_of(program, pod) for pod in pods)
        of_roles = enumerate(zip(program.roles, said[1:], strict=True))
        return [
            GangRole(role.text, min(needed, exist[i]) if is_less else needed, exist[i])
            for i, (role, needed) in of_roles
        ]

    def of_gathering(self, gang: KnownGang) -> int | str:
        """How many are placed together as members with places say it now, or why it is not told.

        Or it says that more of a role are needed, or that a member is in no gang any more. Raises
        EngineError where there is no decision.
        """
        self._read(gang, gang.keys, self._attempts.about)
        told = [gang.numbers[uid][1] for uid in gang.keys if uid in gang.numbers]
        if texts := [numbers for numbers in told if isinstance(numbers, str)]:
            return min(texts) or "a member has left it"
        known = [numbers for numbers in told if not isinstance(numbers, str)]
        calls = map(self._attempts.about, gang.keys)
        if not known or (call := next((c for c in calls if c is not None), None)) is None:
            return gang.quorum
        pods = [pod for key in gang.keys.values() if (pod := self._pods.pod(key)) is not None]
        held = [pod for pod in pods if pod.uid in gang.holds]
        for role, each in enumerate(self.roles(call, gang.name, max(known), pods)):
            if each.needed > gang.roles[role]:
                return f"{each.needed} members with `{each.of}` are needed now"
            gang.roles = {**gang.roles, role: each.needed}
        return self._still_wanted(call, gang.name, max(known)[0], held)

    def said(self, call: VerbCall, name: GangName) -> Numbers | str:
        """The numbers that the pod of a call says, or why these cannot be told."""
        program, of_roles = name.program, list[int]()
        for role in program.roles:
            if isinstance(needed := self._evaluated(call, program, role.number), str):
                return needed
            of_roles.append(needed)
        least = sum(of_roles)
        is_own = program.number is not None or not program.roles
        of_all = self._said_of_all(call, name) if is_own else max(1, least)
        if isinstance(of_all, str):
            return of_all
        most = MOST_MEMBERS
        found = max(of_all, least)
        return (found, *of_roles) if found <= most else f"more than {most:,} members"

    def _said_of_all(self, call: VerbCall, name: GangName) -> int | str:
        """The number of all members, whatever their roles are, or why it cannot be told."""
        program = name.program
        number: object = program.number
        replicas: int | None = None
        if isinstance(name.value, GroupName) and number is None:
            if (group := name.group(call.cluster.pods)) is None or group.deleted:
                how = "not known" if group is None else "being deleted"
                if group is None and call.cluster.pods.lacks_room(name.namespace):
                    how += ", or there is no room for it"
                return f"PodGroup {name.value.name} is {how}"
            if group.minCount is None:
                return f"PodGroup {name.value.name} says no number of members"
            number = group.minCount
        elif program.by is None or program.percent:
            workload = call.cluster.pods.workload(str(name.value))
            replicas = workload.replicas if workload is not None else None
            if replicas is None and (number is None or program.percent):
                return "the number of its members is not known"
        if number is None:
            number = replicas
        found = self._evaluated(call, program, number, replicas if program.percent else 100)
        return found if isinstance(found, str) else max(1, found)

    def _evaluated(
        self, call: VerbCall, program: GangProgram, number: object, replicas: int | None = 100
    ) -> int | str:
        """A number of a clause in percent of the replicas, or why it cannot be told."""
        if callable(number):
            try:
                with call.evaluation.time.charged(program.policy):
                    found = number(call.evaluation.frame())
                number = number_of(found, percent=program.percent)
            except EvaluationError as error:
                call.evaluation.report(program.policy, program.name, error)
                return "its number of members cannot be evaluated"
        assert replicas is not None, "a percentage is of the replicas"
        return math.ceil(float(number) * replicas / 100)  # type: ignore[arg-type]

    def _still_wanted(
        self, call: VerbCall, name: GangName, number: int, held: Iterable[Peer] = ()
    ) -> int:
        """The number that members say, less the members that have come already."""
        pods = call.cluster.pods
        waiting = [*self._members.waiting(name, call.snapshot).values(), *held]
        uids = {each.workload.uid for each in waiting if each.workload is not None}
        known = [found for uid in sorted(uids) if (found := pods.controller(uid)) is not None]
        wants = [each.wants for each in known if each.wants is not None]
        # The Jobs know of all of their pods, however long ago these have ended.
        jobs = {each.workload.uid: each.succeeded for each in known if each.workload.kind == "Job"}
        ended = (pod for pod in self._succeeded(call, name, waiting) if _run(pod) not in jobs)
        came = sum(jobs.values()) + sum(1 for _ in ended)
        is_all = name.value in uids
        return still_wanted(number, came, sum(wants) if wants else None, is_all=is_all)

    def _succeeded(self, call: VerbCall, name: GangName, waiting: list[Peer]) -> list[Peer]:
        """The members that have succeeded in the run of those that wait.

        A workload makes the pods of one run. Where pods have another workload, a run begins with
        the newest workload; and with a pod that has the name of one that has ended.
        """
        ended, check = call.cluster.pods.ended, call.evaluation.time.check
        scope, value = Scope(name.namespace), partial(self._value_of_succeeded, name.program)
        if (
            name.value
            not in ended.tallies.census(("gang", name.program), scope, value, check).groups
        ):
            return []
        there = [pod for _, pod in ended.within(scope) if value(pod) == name.value]
        runs, names = {_run(pod) for pod in waiting}, {pod.name for pod in there}
        roots = (call.cluster.pods.workload(run) for run in runs if run)
        begun = [root.created for root in roots if root is not None]
        begun += [pod.created for pod in waiting if not _run(pod) and pod.name in names]
        since = max((each.nanos for each in begun if each is not None), default=None)
        return [
            pod
            for pod in there
            if (_run(pod) in runs and (_run(pod) or since is None))
            or (since is not None and pod.ended is not None and pod.ended.nanos >= since)
        ]

    def _value_of_succeeded(self, program: GangProgram, pod: Peer) -> Hashable:
        return None if pod.phase == FAILED else self._members.value(program, pod)

    def _read(
        self, gang: KnownGang, keys: Mapping[str, str], opened: Callable[[str], VerbCall | None]
    ) -> None:
        """Reads what members say; each is read again only after something has changed.

        `keys` are the names of members by uid, and `opened` makes a call about a member. A member
        whose JSON is not known says nothing. What was read stays when the call has no more time.
        """
        pods, calls = self._pods, self._calls
        for uid, key in keys.items():
            body, peer, known = pods.body(uid), pods.pod(key), gang.numbers.get(uid)
            if body is None or peer is None:
                continue
            group = pods.group(peer.namespace, peer.group) if peer.group is not None else None
            wanted = peer.workload, group, peer.namespaceLabels
            read_of = body, *wanted, calls.registry, calls.tables
            if known is None or known[0] != read_of:
                call = opened(uid)
                is_member = call is not None and gang.clause in call.plan.of_parts
                number = self.said(call, gang.name) if call is not None and is_member else ""
                known = read_of, number
            gang.numbers[uid] = known


def _gates(body: bytes | None) -> Iterable[str]:
    """The names of the scheduling gates of a pod; none if its JSON is not known."""
    with suppress(msgspec.MsgspecError):
        spec = mapping(msgspec.json.decode(body or b"{}"), "spec")
        return [str(gate.get("name")) for gate in mappings(spec, "schedulingGates")]
    return ()


def _run(pod: Peer) -> str:
    """The uid of the workload that makes the pods of one run; empty for a pod without one."""
    return pod.workload.uid if pod.workload is not None else ""
