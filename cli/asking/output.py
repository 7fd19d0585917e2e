"""Output of answers as JSON or YAML, and the end of a command that asked several replicas."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

import msgspec
import yaml

from cli.command import CommandError, Exit
from cli.render import print_error

_FORMATS = ("json", "yaml")


def add_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", choices=_FORMATS, default="", help="the answers of the replicas as data"
    )


def written(form: str, answers: Sequence[msgspec.Struct]) -> bool:
    """Writes the answers of all replicas as one document; False if no format is wanted."""
    return _put(form, {"replicas": msgspec.to_builtins(answers)}, is_stream=False)


def streamed(form: str, more: Mapping[str, str], answer: msgspec.Struct) -> bool:
    """Writes one of many answers: a line of JSON, or a document of YAML."""
    return _put(form, {**more, **msgspec.to_builtins(answer)}, is_stream=True)


def _put(form: str, content: Mapping[str, object], *, is_stream: bool) -> bool:
    match form:
        case "json":
            text = msgspec.json.encode(content)
            shown = text if is_stream else msgspec.json.format(text)
            print(shown.decode(), flush=True)
        case "yaml":
            start = "---\n" if is_stream else ""
            body = yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True)
            print(start + body, end="", flush=True)
        case _:
            return False
    return True


def end(errors: Sequence[CommandError]) -> int:
    """Says which replicas have not answered; some have."""
    for error in errors:
        print_error(error.message, error.hint)
    return Exit.FINDINGS if errors else Exit.OK
