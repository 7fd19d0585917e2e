"""ConditionWaits: bindings that wait until a condition of a `bind` clause is true.

The binder owns them. A condition is looked at again when its pod, its node, a pod on that node or
the policies have changed, and once a second if policies read tables.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.cache.cache import Cache
from engine.decision.registry import Registry
from engine.decision.verdict import Failed, Rejected
from engine.errors import WaitedInVainError
from engine.gangs.held_calls import HeldCalls
from engine.objects.peer import Peer

# The clause that the binding of a pod (its JSON) to a node waits for. Raises EngineError.
WaitsFor = Callable[[bytes, str], Rejected | Failed | None]


@dataclass(eq=False, slots=True)
class _Wait:
    """One binding that waits. `changed` is set when its condition is to be looked at."""

    uid: str
    key: str
    node: str
    changed: asyncio.Event
    text: str = ""


class ConditionWaits:
    """The bindings that wait, on one event loop."""

    def __init__(self, cache: Cache, waits_for: WaitsFor, held: HeldCalls) -> None:
        self._cache = cache
        self._waits_for = waits_for
        self._held = held
        self._waits: set[_Wait] = set()
        self._why_ended = ""
        self._policies: Registry | None = None
        cache.add_body_handler(lambda uid: self._look_again(lambda wait: wait.uid == uid))
        cache.add_event_handler(self._pod_changed)
        cache.add_node_handler(lambda name: self._look_again(lambda wait: wait.node == name))

    async def until(
        self,
        uid: str,
        key: str,
        node: str,
        body: bytes,
        seconds: float,
        ended: asyncio.Future[None] | None,
    ) -> None:
        """Returns when nothing is waited for any more.

        `body` is the pod as filter has seen it. Raises WaitedInVainError after so many seconds,
        when the call has `ended`, or if too many wait; other EngineErrors where there is no
        decision.
        """
        wait, namespace = _Wait(uid, key, node, asyncio.Event()), key.partition("/")[0]
        wait.text = self._text(body, node)
        if not wait.text:
            return
        if not self._held.has_room(namespace):
            raise WaitedInVainError(f"{wait.text}: too many binds are held")
        self._waits.add(wait)
        self._held.add(namespace, 1)
        try:
            async with asyncio.timeout(seconds):
                while wait.text:
                    await self._change(wait, ended)
                    wait.text = self._text(self._cache.body(uid) or body, node)
        except TimeoutError:
            raise WaitedInVainError(f"{wait.text}: not true after {seconds:g} s") from None
        finally:
            self._held.add(namespace, -1)
            self._waits.discard(wait)

    def statuses(self) -> Iterable[tuple[str, str, str]]:
        """The uid, the node and the text of each binding that waits."""
        return [(wait.uid, wait.node, wait.text) for wait in self._waits]

    def review(self, policies: Registry) -> None:
        """Has every condition be looked at if other policies are in force than at the last review.

        So it has if policies read tables: these change, and rows become stale. To be called about
        once a second.
        """
        if policies is not self._policies or policies.tables:
            self._policies = policies
            self._look_again(lambda _: True)

    def end(self, why: str) -> None:
        """Ends all waits, and those to come."""
        self._why_ended = why
        self._look_again(lambda _: True)

    def _text(self, body: bytes, node: str) -> str:
        """What is waited for; empty if nothing is."""
        found = self._waits_for(body, node)
        return found.reason if found is not None else ""

    def _look_again(self, concerns: Callable[[_Wait], bool]) -> None:
        for wait in filter(concerns, self._waits):
            wait.changed.set()

    def _pod_changed(self, old: Peer | None, new: Peer | None, _revision: int) -> None:
        nodes = {pod.nodeName for pod in (old, new) if pod is not None}
        self._look_again(lambda wait: wait.node in nodes)

    async def _change(self, wait: _Wait, ended: asyncio.Future[None] | None) -> None:
        """Returns when a condition may have changed. Raises WaitedInVainError."""
        changed = asyncio.ensure_future(wait.changed.wait())
        try:
            others = () if ended is None else (ended,)
            await asyncio.wait((changed, *others), return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
        wait.changed.clear()
        if self._why_ended:
            raise WaitedInVainError(f"{wait.text}: {self._why_ended}")
        if ended is not None and ended.done():
            raise WaitedInVainError(f"{wait.text}: kube-scheduler has ended the call of bind")
        pod = self._cache.pod(wait.key)
        if pod is None or pod.uid != wait.uid:
            raise WaitedInVainError(f"{wait.text}: the pod is gone")
        if self._cache.nodes.get(wait.node) is None:
            raise WaitedInVainError(f"{wait.text}: node {wait.node} is gone")
