"""KnownGangs: the gangs that wait or gather, and how gathering begins and ends.

They belong to Gangs and live as long as they do. Whoever waits at bind is told when it ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from engine.counting.in_flight_pods import InFlightPods
from engine.decision.verb_call import Observer, Occurrence
from engine.gangs.gang import Hold, KnownGang, given_up
from engine.gangs.held_calls import HeldCalls
from engine.gangs.members import GangName
from engine.program.program import GangProgram

# The pause after a gang was given up, and the longest one. It doubles where the gang is the reason
# itself, because it would be held in vain again.
FIRST_PAUSE_SECONDS, _MOST_PAUSE_SECONDS = 1.0, 300.0
_OWN_REASONS = frozenset({"late", "no node", "preempted"})
# Members that are not held are woken again after so long, and later less often: what has woken them
# may have got lost.
_REMIND_SECONDS = 2.0
# The gangs that are known at the same time; the oldest waiting one is forgotten first.
_MOST_KNOWN = 10_000


class KnownGangs:
    """Gangs by name, and by the uids of the members that have a place.

    `wake` is called when there are members to be asked about; `take_woken` gives them. `held`
    counts the bind calls that wait, also those of others. `freed` rises when places become free
    that are in no snapshot.
    """

    def __init__(
        self, clock: Callable[[], float], in_flight: InFlightPods, observer: Observer
    ) -> None:
        self._clock = clock
        self._in_flight = in_flight
        self._observer = observer
        self._known: dict[GangName, KnownGang] = {}
        self._by_uid: dict[str, KnownGang] = {}
        self._woken: dict[str, None] = {}
        # When members that were held were let go, by uid.
        self._let_go: dict[str, float] = {}
        self.held = HeldCalls()
        self.freed = 0
        self.wake: Callable[[], None] = lambda: None

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

    def waiting(self) -> list[KnownGang]:
        return [gang for gang in self if not gang.gathers]

    # ---- what is known

    def add(self, gang: KnownGang) -> None:
        self._known[gang.name] = gang
        if len(self._known) > _MOST_KNOWN:
            oldest = next((each for each in self if not each.gathers), None)
            if oldest is not None:
                self.forget(oldest)

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

    def gather(
        self,
        gang: KnownGang,
        places: Mapping[str, str],
        keys: Mapping[str, str],
        bars: Mapping[str, frozenset[tuple[str, str]]],
    ) -> None:
        """Gives members their places: nodes by uid; `keys` are the names of these members.

        `bars` are the cordons and taints of the nodes. Calls of bind are reserved for all of them.
        """
        self.held.add(gang.name.namespace, gang.quorum - gang.reserved)
        gang.reserved = gang.quorum
        if not gang.gathers:
            gang.began = self._clock()
            gang.until = gang.began + gang.clause.seconds
            gang.remind_at = gang.began + _REMIND_SECONDS
            self._tell(gang, "gathering", ())
        gang.bars = {**bars, **gang.bars}
        gang.places |= places
        gang.keys |= keys
        self._by_uid.update(dict.fromkeys(places, gang))

    def remind(self, gang: KnownGang) -> None:
        """Has the members that are not held asked about again, later each time."""
        now = self._clock()
        if now >= gang.remind_at:
            gang.remind_at = now + 2 * (now - gang.began)
            self.awaken(uid for uid in gang.places if uid not in gang.holds)

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
        self._let_go = {uid: at for uid, at in self._let_go.items() if self.was_let_go(uid)}
        self._let_go.update(dict.fromkeys(gang.holds, now))
        for uid in gang.places:
            self._by_uid.pop(uid, None)
            self._in_flight.refuse(uid)
        self.held.add(gang.name.namespace, -gang.reserved)
        gang.places, gang.keys, gang.holds, gang.bars, gang.reserved = {}, {}, {}, {}, 0
        gang.until, gang.why_given_up = math.inf, text
        gang.say(given_up(text), now)
        gang.not_before = now + FIRST_PAUSE_SECONDS
        if reason in _OWN_REASONS:
            gang.pause = min(2 * gang.pause, _MOST_PAUSE_SECONDS) or FIRST_PAUSE_SECONDS
            gang.not_before = now + gang.pause
        gang.order = (gang.order[0], now, gang.order[2])
        self.freed += 1
        self._tell(gang, "given up", holds, reason, text)
        for hold in holds:
            hold.end(f"policy {gang.clause.policy}: {gang.clause.name}: given up: {text}")

    def give_up_late(self, gang: KnownGang) -> None:
        held = len(gang.holds)
        self.give_up(gang, "late", f"{held} of {gang.quorum} members came in time")

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

    # ---- members to be asked about

    def awaken(self, uids: Iterable[str]) -> None:
        before = len(self._woken)
        self._woken.update(dict.fromkeys(uids))
        if len(self._woken) > before:
            self.wake()

    def take_woken(self) -> Sequence[str]:
        """The uids of the members that kube-scheduler should ask about, each once."""
        woken, self._woken = list(self._woken), {}
        return woken
