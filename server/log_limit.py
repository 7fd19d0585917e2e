"""LimitedLog: the log of a server, in which no kind of line can crowd out the others.

RecentNews lets each thing into the log once in a while.

Whoever reaches the server decides how many lines about requests it has to write. So every line that
a request or a connection causes is written through here, at every level.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from logging import Logger

from cachetools import TTLCache

from server.call import LogEntry

# The most lines of one kind in a second: writing a line takes as long as a decision.
MOST_LINES_A_SECOND = 10
# The same news is told once in this time.
QUIET_SECONDS = 600.0
_MOST_NEWS = 10_000


@dataclass(slots=True)
class _Lines:
    """The lines of one kind in the second that began at `since`."""

    since: float
    written: int = 0
    left_out: int = 0


class LimitedLog:
    """A log with at most ten lines of each kind in a second; the next line counts the others.

    INVARIANT: kinds are constants of the program, never texts of a request.
    """

    def __init__(self, log: Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._kinds: dict[str, _Lines] = {}

    def take(self, kind: str) -> int | None:
        """The number of lines left out before this one; None if this one is left out too."""
        now = self._clock()
        lines = self._kinds.get(kind)
        if lines is None:
            lines = self._kinds[kind] = _Lines(now)
        elif now - lines.since >= 1.0:
            lines.since, lines.written = now, 0
        if lines.written == MOST_LINES_A_SECOND:
            lines.left_out += 1
            return None
        lines.written += 1
        left_out, lines.left_out = lines.left_out, 0
        return left_out

    def write(
        self, level: int, kind: str, entry: LogEntry, error: BaseException | None = None
    ) -> None:
        """Writes an entry, with the traceback of an error if there is one."""
        if not self._log.isEnabledFor(level):
            return
        left_out = self.take(kind)
        if left_out is None:
            return
        if left_out:
            entry = replace(entry, fields={**entry.fields, "leftOut": left_out})
        self._log.log(level, "%s", entry, exc_info=error)


class RecentNews:
    """The recent news: what was told in the last ten minutes, so that it is not told again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._told: TTLCache[int, None] = TTLCache(_MOST_NEWS, QUIET_SECONDS, clock)

    def is_new(self, *key: str) -> bool:
        """Whether a key is news. It counts as told from now on."""
        # The texts of keys have any length.
        if hash(key) in self._told:
            return False
        self._told[hash(key)] = None
        return True
