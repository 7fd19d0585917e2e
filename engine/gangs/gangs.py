"""Gangs: which groups of pods wait, gather, and are bound together.

State machine of a gang:

    waiting --placed whole on paper--> gathering --enough members are held at bind--> released
       ^                                   |
       +--------------given up-------------+

- waiting: no member is offered a node. Too few members exist, or too few fit, or others go first.
- gathering: each member has a place on paper, is offered that node alone, and counts there. Its
  bind call is held.
- released: all held members are bound. It is forgotten: what is on nodes says the rest.

What holds:

- Nothing is held in vain: a member is offered a node only while the whole gang has places, and all
  of its bind calls may be held.
- All or none: a held member is released with all others, or is told why the gang was given up.
- Once a member is on a node, the others are placed as they come, and within the same value. So
  what an API server that fails in the middle of a release has left behind heals by itself. Until
  it is known of one, nobody is placed: if all Bindings have failed, the gang gathers anew.
- No two half gangs: a gang is placed beside the places of the gangs that gather. Where
  two do not fit together, that of higher priority goes first, then the older gang.

A gang that is given up (Ends say when) goes behind all others of its priority, and waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from weakref import ref

import msgspec
import numpy as np

from engine.cache.node_table import NodeRows, Snapshot
from engine.clauses.gang import GangProgram
from engine.decision.moves import BrokenRule
from engine.decision.part import Breach, DecisionPart, EndOfHold, PartSite
from engine.decision.plan import Plan
from engine.decision.preemption import Victims
from engine.decision.registry import Registry
from engine.decision.verb_call import VerbCall
from engine.decision.verdict import Decision, Rejected
from engine.errors import BriefWaitError, RefusedError, own_text
from engine.gangs.gang import (
    ELSEWHERE,
    ENOUGH,
    GangName,
    GangOfPod,
    Hold,
    KnownGang,
    Members,
    explained,
    members_of,
)
from engine.gangs.gathering import FIRST_PAUSE_SECONDS, READ_SECONDS, Ends, KnownGangs, Tries
from engine.gangs.paper import Attempts, Mask
from engine.gangs.quorum import Quorums
from engine.objects.eligibility import not_looked_at
from engine.objects.peer import Peer
from engine.objects.remembered import Remembered
from engine.objects.request_pod import RequestPod
from grammar.messages.texts import counted

# A waiting gang that nobody has asked about for so long is forgotten, and so is a released one.
_FORGOTTEN_SECONDS = 900.0
# For how long a member of a gang that still waits is not looked at again. Other policies may apply
# to it since, as where its namespace has got another label.
_UNSEEN_SECONDS = 10.0
# The bytes of what is kept of a member that was asked about, besides texts.
_ASKED_BYTES = 300


@dataclass(frozen=True, slots=True)
class _Asked:
    """Asked member that was rejected, and the parts of the answer until something changes.

    It was seen at the time `at`: in a call about it. The plan is kept by others, or gone.
    """

    revision: int
    plan: ref[Plan]
    gang: KnownGang
    message: str
    at: float


class Gangs(DecisionPart):
    """The gangs of the policies in force, a part of decisions."""

    def __init__(self, site: PartSite) -> None:
        calls, placement = site.placing.calls, site.placing.placement
        self._calls, self._placement = calls, placement
        self._clock = site.clock
        self._members = Members(lambda: calls.registry.slots)
        self._attempts = Attempts(site)
        self._quorums = Quorums(site, self._members, self._attempts)
        self._clauses = _clauses(calls.registry)
        self.known = KnownGangs(site, self._attempts.refusals)
        self._tries = Tries(site, self.known, self._members, self._attempts)
        self._ends = Ends(site, self._members, self._attempts, self._quorums)
        # By uid: with thousands of members that wait, little is to be done for each call.
        self._asked: Remembered[str, _Asked] = Remembered(
            size=lambda uid, asked: _ASKED_BYTES + len(uid) + len(asked.message)
        )
        # What a PodGroup has said otherwise than a clause, and when.
        self._otherwise: dict[GangProgram, tuple[float, str]] = {}
        # When gangs were released, and the names of their held members by uid.
        self._released: dict[GangName, tuple[float, Mapping[str, str]]] = {}

    # ---- answers

    def answer(self, call: VerbCall, rows: NodeRows, decided: Decision) -> Decision:
        """The decision as far as the gang of the pod allows it; `rows` are those of the cache.

        Raises WaitingError where nobody binds here, HandoverError where another replica decides,
        and what the time of the call does.
        """
        if (asked := self._unchanged(call.pod, call.plan)) is not None:
            self._placement.check_binds(call, asked.gang.clause)
            none, text = np.zeros(len(rows), np.bool_), f"{asked.message}: {asked.gang.told}"
            asked.gang.asked_at = self._clock()
            return _rejected(decided, none, text, asked.gang.clause)
        name = self._members.of(call)
        if name is None:
            return decided
        self._placement.check_binds(call, name.program)
        allowed = self._allowed(call, name, rows, decided.codes == 0)
        text = allowed if isinstance(allowed, str) else ELSEWHERE
        kept = np.zeros(len(rows), np.bool_) if isinstance(allowed, str) else allowed
        message = name.program.message(call.evaluation)
        if (gang := self.known.find(name)) is not None and isinstance(allowed, str):
            asked = _Asked(call.pod.revision, ref(call.plan), gang, message, self._clock())
            self._asked.put(call.pod.uid, asked)
        return _rejected(decided, kept, f"{message}: {text}", name.program)

    def _unchanged(
        self, pod: RequestPod, plan: Plan | None, *, is_look: bool = False
    ) -> _Asked | None:
        """The last question about a member that has not changed; a `plan` must be the same too."""
        if (asked := self._asked.get(pod.uid)) is None or not asked.revision == pod.revision > 0:
            return None
        stands = plan in (None, asked.plan()) and self._tries.stands(asked.gang, is_look=is_look)
        return asked if stands else None

    def _allowed(
        self, call: VerbCall, name: GangName, rows: NodeRows, feasible: Mask
    ) -> Mask | str:
        """The nodes that the gang allows, or what it waits for."""
        snapshot, uid, refusals = call.snapshot, call.pod.uid, self._attempts.refusals
        if placed := self._on_nodes(call, name):
            return feasible & self._attempts.within(name, call, rows, placed)
        gang = self._gang(call, name)
        if isinstance(gang, str):
            return gang
        before = gang.places.get(uid)
        if gang.gathers:
            if before is None:
                return ENOUGH
            at = rows == snapshot.table.rows.get(before)
            if call.pod.own_group and not at.any():
                # kube-scheduler asks about another placement of the group.
                return np.zeros(len(rows), np.bool_)
            there = feasible & at
            stays = there.any() and not refusals.has_refused(gang, call.pod)
            if stays and self._placement.open(call, rows[there]).all():
                refusals.offered(gang, call.pod)
                return np.asarray(there)
        # A held member does not move: the call about it is of another scheduler, for that node.
        if uid in gang.holds or not feasible.any():
            if gang.gathers:
                self.known.give_up(gang, "no node", f"no node is left for {call.pod.name}")
            return gang.told if feasible.any() else np.zeros(len(rows), np.bool_)
        # Of a group of Kubernetes a request has the nodes of one placement, and others follow.
        row = self._tries.gather(gang, call, None if call.pod.own_group else rows[feasible])
        if row is None:
            return ENOUGH if gang.gathers else gang.told
        is_last = gang.places[uid] == before and self._attempts.fits_elsewhere(gang, call)
        if is_last and before in refusals.nodes(call.pod):
            why = f"{call.pod.name} did not take node {before}"
            self.known.give_up(gang, "refused", why)
            return gang.told
        refusals.offered(gang, call.pod)
        return np.asarray(feasible & (rows == row))

    def waits_unchanged(self, pod: RequestPod) -> bool:
        """Whether the gang of a rejected pod waits for the same as before.

        That is told without a call: there may be thousands of members to look at each second.
        """
        asked = self._unchanged(pod, None, is_look=True)
        return asked is not None and self._clock() < asked.at + _UNSEEN_SECONDS

    def would_pass(self, call: VerbCall) -> bool:
        """Whether the gang of a pod lets it pass now: it may begin to gather for that."""
        if (asked := self._unchanged(call.pod, call.plan, is_look=True)) is not None:
            self._asked.put(call.pod.uid, replace(asked, at=self._clock()))
            return False
        name = self._members.of(call)
        if name is None or self._on_nodes(call, name):
            return True
        gang = self._gang(call, name)
        if isinstance(gang, str):
            return False
        return call.pod.uid in gang.places if gang.gathers else self._tries.look(gang, call)

    def admit(self, call: VerbCall, node: str) -> bool:
        """Whether the binding of a pod has to wait for its gang.

        Raises RefusedError where it must not be bound there, HandoverError as `answer`.
        """
        name = self._members.of(call)
        if name is None:
            return False
        self._placement.check_binds(call, name.program)
        if placed := self._on_nodes(call, name):
            rows = call.snapshot.table.find([node])
            if not self._attempts.within(name, call, rows, placed).all():
                raise RefusedError(_text(call, name, "its members are elsewhere"), of_clause=True)
            return False
        gang = self.known.find(name)
        if gang is None or gang.places.get(call.pod.uid) != node:
            why = gang.why_given_up if gang is not None else ""
            text = _text(call, name, f"given up{f': {why}' if why else ''}")
            raise RefusedError(text, of_clause=True)
        return True

    # ---- bind calls that wait

    def held_pods(self) -> Mapping[str, str]:
        return {pod: node for gang in self.known.gathering() for pod, node in gang.held.items()}

    def hold(self, uid: str, end: EndOfHold) -> float:
        gang, now = self.known.placed(uid), self._clock()
        if gang is None:
            end(own_text("its gang was given up"))
            return 0.0
        gang.holds[uid] = Hold(now, end)
        self._ends.saw(gang, uid)
        self._attempts.refusals.came(gang, uid)
        if gang.has_enough:
            self._complete(gang)
        return max(0.0, gang.until - now)

    def joined(self, uid: str) -> None:
        if (gang := self.known.placed(uid)) is not None:
            self._attempts.refusals.came(gang, uid)

    def give_up(self, uid: str, *, is_late: bool = True) -> None:
        if (gang := self.known.placed(uid)) is not None:
            gone = "client gone", "kube-scheduler has ended a call of bind"
            self.known.give_up(gang, *(("late", gang.came) if is_late else gone))

    def says(self, call: VerbCall) -> Rejected | None:
        found = self.of_pod(call)
        if found is None:
            return None
        return Rejected(found.told.text, found.program.policy, found.program.name)

    def _complete(self, gang: KnownGang) -> None:
        """Releases a gang, if all of its held members could still go to their nodes."""
        snapshot = self._calls.snapshot()
        if snapshot is not None and (ended := self._ends.of(gang, snapshot, is_last=True)):
            self.known.give_up(gang, *ended)
            return
        waiting = self._waiting(gang, snapshot)
        rest = [uid for uid in waiting if uid not in gang.places]
        self._released[gang.name] = self._clock(), {uid: gang.keys[uid] for uid in gang.holds}
        self.known.release(gang)
        self.known.woken.add(rest)

    # ---- events

    def pod_changed(self, old: Peer | None, new: Peer | None, _revision: int) -> None:
        """Takes a new state of a pod from the cache; it is a PodEventHandler."""
        touched, role_of = self._members.pod_changed(old, new), self._members.role_of
        if touched and not _differ_in_conditions(old, new):
            for name in touched:
                if (known := self.known.find(name)) is not None:
                    known.is_settled = False
                    known.unread = known.unread - 1 if old is None else 0
        if old is None or (gang := self.known.placed(old.uid)) is None:
            return
        if new is None or new.uid != old.uid:
            # A watch says only that: it was deleted, or it has failed.
            self.known.give_up(gang, "member gone", f"member {old.name} is gone")
        elif new.deletionTimestamp is not None:
            self.known.give_up(gang, "member gone", f"member {old.name} is being deleted")
        elif new.is_gated or self._members.name_of(gang.clause, new) != gang.name:
            self.known.give_up(gang, "member left", f"member {old.name} has left it")
        elif role_of(gang.clause, old) != role_of(gang.clause, new):
            self.known.give_up(gang, "member left", f"member {old.name} has another role now")

    def adopted(self) -> None:
        """Other policies are in force from now on. A clause that means the same keeps its gangs."""
        self._asked.clear()
        before, self._clauses = self._clauses, _clauses(self._calls.registry)
        programs = frozenset(self._clauses)
        same = {what: program for program, what in self._clauses.items()}
        for gang in list(self.known):
            program = same.get(before[gang.clause])
            if program is not gang.clause:
                self.known.follow(gang, program)
        self._released = {
            replace(name, program=program): each
            for name, each in self._released.items()
            if (program := same.get(before[name.program])) is not None
        }
        self._members.retain(programs)
        self._attempts.retain(programs)

    def end(self, text: str) -> None:
        """Gives up all gangs that gather, because this replica decides no longer."""
        for gang in self.known.gathering():
            self.known.give_up(gang, "not leader", text)

    def review(self) -> None:
        """Gives up what cannot be any more. To be called about once a second."""
        now, snapshot = self._clock(), self._calls.snapshot()
        gathering = self.known.gathering()
        gate = self._placement.closed_gate() if gathering else ""
        for gang in gathering if snapshot is not None or gate else ():
            if gate:
                self.known.give_up(gang, "not leader", gate)
            elif snapshot is not None and (ended := self._ends.of(gang, snapshot)) is not None:
                self.known.give_up(gang, *ended)
            elif gang.has_enough or self._ends.bound(gang):
                self._complete(gang)
            else:
                self.known.remind(gang)
        lately = now - _FORGOTTEN_SECONDS
        self._released = {n: each for n, each in self._released.items() if each[0] > lately}
        for gang in [each for each in self.known if not each.gathers]:
            # Held members wait again a moment after their gang was given up.
            is_settled = snapshot is not None and now - gang.gave_up_at > FIRST_PAUSE_SECONDS
            is_gone = is_settled and not self._waiting(gang, snapshot)
            self.known.remind(gang)
            if is_gone or gang.asked_at < lately:
                self.known.forget(gang)

    def make_way(self, call: VerbCall, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """Gives up the gang of lowest priority among those that have held members as victims.

        Nobody is to be evicted on nodes with such victims, nor with those of a gang that was given
        up a moment ago: their room is free as soon as kube-scheduler has the answers of bind. For a
        member there is one node: where the whole gang fits once all are gone that may go. Pods that
        go for another member are left out: once they are gone, kube-scheduler would not look again.
        """
        uids, known = [uid for each in victims.values() for uid in each.uids], self.known
        if held := [gang for gang in map(known.placed, uids) if gang is not None]:
            lowest = min(held, key=lambda gang: (gang.priority, -gang.began))
            known.give_up(lowest, "preempted", "a pod of higher priority needs its place")
        stay = {uid for uid in uids if known.placed(uid) is not None or known.was_let_go(uid)}
        left = {n: each for n, each in victims.items() if stay.isdisjoint(each.uids)}
        name = self._members.of(call) if call.known is not None else None
        if name is None or self._on_nodes(call, name):
            return left
        gang = self._gang(call, name)
        if isinstance(gang, str) or gang.gathers:
            return {}
        violations = {node: n for node, each in victims.items() if (n := each.pdb_violations)}
        budgeted, uid = sorted(violations, key=violations.__getitem__), call.pod.uid
        node = self._tries.with_evictions(gang, call, budgeted)
        proposed = left[node].uids if node in left else ()
        own = [each for each in proposed if gang.evicted.setdefault(each, uid) == uid]
        return {node: replace(left[node], uids=own)} if own else {}

    # ---- what people see

    def statuses(self) -> Sequence[tuple[KnownGang, float]]:
        """Every gang, and for how many seconds it has gathered, or waited since the first call."""
        now = self._clock()
        return [(each, now - (each.began if each.gathers else each.since)) for each in self.known]

    def contradictions(self) -> Mapping[str, str]:
        """What PodGroups have said lately otherwise than a clause in force, by policy."""
        since, known = self._clock() - _FORGOTTEN_SECONDS, self._otherwise.items()
        self._otherwise = {c: each for c, each in known if each[0] > since and c in self._clauses}
        return {clause.policy: text for clause, (_, text) in self._otherwise.items()}

    def of_pod(self, call: VerbCall, *, places: bool = False) -> GangOfPod | None:
        """The gang of a pod for people; None if it is in none. Nothing changes.

        With `places` it is placed on paper first, if it fits; only for an engine that serves nobody
        else. Raises what the time of the call does.
        """
        name = self._members.of(call)
        if name is None:
            return None
        if places:
            self.would_pass(call)
        snapshot, pod = call.snapshot, call.context(call.snapshot).peer()
        placed = self._placed(call, name)
        bound = [*self._members.on_nodes(name, placed, snapshot)]
        quorum = self._quorums.of(call, name, [each for _, each in bound])
        waiting = [*self._quorums.coming(call, name).values()]
        gang, now = self.known.find(name), self._clock()
        there = {each.uid: each for each in (pod, *waiting, *(each for _, each in bound))}
        said = self._quorums.said(call, name)
        roles = self._quorums.roles(call, name, said, there.values())
        lacks = self._quorums.lacks(call, name, len(there), quorum, roles)
        members = [*members_of(gang, pod, bound, waiting, now)]
        told = msgspec.structs.replace(
            explained(name, gang, pod, members, lacks, now, places=places),
            message=name.program.message(call.evaluation),
            quorum=quorum if isinstance(quorum, int) else None,
            roles=roles,
            podGroup=self._said_otherwise(call, name),
        )
        refusal = told.text
        allowed: Collection[str] | None = () if told.state != "not tried" else None
        if placed:
            rows = np.fromiter(snapshot.table.rows.values(), np.intp, len(snapshot.table.rows))
            open_ = self._attempts.within(name, call, rows, placed).tolist()
            nodes = zip(snapshot.table.rows, open_, strict=True)
            refusal, allowed = ELSEWHERE, {node for node, is_open in nodes if is_open}
        elif gang is not None and gang.gathers:
            allowed = tuple(node for uid, node in gang.places.items() if uid == pod.uid)
            refusal = ELSEWHERE if allowed else ENOUGH
        return GangOfPod(name.program, told, refusal, allowed)

    def not_on_paper(self, call: VerbCall) -> Sequence[str]:
        """The constraints of waiting members that only kube-scheduler checks."""
        name, pods, found = self._members.of(call), call.cluster.pods, Counter[str]()
        waiting = self._members.waiting(name, call.snapshot) if name is not None else ()
        uids = {call.pod.uid, *waiting}
        for uid in uids:
            body = call.pod.body if uid == call.pod.uid else pods.body(uid)
            found.update(not_looked_at(body or b"{}"))
        return [f"{what} ({counted(number, 'member')})" for what, number in sorted(found.items())]

    def note(self, call: VerbCall) -> None:
        if (name := self._members.of(call)) is not None:
            self._quorums.note(call, name, self._said_otherwise(call, name))

    def notes(self) -> Iterable[str]:
        return self._quorums.notes

    def _said_otherwise(self, call: VerbCall, name: GangName) -> str:
        """What the PodGroup of the pod says otherwise than the clause or the pod; may be empty."""
        named = call.pod.group
        if named is None or (group := call.cluster.pods.group(name.namespace, named)) is None:
            return ""
        said, priority = self._quorums.said(call, name), call.pod.peer.priority
        texts = []
        number = group.minCount if isinstance(said, str) else said[0]
        if group.minCount not in (None, number):
            texts.append(f"minCount {group.minCount} and not {number}")
        if self._attempts.otherwise(name, group, call):
            texts.append(f"topology {group.topology}, which is not `within`")
        if group.priority is not None and group.priority != priority:
            texts.append(f"priority {group.priority}, and the pod {priority}")
        if group.parent:
            texts.append(f"parent {group.parent}, whose other groups are not waited for")
        return f"PodGroup {named.name} says {', '.join(texts)}" if texts else ""

    # ---- members on nodes

    def group_of(self, call: VerbCall, pod: Peer) -> GangName | None:
        return self._members.of(call, pod)

    def breach(
        self, group: Hashable, pods: Sequence[Peer], call: VerbCall, *, was_whole: bool
    ) -> Breach:
        """How members are torn apart, or have lost some of those that they need."""
        assert isinstance(group, GangName), "the groups are gangs"
        program, quorum = group.program, self._quorums.of(call, group, pods)
        whole = was_whole or not isinstance(quorum, int) or len(pods) >= quorum
        if isinstance(quorum, int) and whole and self._lacks(group, pods, quorum, call):
            text = f"{len(pods)} of {quorum} members that are placed together have nodes"
        else:
            there, pods = len(pods), self._attempts.apart(group, pods, call)
            text = f"{there - len(pods)} of {there} members share another value"
        rule = BrokenRule(program.policy, program.name, "gang", text)
        return Breach(pods, rule, "the members of a gang are placed together", whole)

    def _lacks(self, name: GangName, pods: Sequence[Peer], quorum: int, call: VerbCall) -> bool:
        """Whether members are missing; those of a Job, which may have ended, if others wait."""
        workload = pods[0].workload
        if len(pods) >= quorum or workload is None or workload.kind != "Job":
            return len(pods) < quorum
        pending = call.snapshot.pending.values()
        return any(self._members.name_of(name.program, each) == name for each in pending)

    # ---- one gang

    def _placed(self, call: VerbCall, name: GangName) -> Mapping[str, int]:
        """The numbers of members on nodes that are not held, by node."""
        check = call.evaluation.time.check
        return self._members.bound(name, self.known.find(name), call.cluster.pods, check)

    def _on_nodes(self, call: VerbCall, name: GangName) -> Mapping[str, int]:
        """The same. Raises BriefWaitError while it is not known of any whether it is bound."""
        placed = self._placed(call, name)
        if placed and name in self._released:
            (_, keys), pods = self._released[name], call.cluster.pods
            unknown = sum(pods.assumption(key, uid) is not None for uid, key in keys.items())
            if not unknown:
                del self._released[name]
            elif sum(placed.values()) <= unknown:
                raise BriefWaitError(
                    _text(call, name, "its members are being bound"), of_clause=True
                )
        return placed

    def _gang(self, call: VerbCall, name: GangName) -> KnownGang | str:
        """The gang with its newest quorum, or why it cannot be placed."""
        now, pod = self._clock(), call.pod
        said = self._quorums.said(call, name)
        if isinstance(said, str):
            return said
        gang = self.known.find(name)
        if gang is None:
            created = pod.created.nanos if pod.created is not None else 0
            shown = name.shown(call.context(call.snapshot).peer())
            gang = KnownGang(name, said[0], created, now, shown, now)
            self.known.add(gang)
            if otherwise := self._said_otherwise(call, name):
                self._otherwise[name.program] = now, f"{name.namespace}: {otherwise}"
            self._quorums.note(call, name, otherwise)
        gang.asked_at = now
        if gang.gathers:
            return gang
        # Whoever asks again about a pod is told what is known now.
        is_first = self._asked.get(pod.uid) is None and said[0] <= gang.quorum
        as_read = is_first and gang.numbers.get(pod.uid, ((), said))[1] == said
        is_due = gang.unread <= 0 or now >= gang.read_at + READ_SECONDS
        # A gang that lacks nothing begins, so its members are read anew before that.
        if not gang.lacks or not as_read or is_due:
            gang.read_at, gang.lacks = now, self._quorums.read(gang, call, said)
        if gang.lacks:
            gang.say(gang.lacks, now)
            gang.is_settled = True
            return gang.told
        return gang

    def _waiting(self, gang: KnownGang, snapshot: Snapshot | None) -> Mapping[str, Peer]:
        return self._members.waiting(gang.name, snapshot) if snapshot is not None else {}


def _clauses(registry: Registry) -> Mapping[GangProgram, tuple[str, int, str]]:
    """The clauses in force, each with what stays the same while it means the same."""
    return {
        clause: (program.address, number, program.digest)
        for program in registry.programs
        for number, clause in enumerate(program.of(GangProgram))
    }


def _differ_in_conditions(old: Peer | None, new: Peer | None) -> bool:
    """Whether two states of a pod differ in conditions alone: no gang waits for these."""
    if old is None or new is None:
        return False
    there = {"unscheduled": new.unscheduled, "requeued": new.requeued}
    return msgspec.structs.replace(old, **there) == new


def _text(call: VerbCall, name: GangName, what: str) -> str:
    return f"{name.program.message(call.evaluation)}: {what}"


def _rejected(decided: Decision, kept: Mask, text: str, clause: GangProgram) -> Decision:
    """The decision with a rejection for each feasible node that is not kept."""
    left = (decided.codes == 0) & ~kept
    if not left.any():
        return decided
    codes = decided.codes.copy()
    codes[left] = len(decided.verdicts)
    verdicts = (*decided.verdicts, Rejected(text, clause.policy, clause.name))
    return Decision(codes, verdicts, decided.known_rows, decided.headrooms)
