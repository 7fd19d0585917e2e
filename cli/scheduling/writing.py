"""Configurations as text: YAML that says why, and JSON for schedulers that read nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import assert_never

from cli.scheduling.fields import Field, Items, Scalar, Structure, base64_text
from grammar.values.duration import Duration

# What YAML takes for a text without quotes, whatever its version: everything else gets some.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*(:[A-Za-z0-9_./-]+)*")
_WORDS_OF_YAML = frozenset("y n yes no on off true false null".split())


def yaml_text(fields: Sequence[Field]) -> str:
    """Block style; the reason for a field stands on the line above it."""
    return "".join(f"{line}\n" for line in _lines(fields, ""))


def json_text(fields: Sequence[Field]) -> str:
    """Indented; lengths of time are nanoseconds, as the old Policy has them."""
    return json.dumps(_plain(Structure(tuple(fields))), indent=2) + "\n"


def _lines(fields: Sequence[Field], indent: str) -> Iterator[str]:
    for field in fields:
        if field.why:
            yield f"{indent}# {field.why}"
        match field.value:
            case Structure(fields=inside):
                yield f"{indent}{field.name}:"
                yield from _lines(inside, f"{indent}  ")
            case Items(items=items):
                yield f"{indent}{field.name}:"
                for item in items:
                    yield from _item(item.fields, f"{indent}  ")
            case scalar:
                yield f"{indent}{field.name}: {_scalar(scalar)}"


def _item(fields: Sequence[Field], indent: str) -> Iterator[str]:
    first, *others = _lines(fields, f"{indent}  ")
    yield f"{indent}- {first.strip()}"
    yield from others


def _scalar(value: Scalar) -> str:
    match value:
        case bool() | int():
            return json.dumps(value)
        case Duration():
            return str(value)
        case bytes():
            return base64_text(value)
        case str():
            plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS_OF_YAML
            return value if plain else json.dumps(value)
    assert_never(value)


def _plain(value: Scalar | Structure | Items) -> object:
    """What the JSON encoder takes."""
    match value:
        case Duration(nanos=nanos):
            return nanos
        case bytes():
            return base64_text(value)
        case Structure(fields=fields):
            return {field.name: _plain(field.value) for field in fields}
        case Items(items=items):
            return [_plain(item) for item in items]
        case scalar:
            return scalar
