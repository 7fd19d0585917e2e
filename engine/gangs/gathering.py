"""Gathering: the gangs that wait or gather, which one is placed on paper when, and how that ends.

KnownGangs, Tries and Ends belong to Gangs and live as long as they do. Whoever waits at bind is
told when gathering ends.

A gang is tried when kube-scheduler asks about a member. What it costs to try is bounded: a gang
that did not fit is not tried again before something has changed, and the gangs of a namespace share
one small part of the time. A gang goes first to those of higher priority, then to the older ones.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Literal
from weakref import ref

import numpy as np

from engine.cache.node_table import NodeRows, NodeTable, NodeWithPods, Snapshot, without
from engine.clauses.gang import GangProgram
from engine.decision.moves import MovedPods, Moves
from engine.decision.part import PartSite
from engine.decision.plugin_filters import unknown_resources
from engine.decision.preemption import Preemption
from engine.decision.verb_call import Occurrence, VerbCall
from engine.decision.verdict import full_reason
from engine.errors import DeadlineExceededError, EngineError
from engine.gangs.gang import GangName, Hold, KnownGang, Members, Refusals, Try, given_up
from engine.gangs.paper import Attempts
from engine.gangs.quorum import Quorums
from engine.objects.eligibility import unfit
from engine.objects.peer import Peer
from engine.objects.remembered import Remembered
from engine.objects.request_pod import RequestPod

# The pause after a gang was given up, and the longest one. It doubles where the gang is the reason
# itself, because it would be held in vain again.
FIRST_PAUSE_SECONDS, _MOST_PAUSE_SECONDS = 1.0, 300.0
_OWN_REASONS = frozenset({"late", "no node", "preempted", "refused"})
# Members that are not held are woken again after so long, and later less often: what has woken them
# may have got lost.
_REMIND_SECONDS = 2.0
# The gangs that are known at the same time. Beyond them so many are forgotten: the oldest that wait
# of the namespace with the most.
_MOST_KNOWN, _FORGOTTEN = 10_000, 100


class KnownGangs:
    """Gangs by name, and by the uids of the members that have a place.

    `held` counts the bind calls that wait, also those of others, and `woken` takes members to be
    asked about. `freed` rises when places become free that are in no snapshot.
    """

    def __init__(self, site: PartSite, refusals: Refusals) -> None:
        self._clock = site.clock
        self._refusals = refusals
        self._in_flight = site.placing.placement.in_flight
        self._observer = site.observer
        self.woken = site.woken
        self.held = site.held
        self._known: dict[GangName, KnownGang] = {}
        self._by_uid: dict[str, KnownGang] = {}
        # When members that were held were let go, by uid.
        self._let_go: dict[str, float] = {}
        self.freed = 0

    def __iter__(self) -> Iterator[KnownGang]:
        return iter(self._known.values())

    def find(self, name: GangName) -> KnownGang | None:
        return self._known.get(name)

    def placed(self, uid: str) -> KnownGang | None:
        """The gang in which this pod has a place."""
        return self._by_uid.get(uid)

    def was_let_go(self, uid: str) -> bool:
        """Whether the gang of this pod, which was held, was given up a moment ago.

        kube-scheduler counts it until it has the answer of bind.
        """
        return self._clock() - self._let_go.get(uid, -math.inf) < FIRST_PAUSE_SECONDS

    def gathering(self) -> list[KnownGang]:
        # These have members with places. Thousands of others may wait.
        return list({id(gang): gang for gang in self._by_uid.values()}.values())

    # ---- what is known

    def add(self, gang: KnownGang) -> None:
        self._known[gang.name] = gang
        is_full = len(self._known) > _MOST_KNOWN
        waiting = [each for each in self if not each.gathers] if is_full else []
        for most, _ in Counter(each.name.namespace for each in waiting).most_common(1):
            own = (each for each in waiting if each.name.namespace == most)
            for each in islice(own, _FORGOTTEN):
                self.forget(each)

    def forget(self, gang: KnownGang) -> None:
        """Forgets a gang that does not gather any more."""
        self._known.pop(gang.name, None)

    def follow(self, gang: KnownGang, program: GangProgram | None) -> None:
        """Goes on with a gang under another program that means the same; None ends it."""
        self.forget(gang)
        if program is not None:
            gang.name = replace(gang.name, program=program)
            self._known[gang.name] = gang
        elif gang.gathers:
            self.give_up(gang, "policy", f"policy {gang.clause.policy} was changed")

    # ---- gathering

    def gather(self, gang: KnownGang, places: Mapping[str, str], keys: Mapping[str, str]) -> None:
        """Gives members their places: nodes by uid; `keys` are the names of these members.

        Calls of bind are reserved for all of them.
        """
        self.held.add(gang.name.namespace, gang.quorum - gang.reserved)
        gang.reserved = gang.quorum
        if not gang.gathers:
            gang.began = self._clock()
            gang.remind_at = gang.began + _REMIND_SECONDS
            self._tell(gang, "gathering", ())
        gang.places |= places
        gang.keys |= keys
        self._by_uid.update(dict.fromkeys(places, gang))

    def remind(self, gang: KnownGang) -> None:
        """Wakes the members that are not held, so that kube-scheduler asks again, later each time.

        Members that were never rejected would be asked about by nobody after a gang was given up.
        """
        now = self._clock()
        if gang.absent and now >= gang.not_before:
            self.woken.add(gang.absent)
            gang.absent = frozenset()
        if not gang.gathers:
            return
        if now >= gang.remind_at:
            gang.remind_at = now + 2 * (now - gang.began)
            self.woken.add(uid for uid in gang.places if uid not in gang.holds)

    def release(self, gang: KnownGang) -> None:
        """Ends the calls of all held members: they are bound. The gang is forgotten."""
        holds = list(gang.holds.values())
        for uid in gang.places:
            self._by_uid.pop(uid, None)
        self.held.add(gang.name.namespace, -gang.reserved)
        self.forget(gang)
        self._tell(gang, "released", holds)
        for hold in holds:
            hold.end("")

    def give_up(self, gang: KnownGang, reason: str, text: str) -> None:
        """Ends the gathering of a gang: nobody is held any more, and its places are free.

        `reason` is one of few words, for metrics.
        """
        holds, now = list(gang.holds.values()), self._clock()
        if reason == "late":
            self._refusals.end(gang)
        self._let_go = {uid: at for uid, at in self._let_go.items() if self.was_let_go(uid)}
        self._let_go.update(dict.fromkeys(gang.holds, now))
        gang.absent = frozenset(gang.places.keys() - gang.holds.keys())
        for uid in gang.places:
            self._by_uid.pop(uid, None)
            self._in_flight.refuse(uid)
        self.held.add(gang.name.namespace, -gang.reserved)
        gang.places, gang.keys, gang.holds, gang.seen = {}, {}, {}, {}
        gang.reserved, gang.offers = 0, {}
        gang.why_given_up = text
        gang.say(given_up(text), now)
        gang.not_before = now + FIRST_PAUSE_SECONDS
        if reason in _OWN_REASONS:
            gang.pause = min(2 * gang.pause, _MOST_PAUSE_SECONDS) or FIRST_PAUSE_SECONDS
            gang.not_before = now + gang.pause
        gang.gave_up_at = now
        self.freed += 1
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
        """Tells of a change; `reason` is one of few words, and `text` says more of a gang given up.

        It has the seconds since the gang began to gather, and counts those of all bind calls.
        """
        now, policy = self._clock(), gang.clause.policy
        fields: dict[str, str | int | float] = {
            "policy": policy,
            "clause": gang.clause.name,
            "gang": gang.shown,
            "members": len(holds) if state != "gathering" else gang.quorum,
        }
        if state != "gathering":
            fields["seconds"] = round(now - gang.began, 3)
        if text:
            fields["reason"] = text
        labels, held = [policy, state.replace(" ", "_")], sum(now - hold.since for hold in holds)
        counts = [("placet_gangs_total", [*labels, reason.replace(" ", "_")], 1.0)]
        if held:
            counts.append(("placet_gang_held_seconds_total", labels, held))
        self._observer.occurred(Occurrence(f"gang {state}", fields, counts))


# A gang that did not fit is tried again after so many times of what the attempt has taken, and
# after this pause at least. The same holds for all gangs of a namespace together: they cost a
# twentieth of the time at most.
_COST_FACTOR, _LEAST_PAUSE_SECONDS = 19.0, 0.5
# The time in which kube-scheduler hears of places that were given up for a gang.
_HEARS_SECONDS = 0.1
# Other objects than pods may say how many members are needed, so these are read again after this.
READ_SECONDS = 1.0
# For how long no look tries a gang of which kube-scheduler was told to ask about a member instead.
_SENT_SECONDS = 5.0
# For how long members keep the nodes where pods are evicted for them.
_MAKES_ROOM_SECONDS = 60.0
# The waiting gangs that are tried before a gang behind them, at each attempt.
_MOST_RIVALS = 4


class Tries:
    """Tries to place waiting gangs."""

    def __init__(
        self, site: PartSite, known: KnownGangs, members: Members, attempts: Attempts
    ) -> None:
        self._known = known
        self._members = members
        self._attempts = attempts
        self._placement = site.placing.placement
        self._clock = site.clock
        # By namespace: until when none of its waiting gangs is tried again.
        self._tried_until = Remembered[str, float]()

    def gather(self, gang: KnownGang, call: VerbCall, only: NodeRows | None) -> int | None:
        """Places the gang on paper, if it fits; the row of the asked pod, None if it has none.

        `only` are the rows that kube-scheduler asks about.
        """
        snapshot = call.snapshot
        if self._rests(gang):
            gang.is_settled = gang.tried is not None
            return None
        members = self._placeable(gang, call)
        now_known = self._what_is_known(gang, call, members, only)
        if not gang.gathers:
            if gang.tried is not None and gang.tried.covers(now_known):
                gang.say(gang.text, now_known.at)
                gang.is_settled = True
                return None
            self._try_rivals(gang, call)
        if self._place(gang, call, members, only):
            return snapshot.table.rows.get(gang.places.get(call.pod.uid, ""))
        if gang.gathers:
            self._known.give_up(gang, "no node", f"no node is left for {call.pod.name}")
        elif self._take_places(gang, call, members):
            # kube-scheduler has to hear of it first. Until then this gang goes before others.
            gang.tried, gang.not_before = now_known, self._clock() + _HEARS_SECONDS
        else:
            gang.tried, gang.is_settled = now_known, True
        return None

    def look(self, gang: KnownGang, call: VerbCall) -> bool:
        """Whether the gang fits, or a call of filter about the pod of the call is to tell that.

        A look has little time. Where an attempt takes more, the next look leaves it to filter, and
        no further one tries for some seconds. Raises what the time of the call does.
        """
        now = self._clock()
        if now >= gang.sent_at + _SENT_SECONDS:
            if gang.is_long:
                gang.is_long, gang.sent_at = False, now
                return True
            try:
                if self.gather(gang, call, None) is not None:
                    return True
            except DeadlineExceededError:
                gang.is_long = True
                raise
        gang.looked_at = now
        return False

    def stands(self, gang: KnownGang, *, is_look: bool) -> bool:
        """Whether a gang still waits for the same, so that nobody has to look again."""
        now, is_there = self._clock(), self._known.find(gang.name) is gang and not gang.gathers
        is_looked = is_look and now < gang.looked_at + _LEAST_PAUSE_SECONDS
        waits = bool(gang.lacks) and now < gang.read_at + READ_SECONDS
        rests = waits or (gang.tried is not None and self._rests(gang))
        return is_there and (is_looked or (gang.is_settled and rests))

    def _rests(self, gang: KnownGang) -> bool:
        """Whether a gang is not tried yet: the turn comes later, or that of its namespace."""
        now, until = self._clock(), self._tried_until.get(gang.name.namespace) or 0.0
        return now < gang.not_before or (
            gang.tried is not None and not gang.gathers and now < until
        )

    def _what_is_known(
        self, gang: KnownGang, call: VerbCall, members: Mapping[str, Peer], only: NodeRows | None
    ) -> Try:
        asked = None if only is None else only.tobytes()
        table, freed = ref(call.snapshot.table), self._known.freed
        return Try(self._clock(), gang.quorum, table, freed, frozenset(members), asked)

    def _rest(self, gang: KnownGang, began: float) -> None:
        """Has a gang wait after an attempt in vain, and all of its namespace.

        A cheap attempt ends no pause of an earlier, costly one.
        """
        ended, namespace = self._clock(), gang.name.namespace
        pause = _COST_FACTOR * (ended - began)
        gang.not_before = max(gang.not_before, began + max(_LEAST_PAUSE_SECONDS, pause))
        until = self._tried_until.get(namespace) or 0.0
        self._tried_until.put(namespace, max(until, ended + pause))

    def _placeable(self, gang: KnownGang, call: VerbCall) -> Mapping[str, Peer]:
        """The waiting members of which it is known how many they want to be."""
        waiting, numbers = self._members.waiting(gang.name, call.snapshot), gang.numbers
        told = {uid for uid, (_, said) in numbers.items() if not isinstance(said, str)}
        return {uid: pod for uid, pod in waiting.items() if uid in told}

    def _take_places(self, gang: KnownGang, call: VerbCall, waiting: Mapping[str, Peer]) -> bool:
        """Gives up as few gangs of lower priority as have to go for this gang to fit, if it can."""
        began, gathering = self._clock(), self._known.gathering()
        lower = [other for other in gathering if other.priority < gang.priority]
        lower.sort(key=lambda other: (other.priority, -other.began))
        higher = [other for other in gathering if other.priority >= gang.priority]
        for number in range(1, min(len(lower), _MOST_RIVALS) + 1):
            freed, others = lower[:number], higher + lower[number:]
            places = self._attempts.place(gang, call, waiting, None, others, freed)
            if isinstance(places, str):
                continue
            for uid in places:
                self._placement.in_flight.refuse(uid)
            for other in freed:
                self._known.give_up(other, "preempted", "a gang of higher priority needs its place")
            self._tried_until.put(gang.name.namespace, began)
            return True
        if lower:
            self._rest(gang, began)
        return False

    def with_evictions(self, gang: KnownGang, call: VerbCall, budgeted: Sequence[str]) -> str:
        """The node where pods may go for the pod of the call, so that the whole gang fits.

        It is empty where the gang would not fit even then, and for a member with room without.
        On as few `budgeted` nodes as the gang needs, the first ones, a disruption budget is broken.
        """
        members, now = self._placeable(gang, call), self._clock()
        is_known = now < gang.makes_room_until and gang.makes_room.keys() <= members.keys()
        if not (gang.makes_room and is_known):
            others = [each for each in self._known.gathering() if each.priority >= gang.priority]
            place = partial(self._attempts.place, gang, call, members, None, others)
            stays = Preemption(call, self._placement).stays

            def fits(broken: int) -> bool:
                kept = frozenset(budgeted[broken:])
                found = place(stays=lambda node, pod: node.name in kept or stays(node, pod))
                gang.makes_room = {} if isinstance(found, str) else dict(found)
                return bool(gang.makes_room)

            if fits(len(budgeted)) and budgeted:
                fits(bisect_left(range(len(budgeted)), True, key=fits))
            gang.makes_room_until, gang.evicted = now + _MAKES_ROOM_SECONDS, {}
        return gang.makes_room.get(call.pod.uid, "")

    def _try_rivals(self, gang: KnownGang, call: VerbCall) -> None:
        """Tries the gangs that go before this one and have not been tried since then."""
        table, freed, order = call.snapshot.table, self._known.freed, gang.order
        # There may be thousands of them, so the cheapest question comes first.
        before = [
            other
            for other in self._known
            if other.order < order
            and other.tried is not None
            and not other.places
            and (other.tried.freed != freed or other.tried.table() is not table)
            and not self._rests(other)
        ]
        for other in sorted(before, key=lambda each: each.order)[:_MOST_RIVALS]:
            if self._rests(other):
                continue
            members = self._placeable(other, call)
            other.tried = self._what_is_known(other, call, members, None)
            asked = next(
                (c for uid in members if (c := self._attempts.about(uid, call)) is not None), None
            )
            if asked is None or len(members) < other.quorum:
                continue
            if self._members.of(asked) == other.name:
                self._place(other, asked, members, None)

    def _place(
        self, gang: KnownGang, call: VerbCall, waiting: Mapping[str, Peer], only: NodeRows | None
    ) -> bool:
        """Has a gang gather if it fits; else its text says why not."""
        began = self._clock()
        if not self._known.held.has_room(gang.name.namespace, gang.quorum - gang.reserved):
            self._rest(gang, began)
            gang.say("too many binds are held", began)
            return False
        others = [other for other in self._known.gathering() if other is not gang]
        places = self._attempts.place(gang, call, waiting, only, others)
        if isinstance(places, str):
            self._rest(gang, began)
            gang.say(places, self._clock())
            return False
        asked = call.pod
        keys = {
            uid: f"{gang.name.namespace}/{waiting[uid].name if uid in waiting else asked.name}"
            for uid in places
        }
        self._known.gather(gang, places, keys)
        self._known.woken.add(uid for uid in places if uid != asked.uid)
        return True


# A gang is given up for the first reason that has a text.
Find = Callable[[KnownGang, Snapshot], str]
# The steps that a look at one member may take before a release.
_MOST_STEPS = 3


class Ends:
    """Ends of gathering: the events, as a `table` by reason, one of few words for metrics.

    Gangs go through it about once a second. What is known as soon as it happens ends a gang at
    once: a member that is deleted or leaves, a policy, a preemption, a client that has gone,
    another leader.
    """

    def __init__(
        self, site: PartSite, members: Members, attempts: Attempts, quorums: Quorums
    ) -> None:
        self._clock, self._calls = site.clock, site.placing.calls
        self._moves, self._plugins = Moves(site.placing), site.placing.plugins
        self._pods = site.placing.placement.pods
        self._members = members
        self._attempts = attempts
        self._quorums = quorums
        self.table: Sequence[tuple[str, Find]] = (
            ("late", lambda gang, _: gang.came if self._clock() >= gang.until else ""),
            # These are looked at once more before a release.
            ("number", self._number),
            ("changed", self._broken),
            ("no node", self._without_node),
        )

    def of(
        self, gang: KnownGang, snapshot: Snapshot, *, is_last: bool = False
    ) -> tuple[str, str] | None:
        """Why a gang cannot gather any more: the reason, and a text; None if it can."""
        if is_last:
            gang.seen.clear()
        for reason, find in self.table[1:] if is_last else self.table:
            # Without a decision there is nothing to say; the next look asks again.
            with suppress(EngineError):
                if text := find(gang, snapshot):
                    return reason, text
        return None

    def bound(self, gang: KnownGang) -> Mapping[str, int]:
        """The numbers of members that somebody has bound, by node; held ones are not."""
        return self._members.bound(gang.name, gang, self._pods, lambda: None)

    def _broken(self, gang: KnownGang, snapshot: Snapshot) -> str:
        """Why a held member could not go to its node now, by `within`, policies and plugins.

        A member is looked at again only after its node, or what is in force, has changed.
        """
        held = {uid: node for uid, node in gang.places.items() if uid in gang.holds}
        if gone := next((node for node in held.values() if snapshot.node(node) is None), ""):
            return f"node {gone} is gone"
        nodes = {node for node in gang.places.values() if snapshot.node(node) is not None}
        if held and not self._attempts.share(gang, snapshot.table, {*nodes, *self.bound(gang)}):
            return "the nodes of its members do not share the value of `within` any more"
        alike = set[tuple[object, ...]]()
        for uid, node in held.items():
            view, now = snapshot.node(node), self._what_is_known(node, snapshot)
            if view is None or gang.seen.get(uid) == now:
                continue
            pod, call = self._attempts.pod(uid), self._attempts.about(uid)
            kind = node, call and call.plan, pod and self._plugins.kind(pod)
            # Pods that are alike break the same there.
            if pod is not None and kind not in alike:
                alike.add(kind)
                if text := self._misplaced(pod, gang.keys[uid], view, snapshot.table):
                    name = gang.keys[uid].partition("/")[2]
                    return f"{name} cannot go to node {node} now: {text}"
            gang.seen[uid] = now
        return ""

    def saw(self, gang: KnownGang, uid: str) -> None:
        """Notes that a member was looked at just now."""
        if (snapshot := self._calls.snapshot()) is not None:
            gang.seen[uid] = self._what_is_known(gang.places[uid], snapshot)

    def _what_is_known(self, node: str, snapshot: Snapshot) -> tuple[object, ...]:
        """What a look at a member reads, the pods of its node aside."""
        view, calls = snapshot.node(node), self._calls
        of_node = (view.metadata, view.spec, view.status) if view is not None else ()
        return *of_node, calls.registry, calls.tables

    def _misplaced(self, pod: RequestPod, key: str, view: NodeWithPods, table: NodeTable) -> str:
        """What a held pod breaks on its node; empty for nothing, or a pod that is not there."""
        there = self._pods.pod(key)
        if there is None or there.nodeName != view.name:
            return ""
        for _ in range(_MOST_STEPS):
            with suppress(DeadlineExceededError):
                for rule in self._moves.broken(pod, there, MovedPods()):
                    return full_reason(rule.policy, rule.clause, rule.text)
                break
        ignored = unknown_resources(pod.pod, table)
        reasons = unfit(pod.pod, without(view, [there]))
        return next((each for each in reasons if each not in ignored), "")

    def _without_node(self, gang: KnownGang, snapshot: Snapshot) -> str:
        """A member that no node is left for: kube-scheduler does not ask about it any more."""
        table, uids = snapshot.table, self._members.waiting(gang.name, snapshot).keys()
        rows = np.fromiter(table.rows.values(), np.intp, len(table.rows))
        pods = filter(None, map(self._attempts.pod, gang.places.keys() & uids))
        for pod in {self._plugins.kind(each): each for each in pods}.values():
            if not self._plugins.allowed(pod, table, rows, lambda: None).any():
                return f"no node is left for {pod.name}"
        return ""

    def _number(self, gang: KnownGang, _snapshot: Snapshot) -> str:
        """A number that is larger now, or cannot be told. A smaller one is taken."""
        number = self._quorums.of_gathering(gang)
        if isinstance(number, str):
            return number
        if number > gang.quorum:
            return f"{number} members are needed now"
        gang.quorum = number
        return ""
