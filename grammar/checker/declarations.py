"""Declarations: what a policy gives a name: its parameters, tables, groups, counts and definitions.

Before a policy is checked, the values of its parameters take the places of the names in its tree,
as literals. So nothing behind this module knows parameters: what is a constant with a number in the
text is one with a parameter. A value is checked against the declared type first, where it is
written. `tables` gives what expressions read as `data.NAME`, `with_name` an environment in which
they read a group or a count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import PurePosixPath
from typing import Any, TypeVar

from grammar.checker.expression_checker import Checker
from grammar.clauses.cards import Cards
from grammar.meaning.constants import coerce
from grammar.meaning.environment import Environment
from grammar.meaning.evaluator import evaluate
from grammar.meaning.schema import Field, Record, Schema, print_as_written
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic
from grammar.syntax.parser import MAX_DEPTH
from grammar.tree.ast import (
    Call,
    Comprehension,
    DefCall,
    Expr,
    Ident,
    Index,
    LetReference,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    Unary,
)
from grammar.tree.clause_parts import STATES, AnyClause, PodSet
from grammar.tree.policy import (
    COLUMN_OF,
    DATA,
    Argument,
    Column,
    Count,
    Data,
    Def,
    FromConfigMap,
    FromFile,
    FromObjects,
    FromPrometheus,
    Group,
    Item,
    Let,
    Parameter,
    Policy,
    TableSource,
)
from grammar.tree.printer import print_expression, print_string
from grammar.tree.source import Span
from grammar.tree.types import (
    BOOL,
    DECLARED,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    POISON,
    QUANTITY,
    SEMVER,
    STRING,
    TIMESTAMP,
    Type,
    agrees,
    map_of,
    unknown_type,
)
from grammar.tree.walk import children, reads, rewritten, walk
from grammar.values.errors import EvaluationError
from grammar.values.lists import PLUS
from grammar.values.object_names import is_label, is_subdomain
from grammar.values.quantity import Quantity
from grammar.values.semver import Semver
from grammar.values.time import Duration, Timestamp

# ---- parameters

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
        return Literal(float(value), DOUBLE, span=expr.span)
    if not agrees(wanted, checked.type):
        example = _shown(parameter.default or _example(wanted, 1))
        return catalogue.wrong_parameter(
            parameter.name, wanted, checked.type, example, checked.span
        )
    if isinstance(checked, Unary):
        try:
            return Literal(evaluate(checked, {}, environment), wanted, span=expr.span)
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
                return replace(values[name], span=part.span)
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


def _with_weight(item: Item, found: list[Diagnostic]) -> Item:
    """The item with its weight as a number, if a parameter gives it."""
    if not isinstance(item, AnyClause) or not isinstance(item.points_weight, Literal):
        return item
    negative = item.weight_may_be_negative
    return item.weighing(_weight(item.points_weight, found, negative=negative))


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


# ---- data

# The types that a column can have, and the name of the object that a row is made of.
COLUMN_TYPES = (DOUBLE, INT, STRING, BOOL, QUANTITY, DURATION, TIMESTAMP)
OBJECT = "object"
_UNKNOWN_NAME = "P0101"
# What every row has besides its columns.
_OWN_FIELDS = ("time", "age")
_URL = re.compile(r"https?://[^\s/?#@]+(/[^\s?#]*)?\Z")
_KIND = re.compile(r"([a-z0-9.-]+/)?v[0-9][a-z0-9]*/[A-Z][A-Za-z0-9]*\Z")


def tables(policy: Policy, environment: Environment, found: list[Diagnostic]) -> Mapping[str, Data]:
    """The blocks of a policy by the names that expressions read, with the types of their columns.

    `found` gets what is wrong in expressions. Of two blocks with one name the last one counts.
    """
    blocks = (item for item in policy.items if isinstance(item, Data))
    return {data.variable: _typed(data, environment, found) for data in blocks}


def with_tables(environment: Environment, found: Mapping[str, Data]) -> Environment:
    """The environment in which expressions read these tables."""
    if not found:
        return environment
    types = {name: map_of(STRING, data.row) for name, data in found.items()}
    schema = environment.schema
    assert schema is not None, "policies have a schema"
    records = {data.row.name: _record(data) for data in found.values()}
    return replace(
        environment,
        variables={**environment.variables, **types},
        schema=Schema({**schema.records, **records}),
        tables=found,
    )


def findings(data: Data, policy: Policy) -> list[Diagnostic]:
    """What is wrong in a block of `tables`, besides its expressions."""
    found: list[Diagnostic] = []
    if not data.name.isidentifier() or not data.name.isascii():
        why = "is not a name that an expression can read"
        hint = "write letters, digits and `_`, such as `load`"
        found.append(catalogue.bad_data(f"`{data.name}` {why}", data.name_span, hint))
    # Another check reports names that are not parameters. An example value is not a real source.
    if not data.names and not has_example(data.source):
        found.extend(_of_source(data, policy))
    found.extend(_of_columns(data))
    return found


def _record(data: Data) -> Record:
    about = f"{COLUMN_OF}`data.{data.name}`."
    fields = {
        column.name: Field(column.name, _read_as(column), optional=True, native=True, doc=about)
        for column in data.columns
    }
    own = {
        "time": Field("time", TIMESTAMP, native=True, doc="When the source said so."),
        "age": Field("age", DURATION, derived="now - self.time", doc="How long ago that was."),
    }
    return Record(data.row.name, {**fields, **own}, f"A row of the table `{data.name}`.")


def _read_as(column: Column) -> Type:
    """Its type for expressions: a type that no column can have is reported once, at the column."""
    return column.type if column.type in COLUMN_TYPES else POISON


def _typed(data: Data, environment: Environment, found: list[Diagnostic]) -> Data:
    """The block with checked expressions, which read only the object."""
    source = data.source
    if not isinstance(source, FromObjects):
        return data
    variables: Mapping[str, Type] = {OBJECT: DYN}
    checker = Checker(replace(environment, variables=variables, lets={}, defs={}, tables={}))
    by = checker.check(source.by, STRING)
    columns = tuple(
        replace(c, value=value, type=value.type)
        if (value := checker.check(c.value) if c.value is not None else None) is not None
        else c
        for c in data.columns
    )
    found.extend(map(_about_object, checker.found))
    return replace(data, source=replace(source, by=by), columns=columns)


def _about_object(found: Diagnostic) -> Diagnostic:
    """The diagnostic of an expression that reads an object, with a hint that works there."""
    if found.code != _UNKNOWN_NAME or found.fix is not None:
        return found
    return replace(found, hint=f"write `{OBJECT}.metadata.name`: it reads `{OBJECT}` alone")


def has_example(source: TableSource) -> bool:
    """Whether a parameter without a default gives a text of the source."""
    texts = (getattr(source, field.name) for field in fields(source))
    return any(isinstance(text, str) and is_example(text) for text in texts)


def _of_source(data: Data, policy: Policy) -> list[Diagnostic]:
    source, word, span = data.source, data.source.word, data.source.span
    if policy.namespace is not None and not isinstance(source, FromConfigMap):
        message = f"a policy of a namespace cannot have data `from {word}`"
        hint = "declare it in a policy of all namespaces, and `use` that one"
        return [catalogue.data_of_namespace(message, data.name_span, hint)]
    match source:
        case FromConfigMap(name):
            namespace, _, own = name.partition("/")
            if not (is_label(namespace) and is_subdomain(own)):
                return [_wrong(name, "the namespace and name of a ConfigMap", "shop/racks", span)]
            if policy.namespace not in (None, namespace):
                message = f"a policy of `{policy.namespace}` cannot read `{name}`"
                hint = f"put the ConfigMap into the namespace `{policy.namespace}`"
                return [catalogue.data_of_namespace(message, span, hint)]
        case FromPrometheus(url):
            if not _URL.match(url):
                example = "http://prometheus.monitoring:9090"
                return [_wrong(url, "the address of a Prometheus", example, span)]
        case FromFile(path):
            parts = PurePosixPath(path)
            if not path or parts.is_absolute() or ".." in parts.parts:
                return [_wrong(path, "a file in the folder of data", "prices.csv", span)]
        case FromObjects(kind):
            if not _KIND.match(kind):
                example = "v1/PersistentVolumeClaim"
                return [_wrong(kind, "a version and a kind", example, span)]
        case _:
            return []
    return []


def _of_columns(data: Data) -> list[Diagnostic]:
    found, seen, source = list[Diagnostic](), set[str](), data.source
    own = data.columns[len(source.columns) :]
    if source.columns and own:
        names = catalogue.listed((f"`{c.name}`" for c in source.columns), "and")
        message = f"data `from {source.word}` has the columns {names}, and no others"
        return [catalogue.bad_data(message, own[0].span, "leave out `columns`")]
    if not data.columns:
        example = "watts: double" if not isinstance(source, FromObjects) else "class = string(…)"
        hint = f"write `columns {{ {example} }}`"
        return [catalogue.bad_data("the data block needs `columns`", data.name_span, hint)]
    for column in own:
        if column.name in seen or column.name in _OWN_FIELDS:
            what = "the column" if column.name in seen else "the field of every row"
            found.append(catalogue.duplicate_name(what, column.name, column.span))
        seen.add(column.name)
        found.extend(_of_column(column, is_of_object=isinstance(source, FromObjects)))
    return found


def _of_column(column: Column, *, is_of_object: bool) -> list[Diagnostic]:
    name = column.name
    if is_of_object and column.value is None:
        message = f"the column `{name}` has no expression"
        hint = f"write what it is of the object, such as `{name} = string(object.spec.{name})`"
        return [catalogue.bad_data(message, column.span, hint)]
    if not is_of_object and column.value is not None:
        hint = f"write its type, such as `{name}: double`"
        return [catalogue.bad_data(f"the column `{name}` has no type", column.span, hint)]
    if column.over == "sum" and column.type in COLUMN_TYPES and column.type.name not in PLUS:
        message = f"there is no sum of `{column.type}`"
        hint = f"write `{name} = max …` or `{name} = count`, or a sum of `{'`, `'.join(PLUS)}`"
        return [catalogue.bad_data(message, column.type_span, hint)]
    if column.type in (*COLUMN_TYPES, POISON):
        return []
    if column.type == DYN and column.value is not None:
        hint = f"write its type, such as `string({print_expression(column.value)})`"
        return [catalogue.bad_data(f"the column `{name}` has no type", column.type_span, hint)]
    types = catalogue.listed(f"`{each}`" for each in COLUMN_TYPES)
    message = f"a column cannot be `{column.type}`"
    return [catalogue.bad_data(message, column.type_span, f"write {types}")]


def _wrong(text: str, what: str, example: str, span: Span) -> Diagnostic:
    return catalogue.bad_data(f"`{text}` is not {what}", span, f"write `{example}`")


# ---- groups and counts

# The record of the schema with the fields that every group has besides its `value`.
_FIELDS = "NodeGroup"
# A message may read only what stays equal between two calls for one pod (C47).
_CONSTANT = (
    ("pod", "metadata", "name"),
    ("pod", "metadata", "namespace"),
    ("pod", "metadata", "labels"),
    ("pod", "spec"),
)


def with_name(environment: Environment, item: Group | Count, kind: Type) -> Environment:
    """The environment in which expressions read this checked group, or this count, of a type."""
    variables = {**environment.variables, item.name: kind}
    if isinstance(item, Count):
        counts = {**environment.counts, item.name: item}
        return replace(environment, variables=variables, counts=counts)
    schema = environment.schema
    assert schema is not None, "policies have a schema"
    common = schema.records[_FIELDS].fields
    value = replace(common["value"], type=item.by.type)
    record = Record(item.type.name, {**common, "value": value}, f"The group `{item.name}`.")
    return replace(
        environment,
        variables=variables,
        schema=Schema({**schema.records, record.name: record}),
        groups={**environment.groups, item.name: item},
    )


def wrong_pods(by: AnyClause | Count, pods: PodSet) -> Iterator[Diagnostic]:
    """An error for pods, or a sum of them, that are not counted `by` this."""
    if pods.amount is not None and isinstance(by, AnyClause) and not by.may_sum:
        yield catalogue.sum_of_pods(by.keyword, pods.amount.span)
    if pods.state and pods.state not in STATES.get(by.keyword, ()):
        found = catalogue.not_counted(by.keyword, pods.state, pods.span)
        hint = "leave out `placed`: without a state, pods have a node"
        yield replace(found, hint=hint) if pods.state == "placed" else found


def varying(
    hole: Expr, environment: Environment, variables: Mapping[str, Type]
) -> Iterator[Diagnostic]:
    """An error for a part of a message that may change between two calls for one pod."""
    named = {*environment.groups, *environment.counts}
    for read in reads(hole, environment.definitions):
        root = read.path[0]
        if root.startswith(DATA) or root in named:
            yield catalogue.message_varies(root, hole.span)
            return
        if root in variables and not any(read.path[: len(c)] == c for c in _CONSTANT):
            shown = print_as_written(hole, environment.schema)
            yield catalogue.message_varies(shown, hole.span)
            return


# ---- depth

# What an expression uses by its name.
Definition = Let | Def | Group | Count


def too_deep(definitions: Mapping[str, Definition]) -> Definition | None:
    """The first definition whose depth, with the definitions it uses, is above MAX_DEPTH.

    This is a loop without recursion.
    """
    uses = {name: _uses(d, definitions) for name, d in definitions.items()}
    heights: dict[str, int] = {}
    for name in definitions:
        # A name that is on the path again is a circle, which another check reports.
        path = [name]
        on_path = {name}
        while path:
            top = path[-1]
            todo = next((u for u in uses[top] if u and u not in heights and u not in on_path), None)
            if todo is not None:
                path.append(todo)
                on_path.add(todo)
                if len(path) > MAX_DEPTH:
                    return definitions[name]
                continue
            own = uses[top]
            heights[top] = max(own.get("", 0), *(d + heights.get(u, 0) for u, d in own.items()))
            if heights[top] > MAX_DEPTH:
                return definitions[top]
            on_path.discard(path.pop())
    return None


def _uses(definition: Definition, names: Mapping[str, object]) -> dict[str, int]:
    """The greatest depth at which each name is used; under the empty name, that of the body."""
    found: dict[str, int] = {"": 0}
    stack = [(body, 1) for body in children(definition)]
    while stack:
        expr, depth = stack.pop()
        found[""] = max(found[""], depth)
        if (name := name_used(expr)) in names:
            found[name] = max(found.get(name, 0), depth)
        stack.extend((child, depth + 1) for child in children(expr))
    return found


def name_used(expr: Expr) -> str:
    """The name or function of an expression, which may be a definition; or empty."""
    match expr:
        case Ident(name) | Call(name, None) | LetReference(name) | DefCall(name):
            return name
        case _:
            return ""


def names_used(part: object, clauses: Mapping[str, Cards]) -> Iterator[str]:
    """The names that a part of a policy uses, also where cards are written out."""
    parts, seen = [part], set[tuple[str, bool]]()
    while parts:
        for expr in walk(parts.pop()):
            yield name_used(expr)
            match expr:
                case Index(Select(name="cards" | "chosen" as form), Literal(str() as name)):
                    chosen = form == "chosen"
                case Call("fragmentation", None, (Literal(str() as name),)):
                    chosen = True
                case _:
                    continue
            if name in clauses and (name, chosen) not in seen:
                seen.add((name, chosen))
                parts.append(clauses[name].read(chosen=chosen))
