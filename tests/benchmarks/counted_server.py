"""A server whose instructions are counted: without what happens by the clock or by chance.

python -m tests.benchmarks.counted_server serve …
"""

from __future__ import annotations

import gc
import math
import runpy
import sys
import time
from contextlib import suppress
from itertools import repeat


def main() -> None:
    gc.disable()
    # Under valgrind everything takes thirty times as long, and brief work would be charged.
    time.thread_time = repeat(0.0).__next__
    with suppress(ImportError):  # of an older program
        from server.metrics import state_metrics  # noqa: PLC0415

        state_metrics.LOOK_SECONDS = math.inf
    sys.argv = ["placet", *sys.argv[1:]]
    runpy.run_module("cli", run_name="__main__")


if __name__ == "__main__":
    main()
