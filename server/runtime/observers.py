"""Observers: the log of a server, and what it says of decisions.

The log has one line for each event, as text or as JSON. A thread writes it: who does not read it
stops nobody. A LogObserver belongs to a running server and logs each thing once in a while, not for
every pod.
"""

from __future__ import annotations

import json
import logging
import os
import select
import sys
import time
from datetime import UTC, datetime
from logging import Logger
from logging.handlers import QueueHandler, QueueListener
from queue import Full, Queue

from engine.decision.verb_call import Observer, Occurrence
from grammar.messages.texts import LINES, MOST_WHOLE, escaped, escaped_json, shown
from server.call import LimitedLog, LogEntry, RecentNews
from server.metrics.metrics import Metrics

_MOST_LINE = 2 * MOST_WHOLE


def start_logging(form: str, *, verbose: bool) -> logging.Logger:
    """The server's log, on standard error. Libraries log there too, from warnings on."""
    try:
        handler: logging.Handler = _WaitingLines(_FileWriter(os.dup(sys.stderr.fileno())))
    except OSError:
        # It is no file, so nobody can keep it from being written.
        handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    handler.addFilter(_LibraryFilter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    log = logging.getLogger("placet")
    log.setLevel(logging.DEBUG if verbose else logging.INFO)
    return log


def finish_log() -> None:
    """Returns when the log is written, or when nobody has read it for a second."""
    for handler in logging.getLogger().handlers:
        handler.flush()


# The lines that are not written yet; more lines are left out.
_MOST_WAITING = 2048
_FINISH_SECONDS = 1.0


class _WaitingLines(QueueHandler):
    """The lines of the log that wait for the thread that writes them.

    A reader that is slow, full or gone delays only the log: lines wait as they will be written, and
    are left out beyond a limit, which the next line says. The thread ends with the process,
    whatever it waits for.
    """

    def __init__(self, writer: logging.Handler) -> None:
        self._lines: Queue[logging.LogRecord] = Queue(_MOST_WAITING)
        super().__init__(self._lines)
        self._left_out = 0
        QueueListener(self._lines, writer).start()

    def enqueue(self, record: logging.LogRecord) -> None:
        text = "%d lines of the log were left out: nobody has read them"
        told = ("placet", logging.WARNING, "", 0, text, (self._left_out,), None)
        try:
            if self._left_out:
                self._lines.put_nowait(self.prepare(logging.LogRecord(*told)))
                self._left_out = 0
            self._lines.put_nowait(record)
        except Full:
            self._left_out += 1

    def flush(self) -> None:
        end = time.monotonic() + _FINISH_SECONDS
        while self._lines.unfinished_tasks and time.monotonic() < end:
            time.sleep(0.01)


class _FileWriter(logging.Handler):
    """A writer of lines to a file, however long that takes; one that fails loses its line."""

    def __init__(self, file: int) -> None:
        super().__init__()
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        rest = memoryview(f"{record.msg}\n".encode("utf-8", "backslashreplace"))
        while rest:
            try:
                rest = rest[os.write(self._file, rest) :]
            except BlockingIOError:
                # Whoever shares the file has asked for this.
                select.select([], [self._file], [])
            except OSError:
                break


class _LibraryFilter(logging.Filter):
    """A filter of libraries' lines: what peers do can make asyncio log, too."""

    def __init__(self) -> None:
        super().__init__()
        self._limited = LimitedLog(logging.getLogger())

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.partition(".")[0] == "placet":
            return True
        left_out = self._limited.take(record.name)
        if left_out:
            fields = {"leftOut": left_out}
            record.msg, record.args = "%s", (LogEntry(record.getMessage(), fields),)
        return left_out is not None


class _TextFormatter(logging.Formatter):
    """Lines of text: `2026-11-21T10:00:00.000Z INFO message`."""

    def format(self, record: logging.LogRecord) -> str:
        text = f"{_time(record)} {record.levelname:<7} {_message(record)}"
        if not record.exc_info:
            return text
        return f"{text}\n{escaped(self.formatException(record.exc_info), LINES)}"


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, str | int | float] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        match record.args:
            case (LogEntry(message, fields),):
                entry |= {"message": message, **fields}
            case _:
                entry["message"] = _message(record)
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        # Terminals obey bidi controls, which JSON does not escape by itself.
        return escaped_json(json.dumps(entry, ensure_ascii=False))


