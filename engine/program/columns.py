"""Columns: what is evaluated once and kept, per request, per version of a node, or kind of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from itertools import islice
from typing import Generic, Protocol, TypeVar
from weakref import ReferenceType, ref

import numpy as np
import numpy.typing as npt

from engine.cache.node_table import NodeRows, NodeTable
from engine.fairness import FairShares
from engine.program.frame import NO_GROUPS, Evaluate, Evaluation, Frame, LazyFrame, unlimited
from engine.program.policy_time import CallTime
from grammar.values.errors import EvaluationError
from grammar.values.optional import Optional
from grammar.values.quantity import Quantity
from grammar.values.sizes import STEPS
from grammar.values.time import NEVER, Duration, Timestamp

# A column of so many nodes is cleared, because node names come and go.
MOST_NODES = 100_000
# The values that the columns of one policy keep, or of all policies of namespaces together, and the
# largest of them.
COLUMN_BYTES, SHARED_BYTES = 64 << 20, 16 << 20
_LARGEST = 32 << 10
# A value that has no parts, with its place in a column.
_SINGLE = 256
_SINGLES = frozenset({bool, int, float, Quantity, Duration, Timestamp})


def footprint(value: object) -> int:
    """The bytes of a value that is kept, roughly; more than the largest one for any larger."""
    if value.__class__ in _SINGLES:
        return _SINGLE
    total, inside = _SINGLE, [value]
    while inside and total <= _LARGEST:
        each = inside.pop()
        total += 64
        if isinstance(each, str):
            # A character may take four.
            total += len(each) if each.isascii() else 4 * len(each)
        elif isinstance(each, list | tuple):
            total += 8 * len(each)
            inside.extend(each[: _LARGEST // 64])
        elif isinstance(each, Mapping):
            total += 32 * len(each)
            inside.extend(islice(each.values(), _LARGEST // 64))
            inside.extend(islice(each, _LARGEST // 64))
        elif isinstance(each, Optional):
            inside.append(each.value)
    return total


def with_own_steps(evaluate: Evaluate) -> Evaluate:
    """The closure with the steps of one evaluation, so that its value is the same for who asks.

    It leaves the steps that it took in `frame.spent`.
    """

    def run(frame: Frame) -> object:
        left = frame.fuel + frame.reserve
        frame.refill()
        try:
            return evaluate(frame)
        finally:
            frame.spent = STEPS - frame.fuel - frame.reserve
            frame.reserve = left - frame.fuel

    return run


def once_per_pod(evaluate: Evaluate, *, charges: bool) -> Evaluate:
    """The closure, evaluated once per request. Its value or error is kept in the frame.

    With `charges` it may take steps. A list, map or text for which there is no room is evaluated
    each time, and whoever asks spends its steps.
    """
    part = object()
    if charges:
        evaluate = with_own_steps(evaluate)

    def run(frame: Frame) -> object:
        kept: tuple[object, EvaluationError | None] | None
        kept = frame.memo.get(part)  # type: ignore[assignment]
        if kept is None:
            try:
                kept = evaluate(frame), None
            except EvaluationError as error:
                kept = None, error
            size = footprint(kept[0]) if kept[1] is None else _SINGLE
            # A single value is always kept: whoever asks for one may have no steps of its own.
            if size <= _SINGLE or size <= min(_LARGEST, frame.room):
                frame.room -= size
                frame.memo[part] = kept
            elif charges:
                frame.burn(frame.spent)
        value, error_ = kept
        if error_ is not None:
            # A kept error is raised many times; its traceback must not grow each time.
            raise error_.with_traceback(None)
        return value

    return run


class ColumnRooms:
    """The room for the columns of all policies: those of namespaces have fair shares of one.

    What a policy has kept is free when nobody has its closures any more.
    """

    def __init__(self) -> None:
        self.shares = FairShares(SHARED_BYTES)
        # What policies have kept that are gone; from any thread.
        self.gone: deque[tuple[str, int]] = deque()

    def left(self, owner: str) -> int:
        while self.gone:
            self.shares.add(*self.gone.popleft())
        return self.shares.left(owner)


class ColumnRoom:
    """The bytes that the columns of one policy may still take; its compiler has it.

    `rooms` is None for a policy of no namespace, which shares its room with no other.
    """

    __slots__ = ("_owner", "_rooms", "_taken")

    def __init__(self, rooms: ColumnRooms | None = None, owner: str = "") -> None:
        self._rooms = rooms if owner else None
        self._owner = owner
        self._taken = 0

    def __del__(self) -> None:
        if self._rooms is not None and self._taken:
            self._rooms.gone.append((self._owner, -self._taken))

    @property
    def left(self) -> int:
        return self._rooms.left(self._owner) if self._rooms else COLUMN_BYTES - self._taken

    def take(self, size: int) -> None:
        self._taken += size
        if self._rooms is not None:
            self._rooms.shares.add(self._owner, size)


def once_per_node(
    evaluate: Evaluate, room: ColumnRoom, *, charges: bool, reads_facts: bool = False
) -> Evaluate:
    """The closure of a part that reads only the node, evaluated once per version of the node.

    The closure owns the values. A node's view is immutable, so the view itself is the version. If
    it reads `cardFacts` too, all is forgotten when these change. A value that is too large to keep
    is evaluated each time, and whoever asks spends its steps.
    """
    column: dict[str, tuple[object, object, EvaluationError | None, int]] = {}
    facts: object = None
    held = 0
    if charges:
        evaluate = with_own_steps(evaluate)

    def run(frame: Frame) -> object:
        nonlocal held, facts
        if reads_facts and frame.cardFacts is not facts:
            facts = frame.cardFacts
            column.clear()
            room.take(-held)
            held = 0
        node = frame.node
        name: str = node.name  # type: ignore[attr-defined]
        kept = column.get(name)
        if kept is not None and kept[0] is node:
            if kept[2] is not None:
                raise kept[2].with_traceback(None)
            return kept[1]
        value, failure = None, None
        try:
            value = evaluate(frame)
        except EvaluationError as error:
            failure = error.with_traceback(None)
        size = footprint(value)
        if size <= _LARGEST:
            # Another version of the node leaves.
            grown_by = size - (kept[3] if kept is not None else 0)
            if grown_by > room.left or len(column) >= MOST_NODES:
                column.clear()
                room.take(-held)
                held, grown_by = 0, size
            room.take(grown_by)
            held += grown_by
            column[name] = node, value, failure, size
        elif charges:
            frame.burn(frame.spent)
        if failure is not None:
            raise failure
        return value

    return run


# The version of no node.
_NO_VERSION = -1
# The most rows that are evaluated before the results are kept.
_PORTION = 512
Scalar = TypeVar("Scalar", bound=np.generic)
# In nanoseconds; NEVER is one that never comes.
Moments = npt.NDArray[np.int64]


class Freshness:
    """The freshness of a column: the version of its node at which each row was last evaluated.

    In a `time_dependent` column, a row is also evaluated at the moment when its value may change.
    A clause reads some `tables`: when one of these changes, all rows are evaluated again.
    """

    def __init__(
        self, *, time_dependent: bool = False, tables: Iterable[AbstractSet[str]] = ()
    ) -> None:
        self.time_dependent = time_dependent
        self._tables = frozenset[str]().union(*tables)
        self._owner: object = None
        self._versions: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._portion = _PORTION
        self._is_finished = True
        # The last table, which of its rows are stale, and how many of them.
        self._table: ReferenceType[NodeTable] | None = None
        self._stale: npt.NDArray[np.bool_] = np.empty(0, np.bool_)
        self._left = 0
        # The time of the last call, and the moments at which rows may change, in nanoseconds.
        self._last = -NEVER
        self._until: Moments = np.empty(0, np.int64)

    def stale(
        self, table: NodeTable, now: Callable[[], int], rows: NodeRows | None = None
    ) -> list[NodeRows]:
        """The rows that must be evaluated, in portions whose results are kept.

        If none of the last portions was finished, because the time was over, these are smaller.

        They are among `rows`, or among all. The rows of another owner are all stale, because they
        are other nodes. `now` gives nanoseconds.
        """
        if self.time_dependent:
            # The moment of some rows has come; of all if the clock was set back.
            moment = now()
            if moment < self._last:
                self.forget()
            elif np.count_nonzero(due := self._until <= moment):
                self._versions[due] = _NO_VERSION
                self._table = None
            self._last = moment
        if self._table is None or self._table() is not table:
            self._compare(table)
        # In most calls no node of the cluster has changed, or few have.
        if not self._left or (rows is not None and not np.count_nonzero(self._stale[rows])):
            return []
        asked = self._stale
        if rows is not None:
            asked = np.zeros(len(self._stale), np.bool_)
            asked[rows] = True
            asked &= self._stale
        changed = asked.nonzero()[0]
        if not self._is_finished:
            self._portion = max(1, self._portion // 8)
        self._is_finished, size = False, self._portion
        return [changed[i : i + size] for i in range(0, len(changed), size)]

    def _compare(self, table: NodeTable) -> None:
        """Finds the rows of a table that are stale."""
        if self._owner is not table.owner:
            self._owner = table.owner
            self._versions, self._until = np.empty(0, np.int64), np.empty(0, np.int64)
        self._versions = grown(self._versions, len(table.nodes), _NO_VERSION)
        if self.time_dependent:
            self._until = grown(self._until, len(table.nodes), NEVER)
        self._stale = self._versions[: len(table.versions)] != table.versions
        self._left = int(np.count_nonzero(self._stale))
        self._table = ref(table)

    def moments(self, rows: NodeRows) -> Moments | None:
        """The moments of the rows, for who evaluates them to lower; None if they never change."""
        return np.full(len(rows), NEVER) if self.time_dependent else None

    def worked_out(self, table: NodeTable, rows: NodeRows, until: Moments | None = None) -> None:
        """Takes the rows as evaluated; they last `until` these moments."""
        self._is_finished = True
        self._versions[rows] = table.versions[rows]
        self._stale[rows] = False
        self._left = int(np.count_nonzero(self._stale))
        if until is not None:
            self._until[rows] = until

    def forget(self) -> None:
        self._versions[:] = _NO_VERSION
        self._table = None

    def tables_changed(self, digests: AbstractSet[str]) -> None:
        """Has all rows be evaluated again if they depend on one of these tables."""
        if self._tables & digests:
            self.forget()


def grown(array: npt.NDArray[Scalar], size: int, fill: float) -> npt.NDArray[Scalar]:
    """The array, or a copy that is extended to `size` with `fill`."""
    if len(array) >= size:
        return array
    longer = np.full(size, fill, array.dtype)
    longer[: len(array)] = array
    return longer


# ---- kinds of nodes
#
# `node.free["cpu"] - pod.requests["cpu"] >= "200m"` reads one amount of a node. All nodes with the
# same amount are of one kind, and the clause says the same of each, for any one pod. So the kind of
# a node is worked out once per version of the node, for pods of every shape, and the clause is
# evaluated once per shape and kind. A node that changes in nothing that the clause reads stays of
# its kind. Values and errors are the same as in an evaluation for each node.

# What tells nodes apart to a clause.
NodeKey = Callable[[Frame], Hashable]
# The kind of a row without a node.
NO_NODE = 0
# With more kinds than this and than every other row, nearly each node is of a kind of its own.
_MOST_KINDS = 1024
# Beyond so many kinds for each row, and so many besides, they are found anew: those of earlier
# versions of nodes are gone.
_KINDS_PER_ROW, _SPARE_KINDS = 2, 64
Value = TypeVar("Value")


def node_key(parts: Sequence[Evaluate]) -> NodeKey:
    """What parts read of a node, as a key; an error is told by its text."""
    if len(parts) == 1:
        (part,) = parts
        return lambda frame: _as_key(part, frame)
    return lambda frame: tuple([_as_key(part, frame) for part in parts])


def _as_key(part: Evaluate, frame: Frame) -> Hashable:
    try:
        value = part(frame)
    except EvaluationError as error:
        return error.__class__, str(error)
    if value.__class__ is Quantity:
        # Equal quantities may be written in different ways; so may equal numbers.
        return value.nanos, value.suffix
    return repr(value) if value.__class__ is float else value


class KindedClause(Protocol):
    """A clause; nodes with equal `of_node` are alike to it.

    The time is looked at after `nodes_per_look` nodes.
    """

    @property
    def nodes_per_look(self) -> int: ...
    @property
    def of_node(self) -> NodeKey | None: ...


class NodeKinds:
    """The kind of each node to one clause, by row. `era` is replaced when numbers begin anew."""

    def __init__(self, key: NodeKey, per_look: int) -> None:
        """The time is looked at after `per_look` nodes."""
        self._key = key
        self.per_look = per_look
        self._frame: Frame | None = None
        # Whether the clause tells nearly every node from all others.
        self.are_useless = False
        self._owner: object = None
        self.era = object()
        self._fresh = Freshness()
        self._kinds: npt.NDArray[np.int32] = np.empty(0, np.int32)
        self._numbers: dict[Hashable, int] = {}

    def of(self, table: NodeTable, rows: NodeRows, evaluation: Evaluation) -> Sequence[int]:
        """The kind of each row.

        Raises DeadlineExceededError and ExpensivePolicyError; what was found until then is kept.
        """
        size = len(table.nodes)
        most = _KINDS_PER_ROW * size + _SPARE_KINDS
        if self._owner is not table.owner or len(self._numbers) > most:
            self._owner, self.era, self._numbers = table.owner, object(), {}
            self._fresh, self._kinds = Freshness(), np.empty(0, np.int32)
        self._kinds = grown(self._kinds, size, NO_NODE)
        for portion in self._fresh.stale(table, evaluation.now, rows):
            self._find(table, portion, evaluation.frame, evaluation.time)
            self._fresh.worked_out(table, portion)
        found: list[int] = self._kinds.take(rows).tolist()
        return found

    def _find(self, table: NodeTable, rows: NodeRows, frame_of: LazyFrame, time: CallTime) -> None:
        """Works out the kind of each row."""
        if self._frame is None:
            # Any pod is as good.
            self._frame = copy(frame_of())
            self._frame.groups = NO_GROUPS
        frame, numbers = self._frame, self._numbers
        frame.check = time.check_within
        try:
            for count, row in enumerate(rows.tolist()):
                if count and not count % self.per_look:
                    time.check()
                frame.node, kind = table.nodes[row], NO_NODE
                if frame.node is not None:
                    kind = numbers.setdefault(self._key(frame), len(numbers) + 1)
                self._kinds[row] = kind
        finally:
            frame.check = unlimited
        if len(numbers) > _MOST_KINDS and 2 * len(numbers) > np.count_nonzero(self._kinds):
            self.are_useless = True


# The kinds of nodes to a clause, which many memos share; None where it tells none apart.
KindsOf = Callable[[KindedClause], NodeKinds | None]


def no_kinds(_: KindedClause) -> None:
    """For a memo that shares nothing."""


class ByKind(Generic[Value]):
    """Values by kind: what a clause gives for each kind of nodes, for pods of one shape."""

    def __init__(self, kinds: NodeKinds, nothing: Value) -> None:
        """`nothing` is for a row without a node."""
        self.kinds = kinds
        self._nothing = nothing
        self._era = kinds.era
        self._known: dict[int, Value] = {NO_NODE: nothing}

    def values(
        self,
        table: NodeTable,
        rows: NodeRows,
        evaluation: Evaluation,
        evaluate: Callable[[Frame], Value],
    ) -> Sequence[Value]:
        """The value for each row. Raises as `NodeKinds.of`; what was found until then is kept."""
        kinds = self.kinds.of(table, rows, evaluation)
        if self._era is not self.kinds.era:
            self._era, self._known = self.kinds.era, {NO_NODE: self._nothing}
        known = self._known
        row_of = dict(zip(kinds, rows.tolist(), strict=True))
        if new := row_of.keys() - known.keys():
            if len(known) > len(table.nodes) // 2 + _SPARE_KINDS:
                # Most are of earlier versions of nodes.
                self._known = known = {kind: known[kind] for kind in row_of.keys() & known.keys()}
                known[NO_NODE] = self._nothing
            frame, time = evaluation.frame(), evaluation.time
            for count, kind in enumerate(new):
                if count and not count % self.kinds.per_look:
                    time.check()
                frame.node = table.nodes[row_of[kind]]
                known[kind] = evaluate(frame)
        return list(map(known.__getitem__, kinds))
