"""How a command ends, as its caller sees it."""

from __future__ import annotations

from enum import IntEnum


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
