"""Bounded waiting, and the readiness probe that is mostly waited for."""

import http.client
import secrets
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

INTERVAL_SECONDS = 0.1
PROBE_TIMEOUT_SECONDS = 2.0


def until(
    holds: Callable[[], bool],
    seconds: float,
    expectation: Callable[[], str],
    interval: float = INTERVAL_SECONDS,
) -> None:
    """Return once `holds()` is true; fail with `expectation()` when it is not within `seconds`.

    The expectation is a function because what it reports (a log's tail, where pods are now) is only
    known at the end.
    """
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            message = f"not within {seconds:g} s: {expectation()}"
            raise AssertionError(message)
        time.sleep(interval)


def answers_ok(port: int, path: str, authority: Path | None = None) -> bool:
    """Whether GET `path` on a loopback port is answered 200; over TLS where `authority` is given.

    `authority` is the PEM file the server writes its self-signed certificate to when it starts, so
    a file that is not there yet, or not whole, means the same as a port nobody listens on.
    """
    try:
        connection = _connection(port, authority)
    except (FileNotFoundError, ssl.SSLError):
        return False
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


# Outgoing connections get the ports above, and would take one before a process listens on it.
_PORTS = range(20_000, 32_768)


def free_port() -> int:
    """Return a loopback port nobody listens on at the moment."""
    while True:
        port = _PORTS.start + secrets.randbelow(len(_PORTS))
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def _connection(port: int, authority: Path | None) -> http.client.HTTPConnection:
    if authority is None:
        return http.client.HTTPConnection("127.0.0.1", port, timeout=PROBE_TIMEOUT_SECONDS)
    context = ssl.create_default_context(cafile=str(authority))
    return http.client.HTTPSConnection(
        "127.0.0.1", port, timeout=PROBE_TIMEOUT_SECONDS, context=context
    )
