"""SampledNumbers: the numbers of now that a history keeps, worked out once a minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from engine.decision.verb_call import ClusterState
from engine.errors import NotSyncedError
from server.answers.view_answers import latency
from server.view.overview import Overview

# The bounds that are kept of one sample, the fullest ones; the clauses that reject most in the
# minute; and the bytes of a name, with which samples stay small.
_MOST_BOUNDS, _MOST_CLAUSES, _LONGEST_NAME = 10, 10, 300
Durations = Mapping[str, Sequence[tuple[float, float]]]
Rejections = Mapping[tuple[str, str], int]


class SampledNumbers:
    """The numbers of one replica. Those of calls are of the time since the last sample."""

    def __init__(
        self,
        cluster: ClusterState,
        overview: Overview,
        rejections: Callable[[], Rejections],
        durations: Callable[[], Durations],
    ) -> None:
        self._cluster = cluster
        self._overview = overview
        self._rejections = rejections
        self._durations = durations
        self._rejected = dict(rejections())
        self._before: Durations = durations()

    async def take(self) -> Mapping[str, float]:
        """The numbers by the names of their series; those that are not known have none."""
        found = {**self._newly_rejected(), **self._latencies()}
        try:
            found["waiting pods"] = float(len(self._cluster.snapshot().pending))
        except NotSyncedError:
            return found
        for bound in (await self._overview.fills()).bounds[:_MOST_BOUNDS]:
            of = f" of {bound.of}" if bound.of else ""
            name = f"full {bound.policy}: {bound.clause}{of}"
            found[name] = max(found.get(name, 0.0), round(100 * bound.part, 1))
        return {name: each for name, each in found.items() if len(name.encode()) <= _LONGEST_NAME}

    def _newly_rejected(self) -> dict[str, float]:
        """The nodes that all clauses rejected, and each of those that rejected most."""
        before, self._rejected = self._rejected, dict(self._rejections())
        new = Counter({names: n - before.get(names, 0) for names, n in self._rejected.items()})
        found = {"rejected nodes": float(sum(new.values()))}
        for (policy, clause), nodes in new.most_common(_MOST_CLAUSES):
            if nodes:
                found[f"rejected {policy}: {clause}"] = float(nodes)
        return found

    def _latencies(self) -> Mapping[str, float]:
        """The p99 of each verb that was called; beyond the last bucket there is none."""
        before, self._before = self._before, self._durations()
        found = {}
        for verb, buckets in self._before.items():
            old = [calls for _, calls in before.get(verb, ())] or [0.0] * len(buckets)
            since = [(b, calls - o) for (b, calls), o in zip(buckets, old, strict=True)]
            p99 = latency(verb, since).p99 if since[-1][1] > 0 else None
            if p99 is not None:
                found[f"p99 {verb}"] = p99
        return found
