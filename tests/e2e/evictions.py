"""Evictions: the pods of a namespace that were evicted, as the API server tells of them.

They are told from other deletions by the condition that the Eviction API sets. A thread keeps them
up to date, so that they do not depend on what Placet says or forgets.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.e2e.bound_pods import watched_bindings
from tests.e2e.control_plane import ControlPlane

_REASON = "EvictionByEvictionAPI"


class Evictions:
    """Each eviction with the time and the name of its pod; and how few pods were ready at once."""

    def __init__(self) -> None:
        self.made: list[tuple[float, str]] = []
        self.fewest: int | None = None
        self._ready: set[str] = set()
        self._uids: set[str] = set()
        self._is_counting = False

    def begin(self) -> None:
        """Begin to look how few are ready: all are now."""
        self.fewest, self._is_counting = len(self._ready), True

    def names(self) -> Sequence[str]:
        return [name for _, name in list(self.made)]

    def most_in(self, seconds: float) -> int:
        """The most evictions in so many seconds."""
        times = [at for at, _ in list(self.made)]
        return max((sum(0 <= t - at < seconds for t in times) for at in times), default=0)

    def event(self, line: bytes) -> None:
        """Takes an event of the watch."""
        event = json.loads(line)
        pod = event["object"]
        uid, ends = pod["metadata"]["uid"], "deletionTimestamp" in pod["metadata"]
        conditions = {each["type"]: each for each in pod["status"].get("conditions", ())}
        if conditions.get("Ready", {}).get("status") == "True" and not ends:
            self._ready.add(uid)
        else:
            self._ready.discard(uid)
        if self._is_counting and self.fewest is not None:
            self.fewest = min(self.fewest, len(self._ready))
        if ends and uid not in self._uids and _was_evicted(conditions):
            self._uids.add(uid)
            self.made.append((time.monotonic(), pod["metadata"]["name"]))


def _was_evicted(conditions: dict[str, Any]) -> bool:
    return bool(conditions.get("DisruptionTarget", {}).get("reason") == _REASON)


@contextmanager
def watched_evictions(plane: ControlPlane, namespace: str) -> Iterator[Evictions]:
    """Follow the evictions of a namespace while the block runs."""
    found = Evictions()
    with watched_bindings(plane, namespace, found.event):
        yield found
