"""A clock that is off: `time.time` of the Python process that has this folder on its PYTHONPATH.

`CLOCK_OFF_SECONDS` says by how much. Clocks that only measure durations are not changed, as on a
machine whose time was set wrongly.
"""
# ruff: noqa: INP001 - no package: Python imports it by this name.

import os
import time

_SECONDS = float(os.environ.get("CLOCK_OFF_SECONDS", "0"))
_time, _time_ns = time.time, time.time_ns

time.time = lambda: _time() + _SECONDS
time.time_ns = lambda: _time_ns() + int(_SECONDS * 1e9)
