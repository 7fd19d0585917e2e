"""Nodes as requests show them: decoded once per version, however often they are offered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.cache.node_table import NodeTable, Places
from engine.cache.node_view import NodeView, view_of
from engine.cache.snapshot import Snapshot
from engine.objects import ObjectCodec

# Names come and go; a table with so many starts over.
_MOST_NODES = 20_000


@dataclass(frozen=True, slots=True)
class _Seen:
    """A node's JSON, and what the cache counted on it."""

    body: bytes
    counted: NodeView | None


class OfferedNodes:
    """A table of the nodes in the bodies of full-node requests."""

    def __init__(self, codec: ObjectCodec) -> None:
        self._codec = codec
        self._start_over()

    def _start_over(self) -> None:
        self._places: dict[str, int] = {}
        self._seen: list[_Seen | None] = [None]
        self._views: list[NodeView | None] = [None]
        self._versions = np.zeros(1, np.int64)
        self._owner = object()
        self._version = 0

    def table(
        self, names: Sequence[str], bodies: Sequence[bytes], snapshot: Snapshot | None
    ) -> tuple[NodeTable, Places]:
        """The table, and the place of each of the offered nodes. Raises BadObjectError.

        The table is good until the next call.
        """
        if len(self._places) + len(names) > _MOST_NODES:
            self._start_over()
        counted = snapshot.node if snapshot is not None else (lambda _: None)
        changed = []
        found = np.empty(len(names), np.intp)
        for i, (name, body) in enumerate(zip(names, bodies, strict=True)):
            place = self._places.get(name)
            known = counted(name)
            if place is None:
                place = self._places[name] = len(self._seen)
                self._seen.append(None)
                self._views.append(None)
            seen = self._seen[place]
            if seen is None or seen.counted is not known or seen.body != body:
                self._views[place] = view_of(self._codec.node(body), known)
                self._seen[place] = _Seen(bytes(body), known)
                changed.append(place)
            found[i] = place
        if len(self._versions) < len(self._seen):
            more = np.zeros(len(self._seen) - len(self._versions), np.int64)
            self._versions = np.concatenate([self._versions, more])
        self._version += 1
        self._versions[changed] = self._version
        return NodeTable(self._owner, self._places, self._views, self._versions), found
