"""Binder: creates one Binding for each pod, however often kube-scheduler asks (C43-C46).

A pod is bound only to a node that filter offered it last. If that is not known, as after a restart,
filter is asked anew, and the node must have room.

requested --admitted--> assumed on the node --created----> bound, whatever watches show yet
                          |                 |--unknown---> assumed until a GET tells
                          |                 +--refused---> not counted any more
                          +--held-----> as admitted, or not counted any more

ConditionWaits are the bindings that wait until the condition of a `bind` clause is true.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec

from engine.cache.cache import Cache
from engine.cache.node_table import without
from engine.cache.reflector import Report, unreported
from engine.cluster.client import CORE, Api, path_of, read_if_there
from engine.cluster.held_pods import HeldPods
from engine.counting.in_flight_pods import Schedulers
from engine.decision.part import DecisionPart
from engine.decision.recent_answers import GivenAnswer, LastAnswers
from engine.decision.registry import Registry
from engine.decision.verdict import Feasible, Rejected, full_reason
from engine.engine import Admission, Engine
from engine.errors import (
    ApiError,
    ApiUnreachableError,
    BadObjectError,
    DeadlineExceededError,
    EngineError,
    NotSentError,
    RefusedError,
    WaitedInVainError,
    WaitingError,
    own_text,
    why,
)
from engine.fairness import FairShares
from engine.objects.peer import DEFAULT_SCHEDULER, Peer, key_of
from engine.work import shared_pause

# ReplicaSets delete pods with a low cost first. The API server copies it from the Binding.
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
# The longest time that a pod counts on a node without a watch that shows it there.
HOLD_SECONDS = 900.0
_NOT_FOUND, _CONFLICT, _TOO_MANY = 404, 409, 429
_PAUSE_SECONDS = 0.1
# The pause between two GETs of a pod whose Binding has an unknown outcome, and of one that no watch
# has shown since it was bound.
_CHECK_SECONDS, _UNSEEN_SECONDS = 1.0, 10.0
_WORK = "bind pods"


@dataclass(eq=False, slots=True)
class BindClient:
    """Who waits for a Binding. `ended` is done when it waits no longer.

    `waiting` is a context for the time in which its call is held: it counts as none then. `clients`
    wait for the same Binding: itself first, and a kube-scheduler that follows one that is frozen.
    """

    ended: asyncio.Future[None] | None = None
    waiting: Callable[[], AbstractContextManager[object]] = nullcontext
    clients: list[BindClient] = field(default_factory=list)

    async def gone(self) -> None:
        """Returns when nobody waits any more."""
        ever: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        while left := [end for each in self.clients if not (end := each.ended or ever).done()]:
            await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)


@dataclass(frozen=True, slots=True)
class Binding:
    """Binding of a pod, by name and uid, to the node that kube-scheduler wants (C43)."""

    namespace: str
    name: str
    uid: str
    node: str

    @property
    def path(self) -> str:
        return path_of(CORE, "pods", self.namespace, self.name)


@dataclass(eq=False, slots=True)
class Binder:
    """Creates Bindings. On one event loop. The owner awaits `idle` before it stops.

    `answers` are the engine's. A pod that they do not know is bound if it is of one of the
    `schedulers`. `leads_until` is the time, in seconds of the clock, from which on another replica
    may be the leader.
    """

    _api: Api
    _cache: Cache
    _engine: Engine
    _answers: LastAnswers
    _schedulers: Schedulers
    leads_until: Callable[[], float] = lambda: math.inf
    clock: Callable[[], float] = time.monotonic
    report: Report = unreported
    waits: ConditionWaits = field(init=False)
    held: HeldPods = field(init=False)
    _running: dict[str, tuple[Binding, BindClient, asyncio.Task[None]]] = field(
        default_factory=dict
    )
    _checks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.waits = ConditionWaits(self._cache, self._engine.looks.waits_for, self._engine.held)
        self.held = HeldPods(self._api, self._cache, self.clock)

    async def bind(self, binding: Binding, deadline: float, client: BindClient) -> None:
        """Return when the pod is bound to the node. `deadline` is in seconds of the clock.

        Time in which the call is held does not count. Calls about one pod share one Binding. Raises
        EngineError if the pod is not bound or if that is unknown.
        """
        self._cache.expire(self.clock())
        if binding.uid not in self._running:
            task = asyncio.create_task(self._bind(binding, deadline, client))
            self._running[binding.uid] = binding, client, task
            task.add_done_callback(lambda _: self._running.pop(binding.uid, None))
        known, first, task = self._running[binding.uid]
        if known != binding:
            raise RefusedError(f"the pod is being bound to `{known.node}`")
        first.clients.append(client)
        # A cancelled call does not stop the work, because the Binding may have been sent.
        if client is first:
            await asyncio.shield(task)
            return
        for part in self._engine.parts:
            part.joined(binding.uid)
        ends = {task} if client.ended is None else {task, client.ended}
        with client.waiting():
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            first.clients.remove(client)
            raise WaitedInVainError(own_text("kube-scheduler has ended a call of bind"))
        task.result()

    async def follow(self) -> None:
        """Forget bound pods that are gone and that no watch has shown, until cancelled.

        A watch that missed both the pod and its deletion never tells of either.
        """
        while True:
            await shared_pause(_UNSEEN_SECONDS)
            for pod in self._cache.unseen(self.clock() + HOLD_SECONDS - _UNSEEN_SECONDS):
                binding = Binding(pod.namespace, pod.name, pod.uid, pod.nodeName)
                if pod.uid not in self._running:
                    with suppress(ApiError, ApiUnreachableError):
                        await self._look(binding, _UNSEEN_SECONDS)

    async def _look(self, binding: Binding, seconds: float) -> Peer | None:
        """The pod as it is; None if it is gone, and then it is forgotten.

        Raises ApiError and ApiUnreachableError.
        """
        with suppress(RefusedError):
            pod = self._decoded(await self._fetch(binding, seconds))
            if pod.uid == binding.uid:
                return pod
        # Meanwhile, another one may have been bound under its name.
        known = self._cache.pod(key := f"{binding.namespace}/{binding.name}")
        if known is not None and known.uid == binding.uid:
            self._cache.forget(key)
        return None

    async def idle(self) -> None:
        """Return when no pod is being bound. What waits is given up."""
        self.end_waits()
        while self._running:
            await asyncio.wait([task for _, _, task in self._running.values()])
        for task in self._checks:
            task.cancel()

    def review(self) -> None:
        """Looks at what waits, about once a second."""
        for part in self._engine.parts:
            part.review()
        self.waits.review(self._engine.registry)

    def end_waits(self) -> None:
        """Gives up the bindings that wait for a condition, or for a part of decisions."""
        why = "this replica ends"
        for part in self._engine.parts:
            part.end(why)
        self.waits.end(why)

    async def _bind(self, binding: Binding, deadline: float, client: BindClient) -> None:
        known = self._cache.pod(f"{binding.namespace}/{binding.name}")
        if known is not None:
            assumed = any(each.uid == known.uid for each in self._cache.assumed())
            if _is_bound(binding, known, placed=not assumed):
                return
        answer = self._answer(binding)
        if answer is None:
            body = await self._fetch(binding, deadline - self.clock())
            pod = self._decoded(body)
            if _is_bound(binding, pod):
                return
            # Filter may have been asked meanwhile.
            answer = self._answer(binding)
        # There is no await from here until the pod counts on the node.
        held = self._held(binding)
        if answer is not None and not answer.offers(binding.node):
            raise RefusedError(f"filter has not offered node `{binding.node}` to the pod")
        if self._cache.nodes.get(binding.node) is None:
            raise RefusedError(f"node `{binding.node}` does not exist, or is not known yet")
        if answer is not None:
            body = answer.body
        else:
            self._check_scheduler(pod)
            self._check_room(pod, binding.node)
            (verdict,) = self._engine.filter(body, [binding.node], None, deadline)
            if not isinstance(verdict, Feasible):
                raise RefusedError(verdict.reason, of_clause=True)
        try:
            admission = self._engine.admit(body, binding.node, deadline)
        except EngineError:
            # kube-scheduler gives the pod up, and a watch shows that late.
            self._engine.in_flight.refuse(binding.uid)
            raise
        if held:
            admission = replace(admission, annotations=held)
        await self._send(binding, body, admission, deadline, client)

    async def _send(
        self,
        binding: Binding,
        body: bytes,
        admission: Admission,
        deadline: float,
        client: BindClient,
    ) -> None:
        """Counts an admitted pod on its node, and creates its Binding when that need not wait."""
        key = key_of(admission.pod)
        # While a pod waits, its time is that of what it waits for.
        waits = admission.waits or admission.until
        ends = math.inf if waits else self.clock() + HOLD_SECONDS
        earlier = self._cache.assumptions.get(key)
        self._cache.assume(admission.pod, binding.node, ends, admission.annotations)
        try:
            deadline += await self._held_back(binding, body, admission, client)
            if admission.is_counted:
                # After that time another replica may be the leader, and decide by other counts. A
                # later time may be that of another term.
                deadline = min(deadline, self.leads_until())
            await self._create(binding, admission, deadline)
        except EngineError as error:
            is_sent = isinstance(error, ApiUnreachableError) and not isinstance(error, NotSentError)
            if not (is_sent or (earlier and earlier.uid == binding.uid)):
                self._cache.forget(key)
                raise
            # The end of this call says nothing of an earlier one, whose Binding may be there.
            check = asyncio.create_task(self._check(binding, key))
            self._checks.add(check)
            check.add_done_callback(self._checks.discard)
            if not is_sent:
                raise
            text = f"it is not known yet whether the pod was bound: {error}"
            raise ApiUnreachableError(text) from error
        self._cache.confirm(key, binding.uid)

    async def _held_back(
        self, binding: Binding, body: bytes, admission: Admission, client: BindClient
    ) -> float:
        """Waits for conditions, and for parts of decisions. Returns the seconds that took.

        Raises WaitedInVainError where that is in vain.
        """
        began, node = self.clock(), binding.node
        if not (admission.until or admission.waits):
            return 0.0
        why_held = partial(self._why_held, binding.uid, body, admission.waits)
        with client.waiting(), self.held.holding(admission.pod, node, why_held):
            gone = asyncio.ensure_future(client.gone())
            try:
                if admission.until:
                    await self.waits.until(admission.pod, node, body, admission.until, gone)
                for part in admission.waits:
                    await self._held_for(part, binding.uid, gone)
            finally:
                gone.cancel()
        return self.clock() - began

    def _why_held(self, uid: str, body: bytes, parts: Sequence[DecisionPart]) -> str:
        """What a held pod waits for: conditions first, and then parts of decisions."""
        if texts := [text for waiting, _, text in self.waits.statuses() if waiting == uid]:
            return texts[0]
        with suppress(EngineError):
            call, _ = self._engine.opened(body)
            for said in filter(None, (part.says(call) for part in parts)):
                return full_reason(said.policy, said.clause, said.reason)
        return "what its policies wait for"

    async def _held_for(self, part: DecisionPart, uid: str, gone: asyncio.Future[None]) -> None:
        """Waits until a part lets a binding go. Raises WaitedInVainError if it does not."""
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def end(reason: str) -> None:
            if not ended.done():
                ended.set_result(reason)

        seconds = part.hold(uid, end)
        await asyncio.wait((ended, gone), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            part.give_up(uid, is_late=not gone.done())
        assert ended.done(), "who ends a wait tells all who wait"
        if reason := ended.result():
            self._engine.in_flight.refuse(uid)
            raise WaitedInVainError(reason)

    # ---- a pod whose last answer is not known

    def _answer(self, binding: Binding) -> GivenAnswer | None:
        """The last answer of filter about the pod; None if another replica may have answered since.

        One that offers the node may be the last: strict counts and parts have the next word.
        """
        answer = self._answers.find(binding.uid)
        if answer is None or answer.offers(binding.node):
            return answer
        return answer if self.clock() < self.leads_until() else None

    def _check_scheduler(self, pod: Peer) -> None:
        """Raises RefusedError for a pod of a scheduler that does not call Placet."""
        if not self._schedulers.have(pod):
            name = pod.schedulerName or DEFAULT_SCHEDULER
            ours = " and ".join(f"`{each}`" for each in sorted(self._schedulers.names))
            raise RefusedError(
                f"the pod is for scheduler `{name}`, and Placet binds pods of {ours}: see"
                " --scheduler-name"
            )

    def _check_room(self, pod: Peer, node: str) -> None:
        """Raises RefusedError where the node has too little left for the pod's requests."""
        view = self._cache.snapshot().node(node)
        assert view is not None, "the node is known"
        # After a lost answer, the pod itself may count there.
        free = without(view, [pod]).free
        assert free is not None, "the pods of a node are known with it"
        for resource in ("pods", *pod.requests):
            needed = pod.requests[resource].nanos
            if 0 < needed > free[resource].nanos:
                raise RefusedError(f"node `{node}` has not enough `{resource}` left for the pod")

    # ---- the Binding

    async def _create(self, binding: Binding, admission: Admission, deadline: float) -> None:
        """Create the Binding, again after errors that may pass, until the deadline."""
        body = msgspec.json.encode(_object(binding, admission))
        # The error that is raised at the deadline: `unknown` if the Binding may have been created.
        unknown: ApiUnreachableError | None = None
        never: EngineError = DeadlineExceededError("the request's time is over")

        def seconds() -> float:
            """The time in which a Binding may be sent; the Lease may be lost at any moment."""
            ends = self.leads_until() if admission.is_counted else math.inf
            return min(deadline, ends) - self.clock()

        while (left := seconds()) > 0:
            try:
                await self._api.request(
                    "POST", f"{binding.path}/binding", body=body, timeout_seconds=left
                )
            except NotSentError as error:
                never = error
                self.report(_WORK, why(_WORK, error))
            except ApiUnreachableError as error:
                unknown = error
                self.report(_WORK, why(_WORK, error))
            except ApiError as error:
                if error.status == _CONFLICT:
                    # The pod has a node already, perhaps from an earlier attempt of this call.
                    left = max(_PAUSE_SECONDS, deadline - self.clock())
                    pod = self._decoded(await self._fetch(binding, left))
                    if _is_bound(binding, pod):
                        self._learn(binding, pod)
                        return
                    raise
                if error.status == _NOT_FOUND:
                    raise RefusedError("the pod is gone") from error
                if error.is_denied:
                    text = why(_WORK, error)
                    self.report(_WORK, text)
                    raise RefusedError(text) from error
                if not error.is_transient:
                    raise
                if error.status != _TOO_MANY:
                    # The server may have failed after its work was done.
                    unknown = unknown or ApiUnreachableError(str(error))
                never = error
                await asyncio.sleep(min(error.retry_after_seconds or 0.0, max(0.0, seconds())))
            else:
                self.report(_WORK, "")
                return
            await asyncio.sleep(_PAUSE_SECONDS)
        raise unknown or never

    async def _check(self, binding: Binding, key: str) -> None:
        """Count the pod on its node until a GET shows that it is not there."""
        until = self.clock() + HOLD_SECONDS
        while self.clock() < until:
            await asyncio.sleep(_CHECK_SECONDS)
            with suppress(ApiError, ApiUnreachableError):
                pod = await self._look(binding, _CHECK_SECONDS)
                if pod is not None and pod.nodeName == binding.node:
                    self._learn(binding, pod)
                    self._cache.confirm(key, binding.uid)
                elif pod is not None and not pod.nodeName and binding.uid not in self._running:
                    self._cache.forget(key)
                return

    def _held(self, binding: Binding) -> Mapping[str, str]:
        """The annotations of an earlier Binding to the node, which may have been created.

        They say what the pod was given. Raises WaitingError where it was to another node: the pod
        may have that there, so it gets nothing here. A GET tells soon.
        """
        held = self._cache.assumption(f"{binding.namespace}/{binding.name}", binding.uid)
        if held is None or not held[1]:
            return {}
        node, annotations = held
        if node != binding.node:
            text = f"it is not known yet whether the pod was bound to `{node}`"
            raise WaitingError(text)
        return annotations

    def _learn(self, binding: Binding, pod: Peer) -> None:
        """Takes what a pod that is bound was given: the first of its Bindings says it."""
        held = self._cache.assumption(key_of(pod), binding.uid)
        if held is not None and held[1]:
            until = self.clock() + HOLD_SECONDS
            self._cache.assume(pod, binding.node, until, pod.annotations)

    async def _fetch(self, binding: Binding, seconds: float) -> bytes:
        if (body := await read_if_there(self._api, binding.path, seconds)) is None:
            raise RefusedError("the pod is gone")
        return body

    def _decoded(self, body: bytes) -> Peer:
        try:
            return self._engine.codec.peer(body)
        except BadObjectError as error:
            raise ApiUnreachableError(f"the API server's answer is not a pod: {error}") from error


