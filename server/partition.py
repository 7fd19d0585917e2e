"""The answer to a filter call before it is bytes: every node once, accepted or rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

from engine.verdict import Decision, Feasible, Rejected


@dataclass(frozen=True, slots=True)
class Partition:
    """Accepted names in the order of the request, and rejected ones with their reason.

    A name is in one of the three. Left out of all, it would be a node that failed without a word
    (C22); in two of them, it would be both feasible and failed (C24).
    """

    accepted: Sequence[str]
    resolvable: Mapping[str, str]
    unresolvable: Mapping[str, str]

    @property
    def rejected(self) -> Mapping[str, str]:
        """Both kinds; not a copy unless there are both."""
        if not self.resolvable:
            return self.unresolvable
        return {**self.resolvable, **self.unresolvable}


def partition(names: Sequence[str], decided: Decision, *, resolvable_rejections: bool) -> Partition:
    """Sorts names by their verdicts; of a name that is there twice the first counts.

    Every rejection is unresolvable unless `resolvable_rejections`: kube-scheduler up to 1.36 would
    look for victims to evict on nodes that fit but for us, find none, and ask again at once (C48).

    Raises ValueError if there are not as many names as verdicts.
    """
    codes = decided.codes
    if len(names) != len(codes):
        raise ValueError(f"{len(names)} names and {len(codes)} verdicts")
    if len(set(names)) != len(names):
        first = dict(zip(reversed(names), range(len(names) - 1, -1, -1), strict=True))
        places = sorted(first.values())
        names, codes = [names[place] for place in places], codes[places]
    # Most pods are subject to no policy, and most nodes pass: this way they cost no loop.
    if not codes.any():
        return Partition(names, {}, {})
    accepted = list(compress(names, (codes == 0).tolist()))
    resolvable: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    for code, verdict in enumerate(decided.verdicts):
        if isinstance(verdict, Feasible):
            continue
        curable = resolvable_rejections and isinstance(verdict, Rejected) and verdict.resolvable
        here = compress(names, (codes == code).tolist())
        (resolvable if curable else unresolvable).update(dict.fromkeys(here, verdict.reason))
    return Partition(accepted, resolvable, unresolvable)
