"""Settings for every test."""

from __future__ import annotations

import signal

from tests.support.examples import register_profiles

register_profiles()


def pytest_configure() -> None:
    """Let Ctrl-C reach what tests start.

    A background process of a shell ignores SIGINT, and its child processes do too.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
