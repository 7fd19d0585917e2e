"""The extender's requests and answers, version 1: bytes in, bytes out.

Objects that are only handed on stay bytes. Requests are read in any case, answers have all their
keys, capitalised (C5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct, field

from engine.cluster.binding import Binding
from server.errors import RequestError
from server.partition import Partition
from server.spelling import BIND, FILTER, Shape, respell


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


class _Binding(Struct, rename="pascal"):
    pod_name: str = ""
    pod_namespace: str = ""
    pod_uid: str = field(name="PodUID", default="")
    node: str = ""


class _FilterResult(Struct, rename="pascal"):
    nodes: None
    node_names: Sequence[str] | None
    failed_nodes: Mapping[str, str]
    failed_and_unresolvable_nodes: Mapping[str, str]
    error: str


# Thousands an answer, alive for microseconds: nothing for the garbage collector to look through.
class _HostPriority(Struct, rename="pascal", gc=False):
    host: str
    score: int


class _BindingResult(Struct, rename="pascal"):
    error: str


_Message = TypeVar("_Message")
_ENCODER = msgspec.json.Encoder()
_ARGS = msgspec.json.Decoder(_Args)
_BINDING = msgspec.json.Decoder(_Binding)
_OBJECT = msgspec.json.Decoder(_Object)

NO_SCORES = b"[]"


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


def encode_filter(args: ExtenderArgs, partition: Partition) -> bytes:
    """The answer to a request, of its kind (C21)."""
    names = partition.accepted if args.nodes is None else None
    answer = _ENCODER.encode(
        _FilterResult(None, names, partition.resolvable, partition.unresolvable, "")
    )
    if args.nodes is None:
        return answer
    rejected = partition.rejected
    pairs = zip(args.names, args.nodes, strict=True)
    return _with_nodes(answer, [node for name, node in pairs if name not in rejected])


def encode_filter_error(text: str) -> bytes:
    """The answer of a filter call that could not decide: kube-scheduler tries again later (C30)."""
    return _ENCODER.encode(_FilterResult(None, None, {}, {}, text))


def encode_priorities(names: Sequence[str], scores: Sequence[int]) -> bytes:
    """A score per host. Raises ValueError if there are not as many of one as of the other."""
    if len(names) != len(scores):
        raise ValueError(f"{len(scores)} scores for {len(names)} nodes")
    return _ENCODER.encode(list(map(_HostPriority, names, scores)))


def decode_binding(body: bytes) -> Binding:
    """Raises RequestError where a bind request does not say which pod goes where."""
    asked = decode(_BINDING, body, BIND)
    if not (asked.pod_name and asked.pod_namespace and asked.pod_uid and asked.node):
        raise RequestError("the request does not say which pod goes to which node")
    return Binding(asked.pod_namespace, asked.pod_name, asked.pod_uid, asked.node)


def encode_binding(error: str) -> bytes:
    """The answer to bind; an empty text says that the pod is bound (C44)."""
    return _ENCODER.encode(_BindingResult(error))


def pod_key(pod: bytes) -> str:
    """`namespace/name`, for people; empty where the pod is none."""
    try:
        metadata = _OBJECT.decode(pod).metadata
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
        name = _OBJECT.decode(item).metadata.name
    except (ValueError, RecursionError):
        name = ""
    if not name:
        raise RequestError("the `Nodes` of the request have an item without a name")
    return name


def _with_nodes(answer: bytes, nodes: list[bytes]) -> bytes:
    """The answer with these nodes, byte for byte (C20), in place of null.

    Ten megabytes are ordinary here, and every copy costs as much as decoding them: so one join.
    """
    pieces = [b","] * (2 * len(nodes))
    pieces[1::2] = nodes
    tail = answer.removeprefix(b'{"Nodes":null')
    return b"".join([b'{"Nodes":{"metadata":{},"items":[', *pieces[1:], b"]}", tail])


def _plain(error: Exception) -> str:
    text = str(error).removeprefix("JSON is malformed: ")
    return text[:1].lower() + text[1:]
