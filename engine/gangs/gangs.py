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
- No two half gangs: a gang is placed beside the places of the gangs that gather. Where only one of
  two fits, the one of higher priority goes first, then the older one.

A gang is given up when its time is over, a member is deleted or changed, a node of it goes or is
cordoned, its policy is not in force any more, this replica decides no longer, or a pod or a gang of
higher priority takes its place. Then it goes behind the others of its priority, and waits a while.

Gangs belong to the engine and live as long as it does. Everything happens on one event loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal
from weakref import ref

import numpy as np

from engine.cache.node_table import NodeRows, Snapshot
from engine.decision.placement import Placement
from engine.decision.plugin_filters import PluginFilters
from engine.decision.registry import Registry
from engine.decision.verb_call import CallOpener, GangChange, Observer, VerbCall
from engine.decision.verdict import Decision, Rejected
from engine.errors import BriefWaitError, RefusedError
from engine.gangs.attempts import Attempts
from engine.gangs.gang import (
    EndOfHold,
    GangStatus,
    Hold,
    KnownGang,
    Numbers,
    given_up,
)
from engine.gangs.gang_of_pod import ELSEWHERE, ENOUGH, GangOfPod, gang_of_pod
from engine.gangs.held_calls import MOST_HELD_OF_NAMESPACE, HeldCalls
from engine.gangs.members import GangName, Members
from engine.gangs.node_room import Mask
from engine.gangs.paper import Suits
from engine.objects.eligibility import bars
from engine.objects.peer import Peer
from engine.objects.request_pod import RequestPodReader
from engine.program.program import GangProgram
from grammar.values.errors import EvaluationError

# A gang that did not fit is tried again after so many times of what the attempt has taken, and
# after this pause at least. The same holds for all gangs of a namespace together: they cost a
# twentieth of the time at most.
_COST_FACTOR, _LEAST_PAUSE_SECONDS = 19.0, 0.1
# The pause after a gang was given up, and the longest one. It doubles where the gang is the reason
# itself, because it would be held in vain again.
_FIRST_PAUSE_SECONDS, _MOST_PAUSE_SECONDS = 1.0, 300.0
_OWN_REASONS = frozenset({"late", "no node", "preempted"})
# Members that are not held are woken again after so long, and later less often: what has woken them
# may have got lost.
_REMIND_SECONDS = 2.0
# The waiting gangs that are tried before a gang behind them, at each attempt.
_MOST_RIVALS = 4
# The gangs that are known at the same time; the oldest waiting one is forgotten first.
_MOST_KNOWN = 10_000
# A waiting gang that nobody has asked about for so long is forgotten, and so is a released one.
_FORGOTTEN_SECONDS = 900.0


