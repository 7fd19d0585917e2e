"""Nodes by place: what a decision goes over, as columns, and how it tells what has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import numpy.typing as npt

from engine.cache.node_view import NodeView

Places = npt.NDArray[np.intp]
Versions = npt.NDArray[np.int64]

# No node's place: what a name that is not known has. No view is there, and no version.
NOWHERE = 0


@dataclass(frozen=True, slots=True)
class NodeTable:
    """Views of nodes by place, and the version of each.

    A node keeps its place while it is there. Between two tables of one `owner` a place has another
    view only if it has another version; places of different owners have nothing in common.
    """

    owner: object
    places: Mapping[str, int]
    views: Sequence[NodeView | None]
    versions: Versions

    def find(self, names: Sequence[str]) -> Places:
        """The place of each name, NOWHERE for one that is not known."""
        found = map(self.places.get, names, repeat(NOWHERE))
        return np.fromiter(found, np.intp, len(names))


def table_of(views: Iterable[NodeView]) -> NodeTable:
    """A table that belongs to nobody else. Of two nodes of one name the later counts."""
    by_name = {view.name: view for view in views}
    places = {name: place for place, name in enumerate(by_name, start=NOWHERE + 1)}
    versions = np.ones(len(places) + 1, np.int64)
    versions[NOWHERE] = 0
    return NodeTable(object(), places, (None, *by_name.values()), versions)
