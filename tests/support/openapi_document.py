"""The description of the view's API in OpenAPI, of its table of routes: docs/openapi.yaml.

`make openapi` has it written to the standard output.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from inspect import cleandoc
from pathlib import Path
from typing import Any

import msgspec
import yaml

from server.capabilities.table import CAPABILITY_ROUTES
from server.view.routes import API, ROUTES, Route

VERSION = "1"
_SCHEMAS = "#/components/schemas/{name}"
Json = dict[str, Any]
_ROWS = Path(__file__).with_suffix(".txt").read_text("utf-8").splitlines()
_TEXTS = dict(row.split(": ", 1) for row in _ROWS if not row.startswith("#"))
_ABOUT = (
    "What one replica of Placet decides and knows. It listens on 127.0.0.1, and answers no pages of"
    " other sites. Any other status than 200 has one sentence of plain text, which says what is"
    " wrong. Nothing changes the cluster."
)


def description() -> Json:
    """The document."""
    routes = (*ROUTES, *CAPABILITY_ROUTES)
    types = [t for each in routes for t in (each.answer, each.body) if t is not None]
    references, schemas = msgspec.json.schema_components(
        types, schema_hook=lambda _: {"description": "any JSON"}, ref_template=_SCHEMAS
    )
    for schema in schemas.values():
        if "description" in schema:
            schema["description"] = cleandoc(schema["description"])
    known = dict(zip(types, references, strict=True))
    paths: dict[str, Json] = {
        f"{API}{each.path}": {"post" if each.body else "get": _operation(each, known)}
        for each in routes
    }
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "The view of Placet",
            "version": VERSION,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": schemas},
    }
    # As it is read: defaults that are tuples here are lists there.
    found: Json = msgspec.json.decode(msgspec.json.encode(document))
    return found


def _operation(each: Route, known: Mapping[type, Json]) -> Json:
    found = _named(each.name, _TEXTS[each.name], _answers(known[each.answer]))
    text: Json = {"type": "string"}
    parameters: list[Json] = [
        {"name": name, "in": "path", "required": True, "schema": {**text, "minLength": 1}}
        for name in re.findall(r"\{(\w+)\}", each.path)
    ]
    for one in each.query:
        number = {"type": "integer", "minimum": one.least, "maximum": one.most}
        schema = number if one.most else text
        parameters.append(
            {
                "name": one.name,
                "in": "query",
                "description": _TEXTS[f"{each.name}.{one.name}"],
                "schema": schema,
            }
        )
    if each.body is not None:
        found["requestBody"] = {"required": True, "content": _content(known[each.body])}
    return {**found, "parameters": parameters} if parameters else found


def _named(name: str, summary: str, responses: Json) -> Json:
    return {"operationId": name, "summary": summary, "responses": responses}


def _answers(schema: Json) -> Json:
    """The answer, and what is said instead of one."""
    instead = {
        "description": "what is wrong",
        "content": _content({"type": "string"}, "text/plain"),
    }
    return {
        "200": {"description": "the answer", "content": _content(schema)},
        "default": instead,
    }


def _content(schema: Json, kind: str = "application/json") -> Json:
    return {kind: {"schema": schema}}


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - of yaml
        return True


if __name__ == "__main__":
    yaml.dump(description(), sys.stdout, _Dumper, sort_keys=False, width=100, allow_unicode=True)