class Gangs:
    """The gangs of the policies in force.

    `suits` gives our scores of nodes. `wake` is called when there are members to be asked about;
    `take_woken` gives them. `held` counts the bind calls that wait, also those of others.
    """

    def __init__(
        self,
        calls: CallOpener,
        placement: Placement,
        plugins: PluginFilters,
        pods: RequestPodReader,
        clock: Callable[[], float],
        suits: Suits,
        observer: Observer,
    ) -> None:
        self._calls = calls
        self._placement = placement
        self._clock = clock
        self._observer = observer
        self._attempts = Attempts(calls, placement, plugins, pods, suits)
        self._members = Members(lambda: calls.registry.slots)
        self._clauses = _clauses(calls.registry)
        self._known: dict[GangName, KnownGang] = {}
        # The gang of each member that has a place.
        self._by_uid: dict[str, KnownGang] = {}
        # When gangs were released, and the names of their held members by uid.
        self._released: dict[GangName, tuple[float, Mapping[str, str]]] = {}
        # By namespace: until when none of its waiting gangs is tried again.
        self._tried_until: dict[str, float] = {}
        # Rises when places become free that are in no snapshot.
        self._freed = 0
        self.held = HeldCalls()
        self._woken: dict[str, None] = {}
        self.wake: Callable[[], None] = lambda: None

    # ---- answers

    def answer(self, call: VerbCall, rows: NodeRows, decided: Decision) -> Decision:
        """The decision as far as the gang of the pod allows it; `rows` are those of the cache.

        Raises WaitingError where nobody binds here, HandoverError where another replica decides,
        and what the time of the call does.
        """
        name = self._name_of(call)
        if name is None:
            return decided
        self._placement.check_binds(call)
        allowed = self._allowed(call, name, rows, decided.codes == 0)
        text = allowed if isinstance(allowed, str) else ELSEWHERE
        kept = np.zeros(len(rows), np.bool_) if isinstance(allowed, str) else allowed
        return _rejected(decided, kept, _text(call, name, text), name.program)

    def _allowed(
        self, call: VerbCall, name: GangName, rows: NodeRows, feasible: Mask
    ) -> Mask | str:
        """The nodes that the gang allows, or what it waits for."""
        snapshot, uid = call.snapshot, call.pod.uid
        if placed := self._on_nodes(call, name):
            return feasible & self._attempts.within(name, call, rows, placed)
        gang = self._gang(call, name)
        if isinstance(gang, str):
            return gang
        if gang.gathers:
            if uid not in gang.places:
                return ENOUGH
            row = snapshot.table.rows.get(gang.places[uid])
            there = feasible & (rows == row)
            if there.any() and self._placement.open(call, rows[there]).all():
                return np.asarray(there)
        if not feasible.any():
            if gang.gathers:
                self.give_up(gang, "no node", f"no node is left for {call.pod.name}")
            return np.zeros(len(rows), np.bool_)
        row = self._gather(gang, call, rows[feasible])
        return gang.told if row is None else np.asarray(feasible & (rows == row))

    def would_pass(self, call: VerbCall) -> bool:
        """Whether the gang of a pod lets it pass now: it may begin to gather for that."""
        name = self._name_of(call)
        if name is None or self._on_nodes(call, name):
            return True
        gang = self._gang(call, name)
        if isinstance(gang, str):
            return False
        if gang.gathers:
            return call.pod.uid in gang.places
        return self._gather(gang, call, None) is not None

    def admit(self, call: VerbCall, node: str) -> bool:
        """Whether the binding of a pod has to wait for its gang.

        Raises RefusedError where it must not be bound there, HandoverError as `answer`.
        """
        name = self._name_of(call)
        if name is None:
            return False
        self._placement.check_binds(call)
        if placed := self._on_nodes(call, name):
            rows = call.snapshot.table.find([node])
            if not self._attempts.within(name, call, rows, placed).all():
                raise RefusedError(_text(call, name, "its members are elsewhere"))
            return False
        gang = self._known.get(name)
        if gang is None or gang.places.get(call.pod.uid) != node:
            why = gang.why_given_up if gang is not None else ""
            raise RefusedError(_text(call, name, f"given up{f': {why}' if why else ''}"))
        return True

    # ---- bind calls that wait

    def hold(self, uid: str, end: EndOfHold) -> None:
        """Holds the bind call of a member that was admitted; `end` is told how that ends.

        It may be told at once, and is told once.
        """
        gang = self._by_uid.get(uid)
        if gang is None:
            end("its gang was given up")
            return
        gang.holds[uid] = Hold(self._clock(), end)
        if len(gang.holds) >= gang.quorum:
            self._release(gang)

    def seconds_left(self, uid: str) -> float:
        """How long the bind call of a member may wait."""
        gang = self._by_uid.get(uid)
        return 0.0 if gang is None else max(0.0, gang.until - self._clock())

    def late(self, uid: str) -> None:
        """Gives up the gang of a member whose time is over."""
        if (gang := self._by_uid.get(uid)) is not None:
            self._give_up_late(gang)

    def client_gone(self, uid: str) -> None:
        """Gives up the gang of a member whose bind call nobody waits for any more."""
        if (gang := self._by_uid.get(uid)) is not None:
            self.give_up(gang, "client gone", "kube-scheduler has ended a call of bind")

    def _give_up_late(self, gang: KnownGang) -> None:
        held = len(gang.holds)
        self.give_up(gang, "late", f"{held} of {gang.quorum} members came in time")

    def _release(self, gang: KnownGang) -> None:
        holds, rest = list(gang.holds.values()), self._waiting(gang)
        self._released[gang.name] = self._clock(), {uid: gang.keys[uid] for uid in gang.holds}
        self._forget(gang)
        self._tell(gang, "released", holds)
        for hold in holds:
            hold.end("")
        self._awaken(uid for uid in rest if uid not in gang.places)

    def give_up(self, gang: KnownGang, reason: str, text: str) -> None:
        """Ends the gathering of a gang: nobody is held any more, and its places are free.

        `reason` is one of few words, for metrics.
        """
        holds, now = list(gang.holds.values()), self._clock()
        for uid in gang.places:
            self._by_uid.pop(uid, None)
            self._placement.in_flight.refuse(uid)
        self.held.add(gang.name.namespace, -gang.reserved)
        gang.places, gang.keys, gang.holds, gang.bars, gang.reserved = {}, {}, {}, {}, 0
        gang.until, gang.why_given_up = math.inf, text
        gang.say(given_up(text), now)
        gang.not_before = now + _FIRST_PAUSE_SECONDS
        if reason in _OWN_REASONS:
            gang.pause = min(2 * gang.pause, _MOST_PAUSE_SECONDS) or _FIRST_PAUSE_SECONDS
            gang.not_before = now + gang.pause
        gang.order = (gang.order[0], now, gang.order[2])
        self._freed += 1
        self._tell(gang, "given up", holds, reason, text)
        for hold in holds:
            hold.end(f"policy {gang.clause.policy}: {gang.clause.name}: given up: {text}")

    def _tell(
        self,
        gang: KnownGang,
        state: Literal["gathering", "released", "given up"],
        holds: Sequence[Hold],
        reason: str = "",
        text: str = "",
    ) -> None:
        now, clause = self._clock(), gang.clause
        number = len(holds) if state != "gathering" else gang.quorum
        held = sum(now - hold.since for hold in holds)
        which = clause.policy, clause.name, gang.shown
        seconds = now - gang.began
        self._observer.gang(GangChange(*which, state, number, seconds, held, reason, text))

    def _forget(self, gang: KnownGang) -> None:
        for uid in gang.places:
            self._by_uid.pop(uid, None)
        self.held.add(gang.name.namespace, -gang.reserved)
        self._known.pop(gang.name, None)

    # ---- events

    def pod_changed(self, old: Peer | None, new: Peer | None, _revision: int) -> None:
        """Takes a new state of a pod from the cache; it is a PodEventHandler."""
        self._members.pod_changed(old, new)
        if old is None or (gang := self._by_uid.get(old.uid)) is None:
            return
        if new is None or new.uid != old.uid or new.deletionTimestamp is not None:
            self.give_up(gang, "member deleted", f"member {old.name} was deleted")
        elif new.is_gated or self._members.name_of(gang.clause, new) != gang.name:
            self.give_up(gang, "member left", f"member {old.name} has left it")

    def adopted(self) -> None:
        """Other policies are in force from now on. A clause that means the same keeps its gangs."""
        before, self._clauses = self._clauses, _clauses(self._calls.registry)
        programs = frozenset(self._clauses)
        same = {what: program for program, what in self._clauses.items()}
        for gang in list(self._known.values()):
            program = same.get(before[gang.clause])
            if program is gang.clause:
                continue
            del self._known[gang.name]
            if program is not None:
                gang.name = replace(gang.name, program=program)
                self._known[gang.name] = gang
            elif gang.gathers:
                self.give_up(gang, "policy", f"policy {gang.clause.policy} was changed")
        self._released = {
            replace(name, program=program): each
            for name, each in self._released.items()
            if (program := same.get(before[name.program])) is not None
        }
        self._members.retain(programs)
        self._attempts.retain(programs)

    def end(self, text: str) -> None:
        """Gives up all gangs that gather, because this replica decides no longer."""
        for gang in [gang for gang in self._known.values() if gang.gathers]:
            self.give_up(gang, "not leader", text)

    def review(self) -> None:
        """Gives up what cannot be any more. To be called about once a second."""
        now, gate = self._clock(), ""
        gathering = [gang for gang in self._known.values() if gang.gathers]
        if gathering:
            gate = self._placement.closed_gate()
        snapshot = self._calls.snapshot()
        for gang in gathering:
            if gate:
                self.give_up(gang, "not leader", gate)
            elif now >= gang.until:
                self._give_up_late(gang)
            elif snapshot is not None and (what := _lost(gang, snapshot)):
                self.give_up(gang, "node lost", what)
            elif snapshot is not None and (who := self._without_room(gang, snapshot)):
                self.give_up(gang, "no node", f"other pods have taken the room of {who.name}")
            elif now >= gang.remind_at:
                gang.remind_at = now + 2 * (now - gang.began)
                self._awaken(uid for uid in gang.places if uid not in gang.holds)
        self._tried_until = {n: until for n, until in self._tried_until.items() if until > now}
        lately = now - _FORGOTTEN_SECONDS
        self._released = {n: each for n, each in self._released.items() if each[0] > lately}
        for gang in [g for g in self._known.values() if not g.gathers]:
            # Held members wait again a moment after their gang was given up.
            is_settled = snapshot is not None and now - gang.order[1] > _FIRST_PAUSE_SECONDS
            is_gone = is_settled and not self._waiting(gang)
            if is_gone or gang.asked_at < lately:
                del self._known[gang.name]

    def _without_room(self, gang: KnownGang, snapshot: Snapshot) -> Peer | None:
        """A member that no node has room for: kube-scheduler does not ask about it any more."""
        waiting = self._waiting(gang)
        pods = [pod for uid in gang.places if (pod := waiting.get(uid)) is not None]
        return self._attempts.without_room(pods, snapshot.table)

    def make_way(self, victims: Mapping[str, Iterable[str]]) -> Collection[str]:
        """Gives up the gang of lowest priority among those that have held members as victims.

        `victims` are uids by node. Returns the nodes with such victims: nobody is to be evicted
        there, because their room is free as soon as kube-scheduler has the answers of bind.
        """
        held = {
            node: gangs
            for node, uids in victims.items()
            if (gangs := [g for uid in uids if (g := self._by_uid.get(uid)) is not None])
        }
        every = {id(gang): gang for gangs in held.values() for gang in gangs}
        if every:
            lowest = min(every.values(), key=lambda gang: (gang.priority, -gang.began))
            self.give_up(lowest, "preempted", "a pod of higher priority needs its place")
        return held.keys()

    def take_woken(self) -> Sequence[str]:
        """The uids of the members that kube-scheduler should ask about, each once."""
        woken, self._woken = list(self._woken), {}
        return woken

    # ---- what people see

    def statuses(self) -> Sequence[GangStatus]:
        """Every gang that waits or gathers."""
        now = self._clock()
        return [
            GangStatus(
                policy=gang.clause.policy,
                clause=gang.clause.name,
                namespace=gang.name.namespace,
                name=gang.shown,
                state=_state(gang),
                quorum=gang.quorum,
                held=len(gang.holds),
                waiting=len(self._waiting(gang)),
                seconds=now - (gang.began if gang.gathers else gang.since),
                text="" if gang.gathers else gang.text,
                nodes={gang.keys[uid]: node for uid, node in gang.places.items()},
            )
            for gang in self._known.values()
        ]

    def of_pod(self, call: VerbCall) -> GangOfPod | None:
        """The gang of a pod; None if it is in none. Nothing changes.

        Raises what the time of the call does.
        """
        name = self._name_of(call)
        if name is None:
            return None
        snapshot, pod = call.snapshot, call.context(call.snapshot).peer()
        quorum, placed = self._quorum(call, name), self._placed(call, name)
        bound = self._members.on_nodes(name, placed, snapshot)
        waiting = self._members.waiting(name, snapshot).values()
        gang = self._known.get(name)
        found = gang_of_pod(name, gang, quorum, pod, bound, waiting, self._clock())
        if not placed:
            return found
        rows = np.fromiter(snapshot.table.rows.values(), np.intp, len(snapshot.table.rows))
        open_ = self._attempts.within(name, call, rows, placed).tolist()
        nodes = zip(snapshot.table.rows, open_, strict=True)
        return replace(found, allowed={node for node, is_open in nodes if is_open})

    # ---- one gang

    def _name_of(self, call: VerbCall) -> GangName | None:
        """The gang of a pod; None if it is in none."""
        if not call.plan.gangs:
            return None
        return self._members.name_of(call.plan.gangs[0], call.context(call.snapshot).peer())

    def _placed(self, call: VerbCall, name: GangName) -> Mapping[str, int]:
        """The numbers of members on nodes that are not held, by node."""
        left = dict(self._members.placed(name, call.cluster.pods, call))
        gang = self._known.get(name)
        held = [gang.places[uid] for uid in gang.holds] if gang is not None else []
        for node in held:
            left[node] = left.get(node, 0) - 1
        return {node: number for node, number in left.items() if number > 0}

    def _on_nodes(self, call: VerbCall, name: GangName) -> Mapping[str, int]:
        """The same. Raises BriefWaitError while it is not known of any whether it is bound."""
        placed = self._placed(call, name)
        if placed and name in self._released:
            (_, keys), pods = self._released[name], call.cluster.pods
            unknown = sum(pods.assumption(key, uid) is not None for uid, key in keys.items())
            if not unknown:
                del self._released[name]
            elif sum(placed.values()) <= unknown:
                raise BriefWaitError(_text(call, name, "its members are being bound"))
        return placed

    def _gang(self, call: VerbCall, name: GangName) -> KnownGang | str:
        """The gang with its newest quorum, or why it cannot be placed."""
        now, pod = self._clock(), call.pod
        quorum = self._quorum(call, name)
        if isinstance(quorum, str):
            return quorum
        gang = self._known.get(name)
        if gang is None:
            created = pod.created
            order = -pod.peer.priority, 0.0, created.nanos if created is not None else 0
            sample = f"{pod.namespace}/{pod.name}"
            gang = self._known[name] = KnownGang(name, quorum, order, now, sample, now)
            self._drop_oldest()
        gang.asked_at, gang.priority = now, max(gang.priority, pod.peer.priority)
        if gang.gathers:
            return gang
        gang.numbers = self._numbers(gang, call, quorum)
        numbers = {uid: number for uid, (_, number) in gang.numbers.items()} | {pod.uid: quorum}
        gang.quorum = quorum = max(number for number in numbers.values() if number is not None)
        found = sum(number is not None for number in numbers.values())
        if found < quorum:
            gang.say(f"{found} of {quorum} members exist", now)
            return gang.told
        return gang

    def _numbers(self, gang: KnownGang, call: VerbCall, quorum: int) -> Numbers:
        """What each waiting member says of their number, read again only after it has changed."""
        waiting, read = self._waiting(gang), dict[str, tuple[bytes | None, int | None]]()
        if not callable(gang.clause.number):
            return dict.fromkeys(waiting, (None, quorum))
        for uid in waiting:
            body, known = call.cluster.pods.body(uid), gang.numbers.get(uid)
            if known is None or known[0] is not body:
                other = self._attempts.beside(uid, call)
                is_member = other is not None and gang.clause in other.plan.gangs
                number = self._quorum(other, gang.name) if other is not None and is_member else ""
                known = body, number if isinstance(number, int) else None
            read[uid] = known
        return read

    def _placeable(self, gang: KnownGang) -> Mapping[str, Peer]:
        """The waiting members of which it is known how many they want to be."""
        waiting, numbers = self._waiting(gang), gang.numbers
        return {uid: p for uid, p in waiting.items() if numbers.get(uid, (None, None))[1]}

    def _drop_oldest(self) -> None:
        if len(self._known) > _MOST_KNOWN:
            oldest = next((g for g in self._known.values() if not g.gathers), None)
            if oldest is not None:
                del self._known[oldest.name]

    def _waiting(self, gang: KnownGang) -> Mapping[str, Peer]:
        snapshot = self._calls.snapshot()
        return self._members.waiting(gang.name, snapshot) if snapshot is not None else {}

    def _quorum(self, call: VerbCall, name: GangName) -> int | str:
        """The number of members that are placed together, or why that cannot be told."""
        program = name.program
        number: object = program.number
        replicas: int | None = None
        if program.by is None or program.percent:
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

    # ---- attempts

    def _gather(self, gang: KnownGang, call: VerbCall, only: NodeRows | None) -> int | None:
        """Places the gang on paper, if it fits; the row of the asked pod, None if it does not.

        `only` are the rows that kube-scheduler asks about.
        """
        now, snapshot = self._clock(), call.snapshot
        namespace = gang.name.namespace
        is_tried = gang.tried is not None and not gang.gathers
        if now < gang.not_before or (is_tried and now < self._tried_until.get(namespace, 0.0)):
            return None
        members = self._placeable(gang)
        state = ref(snapshot.table), self._freed, frozenset(members)
        if not gang.gathers and gang.tried is not None and only is None:
            same_table = gang.tried[0]() is snapshot.table
            if same_table and gang.tried[1:] == state[1:]:
                return None
        if not gang.gathers:
            self._try_rivals(gang, call)
        began = self._clock()
        try:
            fits = self._place(gang, call, members, only)
        finally:
            call.evaluation.time.rest()
        if fits:
            return snapshot.table.rows[gang.places[call.pod.uid]]
        if gang.gathers:
            self.give_up(gang, "no node", f"no node is left for {call.pod.name}")
            return None
        if self._take_places(gang, call, members):
            # kube-scheduler has to hear of it first.
            gang.not_before = now + _LEAST_PAUSE_SECONDS
            return None
        gang.tried, ended = state, self._clock()
        pause = _COST_FACTOR * (ended - began)
        gang.not_before = now + max(_LEAST_PAUSE_SECONDS, pause)
        self._tried_until[namespace] = ended + pause
        return None

    def _take_places(self, gang: KnownGang, call: VerbCall, waiting: Mapping[str, Peer]) -> bool:
        """Gives up as few gangs of lower priority as it takes for this one to fit, if it does."""
        gathering = [other for other in self._known.values() if other.gathers]
        lower = [other for other in gathering if other.priority < gang.priority]
        lower.sort(key=lambda other: (other.priority, -other.began))
        higher = [other for other in gathering if other.priority >= gang.priority]
        for number in range(1, min(len(lower), _MOST_RIVALS) + 1):
            freed, others = lower[:number], higher + lower[number:]
            try:
                places = self._attempts.place(gang, call, waiting, None, others, freed)
            finally:
                call.evaluation.time.rest()
            if isinstance(places, str):
                continue
            for uid in places:
                self._placement.in_flight.refuse(uid)
            for other in freed:
                self.give_up(other, "preempted", "a gang of higher priority needs its place")
            return True
        return False

    def _try_rivals(self, gang: KnownGang, call: VerbCall) -> None:
        """Tries the gangs that go before this one and have not been tried since then."""
        now, table = self._clock(), call.snapshot.table
        before = [
            other
            for other in self._known.values()
            if not other.gathers
            and other.order < gang.order
            and other.tried is not None
            and now >= other.not_before
            and (other.tried[0]() is not table or other.tried[1] != self._freed)
        ]
        for other in sorted(before, key=lambda each: each.order)[:_MOST_RIVALS]:
            members = self._placeable(other)
            other.tried = ref(table), self._freed, frozenset(members)
            other.not_before = now + _LEAST_PAUSE_SECONDS
            asked = next(
                (c for uid in members if (c := self._attempts.beside(uid, call)) is not None), None
            )
            if asked is None or len(members) < other.quorum:
                continue
            if self._name_of(asked) == other.name:
                self._place(other, asked, members, None)

    def _place(
        self, gang: KnownGang, call: VerbCall, waiting: Mapping[str, Peer], only: NodeRows | None
    ) -> bool:
        """Has a gang gather if it fits; else its text says why not."""
        namespace, more = gang.name.namespace, gang.quorum - gang.reserved
        if not self.held.has_room(namespace, more):
            gang.say("too many binds are held", self._clock())
            return False
        others = [other for other in self._known.values() if other is not gang]
        places = self._attempts.place(gang, call, waiting, only, others)
        if isinstance(places, str):
            gang.say(places, self._clock())
            return False
        self.held.add(namespace, more)
        gang.reserved = gang.quorum
        if not gang.gathers:
            gang.began = self._clock()
            gang.until = gang.began + gang.clause.seconds
            gang.remind_at = gang.began + _REMIND_SECONDS
            self._tell(gang, "gathering", ())
        for uid, node in places.items():
            pod = waiting.get(uid)
            name = pod.name if pod is not None else call.pod.name
            if node not in gang.bars and (view := call.snapshot.node(node)) is not None:
                gang.bars[node] = bars(view)
            gang.places[uid], gang.keys[uid] = node, f"{gang.name.namespace}/{name}"
            self._by_uid[uid] = gang
        self._awaken(uid for uid in places if uid != call.pod.uid)
        return True

    def _awaken(self, uids: Iterable[str]) -> None:
        before = len(self._woken)
        self._woken.update(dict.fromkeys(uids))
        if len(self._woken) > before:
            self.wake()


