"""PlacetConfiguration: the flags of `placet serve` as fields of a file, and as variables.

A flag of the command line comes before a variable of the environment, a variable before the file,
and the file before the default. All of them become the words of one command line, so that a value
means the same wherever it is written.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from cli.command import CommandError, given_path, pause, positive, read_text, seconds
from cli.doctor.configuration_text import read
from grammar.messages.diagnostics import nearest
from policies.documents import Document

KIND = "PlacetConfiguration"
API_VERSION = "placet.dev/v1alpha1"
_HEAD = {"apiVersion": API_VERSION, "kind": KIND}
_PREFIX = "PLACET_"
_SWITCH = {"true": True, "false": False}
# What a text of the file may be, by the type of the flag. An editor may take what Placet refuses,
# and never the other way round.
_DURATION = {
    "type": ["string", "integer"],
    "pattern": "^([+-]?([0-9.]+([nuµμm]?s|[mhdw]))+|[+-]?0)$",
    "minimum": 0,
    "maximum": 0,
}
_OF_TYPE: Mapping[Callable[[str], object], Mapping[str, object]] = {
    positive: {"type": ["integer", "string"], "minimum": 1, "pattern": "^[0-9]+$"},
    seconds: _DURATION,
    pause: _DURATION,
}
_OF_TEXT: Mapping[str, object] = {"type": ["string", "number"]}
# Flags that are no fields: they name the file, and print what is in force.
_ABOUT = frozenset({"config", "print_config"})


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag as the command defines it: its names, and the options of `add_argument`."""

    names: Sequence[str]
    options: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.names[-1]

    @property
    def key(self) -> str:
        """Its name in the parsed arguments: `http_timeout`."""
        return self.name.removeprefix("--").replace("-", "_")

    @property
    def field(self) -> str:
        """Its name in a file: `httpTimeout`."""
        first, *others = self.key.split("_")
        return first + "".join(word.capitalize() for word in others)

    @property
    def variable(self) -> str:
        return _PREFIX + self.key.upper()

    @property
    def is_switch(self) -> bool:
        return self.options.get("action") == "store_true"

    @property
    def is_list(self) -> bool:
        return self.options.get("action") in ("append", "extend")

    def refusal(self, text: str) -> str:
        """Why a text is not a value; empty for a value."""
        choices = self.options.get("choices")
        if choices is not None and text not in choices:
            return f"`{text}` is not one of {', '.join(choices)}"
        try:
            self.options.get("type", str)(text)
        except (argparse.ArgumentTypeError, ValueError) as error:
            return str(error)
        return ""

    @property
    def schema(self) -> Mapping[str, object]:
        """What its field may be, as a JSON schema with its help."""
        about = self.options["help"] % {"default": self.options.get("default", "")}
        if self.is_switch:
            return {"description": about, "type": "boolean"}
        if (choices := self.options.get("choices")) is not None:
            return {"description": about, "enum": list(choices)}
        if self.is_list:
            return {"description": about, "type": "array", "items": {"type": "string"}}
        return {"description": about, **_OF_TYPE.get(self.options.get("type", str), _OF_TEXT)}

    def words(self, value: Value) -> Iterator[str]:
        """The value on a command line."""
        if self.is_switch:
            yield from [self.name] * bool(value)
        else:
            texts = value if isinstance(value, list) else [value]
            yield from (f"{self.name}={text}" for text in texts)


# A switch, a text, or the texts of a list.
Value = bool | str | list[str]


@dataclass(frozen=True, slots=True)
class Given:
    """A value and where it is from: `flag`, a variable, or a place in a file."""

    flag: Flag
    value: Value
    origin: str


class _Recorder:
    """The flags that a command adds to its parser, and to the groups of it."""

    def __init__(self) -> None:
        self.flags: list[Flag] = []

    def add_argument(self, *names: str, **options: Any) -> None:
        self.flags.append(Flag(names, options))

    def add_argument_group(self, *_: str) -> _Recorder:
        return self


