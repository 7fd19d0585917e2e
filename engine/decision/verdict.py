"""What evaluation says of one node: feasible, rejected or failed; and of all nodes of a call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from engine.cache.names import KnownRows


@dataclass(frozen=True, slots=True)
class Feasible:
    """Every clause that applies lets the pod run here."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A clause says no.

    `reason` is constant for the pod (C47: a text that changes between calls makes kube-scheduler
    retry without backoff). `resolvable` is what was inferred about eviction; the wire sends it only
    if asked to (C48). `waits` says that it is about our own view of the cluster, which is late.
    """

    reason: str
    policy: str
    clause: str
    resolvable: bool = False
    waits: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """A clause could not be evaluated, and its policy says that this rejects the node.

    `reason` goes to kube-scheduler and is constant; `error` says what happened, to explain and
    metrics.
    """

    reason: str
    policy: str
    clause: str
    error: str


Verdict = Feasible | Rejected | Failed
Codes = npt.NDArray[np.int32]
FEASIBLE = Feasible()


class Decision(Sequence[Verdict]):
    """A verdict per node, in the order of the request.

    There are few different ones: `codes` has a node's index into `verdicts`, whose first is
    Feasible. `where` tells which nodes these are, if that can be told without their names.
    """

    __slots__ = ("codes", "verdicts", "where")

    def __init__(
        self, codes: Codes, verdicts: Sequence[Verdict], where: KnownRows | None = None
    ) -> None:
        self.codes = codes
        self.verdicts = verdicts
        self.where = where

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, index: int) -> Verdict: ...
    @overload
    def __getitem__(self, index: slice) -> Decision: ...
    def __getitem__(self, index: int | slice) -> Verdict | Decision:
        if isinstance(index, slice):
            return Decision(self.codes[index], self.verdicts)
        return self.verdicts[int(self.codes[index])]

    def counts(self) -> Sequence[int]:
        """How many nodes have each of the verdicts."""
        counts: list[int] = np.bincount(self.codes, minlength=len(self.verdicts)).tolist()
        return counts


class Scores(Sequence[int]):
    """A score 0..10 per node, in the order of the request; `where` is as in a Decision."""

    def __init__(self, points: npt.NDArray[np.int64], where: KnownRows | None = None) -> None:
        self.points = points
        self.where = where

    def __len__(self) -> int:
        return len(self.points)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Scores: ...
    def __getitem__(self, index: int | slice) -> int | Scores:
        if isinstance(index, slice):
            return Scores(self.points[index])
        return int(self.points[index])

    def __iter__(self) -> Iterator[int]:
        found: list[int] = self.points.tolist()
        return iter(found)


def full_reason(policy: str, clause: str, reason: str) -> str:
    """Policy by address, clause and reason, which says nothing more where the clause has none."""
    named = f"{policy}: {clause}"
    is_default = reason == f"policy {policy.rpartition('/')[2]}: {clause}"
    return named if is_default else f"{named}: {reason}"


def feasible(count: int) -> Decision:
    return Decision(np.zeros(count, np.int32), (FEASIBLE,))


def decision(verdicts: Iterable[Verdict]) -> Decision:
    """From a verdict per node."""
    codes: dict[Verdict, int] = {FEASIBLE: 0}
    found = [codes.setdefault(verdict, len(codes)) for verdict in verdicts]
    return Decision(np.array(found, np.int32), tuple(codes))
