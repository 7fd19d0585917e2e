"""Evaluator: the meaning of every expression, written to be read, not to be fast.

It works on unchecked trees by the types of values, and on checked trees. Tests hold compiled
programs equal to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from functools import partial
from typing import assert_never

from grammar.meaning.environment import Environment, dotted
from grammar.meaning.schema import short_form
from grammar.tree import ast
from grammar.tree.types import DYN, Overload
from grammar.values import lists, maps
from grammar.values.errors import EvaluationError, MissingError, StepLimitError
from grammar.values.kinds import equals
from grammar.values.maps import read_field
from grammar.values.nodes import GroupOfNodes
from grammar.values.optional import NONE, Optional, through
from grammar.values.sizes import STEPS, equated, ordered, too_many_steps

Locals = Mapping[str, object]
Value = Callable[[ast.Expr, Locals], object]
# Takes steps. Raises StepLimitError if there are none left.
Charge = Callable[[int], None]


def comprehension(
    expr: ast.Comprehension, target: object, local: Locals, value: Value, charge: Charge
) -> object:
    """The value of a macro over its target; `value` evaluates the body (CEL langdef, Macros)."""
    *tests, last = expr.body
    if expr.macro == "cel.bind":
        return value(last, {**local, expr.variables[0]: target})
    if expr.macro in ("optMap", "optFlatMap"):
        return _optional(expr, target, local, value)
    if isinstance(target, Sized):
        charge(len(target))
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
            charge(sum(4 * len(v) for _, v in made if isinstance(v, Mapping)))
            return maps.merge(v for _, v in made)
        case "sortBy":
            charge(ordered([v for _, v in made]))
            return lists.sort_by([(v, item) for item, v in made])
        case _:
            raise EvaluationError(f"unknown macro `{expr.macro}`")


def _optional(expr: ast.Comprehension, target: object, local: Locals, value: Value) -> object:
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
    """The items or keys that a macro visits; with two variables, also their index or value."""
    if isinstance(target, Mapping):
        pairs = maps.key_values(target)
        return [(k, v) if count == 2 else (k,) for k, v in pairs]
    if isinstance(target, GroupOfNodes):
        target = target.members
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
        except StepLimitError:
            raise
        except EvaluationError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return not decisive


def evaluate(
    expr: ast.Expr, variables: Mapping[str, object], environment: Environment, steps: int = STEPS
) -> object:
    """The value of an expression.

    Raises EvaluationError if it has none, MissingError if a part is missing, and StepLimitError if
    it takes more than `steps`.
    """
    return _Evaluator(environment, variables, steps).value(expr, {})


class _Evaluator:
    def __init__(
        self, environment: Environment, variables: Mapping[str, object], steps: int
    ) -> None:
        self._environment = environment
        self._variables = variables
        self._steps = steps

    def _charge(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise too_many_steps()

    def value(self, expr: ast.Expr, local: Locals) -> object:
        self._charge(1)
        match expr:
            case ast.Literal(value):
                return value
            case ast.Ident():
                return self._name(expr.name, local, absolute=expr.absolute)
            case ast.Select():
                return self._select(expr, local)
            case ast.Index(operand, index, optional):
                held, at = self.value(operand, local), self.value(index, local)
                return _part(held, lambda value: _element(value, at), optional=optional)
            case ast.Call():
                return self._call(expr, local)
            case ast.Unary(op, operand):
                return self._apply(f"{op}_", (operand,), local)
            case ast.Binary("==" | "!=" as op, left, right):
                one, other = self.value(left, local), self.value(right, local)
                self._charge(equated(one, other))
                return equals(one, other) is (op == "==")
            case ast.Binary(op, left, right):
                return self._apply(op, (left, right), local)
            case ast.Chain("+", operands):
                add = self._environment.overload("+", (DYN, DYN), member=False)
                total = self.value(operands[0], local)
                for operand in operands[1:]:
                    total = self._called(add, (total, self.value(operand, local)))
                return total
            case ast.Chain(op, operands):
                tests = (partial(self.value, o, local) for o in operands)
                return absorb(tests, decisive=op == "||")
            case ast.Conditional(condition, then, otherwise):
                holds = must_be_bool(self.value(condition, local))
                return self.value(then if holds else otherwise, local)
            case ast.ListLiteral(elements, marked):
                made: list[object] = []
                for place, element in enumerate(elements):
                    made.extend(_marked(self.value(element, local), optional=place in marked))
                return tuple(made)
            case ast.MapLiteral(entries):
                pairs: list[tuple[object, object]] = []
                for entry in entries:
                    key, held = self.value(entry.key, local), self.value(entry.value, local)
                    pairs.extend((key, v) for v in _marked(held, optional=entry.optional))
                return maps.build(pairs)
            case ast.Comprehension():
                target = self.value(expr.target, local)
                return comprehension(expr, target, local, self.value, self._charge)
            case ast.Has(operand):
                return self._has(operand, local)
            case ast.LetReference(name):
                return self.value(self._environment.lets[name], {})
            case ast.DefCall(name, args):
                known = self._environment.defs[name]
                values = [self.value(a, local) for a in args]
                return self.value(
                    known.body, dict(zip((p.name for p in known.parameters), values, strict=True))
                )
            case _:
                assert_never(expr)

    def _name(self, name: str, local: Locals, *, absolute: bool) -> object:
        if not absolute and name in local:
            return local[name]
        if name in self._variables:
            value = self._variables[name]
            declared = self._environment.variables.get(name)
            is_count = name in self._environment.counts
            if value is None and declared is not None and (declared.is_record or is_count):
                raise MissingError(f"there is no `{name}` here")
            return value
        if (constant := self._environment.constant(name)) is not None:
            return constant
        raise EvaluationError(f"unknown name `{name}`")

    def _select(self, expr: ast.Select, local: Locals) -> object:
        if (found := self._qualified(expr, local)) is not None:
            return found[0]
        held = self.value(expr.operand, local)
        kind = expr.operand.type
        known = self._environment.field(kind, expr.name) if kind.is_record else None
        if known is not None:
            zero = self._environment.zero(known)
            return _part(
                held,
                lambda value: read_field(value, expr.name, zero, optional=known.optional),
                optional=expr.optional,
            )
        return _part(
            held, lambda value: self._field_of(value, expr.name, expr), optional=expr.optional
        )

    def _field_of(self, value: object, name: str, expr: ast.Select) -> object:
        """The value of a map's key, or of the field of an optional record."""
        if isinstance(value, Mapping):
            return maps.lookup(value, name)
        inside = expr.operand.type.args[0] if expr.operand.type.name == "optional" else None
        if inside is not None and (known := self._environment.field(inside, name)) is not None:
            return read_field(value, name, self._environment.zero(known), optional=known.optional)
        _, known = self._environment.member(value, name)
        if known.derived is not None:
            return self.value(short_form(known.derived), {"self": value})
        return read_field(value, name, self._environment.zero(known), optional=known.optional)

    def _qualified(self, expr: ast.Select, local: Locals) -> tuple[object] | None:
        """The value of `a.b.c` in a tuple, if that is one variable or the name of a type."""
        root, name = dotted(expr)
        if root is None or (root.name in local and not root.absolute):
            return None
        if name in self._variables:
            return (self._variables[name],)
        constant = self._environment.constant(name)
        return (constant,) if constant is not None else None

    def _has(self, operand: ast.Select | ast.Index, local: Locals) -> bool:
        held = self.value(operand.operand, local)
        if isinstance(operand, ast.Select) and operand.operand.type.is_record:
            return getattr(held, operand.name, None) is not None
        at = operand.name if isinstance(operand, ast.Select) else self.value(operand.index, local)
        if isinstance(held, Optional):
            if not held.present:
                return False
            held = held.value
        if isinstance(operand, ast.Select) and not isinstance(held, Mapping):
            kind = operand.operand.type
            if kind.name == "optional" and kind.args[0].is_record:
                return getattr(held, operand.name, None) is not None
            _, known = self._environment.member(held, operand.name)
            form = short_form(known.derived) if known.derived is not None else None
            if isinstance(form, ast.Select | ast.Index):
                return self._has(form, {"self": held})
            return form is not None or getattr(held, operand.name, None) is not None
        return through(held, lambda value: _element(value, at)).present

    # ---- calls

    def _call(self, expr: ast.Call, local: Locals) -> object:
        shadowed = expr.target is not None and _root(expr.target) in local
        if not shadowed and (name := self._environment.function_name(expr)) is not None:
            return self._apply(name, expr.args, local)
        if expr.target is None:
            raise EvaluationError(f"unknown function `{expr.function}`")
        if expr.function in ("or", "orValue") and len(expr.args) == 1:
            return self._alternative(expr, expr.target, expr.args[0], local)
        return self._apply(expr.function, (expr.target, *expr.args), local, member=True)

    def _alternative(
        self, expr: ast.Call, target: ast.Expr, other: ast.Expr, local: Locals
    ) -> object:
        """`or` and `orValue`, which evaluate their argument only if it is needed."""
        held = self.value(target, local)
        if isinstance(held, Optional) and held.present:
            return held if expr.function == "or" else held.value
        kinds = (target.type, other.type)
        overload = self._environment.overload(expr.function, kinds, member=True)
        return self._called(overload, (held, self.value(other, local)))

    def _apply(
        self, name: str, args: tuple[ast.Expr, ...], local: Locals, *, member: bool = False
    ) -> object:
        """The call by the types of a checked tree, which give the sum of an empty list its type."""
        overload = self._environment.overload(name, [a.type for a in args], member=member)
        return self._called(overload, [self.value(a, local) for a in args])

    def _called(self, overload: Overload, args: Sequence[object]) -> object:
        if overload.work is not None:
            self._charge(overload.work(*args))
        return overload.call(*args)


def _root(expr: ast.Expr) -> str:
    while isinstance(expr, ast.Select | ast.Index):
        expr = expr.operand
    return expr.name if isinstance(expr, ast.Ident) and not expr.absolute else ""


def _part(held: object, choose: Callable[[object], object], *, optional: bool) -> object:
    """A part of a value. Of an optional, or with `?`, it is an optional, empty if missing."""
    return through(held, choose) if optional or isinstance(held, Optional) else choose(held)


def _element(value: object, at: object) -> object:
    if isinstance(value, Mapping):
        return maps.lookup(value, at)
    if isinstance(value, list | tuple):
        return lists.element(value, at)
    raise EvaluationError("no such overload: only lists and maps are indexed")


def _marked(value: object, *, optional: bool) -> tuple[object, ...]:
    """An element in a tuple; an element with `?` is the value of an optional, if it has one."""
    if not optional:
        return (value,)
    if not isinstance(value, Optional):
        raise EvaluationError("no such overload: `?` takes an optional")
    return (value.value,) if value.present else ()
