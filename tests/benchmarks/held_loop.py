"""`placet` with the longest step of its event loop, in processor time, written to a file.

Arguments: the file, and those of `placet`. What `loop.Handle` runs is one step.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

from cli.main import main

file = Path(sys.argv.pop(1))
_longest = {"seconds": 0.0, "step": ""}
_plain: Any = asyncio.events.Handle._run  # noqa: SLF001 - there is no other place to measure


def _measured(handle: Any) -> None:
    began = time.thread_time()
    _plain(handle)
    seconds = time.thread_time() - began
    if seconds > _longest["seconds"]:
        _longest.update(seconds=seconds, step=repr(handle)[:300])
        file.write_text(json.dumps(_longest), encoding="utf-8")


def forget() -> None:
    """Begins anew: what a server does at its start is not what is measured."""
    _longest.update(seconds=0.0, step="")


if __name__ == "__main__":
    setattr(asyncio.events.Handle, "_run", _measured)  # noqa: B010 - it is no method of ours
    # SIGUSR1 begins anew.
    signal.signal(signal.SIGUSR1, lambda *_: forget())
    sys.exit(main())
