"""Data checker: whether a `data` block is complete and allowed, and the types of its columns.

The policy checker asks it. `tables` gives what expressions read as `data.NAME`, with what is wrong
in the expressions of columns; `findings` are about the rest of a block.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import PurePosixPath

from grammar.checker import parameters
from grammar.checker.expression_checker import Checker
from grammar.meaning.environment import Environment
from grammar.meaning.schema import Field, Record, Schema
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic
from grammar.tree.clauses import Policy
from grammar.tree.data import (
    COLUMN_OF,
    Column,
    Data,
    FromConfigMap,
    FromFile,
    FromObjects,
    FromPrometheus,
    TableSource,
)
from grammar.tree.printer import print_expression
from grammar.tree.source import Span
from grammar.tree.types import (
    BOOL,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    POISON,
    QUANTITY,
    STRING,
    TIMESTAMP,
    Type,
    map_of,
)
from grammar.values.named_formats import is_label, is_subdomain

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
    return any(isinstance(text, str) and parameters.is_example(text) for text in texts)


def _of_source(data: Data, policy: Policy) -> list[Diagnostic]:
    source, word = data.source, data.source.word
    if policy.namespace is not None and not isinstance(source, FromConfigMap):
        message = f"a policy of a namespace cannot have data `from {word}`"
        hint = "declare it in a policy of all namespaces, and `use` that one"
        return [catalogue.data_of_namespace(message, data.name_span, hint)]
    match source:
        case FromConfigMap(name, _, _, span):
            namespace, _, own = name.partition("/")
            if not (is_label(namespace) and is_subdomain(own)):
                return [_wrong(name, "the namespace and name of a ConfigMap", "shop/racks", span)]
            if policy.namespace not in (None, namespace):
                message = f"a policy of `{policy.namespace}` cannot read `{name}`"
                hint = f"put the ConfigMap into the namespace `{policy.namespace}`"
                return [catalogue.data_of_namespace(message, span, hint)]
        case FromPrometheus(url, _, _, span):
            if not _URL.match(url):
                example = "http://prometheus.monitoring:9090"
                return [_wrong(url, "the address of a Prometheus", example, span)]
        case FromFile(path, _, span):
            parts = PurePosixPath(path)
            if not path or parts.is_absolute() or ".." in parts.parts:
                return [_wrong(path, "a file in the folder of data", "prices.csv", span)]
        case FromObjects(kind, _, span):
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
