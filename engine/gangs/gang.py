"""KnownGang: a group of pods that waits or gathers, and what people see of it.

Gangs own it; it is forgotten when it is released, or when nobody asks about its members any more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal
from weakref import ReferenceType

from engine.cache.node_table import NodeTable
from engine.gangs.members import GangName
from engine.program.program import GangProgram

# Told the outcome of a held bind call: empty, or the reason why the gang was given up.
EndOfHold = Callable[[str], None]

# What members say of their number, by uid, with the JSON that says it; None if one is not told.
Numbers = Mapping[str, tuple[bytes | None, int | None]]


@dataclass(frozen=True, slots=True)
class Hold:
    """A bind call that waits, since a time."""

    since: float
    end: EndOfHold


# For how long an attempt need not be made again while nothing has changed.
_COVERS_SECONDS = 10.0
# What a text has that says how many members fit, and for how long rejections keep one.
_FIT, _TOLD_SECONDS = " members fit", 60.0


@dataclass(frozen=True, slots=True)
class Try:
    """What was known at an attempt to place a gang that did not fit.

    The time, the `table` of nodes, how often places had become free since the start, the uids of
    the waiting members, and the rows that kube-scheduler had asked about, as bytes; None for all.
    """

    at: float
    table: ReferenceType[NodeTable]
    freed: int
    members: Collection[str]
    only: bytes | None

    def covers(self, other: Try) -> bool:
        """Whether an attempt with what is known now would have the same result.

        Policies may read the time, so that holds for some seconds.
        """
        lately = other.at - self.at < _COVERS_SECONDS
        same = self.table() is other.table() and self.freed == other.freed
        only = self.only in (None, other.only)
        return lately and same and only and self.members == other.members


@dataclass(slots=True)
class KnownGang:
    """A gang that waits or gathers; it gathers while it has places.

    `quorum` is the number of members that are bound together, the largest one of the `numbers` that
    they say; it stays while the gang gathers. `places` are the nodes of its members by uid, `keys`
    their names, `holds` the bind calls that wait; `reserved` is for how many there is room. `bars`
    are the cordons and taints of its nodes when it was placed. It is known `since` a time; it
    `began` to gather at another one, and is given up at `until`; its members are woken again at
    `remind_at`. The first in `order` goes first. `text` says what it waits for, and `told` is what
    kube-scheduler knows of that. It is not tried before the time `not_before`; `tried` is the last
    attempt that failed.

    `is_settled`: what it waits for is known, and stays so until one of its pods changes.
    `stands_until`: the end of that where too few members exist. `long_until`: before this time no
    look tries it, because an attempt took too long. `sent_at`: when kube-scheduler was last told to
    ask about a member instead.
    """

    name: GangName
    quorum: int
    order: tuple[int, float, int]
    asked_at: float
    sample: str
    since: float = 0.0
    priority: int = 0
    places: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    numbers: Numbers = field(default_factory=dict)
    holds: dict[str, Hold] = field(default_factory=dict)
    reserved: int = 0
    bars: dict[str, frozenset[tuple[str, str]]] = field(default_factory=dict)
    began: float = 0.0
    until: float = math.inf
    remind_at: float = math.inf
    text: str = ""
    told: str = ""
    told_at: float = 0.0
    not_before: float = 0.0
    stands_until: float = 0.0
    is_settled: bool = False
    long_until: float = -math.inf
    sent_at: float = -math.inf
    pause: float = 0.0
    why_given_up: str = ""
    tried: Try | None = None

    def say(self, text: str, now: float) -> None:
        """Takes what it waits for. How many members fit is told to kube-scheduler once a minute.

        It asks about a pod again whenever the text of its rejection changes.
        """
        self.text = text
        counts = _FIT in text and _FIT in self.told
        if text.partition(_FIT)[0] == self.told.partition(_FIT)[0] and counts:
            # Where most of them fit is another place.
            return
        if not counts or now - self.told_at >= _TOLD_SECONDS:
            self.told, self.told_at = text, now

    @property
    def gathers(self) -> bool:
        return bool(self.places)

    @property
    def is_given_up(self) -> bool:
        """Whether it was given up, and not tried again since then."""
        return bool(self.why_given_up) and self.text == given_up(self.why_given_up)

    @property
    def clause(self) -> GangProgram:
        return self.name.program

    @property
    def shown(self) -> str:
        """Its name for people: what the members share, or one of them."""
        value = self.name.value
        return f"{self.name.namespace}/{value[1]}" if isinstance(value, tuple) else self.sample


def given_up(why: str) -> str:
    """What a gang says that was given up."""
    return f"given up: {why}"


@dataclass(frozen=True, slots=True)
class GangStatus:
    """A gang for people: of its `quorum`, so many are `held`, and so many wait without a node.

    `seconds` is how long it has gathered, or else waited since it was asked about first. `text`
    says what it waits for. `nodes` are the places of its members, by `namespace/name`.
    """

    policy: str
    clause: str
    namespace: str
    name: str
    state: Literal["waiting", "gathering", "given up"]
    quorum: int
    held: int
    waiting: int
    seconds: float
    text: str
    nodes: Mapping[str, str]
