"""What a running program reads: the pod, the node at hand, and the values of local names."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import numpy.typing as npt

from grammar.errors import EvaluationError
from grammar.values.time import Timestamp

# How many nodes are evaluated between two looks at the clock.
NODES_PER_LOOK = 512


CheckDeadline = Callable[[], None]


# Of a policy's clause, what went wrong.
Report = Callable[[str, str, EvaluationError], None]


Floats = npt.NDArray[np.float64]


Points = npt.NDArray[np.int64]


# A weight in the mean, and points 0..100 per node.
Term = tuple[float, Floats]


# How many steps of comprehensions one request may take, and how many between two looks at the
# clock: some 10 ms.
FUEL = 10_000_000
STEPS_PER_LOOK = 10_000

Evaluate = Callable[["Frame"], object]
# Made when it is needed: for that the whole pod is decoded.
LazyFrame = Callable[[], "Frame"]


def unlimited() -> None:
    """The check of a frame that has all the time there is."""


class Frame:
    """One request's state.

    Mutable on purpose: per node only `node` changes, and closures keep their locals in it.

    `locals` has a place for every comprehension variable and parameter of every program; `memo` one
    for every part that is worked out once per pod. `fuel` falls by one per step of a comprehension;
    whoever takes it below 0 calls `refuel`, which takes from `reserve`. `check` raises when the
    request's time is over.
    """

    __slots__ = (
        "check",
        "fuel",
        "locals",
        "memo",
        "namespaceObject",
        "node",
        "now",
        "peer",
        "pod",
        "reserve",
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
        check: Callable[[], None] = unlimited,
    ) -> None:
        self.pod = pod
        self.node: object = None
        self.now = now
        self.namespaceObject = namespace
        self.peer: object = None
        self.victim: object = None
        self.victims: object = None
        self.locals: list[object] = [None] * slots
        self.memo: dict[object, object] = {}
        self.check = check
        self.refill()

    def refill(self) -> None:
        """As much as one request may take."""
        self.fuel, self.reserve = STEPS_PER_LOOK, FUEL - STEPS_PER_LOOK

    def refuel(self) -> None:
        """More fuel, where more was taken than there was.

        Raises EvaluationError where there is no more, and what `check` raises.
        """
        self.check()
        more = min(self.reserve, STEPS_PER_LOOK - self.fuel)
        self.fuel += more
        self.reserve -= more
        if self.fuel < 0:
            raise EvaluationError("the expression takes too many steps")


class Evaluation(msgspec.Struct, frozen=True, eq=False):
    """The context of a call's evaluations: its frame, its deadline, and the listener for errors.

    `frame` makes the frame when it is first needed, because that decodes the whole pod. `check`
    raises DeadlineExceededError when the call's time is over. `report` takes the policy, the clause
    and the error of an evaluation that failed.
    """

    frame: LazyFrame
    check: CheckDeadline
    report: Report


def unhurried(frame: Frame) -> Evaluation:
    """The context of an evaluation that nobody waits for: no deadline, and no listener."""
    return Evaluation(lambda: frame, unlimited, _unreported)


def _unreported(policy: str, clause: str, error: EvaluationError) -> None:
    """Drops the error: its caller finds it in the result."""
