"""Brings the keys of a request to their canonical spelling, whatever case they came in.

kube-scheduler sends Go's field names (`NodeNames`), the extenders' first clients sent others
(`nodenames`, `nodeNames`), and Go reads them all (C5). Only keys of the protocol itself vary: those
of Pod and Node objects are the API's, and case matters there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
from msgspec import Raw

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
