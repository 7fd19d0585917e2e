"""Brings the keys of a request to their canonical spelling, whatever case they came in.

kube-scheduler sends Go's field names (`NodeNames`), the extenders' first clients sent others
(`nodenames`, `nodeNames`), and Go reads them all (C5). Only keys of the protocol itself vary: those
of Pod and Node objects are the API's, and case matters there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct, field

from server.errors import RequestError

_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_ARRAY = msgspec.json.Decoder(list[Raw])


@dataclass(frozen=True, slots=True)
class Keys:
    """An object with these keys, spelled right; None is a value whose keys are left alone."""

    of: Mapping[str, Shape]


@dataclass(frozen=True, slots=True)
class Each:
    """A list, or an object whose keys are data; every value has this shape."""

    value: Shape


Shape = Keys | Each | None

FILTER = Keys({"Pod": None, "Nodes": Keys({"items": None}), "NodeNames": None})
PREEMPT = Keys(
    {
        "Pod": None,
        "NodeNameToVictims": Each(Keys({"Pods": None, "NumPDBViolations": None})),
        "NodeNameToMetaVictims": Each(
            Keys({"Pods": Each(Keys({"UID": None})), "NumPDBViolations": None})
        ),
    }
)
BIND = Keys({"PodName": None, "PodNamespace": None, "PodUID": None, "Node": None})


def respell(value: bytes, shape: Shape) -> bytes:
    """The same JSON with canonical keys where `shape` has some; values keep their bytes.

    What does not have the shape is returned as it is, for the typed decoder to complain about.
    Raises what msgspec raises for text that is not JSON.
    """
    first = value.lstrip()[:1]
    match shape:
        case Keys(of) if first == b"{":
            return _join(_respelled(_OBJECT.decode(value), of))
        case Each(inner) if first == b"{":
            members = _OBJECT.decode(value).items()
            return _join({key: Raw(respell(bytes(member), inner)) for key, member in members})
        case Each(inner) if first == b"[":
            items = _ARRAY.decode(value)
            return msgspec.json.encode([Raw(respell(bytes(item), inner)) for item in items])
        case _:
            return value


def _respelled(members: Mapping[str, Raw], shapes: Mapping[str, Shape]) -> dict[str, Raw]:
    canonical = {key.lower(): key for key in shapes}
    found: dict[str, Raw] = {}
    for key, member in members.items():
        spelled = canonical.get(key.lower())
        # A key that is spelled right is preferred to others that mean the same.
        if spelled is not None and (key == spelled or spelled not in members):
            found[spelled] = Raw(respell(bytes(member), shapes[spelled]))
    return found


def _join(members: Mapping[str, Raw]) -> bytes:
    return msgspec.json.encode(members)


# ---- The extender's requests and answers, version 1: bytes in, bytes out.
#
# Objects that are only handed on stay bytes. Requests are read in any case, answers have all their
# keys, capitalised (C5).


class ExtenderArgs(Struct, frozen=True):
    """A pod and the nodes it may be put on.

    `names` are in the order of the request, and unique where it came with whole objects: `nodes`
    are the JSON of each then, and None where it came with names.
    """

    pod: bytes
    names: Sequence[str]
    nodes: Sequence[bytes] | None


class _NodeList(Struct):
    items: list[Raw] | None = None


class _Args(Struct, rename="pascal"):
    pod: Raw = Raw()
    nodes: _NodeList | None = None
    node_names: list[str] | None = None


class _Metadata(Struct):
    name: str = ""
    namespace: str = ""


class _Object(Struct):
    metadata: _Metadata = field(default_factory=_Metadata)


_Message = TypeVar("_Message")
_ARGS = msgspec.json.Decoder(_Args)
_NAMED = msgspec.json.Decoder(_Object)


def decode_args(body: bytes) -> ExtenderArgs:
    """A filter or prioritize request, of either kind; names decide where it has both.

    Raises RequestError.
    """
    args = decode(_ARGS, body)
    if not _is_complete(args):
        args = decode(_ARGS, body, FILTER)
    pod = check_pod(args.pod)
    if args.node_names is not None:
        return ExtenderArgs(pod, args.node_names, None)
    if args.nodes is None:
        raise RequestError("the request has neither `NodeNames` nor `Nodes`")
    if args.nodes.items is None:
        raise RequestError("the `Nodes` of the request have no `items`")
    nodes: dict[str, bytes] = {}
    for item in args.nodes.items:
        nodes.setdefault(_node_name(item), bytes(item))
    return ExtenderArgs(pod, list(nodes), list(nodes.values()))


def pod_key(pod: bytes) -> str:
    """`namespace/name`, for people; empty where the pod is none."""
    try:
        metadata = _NAMED.decode(pod).metadata
    except (ValueError, RecursionError):
        return ""
    return f"{metadata.namespace}/{metadata.name}"


def decode(decoder: msgspec.json.Decoder[_Message], body: bytes, shape: Shape = None) -> _Message:
    """The message in a body, after its keys were respelled. Raises RequestError."""
    if not body:
        raise RequestError("the request has no body")
    try:
        return decoder.decode(respell(body, shape))
    except RecursionError:
        raise RequestError("the request is nested too deeply") from None
    except msgspec.ValidationError as error:
        raise RequestError(f"the request is not of this protocol: {_plain(error)}") from None
    except ValueError as error:  # bytes that are no UTF-8 among them
        raise RequestError(f"the request is not JSON: {_plain(error)}") from None


def check_pod(pod: Raw) -> bytes:
    """The bytes of a pod that is an object, at least. Raises RequestError."""
    body = bytes(pod)
    if body in (b"", b"null"):
        raise RequestError("the request has no `Pod`")
    if not body.startswith(b"{"):
        raise RequestError("the `Pod` of the request is not an object")
    return body


def _is_complete(args: _Args) -> bool:
    has_nodes = args.nodes is not None and args.nodes.items is not None
    return bool(args.pod) and (has_nodes or args.node_names is not None)


def _node_name(item: Raw) -> str:
    try:
        name = _NAMED.decode(item).metadata.name
    except (ValueError, RecursionError):
        name = ""
    if not name:
        raise RequestError("the `Nodes` of the request have an item without a name")
    return name


def _plain(error: Exception) -> str:
    text = str(error).removeprefix("JSON is malformed: ")
    return text[:1].lower() + text[1:]