@dataclass(frozen=True, slots=True)
class PlacetConfiguration:
    """What is given to a command, by flag; the rest has its default."""

    flags: Sequence[Flag]
    given: Mapping[str, Given] = field(default_factory=dict)

    def words(self) -> list[str]:
        """The command line that says all of it."""
        return [w for each in self.given.values() for w in each.flag.words(each.value)]

    def text(self) -> str:
        """The same as a file, with the defaults; each line says where its value is from."""
        head = (f"{key}: {value}\n" for key, value in _HEAD.items())
        values = (
            f"{each.flag.field}: {json.dumps(_plain(each.value))}  # {each.origin}\n"
            for each in self._every()
        )
        return "".join([*head, *values])

    def schema(self) -> Mapping[str, object]:
        """The JSON schema of such a file, for editors."""
        head = {key: {"const": value} for key, value in _HEAD.items()}
        fields = {flag.field: flag.schema for flag in self.flags}
        return {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": KIND,
            "description": "The flags of `placet serve` as fields of a file.",
            "type": "object",
            "required": [*_HEAD],
            "additionalProperties": False,
            "properties": {**head, **fields},
        }

    def _every(self) -> Iterator[Given]:
        for flag in self.flags:
            if (known := self.given.get(flag.key)) is not None:
                yield known
            elif (value := _default(flag)) is not None:
                yield Given(flag, value, "default")


def placet_configuration(
    configure: Callable[[argparse.ArgumentParser], None],
    words: Sequence[str],
    environment: Mapping[str, str],
) -> PlacetConfiguration:
    """The configuration of a command that is started with these words.

    `configure` adds its flags to a parser. Raises CommandError for a mistake in the environment or
    in the file.
    """
    recorder = _Recorder()
    configure(cast("argparse.ArgumentParser", recorder))
    flags = [flag for flag in recorder.flags if flag.key not in _ABOUT]
    typed = _typed(recorder.flags, words)
    given: dict[str, Given] = {}
    if (file := typed.get("config")) is not None:
        given |= {each.flag.key: each for each in _in_file(file, flags)}
    given |= {each.flag.key: each for each in _in_environment(flags, environment)}
    given |= {f.key: Given(f, typed[f.key], f"flag {f.name}") for f in flags if f.key in typed}
    return PlacetConfiguration(flags, given)


def _typed(flags: Iterable[Flag], words: Sequence[str]) -> dict[str, Any]:
    """What is on the command line, as it is written there."""
    parser = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    for flag in flags:
        kept = {k: v for k, v in flag.options.items() if k in ("action", "nargs")}
        parser.add_argument(*flag.names, **kept)
    return vars(parser.parse_args(words))


def _in_environment(flags: Iterable[Flag], environment: Mapping[str, str]) -> Iterator[Given]:
    """Commas separate the items of a list. An empty variable is none."""
    for flag in flags:
        text = environment.get(flag.variable, "")
        if not text:
            continue
        value: Value = text
        if flag.is_switch:
            if text not in _SWITCH:
                raise _refused(f"`{flag.variable}`", f"`{text}` is not `true` or `false`")
            value = _SWITCH[text]
        elif flag.is_list:
            value = text.split(",")
        yield Given(flag, _checked(flag, value, f"`{flag.variable}`"), f"variable {flag.variable}")


def _in_file(name: str, flags: Iterable[Flag]) -> Iterator[Given]:
    document = _document(name)
    known = {flag.field: flag for flag in flags}
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
    if not flag.is_list:
        if isinstance(written, str | int | float) and not isinstance(written, bool):
            return str(written)
        raise CommandError(f"{wrong} not one text or number", "write one, in quotes if in doubt")
    if isinstance(written, list) and all(isinstance(each, str) for each in written):
        return list(written)
    raise CommandError(f"{wrong} not a list of texts", f'write `{flag.field}: ["…"]`')


def _checked(flag: Flag, value: Value, where: str) -> Value:
    if not isinstance(value, bool):
        for text in value if isinstance(value, list) else [value]:
            if why := flag.refusal(text):
                raise _refused(where, why)
    return value


def _refused(where: str, why: str) -> CommandError:
    return CommandError(f"{where} is not valid: {why}", "see placet serve --help")


def _default(flag: Flag) -> Value | None:
    default = flag.options.get("default", False if flag.is_switch else None)
    if default is argparse.SUPPRESS or default is None:
        return None
    if isinstance(default, list):
        return list(default)
    return default if isinstance(default, bool) else str(default)


def _plain(value: Value) -> object:
    """The value as people write it in YAML."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def add_configuration_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that name a configuration, and show it."""
    group = parser.add_argument_group("configuration")
    group.add_argument(
        "--config",
        metavar="FILE",
        type=given_path,
        help=f"a {KIND}: the flags of this command as fields. A flag here, and a variable such as "
        "PLACET_HTTP_TIMEOUT, come before it",
    )
    group.add_argument(
        "--print-config",
        action="store_true",
        help="print the configuration with where each value is from, and end",
    )
