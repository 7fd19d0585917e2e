"""Ends: what ends or completes the gathering of a gang, as one table that is gone through.

They belong to Gangs, which goes through them about once a second. What is known as soon as it
happens ends a gang at once: a member that is deleted or leaves, a policy, a preemption, a client
that has gone, another leader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from engine.cache.node_table import Snapshot
from engine.decision.part import PartSite
from engine.errors import EngineError
from engine.gangs.gang import KnownGang, Members
from engine.gangs.paper import Attempts
from engine.gangs.quorum import Quorums
from engine.objects.eligibility import bars
from engine.objects.peer import Peer

# A gang is given up for the first reason that has a text.
Find = Callable[[KnownGang, Snapshot], str]


class Ends:
    """The events that end gangs; `table` has them by reason, one of few words for metrics."""

    def __init__(
        self, site: PartSite, members: Members, attempts: Attempts, quorums: Quorums
    ) -> None:
        self._clock = site.clock
        self._pods = site.placing.placement.pods
        self._members = members
        self._attempts = attempts
        self._quorums = quorums
        self.table: Sequence[tuple[str, Find]] = (
            ("late", self._late),
            ("node lost", _lost),
            ("no node", self._without_room),
            ("member left", self._left),
            ("number", self._number),
        )

    def of(self, gang: KnownGang, snapshot: Snapshot) -> tuple[str, str] | None:
        """Why a gang cannot gather any more: the reason, and a text; None if it can."""
        for reason, find in self.table:
            # Without a decision there is nothing to say; the next look asks again.
            with suppress(EngineError):
                if text := find(gang, snapshot):
                    return reason, text
        return None

    def is_complete(self, gang: KnownGang) -> bool:
        """Whether enough members are held, or one is bound: the others come as they come then."""
        return len(gang.holds) >= gang.quorum or bool(self.bound(gang))

    def bound(self, gang: KnownGang) -> Mapping[str, int]:
        """The numbers of members that somebody has bound, by node; held ones are not."""
        return self._members.bound(gang.name, gang, self._pods, lambda: None)

    def _late(self, gang: KnownGang, _snapshot: Snapshot) -> str:
        if self._clock() < gang.until:
            return ""
        return f"{len(gang.holds)} of {gang.quorum} members came in time"

    def _without_room(self, gang: KnownGang, snapshot: Snapshot) -> str:
        """A member that no node has room for: kube-scheduler does not ask about it any more."""
        waiting = self._members.waiting(gang.name, snapshot)
        pods = [pod for uid in gang.places if (pod := waiting.get(uid)) is not None]
        found: Peer | None = self._attempts.without_room(pods, snapshot.table)
        return f"other pods have taken the room of {found.name}" if found is not None else ""

    def _left(self, gang: KnownGang, _snapshot: Snapshot) -> str:
        return "" if self._quorums.of_gathering(gang) else "a member has left it"

    def _number(self, gang: KnownGang, _snapshot: Snapshot) -> str:
        """A number that is larger now, or cannot be told. A smaller one is taken."""
        number = self._quorums.of_gathering(gang)
        if isinstance(number, str):
            return number
        if number > gang.quorum:
            return f"{number} members are needed now"
        gang.quorum = number
        return ""


def _lost(gang: KnownGang, snapshot: Snapshot) -> str:
    """The change of a node that its members can go to no more; empty if there is none."""
    for node, before in gang.bars.items():
        view = snapshot.node(node)
        if view is None:
            return f"node {node} is gone"
        if bars(view) - before:
            return f"node {node} was cordoned or tainted"
    return ""
