"""Standard streams: those of a `placet` process, which take any text, and may be closed or full.

The launcher opens them once, before a command runs. A text that standard output does not take is an
error of the command. A text that standard error does not take is lost: nobody can be told.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING

from grammar.messages.diagnostics import UserError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputError(UserError):
    """A text that standard output did not take."""

    def __init__(self, error: OSError) -> None:
        reason = (error.strerror or str(error)).lower()
        if error.errno == errno.EBADF:
            reason = "it is closed"
        hint = "send the output somewhere that is open and has room"
        super().__init__(f"cannot write to standard output: {reason}", hint)


def open_streams() -> None:
    """Opens the standard streams anew: in UTF-8, whatever the locale is, as kubectl writes.

    What UTF-8 cannot say, such as a part of the name of a file, is escaped.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is this one. Another file would get it otherwise, and then what
            # is printed. Nobody can write to it, as to a stream that is closed.
            os.open(os.devnull, os.O_RDONLY)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - open until the end
    sys.stdout = _text(_Output(1, "wb", closefd=False), by_line=os.isatty(1))
    sys.stderr = _text(_Messages(2, "wb", closefd=False), by_line=True)


def close_output() -> None:
    """Lets nothing more be written to standard output: the interpreter tries again at its end."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = _text(_Messages(os.open(os.devnull, os.O_WRONLY), "wb"), by_line=False)


class _Output(io.FileIO):
    """Standard output; raises OutputError."""

    def write(self, data: ReadableBuffer) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            # The reader has enough, which is no error.
            raise
        except OSError as error:
            raise OutputError(error) from None


class _Messages(io.FileIO):
    """Standard error; never raises."""

    def write(self, data: ReadableBuffer) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def _text(raw: io.FileIO, *, by_line: bool) -> io.TextIOWrapper:
    buffer = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffer, "utf-8", "backslashreplace", line_buffering=by_line)
