"""Fast paths: faster closures for the common shapes of expressions.

They rely on the types that the checker has found, and read values that are present directly. If a
part is absent, the general closure (`meaning`) decides what that means.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from engine.program.compiler import Compiler, FastPath
from engine.program.frame import Evaluate, Frame
from grammar.ast import (
    Binary,
    Call,
    Chain,
    Comprehension,
    Expr,
    Ident,
    Index,
    ListLiteral,
    Literal,
    Select,
)
from grammar.errors import EvaluationError, MissingError
from grammar.types import BOOL, DURATION, QUANTITY, STRING, TIMESTAMP, map_of
from grammar.values.maps import key_values

# ---- chains of fields, which may end in a key of a map: `node.metadata.labels["k"]`


@dataclass(frozen=True, slots=True)
class FieldChain:
    """A chain: `fields` of the frame, or of the local at `slot`, and then the key of a map.

    `fields` returns None or raises AttributeError if a part is absent. `meaning` is the general
    closure of the chain.
    """

    fields: Callable[[object], Any]
    slot: int | None
    key: str | None
    meaning: Evaluate

    @property
    def missing(self) -> str:
        """The text of the error if the map does not have the key."""
        return f"there is no key `{self.key}`"


def field_chain(compiler: Compiler, expr: Expr) -> FieldChain | None:
    """The expression as a chain; None for any other expression."""
    fields, key = expr, None
    if isinstance(expr, Index):
        if expr.operand.type.name != "map" or expr.optional:
            return None
        fields, key = expr.operand, text(expr.index)
        if key is None:
            return None
    found = _path(fields)
    if found is None:
        return None
    root, names = found
    slot = compiler.local(root)
    if slot is None:
        names = f"{root}.{names}"
    return FieldChain(attrgetter(names), slot, key, compiler.general(expr))


def text(expr: Expr) -> str | None:
    """The text of a constant; None for any other expression."""
    return expr.value if isinstance(expr, Literal) and isinstance(expr.value, str) else None


def _path(expr: Expr) -> tuple[str, str] | None:
    """`node.metadata.labels` as a name and a path of attributes; every step is in a record."""
    names: list[str] = []
    while isinstance(expr, Select) and expr.operand.type.is_record and not expr.optional:
        names.append(expr.name)
        expr = expr.operand
    if not names or not isinstance(expr, Ident) or expr.absolute:
        return None
    return expr.name, ".".join(reversed(names))


def value(compiler: Compiler, expr: Expr) -> Evaluate | None:
    """The value of a chain; None for any other expression."""
    chain = field_chain(compiler, expr)
    if chain is None:
        return None
    fields, slot, key, meaning = chain.fields, chain.slot, chain.key, chain.meaning
    missing = chain.missing

    def run(frame: Frame) -> object:
        try:
            value = fields(frame if slot is None else frame.locals[slot])
            if key is not None:
                return value[key]
        except KeyError:
            raise MissingError(missing) from None
        except (AttributeError, TypeError):
            return meaning(frame)
        return value if value is not None else meaning(frame)

    return run


def value_or_default(compiler: Compiler, expr: Expr) -> Evaluate | None:
    """`labels[?"key"].orValue("")` without an optional; None for any other call."""
    match expr:
        case Call("orValue", Index(held, index, optional=True), (Literal(other),)):
            chain, key = _texts(compiler, held), text(index)
        case _:
            return None
    if chain is None or key is None:
        return None
    fields, slot, meaning = chain.fields, chain.slot, chain.meaning

    def run(frame: Frame) -> object:
        try:
            return fields(frame if slot is None else frame.locals[slot]).get(key, other)
        except AttributeError:
            held: Any = meaning(frame)
            return held.get(key, other)

    return run


def key_test(compiler: Compiler, expr: Expr) -> Evaluate | None:
    """`"key" in labels`; None for any other operation."""
    if not isinstance(expr, Binary) or expr.op != "in":
        return None
    chain, key = _texts(compiler, expr.right), text(expr.left)
    if chain is None or key is None:
        return None
    fields, slot, meaning = chain.fields, chain.slot, chain.meaning

    def run(frame: Frame) -> object:
        try:
            return key in fields(frame if slot is None else frame.locals[slot])
        except (AttributeError, TypeError):
            held: Any = meaning(frame)
            return key in held

    return run


def _texts(compiler: Compiler, expr: Expr) -> FieldChain | None:
    """The expression as a chain of the type map of texts; None for any other expression."""
    return field_chain(compiler, expr) if expr.type == map_of(STRING, STRING) else None


# ---- tests of texts and amounts: most of the conditions in rules

_AMOUNTS = frozenset({QUANTITY, DURATION, TIMESTAMP})
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
# Up to this number of texts a comparison with each is faster than a hash.
_FEW = 3

_nanos = attrgetter("nanos")


def comparison(compiler: Compiler, expr: Expr) -> Evaluate | None:
    """A test of a text or an amount; None for any other operation."""
    if not isinstance(expr, Binary):
        return None
    if (texts := text_test(expr)) is not None:
        test = _text(compiler.compile(texts.operand), texts.known, wanted=texts.wanted)
        chain = field_chain(compiler, texts.operand)
        if chain is None:
            return test
        return _text_at(chain, texts.known, test, wanted=texts.wanted)
    if (amounts := _amount_test(expr)) is not None:
        operand, least, wanted = amounts
        test = _amount(compiler.compile(operand), least, wanted=wanted)
        chain = field_chain(compiler, operand)
        return test if chain is None else _amount_at(chain, least, test, wanted=wanted)
    if expr.op in _MIRRORED and expr.left.type == expr.right.type and expr.left.type in _AMOUNTS:
        return _two_amounts(expr.op, compiler.compile(expr.left), compiler.compile(expr.right))
    return None


@dataclass(frozen=True, slots=True)
class TextTest:
    """`==`, `!=` or `in`: the operand is among the known texts, or not if not `wanted`."""

    operand: Expr
    known: Container[object]
    wanted: bool


def text_test(expr: Expr) -> TextTest | None:
    """The test of a text against constants; None for any other expression."""
    match _facing(expr):
        case (operand, "==" | "!=" as op, constant) if operand.type == STRING == constant.type:
            return TextTest(operand, (constant.value,), op == "==")
    match expr:
        case Binary("in", operand, ListLiteral(elements, ())) if operand.type == STRING:
            texts = tuple(e.value for e in elements if isinstance(e, Literal) and e.type == STRING)
            if len(texts) == len(elements):
                return TextTest(operand, texts if len(texts) <= _FEW else frozenset(texts), True)
    return None


def _amount_test(expr: Expr) -> tuple[Expr, int, bool] | None:
    """The comparison with a constant, as `operand >= nanos` or, if not wanted, its negation."""
    match _facing(expr):
        case (operand, op, constant) if operand.type in _AMOUNTS and operand.type == constant.type:
            edge: int = _nanos(constant.value)
            match op:
                case ">=" | "<":
                    return operand, edge, op == ">="
                case ">" | "<=":
                    return operand, edge + 1, op == ">"
                case _:
                    return None
    return None


def _facing(expr: Expr) -> tuple[Expr, str, Literal] | None:
    """A comparison with a constant, with the constant on the right."""
    match expr:
        case Binary(op, left, Literal() as right) if op in _MIRRORED:
            return left, op, right
        case Binary(op, Literal() as left, right) if op in _MIRRORED:
            return right, _MIRRORED[op], left
    return None


def _text(operand: Evaluate, known: Container[object], *, wanted: bool) -> Evaluate:
    def run(frame: Frame) -> object:
        text = operand(frame)
        try:
            return (text in known) is wanted
        except TypeError:  # a value without a hash is not a text
            return not wanted

    return run


def _text_at(
    chain: FieldChain, known: Container[object], meaning: Evaluate, *, wanted: bool
) -> Evaluate:
    fields, slot, key, missing = chain.fields, chain.slot, chain.key, chain.missing

    def run(frame: Frame) -> object:
        try:
            value = fields(frame if slot is None else frame.locals[slot])
            if key is not None:
                return (value[key] in known) is wanted
            if value is not None:
                return (value in known) is wanted
        except KeyError:
            raise MissingError(missing) from None
        except (AttributeError, TypeError):
            pass
        return meaning(frame)

    return run


def _amount(operand: Evaluate, least: int, *, wanted: bool) -> Evaluate:
    return lambda frame: (_nanos(operand(frame)) >= least) is wanted


def _amount_at(chain: FieldChain, least: int, meaning: Evaluate, *, wanted: bool) -> Evaluate:
    fields, slot, key, missing = chain.fields, chain.slot, chain.key, chain.missing

    def run(frame: Frame) -> object:
        try:
            value = fields(frame if slot is None else frame.locals[slot])
            nanos = value.nanos if key is None else value[key].nanos
        except KeyError:
            raise MissingError(missing) from None
        except (AttributeError, TypeError):
            return meaning(frame)
        return (nanos >= least) is wanted

    return run


def _two_amounts(op: str, left: Evaluate, right: Evaluate) -> Evaluate:
    """A comparison of two amounts of the same type."""
    wanted = op in (">=", ">", "==")

    def at_least(frame: Frame) -> object:
        value: Any = left(frame)
        return (value.nanos >= _nanos(right(frame))) is wanted

    def above(frame: Frame) -> object:
        value: Any = left(frame)
        return (value.nanos > _nanos(right(frame))) is wanted

    def same(frame: Frame) -> object:
        value: Any = left(frame)
        return (value.nanos == _nanos(right(frame))) is wanted

    match op:
        case ">=" | "<":
            return at_least
        case ">" | "<=":
            return above
        case _:
            return same


# ---- macros with one variable over a list: a plain loop in one closure
#
# The fuel for the whole list is taken before its first item.

Items = Callable[[Frame], Sequence[object]]


def loop(compiler: Compiler, expr: Expr) -> Evaluate | None:
    """A macro with one variable over a list; None for other macros and other targets."""
    if not isinstance(expr, Comprehension):
        return None
    if expr.target.type.name != "list" or len(expr.variables) != 1 or len(expr.body) != 1:
        return None
    (body,) = expr.body
    if expr.macro not in ("all", "exists", "filter", "map"):
        return None
    if expr.macro != "map" and body.type != BOOL:
        return None
    items = _items(compiler, expr.target)
    slot = compiler.slot()
    names = {expr.variables[0]: slot}
    if expr.macro in ("filter", "map"):
        make = _filter if expr.macro == "filter" else _map
        return make(items, slot, compiler.with_locals(names, body))
    decisive = expr.macro == "exists"
    sieve = _sieve(compiler, expr)
    if sieve is None:
        return _search(items, slot, compiler.with_locals(names, body), decisive=decisive)
    if sieve.rest is None:
        return _sift(items, sieve, decisive=decisive)
    rest = compiler.with_locals(names, sieve.rest)
    return _sifted_search(items, slot, sieve, rest, decisive=decisive)


def _items(compiler: Compiler, target: Expr) -> Items:
    """The items of the target, after taking the fuel for all of them."""
    chain = field_chain(compiler, target)
    read: Callable[[Frame], Any] = compiler.compile(target)
    fields = read if chain is None or chain.slot is not None or chain.key else chain.fields

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
    """A test of a field that selects the items that can decide: the first test of the macro.

    It is the first operand of `&&` in an `exists`, or of `||` in an `all`, and never fails. An item
    passes if its text is among the known ones, or is not if not `wanted`. `rest` is the remaining
    test, or None.
    """

    field: str
    known: Container[object]
    wanted: bool
    rest: Expr | None


def _sieve(compiler: Compiler, expr: Comprehension) -> _Sieve | None:
    """The sieve of an `all` or `exists`; None if it does not start with the test of a field."""
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
            # An absent field is None here but "" in the rule, so neither may be a known text.
            if known is not None and not known.optional and "" not in test.known:
                return _Sieve(field, test.known, test.wanted is exists, rest)
    return None


def _search(items: Items, slot: int, test: Evaluate, *, decisive: bool) -> Evaluate:
    """`all` and `exists`: an item that decides wins over the errors of others."""

    def run(frame: Frame) -> object:
        failure: EvaluationError | None = None
        local = frame.locals
        for local[slot] in items(frame):
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
    items: Items, slot: int, sieve: _Sieve, test: Evaluate, *, decisive: bool
) -> Evaluate:
    """A search that tests only the items that pass the sieve."""
    field, known, wanted = sieve.field, sieve.known, sieve.wanted

    def run(frame: Frame) -> object:
        failure: EvaluationError | None = None
        for item in items(frame):
            if (getattr(item, field, None) in known) is not wanted:
                continue
            frame.locals[slot] = item
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
    """A search that the sieve alone decides."""
    field, known, wanted = sieve.field, sieve.known, sieve.wanted

    def run(frame: Frame) -> object:
        for item in items(frame):
            if (getattr(item, field, None) in known) is wanted:
                return decisive
        return not decisive

    return run


def _filter(items: Items, slot: int, test: Evaluate) -> Evaluate:
    def run(frame: Frame) -> object:
        local = frame.locals
        kept = []
        for item in items(frame):
            local[slot] = item
            if test(frame) is True:
                kept.append(item)
        return tuple(kept)

    return run


def _map(items: Items, slot: int, make: Evaluate) -> Evaluate:
    def run(frame: Frame) -> object:
        local = frame.locals
        return tuple([make(frame) for local[slot] in items(frame)])

    return run


# In this order: the first one that takes an expression makes its closure.
FAST_PATHS: tuple[FastPath, ...] = (value, value_or_default, key_test, comparison, loop)
