"""What holds for every test."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Let Ctrl-C reach what tests start.

    Whatever a shell runs in the background ignores SIGINT, and so does all that it starts.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
