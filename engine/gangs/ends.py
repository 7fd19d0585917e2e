"""Ends: what ends or completes the gathering of a gang, as one table that is gone through.

They belong to Gangs, which goes through them about once a second. What is known as soon as it
happens ends a gang at once: a member that is deleted or leaves, a policy, a preemption, a client
that has gone, another leader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from engine.cache.node_table import NodeTable, NodeWithPods, Snapshot, without
from engine.decision.moves import MovedPods, Moves
from engine.decision.part import PartSite
from engine.decision.plugin_filters import unknown_resources
from engine.decision.verdict import full_reason
from engine.errors import DeadlineExceededError, EngineError
from engine.gangs.gang import KnownGang, Members
from engine.gangs.paper import Attempts
from engine.gangs.quorum import Quorums
from engine.objects.eligibility import bars, unfit
from engine.objects.peer import Peer
from engine.objects.request_pod import RequestPod

# A gang is given up for the first reason that has a text.
Find = Callable[[KnownGang, Snapshot], str]
# The steps that a look at one member may take before a release.
_MOST_STEPS = 3


class Ends:
    """The events that end gangs; `table` has them by reason, one of few words for metrics."""

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
            ("node lost", _lost),
            ("no node", self._without_room),
            ("member left", self._left),
            ("number", self._number),
            ("changed", partial(self.broken, looks_at_all=False)),
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
        return gang.has_enough or bool(self.bound(gang))

    def bound(self, gang: KnownGang) -> Mapping[str, int]:
        """The numbers of members that somebody has bound, by node; held ones are not."""
        return self._members.bound(gang.name, gang, self._pods, lambda: None)

    def broken(self, gang: KnownGang, snapshot: Snapshot, *, looks_at_all: bool = True) -> str:
        """Why a held member could not go to its node now, by `within`, policies and plugins.

        Without `looks_at_all` a member is looked at again only after its node, or what is in force,
        has changed.
        """
        held = {uid: node for uid, node in gang.places.items() if uid in gang.holds}
        if held and not self._attempts.share(
            gang, snapshot.table, {*held.values(), *self.bound(gang)}
        ):
            return "the nodes of its members do not share the value of `within` any more"
        alike = set[tuple[object, ...]]()
        for uid, node in held.items():
            view, now = snapshot.node(node), self._what_is_known(node, snapshot)
            if view is None or (gang.seen.get(uid) == now and not looks_at_all):
                continue
            pod, call = self._attempts.pod(uid), self._attempts.aside(uid)
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
