"""A server whose instructions are counted: without what happens by the clock or by chance.

python -m tests.benchmarks.counted_server serve …
"""

from __future__ import annotations

import gc
import importlib
import math
import runpy
import sys
import time
from contextlib import suppress
from itertools import repeat


def no_pods(_: object) -> tuple[str, ...]:
    """Stands for the pods of the report at a start, which reads all files of the cluster."""
    return ()


# What is set, by module and name. Under valgrind everything takes thirty times as long, and on a
# busy machine longer: a decision would count as a long one, and more lines have time to be logged.
# An older program may not have all of them.
STILL: dict[tuple[str, str], object] = {
    ("server.metrics.metrics", "LOOK_SECONDS"): math.inf,
    ("server.view.policy_states", "_LOOK_SECONDS"): math.inf,
    ("server.view.explaining", "_some"): no_pods,
    ("server.call", "MOST_LINES_A_SECOND"): 0,
    ("server.verbs.answering", "_LONG_SECONDS"): math.inf,
}


def main() -> None:
    gc.disable()
    # Brief work would be charged.
    time.thread_time = repeat(0.0).__next__
    for (module, name), value in STILL.items():
        with suppress(ImportError):
            setattr(importlib.import_module(module), name, value)
    sys.argv = ["placet", *sys.argv[1:]]
    runpy.run_module("cli", run_name="__main__")


if __name__ == "__main__":
    main()
