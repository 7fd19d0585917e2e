"""Cases of the CEL conformance suite as JSON: reading, running and judging one."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.program.compiler import Compiler
from engine.program.frame import Frame
from grammar.checker.expression_checker import Checker
from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
from grammar.syntax.parser import parse_expression
from grammar.tree.ast import Expr
from grammar.tree.source import Source
from grammar.tree.types import DYN, Type, list_of, map_of, optional_of
from grammar.values.addresses import parse_cidr, parse_ip
from grammar.values.errors import EvaluationError
from grammar.values.kinds import TypeValue, kind
from grammar.values.maps import build, key_values
from grammar.values.optional import NONE, Optional
from grammar.values.time import Duration, Timestamp

SUITE = Path(__file__).parents[3] / "shared" / "cel" / "cases.json"
_TYPES = (
    "bool",
    "int",
    "double",
    "string",
    "null",
    "duration",
    "timestamp",
    "dyn",
    "type",
    "ip",
    "cidr",
)


@dataclass(frozen=True, slots=True)
class Case:
    """One case; `fields` is its JSON."""

    fields: Mapping[str, Any]

    @property
    def name(self) -> str:
        return "/".join(self.fields[k] for k in ("file", "section", "name"))

    @property
    def tier(self) -> int:
        return int(self.fields.get("tier", 1))

    @property
    def checked(self) -> bool:
        """Whether the case also goes through checker and compiler."""
        return not self.fields.get("disable_check")

    @property
    def environment(self) -> Environment:
        declared = {d["name"]: _type(d.get("type", "dyn")) for d in self.fields.get("decls", ())}
        bound = dict.fromkeys(self.bindings, DYN)
        return Environment(variables={**bound, **declared})

    @property
    def bindings(self) -> dict[str, object]:
        return {n: value_of(v) for n, v in (self.fields.get("bindings") or {}).items()}

    def agrees(self, found: object) -> bool:
        """Whether a value, or an EvaluationError in its place, is what the case expects."""
        expected = self.fields["expect"]
        if expected["kind"] == "error":
            return isinstance(found, EvaluationError)
        wanted = expected.get("value", {"t": "bool", "v": True})
        return not isinstance(found, EvaluationError) and _same(value_of(wanted), found)


def read(path: Path) -> list[Case]:
    loaded = json.loads(path.read_text(encoding="utf-8"))
    return [Case(c) for c in (loaded["cases"] if isinstance(loaded, dict) else loaded)]


def plainly(case: Case) -> object:
    """The result of the plain evaluator on the tree as parsed; what does not parse is an error."""
    expr, found = parse_expression(Source(case.name, case.fields["expr"]))
    if expr is None:
        return EvaluationError(found[0].message)
    try:
        return evaluate(expr, case.bindings, case.environment)
    except EvaluationError as error:
        return error


def compiled(case: Case) -> object:
    """The result of checker and compiler; what does not check is an error."""
    checked = check(case)
    if isinstance(checked, EvaluationError):
        return checked
    expr, environment = checked
    bindings = case.bindings
    compiler = Compiler(environment, read=lambda name: lambda _: bindings[name])
    run = compiler.compile(expr)
    frame = Frame(None, Timestamp.ZERO, slots=compiler.slots)
    try:
        return run(frame)
    except EvaluationError as error:
        return error


def check(case: Case) -> tuple[Expr, Environment] | EvaluationError:
    expr, found = parse_expression(Source(case.name, case.fields["expr"]))
    if expr is None:
        return EvaluationError(found[0].message)
    checker = Checker(case.environment)
    checked = checker.check(expr)
    if checker.found:
        return EvaluationError(checker.found[0].message)
    return checked, case.environment


def value_of(tagged: Mapping[str, Any]) -> object:
    """A value of the language from the suite's `{"t": type, "v": value}`."""
    value = tagged.get("v")
    match tagged["t"]:
        case "int":
            return int(str(value))
        case "double":
            return float(str(value).replace("Infinity", "inf"))
        case "list":
            return tuple(value_of(v) for v in value or ())
        case "map":
            return build((value_of(k), value_of(v)) for k, v in value or ())
        case "duration":
            return Duration.parse(str(value))
        case "timestamp":
            return Timestamp.parse(str(value))
        case "type":
            return TypeValue(str(value))
        case "optional":
            return NONE if value is None else Optional(value_of(value))
        case "ip":
            return parse_ip(str(value))
        case "cidr":
            return parse_cidr(str(value))
        case _:
            return value


def _type(text: str) -> Type:
    name, bracket, inner = text.removesuffix(")").partition("(")
    if not bracket:
        return Type(name) if name in _TYPES else DYN
    if name == "list":
        return list_of(_type(inner))
    if name in ("optional", "optional_type"):
        return optional_of(_type(inner))
    if name == "map":
        key, _, value = inner.partition(", ")
        return map_of(_type(key), _type(value))
    return DYN


def _same(expected: object, found: object) -> bool:
    """Equal and of one type, with no-number equal to itself."""
    if kind(expected) != kind(found):
        return False
    if isinstance(expected, float) and isinstance(found, float):
        return expected == found or (math.isnan(expected) and math.isnan(found))
    if isinstance(expected, tuple):
        assert isinstance(found, list | tuple)
        return len(expected) == len(found) and all(map(_same, expected, found))
    if isinstance(expected, dict):
        assert isinstance(found, dict)
        other = dict(key_values(found))
        return len(expected) == len(other) and all(
            k in other and _same(v, other[k]) for k, v in key_values(expected)
        )
    if isinstance(expected, Optional) and isinstance(found, Optional):
        return expected.present == found.present and (
            not expected.present or _same(expected.value, found.value)
        )
    return expected == found
