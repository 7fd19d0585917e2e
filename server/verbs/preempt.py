"""Preempt: the nodes of a request where pods may be evicted, and their victims.

Requests have victims as whole pods or as UIDs, answers have UIDs (C36). A node that is left out of
the answer is vetoed (C37); a null would end kube-scheduler's process (C39).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from msgspec import Raw, Struct, field

from engine.decision.preemption import Victims
from engine.errors import HandoverError
from server.call import CallRecord
from server.errors import CallFailure, Outcome, RequestError
from server.verbs.answering import Answer, Decider, DecisionQueue
from server.wire import PREEMPT, ApiObject, check_pod, decode

# The pause between two tries while another replica hands over.
_HANDOVER_SECONDS = 0.1


@dataclass(eq=False, slots=True)
class PreemptVerb:
    """The verb preempt."""

    decider: Decider
    queue: DecisionQueue

    def decide(self, body: bytes, call: CallRecord) -> Answer:
        args = decode_preemption(body)
        call.pod = args.pod
        call.offered = len(args.victims)
        return self._kept(args, call)

    async def _kept(self, args: PreemptionArgs, call: CallRecord) -> bytes:
        """The answer, after a handover if one is under way.

        kube-scheduler retries a failed preemption only when something else happens, so an error
        would delay the pod for longer than waiting does.
        """
        while True:
            await self.queue.begin(call.deadline, call.client)
            try:
                kept = self.decider.preempt(args.pod, args.victims, call.deadline)
                call.returned = len(kept)
                call.victims = _number(args.victims), _number(kept)
                return encode_preemption(kept)
            except HandoverError:
                if time.monotonic() + _HANDOVER_SECONDS > call.deadline:
                    raise
            finally:
                self.queue.end()
            await asyncio.sleep(_HANDOVER_SECONDS)

    def refuse(self, failure: CallFailure) -> tuple[int, bytes]:
        # The answer has no field for an error, so the status has to say it (C37).
        statuses = {Outcome.INTERNAL: 500, Outcome.OVERLOADED: 503}
        return statuses.get(failure.outcome, 400), f"{failure.text}\n".encode()


@dataclass(frozen=True, slots=True)
class PreemptionArgs:
    """The arguments of preempt: a pod, and its victims on each node in the request's order."""

    pod: bytes
    victims: Mapping[str, Victims]


class _PodVictims(Struct, rename="pascal"):
    pods: list[ApiObject | None] | None = None
    violations: int | None = field(name="NumPDBViolations", default=None)


class _MetaPod(Struct):
    uid: str = field(name="UID", default="")


class _MetaVictims(Struct, rename="pascal"):
    pods: list[_MetaPod | None] | None = None
    violations: int | None = field(name="NumPDBViolations", default=None)


class _PreemptionArgs(Struct, rename="pascal"):
    pod: Raw = Raw()
    node_name_to_victims: dict[str, _PodVictims | None] | None = None
    node_name_to_meta_victims: dict[str, _MetaVictims | None] | None = None


_ARGS = msgspec.json.Decoder(_PreemptionArgs)
_ENCODER = msgspec.json.Encoder()


def decode_preemption(body: bytes) -> PreemptionArgs:
    """The arguments of a preempt request of either form; UIDs win where it has both.

    A null node or pod is left out: sent back, it would end kube-scheduler's process (C39).

    Raises RequestError.
    """
    args = decode(_ARGS, body, PREEMPT)
    pod = check_pod(args.pod)
    victims: Mapping[str, _MetaVictims | _PodVictims | None] | None
    victims = args.node_name_to_meta_victims
    if victims is None:
        victims = args.node_name_to_victims
    if victims is None:
        text = "the request has neither `NodeNameToMetaVictims` nor `NodeNameToVictims`"
        raise RequestError(text)
    return PreemptionArgs(pod, {node: _victims(found) for node, found in victims.items() if found})


def encode_preemption(victims: Mapping[str, Victims]) -> bytes:
    """The answer, in one form for both forms of requests (C36)."""
    nodes = {
        node: _MetaVictims([_MetaPod(uid) for uid in found.uids], found.pdb_violations)
        for node, found in victims.items()
    }
    return _ENCODER.encode({"NodeNameToMetaVictims": nodes})


def _number(victims: Mapping[str, Victims]) -> int:
    return sum(len(found.uids) for found in victims.values())


def _victims(found: _MetaVictims | _PodVictims) -> Victims:
    pods = (pod for pod in found.pods or () if pod)
    uids = [pod.uid if isinstance(pod, _MetaPod) else pod.metadata.uid for pod in pods]
    if not all(uids):
        # For a UID that it does not know, kube-scheduler fails the whole call (C38).
        raise RequestError("the request has a victim without a UID")
    return Victims(uids, found.violations or 0)
