"""Macros: the closures of `all`, `map`, `sortBy` and the others, over closures of their parts.

Any list, map or optional may be gone over here; `engine.program.fast_paths` has the common cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from engine.program import operations
from engine.program.frame import Evaluate, Frame
from grammar.ast import Comprehension
from grammar.errors import EvaluationError
from grammar.values.lists import sort_by
from grammar.values.maps import build, key_values, merge
from grammar.values.optional import NONE, Optional


def comprehension(
    expr: Comprehension, target: Evaluate, slots: tuple[int, ...], body: Sequence[Evaluate]
) -> Evaluate:
    """The closure of a macro over those of its parts; `slots` are the locals of its variables."""
    *conditions, last = body
    tests = [
        operations.must_be_bool(c, p.type) for c, p in zip(conditions, expr.body, strict=False)
    ]
    match expr.macro:
        case "all" | "exists" | "exists_one" | "existsOne" | "filter":
            test = operations.must_be_bool(last, expr.body[-1].type)
            return _TESTS[expr.macro](target, _steps(slots), test)
        case "map" | "transformList":
            return _map(target, _steps(slots), tests[0] if tests else None, last)
        case "transformMap":
            return _transform_map(
                target, _steps(slots), tests[0] if tests else None, last, slots[0]
            )
        case "transformMapEntry":
            return _transform_entry(target, _steps(slots), tests[0] if tests else None, last)
        case "sortBy":
            return _sort_by(target, _steps(slots), last)
        case "optMap" | "optFlatMap":
            return _optional(target, slots[0], last, flat=expr.macro == "optFlatMap")
        case _:  # cel.bind
            return _bind(target, slots[0], last)


Steps = Callable[[Frame, object], Iterator[object]]


def _steps(slots: tuple[int, ...]) -> Steps:
    """Goes over a value, putting each item (or index and item, or key and value) into the places.

    Yields what `filter` keeps: the item of a list, the key of a map.
    """

    def one(frame: Frame, value: object) -> Iterator[object]:
        local, (slot,) = frame.locals, slots
        items = [k for k, _ in key_values(value)] if isinstance(value, Mapping) else _items(value)
        for item in items:
            _burn(frame)
            local[slot] = item
            yield item

    def two(frame: Frame, value: object) -> Iterator[object]:
        local, (first, second) = frame.locals, slots
        pairs = key_values(value) if isinstance(value, Mapping) else enumerate(_items(value))
        for at, item in pairs:
            _burn(frame)
            local[first], local[second] = at, item
            yield at

    return one if len(slots) == 1 else two


def _items(value: object) -> Sequence[object]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return value
    raise EvaluationError("no such overload: a list or a map is needed")


def _burn(frame: Frame) -> None:
    """One step of the request's fuel: a bound on what nested macros can take, whatever the data."""
    frame.fuel -= 1
    if frame.fuel < 0:
        frame.refuel()


def _all(target: Evaluate, steps: Steps, test: Evaluate) -> Evaluate:
    return _absorbing(target, steps, test, decisive=False)


def _exists(target: Evaluate, steps: Steps, test: Evaluate) -> Evaluate:
    return _absorbing(target, steps, test, decisive=True)


def _absorbing(target: Evaluate, steps: Steps, test: Evaluate, *, decisive: bool) -> Evaluate:
    """`&&` and `||` over the items: a deciding item wins over the errors of others."""

    def run(frame: Frame) -> object:
        failure: EvaluationError | None = None
        for _ in steps(frame, target(frame)):
            try:
                if test(frame) is decisive:
                    return decisive
            except EvaluationError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return not decisive

    return run


def _exists_one(target: Evaluate, steps: Steps, test: Evaluate) -> Evaluate:
    return lambda frame: sum(1 for _ in steps(frame, target(frame)) if test(frame) is True) == 1


def _filter(target: Evaluate, steps: Steps, test: Evaluate) -> Evaluate:
    return lambda frame: tuple(
        [item for item in steps(frame, target(frame)) if test(frame) is True]
    )


_TESTS = {
    "all": _all,
    "exists": _exists,
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "filter": _filter,
}


def _kept(steps: Iterator[object], frame: Frame, test: Evaluate | None) -> Iterator[object]:
    return (item for item in steps if test is None or test(frame) is True)


def _map(target: Evaluate, steps: Steps, test: Evaluate | None, make: Evaluate) -> Evaluate:
    return lambda frame: tuple(
        [make(frame) for _ in _kept(steps(frame, target(frame)), frame, test)]
    )


def _transform_map(
    target: Evaluate, steps: Steps, test: Evaluate | None, make: Evaluate, key: int
) -> Evaluate:
    def run(frame: Frame) -> object:
        return build(
            [
                (frame.locals[key], make(frame))
                for _ in _kept(steps(frame, target(frame)), frame, test)
            ]
        )

    return run


def _transform_entry(
    target: Evaluate, steps: Steps, test: Evaluate | None, make: Evaluate
) -> Evaluate:
    return lambda frame: merge(
        [make(frame) for _ in _kept(steps(frame, target(frame)), frame, test)]
    )


def _sort_by(target: Evaluate, steps: Steps, key: Evaluate) -> Evaluate:
    return lambda frame: sort_by([(key(frame), item) for item in steps(frame, target(frame))])


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
