"""One coroutine per verb: the body is read, decoded, decided about, and encoded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from logging import Logger
from typing import Protocol

import numpy as np
from aiohttp import web

from engine.cache.names import ListedNames
from engine.cluster.binding import Binding
from engine.decision.preemption import Victims
from engine.decision.verdict import Decision, Scores
from engine.errors import HandoverError
from server import wire
from server.call import CallRecord, is_encoded, read_body
from server.errors import CallFailure, Outcome, UnsupportedError, failure_of
from server.settings import Settings
from server.verbs import victims
from server.verbs.answering import DecisionQueue, MisconfigurationWarnings
from server.verbs.names_mode import NameFragments, NamesMode, echoed
from server.wire import partition

# Between two looks whether another replica has handed over.
_HANDOVER_LOOK_SECONDS = 0.1


class Decider(Protocol):
    """Who decides. All methods raise EngineError where there is no decision.

    `pod` and `nodes` are JSON as it came, `deadline` is in seconds of `time.monotonic`.
    """

    def filter(
        self,
        pod: bytes,
        names: Sequence[str],
        nodes: Sequence[bytes] | None,
        deadline: float,
    ) -> Decision:
        """A verdict per name, in their order."""

    def prioritize(
        self,
        pod: bytes,
        names: Sequence[str],
        nodes: Sequence[bytes] | None,
        deadline: float,
    ) -> Scores | None:
        """A score 0..10 per name, in their order; None where no score applies."""

    def preempt(
        self, pod: bytes, victims: Mapping[str, Victims], deadline: float
    ) -> Mapping[str, Victims]:
        """Those of the nodes where pods may be evicted, with their victims."""


class Binder(Protocol):
    """Who binds pods."""

    async def bind(self, binding: Binding, deadline: float) -> None:
        """Returns when the pod is on the node. Raises EngineError where it is not."""


class Handlers:
    """The verbs as HTTP calls. Each takes a call and fills in what is to be said about it."""

    def __init__(
        self,
        decider: Decider,
        binder: Binder | None,
        settings: Settings,
        warnings: MisconfigurationWarnings,
        queue: DecisionQueue,
        log: Logger,
    ) -> None:
        self._decider = decider
        self._binder = binder
        self._settings = settings
        self._warnings = warnings
        self._queue = queue
        self._log = log
        self._fragments = NameFragments()
        self._names_mode = NamesMode()

    async def filter(self, request: web.Request, call: CallRecord) -> web.Response:
        return await self._answer(request, call, self._filter, _refuse_filter)

    async def prioritize(self, request: web.Request, call: CallRecord) -> web.Response:
        return await self._answer(request, call, self._prioritize, _refuse_prioritize)

    async def preempt(self, request: web.Request, call: CallRecord) -> web.Response:
        return await self._answer(request, call, self._preempt, _refuse_preempt)

    async def bind(self, request: web.Request, call: CallRecord) -> web.Response:
        return await self._answer(request, call, self._bind, _refuse_bind)

    async def _answer(
        self,
        request: web.Request,
        call: CallRecord,
        decide: Callable[[bytes, CallRecord], bytes | Awaitable[bytes]],
        refuse: Callable[[CallFailure], web.Response],
    ) -> web.Response:
        try:
            if is_encoded(request):
                call.outcome = Outcome.ENCODED_BODY
                return web.Response(status=415, text="the body must not be compressed\n")
            self._queue.enter()
            try:
                call.arrived = min(call.arrived, self._queue.arrival())
                settings = self._settings
                body = await read_body(request, settings.body_limit, settings.body_seconds)
                call.received = len(body)
                await self._queue.begin(self._deadline(call))
                try:
                    answer = decide(body, call)
                finally:
                    self._queue.end()
                return _json(answer if isinstance(answer, bytes) else await answer)
            finally:
                self._queue.leave()
        except Exception as error:  # noqa: BLE001  # whatever it is, kube-scheduler gets its answer
            failure = failure_of(error)
            call.outcome, call.error = failure.outcome, failure.text
            if failure.outcome is Outcome.INTERNAL:
                self._log.error("unexpected error in %s", call.verb, exc_info=error)
            return refuse(failure)

    def _filter(self, body: bytes, call: CallRecord) -> bytes:
        args = self._read(body, call)
        self._names_mode.answered = None
        decided = self._decider.filter(args.pod, args.names, args.nodes, self._deadline(call))
        call.returned = len(decided.codes) - int(np.count_nonzero(decided.codes))
        if call.returned == call.offered and type(args.names) is ListedNames:
            self._names_mode.answered = args.names
            return echoed(args.names)
        resolvable = self._settings.resolvable_rejections
        if decided.where is not None:
            answer, self._names_mode.answered = self._fragments.filter(
                decided, decided.where, resolvable_rejections=resolvable
            )
            return answer
        parts = partition(args.names, decided, resolvable_rejections=resolvable)
        call.returned = len(parts.accepted)
        return wire.encode_filter(args, parts)

    def _prioritize(self, body: bytes, call: CallRecord) -> bytes:
        args = self._read(body, call)
        scores = self._decider.prioritize(args.pod, args.names, args.nodes, self._deadline(call))
        if scores is None:
            return wire.NO_SCORES
        call.returned = len(scores)
        if scores.where is not None:
            answer = self._fragments.priorities(scores, scores.where)
            if answer is not None:
                return answer
        by_name = dict(zip(args.names, scores, strict=True))
        call.returned = len(by_name)
        return wire.encode_priorities(list(by_name), list(by_name.values()))

    async def _preempt(self, body: bytes, call: CallRecord) -> bytes:
        args = victims.decode_preemption(body)
        call.pod = args.pod
        call.offered = len(args.victims)
        kept = await self._preempted(args, self._deadline(call))
        call.returned = len(kept)
        return victims.encode_preemption(kept)

    async def _preempted(
        self, args: victims.PreemptionArgs, deadline: float
    ) -> Mapping[str, Victims]:
        """Waits while another replica hands over.

        A pod for which preemption has failed is not tried again before something else happens: an
        error would not have it come back soon, as one of filter does.
        """
        while True:
            await self._queue.begin(deadline)
            try:
                return self._decider.preempt(args.pod, args.victims, deadline)
            except HandoverError:
                if time.monotonic() + _HANDOVER_LOOK_SECONDS > deadline:
                    raise
            finally:
                self._queue.end()
            await asyncio.sleep(_HANDOVER_LOOK_SECONDS)

    async def _bind(self, body: bytes, call: CallRecord) -> bytes:
        binding = wire.decode_binding(body)
        call.binds = f"{binding.namespace}/{binding.name}", binding.node
        if self._binder is None:
            raise UnsupportedError(
                "this server watches no cluster and binds no pods: remove bindVerb from the"
                " extender's configuration"
            )
        await self._binder.bind(binding, self._deadline(call))
        return wire.encode_binding("")

    def _read(self, body: bytes, call: CallRecord) -> wire.ExtenderArgs:
        args = self._names_mode.read(body) or wire.decode_args(body)
        call.pod = args.pod
        call.offered = len(args.names)
        call.full_nodes = args.nodes is not None
        self._warnings.look(call)
        return args

    def _deadline(self, call: CallRecord) -> float:
        return call.arrived + self._settings.decision_seconds


def _refuse_filter(failure: CallFailure) -> web.Response:
    return _json(wire.encode_filter_error(failure.text))


def _refuse_prioritize(_problem: CallFailure) -> web.Response:
    # Nobody looks at an error here (C28): without an opinion the others' scores stand.
    return _json(wire.NO_SCORES)


def _refuse_preempt(failure: CallFailure) -> web.Response:
    # There is no field for an error, so the status has to say it (C37).
    statuses = {Outcome.INTERNAL: 500, Outcome.OVERLOADED: 503}
    status = statuses.get(failure.outcome, 400)
    return web.Response(status=status, text=f"{failure.text}\n")


def _refuse_bind(failure: CallFailure) -> web.Response:
    return _json(wire.encode_binding(failure.text))


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")
