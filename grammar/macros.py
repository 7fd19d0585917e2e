"""What the macros with variables mean, for the plain evaluator (CEL langdef, Macros)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from grammar.ast import Comprehension, Expr
from grammar.errors import EvaluationError
from grammar.values import lists, maps
from grammar.values.optional import NONE, Optional

Locals = Mapping[str, object]
Value = Callable[[Expr, Locals], object]


def comprehension(expr: Comprehension, target: object, local: Locals, value: Value) -> object:
    """The macro over what its target came to; `value` works out its body with its variables."""
    *tests, last = expr.body
    if expr.macro == "cel.bind":
        return value(last, {**local, expr.variables[0]: target})
    if expr.macro in ("optMap", "optFlatMap"):
        return _optional(expr, target, local, value)
    scopes = [
        {**local, **dict(zip(expr.variables, items, strict=True))}
        for items in _items(target, len(expr.variables))
    ]
    if expr.macro in ("all", "exists"):
        return absorb((partial(value, last, s) for s in scopes), decisive=expr.macro == "exists")
    if expr.macro in ("exists_one", "existsOne"):
        return sum(must_be_bool(value(last, s)) for s in scopes) == 1
    first = expr.variables[0]
    if expr.macro == "filter":
        return tuple(s[first] for s in scopes if must_be_bool(value(last, s)))
    kept = (s for s in scopes if all(must_be_bool(value(t, s)) for t in tests))
    made = [(s[first], value(last, s)) for s in kept]
    match expr.macro:
        case "map" | "transformList":
            return tuple(v for _, v in made)
        case "transformMap":
            return maps.build(made)
        case "transformMapEntry":
            return maps.merge(v for _, v in made)
        case "sortBy":
            return lists.sort_by([(v, item) for item, v in made])
        case _:
            raise EvaluationError(f"there is no macro `{expr.macro}`")


def _optional(expr: Comprehension, target: object, local: Locals, value: Value) -> object:
    if not isinstance(target, Optional):
        raise EvaluationError("no such overload: an optional is needed")
    if not target.present:
        return NONE
    made = value(expr.body[0], {**local, expr.variables[0]: target.value})
    if expr.macro == "optMap":
        return Optional(made)
    if not isinstance(made, Optional):
        raise EvaluationError("no such overload: `optFlatMap` makes an optional")
    return made


def _items(target: object, count: int) -> list[tuple[object, ...]]:
    """What a macro goes over: items or keys; with two variables their place or value too."""
    if isinstance(target, Mapping):
        pairs = maps.key_values(target)
        return [(k, v) if count == 2 else (k,) for k, v in pairs]
    if isinstance(target, list | tuple):
        return list(enumerate(target)) if count == 2 else [(item,) for item in target]
    raise EvaluationError("no such overload: a list or a map is needed")


def must_be_bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError("no such overload: a bool is needed")
    return value


def absorb(values: Iterable[Callable[[], object]], *, decisive: bool) -> bool:
    """`||` and `&&`: a deciding value wins over errors around it (langdef, Logical Operators)."""
    failure: EvaluationError | None = None
    for compute in values:
        try:
            if must_be_bool(compute()) is decisive:
                return decisive
        except EvaluationError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return not decisive
