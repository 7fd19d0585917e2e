"""Macros with one variable over what the types know to be a list: a plain loop in one closure.

The fuel of a whole list is taken at once, before its first item.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from engine.program.chains import field_chain
from engine.program.comparisons import text_test
from engine.program.frame import Evaluate, Frame
from grammar.ast import Chain, Comprehension, Expr, Ident, Select
from grammar.errors import EvaluationError
from grammar.types import BOOL
from grammar.values.maps import key_values

if TYPE_CHECKING:
    from engine.program.compiler import Compiler


Items = Callable[[Frame], Sequence[object]]


def loop(compiler: Compiler, expr: Comprehension) -> Evaluate | None:
    """The closure of a macro over a list; None for other macros and other targets."""
    if expr.target.type.name != "list" or len(expr.variables) != 1 or len(expr.body) != 1:
        return None
    (body,) = expr.body
    if expr.macro not in ("all", "exists", "filter", "map"):
        return None
    if expr.macro != "map" and body.type != BOOL:
        return None
    items = _items(compiler, expr.target)
    place = compiler.place()
    names = {expr.variables[0]: place}
    if expr.macro in ("filter", "map"):
        make = _filter if expr.macro == "filter" else _map
        return make(items, place, compiler.with_locals(names, body))
    decisive = expr.macro == "exists"
    sieve = _sieve(compiler, expr)
    if sieve is None:
        return _search(items, place, compiler.with_locals(names, body), decisive=decisive)
    if sieve.rest is None:
        return _sift(items, sieve, decisive=decisive)
    rest = compiler.with_locals(names, sieve.rest)
    return _sifted_search(items, place, sieve, rest, decisive=decisive)


def _items(compiler: Compiler, target: Expr) -> Items:
    """The items of the target, once there is fuel for all of them."""
    chain = field_chain(compiler, target)
    read: Callable[[Frame], Any] = compiler.compile(target)
    fields = read if chain is None or chain.place is not None or chain.key else chain.fields

    def run(frame: Frame) -> Sequence[object]:
        try:
            items = fields(frame)
        except AttributeError:
            items = None
        if items.__class__ is not tuple:
            items = _listed(read(frame) if items is None else items)
        frame.fuel -= len(items)
        if frame.fuel < 0:
            frame.refuel()
        return items  # type: ignore[no-any-return]

    return run


def _listed(value: object) -> Sequence[object]:
    if isinstance(value, Mapping):
        return [key for key, _ in key_values(value)]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return value
    raise EvaluationError("no such overload: a list or a map is needed")


@dataclass(frozen=True, slots=True)
class _Sieve:
    """A field whose text must be among the known ones, or must not, for an item to decide.

    Its test is the first of the `&&` of an `exists`, or of the `||` of an `all`, and never fails.
    `rest` is what is left to test, None where nothing is.
    """

    field: str
    known: Container[object]
    wanted: bool
    rest: Expr | None


def _sieve(compiler: Compiler, expr: Comprehension) -> _Sieve | None:
    """The sieve of an `all` or `exists`; None where it does not start with the test of a field."""
    exists = expr.macro == "exists"
    (body,) = expr.body
    first, rest = body, None
    if isinstance(body, Chain) and body.op == ("&&" if exists else "||"):
        first, *others = body.operands
        rest = others[0] if len(others) == 1 else replace(body, operands=tuple(others))
    test = text_test(first)
    if test is None or (rest is not None and rest.type != BOOL):
        return None
    match test.operand:
        case Select(Ident(name, absolute=False) as item, field, optional=False) if (
            name == expr.variables[0] and item.type.is_record
        ):
            known = compiler.environment.field(item.type, field)
            # An absent field is None and reads as "": both must be among none of the known.
            if known is not None and not known.optional and not test.knows(""):
                return _Sieve(field, test.known, test.wanted is exists, rest)
    return None


def _search(items: Items, place: int, test: Evaluate, *, decisive: bool) -> Evaluate:
    """`all` and `exists`: a deciding item wins over the errors of others."""

    def run(frame: Frame) -> object:
        failure: EvaluationError | None = None
        local = frame.locals
        for local[place] in items(frame):
            try:
                if test(frame) is decisive:
                    return decisive
            except EvaluationError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return not decisive

    return run


def _sifted_search(
    items: Items, place: int, sieve: _Sieve, test: Evaluate, *, decisive: bool
) -> Evaluate:
    """A search that tests only what passes the sieve."""
    field, known, wanted = sieve.field, sieve.known, sieve.wanted

    def run(frame: Frame) -> object:
        failure: EvaluationError | None = None
        for item in items(frame):
            if (getattr(item, field, None) in known) is not wanted:
                continue
            frame.locals[place] = item
            try:
                if test(frame) is decisive:
                    return decisive
            except EvaluationError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return not decisive

    return run


def _sift(items: Items, sieve: _Sieve, *, decisive: bool) -> Evaluate:
    """A search in which the sieve decides."""
    field, known, wanted = sieve.field, sieve.known, sieve.wanted

    def run(frame: Frame) -> object:
        for item in items(frame):
            if (getattr(item, field, None) in known) is wanted:
                return decisive
        return not decisive

    return run


def _filter(items: Items, place: int, test: Evaluate) -> Evaluate:
    def run(frame: Frame) -> object:
        local = frame.locals
        kept = []
        for item in items(frame):
            local[place] = item
            if test(frame) is True:
                kept.append(item)
        return tuple(kept)

    return run


def _map(items: Items, place: int, make: Evaluate) -> Evaluate:
    def run(frame: Frame) -> object:
        local = frame.locals
        return tuple([make(frame) for local[place] in items(frame)])

    return run