def _clauses(registry: Registry) -> Mapping[GangProgram, tuple[str, int, str]]:
    """The clauses in force, each with what stays the same while it means the same."""
    return {
        clause: (program.address, number, program.digest)
        for program in registry.programs
        for number, clause in enumerate(program.gangs)
    }


def _lost(gang: KnownGang, snapshot: Snapshot) -> str:
    """The change of a node that its members can go to no more; empty if there is none."""
    for node, before in gang.bars.items():
        view = snapshot.node(node)
        if view is None:
            return f"node {node} is gone"
        if bars(view) - before:
            return f"node {node} was cordoned or tainted"
    return ""


def _state(gang: KnownGang) -> Literal["waiting", "gathering", "given up"]:
    if gang.gathers:
        return "gathering"
    return "given up" if gang.is_given_up else "waiting"


def _text(call: VerbCall, name: GangName, what: str) -> str:
    return f"{name.program.message(call.evaluation)}: {what}"


def _rejected(decided: Decision, kept: Mask, text: str, clause: GangProgram) -> Decision:
    """The decision with a rejection for each feasible node that is not kept."""
    left = (decided.codes == 0) & ~kept
    if not left.any():
        return decided
    codes = decided.codes.copy()
    codes[left] = len(decided.verdicts)
    verdict = Rejected(text, clause.policy, clause.name)
    verdicts = (*decided.verdicts, verdict)
    return Decision(codes, verdicts, decided.known_rows, decided.headrooms)
