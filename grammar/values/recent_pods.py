"""Recent pods: what the pods of a node request that came after a moment.

A sample of a node's load does not know of them yet (docs/language/data.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grammar.tree.types import QUANTITY, STRING, TIMESTAMP, Overload, Type, map_of, member
from grammar.values.errors import MissingError
from grammar.values.quantity import Quantity, Resources
from grammar.values.sizes import Size
from grammar.values.time import Timestamp

# A node object with its pods.
Record = Any
# The steps for the pods of a node of which the number is not known.
_USUAL_PODS = 110


def since(node: Record, moment: Timestamp) -> Resources:
    """What the pods request that the kubelet took at the moment, later, or not yet.

    Raises MissingError where the cluster's pods are not known.
    """
    pods: Sequence[Record] | None = node.pods
    if pods is None:
        raise MissingError("there is no `pods`")
    found = Resources()
    for pod in pods:
        started = pod.started
        if started is not None and started.nanos < moment.nanos:
            continue
        for resource, amount in pod.requests.items():
            found[resource] = found[resource] + amount
        found["pods"] = found["pods"] + _ONE
    return found


_ONE = Quantity.parse("1")


def _work(node: Record | Size, _: object) -> int:
    return _USUAL_PODS if isinstance(node, Size) else len(node.pods or ())


OVERLOADS: tuple[Overload, ...] = (
    member("since", (Type("Node"), TIMESTAMP), map_of(STRING, QUANTITY), since, _work),
)
