"""The wire format of preempt: victims with whole pods or without in, victims without pods out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from msgspec import Raw, Struct, field

from engine.decision.preemption import Victims
from server.errors import RequestError
from server.wire import PREEMPT, ApiObject, check_pod, decode


@dataclass(frozen=True, slots=True)
class PreemptionArgs:
    """A pod, and what would be evicted for it on each node, in the order of the request."""

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


class _Args(Struct, rename="pascal"):
    pod: Raw = Raw()
    node_name_to_victims: dict[str, _PodVictims | None] | None = None
    node_name_to_meta_victims: dict[str, _MetaVictims | None] | None = None


_ARGS = msgspec.json.Decoder(_Args)
_ENCODER = msgspec.json.Encoder()


def decode_preemption(body: bytes) -> PreemptionArgs:
    """A preempt request of either kind; victims without pods decide where it has both.

    A null among nodes or pods is left out: sent back it would end kube-scheduler's process (C39).

    Raises RequestError.
    """
    args = decode(_ARGS, body, PREEMPT)
    pod = check_pod(args.pod)
    if args.node_name_to_meta_victims is not None:
        found = {
            node: _victims([pod.uid for pod in victims.pods or () if pod], victims.violations)
            for node, victims in args.node_name_to_meta_victims.items()
            if victims
        }
    elif args.node_name_to_victims is not None:
        found = {
            node: _victims(
                [pod.metadata.uid for pod in victims.pods or () if pod], victims.violations
            )
            for node, victims in args.node_name_to_victims.items()
            if victims
        }
    else:
        text = "the request has neither `NodeNameToMetaVictims` nor `NodeNameToVictims`"
        raise RequestError(text)
    return PreemptionArgs(pod, found)


def encode_preemption(victims: Mapping[str, Victims]) -> bytes:
    """The answer, which has the same form in both modes (C36); a node left out is a veto (C37)."""
    nodes = {
        node: _MetaVictims([_MetaPod(uid) for uid in found.uids], found.pdb_violations)
        for node, found in victims.items()
    }
    return _ENCODER.encode({"NodeNameToMetaVictims": nodes})


def _victims(uids: list[str], violations: int | None) -> Victims:
    if not all(uids):
        # kube-scheduler fails the whole call over a UID that it does not know (C38).
        raise RequestError("the request has a victim without a UID")
    return Victims(uids, violations or 0)
