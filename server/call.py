"""CallRecord: what is known of one call, for logs and metrics; and the log with its bounds.

A record lives from the arrival of a call until its answer is sent. Whoever reaches the server
decides how many lines about requests it has to write. So every line that a request or a connection
causes is written through a LimitedLog, at every level: no kind of line can crowd out the others.
RecentNews lets each thing into the log once in a while.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from logging import Logger

import msgspec
from cachetools import TTLCache

from engine.cluster.binding import Binding
from engine.program.frame import Points
from grammar.messages.texts import cut
from server.errors import CallFailure, Outcome, failure_of
from server.wire import pod_key

Aside = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True, slots=True)
class ReviewedObject:
    """The object of an admission review: the operation on it, and whether it is allowed."""

    operation: str
    object: str
    allowed: bool


class CallRecord(msgspec.Struct, eq=False):
    """The facts of a call, filled in step by step: a call that fails halfway has the first ones."""

    verb: str
    # Seconds of the monotonic clock, when the headers had been read.
    arrived: float
    agent: str = ""
    # The address of the client.
    client: str = ""
    received: int = 0
    # Bytes of the body that count as held, until the call ends.
    held: int = 0
    pod: bytes = b""
    # What a call of bind asks for.
    binds: Binding | None = None
    reviewed: ReviewedObject | None = None
    full_nodes: bool = False
    offered: int = 0
    returned: int = 0
    # The scores that prioritize answers, and the numbers of victims in a request of preempt and
    # in its answer.
    scores: Points | None = None
    victims: tuple[int, int] | None = None
    outcome: Outcome = Outcome.ANSWERED
    error: str = ""
    # A fault of Placet, for the log.
    fault: Exception | None = None
    # Seconds of the monotonic clock, when the decision must be made.
    deadline: float = math.inf
    # Of a call that may be held: done when its connection has ended; a context for the time in
    # which it is held, and does not count as one in flight; and for how long that was.
    ended: asyncio.Future[None] | None = None
    aside: Aside = nullcontext
    held_seconds: float = 0.0

    @contextmanager
    def held_aside(self) -> Iterator[None]:
        """A context for the time in which it is held."""
        began = time.monotonic()
        with self.aside():
            try:
                yield
            finally:
                self.held_seconds += time.monotonic() - began

    def fail(self, error: Exception) -> CallFailure:
        """Records that the call failed."""
        failure = failure_of(error)
        self.outcome, self.error = failure.outcome, failure.text
        if failure.outcome is Outcome.INTERNAL:
            self.fault = error
        return failure


Value = str | int | float

# The most characters of one value in the log. A name has 253, but a request can say anything.
_MOST_CHARACTERS = 1024


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry of the log, the only argument of a record: as text `answered verb="…"`."""

    message: str
    fields: Mapping[str, Value]

    def __post_init__(self) -> None:
        fields = {
            key: cut(value, _MOST_CHARACTERS) if isinstance(value, str) else value
            for key, value in self.fields.items()
        }
        object.__setattr__(self, "fields", fields)

    def __str__(self) -> str:
        # INVARIANT: quoted as JSON. Names come from requests and must not start a new log line.
        pairs = (f"{key}={json.dumps(value)}" for key, value in self.fields.items())
        return " ".join((self.message, *pairs))


def log_entry(call: CallRecord, code: int, seconds: float, left_out: int = 0) -> LogEntry:
    """The log entry of an answered call, with kube-scheduler's own keys where it has them.

    `left_out` is the number of answered calls since the last entry that were not logged.
    """
    fields: dict[str, Value] = {"verb": call.verb}
    if call.pod:
        fields["pod"] = pod_key(call.pod)
        fields["mode"] = "nodes" if call.full_nodes else "names"
        fields["offered"] = call.offered
        fields["returned"] = call.returned
    if call.binds is not None:
        fields["pod"] = f"{call.binds.namespace}/{call.binds.name}"
        fields["node"] = call.binds.node
    if call.reviewed is not None:
        fields["operation"], fields["object"] = call.reviewed.operation, call.reviewed.object
        fields["allowed"] = call.reviewed.allowed
    fields["code"] = code
    fields["outcome"] = str(call.outcome)
    fields["seconds"] = round(seconds, 6)
    if call.held_seconds:
        fields["heldSeconds"] = round(call.held_seconds, 6)
    if call.error:
        fields["err"] = call.error
    if left_out:
        fields["leftOut"] = left_out
    return LogEntry("answered", fields)


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
