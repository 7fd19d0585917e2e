"""Prioritize: a score 0..10 for each node of a request, in an answer as short as it can be.

kube-scheduler ignores errors of this verb (C28): without scores, the other plugins decide. Our
scores are added to its own, and a host without a score gets nothing. So where many hosts share the
lowest score, the answer leaves them out and lowers the others by it: every difference stays (C27).
Reading 5,000 scores takes kube-scheduler longer than all else in our calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from engine.cache.node_table import KnownRows
from engine.decision.verdict import Scores
from engine.program.frame import Points
from server.call import CallRecord
from server.errors import CallFailure
from server.verbs.answering import Decider
from server.verbs.filter import AnsweredNames, NameFragments

NO_SCORES = b"[]"
# With more hosts than this part above the lowest score, leaving out the others gains little.
MOST_ABOVE = 0.8
HANDFUL = 32
_STRETCHES = np.arange(HANDFUL)
_Positions = npt.NDArray[np.intp]
_ENCODER = msgspec.json.Encoder()


@dataclass(eq=False, slots=True)
class PrioritizeVerb:
    """The verb prioritize. It recognises the names that filter accepted."""

    decider: Decider
    answered: AnsweredNames
    fragments: NameFragments
    _chance: np.random.Generator = field(default_factory=np.random.default_rng, init=False)

    def decide(self, body: bytes, call: CallRecord) -> bytes:
        args = self.answered.decode(body, call)
        scores = self.decider.prioritize(args.pod, args.names, args.nodes, call.deadline)
        if scores is None:
            return NO_SCORES
        call.scores = scores.points
        listed = listed_hosts(scores.points, self._chance)
        answer = None
        if listed is not None:
            scores = shortened(scores, listed)
        call.returned = len(scores.points)
        if scores.known_rows is not None:
            answer = self.fragments.priorities(scores, scores.known_rows)
        if answer is None:
            names = args.names if listed is None else [args.names[at] for at in listed.tolist()]
            by_name = dict(zip(names, scores, strict=True))
            call.returned = len(by_name)
            answer = encode_priorities(list(by_name), list(by_name.values()))
        return answer

    def refuse(self, _failure: CallFailure) -> tuple[int, bytes]:
        return 200, NO_SCORES


def listed_hosts(points: Points, chance: np.random.Generator) -> _Positions | None:
    """The positions of the hosts that an answer lists, in order; None if it lists all of them.

    Some of the lowest are listed, because kube-scheduler chooses among equal hosts by chance only
    if an answer has them (C51): without these, equal hosts would be filled one after the other.
    """
    if len(points) <= HANDFUL:
        return None
    lowest = points == np.minimum.reduce(points)
    left_out = lowest.nonzero()[0]
    above = len(points) - len(left_out)
    if len(left_out) <= HANDFUL or above >= MOST_ABOVE * len(points):
        return None
    # One host of each of some equal stretches, of which the first begins anywhere: all have the
    # same chance. A choice without repetition takes twice as long.
    width = len(left_out) // HANDFUL
    parts = chance.random(HANDFUL + 1)
    places = (
        _STRETCHES * width + (parts[1:] * width).astype(np.intp) + int(parts[0] * len(left_out))
    )
    lowest[left_out.take(places, mode="wrap")] = False
    found: _Positions = (~lowest).nonzero()[0]
    return found


def shortened(scores: Scores, listed: _Positions) -> Scores:
    """The scores of the listed hosts, above the lowest one."""
    points, known = scores.points, scores.known_rows
    lowered = points[listed] - np.minimum.reduce(points)
    return Scores(lowered, None if known is None else KnownRows(known.rows[listed], known.nodes))


# An answer has thousands of them for microseconds: the garbage collector need not track them.
class _HostPriority(Struct, rename="pascal", gc=False):
    host: str
    score: int


def encode_priorities(names: Sequence[str], scores: Sequence[int]) -> bytes:
    """The answer with a score per host. Raises ValueError if the lengths differ."""
    if len(names) != len(scores):
        raise ValueError(f"{len(scores)} scores for {len(names)} nodes")
    return _ENCODER.encode(list(map(_HostPriority, names, scores)))
