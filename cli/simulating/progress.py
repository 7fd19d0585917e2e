"""How far a long run has come: a bar on a terminal, and nothing anywhere else."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

# A run that is over by then needs no bar.
_PATIENCE_SECONDS = 1.0
# It redraws itself a few times a second; more often it need not be told.
_STEP = 16


@contextmanager
def progress(
    stream: TextIO, text: str, total: int, clock: Callable[[], float] = time.monotonic
) -> Iterator[Callable[[int], None]]:
    """What is yielded is to be called with how many are done; the bar is gone in the end."""
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _: None
        return
    console = Console(file=stream, no_color=bool(os.environ.get("NO_COLOR")) or None)
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
    task = bar.add_task(text, total=total)
    from_then = clock() + _PATIENCE_SECONDS

    def heard(done: int) -> None:
        if done % _STEP == 0 and clock() >= from_then:
            bar.start()
            bar.update(task, completed=done)

    try:
        yield heard
    finally:
        bar.stop()
