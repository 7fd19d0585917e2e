"""Tries: which waiting gang is placed on paper, and when.

They belong to Gangs and live as long as they do. A gang is tried when kube-scheduler asks about a
member. What it costs to try is bounded: a gang that did not fit is not tried again before something
has changed, and the gangs of a namespace share one small part of the time. A gang goes first to
those of higher priority, then to the older ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from weakref import ref

from engine.cache.node_table import NodeRows
from engine.counting.in_flight_pods import InFlightPods
from engine.decision.verb_call import VerbCall
from engine.gangs.attempts import Attempts
from engine.gangs.gang import KnownGang
from engine.gangs.known_gangs import KnownGangs
from engine.gangs.members import Members
from engine.objects.eligibility import bars
from engine.objects.peer import Peer

# A gang that did not fit is tried again after so many times of what the attempt has taken, and
# after this pause at least. The same holds for all gangs of a namespace together: they cost a
# twentieth of the time at most.
_COST_FACTOR, _LEAST_PAUSE_SECONDS = 19.0, 0.1
# The waiting gangs that are tried before a gang behind them, at each attempt.
_MOST_RIVALS = 4


class Tries:
    """Tries to place waiting gangs."""

    def __init__(
        self,
        known: KnownGangs,
        members: Members,
        attempts: Attempts,
        in_flight: InFlightPods,
        clock: Callable[[], float],
    ) -> None:
        self._known = known
        self._members = members
        self._attempts = attempts
        self._in_flight = in_flight
        self._clock = clock
        # By namespace: until when none of its waiting gangs is tried again.
        self._tried_until: dict[str, float] = {}

    def gather(self, gang: KnownGang, call: VerbCall, only: NodeRows | None) -> int | None:
        """Places the gang on paper, if it fits; the row of the asked pod, None if it does not.

        `only` are the rows that kube-scheduler asks about.
        """
        now, snapshot = self._clock(), call.snapshot
        namespace = gang.name.namespace
        is_tried = gang.tried is not None and not gang.gathers
        if now < gang.not_before or (is_tried and now < self._tried_until.get(namespace, 0.0)):
            return None
        members = self._placeable(gang, call)
        state = ref(snapshot.table), self._known.freed, frozenset(members)
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
            self._known.give_up(gang, "no node", f"no node is left for {call.pod.name}")
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

    def forget_old(self) -> None:
        """Forgets the pauses that are over."""
        now = self._clock()
        self._tried_until = {n: until for n, until in self._tried_until.items() if until > now}

    def _placeable(self, gang: KnownGang, call: VerbCall) -> Mapping[str, Peer]:
        """The waiting members of which it is known how many they want to be."""
        waiting, numbers = self._members.waiting(gang.name, call.snapshot), gang.numbers
        return {uid: p for uid, p in waiting.items() if numbers.get(uid, (None, None))[1]}

    def _take_places(self, gang: KnownGang, call: VerbCall, waiting: Mapping[str, Peer]) -> bool:
        """Gives up as few gangs of lower priority as it takes for this one to fit, if it does."""
        gathering = self._known.gathering()
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
                self._in_flight.refuse(uid)
            for other in freed:
                text = "a gang of higher priority needs its place"
                self._known.give_up(other, "preempted", text)
            return True
        return False

    def _try_rivals(self, gang: KnownGang, call: VerbCall) -> None:
        """Tries the gangs that go before this one and have not been tried since then."""
        now, table = self._clock(), call.snapshot.table
        before = [
            other
            for other in self._known.waiting()
            if other.order < gang.order
            and other.tried is not None
            and now >= other.not_before
            and (other.tried[0]() is not table or other.tried[1] != self._known.freed)
        ]
        for other in sorted(before, key=lambda each: each.order)[:_MOST_RIVALS]:
            members = self._placeable(other, call)
            other.tried = ref(table), self._known.freed, frozenset(members)
            other.not_before = now + _LEAST_PAUSE_SECONDS
            asked = next(
                (c for uid in members if (c := self._attempts.beside(uid, call)) is not None), None
            )
            if asked is None or len(members) < other.quorum:
                continue
            if self._members.of(asked) == other.name:
                self._place(other, asked, members, None)

    def _place(
        self, gang: KnownGang, call: VerbCall, waiting: Mapping[str, Peer], only: NodeRows | None
    ) -> bool:
        """Has a gang gather if it fits; else its text says why not."""
        if not self._known.held.has_room(gang.name.namespace, gang.quorum - gang.reserved):
            gang.say("too many binds are held", self._clock())
            return False
        others = [other for other in self._known.gathering() if other is not gang]
        places = self._attempts.place(gang, call, waiting, only, others)
        if isinstance(places, str):
            gang.say(places, self._clock())
            return False
        asked, views = call.pod, {node: call.snapshot.node(node) for node in places.values()}
        keys = {
            uid: f"{gang.name.namespace}/{waiting[uid].name if uid in waiting else asked.name}"
            for uid in places
        }
        barred = {node: bars(view) for node, view in views.items() if view is not None}
        self._known.gather(gang, places, keys, barred)
        self._known.awaken(uid for uid in places if uid != asked.uid)
        return True
