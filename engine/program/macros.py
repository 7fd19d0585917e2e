"""Macros: the closures of `all`, `map`, `sortBy` and the others, over closures of their parts.

They take any list, map or optional.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from engine.program import operations
from engine.program.frame import Evaluate, Frame
from grammar.tree.ast import Comprehension
from grammar.values.errors import EvaluationError, StepLimitError
from grammar.values.lists import sort_by
from grammar.values.maps import build, key_values, merge
from grammar.values.nodes import GroupOfNodes
from grammar.values.optional import NONE, Optional
from grammar.values.sizes import ordered


def comprehension(
    expr: Comprehension,
    target: Evaluate,
    slots: tuple[int, ...],
    body: Sequence[Evaluate],
    weight: int,
    items: Items | None = None,
) -> Evaluate:
    """The closure of a macro over the closures of its parts; each variable has one of `slots`.

    `weight` are the steps of one item. `items` are those that matter, if not all of them do.
    """
    *conditions, last = body
    first = slots[0]
    if items is None:
        # The closures of these set the variable themselves.
        is_set = len(slots) == 1 and not conditions
        is_set = is_set and expr.macro in ("all", "exists", "filter", "map")
        items = list_items(target, weight) if is_set else _steps(target, slots, weight)
    if conditions:
        items = _where(items, operations.must_be_bool(conditions[0], expr.body[0].type))
    test = operations.must_be_bool(last, expr.body[-1].type)
    match expr.macro:
        case "all" | "exists":
            return search(items, first, test, decisive=expr.macro == "exists")
        case "exists_one" | "existsOne":
            return lambda frame: sum(1 for _ in items(frame) if test(frame) is True) == 1
        case "filter":
            return filter_list(items, first, test)
        case "map" | "transformList":
            return map_list(items, first, last)
        case "transformMap":
            return lambda frame: build([(key, last(frame)) for key in items(frame)])
        case "transformMapEntry":
            return _merged(items, last)
        case "sortBy":
            return _sorted(items, last)
        case "optMap" | "optFlatMap":
            return _optional(target, first, last, flat=expr.macro == "optFlatMap")
        case _:  # cel.bind
            return _bind(target, first, last)


# Goes over a value. The general ones also set the variables of a macro at each step.
Items = Callable[[Frame], Iterable[object]]


def _steps(target: Evaluate, slots: tuple[int, ...], weight: int) -> Items:
    """The items (or indexes and items, or keys and values) of the target, put into the slots.

    It yields what `filter` keeps: the item of a list, or the key of a map. With two slots it yields
    the index or the key. That is always the value of the first slot. The fuel for all items is
    taken before the first one.
    """

    def one(frame: Frame) -> Iterator[object]:
        local, (slot,) = frame.locals, slots
        items = _listed(target(frame))
        frame.burn(len(items) * weight)
        for item in items:
            local[slot] = item
            yield item

    def two(frame: Frame) -> Iterator[object]:
        local, (first, second) = frame.locals, slots
        value = target(frame)
        pairs = key_values(value) if isinstance(value, Mapping) else enumerate(_items(value))
        frame.burn(len(_listed(value)) * weight)
        for at, item in pairs:
            local[first], local[second] = at, item
            yield at

    return one if len(slots) == 1 else two


def _merged(items: Items, entry: Evaluate) -> Evaluate:
    def run(frame: Frame) -> object:
        parts = [entry(frame) for _ in items(frame)]
        frame.burn(sum(4 * len(part) for part in parts if isinstance(part, Mapping)))
        return merge(parts)

    return run


def _sorted(items: Items, key: Evaluate) -> Evaluate:
    def run(frame: Frame) -> object:
        pairs = [(key(frame), item) for item in items(frame)]
        frame.burn(ordered([at for at, _ in pairs]))
        return sort_by(pairs)

    return run


def _where(items: Items, condition: Evaluate) -> Items:
    return lambda frame: (item for item in items(frame) if condition(frame) is True)


def _items(value: object) -> Sequence[object]:
    if isinstance(value, GroupOfNodes):
        return value.members
    if isinstance(value, Sequence) and not isinstance(value, str):
        return value
    raise EvaluationError("no such overload: a list or a map is needed")


def _optional(target: Evaluate, slot: int, make: Evaluate, *, flat: bool) -> Evaluate:
    def run(frame: Frame) -> object:
        value = target(frame)
        if not isinstance(value, Optional):
            raise EvaluationError("no such overload: an optional is needed")
        if not value.present:
            return NONE
        frame.locals[slot] = value.value
        made = make(frame)
        if not flat:
            return Optional(made)
        if not isinstance(made, Optional):
            raise EvaluationError("no such overload: `optFlatMap` makes an optional")
        return made

    return run


def _bind(target: Evaluate, slot: int, body: Evaluate) -> Evaluate:
    def run(frame: Frame) -> object:
        frame.locals[slot] = target(frame)
        return body(frame)

    return run


def list_items(read: Evaluate, weight: int) -> Items:
    """The items of a list, after taking the fuel for all of them, `weight` steps for each."""

    def run(frame: Frame) -> Sequence[object]:
        items = _listed(read(frame))
        frame.burn(len(items) * weight)
        return items

    return run


def _listed(value: object) -> Sequence[object]:
    return [key for key, _ in key_values(value)] if isinstance(value, Mapping) else _items(value)


def search(items: Items, slot: int, test: Evaluate, *, decisive: bool) -> Evaluate:
    """`all` and `exists`: an item that decides wins over the errors of others.

    `operations.logic` does the same for the parts of a chain.
    """

    def run(frame: Frame) -> object:
        failure: EvaluationError | None = None
        local = frame.locals
        for local[slot] in items(frame):
            try:
                if test(frame) is decisive:
                    return decisive
            except StepLimitError:
                raise
            except EvaluationError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return not decisive

    return run


def filter_list(items: Items, slot: int, test: Evaluate) -> Evaluate:
    def run(frame: Frame) -> object:
        local = frame.locals
        kept = []
        for item in items(frame):
            local[slot] = item
            if test(frame) is True:
                kept.append(item)
        return tuple(kept)

    return run


def map_list(items: Items, slot: int, make: Evaluate) -> Evaluate:
    def run(frame: Frame) -> object:
        local = frame.locals
        return tuple([make(frame) for local[slot] in items(frame)])

    return run
