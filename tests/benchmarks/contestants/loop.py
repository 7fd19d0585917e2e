"""What all contestants do alike: wait for a line, do a round, print what came of it."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable

Rule = Callable[[], list[bool]]


def compete(prepare: Callable[[], Rule]) -> None:
    """Do a round for every line of the standard input.

    `prepare` is called before each round and outside the clock; what it returns is one pass over
    all nodes, and says which of them passed.
    """
    _print("ready")
    for _ in sys.stdin:
        rule = prepare()
        gc.collect()
        started = time.perf_counter()
        passed = rule()
        seconds = time.perf_counter() - started
        letters = "".join("1" if node else "0" for node in passed)
        _print(json.dumps({"seconds": seconds, "passed": letters}))


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
