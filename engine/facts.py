"""Facts: what capabilities tell people, by its shape: rows, a part of an explanation, a cause.

Whoever shows them knows the shapes, and no capability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal as OneOf

import msgspec

CauseKind = OneOf[
    "placed",
    "deleted",
    "gated",
    "unreachable extender",
    "extender error",
    "policy not in force",
    "missing rights",
    "placet",
    "other scheduler",
    "not asked yet",
    "policy",
    "count",
    "gang",
    "held back",
    "kube-scheduler",
    "other extender",
    "unknown",
]


class Cause(msgspec.Struct, frozen=True):
    """The cause why a pod is pending, and what to do about it; `hint` may be empty."""

    kind: CauseKind
    text: str
    hint: str = ""


class NamedClause(msgspec.Struct, frozen=True):
    """A clause by the address of its policy and its name."""

    policy: str
    clause: str


class PartOf(msgspec.Struct, frozen=True):
    """A part of a whole, which people see as a bar, or as `2 of 8`."""

    part: int
    whole: int


Cell = str | int | float | PartOf | Sequence[str] | None
# Named tables for people: each row by its columns. A row with a `policy` is about that one. A
# float is rounded, and its column names the unit.
Row = Mapping[str, Cell]
Facts = Mapping[str, Sequence[Row]]


class ExplainedPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of an explanation, for people: what a capability says of the pod.

    Its `texts` stand by themselves if there is no `title`. `more` rows are left out, and `names`
    says which columns name pods or nodes. A part may come `afterNodes`. `cause` is why the pod
    waits, if nothing else keeps it from a node. It is `decided` by who answers, so that others ask.
    """

    title: str = ""
    texts: Sequence[str] = ()
    rows: Sequence[Row] = ()
    more: int = 0
    names: Mapping[str, OneOf["pod", "node"]] = {}
    afterNodes: bool = False
    cause: Cause | None = None
    decided: bool = False
