"""The fields that a test gives of a node or a pod: from the map in the text to the API's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cli.testing.complaint import TestMistakeError, complaint
from grammar import mistakes
from grammar.ast import Expr, ListLiteral, MapLiteral
from grammar.environment import Environment
from grammar.errors import EvaluationError
from grammar.evaluator import evaluate
from grammar.policy_checker import VARIABLES
from grammar.schema import Schema
from grammar.types import DYN, Type
from grammar.values.duration import Duration
from grammar.values.maps import key_values
from grammar.values.quantity import Quantity
from grammar.values.timestamp import Timestamp

Json = Any


@dataclass(frozen=True, slots=True)
class Given:
    """One field of a node or a pod, as its test gives it."""

    key: Expr
    value: Expr


class FieldReader:
    """Evaluates fields. They are constants but for `now`, and API objects know their fields."""

    def __init__(self, schema: Schema, now: Timestamp) -> None:
        self._schema = schema
        self._environment = Environment(variables=VARIABLES, schema=schema)
        self.now = now

    def fields(self, body: MapLiteral | None) -> dict[str, Given]:
        """By name. Raises TestMistakeError for a name that is no text, or is there twice."""
        found: dict[str, Given] = {}
        for entry in body.entries if body is not None else ():
            name = self._evaluated(entry.key)
            if not isinstance(name, str):
                raise _mistake("the name of a field is a text", entry.key)
            if name in found:
                raise _mistake(f"`{name}` is given twice", entry.key)
            found[name] = Given(entry.key, entry.value)
        return found

    def json(self, value: Expr, wanted: Type = DYN) -> Json:
        """A value as the API has it. Raises TestMistakeError, also for an unknown field."""
        if isinstance(value, MapLiteral) and wanted.is_record:
            known = self._schema.records[wanted.name].fields
            made = {}
            for name, given in self.fields(value).items():
                if name not in known:
                    found = mistakes.unknown_field(wanted, name, known, given.key.span)
                    raise TestMistakeError(found)
                made[name] = self.json(given.value, known[name].type)
            return made
        if isinstance(value, MapLiteral):
            inner = wanted.args[-1] if wanted.name == "map" else DYN
            return {n: self.json(g.value, inner) for n, g in self.fields(value).items()}
        if isinstance(value, ListLiteral) and wanted.name == "list":
            return [self.json(element, wanted.args[0]) for element in value.elements]
        return _plain(self._evaluated(value), value)

    def text(self, given: Given, what: str) -> str:
        """Raises TestMistakeError for a value that is no text."""
        found = self.json(given.value)
        if not isinstance(found, str):
            raise _mistake(f"{what} is a text", given.value)
        return found

    def age(self, given: Given) -> Duration:
        """A length of time, as in `"15m"`. Raises TestMistakeError."""
        found = self._evaluated(given.value)
        if isinstance(found, Duration):
            return found
        try:
            return Duration.parse(self.text(given, "an age"))
        except EvaluationError as error:
            raise _mistake(f"this is no age: {error}", given.value) from None

    def _evaluated(self, expr: Expr) -> object:
        try:
            return evaluate(expr, {"now": self.now}, self._environment)
        except EvaluationError as error:
            hint = "a test gives constants, which may read `now`"
            raise TestMistakeError(
                complaint(f"this has no value here: {error}", expr.span, hint=hint)
            ) from None


def _plain(value: object, expr: Expr) -> Json:
    """A value of the language as JSON."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple():
            return [_plain(item, expr) for item in value]
        case Mapping():
            return {str(k): _plain(v, expr) for k, v in key_values(value)}
        case Quantity() | Duration() | Timestamp():
            return str(value)
        case _:
            raise _mistake("an object's field is no value of this kind", expr)


def _mistake(message: str, at: Expr) -> TestMistakeError:
    return TestMistakeError(complaint(message, at.span))
