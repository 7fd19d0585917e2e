"""Repair: evicts pods that break rules where they are, while this replica leads.

It goes through the last survey, and asks again about each pod before it is evicted: the whole
JSON, the broken rules, and where the pod could go now. Evictions go through the Eviction API, so
disruption budgets hold. What may be done when is said by `engine.drift.repairs`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar

import msgspec

from engine.cache.cluster_copy import NamedPod
from engine.cache.cluster_file import ClusterFileError
from engine.cluster.client import CORE, path_of
from engine.cluster.events import PodEvent, Regarding
from engine.decision.moves import MovedPods, OtherNodes
from engine.drift.drift_document import DriftDocument, DriftedPod, RepairState
from engine.drift.repairs import NO_BUDGET, Move, Repairs
from engine.enforced import EnforcedPolicies
from engine.engine import Engine
from engine.errors import (
    ApiError,
    ApiUnreachableError,
    BadObjectError,
    DeadlineExceededError,
    EngineError,
    why,
)
from engine.objects.kept_pods import KEY, LOCAL_DATA, OFF, kept
from engine.program.program import Program
from engine.work import shared_pause
from grammar.messages.texts import cut
from grammar.tree.clause_parts import Repair
from server.capabilities.capability import LedCluster

T = TypeVar("T")
_LOOK_SECONDS = 1.0
# The rest after each step, and the most steps of one question.
_REST_SECONDS, _MOST_STEPS = 0.005, 200
_WORK = "evict pods"
# Of pods of the survey that need no repair any more.
_GONE, _MENDED = "it is gone", "it breaks nothing any more"
_OVER = frozenset({_GONE, _MENDED})
_NO_PLACE = "no other node would take them"
_LONGEST_REFUSAL = 300


class _SwitchMetadata(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _SwitchedObject(msgspec.Struct):
    metadata: _SwitchMetadata


@dataclass(slots=True)
class Repairer:
    """The repairer of drift looks once a second. `leads` is asked before each eviction."""

    cluster: LedCluster
    engine: Engine
    repairs: Repairs
    drift: Callable[[], DriftDocument]
    enforced: Callable[[], EnforcedPolicies]
    _has_led: bool = False

    async def follow(self) -> None:
        """Repairs until it is cancelled."""
        while True:
            await shared_pause(_LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Evicts what may be evicted now."""
        repairs, enforced = self.repairs, self.enforced()
        if not self.cluster.leads():
            self._has_led = False
            return
        if not self._has_led:
            self._has_led = True
            repairs.begin()
        repairs.adopt(enforced.registry.programs)
        repairs.tick()
        document = self.drift()
        if document.problem:
            return
        names = {id(program): name for name, program in enforced.programs.items()}
        for program in enforced.registry.programs:
            name, repair = names.get(id(program), ""), program.repair
            if repair is not None and not repairs.blocks(program, repair, self._switched_off(name)):
                await self._repair(name, program, repair, document)
                for each in repairs.states():
                    if each.policy == program.address and each.stopped:
                        self.cluster.tell(name, "Warning", "RepairStopped", "Repair", each.text)

    async def _repair(
        self, name: str, program: Program, repair: Repair, document: DriftDocument
    ) -> None:
        """Evicts pods that break a policy, as many as may be now."""
        repairs, reasons = self.repairs, Counter[str]()
        for drifted in document.pods:
            if not any(c.policy == program.address and c.is_alone for c in drifted.clauses):
                continue
            await asyncio.sleep(0)
            reason = self._kept(drifted, repair)
            reason = reason or repairs.keeps(drifted, program, self.cluster.cache.snapshot())
            try:
                reason = reason or await self._evict(name, program, repair, drifted)
            except (ApiError, ApiUnreachableError) as error:
                self.cluster.report(_WORK, why(_WORK, error))
                repairs.say(program.address, *_said(error))
                return
            except EngineError as error:
                reason = str(error)
            if reason:
                reasons[reason] += reason not in _OVER
            elif repairs.blocks(program, repair, self._switched_off(name)):
                return
        self.cluster.report(_WORK, "")
        repairs.say(program.address, *_most(reasons))

    def _kept(self, drifted: DriftedPod, repair: Repair) -> str:
        """Why a pod of the survey is left where it is, as far as its template tells."""
        if drifted.kept and not (drifted.kept == LOCAL_DATA and repair.local_data):
            return drifted.kept
        namespace = self.cluster.cache.namespace(drifted.pod.partition("/")[0])
        if namespace is not None and namespace.annotations.get(KEY) == OFF:
            return f"`{KEY}` of its namespace is `{OFF}`"
        return "" if drifted.places else _NO_PLACE

    async def _evict(self, name: str, program: Program, repair: Repair, drifted: DriftedPod) -> str:
        """Evicts a pod that still breaks a rule, and could go elsewhere; else says why not.

        Raises EngineError.
        """
        repairs = self.repairs
        body = await self.cluster.pod(drifted.pod)
        pod = self.cluster.cache.pod(drifted.pod)
        if body is None or pod is None or pod.uid != drifted.uid:
            return _GONE
        try:
            asked = self.engine.moves.read(NamedPod.of(body).body)
            exemptions = self.engine.exemptions
            reason = kept(pod, body, exemptions, evicts_local_data=repair.local_data)
        except (BadObjectError, ClusterFileError, msgspec.MsgspecError):
            return "it cannot be read"
        if reason or asked.uid != pod.uid:
            return reason or _GONE
        paper = self._paper()
        rules = await self._again(lambda: self.engine.moves.broken(asked, pod, paper))
        broken = [rule for rule in rules if rule.policy == program.address]
        if not broken:
            return _MENDED
        others = await self._again(lambda: self.engine.moves.others(asked, pod, paper))
        # Pods that have no node yet take places that nobody sees.
        if others.number <= sum(not self.cluster.has(move.pod) for move in repairs.moves):
            return _NO_PLACE
        if repairs.mode != "on":
            return "`--repair` is `dry-run`: nothing is evicted"
        # The world may have changed while this was worked out.
        reason = repairs.keeps(drifted, program, self.cluster.cache.snapshot())
        if reason or not self.cluster.leads():
            return reason or "another replica leads"
        move = repairs.evicting(pod, program, [rule.clause for rule in broken])
        return await self._send(name, move, others)

    async def _send(self, name: str, move: Move, others: OtherNodes) -> str:
        """Sends an eviction; says why it was refused, or nothing. Raises EngineError."""
        pod = move.pod
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        path = path_of(CORE, "pods", pod.namespace, pod.name, "eviction")
        try:
            await self.cluster.api.request("POST", path, body=msgspec.json.encode(body))
        except ApiError as error:
            reason = _refusal(error)
            self.repairs.withdraw(move, reason, wait=error.retry_after_seconds or 0.0)
            if error.status in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                return _GONE
            if not reason:
                raise
            return reason
        clauses = ", ".join(f"`{clause}`" for clause in move.clauses)
        note = f"breaks {clauses} of {move.policy} on {pod.nodeName}; {others.number} others fit"
        about = Regarding("v1", "Pod", pod.namespace, pod.name, pod.uid)
        self.cluster.events.add(PodEvent(about, "Normal", "Evicted", "Repair", note))
        text = f"evicts pods that break {clauses}"
        self.cluster.tell(name, "Normal", "Repair", "Repair", text)
        return ""

    # ---- what there is to know

    def _paper(self) -> MovedPods:
        """The pods that are evicted and still there, as if they were gone."""
        paper = MovedPods()
        for move in self.repairs.moves:
            if self.cluster.has(move.pod):
                paper.move(move.pod, "")
        return paper

    def _switched_off(self, name: str) -> str:
        """Who has switched off the repair of a policy object, by annotation; empty if nobody."""
        raw = self.cluster.objects().get(name)
        if raw is None or KEY.encode() not in raw:
            return ""
        found = msgspec.json.decode(raw, type=_SwitchedObject).metadata.annotations or {}
        return f"its annotation `{KEY}` is `{OFF}`" if found.get(KEY) == OFF else ""

    async def _again(self, question: Callable[[], T]) -> T:
        """The answer to a question that goes on where its last step ended. Raises EngineError."""
        for _ in range(_MOST_STEPS):
            try:
                return question()
            except DeadlineExceededError:
                await asyncio.sleep(_REST_SECONDS)
        raise DeadlineExceededError("its policies take too long")


def _refusal(error: ApiError) -> str:
    """Why the API server evicts no pod of a workload; empty if it is about more than that."""
    if error.status == HTTPStatus.TOO_MANY_REQUESTS:
        return NO_BUDGET
    # 500 is of a pod with two budgets, and 403 or 400 of a webhook.
    is_of_pod = error.status in (
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.FORBIDDEN,
        HTTPStatus.BAD_REQUEST,
    )
    if error.is_denied or not is_of_pod:
        return ""
    return f"the API server refuses it: {cut(error.message or error.reason, _LONGEST_REFUSAL)}"


def _said(error: ApiError | ApiUnreachableError) -> tuple[RepairState, str]:
    if isinstance(error, ApiError) and error.is_denied:
        return "may not evict", "Placet may not create `pods/eviction`: see the chart's `repair`"
    return "waiting", "the API server takes no evictions now"


def _most(reasons: Counter[str]) -> tuple[RepairState, str]:
    """The state, and why most of the pods are left where they are."""
    (reason, number), *_ = reasons.most_common(1) or [("", 0)]
    if not number:
        return "idle", ""
    if reason == _NO_PLACE:
        return "no place", reason
    return ("dry run", reason) if "dry-run" in reason else ("waiting", reason)
