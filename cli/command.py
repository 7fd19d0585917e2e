"""How a command ends, as its caller sees it."""

from __future__ import annotations

import os
import tempfile
from argparse import ArgumentTypeError
from enum import IntEnum
from pathlib import Path

from grammar.errors import EvaluationError
from grammar.values.quantity import NANO, Quantity
from grammar.values.time import SECOND, Duration
from server.settings import SettingsError, parse_address


class Exit(IntEnum):
    """The exit codes of every command."""

    OK = 0
    # The command did its work and found something wrong with what it looked at.
    FINDINGS = 1
    # It could not do its work: wrong arguments, a file that is not there, a port that is taken.
    ERROR = 2
    # Ctrl-C, as shells report it. A server that was serving ends with OK.
    INTERRUPTED = 130


class CommandError(Exception):
    """Ends a command with `Exit.ERROR`: one sentence, and what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


# ---- Which Placet this is.


def version() -> str:
    """The version of the installed distribution; a checkout that was not installed has none."""
    # This takes longer to import than a command that does not need it takes to start.
    from importlib import metadata  # noqa: PLC0415

    try:
        return metadata.version("placet")
    except metadata.PackageNotFoundError:
        return "unknown"


# ---- Files that commands write.


def make(file: Path) -> None:
    """An empty file, unless there is one. Raises CommandError where that cannot be."""
    try:
        file.touch()
    except OSError as error:
        raise _unwritable(file, error) from None


def replace_text(file: Path, text: str) -> None:
    """Writes a file in one step: who reads it meanwhile sees the old text or the new one.

    Raises CommandError where that cannot be.
    """
    target = file.resolve()  # a link stays one
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
        raise _unwritable(file, error) from None


def write_text(file: Path, text: str) -> None:
    """Writes a file, also one that is no regular file. Raises CommandError."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unwritable(file, error) from None


def _unwritable(file: Path, error: OSError) -> CommandError:
    reason = (error.strerror or str(error)).lower()
    return CommandError(f"cannot write `{file}`: {reason}", "check who may write it")


# ---- Values that several arguments are written in: addresses, lengths of time, amounts of memory.


def address(text: str) -> tuple[str, int]:
    """A host, where an empty one is all of them, and a port, where 0 is any."""
    try:
        return parse_address(text)
    except SettingsError as error:
        raise ArgumentTypeError(f"{error}, as in 127.0.0.1:12345") from None


def seconds(text: str) -> float:
    """A length of time that is more than none, as in `5s`."""
    found = _seconds(text)
    if found <= 0:
        raise ArgumentTypeError(f"`{text}` is no time at all")
    return found


def pause(text: str) -> float:
    """A length of time, which may be none, as in `0s`."""
    found = _seconds(text)
    if found < 0:
        raise ArgumentTypeError(f"`{text}` is over before it begins")
    return found


def _seconds(text: str) -> float:
    try:
        return Duration.parse(text).nanos / SECOND
    except EvaluationError as error:
        raise ArgumentTypeError(f"`{text}` is no duration: {error}") from None


def size(text: str) -> int:
    """A number of bytes that is more than none, as in `64Mi`."""
    try:
        found = Quantity.parse(text).nanos // NANO
    except EvaluationError as error:
        raise ArgumentTypeError(f"`{text}` is no size: {error}") from None
    if found <= 0:
        raise ArgumentTypeError(f"`{text}` has no room for anything")
    return found


def lease(text: str) -> tuple[str, str] | None:
    """A namespace and a name, or None for `none`."""
    if text == "none":
        return None
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise ArgumentTypeError(f"`{text}` is no Lease, as in kube-system/placet")
    return namespace, name


def positive(text: str) -> int:
    """A whole number that is at least 1."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"`{text}` is no whole number from 1")
    return int(text)
