"""PlacetConfiguration: the flags of `placet serve` as fields of a file, and as variables.

A flag of the command line comes before a variable of the environment, a variable before the file,
and the file before the default. All of them become the words of one command line, so that a value
means the same wherever it is written.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cli.command import CommandError, read_text
from cli.doctor.configuration_text import read
from cli.flag_table import Flag
from cli.serving.flags import FLAGS, schema_of
from grammar.messages.diagnostics import nearest
from policies.documents import Document

KIND = "PlacetConfiguration"
API_VERSION = "placet.dev/v1alpha1"
_HEAD = {"apiVersion": API_VERSION, "kind": KIND}
_SWITCH = {"true": True, "false": False}
# A switch, a text, or the texts of a list.
Value = bool | str | list[str]


@dataclass(frozen=True, slots=True)
class Given:
    """A given value and its origin: `flag`, a variable, or a place in a file."""

    flag: Flag
    value: Value
    origin: str

    def words(self) -> Iterator[str]:
        """The value on a command line."""
        if isinstance(self.value, bool):
            yield from [self.flag.name] * self.value
        else:
            texts = self.value if isinstance(self.value, list) else [self.value]
            yield from (f"{self.flag.name}={text}" for text in texts)


@dataclass(frozen=True, slots=True)
class PlacetConfiguration:
    """The configuration of a server: what is given, by flag; the rest has its default."""

    given: Mapping[str, Given] = field(default_factory=dict)

    def words(self) -> list[str]:
        """The command line that says all of it."""
        return [word for each in self.given.values() for word in each.words()]

    def text(self) -> str:
        """The same as a file, with the defaults; each line says where its value is from."""
        head = (f"{key}: {value}\n" for key, value in _HEAD.items())
        values = (
            f"{each.flag.field}: {json.dumps(_plain(each.value))}  # {each.origin}\n"
            for each in self._every()
        )
        return "".join([*head, *values])

    def _every(self) -> Iterator[Given]:
        for flag in FIELDS:
            default: Value | None = False if flag.is_switch else [] if flag.many else flag.default
            if (known := self.given.get(flag.key)) is not None:
                yield known
            elif default is not None:
                yield Given(flag, default, "default")


# The flags that are fields: the others name the file, and print what is in force.
FIELDS = tuple(flag for flag in FLAGS if flag.key not in ("config", "print_config"))


def schema() -> Mapping[str, object]:
    """The JSON schema of a PlacetConfiguration, for editors."""
    head = {key: {"const": value} for key, value in _HEAD.items()}
    fields = {flag.field: schema_of(flag) for flag in FIELDS}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": KIND,
        "description": "The flags of `placet serve` as fields of a file.",
        "type": "object",
        "required": [*_HEAD],
        "additionalProperties": False,
        "properties": {**head, **fields},
    }


def placet_configuration(
    words: Sequence[str], environment: Mapping[str, str]
) -> PlacetConfiguration:
    """The configuration of a server that is started with these words.

    Raises CommandError for a mistake in the environment or in the file.
    """
    typed = _typed(words)
    given: dict[str, Given] = {}
    if (file := typed.get("config")) is not None:
        given |= {each.flag.key: each for each in _in_file(file)}
    given |= {each.flag.key: each for each in _in_environment(environment)}
    given |= {f.key: Given(f, typed[f.key], f"flag {f.name}") for f in FIELDS if f.key in typed}
    return PlacetConfiguration(given)


def _typed(words: Sequence[str]) -> dict[str, Any]:
    """What is on the command line, as it is written there."""
    parser = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    for flag in FLAGS:
        kept = {k: v for k, v in flag.options().items() if k in ("action", "nargs")}
        parser.add_argument(*flag.names, **kept)
    return vars(parser.parse_args(words))


def _in_environment(environment: Mapping[str, str]) -> Iterator[Given]:
    """Commas separate the items of a list. An empty variable is none."""
    for flag in FIELDS:
        text = environment.get(flag.variable, "")
        if not text:
            continue
        value: Value = text
        if flag.is_switch:
            if text not in _SWITCH:
                raise _refused(f"`{flag.variable}`", f"`{text}` is not `true` or `false`")
            value = _SWITCH[text]
        elif flag.many:
            value = text.split(",")
        yield Given(flag, _checked(flag, value, f"`{flag.variable}`"), f"variable {flag.variable}")


def _in_file(name: str) -> Iterator[Given]:
    document = _document(name)
    known = {flag.field: flag for flag in FIELDS}
    for key, written in document.value.items():
        place = f"{name}:{document.line(str(key))}"
        if key in _HEAD:
            continue
        flag = known.get(key)
        if flag is None:
            close = nearest(str(key), known)
            hint = f"a similar one exists: `{close}`" if close else "see placet serve --help"
            raise CommandError(f"{KIND} has no field `{key}` ({place})", hint)
        value = _value(flag, written, place)
        yield Given(flag, _checked(flag, value, f"`{key}` ({place})"), place)


def _document(name: str) -> Document:
    """The one document of a file, which is a PlacetConfiguration. Raises CommandError."""
    found = read(read_text(name, "check the path"), name)
    head = f"begin it with `apiVersion: {API_VERSION}` and `kind: {KIND}`"
    if len(found) != 1 or not isinstance(found[0].value, dict):
        raise CommandError(f"`{name}` is not one {KIND}", head)
    (document,) = found
    for key, wanted in _HEAD.items():
        if (written := document.value.get(key)) != wanted:
            said = f"is `{written}`" if key in document.value else "is missing"
            raise CommandError(f"`{key}` of `{name}` {said}", head)
    for path in document.twice():
        hint = "remove one of them"
        raise CommandError(f"`{path}` is in `{name}` twice", hint)
    return document


def _value(flag: Flag, written: object, place: str) -> Value:
    """The value of a field as texts. Raises CommandError for one of another type."""
    wrong = f"`{flag.field}` ({place}) is"
    if flag.is_switch:
        if isinstance(written, bool):
            return written
        raise CommandError(f"{wrong} not `true` or `false`", f"write `{flag.field}: true`")
    if not flag.many:
        if isinstance(written, str | int | float) and not isinstance(written, bool):
            return str(written)
        raise CommandError(f"{wrong} not one text or number", "write one, in quotes if in doubt")
    if isinstance(written, list) and all(isinstance(each, str) for each in written):
        return list(written)
    raise CommandError(f"{wrong} not a list of texts", f'write `{flag.field}: ["…"]`')


def _checked(flag: Flag, value: Value, where: str) -> Value:
    if not isinstance(value, bool):
        for text in value if isinstance(value, list) else [value]:
            try:
                flag.read(text)
            except (argparse.ArgumentTypeError, ValueError) as error:
                raise _refused(where, str(error)) from None
    return value


def _refused(where: str, why: str) -> CommandError:
    return CommandError(f"{where} is not valid: {why}", "see placet serve --help")


def _plain(value: Value) -> object:
    """The value as people write it in YAML."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value
