"""Bind: creates the Binding of a pod on the node that kube-scheduler has chosen (C43-C46).

A server binds only if it is told to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import msgspec
from msgspec import Struct, field

from engine.cluster.binding import BindClient, Binding
from grammar.values.object_names import is_label, is_subdomain
from server.call import CallRecord
from server.errors import CallFailure, Outcome, RequestError
from server.verbs.filter import spelled
from server.wire import BIND, decode


class PodBinder(Protocol):
    """A binder of pods: a client of the API server."""

    async def bind(self, binding: Binding, deadline: float, client: BindClient) -> None:
        """Returns when the pod is on the node. Raises EngineError where it is not."""
        ...


# kube-scheduler puts the text of a refusal into the pod's event, but of another status only the
# number.
_NOT_OFFERED = (
    "this server binds no pods: start `placet serve` with --bind, or remove `bindVerb` from"
    " kube-scheduler's configuration"
)


@dataclass(eq=False, slots=True)
class BindVerb:
    """The verb bind. Every refusal is a text in `Error`: without one, the pod is bound (C44).

    Without a binder it refuses every call.
    """

    binder: PodBinder | None

    async def decide(self, body: bytes, call: CallRecord) -> bytes:
        if self.binder is None:
            raise RequestError(_NOT_OFFERED, Outcome.UNSUPPORTED)
        binding = call.binds = decode_binding(body)
        await self.binder.bind(binding, call.deadline, BindClient(call.ended, call.held_aside))
        return encode_binding("")

    def refuse(self, failure: CallFailure) -> tuple[int, bytes]:
        return 200, encode_binding(failure.text)


class _Binding(Struct, rename="pascal"):
    pod_name: str = ""
    pod_namespace: str = ""
    pod_uid: str = field(name="PodUID", default="")
    node: str = ""


_BINDING = msgspec.json.Decoder(_Binding)


def decode_binding(body: bytes) -> Binding:
    """The binding of a request. Raises RequestError where a name cannot be that of an object."""
    asked = decode(_BINDING, body, BIND)
    if not (asked.pod_name and asked.pod_namespace and asked.pod_uid and asked.node):
        raise RequestError("the request does not name a pod and a node")
    for kind, name, is_name in (
        ("namespace", asked.pod_namespace, is_label),
        ("pod", asked.pod_name, is_subdomain),
        ("node", asked.node, is_subdomain),
    ):
        if not is_name(name):
            raise RequestError(f"`{name}` is not the name of a {kind}")
    return Binding(asked.pod_namespace, asked.pod_name, asked.pod_uid, asked.node)


def encode_binding(error: str) -> bytes:
    """The answer of bind; an empty error says that the pod is bound (C44)."""
    return msgspec.json.encode({"Error": spelled(error)})
