"""PodsExcluding: the pods of a cluster as if some of them were gone, for one question.

A look at a node after an eviction counts with them, and a plan that moves some pods, too. They live
as long as the question.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from engine.cache.cache import Cache
from engine.cache.census import Census
from engine.cache.ended_pods import EndedPods
from engine.cache.tallies import Adding, Adds, AddsUntil, Scope, Tallies, Tally
from engine.objects.peer import Controller, Peer, Workload, key_of
from engine.objects.request_pod import Namespace

# The pods of the cluster, as far as they are known.
KnownPods: TypeAlias = "Cache | PodsExcluding"


@dataclass(frozen=True, slots=True)
class TalliesExcluding:
    """The tallies of the pods without some of them; see `Tallies`.

    Those that moved are `there` instead; a census, which mutual limits count by, has them nowhere.
    """

    tallies: Tallies | TalliesExcluding
    gone: Mapping[str, Peer]
    there: Mapping[str, Peer]

    def get(self, name: Hashable, scope: Scope, adding: Adding, *given: Any) -> Tally:
        whole = self.tallies.get(name, scope, adding, *given)
        return self._changed(whole, scope, adding.of)

    def timed(self, name: Hashable, scope: Scope, adds: AddsUntil, *given: Any) -> Tally:
        whole = self.tallies.timed(name, scope, adds, *given)
        return self._changed(whole, scope, lambda pod: adds(pod)[0])

    def census(
        self, name: Hashable, scope: Scope, key_of: Callable[[Peer], Hashable], *given: Any
    ) -> Census:
        whole = self.tallies.census(name, scope, key_of, *given)
        return whole.without(pod for _, pod in self._gone_of(scope))

    def _changed(self, whole: Tally, scope: Scope, counts: Adds) -> Tally:
        left = whole.without(self._gone_of(scope), counts)
        for key, pod in self.there.items():
            if scope.holds(pod):
                left.arrives(key, pod)
        return left

    def _gone_of(self, scope: Scope) -> Iterator[tuple[str, Peer]]:
        return ((key, pod) for key, pod in self.gone.items() if scope.holds(pod))


class PodsExcluding:
    """The pods of the cluster without some of them, as a PodCounter needs them.

    Those that moved are `there` instead: on another node, or waiting for one.
    """

    def __init__(self, pods: KnownPods, gone: Iterable[Peer], there: Iterable[Peer] = ()) -> None:
        self._pods = pods
        self._gone, self._there = ({key_of(pod): pod for pod in each} for each in (gone, there))
        self.tallies: Tallies | TalliesExcluding
        self.tallies = TalliesExcluding(pods.tallies, self._gone, self._there)

    @property
    def ended(self) -> EndedPods:
        return self._pods.ended

    def within(self, scope: Scope) -> Iterator[tuple[str, Peer]]:
        yield from ((key, pod) for key, pod in self._pods.within(scope) if key not in self._gone)
        yield from ((key, pod) for key, pod in self._there.items() if scope.holds(pod))

    def pod(self, key: str) -> Peer | None:
        return self._there.get(key) if key in self._gone else self._pods.pod(key)

    @property
    def assumptions(self) -> Mapping[str, object]:
        return self._pods.assumptions

    def namespaces(self) -> Iterable[Namespace]:
        return self._pods.namespaces()

    def workload(self, uid: str) -> Workload | None:
        return self._pods.workload(uid)

    def controller(self, uid: str) -> Controller | None:
        return self._pods.controller(uid)

    def assumed(self) -> Sequence[Peer]:
        return [pod for pod in self._pods.assumed() if key_of(pod) not in self._gone]

    @property
    def nominated(self) -> Mapping[str, Peer]:
        every = self._pods.nominated
        return {key: pod for key, pod in every.items() if key not in self._gone}
