"""The extenders that Placet is measured against, each in a process of its own."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.process import Process, running
from tests.support.kubeconfig import kubeconfig

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# By hand with the standard library alone, and with the informers of client-go.
BY_HAND, INFORMERS = HERE / "peer_go", HERE / "peer_informers"
# The installer of Go puts it beside the usual folders and leaves PATH to the user.
_GO = ("go", "/usr/local/go/bin/go")
_READY_SECONDS = 60.0
_LISTENING = re.compile(r"listening on http://127\.0\.0\.1:(\d+)")


def built_peer(source: Path = BY_HAND) -> Path | None:
    """Return the program of a Go extender, built if need be; None where that cannot be done."""
    digest = hashlib.sha256()
    for file in sorted([*source.glob("*.go"), *source.glob("go.*")]):
        digest.update(file.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    program = cache / "placet" / "peer" / digest.hexdigest()[:16] / "peer"
    if program.is_file():
        return program
    go = next((found for name in _GO if (found := shutil.which(name))), None)
    if go is None:
        return None
    program.parent.mkdir(parents=True, exist_ok=True)
    # Renamed when complete: an interrupted link must not pass for a program.
    partial = program.with_suffix(f".{os.getpid()}")
    done = subprocess.run(
        [go, "build", "-trimpath", "-o", str(partial), "."],
        cwd=source,
        env={**os.environ, "CGO_ENABLED": "0"},
        check=False,
    )
    if done.returncode:  # its modules could not be had
        return None
    partial.rename(program)
    return program


@contextmanager
def go_peer(program: Path, folder: Path, *flags: str | Path) -> Iterator[int]:
    """Run the Go extender; yield its port."""
    with _listening([program, *flags], folder / "peer.log") as (_, port):
        yield port


@contextmanager
def informers(folder: Path, url: str) -> Iterator[tuple[Process, int]]:
    """Run the Go extender with informers of a cluster, synced; yield its process and port.

    The test is skipped where it cannot be built.
    """
    program = built_peer(INFORMERS)
    if program is None:
        pytest.skip("the extender with client-go is not built, and cannot be built here")
    folder.mkdir(exist_ok=True)
    file = kubeconfig(folder / "kubeconfig", url, {"token": "static"})
    with _listening([program, f"-kubeconfig={file}"], folder / "informers.log") as found:
        yield found
        # One that lists again and again is no fair contestant.
        assert "Failed to watch" not in found[0].log.read_text()


@contextmanager
def bare_aiohttp(folder: Path) -> Iterator[int]:
    """Run the server on aiohttp that parses nothing; yield its port."""
    command = [sys.executable, "-m", "tests.benchmarks.bare_server"]
    with _listening(command, folder / "bare.log") as (_, port):
        yield port


@contextmanager
def _listening(command: Sequence[str | Path], log: Path) -> Iterator[tuple[Process, int]]:
    log.unlink(missing_ok=True)
    with running(command, log, cwd=ROOT) as process:
        process.wait_ready(lambda: _port(process) is not None, _READY_SECONDS)
        port = _port(process)
        assert port is not None
        yield process, port


def _port(process: Process) -> int | None:
    found = _LISTENING.search(process.log.read_text())
    return int(found[1]) if found else None
