"""A program in a pseudo-terminal: what is typed into it, and what is on its screen by and by."""

from __future__ import annotations

import ctypes
import os
import pty
import re
import select
import signal
import socket
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from server.settings import Settings
from server.view.page import DEFAULT_PORT

CTRL_A, CTRL_C, CTRL_D, TAB, ENTER, UP = "\x01", "\x03", "\x04", "\t", "\r", "\x1b[A"
_WAIT_SECONDS = 20.0
# Colours, movements and modes: what is left is text, in the order in which it was written.
_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\x1b[=>()78][0B]?|\r|\x07")


class PseudoTerminal:
    """Waits are bounded: what does not come in time is an AssertionError with what came."""

    def __init__(self, process: subprocess.Popen[bytes], master: int, slave: int) -> None:
        self._process = process
        self._master = master
        self._slave: int | None = slave
        self._seen = 0
        self.raw = b""

    @property
    def text(self) -> str:
        return _CONTROL.sub("", self.raw.decode(errors="replace"))

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def expect(self, pattern: str) -> str:
        """Waits until a pattern is in what was written since the last call, and gives its text."""
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            text = self.text
            if found := re.compile(pattern).search(text, self._seen):
                self._seen = found.end()
                return found.group()
            left = deadline - time.monotonic()
            assert left > 0, f"no {pattern!r} in {text[self._seen :]!r}"
            assert self._read(left), f"no {pattern!r}, and no more, in {text[self._seen :]!r}"

    def ends(self, key: str = "") -> int:
        """Waits until the program has ended, and gives its exit code.

        Types the key until then: a program that shows its prompt may still be about to listen.
        """
        deadline = time.monotonic() + _WAIT_SECONDS
        while self._process.poll() is None:
            assert time.monotonic() < deadline, f"it has not ended: {self.text[self._seen :]!r}"
            if key:
                self.type(key)
            self._read(0.2)
        return self._process.returncode

    def _read(self, seconds: float) -> bool:
        """Whether more may come. A terminal whose other side is gone gives an error on Linux."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:
            return False
        self.raw += data
        self.let_go()
        return bool(data)

    def let_go(self) -> None:
        """Closes our end of what the program has open by now, so that its end is the end."""
        if self._slave is not None:
            os.close(self._slave)
            self._slave = None


@contextmanager
def terminal(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> Iterator[PseudoTerminal]:
    """Starts a program in a terminal of 24 rows and 100 columns; it ends with the context."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 100))
    # Who leads a session and opens a terminal is under its control: Ctrl-C reaches it as a signal.
    process = subprocess.Popen(
        ["/bin/sh", "-c", 'exec "$@" < "$0" > "$0" 2>&1', os.ttyname(slave), *command],
        cwd=folder,
        env=dict(environment),
        start_new_session=True,
    )
    opened = PseudoTerminal(process, master, slave)
    try:
        yield opened
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        opened.let_go()
        os.close(master)


# ---- A hung mount: a file system that never answers, as that of a server which is gone


_DETACH = 2


@contextmanager
def hung_mount(folder: Path) -> Iterator[None]:
    """Whoever looks into the folder waits until the context ends. Skips without the right."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        fuse = os.open("/dev/fuse", os.O_RDWR)
    except OSError:
        pytest.skip("needs /dev/fuse")
    # Nobody reads the requests of the kernel, so none is ever answered.
    options = f"fd={fuse},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    where = os.fsencode(folder)
    if libc.mount(b"hung", where, b"fuse.hung", 0, options.encode()) != 0:
        os.close(fuse)
        pytest.skip("needs the right to mount")
    try:
        yield
    finally:
        # Whoever waits gets an error now.
        os.close(fuse)
        libc.umount2(where, _DETACH)


# ---- the default ports of Placet, taken while a test starts a server: no test may use them


DEFAULT_PORTS = (Settings().port, DEFAULT_PORT)


@contextmanager
def default_ports_taken() -> Iterator[None]:
    """Whoever listens on a default port meanwhile gets an error, on any machine."""
    with ExitStack() as stack:
        for port in DEFAULT_PORTS:
            # Tests of other workers hold it too, and somebody else may have it all the time.
            with suppress(OSError):
                address = ("127.0.0.1", port)
                stack.enter_context(socket.create_server(address, reuse_port=True))
        yield