def _message(record: logging.LogRecord) -> str:
    """The message of a record in one line: what others wrote must not look like a line of ours."""
    return shown(record.getMessage(), _MOST_LINE)


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class LogObserver(Observer):
    """A log of what an engine reports, which metrics count too."""

    def __init__(self, log: Logger, metrics: Metrics) -> None:
        self._log = log
        self._count = metrics.count
        # By the address of a policy, which one governs its pods instead.
        self.lost: dict[str, str] = {}
        self._news = RecentNews()

    def rejected(self, policy: str, clause: str, nodes: int) -> None:
        self._count("placet_rejections_total", policy, clause, number=nodes, names=2)
        self._log.debug("policy %s: %s rejected %d nodes", policy, clause, nodes)

    def held_back(self, policy: str, clause: str, nodes: int) -> None:
        self._count("placet_held_back_nodes_total", policy, clause, number=nodes, names=2)
        self._log.debug("policy %s: %s holds %d nodes back", policy, clause, nodes)

    def failed(self, policy: str, clause: str, error: str) -> None:
        self._count("placet_evaluation_errors_total", policy, clause, names=2)
        if self._news.is_new("failed", policy, clause, error):
            self._log.warning("policy %s: %s could not be evaluated: %s", policy, clause, error)

    def would_reject(self, policy: str, clause: str, nodes: int) -> None:
        self._count("placet_audit_rejections_total", policy, clause, number=nodes, names=2)
        if self._news.is_new("audit", policy, clause):
            text = "policy %s in audit mode: %s would have rejected %d nodes"
            self._log.info(text, policy, clause, nodes)

    def conflict(self, winner: str, loser: str) -> None:
        self._count("placet_policy_conflicts_total", winner, loser, names=2)
        self.lost[loser] = winner
        if self._news.is_new("conflict", winner, loser):
            text = "policies %s and %s select the same pods: the first one governs them"
            self._log.warning(text, winner, loser)

    def bypassed(self, pod: str, uid: str, reason: str) -> None:
        self._count("placet_bypasses_total")
        if self._news.is_new("bypass", uid, reason):
            # The reason is text from a pod, so it must be quoted.
            fields = {"pod": pod, "reason": reason}
            self._log.warning("%s", LogEntry("pod bypasses all policies", fields))

    def expensive(self, policy: str) -> None:
        self._count("placet_expensive_policies_total", policy, names=1)
        if self._news.is_new("expensive", policy):
            text = "policy %s takes too much time to evaluate: its pods wait while it does"
            self._log.warning(text, policy)

    def charged(self, policy: str, seconds: float) -> None:
        """Processor time that the clauses of a policy have taken."""
        self._count("placet_policy_seconds_total", policy, number=seconds, names=1)

    def gave_up(self, work: str, about: str) -> None:
        self._count("placet_background_gave_up_total", work)
        if self._news.is_new("gave up", work, about):
            self._log.warning("%s of %s takes too long: gave up this time", work, about)

    def shortened(self, policy: str, clause: str, text: str) -> None:
        if self._news.is_new("shortened", policy, clause):
            self._log.info("policy %s: %s has a long message: %s", policy, clause, text)

    def unnamed_scheduler(self, name: str) -> None:
        if self._news.is_new("scheduler", name):
            text = (
                "filter is asked about pods of scheduler `%s`, which no --scheduler-name names:"
                " after a start or a handover strict counts can miss those on their way"
            )
            self._log.warning(text, shown(name, _MOST_LINE))

    def occurred(self, occurrence: Occurrence) -> None:
        for name, labels, number in occurrence.counts:
            self._count(name, *labels, number=number, names=1)
        # Names are texts from pods, so they must be quoted.
        self._log.info("%s", LogEntry(occurrence.text, occurrence.fields))