def _is_bound(binding: Binding, pod: Peer, *, placed: bool = True) -> bool:
    """Whether the pod is on the node of the binding. Raises RefusedError if it cannot go there.

    Without `placed` the pod's node does not count.
    """
    if pod.uid != binding.uid:
        raise RefusedError("the pod is gone, and another one has its name")
    if placed and pod.nodeName:
        if pod.nodeName == binding.node:
            return True
        raise RefusedError(f"the pod is already on node `{pod.nodeName}`")
    if pod.deletionTimestamp is not None:
        raise RefusedError("the pod is being deleted")
    return False


def _object(binding: Binding, admission: Admission) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": binding.name,
        "namespace": binding.namespace,
        "uid": binding.uid,
    }
    annotations = dict(admission.annotations)
    if admission.deletion_cost is not None:
        annotations[DELETION_COST] = str(admission.deletion_cost)
    if annotations:
        metadata["annotations"] = annotations
    target = {"apiVersion": "v1", "kind": "Node", "name": binding.node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


# ---- bindings that wait for a condition

# The clause that the binding of a pod (its JSON) to a node waits for. Raises EngineError.
WaitsFor = Callable[[bytes, str], Rejected | None]


@dataclass(eq=False, slots=True)
class _Wait:
    """One binding that waits. `changed` is set when its condition is to be looked at."""

    pod: Peer
    node: str
    changed: asyncio.Event
    text: str = ""


class ConditionWaits:
    """The bindings that wait, on one event loop."""

    def __init__(self, cache: Cache, waits_for: WaitsFor, held: FairShares) -> None:
        self._cache = cache
        self._waits_for = waits_for
        self._held = held
        self._waits: set[_Wait] = set()
        self._why_ended = ""
        self._policies: Registry | None = None
        cache.add_body_handler(lambda uid: self._look_again(lambda wait: wait.pod.uid == uid))
        cache.add_event_handler(self._pod_changed)
        cache.add_node_handler(lambda name: self._look_again(lambda wait: wait.node == name))

    async def until(
        self, pod: Peer, node: str, body: bytes, seconds: float, gone: asyncio.Future[None]
    ) -> None:
        """Returns when nothing is waited for any more.

        `body` is the pod as filter has seen it. Raises WaitedInVainError after so many seconds,
        when the clients have `gone`, or if too many wait; other EngineErrors where there is no
        decision.
        """
        wait = _Wait(pod, node, asyncio.Event(), self._text(body, node))
        if wait.text and not self._held.has_room(pod.namespace):
            raise WaitedInVainError(f"{wait.text}: too many binds are held")
        gone.add_done_callback(lambda _: wait.changed.set())
        self._waits.add(wait)
        self._held.add(pod.namespace, 1)
        try:
            async with asyncio.timeout(seconds):
                while wait.text:
                    await wait.changed.wait()
                    wait.changed.clear()
                    if why := self._in_vain(wait, gone):
                        raise WaitedInVainError(f"{wait.text}: {why}")
                    wait.text = self._text(self._cache.body(pod.uid) or body, node)
        except TimeoutError:
            raise WaitedInVainError(f"{wait.text}: not true after {seconds:g} s") from None
        finally:
            self._held.add(pod.namespace, -1)
            self._waits.discard(wait)

    def statuses(self) -> Iterable[tuple[str, str, str]]:
        """The uid, the node and the text of each binding that waits."""
        return [(wait.pod.uid, wait.node, wait.text) for wait in self._waits]

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

    def _in_vain(self, wait: _Wait, gone: asyncio.Future[None]) -> str:
        """Why a binding waits in vain; empty if it does not."""
        if self._why_ended or gone.done():
            return self._why_ended or "kube-scheduler has ended the call of bind"
        pod = self._cache.pod(key_of(wait.pod))
        if pod is None or pod.uid != wait.pod.uid:
            return "the pod is gone"
        return f"node {wait.node} is gone" if self._cache.nodes.get(wait.node) is None else ""
