"""The processes in which `placet serve` checks objects: however it is started, and when it ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path

import msgspec
import pytest

from tests.cli.test_serve import ROOT, Server, post, until
from tests.support.builders import on_wanted, placement_policy
from tests.support.pseudo_terminal import default_ports_taken
from tests.support.reviews import review

pytestmark = pytest.mark.process

PACKAGES = ("cli", "engine", "grammar", "policies", "server")
REVIEW = msgspec.json.encode(review(placement_policy(on_wanted(3)))).decode()


def module(folder: Path) -> list[str]:
    return ["-m", "cli"]


def script(folder: Path) -> list[str]:
    """The script that pip writes for the entry point, in an editable install."""
    return [written(folder / "placet", "cli.__main__")]


def written(file: Path, module: str) -> str:
    lines = ("import sys", f"from {module} import main", "if __name__ == '__main__':")
    file.write_text("\n".join((*lines, "    sys.exit(main())", "")), encoding="utf-8")
    return str(file)


def wheel(folder: Path) -> list[str]:
    """The layout of the wheel; without `site` there is no editable install."""
    installed = folder / "installed" / "placet"
    (installed / "bundle").mkdir(parents=True)
    shutil.copy(ROOT / "cli" / "__main__.py", installed / "__main__.py")
    shutil.copy(ROOT / "cli" / "package.py", installed / "__init__.py")
    for name in PACKAGES:
        (installed / "bundle" / name).symlink_to(ROOT / name)
    return ["-S", written(folder / "kubectl-placet", "placet.__main__")]


Start = Callable[[Path], list[str]]
STARTS: list[Start] = [module, script, wheel]
# SIGINT is Ctrl-C, which reaches the whole group of the terminal.
ENDS = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT]
# Each way to start and each way to end; `make thorough` runs them all with each other.
PAIRS = list(zip(STARTS, ENDS, strict=True))
OTHERS = [pair for pair in product(STARTS, ENDS) if pair not in PAIRS]


@contextmanager
def served(how_to: Start, tmp_path: Path) -> Iterator[Server]:
    out, err = tmp_path / "out", tmp_path / "err"
    start = how_to(tmp_path)
    path = [tmp_path / "installed", sysconfig.get_path("purelib")] if "-S" in start else [ROOT]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))}
    (tmp_path / "a.policy").write_text("cluster policy a {}", encoding="utf-8")
    how = [
        "serve",
        "--policies",
        "a.policy",
        "--no-cluster",
        "--listen",
        "127.0.0.1:0",
        "--lameduck",
        "0s",
    ]
    with out.open("wb") as to, err.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *start, *how, "--http-timeout", "30s"],
            cwd=tmp_path,
            env=environment,
            stdout=to,
            stderr=log,
            start_new_session=True,
        )
    try:
        running = Server(process, out, err)
        with default_ports_taken():
            until(lambda: bool(running.url) or process.poll() is not None, 60)
        yield running
    finally:
        process.kill()
        process.wait()


def children(pid: int) -> Sequence[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # a thread that has ended
            found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False


@pytest.mark.parametrize(
    ("how_to", "number"),
    [*PAIRS, *(pytest.param(*pair, marks=pytest.mark.thorough) for pair in OTHERS)],
    ids=lambda value: value.name if isinstance(value, signal.Signals) else value.__name__,
)
def test_nothing_is_left(how_to: Start, number: signal.Signals, tmp_path: Path) -> None:
    with served(how_to, tmp_path) as server:
        check_that_nothing_is_left(server, number)


def check_that_nothing_is_left(server: Server, number: signal.Signals) -> None:
    assert post(f"{server.url}/admission/validate?timeout=30s", REVIEW)["response"]["allowed"]
    started = children(server.process.pid)
    assert started
    if number is signal.SIGINT:
        os.killpg(server.process.pid, number)
    else:
        server.process.send_signal(number)
    assert server.process.wait(60) == (-number if number is signal.SIGKILL else 0)
    until(lambda: not any(map(lives, started)), 60)
    assert "Traceback" not in server.err.read_text("utf-8")
