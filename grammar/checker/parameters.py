"""Parameters: constants that a policy declares, and the values that it gets for them.

Before a policy is checked, the values take the places of the names in its tree, as literals. So
nothing behind this module knows parameters: what is a constant with a number in the text is one
with a parameter. A value is checked against the declared type first, where it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from grammar.checker.constants import coerce
from grammar.checker.expression_checker import Checker
from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
from grammar.meaning.schema import Schema
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic
from grammar.tree.ast import Comprehension, Expr, Ident, ListLiteral, Literal, MapLiteral, Unary
from grammar.tree.clauses import Argument, Clause, Def, Item, Let, Parameter, Policy
from grammar.tree.data import Data
from grammar.tree.printer import print_expression, print_string
from grammar.tree.source import Span
from grammar.tree.types import (
    BOOL,
    DECLARED,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    QUANTITY,
    SEMVER,
    STRING,
    TIMESTAMP,
    Type,
    agrees,
    unknown_type,
)
from grammar.tree.walk import rewritten, walk
from grammar.values.errors import EvaluationError
from grammar.values.quantity import Quantity
from grammar.values.semver import Semver
from grammar.values.time import Duration, Timestamp

T = TypeVar("T")
Values = Mapping[str, Expr]


def declared(policy: Policy, schema: Schema) -> tuple[dict[str, Expr], list[Diagnostic]]:
    """The values of the parameters without anybody who sets them, and the mistakes in them.

    A parameter without a default gets an example of its type: a policy with such an example governs
    no pod, and only what does not depend on the value is checked.
    """
    found = [*_about_names(policy)]
    values: dict[str, Expr] = {}
    for number, parameter in enumerate(policy.parameters, 1):
        example = _example(parameter.type, number)
        if example is None:
            names = (str(t) for t in (*DECLARED, "list", "map") if t != DYN)
            unknown = unknown_type(parameter.type, ()) or parameter.type
            where = parameter.type_span
            found.append(catalogue.unknown_type(str(unknown), names, where, parameter.type))
            continue
        values[parameter.name] = example
        if parameter.default is None:
            if not policy.only_used:
                found.append(catalogue.no_default(parameter.name, parameter.name_span))
            continue
        _set(parameter, parameter.default, schema, values, found)
    return values, found


def _about_names(policy: Policy) -> Iterator[Diagnostic]:
    seen = {i.name for i in policy.items if isinstance(i, Let | Def)}
    for parameter in policy.parameters:
        if parameter.name in seen:
            where = parameter.name_span
            yield catalogue.duplicate_name("the parameter", parameter.name, where)
        seen.add(parameter.name)


def given(
    policy: Policy, arguments: Sequence[Argument], span: Span, schema: Schema
) -> tuple[dict[str, Expr], list[Diagnostic]]:
    """The values that a `use` at a span gives to the parameters of a policy, and its mistakes."""
    known = {p.name: p for p in policy.parameters}
    values: dict[str, Expr] = {}
    found: list[Diagnostic] = []
    for argument in arguments:
        parameter = known.get(argument.name)
        if parameter is None:
            where = Span(argument.span.start, argument.span.start + len(argument.name))
            found.append(catalogue.unknown_parameter(argument.name, policy.name, known, where))
            continue
        _set(parameter, argument.value, schema, values, found)
    written = {argument.name for argument in arguments}
    for parameter in policy.parameters:
        if parameter.default is None and parameter.name not in written:
            example = _shown(_example(parameter.type, 1))
            found.append(catalogue.lacking_parameter(parameter.name, policy.name, example, span))
    return values, found


def _set(
    parameter: Parameter,
    expr: Expr,
    schema: Schema,
    values: dict[str, Expr],
    found: list[Diagnostic],
) -> None:
    """Adds the value of a parameter, or the mistake in it."""
    value = constant(expr, parameter, schema)
    if isinstance(value, Diagnostic):
        found.append(value)
    else:
        values[parameter.name] = value


# ---- values

# The most parts of a value, with the value itself: it stands wherever its name does.
MAX_PARTS = 33


def constant(expr: Expr, parameter: Parameter, schema: Schema) -> Expr | Diagnostic:
    """The checked value of a parameter, or the mistake in it. An int is a double where one is due.

    A value is a literal, or a list or map of literals.
    """
    parts = [*walk(expr)]
    if (part := next((e for e in parts if not _is_plain(e)), None)) is not None:
        return catalogue.not_constant(parameter.name, part.span)
    if len(parts) > MAX_PARTS:
        return catalogue.large_value(parameter.name, MAX_PARTS, expr.span)
    environment = Environment(variables={}, schema=schema)
    checker = Checker(environment)
    wanted = parameter.type
    checked = coerce(checker.check(expr), wanted, checker.found)
    if checker.found:
        return checker.found[0]
    if wanted == DOUBLE and checked.type == INT:
        value = evaluate(checked, {}, environment)
        assert isinstance(value, int), "it is an int"
        return Literal(float(value), DOUBLE, expr.span)
    if not agrees(wanted, checked.type):
        example = _shown(parameter.default or _example(wanted, 1))
        return catalogue.wrong_parameter(
            parameter.name, wanted, checked.type, example, checked.span
        )
    if isinstance(checked, Unary):
        try:
            return Literal(evaluate(checked, {}, environment), wanted, expr.span)
        except EvaluationError:
            return catalogue.not_constant(parameter.name, checked.span)
    return checked


def _is_plain(expr: Expr) -> bool:
    match expr:
        case Literal() | ListLiteral(optional=()) | MapLiteral():
            return True
        case Unary("-", Literal()):
            return True
        case _:
            return False


_TEXT = "example-"
# Two parameters of one type have different examples, so that no range is empty.
_EXAMPLES: Mapping[Type, Callable[[int], object]] = {
    BOOL: lambda _: True,
    INT: lambda number: number,
    DOUBLE: float,
    STRING: lambda number: f"{_TEXT}{number}",
    QUANTITY: lambda number: Quantity.parse(str(number)),
    DURATION: lambda number: Duration.parse(f"{number}s"),
    TIMESTAMP: lambda number: Timestamp.parse(f"2026-01-01T00:00:{number % 60:02}Z"),
    SEMVER: lambda number: Semver.parse(f"{number}.0.0"),
}


def is_example(text: str) -> bool:
    """Whether a text may be the example of a parameter without a default."""
    return text.startswith(_TEXT) and text.removeprefix(_TEXT).isdigit()


def _example(wanted: Type, number: int) -> Expr | None:
    """A value of a type; None if parameters cannot have the type."""
    match wanted:
        case Type("list", (item,)):
            inner = _example(item, number)
            return None if inner is None else ListLiteral((inner,), type=wanted)
        case Type("map", (_, item)):
            return None if _example(item, number) is None else MapLiteral((), type=wanted)
        case _ if wanted in _EXAMPLES:
            return Literal(_EXAMPLES[wanted](number), wanted)
        case _:
            return None


def _shown(example: Expr | None) -> str:
    """An example as it is written; amounts, times and versions are written as texts."""
    if isinstance(example, Literal) and not isinstance(example.value, bool | int | float | str):
        return print_string(str(example.value))
    return print_expression(example) if example is not None else ""


# ---- the tree


def filled(policy: Policy, values: Values) -> tuple[Policy, list[Diagnostic]]:
    """The policy with the values in place of the names, each at the span of its name.

    The diagnostics are about values that have no place where they stand.
    """
    found: list[Diagnostic] = []
    items = (_with_texts(_with_weight(_put(item, values), found), found) for item in policy.items)
    return replace(policy, items=tuple(items)), found


def _put(node: T, values: Values) -> T:
    def change(part: object) -> object:
        match part:
            case Ident(name, absolute=False) if name in values:
                return _at(values[name], part.span)
            case Comprehension(variables=names) if not values.keys().isdisjoint(names):
                inner = {name: value for name, value in values.items() if name not in names}
                target, body = _put(part.target, values), _put(part.body, inner)
                return replace(part, target=target, body=body)
            case Def(parameters=parameters):
                names = tuple(p.name for p in parameters)
                inner = {name: value for name, value in values.items() if name not in names}
                return replace(part, body=_put(part.body, inner))
            case _:
                return part

    return rewritten(node, change)


def _at(value: Expr, span: Span) -> Expr:
    """The value at the span of a name. The items of a list are shared: there may be many names."""
    return replace(value, span=span)


def _with_weight(item: Item, found: list[Diagnostic]) -> Item:
    """The item with its weight as a number, if a parameter gives it."""
    if not isinstance(item, Clause) or not isinstance(item.weight_name, Literal):
        return item
    negative = item.weight_may_be_negative
    return item.weighing(_weight(item.weight_name, found, negative=negative))


def _with_texts(item: Item, found: list[Diagnostic]) -> Item:
    """The block of data with the texts of its source, if parameters give some."""
    if not isinstance(item, Data) or not item.names:
        return item
    # By the fields of the source, which are texts.
    texts, names = dict[str, Any](), list[tuple[str, Expr]]()
    for field, expr in item.names:
        if not isinstance(expr, Literal):
            names.append((field, expr))
        elif isinstance(expr.value, str):
            texts[field] = expr.value
        else:
            found.append(catalogue.wrong_type(expr.type, "a string", expr.span))
            texts[field] = ""
    return replace(item, source=replace(item.source, **texts), names=tuple(names))


def _weight(literal: Literal, found: list[Diagnostic], *, negative: bool) -> float:
    value, span = literal.value, literal.span
    if literal.type not in (INT, DOUBLE) or not isinstance(value, int | float):
        found.append(catalogue.wrong_type(literal.type, "a number", span))
        return 1
    if value == 0 or (value < 0 and not negative):
        allowed = "a number other than 0" if negative else "a number above 0"
        found.append(catalogue.bad_number(str(value), "weight", allowed, span))
        return 1
    return value
