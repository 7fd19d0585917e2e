"""Output of a command as data, for programs: JSON or YAML."""

from __future__ import annotations

import argparse
from typing import Any

import msgspec
import yaml


def add_output_argument(parser: argparse.ArgumentParser, *forms: str) -> None:
    parser.add_argument(
        "-o", "--output", metavar="FORM", choices=forms, help=f"one of {', '.join(forms)}"
    )


def document(value: msgspec.Struct) -> Any:
    """A struct as plain values."""
    return msgspec.to_builtins(value)


def put_document(value: Any, form: str) -> None:
    """Prints a value as JSON or YAML."""
    if form == "json":
        print(msgspec.json.format(msgspec.json.encode(value)).decode())
    else:
        print(_yaml(value), end="")


def put_item(value: Any, form: str) -> None:
    """Prints one value of a stream at once: a line of JSON, or a document of YAML."""
    if form == "json":
        print(msgspec.json.encode(value).decode(), flush=True)
    else:
        print(f"---\n{_yaml(value)}", end="", flush=True)


def _yaml(value: Any) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
