"""Settings for every test."""

from __future__ import annotations

import os
import signal

from tests.support.examples import register_profiles

register_profiles()


def pytest_configure() -> None:
    """Use no proxy for loopback, and let Ctrl-C reach what tests start.

    A background process of a shell ignores SIGINT, and its child processes do too.
    """
    os.environ |= {"NO_PROXY": "*", "no_proxy": "*"}
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers() -> int:
    """More processes than processors: many tests wait for a server that they have started."""
    return (os.cpu_count() or 1) * 3 // 2
