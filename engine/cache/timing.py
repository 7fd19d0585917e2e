"""The times of a reflector, in seconds: those of client-go unless a line says why not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """How patient a reflector is."""

    backoff_first: float = 0.8
    backoff_most: float = 30.0
    # Without a failure for so long, the next one is the first.
    backoff_reset: float = 120.0
    # A server that asks for more than this is not believed.
    retry_after_most: float = 300.0
    # So many errors of a server in a row, and a watch is given up for a list: client-go tries for
    # a minute.
    broken_most: int = 5
    # The server ends a watch after a time between these, so that clients spread over its replicas.
    watch_least: float = 300.0
    watch_most: float = 600.0
    # A watch that ended sooner and told nothing new is a failure, or it would be repeated at once.
    watch_shortest: float = 1.0
    # Bookmarks come each minute: two of them missing is a connection that has died silently.
    idle: float = 120.0
    # One page of a list.
    request: float = 60.0
    # Until a resource whose definition is not installed is looked for again.
    absent: float = 30.0
