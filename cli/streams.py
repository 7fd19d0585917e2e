"""Standard streams: those of a `placet` process, which take any text, and may be closed or full.

`cli/__main__.py` opens them once, before a command runs. A text that standard output does not take
is an error of the command. A text that standard error does not take is lost: nobody can be told.

While a command runs, whatever is written is escaped, so that no text of a cluster can steer the
terminal. Only what has control sequences of our own goes past that, by `beneath`: its texts are
escaped before they are coloured.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from threading import Timer
from typing import TYPE_CHECKING, Any, Self, TextIO, cast

from grammar.messages.diagnostics import UserError
from grammar.messages.texts import LINES, cut, escaped, os_reason

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class OutputError(UserError):
    """A text that standard output did not take."""

    def __init__(self, error: OSError) -> None:
        why = "it is closed" if error.errno == errno.EBADF else os_reason(error)
        hint = "send the output somewhere that is open and has room"
        super().__init__(f"cannot write to standard output: {why}", hint)


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
    """Drops what is written to standard output from now on, and what could not be written."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)


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
    """Messages on standard error; never raises."""

    def write(self, data: ReadableBuffer) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def _text(raw: io.FileIO, *, by_line: bool) -> io.TextIOWrapper:
    buffer = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffer, "utf-8", "backslashreplace", line_buffering=by_line)


# ---- what is written on them


class EscapedStream:
    """A text stream on which what cannot be printed is escaped, but line breaks and tabs."""

    def __init__(self, beneath: TextIO) -> None:
        self.beneath = beneath

    def write(self, text: str) -> int:
        self.beneath.write(escaped(text, LINES))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


@contextmanager
def escaped_streams() -> Iterator[None]:
    """Standard output and error are escaped until the end of the context."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast("TextIO", EscapedStream(stream)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def beneath(stream: TextIO) -> TextIO:
    """The stream for texts that are escaped already, with control sequences of our own."""
    return stream.beneath if isinstance(stream, EscapedStream) else stream


def put_line(text: str, to: TextIO) -> None:
    """Prints one line, whose line breaks are escaped too."""
    print(escaped(text), file=to)


def put_text(text: str) -> None:
    """Writes a text for programs as it is; on a terminal it is escaped as all others are."""
    to = sys.stdout if sys.stdout.isatty() else beneath(sys.stdout)
    to.write(text)


# ---- a line that goes again

_PATIENCE_SECONDS = 2.0


class PassingLine:
    """A line on standard error that says what takes so long; it goes at the end of the context.

    The `text` comes after two seconds. There is a line only on a terminal that can remove it.
    """

    def __init__(self, text: str) -> None:
        self._has_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._is_shown = False
        self._timer = Timer(_PATIENCE_SECONDS, self.show, [text])
        self._timer.daemon = True

    def __enter__(self) -> Self:
        if self._has_terminal:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        if self._has_terminal:
            self._timer.join()
        if self._is_shown:
            self._put("")

    def show(self, text: str) -> None:
        """Shows this instead, at once."""
        self._timer.cancel()
        if self._has_terminal:
            self._is_shown = True
            self._put(text)

    def _put(self, text: str) -> None:
        line = cut(escaped(text), get_terminal_size().columns - 1)
        print(f"\r{line}\033[K", end="", file=beneath(sys.stderr), flush=True)


def waiting_for(url: str, seconds: float) -> PassingLine:
    """The line about a server that has not answered yet."""
    return PassingLine(f"waiting for {url} ({seconds:g} s at most)")
