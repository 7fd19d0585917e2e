"""Frame: the values that a running program reads, and the types that programs share.

One frame serves one request. It is mutable on purpose: only `node` changes from node to node, and
closures keep their locals in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from engine.cards.fragmentation import NO_FACTS
from engine.objects.peer import Peer
from engine.program.policy_time import CallTime
from grammar.values.errors import EvaluationError
from grammar.values.nodes import GroupOfNodes
from grammar.values.sizes import STEPS, too_many_steps
from grammar.values.time import NEVER, SECOND, Timestamp

Evaluate = Callable[["Frame"], object]
# Made on demand, because a frame needs the whole pod decoded.
LazyFrame = Callable[[], "Frame"]
# Raises an EngineError when the time of the request, or of the policy, is over.
CheckDeadline = Callable[[], None]
# Receives the policy, the clause and the error of a failed evaluation.
Report = Callable[[str, str, EvaluationError], None]
# Receives the policy, the clause and the text of a rejection that an answer shows only in part.
ReportText = Callable[[str, str, str], None]

Floats = npt.NDArray[np.float64]
Points = npt.NDArray[np.int64]
# A weight in the mean, and points 0..100 per node.
Term = tuple[float, Floats]

# The steps between two checks of the deadline, which take about 1 ms.
STEPS_PER_LOOK = 10_000


def unlimited() -> None:
    """The deadline check of a frame without a deadline."""


# The tables of a frame that has none.
NO_TABLES: Mapping[str, Any] = {}
# The values that a frame keeps: a plan keeps its frame.
MEMO_BYTES = 32 << 10


class GroupsOfCall(Protocol):
    """The groups as one call sees them."""

    def of(self, digest: str, node: str) -> GroupOfNodes | None:
        """The group of a node by its name; None if it is in no group."""
        ...

    def number(self, digest: str, frame: Frame) -> object:
        """The value of a named count for the frame's node; None if it has none."""
        ...

    def ways(self, counts: Sequence[str], *, strict: bool) -> Sequence[GroupsOfCall]:
        """The groups in each way to count pods on their way that matters to a clause.

        It reads so many named counts, by digest.
        """
        ...


class _NoGroups:
    """The groups of a frame to which nobody has given any."""

    def of(self, _digest: str, _node: str) -> GroupOfNodes | None:
        return None

    def number(self, _digest: str, _frame: Frame) -> object:
        return None

    def ways(self, _: Sequence[str], *, strict: bool) -> Sequence[GroupsOfCall]:  # noqa: ARG002
        return (self,)


NO_GROUPS: GroupsOfCall = _NoGroups()


class Frame:
    """A frame has the state of one request.

    `cardFacts` are what is known of cards beside the nodes. `tables` has the tables of data by
    their digests, and `groups` the groups of nodes. `gone` are pods of the node that are not there
    any more. `object` is what a row of a table is made of. `locals` has a slot for every macro
    variable and parameter of every program. `memo` keeps the values that are computed once per pod,
    `room` is the bytes that they may still take, and `spent` the steps of the last of them. `fuel`
    falls by the steps of macros and of functions that go through their arguments, before these
    begin; code that takes it below 0 calls `refuel`, which takes from `reserve`. `check` raises at
    the deadline. `until` is the moment, in nanoseconds, until which the values stay as they were
    evaluated. Who keeps a value sets it to NEVER before; whatever reads `now` lowers it.
    """

    __slots__ = (
        "cardFacts",
        "check",
        "fuel",
        "gone",
        "groups",
        "locals",
        "memo",
        "namespaceObject",
        "node",
        "now",
        "object",
        "peer",
        "pod",
        "reserve",
        "room",
        "spent",
        "tables",
        "until",
        "victim",
        "victims",
    )

    def __init__(
        self,
        pod: object,
        now: Timestamp,
        *,
        slots: int,
        namespace: object = None,
        check: CheckDeadline = unlimited,
    ) -> None:
        self.pod = pod
        self.node: object = None
        self.now = now
        self.namespaceObject = namespace
        self.peer: object = None
        self.cardFacts: object = NO_FACTS
        self.tables: Mapping[str, Any] = NO_TABLES
        self.groups: GroupsOfCall = NO_GROUPS
        self.gone: Sequence[Peer] = ()
        self.object: object = None
        self.victim: object = None
        self.victims: object = None
        self.locals: list[object] = [None] * slots
        self.memo: dict[object, object] = {}
        self.room = MEMO_BYTES
        self.spent = 0
        self.until = NEVER
        self.check = check
        self.fuel = STEPS_PER_LOOK
        self.refill()

    def anew(self) -> Frame:
        """A copy that keeps no values, for another time, node or namespace."""
        made = copy(self)
        made.memo, made.room = {}, MEMO_BYTES
        return made

    def refill(self) -> None:
        """Give an evaluation its steps. The next look at the clock stays where it is."""
        self.reserve = STEPS - self.fuel

    def burn(self, steps: int) -> None:
        """Take steps before their work begins. Raises as `refuel`."""
        self.fuel -= steps
        if self.fuel < 0:
            self.refuel()

    def holds_until(self, moment: int) -> None:
        """Says that a value stays as it is until a moment, in nanoseconds."""
        if moment < self.until:
            # A memo has 64 bits for it, and the language has times before the year 1677.
            self.until = max(moment, -NEVER)

    def holds_for_a_second(self) -> None:
        """Says that a value may change with the time, in a way that is not known."""
        self.holds_until(self.now.nanos + SECOND)

    def refuel(self) -> None:
        """Take fuel from the reserve.

        Raises StepLimitError if the reserve is not enough, and what `check` raises.
        """
        self.check()
        more = min(self.reserve, STEPS_PER_LOOK - self.fuel)
        self.fuel += more
        self.reserve -= more
        if self.fuel < 0:
            raise too_many_steps()


class Evaluation(msgspec.Struct, frozen=True, eq=False):
    """An evaluation's context in a call: the frame, the time, and the listener for errors.

    `frame` makes the frame when it is first needed, because that decodes the whole pod. `now` gives
    the time of the frame, in nanoseconds, without the frame. `time` has
    the deadline, and learns which policy is evaluated. `report` takes the policy, the clause and
    the error of an evaluation that failed. `report_text` takes the policy, the clause and the whole
    text of a rejection that is too long for an answer. `groups` gives the groups of nodes
    without the frame.
    """

    frame: LazyFrame
    now: Callable[[], int]
    time: CallTime
    report: Report
    report_text: ReportText
    groups: Callable[[], GroupsOfCall] | None = None

    def groups_of_call(self) -> GroupsOfCall:
        """The groups of nodes, without the frame where that can be."""
        return self.frame().groups if self.groups is None else self.groups()


# The text of a rejection for an answer.
Message = Callable[[Evaluation], str]


def unhurried(frame: Frame) -> Evaluation:
    """The context of an evaluation that nobody waits for: no deadline, and no listener."""
    # An error is dropped: the caller finds it in the result.
    untimed = CallTime(lambda: 0.0, math.inf)
    return Evaluation(lambda: frame, lambda: frame.now.nanos, untimed, _drop, _drop)


def _drop(_policy: str, _clause: str, _what: object) -> None:
    """The listener of an evaluation without one."""
