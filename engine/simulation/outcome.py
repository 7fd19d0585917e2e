"""What became of one pod: placed on a node, or pending with its reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Placed:
    """`pod` is `namespace/name`; `policy` is the one that governs it, empty without one."""

    pod: str
    policy: str
    node: str


@dataclass(frozen=True, slots=True)
class Pending:
    """On how many nodes each reason holds; a node may have several.

    A reason that is about the pod alone holds on none.
    """

    pod: str
    policy: str
    reasons: Mapping[str, int]


Outcome = Placed | Pending
