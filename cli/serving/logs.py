"""The log of a server: one line an event, for people or for machines."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from server.call import Entry

FORMATS = ("text", "json")


def start_logging(form: str, *, verbose: bool) -> logging.Logger:
    """The server's log, on standard error; libraries write there too, from warnings on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    log = logging.getLogger("placet")
    log.setLevel(logging.DEBUG if verbose else logging.INFO)
    return log


class _TextFormatter(logging.Formatter):
    """`2026-11-21T10:00:00.000Z INFO message`."""

    def format(self, record: logging.LogRecord) -> str:
        text = f"{_time(record)} {record.levelname:<7} {record.getMessage()}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class _JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, str | int | float] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        match record.args:
            case (Entry(message, fields),):
                entry |= {"message": message, **fields}
            case _:
                entry["message"] = record.getMessage()
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
