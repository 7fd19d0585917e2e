"""A good client and a probe, while hostile clients of 20 addresses hold each phase of a request.

`CONNECTIONS` is the number of hostile ones. `make hostile` has 2,000, `make processes` fewer.
"""

from __future__ import annotations

import http.client
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import msgspec
import pytest

from tests.support.certificates import Keyring
from tests.support.pseudo_terminal import default_ports_taken
from tests.support.served import POD

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
NAMED = "CONNECTIONS" in os.environ
CONNECTIONS = int(os.environ.get("CONNECTIONS", "300"))
SECONDS = 20.0 if NAMED else 4.0
# The pause between two calls of the good client.
PAUSE_SECONDS = 0.02
# The 99th of 100 answers arrives within this time. A machine that runs other tests has more.
MOST_SECONDS = 0.25 if NAMED else 10.0
# Without an answer for so long, a call has failed.
LOST_SECONDS = 30.0
# A server that answers fewer calls than that in this time is stopped by the attack.
FEWEST_CALLS, STOPPED_SECONDS = 10, 60.0
CALL = msgspec.json.encode({"Pod": POD, "NodeNames": ["arm-a1", "spot-a1"]})


@contextmanager
def placet(*flags: str, most: int) -> Iterator[int]:
    """The port of a server of its own process."""
    listen = ("--listen=127.0.0.1:0", "--view-port=none", f"--max-in-flight={most}")
    command = [sys.executable, "-m", "cli", "serve", "--demo", *listen, *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as server:
        assert server.stderr is not None
        with default_ports_taken():
            started = next(line for line in server.stderr if "listening on" in line)
        # Somebody reads the log, or the server would wait for that.
        reading = threading.Thread(target=server.stderr.read, daemon=True)
        reading.start()
        try:
            yield int(started.rpartition(":")[2].rstrip('"\n'))
        finally:
            server.kill()
            reading.join()


@contextmanager
def attacked(port: int, *more: str) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.support.hostile_clients", str(port), str(CONNECTIONS)]
    with subprocess.Popen([*command, *more], stdout=subprocess.PIPE, text=True, cwd=ROOT) as them:
        assert them.stdout is not None
        them.stdout.readline()
        try:
            yield
            assert them.poll() is None, "the hostile clients have ended"
        finally:
            them.kill()


class Calls:
    """The answers of calls, one after the other, and how long each took."""

    def __init__(self, ask: Callable[[], bool], close: Callable[[], None]) -> None:
        self._ask, self._close = ask, close
        self.seconds: list[float] = []
        self.failed = 0
        self._thread = threading.Thread(target=self._run)
        self._ends = threading.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        self._close()

    def _run(self) -> None:
        while not self._ends.wait(PAUSE_SECONDS):
            began = time.monotonic()
            answered = False
            with suppress(OSError, http.client.HTTPException):
                answered = self._ask()
            self.seconds.append(time.monotonic() - began)
            self.failed += not answered

    @property
    def p99(self) -> float:
        return sorted(self.seconds)[int(len(self.seconds) * 0.99)]


def connection(port: int, context: ssl.SSLContext | None) -> http.client.HTTPConnection:
    if context is None:
        return http.client.HTTPConnection("127.0.0.1", port, timeout=LOST_SECONDS)
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=LOST_SECONDS, context=context)


def scheduler(port: int, context: ssl.SSLContext | None) -> Calls:
    """Calls filter on a connection that stays open, as kube-scheduler does."""
    client = connection(port, context)

    def ask() -> bool:
        try:
            client.request("POST", "/filter", CALL, {"Content-Type": "application/json"})
            return b'"Error":""' in client.getresponse().read()
        except BaseException:
            client.close()
            raise

    return Calls(ask, client.close)


def is_well(port: int, context: ssl.SSLContext | None, path: str) -> bool:
    """Whether a check of the server holds, asked on a connection of its own as the kubelet does."""
    client = connection(port, context)
    try:
        client.request("GET", path)
        return client.getresponse().status == 200
    finally:
        client.close()


def probe(port: int, context: ssl.SSLContext | None) -> Calls:
    """Asks whether the server lives."""
    return Calls(lambda: is_well(port, context, "/livez"), lambda: None)


@pytest.mark.parametrize(
    "tls",
    [
        pytest.param(False, id="plain", marks=[] if NAMED else pytest.mark.thorough),
        pytest.param(True, id="tls"),
    ],
)
def test_a_good_client_and_a_probe_are_answered(tls: bool, tmp_path: Path) -> None:
    flags: tuple[str, ...] = ()
    context = anonymous = None
    if tls:
        keyring = Keyring(tmp_path)
        keyring.write()
        files = keyring.mutual()
        context = keyring.client(keyring.client_ca.issue_cert(common_name="kube-scheduler"))
        anonymous = keyring.client()
        flags = (
            f"--tls-cert={files.certificate}",
            f"--tls-key={files.key}",
            f"--client-ca={files.client_ca}",
        )
    most = 100 if NAMED else 20
    with placet(*flags, most=most) as port:
        last = time.monotonic() + STOPPED_SECONDS
        # A busy machine has checked few policies when the server begins.
        while not is_well(port, anonymous, "/readyz") and time.monotonic() < last:
            time.sleep(PAUSE_SECONDS)
        with (
            attacked(port, *(["tls"] if tls else [])),
            scheduler(port, context) as calls,
            probe(port, anonymous) as probes,
        ):
            time.sleep(SECONDS)  # the attack lasts as long, or longer on a busy machine
            found = {"filter": calls, "livez": probes}
            last = time.monotonic() + STOPPED_SECONDS
            while fewest(found.values()) <= FEWEST_CALLS and time.monotonic() < last:
                time.sleep(PAUSE_SECONDS)
    shown = [f"{n}: {len(c.seconds)} calls, p99 {c.p99 * 1000:.0f} ms" for n, c in found.items()]
    print(*shown, sep="; ")  # noqa: T201 - `make hostile` shows it
    assert {name: each.failed for name, each in found.items()} == {"filter": 0, "livez": 0}
    assert {name for name, each in found.items() if each.p99 >= MOST_SECONDS} == set(), shown
    assert fewest(found.values()) > FEWEST_CALLS


def fewest(calls: Iterable[Calls]) -> int:
    return min(len(each.seconds) for each in calls)
