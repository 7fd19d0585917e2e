"""The JSON schema of a PlacetConfiguration, for editors, which ships in deploy/editors.

`make schema` writes it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from cli.command import Flag
from cli.placet_configuration import FIELDS, HEAD, KIND

_DURATION = {
    "type": ["string", "integer"],
    "pattern": "^([+-]?([0-9.]+([nuµμm]?s|[mhdw]))+|[+-]?0)$",
    "minimum": 0,
    "maximum": 0,
}
_NUMBER = {"type": ["integer", "string"], "minimum": 1, "pattern": "^[0-9]+$"}
_TEXT = {"type": ["string", "number"]}
# What a text of the file may be. An editor may take what Placet refuses, and never the other way
# round.
_SCHEMAS: Mapping[str, Mapping[str, object]] = {"TIME": _DURATION, "N": _NUMBER}


def _schema_of(flag: Flag) -> Mapping[str, object]:
    """What the field of a flag may be, as a JSON schema with its help."""
    about = {"description": flag.help}
    if flag.is_switch:
        return {**about, "type": "boolean"}
    if flag.choices is not None:
        return {**about, "enum": flag.choices}
    if flag.many:
        return {**about, "type": "array", "items": {"type": "string"}}
    return {**about, **_SCHEMAS.get(flag.metavar, _TEXT)}


def schema() -> Mapping[str, object]:
    """The JSON schema of a PlacetConfiguration, for editors."""
    head = {key: {"const": value} for key, value in HEAD.items()}
    fields = {flag.field: _schema_of(flag) for flag in FIELDS}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": KIND,
        "description": "The flags of `placet serve` as fields of a file.",
        "type": "object",
        "required": [*HEAD],
        "additionalProperties": False,
        "properties": {**head, **fields},
    }


def text() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
