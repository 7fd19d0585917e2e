"""etcd on a free loopback port, for as long as a block runs, and the compaction of what it has."""

import json
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.process import running
from tests.e2e.waiting import answers_ok, free_port

READY_SECONDS = 30.0
TIMEOUT_SECONDS = 10.0
# What the API server sends at most; etcd takes 1.5 MiB where nobody says otherwise.
LARGEST = 2 * 2**20


@dataclass(frozen=True, slots=True)
class Etcd:
    """Where etcd listens, for clients of gRPC and for JSON."""

    url: str

    def compact(self) -> int:
        """Forget every state but the newest, as etcd does in time; return the revision of that."""
        revision = int(self._ask("range", {"key": "AA=="})["header"]["revision"])
        self._ask("compaction", {"revision": revision, "physical": True})
        return revision

    def _ask(self, verb: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(  # noqa: S310 - the address is ours, on loopback
            f"{self.url}/v3/kv/{verb}", json.dumps(body).encode()
        )
        # No proxy of whoever runs the tests is for loopback.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=TIMEOUT_SECONDS) as response:
            return json.load(response)


@contextmanager
def etcd(programs: Path, folder: Path) -> Iterator[Etcd]:
    """Run etcd from `programs`, with its log in `folder`; its data ends with the block."""
    port, data = free_port(), folder / "etcd"
    url, peers = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{free_port()}"
    command: list[str | Path] = [
        programs / "etcd",
        f"--data-dir={data}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",  # the data ends with the run
        f"--max-request-bytes={LARGEST}",
        "--log-level=warn",
    ]
    try:
        with running(command, folder / "etcd.log") as process:
            process.wait_ready(lambda: answers_ok(port, "/health"), READY_SECONDS)
            yield Etcd(url)
    finally:
        # pytest keeps the folder of the last runs for their logs; the write-ahead log is 64 MB.
        shutil.rmtree(data, ignore_errors=True)
