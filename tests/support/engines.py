"""What an engine needs around it in tests: a fixed view, and an observer that remembers."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.cache.cache import Cache
from engine.cache.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Fixed:
    """A cluster that stays as it is."""

    view: Snapshot

    def snapshot(self) -> Snapshot:
        return self.view

    @property
    def pods(self) -> Cache:
        cache = Cache()
        for pod in self.view.pods().values():
            cache.put_pod(pod)
        return cache


@dataclass(frozen=True, slots=True)
class Known:
    """A cluster that changes as its cache does."""

    pods: Cache

    def snapshot(self) -> Snapshot:
        return self.pods.snapshot()


@dataclass(slots=True)
class Silent:
    """An observer that says nothing and keeps what it heard."""

    heard: list[tuple[object, ...]] = field(default_factory=list)

    def rejected(self, policy: str, clause: str, nodes: int) -> None:
        self.heard.append(("rejected", policy, clause, nodes))

    def failed(self, policy: str, clause: str, error: str) -> None:
        self.heard.append(("failed", policy, clause, error))

    def would_reject(self, policy: str, clause: str, nodes: int) -> None:
        self.heard.append(("would reject", policy, clause, nodes))

    def conflict(self, winner: str, loser: str) -> None:
        self.heard.append(("conflict", winner, loser))

    def bypassed(self, pod: str, uid: str, reason: str) -> None:
        self.heard.append(("bypassed", pod, uid, reason))
