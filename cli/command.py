"""The parts that all commands share: exit codes, errors, files and types of arguments."""

from __future__ import annotations

import errno
import os
import re
import sys
import tempfile
from argparse import ArgumentTypeError
from collections.abc import Iterator, Sequence
from enum import IntEnum
from pathlib import Path

from grammar.messages.diagnostics import UserError
from grammar.messages.texts import escaped, os_hint, os_reason
from grammar.tree.source import Source
from grammar.values.errors import EvaluationError
from grammar.values.named_formats import is_qualified
from grammar.values.quantity import NANO, Quantity
from grammar.values.time import SECOND, Duration
from server.settings import SettingsError, parse_address


class Exit(IntEnum):
    """The exit codes of every command."""

    OK = 0
    # The command did its work and found a problem in its input.
    FINDINGS = 1
    # The command could not do its work: wrong arguments, a missing file, a port in use.
    ERROR = 2
    # Ctrl-C, as shells report it. A server that was serving ends with OK.
    INTERRUPTED = 130


class CommandError(UserError):
    """An error that ends a command with `Exit.ERROR`, as every UserError does."""


def read_file(name: str, hint: str) -> bytes:
    """The content of a file. Raises CommandError with the hint for an unreadable file."""
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise unreadable(name, error, hint) from None


def unreadable(name: str, error: OSError, hint: str) -> CommandError:
    """The error about a file that cannot be read; with the hint, where rights do not lack."""
    return CommandError(f"cannot read `{name}`: {os_reason(error)}", os_hint(error, hint))


def read_text(name: str, hint: str) -> str:
    """The text of a file. Raises CommandError with the hint for an unreadable file."""
    try:
        return read_file(name, hint).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CommandError(f"`{name}` is not UTF-8 text", "save it as UTF-8") from None


STANDARD_INPUT = Path("-")


def read_input() -> str:
    """The text of standard input. Raises CommandError."""
    return "".join(input_lines()).removeprefix("\ufeff")


def input_lines() -> Iterator[str]:
    """The lines of standard input as they come. Raises CommandError."""
    try:
        yield from sys.stdin
    except UnicodeDecodeError:
        raise CommandError("standard input is not UTF-8 text", "save it as UTF-8") from None


def input_source(paths: Sequence[Path]) -> Source | None:
    """The text of standard input, if `-` is the path; its name says whether it has manifests.

    Raises CommandError.
    """
    if STANDARD_INPUT not in paths:
        return None
    if len(paths) > 1:
        raise CommandError("`-` must be the only path", "name the files alone, or pipe them in")
    text = read_input()
    # A policy of the language begins with one of these words.
    has_manifests = "apiVersion" in text and _LANGUAGE.match(text) is None
    suffix = ".json" if text.lstrip().startswith("{") else ".yaml"
    return Source(f"stdin{suffix}" if has_manifests else "-", text)


_LANGUAGE = re.compile(r"(?:\s|(?:#|//).*\n)*(?:cluster\s+policy|policy|test)\b(?!\s*:)")


def replace_text(file: Path, text: str) -> None:
    """Writes a file in one step: a concurrent reader sees the old text or the new one.

    Raises CommandError.
    """
    target = file.resolve()  # a link stays a link
    made: Path | None = None
    try:
        mode = target.stat().st_mode
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        made = Path(name)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as out:
            out.write(text)
        made.chmod(mode)
        made.replace(target)
    except OSError as error:
        if made is not None:
            made.unlink(missing_ok=True)
        raise unwritable(file, error) from None


def write_text(file: Path, text: str) -> None:
    """Writes a file, in a folder that is made if there is none. Raises CommandError."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise unwritable(file, error) from None


def unwritable(file: Path, error: OSError) -> CommandError:
    hint = os_hint(error, "give another path")
    return CommandError(f"cannot write `{file}`: {os_reason(error)}", hint)


def given_path(text: str) -> Path:
    """The path of a file or a folder: an empty one would be the current folder."""
    if not text:
        raise ArgumentTypeError("the path is empty")
    if "\0" in text:
        raise ArgumentTypeError(f"`{escaped(text)}` is not a path")
    return Path(text)


def address(text: str) -> tuple[str, int]:
    """A host and a port. An empty host means all interfaces, port 0 means any free port."""
    try:
        return parse_address(text)
    except SettingsError as error:
        raise ArgumentTypeError(f"{error}, as in 127.0.0.1:12345") from None


def cannot_listen(error: OSError, listen: tuple[str, int], flag: str) -> CommandError:
    """What is wrong with an address, and how to name another one."""
    where = ":".join(map(str, listen))
    hint = f"name another with {flag} {'PORT' if flag == '--view-port' else 'HOST:PORT'}"
    if error.errno == errno.EADDRINUSE:
        hint += ", or stop the program that uses it"
        return CommandError(f"cannot listen on `{where}`: the port is in use", hint)
    return CommandError(f"cannot listen on `{where}`: {os_reason(error)}", hint)


def seconds(text: str) -> float:
    """A duration greater than 0, such as `5s`."""
    found = _seconds(text)
    if found <= 0:
        raise ArgumentTypeError(f"`{text}` must be greater than 0")
    return found


def pause(text: str) -> float:
    """A duration of 0 or more, such as `0s`."""
    found = _seconds(text)
    if found < 0:
        raise ArgumentTypeError(f"`{text}` must not be negative")
    return found


def _seconds(text: str) -> float:
    try:
        return Duration.parse(text).nanos / SECOND
    except EvaluationError as error:
        raise ArgumentTypeError(f"`{text}` is not a duration: {error}") from None


def size(text: str) -> int:
    """A number of bytes greater than 0, such as `64Mi`."""
    try:
        found = Quantity.parse(text).nanos // NANO
    except EvaluationError as error:
        raise ArgumentTypeError(f"`{text}` is not a size: {error}") from None
    if found <= 0:
        raise ArgumentTypeError(f"`{text}` must be greater than 0")
    return found


def lease(text: str) -> tuple[str, str] | None:
    """The namespace and name of a Lease, or None for `none`."""
    if text == "none":
        return None
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise ArgumentTypeError(f"`{text}` is not a Lease such as kube-system/placet")
    return namespace, name


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"`{text}` is not a whole number of at least 1")
    return int(text)


def frozen_key(text: str) -> str:
    """The key of a label or an annotation that nobody can change in a pod."""
    if not is_qualified(text):
        raise ArgumentTypeError(f"`{text}` cannot be the key of a label or an annotation")
    return text
