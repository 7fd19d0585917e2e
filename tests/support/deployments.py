"""A plain model of the Deployment and ReplicaSet controllers: which pods they create and delete.

It follows kube-controller-manager's rolling.go, recreate.go and sync.go: a step of it is a sync of
the real controllers. Pods are its own records; a test makes objects of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any


@dataclass(frozen=True, slots=True)
class Strategy:
    """A Deployment's strategy: numbers, percentages of the replicas as texts, or Recreate."""

    surge: int | str = "25%"
    unavailable: int | str = "25%"
    recreate: bool = False

    def manifest(self) -> dict[str, Any]:
        """The strategy as a Deployment has it."""
        if self.recreate:
            return {"type": "Recreate"}
        rolling = {"maxSurge": self.surge, "maxUnavailable": self.unavailable}
        return {"type": "RollingUpdate", "rollingUpdate": rolling}

    def resolved(self, replicas: int) -> tuple[int, int]:
        """The pods that there may be too many, and too few: rounded up, and rounded down."""
        if self.recreate:
            return 0, replicas
        surge = _resolved(self.surge, replicas, math.ceil)
        unavailable = _resolved(self.unavailable, replicas, math.floor)
        return surge, unavailable if surge or unavailable else 1


def _resolved(value: int | str, of: int, rounded: Callable[[float], int]) -> int:
    return value if isinstance(value, int) else rounded(int(value.rstrip("%")) * of / 100)


@dataclass(slots=True, eq=False)
class DeployedPod:
    """A pod of one revision. It is there until the kubelet, or its deletion, ends it."""

    name: str
    revision: str
    node: str | None = None
    ready: bool = False
    terminating: bool = False
    cost: int = 0


@dataclass(slots=True)
class Deployment:
    """A Deployment, its ReplicaSets by revision, the oldest first, and their pods by name."""

    replicas: int
    strategy: Strategy
    random: Random
    revision: str = "v1"
    sizes: dict[str, int] = field(default_factory=dict)
    pods: dict[str, DeployedPod] = field(default_factory=dict)
    _made: int = 0
    _scaled_from: int | None = None

    # ---- what users do

    def roll_out(self, revision: str) -> None:
        """Sets another template; an earlier one is a rollback."""
        self.revision = revision

    def scale(self, replicas: int) -> None:
        self._scaled_from = self.replicas
        self.replicas = replicas

    # ---- what the controllers do

    def is_complete(self) -> bool:
        """Whether there are all pods of the revision, ready, and no others."""
        pods = self.pods.values()
        return len(pods) == self.replicas and all(
            p.ready and not p.terminating and p.revision == self.revision for p in pods
        )

    def active(self, revision: str | None = None) -> list[DeployedPod]:
        """The pods that are not terminating."""
        return [
            p for p in self.pods.values() if not p.terminating and revision in (None, p.revision)
        ]

    def sync(self) -> tuple[list[DeployedPod], list[DeployedPod]]:
        """Both controllers look once. Returns the pods to create, and those to delete."""
        if self._scaled_from is not None and self.sizes:
            self._scale_sets(self._scaled_from)
            self._scaled_from = None
        elif self.strategy.recreate:
            self._recreate()
        else:
            self._roll()
        return self._reconcile()

    def _recreate(self) -> None:
        for revision in self.sizes:
            if revision != self.revision:
                self.sizes[revision] = 0
        if not any(p.revision != self.revision for p in self.pods.values()):
            self.sizes[self.revision] = self.replicas

    def _roll(self) -> None:
        surge, unavailable = self.strategy.resolved(self.replicas)
        sizes, new = self.sizes, self.revision
        size = sizes.setdefault(new, 0)
        total = sum(sizes.values())
        if size > self.replicas:
            sizes[new] = self.replicas
            return
        more = min(self.replicas + surge - total, self.replicas - size)
        if more > 0:
            sizes[new] += more
            return
        least = self.replicas - unavailable
        spare = total - least - (size - self._ready(new))
        old = [revision for revision in sizes if revision != new]
        for revision in old:
            # Pods that are not ready go first: that makes nothing unavailable.
            gone = max(0, min(spare, sizes[revision] - self._ready(revision)))
            sizes[revision] -= gone
            spare -= gone
        if total - least - (size - self._ready(new)) <= 0:
            return
        available = sum(min(self._ready(revision), sizes[revision]) for revision in sizes) - least
        for revision in old:
            gone = max(0, min(sizes[revision], available))
            sizes[revision] -= gone
            available -= gone

    def _scale_sets(self, before: int) -> None:
        """In the middle of a rollout every ReplicaSet gets its part."""
        active = [revision for revision, size in self.sizes.items() if size]
        if self.strategy.recreate or len(active) < 2:
            for revision in active or [self.revision]:
                self.sizes[revision] = self.replicas
            return
        allowed = self.replicas + self.strategy.resolved(self.replicas)[0]
        base = before + self.strategy.resolved(before)[0]
        left = allowed - sum(self.sizes.values())
        active.sort(key=lambda revision: -self.sizes[revision])
        for revision in active:
            size = self.sizes[revision]
            part = round(size * allowed / base) - size
            part = min(part, left) if left > 0 else max(part, left)
            part = part if (part > 0) is (left > 0) else 0
            self.sizes[revision] += part
            left -= part
        self.sizes[active[0]] = max(0, self.sizes[active[0]] + left)

    def _reconcile(self) -> tuple[list[DeployedPod], list[DeployedPod]]:
        """The ReplicaSets create and delete pods until each has its size."""
        created, deleted = [], []
        for revision, size in self.sizes.items():
            there = self.active(revision)
            for _ in range(size - len(there)):
                self._made += 1
                made = DeployedPod(f"web-{revision}-{self._made}", revision)
                self.pods[made.name] = made
                created.append(made)
            # As ActivePodsWithRanks has them: no node, not ready, the lowest cost, then by chance.
            there.sort(key=lambda p: (p.node is not None, p.ready, p.cost, self.random.random()))
            deleted += there[: max(0, len(there) - size)]
        for gone in deleted:
            gone.terminating = True
            if gone.node is None:
                del self.pods[gone.name]
        return created, deleted

    def _ready(self, revision: str) -> int:
        return sum(p.ready for p in self.active(revision))
