"""Start of the demo: free ports where others have its own, and a log that lets it speak first."""

from __future__ import annotations

import argparse
import errno
import logging
import secrets
import socket
import sys
from collections.abc import Iterator

from server.settings import DEFAULT_LISTEN
from server.view.page import DEFAULT_PORT, HOST

# Outgoing connections get the ports above: on Linux from 32768 on, elsewhere from 49152 on.
_BELOW_EPHEMERAL = range(20_000, 32_768)


class QuietStart(logging.Filter):
    """A filter of the log until the introduction to the demo, which says the same in its words.

    The warnings about the embedded policies are for whoever enforces them under kube-scheduler. On
    a terminal, the reader of the log reads the introduction, too.
    """

    def __init__(self) -> None:
        super().__init__()
        on_terminal = sys.stderr.isatty()
        self._hidden = {logging.WARNING, *((logging.INFO,) if on_terminal else ())}

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno not in self._hidden


def move_taken_ports(args: argparse.Namespace, view: int | None) -> Iterator[str]:
    """Gives the demo free ports where its default ones are taken, and says so in a line each.

    `view` is the port of the page.
    """
    host, port = args.listen
    if f"{host}:{port}" == DEFAULT_LISTEN and _is_taken(host, port):
        args.listen = host, _free_port(host)
        yield (
            f"Port {port} is taken, so it listens on port {args.listen[1]}; name another with "
            "--listen HOST:PORT."
        )
    if view == 0:
        args.view_port = _free_port(HOST)
    elif view == DEFAULT_PORT and _is_taken(HOST, view):
        args.view_port = _free_port(HOST)
        yield (
            f"Port {view} is taken, so its page is on port {args.view_port}; name another with "
            "--view-port PORT."
        )


def _is_taken(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def _free_port(host: str) -> int:
    """A port that is free, and that no outgoing connection gets before the server listens."""
    while True:
        port = _BELOW_EPHEMERAL.start + secrets.randbelow(len(_BELOW_EPHEMERAL))
        if not _is_taken(host, port):
            return port
