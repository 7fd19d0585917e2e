"""Counts the instructions that a server takes to filter and prioritize a pod, with valgrind.

    make instructions [TREE=FOLDER] [PODS=100]

Times differ by several percent from run to run on most machines; these counts differ by less than
one. TREE is another checkout, such as an older commit. What the kernel does is not counted.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks import shop
from tests.benchmarks.offers import KeepAlive, Offers, asked, keep_alive

ROOT = Path(__file__).parents[2]
PREFIX = "/api/scheduler"
# The nodes of each case, and the team of the pods; no policy selects those of `nobody`.
CASES = {
    "500 names": (500, shop.TEAM),
    "5,000 names": (5_000, shop.TEAM),
    "5,000 names, no policy selects": (5_000, "nobody"),
}
WARM = 3 * shop.SHAPES
IDLE_SECONDS = 5.0
_READY_SECONDS = 300.0
_LISTENING = re.compile(r"listening on http://127\.0\.0\.1:(\d+)")
_TOTAL = re.compile(r"(?m)^totals: (\d+)")


def main() -> int:
    if shutil.which("valgrind") is None:
        print("skipped: there is no `valgrind`, which counts instructions")
        return 0
    tree = Path(os.environ.get("TREE") or ROOT)
    pods = int(os.environ.get("PODS") or 100)
    print(f"{'':<34} instructions a pod")
    for name, (nodes, team) in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            print(f"{name:<34} {counted(tree, Path(folder), nodes, team, pods):>18,}", flush=True)
    return 0


def counted(tree: Path, folder: Path, nodes: int, team: str, pods: int) -> int:
    """The instructions of a server of this tree for each pod, without those of its idle time."""
    cluster = shop.snapshot(folder / "cluster.json", nodes, 3 * nodes)
    policies = shop.policies(folder / "policies")
    offers = Offers(shop.asked_pods(team=team), [f"n{number}" for number in range(nodes)])
    with server(tree, folder, cluster, policies) as (process, port):
        control = Control(process, folder)
        with keep_alive(port, PREFIX) as connection:
            ask(connection, offers, WARM, again=True)
            began = time.monotonic()
            with control.counting():
                ask(connection, offers, pods, again=False)
            seconds = time.monotonic() - began
        with control.counting():
            time.sleep(IDLE_SECONDS)
        busy, idle = control.totals()
    return round((busy - idle * seconds / IDLE_SECONDS) / pods)


def ask(connection: KeepAlive, offers: Offers, pods: int, *, again: bool) -> None:
    for _ in asked(connection, offers, [offers.next() for _ in range(pods)], again=again):
        pass


@contextmanager
def server(
    tree: Path, folder: Path, cluster: Path, policies: Path
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Serve under valgrind; yield the process and the port. The program of this tree starts it."""
    command = [
        *("valgrind", "--tool=callgrind", "--instr-atstart=no"),
        f"--callgrind-out-file={folder / 'counts'}",
        *(sys.executable, "-P", str(Path(__file__).with_name("counted_server.py"))),
        *("serve", "--listen=127.0.0.1:0", f"--cluster={cluster}", f"--policies={policies}"),
        "--http-timeout=120s",
    ]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
    log = folder / "log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            command, cwd=tree, env=environment, stdout=output, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            yield process, _port(process, log)
        finally:
            process.terminate()


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    ends = time.monotonic() + _READY_SECONDS
    while time.monotonic() < ends and process.poll() is None:
        if found := _LISTENING.search(log.read_text()):
            return int(found[1])
        time.sleep(0.1)
    raise SystemExit(f"the server did not start: {log.read_text()[-2000:]}")


class Control:
    """Turns the counting of a process on and off."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self._process = process
        self._folder = folder

    @contextmanager
    def counting(self) -> Iterator[None]:
        self._do("-i", "on")
        try:
            yield
        finally:
            self._do("-i", "off")
            self._do("-d")

    def totals(self) -> list[int]:
        """The instructions of each time of counting, in order."""
        files = sorted(self._folder.glob("counts.*"), key=lambda file: int(file.suffix[1:]))
        found = [_TOTAL.search(file.read_text()) for file in files]
        return [int(each[1]) for each in found if each is not None]

    def _do(self, *what: str) -> None:
        command = ("callgrind_control", *what, str(self._process.pid))
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
