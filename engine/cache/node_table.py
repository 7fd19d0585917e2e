"""NodeTable and Snapshot: nodes by row with their pods and what these leave free, and the rest.

A request names thousands of nodes. Its names stay JSON, and an index finds their rows; none of them
becomes a string unless somebody reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, repeat
from statistics import median_low
from typing import overload

import msgspec
import numpy as np
import numpy.typing as npt

from engine.objects.disruption_budget import Budgets
from engine.objects.peer import Peer, Workload, key_of
from engine.objects.request_pod import Namespace, Node
from engine.objects.resources import total_requests
from grammar.values.quantity import Resources, less
from grammar.values.time import Timestamp

_QUOTE, _COMMA, _SPACE = b'", '
_LIST = msgspec.json.Decoder(list[str])

Offsets = npt.NDArray[np.intp]
NodeRows = npt.NDArray[np.intp]


# ---- a node with its pods


@dataclass(frozen=True, slots=True)
class NodeWithPods(Node):
    """A node with the pods on it. Its attributes include the fields of the schema's Node.

    `requested`, `free` and `pods` are None if the pods of the cluster are not known.
    """

    requested: Resources | None
    free: Resources | None
    pods: Sequence[Peer] | None


def with_pods(
    node: Node, pods: Sequence[Peer] | None, requested: Resources | None = None
) -> NodeWithPods:
    """A node with all its pods that have not ended; None if they are not known.

    `requested` is the sum of their requests, if the caller has it already.
    """
    if requested is None and pods is not None:
        requested = total_requests([pod.requests for pod in pods])
    free = None if requested is None else less(node.allocatable, requested)
    return NodeWithPods(
        name=node.name,
        labels=node.labels,
        kind=node.kind,
        apiVersion=node.apiVersion,
        metadata=node.metadata,
        spec=node.spec,
        status=node.status,
        allocatable=node.allocatable,
        requested=requested,
        free=free,
        pods=pods,
    )


def as_offered(node: Node, known: NodeWithPods | None) -> NodeWithPods:
    """A node as a request shows it, with the pods that the cache has on it."""
    return with_pods(node, None) if known is None else with_pods(node, known.pods, known.requested)


def is_ready(node: NodeWithPods) -> bool:
    """What `node.ready` is: a node without the condition is not ready."""
    conditions = (node.status and node.status.conditions) or ()
    return any(each.type == "Ready" and each.status == "True" for each in conditions)


def without(known: NodeWithPods, gone: Collection[Peer]) -> NodeWithPods:
    """The node as if these pods were not on it."""
    uids = {pod.uid for pod in gone}
    left = tuple(pod for pod in known.pods or () if pod.uid not in uids)
    requested = total_requests([pod.requests for pod in left])
    return replace(known, requested=requested, free=less(known.allocatable, requested), pods=left)


# ---- the names of a request


class KnownRows(msgspec.Struct, frozen=True, eq=False):
    """The rows of the nodes of a request, if each node is known and named once.

    `nodes` has the row of every node of the cache. It is replaced when these change.
    """

    rows: NodeRows
    nodes: Mapping[str, int]


class ListedNames(Sequence[str]):
    """A JSON list of names, which becomes strings only when it is read.

    `json` has at least one name, no white space between names and no escapes. `known_rows` are
    the rows where the names were found last.
    """

    def __init__(self, json: bytes, known_rows: KnownRows | None = None) -> None:
        self.json = json
        self.known_rows = known_rows
        self._count = 0

    @classmethod
    def of(cls, json: bytes) -> ListedNames | None:
        """The names of a JSON list of one name or more; None if a JSON decoder must read it.

        That is so for white space, escapes and other characters than ASCII, and for a name that has
        a comma between quotes, which no node name has. The test is a count. Suppose that no name
        has a comma between quotes, and that neither the first nor the last quote is beside a comma.
        Then there is a `","` for every two quotes between these two only if each pair ends a name
        and begins the next.
        """
        if not (json.startswith(b'["') and json.endswith(b'"]') and json.isascii()):
            return None
        text = np.frombuffer(json, np.uint8)
        if b"\\" in json or np.minimum.reduce(text) < _SPACE:
            return None
        quotes = text == _QUOTE
        count = int(np.count_nonzero(quotes))
        between = quotes[:-2] & (text[1:-1] == _COMMA)
        between &= quotes[2:]
        if count != 2 * int(np.count_nonzero(between)) + 2 or between[1] or between[-2]:
            return None
        if np.count_nonzero(between[:-2] & between[2:]):
            return None
        names = cls(json)
        names._count = count // 2
        return names

    def __len__(self) -> int:
        return self._count if self.known_rows is None else len(self.known_rows.rows)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        return self._names[index]

    @cached_property
    def quotes(self) -> Offsets:
        """The offsets in `json` of the quotes, two for each name."""
        quotes: Offsets = (np.frombuffer(self.json, np.uint8) == _QUOTE).nonzero()[0]
        return quotes

    @cached_property
    def _names(self) -> list[str]:
        return _LIST.decode(self.json)


# ---- the index of names
#
# A hash table of columns with open addressing. Every name is as many words of eight bytes as the
# longest one needs, with zeros behind its end. The words of a request's names are cut out of its
# JSON.

_Words = npt.NDArray[np.uint64]

_WORD_BYTES = 8
# The least number of slots per name: the more slots, the fewer names need a second look.
_SLOTS = 8
# Odd, without a pattern: the upper bits of a product depend on all bits of the other factor.
_FACTOR = 0x9E3779B97F4A7C15


class NameIndex:
    """An index of rows by name; no row is 0. The table is made at the first search."""

    def __init__(self, rows: Mapping[str, int]) -> None:
        self._by_name = rows

    def find(self, names: ListedNames) -> NodeRows | None:
        """The row of each name; None if a name is not known."""
        return self._table.find(names)

    @cached_property
    def _table(self) -> _Table:
        return _Table(self._by_name)


class _Table:
    """The hash table of a NameIndex: words, hashes and slots, by row."""

    def __init__(self, rows: Mapping[str, int]) -> None:
        encoded = [name.encode() for name in rows]
        lengths = np.fromiter(map(len, encoded), np.intp, len(encoded))
        words = 1 + int(lengths.max(initial=0)) // _WORD_BYTES
        self._bytes = words * _WORD_BYTES
        self._dtype = np.dtype(f"V{self._bytes}")
        self._zeros = bytes(self._bytes)
        # The bits of the words that belong to a name, by the length of the name.
        own = np.tri(self._bytes + 1, self._bytes, -1, np.uint8) * np.uint8(255)
        self._masks: _Words = own.view(np.uint64)
        powers = [pow(_FACTOR, power, 1 << 64) for power in range(1, words + 1)]
        self._factors: _Words = np.array(powers, np.uint64)

        where = np.fromiter(rows.values(), np.intp, len(rows))
        size = int(where.max(initial=0)) + 1
        self._words: _Words = np.zeros((size, words), np.uint64)
        self._words[where] = self._cut(b"".join(encoded), lengths.cumsum() - lengths, lengths)
        self._hashes: _Words = self._words @ self._factors
        bits = max(1, (_SLOTS * size).bit_length())
        self._shift = np.uint64(64 - bits)
        self._last_slot = (1 << bits) - 1
        self._slots: NodeRows = np.zeros(1 << bits, np.intp)
        self._fill(where)

    def _fill(self, rows: NodeRows) -> None:
        """Give each row the slot of its hash, or the next free slot."""
        slots = self._first_slots(self._hashes[rows])
        while len(rows):
            free = self._slots[slots] == 0
            # If several rows want one slot, the last one gets it.
            self._slots[slots[free]] = rows[free]
            left = self._slots[slots] != rows
            rows, slots = rows[left], (slots[left] + 1) & self._last_slot

    def find(self, names: ListedNames) -> NodeRows | None:
        """The row of each name; None if a name is not known."""
        starts = names.quotes[::2] + 1
        lengths = names.quotes[1::2] - starts
        if np.maximum.reduce(lengths) > self._bytes:
            return None
        words = self._cut(names.json, starts, lengths)
        hashes = words @ self._factors
        slots = self._first_slots(hashes)
        found = self._slots.take(slots)
        left = (self._hashes.take(found) != hashes).nonzero()[0]
        while len(left):
            if not found[left].all():
                return None
            slots[left] = (slots[left] + 1) & self._last_slot
            found[left] = self._slots[slots[left]]
            left = left[self._hashes[found[left]] != hashes[left]]
        # Two names may have the same hash.
        differ = self._words.take(found, axis=0) != words
        return None if np.count_nonzero(differ) else found

    def _first_slots(self, hashes: _Words) -> NodeRows:
        return (hashes >> self._shift).view(np.intp)

    def _cut(self, text: bytes, starts: Offsets, lengths: Offsets) -> _Words:
        """The words of the names at these places of a text."""
        every: npt.NDArray[np.void] = np.ndarray(
            len(text) + 1, self._dtype, text + self._zeros, strides=(1,)
        )
        cut: _Words = every[starts].view(np.uint64).reshape(-1, self._masks.shape[1])
        cut &= self._masks.take(lengths, axis=0)
        return cut


# ---- the nodes by row

Versions = npt.NDArray[np.int64]

# The row of a name that is not known. It has no node, and its version never changes.
UNKNOWN_ROW = 0


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class RowUse:
    """The use of rows. While it lives, each row of the tables stands for the same name of a node.

    `number` rises with each change of the names.
    """

    number: int = 0


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class NodeTable:
    """Views of nodes by row, and the version of each. `index` finds the rows of many names at once.

    A node keeps its row as long as it exists. If two tables have the same `owner`, a row with the
    same version has the same node in both. Rows of tables with different owners are unrelated.

    Who keeps rows for later keeps their `use`: a row then has the node of its name, or none, also
    if the node goes and another one comes under the name.
    """

    owner: object
    rows: Mapping[str, int]
    nodes: Sequence[NodeWithPods | None]
    versions: Versions
    index: NameIndex | None = None
    use: RowUse = field(default_factory=RowUse)

    def node(self, name: str) -> NodeWithPods | None:
        """The node with its pods; None if the name is not known."""
        return self.nodes[self.rows.get(name, UNKNOWN_ROW)]

    def find(self, names: Sequence[str]) -> NodeRows:
        """The row of each name, UNKNOWN_ROW for an unknown one."""
        if type(names) is ListedNames and self.index is not None:
            if (known := names.known_rows) is not None and known.nodes is self.rows:
                return known.rows
            if (rows := self.index.find(names)) is not None:
                return rows
        found = map(self.rows.get, names, repeat(UNKNOWN_ROW))
        return np.fromiter(found, np.intp, len(names))

    def locate(self, names: Sequence[str]) -> tuple[NodeRows, KnownRows | None]:
        """As `find`, and the same as KnownRows if every name is known and unique.

        The names remember them.
        """
        rows = self.find(names)
        listed = names if type(names) is ListedNames else None
        if listed is not None and listed.known_rows is not None and listed.known_rows.rows is rows:
            return rows, listed.known_rows
        if not len(rows):
            return rows, None
        counts = np.bincount(rows)
        if counts[UNKNOWN_ROW] or np.maximum.reduce(counts) > 1:
            return rows, None
        known_rows = KnownRows(rows, self.rows)
        if listed is not None:
            listed.known_rows = known_rows
        return rows, known_rows


# A table of a cluster of which nothing is known.
NO_NODES = NodeTable(object(), {}, (None,), np.zeros(1, np.int64))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of the cluster at one moment.

    `pending` are the pods without a node, and `strays` the pods on an unknown node, by key
    (`namespace/name`). Pods that have ended are in neither of the two, and on no node. `workloads`
    are the root workloads by the uid of a pod's direct controller, and `failures` the last pods of
    that controller that failed. `budgets` are the disruption budgets, None if they are not known.
    """

    table: NodeTable
    pending: Mapping[str, Peer]
    strays: Mapping[str, Peer]
    namespaces: Mapping[str, Namespace]
    workloads: Mapping[str, Workload]
    budgets: Budgets | None = None
    failures: Mapping[str, Sequence[Peer]] = field(default_factory=dict)

    def node(self, name: str) -> NodeWithPods | None:
        return self.table.node(name)

    @property
    def nodes(self) -> Mapping[str, NodeWithPods]:
        """The nodes by name. Each call makes a new mapping."""
        return {view.name: view for view in self.table.nodes if view is not None}

    def pods(self) -> Mapping[str, Peer]:
        """All pods by key. Each call makes a new mapping."""
        placed = ((node and node.pods) or () for node in self.table.nodes)
        on_nodes = {key_of(pod): pod for pods in placed for pod in pods}
        return {**on_nodes, **self.strays, **self.pending}

    def newest(self) -> Timestamp | None:
        """The latest creation time, heartbeat or transition time of all nodes and pods.

        A pod may also have failed since. The clocks of `clocks_ahead` do not count.
        """
        failed = (p.ended or p.created for known in self.failures.values() for p in known)
        created = (pod.created for pod in self.pods().values())
        ahead = self.clocks_ahead()
        of_clocks = (_clock_times(node) for name, node in self.nodes.items() if name not in ahead)
        nodes = (node.metadata for node in self.nodes.values() if node.metadata is not None)
        made = (metadata.creationTimestamp for metadata in nodes)
        times = chain(made, chain.from_iterable(of_clocks), created, failed)
        return max((at for at in times if at is not None), default=None)

    def clocks_ahead(self) -> Sequence[str]:
        """The ready nodes whose clock is an hour and more before the median of all of them."""
        newest = {
            name: max((at.nanos for at in _clock_times(node) if at is not None), default=0)
            for name, node in self.nodes.items()
            if is_ready(node)
        }
        if not newest:
            return ()
        usual = median_low(newest.values()) + _MOST_AHEAD
        return [name for name, at in newest.items() if at > usual]


# How far clocks of nodes differ where nothing is wrong with them, in nanoseconds: an hour.
_MOST_AHEAD = 3600 * 10**9


def _clock_times(node: NodeWithPods) -> Iterable[Timestamp | None]:
    for condition in (node.status and node.status.conditions) or ():
        yield condition.lastHeartbeatTime
        yield condition.lastTransitionTime
