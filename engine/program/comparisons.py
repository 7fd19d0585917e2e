"""Tests of texts and amounts: most of what rules ask of nodes and pods.

They take for granted what the types promise; anything else gets its meaning from the general
closures.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from engine.program.chains import FieldChain, field_chain
from engine.program.frame import Evaluate, Frame
from grammar.ast import Binary, Expr, ListLiteral, Literal
from grammar.errors import MissingError
from grammar.types import DURATION, QUANTITY, STRING, TIMESTAMP

if TYPE_CHECKING:
    from engine.program.compiler import Compiler

_AMOUNTS = frozenset({QUANTITY, DURATION, TIMESTAMP})
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
# Up to so many texts are found faster one after the other than by their hash.
_FEW = 3

_nanos = attrgetter("nanos")


def comparison(compiler: Compiler, expr: Binary) -> Evaluate | None:
    """The closure of a test of a text or an amount; None for any other operation."""
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
    """Whether being among the known texts is as wanted: `==`, `!=`, and `in` of a list."""

    operand: Expr
    known: Container[object]
    wanted: bool

    def knows(self, text: str) -> bool:
        return text in self.known


def text_test(expr: Expr) -> TextTest | None:
    """The test of a text against constants; None for anything else."""
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
    """An order against a constant: the operand, and whether it has these nanos at least or not."""
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
    """A comparison with a constant, as if that were on the right."""
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
        except TypeError:  # what has no hash is no text
            return not wanted

    return run


def _text_at(
    chain: FieldChain, known: Container[object], meaning: Evaluate, *, wanted: bool
) -> Evaluate:
    fields, place, key, missing = chain.fields, chain.place, chain.key, chain.missing

    def run(frame: Frame) -> object:
        try:
            value = fields(frame if place is None else frame.locals[place])
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
    fields, place, key, missing = chain.fields, chain.place, chain.key, chain.missing

    def run(frame: Frame) -> object:
        try:
            value = fields(frame if place is None else frame.locals[place])
            nanos = value.nanos if key is None else value[key].nanos
        except KeyError:
            raise MissingError(missing) from None
        except (AttributeError, TypeError):
            return meaning(frame)
        return (nanos >= least) is wanted

    return run


def _two_amounts(op: str, left: Evaluate, right: Evaluate) -> Evaluate:
    """A comparison of two amounts that need not be constants."""
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
