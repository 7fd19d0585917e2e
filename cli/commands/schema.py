"""Command `schema`: what policies can read."""

from __future__ import annotations

import argparse
import re

from cli.command import Exit, flags_of
from cli.console import lines, show, table
from cli.render import put_findings
from grammar.checker.policy_checker import READ_IN, VARIABLES
from grammar.meaning.schema import Field, Record, Schema, load_schema
from grammar.messages import catalogue
from grammar.messages.diagnostics import Diagnostic
from grammar.tree.source import Source, Span
from grammar.tree.types import Type
from policies.editor.completion import VARIABLE_MEANINGS, about_field, absent, field_name

EXAMPLES = """\
examples:
  placet schema
  placet schema node
  placet schema pod.spec.containers.resources
"""
_STEP = re.compile(r"[^.\[\]]+|\[[^\]]*\]")


ARGUMENTS = flags_of(
    """
  [PATH]
    a variable or a type with fields, as in node.status; without PATH, all variables
""",
    {"PATH": str},
)


def run(args: argparse.Namespace) -> int:
    schema = load_schema()
    if args.path is None:
        rows = [(n, str(its), VARIABLE_MEANINGS[n], READ_IN[n]) for n, its in VARIABLES.items()]
        show(table("variable", "type", "is", "can be read in", rows=rows))
        print("\n`placet schema node` shows the fields of a variable")
        return Exit.OK
    found = _looked_up(args.path, schema)
    if isinstance(found, Diagnostic):
        put_findings([(found, Source("path", args.path))])
        return Exit.ERROR
    type_, field = found
    record = schema.records.get((type_.args[-1] if type_.args else type_).name)
    if field is not None and (record is None or about_field(field, "")):
        print(f"{args.path}{f'[{field.parameter}]' if field.parameter else ''} : {field.type}")
        about = about_field(field, args.path.rpartition(".")[0])
        for line in (*about, *([f"If absent: {default}."] if (default := absent(field)) else [])):
            print(f"  {line}")
    elif args.path != str(type_):
        print(f"{args.path} : {type_}")
    if record is not None:
        if args.path != record.name:
            print()
        # The expression of a short form is shown over the variable that was asked for.
        _record(record, args.path if args.path.split(".")[0] in VARIABLES else "self")
    return Exit.OK


def _looked_up(path: str, schema: Schema) -> tuple[Type, Field | None] | Diagnostic:
    """The type at the end of a path with its field, if it is a field; or a diagnostic."""
    steps = [(m.group(), Span(m.start(), m.end())) for m in _STEP.finditer(path)]
    if not steps:
        return catalogue.unknown_name(path, VARIABLES, Span(0, len(path)))
    (name, span), rest = steps[0], steps[1:]
    type_ = VARIABLES.get(name) or (Type(name) if name in schema.records else None)
    if type_ is None:
        return catalogue.unknown_name(name, [*VARIABLES, *schema.records], span)
    field: Field | None = None
    for step, at in rest:
        # A list stands for its items, with or without brackets; a map only with brackets.
        if step.startswith("[") and type_.args:
            type_, field = type_.args[-1], None
            continue
        items = type_.args[0] if type_.name == "list" else type_
        record = schema.records.get(items.name)
        if record is None:
            return catalogue.no_fields(type_, step, at)
        field = record.fields.get(step)
        if field is None:
            return catalogue.unknown_field(Type(record.name), step, record.fields, at)
        type_ = field.type
    return type_, field


def _record(record: Record, owner: str) -> None:
    """Prints a record: short forms and computed fields first, as people look for them first."""
    special = [f for f in record.fields.values() if f.derived is not None or f.native]
    api = [f for f in record.fields.values() if f not in special]
    if record.doc:
        print(f"{record.doc}\n")
    shown = [(h, its) for h, its in (("short form", special), ("field", api)) if its]
    for number, (heading, fields) in enumerate(shown):
        if number:
            print()
        rows = [
            (field_name(f), str(f.type), absent(f), lines(about_field(f, owner))) for f in fields
        ]
        columns = 4 if any(about for *_, about in rows) else 3
        heads = (heading, "type", "if absent", "is")[:columns]
        show(table(*heads, rows=[row[:columns] for row in rows]))
