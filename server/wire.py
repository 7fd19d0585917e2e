"""Wire formats: the requests and answers of the extender protocol, version 1, as JSON bytes.

Objects that are only passed on stay bytes. Requests are read with keys in any case; answers have
all keys, in the spelling of kube-scheduler (C5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from server.errors import RequestError

# ---- the spelling of keys
#
# kube-scheduler sends Go's field names (`NodeNames`), older clients `nodenames` or `nodeNames`, and
# Go accepts them all. Only the keys of the protocol itself vary: in Pods and Nodes, case matters.

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_ARRAY = msgspec.json.Decoder(list[Raw])


# An object has these keys in canonical spelling, and its values these shapes. A list has the shape
# of each value of a list, or of an object whose keys are data. None is not respelled.
Shape = Mapping[str, "Shape"] | list["Shape"] | None

FILTER: Shape = {"Pod": None, "Nodes": {"items": None}, "NodeNames": None}
_VICTIMS: Shape = {"Pods": None, "NumPDBViolations": None}
_META_VICTIMS: Shape = {"Pods": [{"UID": None}], "NumPDBViolations": None}
PREEMPT: Shape = {
    "Pod": None,
    "NodeNameToVictims": [_VICTIMS],
    "NodeNameToMetaVictims": [_META_VICTIMS],
}
BIND: Shape = {"PodName": None, "PodNamespace": None, "PodUID": None, "Node": None}


def respell(value: bytes, shape: Shape) -> bytes:
    """The same JSON with canonical keys where `shape` names them; values keep their bytes.

    A value of another shape is returned unchanged; the typed decoder rejects it. Raises msgspec's
    DecodeError if the text is not JSON.
    """
    first = value.lstrip()[:1]
    match shape:
        case dict() if first == b"{":
            return msgspec.json.encode(_respelled(_OBJECT.decode(value), shape))
        case [inner] if first == b"{":
            members = _OBJECT.decode(value).items()
            respelled = {key: Raw(respell(bytes(member), inner)) for key, member in members}
            return msgspec.json.encode(respelled)
        case [inner] if first == b"[":
            items = _ARRAY.decode(value)
            return msgspec.json.encode([Raw(respell(bytes(item), inner)) for item in items])
        case _:
            return value


def _respelled(members: Mapping[str, Raw], shapes: Mapping[str, Shape]) -> dict[str, Raw]:
    canonical = {key.lower(): key for key in shapes}
    found: dict[str, Raw] = {}
    for key, member in members.items():
        spelled = canonical.get(key.lower())
        # The canonical spelling wins if a key is given in two spellings.
        if spelled is not None and (key == spelled or spelled not in members):
            found[spelled] = Raw(respell(bytes(member), shapes[spelled]))
    return found


# ---- requests and answers


class ExtenderArgs(Struct, frozen=True):
    """The extender's arguments of filter and prioritize: a pod and the candidate nodes.

    `names` keep the order of the request. If it has whole nodes, `nodes` holds the JSON of each,
    and names are unique; if it has names only, `nodes` is None.
    """

    pod: bytes
    names: Sequence[str]
    nodes: Sequence[bytes] | None


class _NodeList(Struct):
    items: list[Raw] | None = None


class _ExtenderArgs(Struct, rename="pascal"):
    pod: Raw = Raw()
    nodes: _NodeList | None = None
    node_names: list[str] | None = None


class RequestMetadata(Struct, frozen=True, gc=False):
    """The metadata of a request's object: its identity; absent fields are empty."""

    name: str = ""
    namespace: str = ""
    uid: str = ""


class ApiObject(Struct, frozen=True, gc=False):
    """An object of the API, a pod or a node: the server itself reads the identity only."""

    metadata: RequestMetadata = RequestMetadata()


_Message = TypeVar("_Message")
_ARGS = msgspec.json.Decoder(_ExtenderArgs)
_API_OBJECT = msgspec.json.Decoder(ApiObject)


def decode_args(body: bytes) -> ExtenderArgs:
    """A filter or prioritize request; if it has names and whole nodes, the names are used.

    Raises RequestError.
    """
    args = decode(_ARGS, body)
    has_nodes = args.nodes is not None and args.nodes.items is not None
    if not args.pod or not (has_nodes or args.node_names is not None):
        args = decode(_ARGS, body, FILTER)
    pod = check_pod(args.pod)
    if args.node_names is not None:
        return ExtenderArgs(pod, args.node_names, None)
    if args.nodes is None:
        raise RequestError("the request has neither `NodeNames` nor `Nodes`")
    if args.nodes.items is None:
        raise RequestError("the request has `Nodes` without `items`")
    nodes: dict[str, bytes] = {}
    for item in args.nodes.items:
        nodes.setdefault(_node_name(item), bytes(item))
    return ExtenderArgs(pod, list(nodes), list(nodes.values()))


def pod_key(pod: bytes) -> str:
    """`namespace/name` of a pod; empty if the pod cannot be read."""
    try:
        found = _API_OBJECT.decode(pod).metadata
    except (ValueError, RecursionError):
        return ""
    return f"{found.namespace}/{found.name}"


def decode(decoder: msgspec.json.Decoder[_Message], body: bytes, shape: Shape = None) -> _Message:
    """The message in a body, with its keys respelled first. Raises RequestError."""
    if not body:
        raise RequestError("the request has no body")
    try:
        return decoder.decode(respell(body, shape))
    except RecursionError:
        raise RequestError("the request is nested too deeply") from None
    except msgspec.ValidationError as error:
        raise RequestError(f"the request does not follow the protocol: {_plain(error)}") from None
    except ValueError as error:  # also for bytes that are not UTF-8
        raise RequestError(f"the request is not JSON: {_plain(error)}") from None


def check_pod(pod: Raw) -> bytes:
    """The bytes of a request's pod, which must be a JSON object. Raises RequestError."""
    body = bytes(pod)
    if body in (b"", b"null"):
        raise RequestError("the request has no `Pod`")
    if not body.startswith(b"{"):
        raise RequestError("the `Pod` of the request is not an object")
    return body


def _node_name(item: Raw) -> str:
    try:
        name = _API_OBJECT.decode(item).metadata.name
    except (ValueError, RecursionError):
        name = ""
    if not name:
        raise RequestError("the request has a node without a name")
    return name


def _plain(error: Exception) -> str:
    """The text of a msgspec error in the form of our own messages."""
    text = str(error).removeprefix("JSON is malformed: ")
    return text[:1].lower() + text[1:]
