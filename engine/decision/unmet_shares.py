"""Unmet shares: the strict shares with a lower bound for which pods wait, as no node meets them.

What `placet check` knows of constants is an error there. The rest shows when kube-scheduler asks:
the nodes of the share are full, gone, or not among those that it offers, and the others have all
the pods that the share leaves them. UnmetShares belong to the AfterDecision of an engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from operator import itemgetter

from cachetools import TTLCache

from engine.decision.verdict import Decision, Rejected

# kube-scheduler asks again about a pod that waits at least every five minutes.
_SECONDS = 6 * 60.0
# Those of further pods have the same reasons.
_MOST_PODS = 1000
# A caller can send any text; a uid of the API server has 36 characters.
_LONGEST_UID = 64

Clause = tuple[str, str]


class UnmetShares:
    """The pods that wait for the nodes of a share; `known` has the policy and the share by uid."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.known: TTLCache[str, Clause] = TTLCache(_MOST_PODS, _SECONDS, clock)

    def refused(self, uid: str, decided: Decision, floors: Collection[Clause]) -> None:
        """Takes a pod that no node takes; `floors` are the strict shares with a lower bound."""
        self.known.pop(uid, None)
        for verdict, count in zip(decided.verdicts, decided.counts(), strict=True):
            if not count or not isinstance(verdict, Rejected):
                continue
            clause = verdict.policy, verdict.clause
            if clause in floors and len(uid) <= _LONGEST_UID:
                self.known[uid] = clause
                return

    def offered(self, uid: str) -> None:
        """Takes a pod that has a node, or is answered without the clauses."""
        self.known.pop(uid, None)

    def forget(self) -> None:
        """Forgets all: other policies are enforced."""
        self.known.clear()

    @property
    def by_policy(self) -> Mapping[str, str]:
        """The first of the shares of each policy, by the address of the policy."""
        return dict(sorted(set(self.known.values()), key=itemgetter(1), reverse=True))
