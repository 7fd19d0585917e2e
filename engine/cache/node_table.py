"""Nodes by place: what a decision goes over, as columns, and how it tells what has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import numpy.typing as npt

from engine.cache.listed_names import ListedNames, Where
from engine.cache.name_index import NameIndex
from engine.cache.node_view import NodeView

Places = npt.NDArray[np.intp]
Versions = npt.NDArray[np.int64]

# No node's place: what a name that is not known has. No view is there, and no version.
NOWHERE = 0


@dataclass(frozen=True, slots=True)
class NodeTable:
    """Views of nodes by place, and the version of each; `index` has their names, for many at once.

    A node keeps its place while it is there. Between two tables of one `owner` a place has another
    view only if it has another version; places of different owners have nothing in common.
    """

    owner: object
    places: Mapping[str, int]
    views: Sequence[NodeView | None]
    versions: Versions
    index: NameIndex | None = None

    def find(self, names: Sequence[str]) -> Places:
        """The place of each name, NOWHERE for one that is not known."""
        if type(names) is ListedNames and self.index is not None:
            if names.where is not None and names.where.nodes is self.places:
                return names.where.places
            if (places := self.index.find(names)) is not None:
                return places
        found = map(self.places.get, names, repeat(NOWHERE))
        return np.fromiter(found, np.intp, len(names))

    def where(self, names: Sequence[str], places: Places) -> Where | None:
        """Where all of these names are, if each is known and is there once; `places` are theirs."""
        known = names.where if type(names) is ListedNames else None
        if known is not None and known.places is places:
            return known
        if not len(places):
            return None
        counts = np.bincount(places)
        if counts[NOWHERE] or np.maximum.reduce(counts) > 1:
            return None
        where = Where(places, self.places)
        if type(names) is ListedNames:
            names.where = where
        return where


def table_of(views: Iterable[NodeView]) -> NodeTable:
    """A table that belongs to nobody else. Of two nodes of one name the later counts."""
    by_name = {view.name: view for view in views}
    places = {name: place for place, name in enumerate(by_name, start=NOWHERE + 1)}
    versions = np.ones(len(places) + 1, np.int64)
    versions[NOWHERE] = 0
    views_by_place = (None, *by_name.values())
    return NodeTable(object(), places, views_by_place, versions, NameIndex(places))
