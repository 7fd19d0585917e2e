"""Failures of the API server: what a server cannot do there now, and why; each is logged.

A running server keeps one. Whoever asks the API server reports how that goes, with the text of
`engine.errors.why`, so the log, `/readyz`, metrics and the errors of calls say the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from logging import Logger

from grammar.messages.texts import MOST_SHOWN, shown
from server.http.health import ReadinessCheck

# The first pause before the same text is logged again, and the longest.
_FIRST_SECONDS, _MOST_SECONDS = 10.0, 600.0
# The texts of one kind of work that count as logged; work that goes well for so long is forgotten.
_MOST_LOGGED = 8
_FORGET_SECONDS = 600.0


@dataclass(slots=True)
class _Work:
    """One kind of work: `failure` says why it fails now, or is empty; `logged` are its texts.

    `has_line` says that the log has a line about the failure that lasts now.
    """

    since: float
    failure: str = ""
    has_line: bool = False
    due: float = 0.0
    pause: float = _FIRST_SECONDS
    logged: dict[str, None] = field(default_factory=dict)


class ApiFailures:
    """The failures by kind of work, of which there are few. On one event loop."""

    def __init__(self, log: Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._known: dict[str, _Work] = {}

    @property
    def failing(self) -> Mapping[str, str]:
        """The text of each kind of work that fails now."""
        return {name: work.failure for name, work in self._known.items() if work.failure}

    def checks(self) -> Sequence[ReadinessCheck]:
        """What fails, for `/readyz`: none of it alone makes answers wrong."""
        return [ReadinessCheck("api", text, is_warning=True) for text in self.failing.values()]

    def retain(self, names: Collection[str]) -> None:
        """Forgets all other work, which nobody does any more."""
        self._known = {name: work for name, work in self._known.items() if name in names}

    def report(self, name: str, failure: str) -> None:
        """Takes how work of this name went; an empty text is a success.

        A new text is logged at once, and again after pauses that double. Work that fails, succeeds
        and fails again does not begin anew with the shortest pause.
        """
        now, work = self._clock(), self._known.get(name)
        if not failure:
            if work is not None and work.failure:
                if work.has_line:
                    self._log.info("can %s again after %.0f seconds", name, now - work.since)
                work.failure, work.since, work.has_line = "", now, False
            return
        if work is None or (not work.failure and now - work.since > _FORGET_SECONDS):
            work = self._known[name] = _Work(now)
        failure = shown(failure, 2 * MOST_SHOWN)
        if not work.failure:
            work.since = now
        work.failure = failure
        if failure not in work.logged and len(work.logged) < _MOST_LOGGED:
            work.logged[failure] = None
        elif now < work.due:
            return
        else:
            work.pause = min(2 * work.pause, _MOST_SECONDS)
        work.due, work.has_line = now + work.pause, True
        seconds = now - work.since
        self._log.error("%s%s", failure, f" (for {seconds:.0f} seconds)" if seconds >= 1 else "")
