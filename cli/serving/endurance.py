"""The flags of a server under load and at its end, and where its health is told."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import AsyncExitStack
from logging import Logger

from cli.arguments import address, pause, positive
from cli.version import version
from server.aside import serving_aside
from server.health import Readiness
from server.metrics import Metrics
from server.pulse import Pulse


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the flags."""
    how = parser.add_argument_group("how it holds out, and ends")
    how.add_argument(
        "--max-in-flight",
        metavar="N",
        type=positive,
        default=100,
        help="calls of kube-scheduler that are answered at once; more of them are refused "
        "(default: %(default)s)",
    )
    how.add_argument(
        "--health-listen",
        metavar="HOST:PORT",
        type=address,
        help="serve health and metrics here too, over plain HTTP, from a thread of their own: they "
        "answer whatever the rest does",
    )
    how.add_argument(
        "--lameduck",
        metavar="TIME",
        type=pause,
        default="5s",
        help="how long to serve after SIGTERM, not ready any more, before connections are refused "
        "(default: %(default)s)",
    )


def tell_health(
    stack: AsyncExitStack,
    listen: tuple[str, int],
    readiness: Readiness,
    metrics: Metrics,
    log: Logger,
) -> None:
    """Serves health and metrics aside until the stack ends. Raises OSError.

    To be called from the event loop that is to be watched.
    """
    pulse = Pulse(readiness)
    beating = asyncio.create_task(pulse.run())
    stack.callback(beating.cancel)
    url = stack.enter_context(serving_aside(listen, pulse, metrics, version()))
    log.info("health and metrics on %s", url)
