"""Item kinds: the items of a node's list, told apart by what a macro reads of them.

`node.pods.exists(p, p.labels["app"] == pod.labels["app"])` reads one label of each pod. All pods
with the same label are of one kind, on whatever node, and the test is the same for all of them. So
the kinds on a node are kept once per version of the node, the test is evaluated once per request
and kind, and the macro goes over the items of kinds that may decide. Values, errors and steps are
the same as in a loop over all items. Of `p.uid != pod.uid && p.labels == pod.labels` the second
part tells kinds, and items of a kind that fails it take no steps of the first.

An ItemKinds belongs to the closure of one macro and lives as long as its policy.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec

from engine.program.columns import MOST_NODES, ColumnRoom, with_own_steps
from engine.program.frame import Evaluate, Frame
from engine.program.macros import Items
from grammar.tree.types import Type
from grammar.values.errors import EvaluationError
from grammar.values.quantity import Quantity

# The nodes of a request for which a loop over the items takes less than finding their kinds, or
# than a look at every kind where no text tells which of them may decide.
LOOPED = 64
# Above this number of kinds all are forgotten, because pods come and go. If there are then fewer
# items of a kind than this, kinds are of no use here.
MOST_KINDS = 16_384
_LEAST_ITEMS = 4
# The kinds that are evaluated between two looks at the clock.
_KINDS_PER_LOOK = 512
# The bytes that are kept of a node, of each of its items, and of a kind, whose item may be gone.
_NODE_BYTES, _ITEM_BYTES, _KIND_BYTES = 512, 80, 1536

# The value that a part of a macro reads of an item, as a key.
ReadKey = Callable[[Frame], Hashable]


class NodeItems(msgspec.Struct, frozen=True, eq=False):
    """The items of one version of a node, the kind of each, and the steps of a loop over them."""

    node: object
    items: Sequence[object]
    kinds: tuple[int, ...]
    among: frozenset[int]
    steps: int


class MacroItems(msgspec.Struct, frozen=True, eq=False):
    """The items of a macro: how to `read` them, the `slot` of each, and the `parts` that tell them.

    `weight` are the steps that `read` takes for each item. For each of `wanted`, the test gives
    `passive` for every item whose part of this index is not the text that the closure gives, unless
    one of them fails.
    """

    read: Items
    slot: int
    parts: Sequence[ReadKey]
    weight: int
    wanted: Sequence[tuple[int, Evaluate]] = ()


class ItemKinds:
    """The kinds of the items of one macro, and what the test gives for each kind in a request.

    The parts of `items` read all that `test` reads of one; what it reads otherwise is the same in a
    request. If `charges`, it takes steps.

    After `of`, `decisive` has the kinds for which the test does not give `passive`, and `steps`
    what the tests took, if they take any.
    """

    def __init__(
        self, items: MacroItems, test: Evaluate, room: ColumnRoom, *, passive: bool, charges: bool
    ) -> None:
        self._items = items.read
        self._slot = items.slot
        self._parts = items.parts
        self._weight = items.weight
        # Steps that are not taken cannot be told.
        self._wanted = () if charges else items.wanted
        self._test = with_own_steps(test) if charges else test
        self._room = room
        self._passive = passive
        self._column: dict[str, NodeItems] = {}
        self._numbers: dict[tuple[Hashable, ...], int] = {}
        # An item of each kind, and the kinds with each text of a wanted part; None has errors.
        self._samples: list[object] = []
        self._by_text: list[dict[str | None, list[int]]] = [{} for _ in self._wanted]
        # The number of items that were examined, and the bytes that are kept of them.
        self._examined = 0
        self._held = 0
        self._is_of_use = True
        # The memo of the request's frame, and the nodes that still have a loop of their own.
        self._memo: object = None
        self._loops = 0
        self._evaluated = 0
        self.steps: dict[int, int] | None = {} if charges else None
        self.decisive: set[int] = set()

    def of(self, frame: Frame) -> NodeItems | None:
        """The items of the frame's node, after taking the fuel for them; None: loop over them.

        Raises what the list raises, and what `Frame.refuel` does.
        """
        if frame.memo is not self._memo:
            self._memo = frame.memo
            self._loops = LOOPED
            self._forget_outcomes()
        node = frame.node
        kept = self._column.get(node.name)  # type: ignore[attr-defined]
        is_kept = kept is not None and kept.node is node
        if self._loops and not (is_kept and self._wanted):
            self._loops -= 1
            return None
        if kept is not None and is_kept:
            frame.fuel -= kept.steps
            if frame.fuel < 0:
                frame.refuel()
        else:
            self._make_room()
            if not self._is_of_use:
                return None
            kept = self._kept(frame)
        if self._evaluated != len(self._samples):
            self._evaluate(frame)
        return kept

    def items(self, frame: Frame) -> Iterable[object]:
        """The items of the frame's node that may decide. Raises as `of`.

        The steps of the others are taken on the way, as if the test were evaluated for them.
        """
        found, decisive = self.of(frame), self.decisive
        if found is None:
            return self._items(frame)
        pairs = zip(found.items, found.kinds, strict=True)
        if self.steps is None:
            is_idle = decisive.isdisjoint(found.among)
            return () if is_idle else [item for item, kind in pairs if kind in decisive]
        if decisive.isdisjoint(found.among):
            frame.burn(sum(map(self.steps.__getitem__, found.kinds)))
            return ()
        return self._passing(pairs, self.steps, frame)

    def _passing(
        self, pairs: Iterable[tuple[object, int]], steps: Mapping[int, int], frame: Frame
    ) -> Iterator[object]:
        for item, kind in pairs:
            if kind in self.decisive:
                yield item
            else:
                frame.burn(steps[kind])

    def _kept(self, frame: Frame) -> NodeItems:
        """The items of a node that was not examined in this version."""
        items = tuple(self._items(frame))
        kinds = self._kinds(items, frame)
        node = frame.node
        name: str = node.name  # type: ignore[attr-defined]
        self._examined += len(items)
        before = self._column.get(name)
        self._take(_NODE_BYTES + _ITEM_BYTES * len(items))
        if before is not None:
            self._take(-_NODE_BYTES - _ITEM_BYTES * len(before.items))
        kept = NodeItems(node, items, kinds, frozenset(kinds), len(items) * self._weight)
        self._column[name] = kept
        return kept

    def _kinds(self, items: Sequence[object], frame: Frame) -> tuple[int, ...]:
        local, slot, parts, numbers = frame.locals, self._slot, self._parts, self._numbers
        found = []
        for item in items:
            local[slot] = item
            try:
                key = tuple([part(frame) for part in parts])
            except EvaluationError:
                key = tuple([_told(part, frame) for part in parts])
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(self._samples)
                self._samples.append(item)
                self._take(_KIND_BYTES)
                for (at, _), by_text in zip(self._wanted, self._by_text, strict=True):
                    part = key[at]
                    text = part if isinstance(part, str) else None
                    by_text.setdefault(text, []).append(number)
            found.append(number)
        return tuple(found)

    def _evaluate(self, frame: Frame) -> None:
        """Evaluates the test for the kinds that are new in this request and may decide."""
        for number in self._candidates(frame):
            if number % _KINDS_PER_LOOK == 0:
                frame.check()
            frame.locals[self._slot] = self._samples[number]
            is_passive = False
            with suppress(EvaluationError):
                is_passive = self._test(frame) is self._passive
            if not is_passive:
                self.decisive.add(number)
            if self.steps is not None:
                self.steps[number] = frame.spent
        self._evaluated = len(self._samples)

    def _candidates(self, frame: Frame) -> Sequence[int]:
        """The new kinds for which the test may give something else than `passive`."""
        fewest: Sequence[int] = range(self._evaluated, len(self._samples))
        for (_, wanted), by_text in zip(self._wanted, self._by_text, strict=True):
            try:
                text = wanted(frame)
            except EvaluationError:
                continue
            of_text, failed = by_text.get(text, ()), by_text.get(None, ())  # type: ignore[call-overload]
            if len(of_text) + len(failed) < len(fewest):
                fewest = [*of_text, *failed]
        return [number for number in fewest if number >= self._evaluated]

    def _take(self, size: int) -> None:
        self._room.take(size)
        self._held += size

    def _make_room(self) -> None:
        """Forgets everything if that is too much; for ever if it is of no use."""
        is_full = self._room.left < 0
        count = len(self._samples)
        if not is_full and count <= MOST_KINDS and len(self._column) <= MOST_NODES:
            return
        self._is_of_use = not is_full and self._examined >= _LEAST_ITEMS * count
        self._take(-self._held)
        self._examined = 0
        self._column.clear()
        self._numbers.clear()
        self._samples.clear()
        self._by_text = [{} for _ in self._wanted]
        self._forget_outcomes()

    def _forget_outcomes(self) -> None:
        self._evaluated = 0
        self.steps = None if self.steps is None else {}
        self.decisive = set()


def _told(part: ReadKey, frame: Frame) -> Hashable:
    """The value of a part as a key; an error is told by its text."""
    try:
        return part(frame)
    except EvaluationError as error:
        return error.__class__, str(error)


def value_key(part: Evaluate, kind: Type, *, charges: bool) -> ReadKey:
    """The closure of the value of a part as a key, with steps of its own. Raises EvaluationError.

    Equal quantities may be written in different ways. Maps in another order have other errors.
    """
    if charges:
        part = with_own_steps(part)
    if kind.name not in ("quantity", "map"):
        return part

    def read(frame: Frame) -> Hashable:
        value = part(frame)
        if isinstance(value, Mapping):
            return tuple(value.items())
        return (value.nanos, value.suffix) if isinstance(value, Quantity) else value

    return read
