"""Sources of data that hang, lie or flood: a server beside them answers in time, and says which.

Each is shown to a server in a process of its own. A call of filter takes turns with the next one
all the while, and the longest counts. The memory of the process is looked at when it is over.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.manifests import node, pod
from tests.e2e.placet import Placet, placet
from tests.e2e.policies import API_VERSION, cluster_policy, define
from tests.e2e.process import until
from tests.e2e.recorder import answering

pytestmark = pytest.mark.e2e

NODES = [f"n{number}" for number in range(1, 101)]
SECONDS = 60.0
# As long as each is shown, and how long a call may take: less than kube-scheduler waits.
SHOWN_SECONDS, DEADLINE_SECONDS = 4.0, 2.0
MEMORY_BYTES = 20 << 20
MANY = 1_000_000
POLICY = """\
cluster policy hostile {{
  for pods where true
  data "power" {{ from prometheus "{url}" query "watts" by "node" every 3s for at most 300s }}
  data "rows" {{ from file "rows.csv" by "node" columns {{ watts: double }} }}
  filter "power" {{ require data.power[node.name].value < 100.0 missing pass }}
  filter "rows" {{ require data.rows[node.name].watts < 100.0 missing pass }}
}}
"""


def vector(*series: tuple[str, str]) -> bytes:
    result = [{"metric": {"node": n}, "value": [time.time(), value]} for n, value in series]
    data = {"resultType": "vector", "result": result}
    return json.dumps({"status": "success", "data": data}).encode()


def series_of_all(value: str = "1") -> bytes:
    return vector(*((name, value) for name in NODES))


def numbered(count: int, label: bytes) -> bytes:
    """An answer of so many series, each with a label of its own beside."""
    item = b'{"metric":{"node":"%d","x":"%s"},"value":[1,"1"]}'
    rows = b",".join(item % (number, label) for number in range(count))
    return b'{"status":"success","data":{"resultType":"vector","result":[%s]}}' % rows


MILLION, LARGEST = numbered(MANY, b""), numbered(20_001, b"x" * 300)


@dataclass
class Source:
    """A server in the place of Prometheus; `mode` says how it answers."""

    mode: str = "good"
    port: int = 0
    # Set when those that hang are to end.
    over: threading.Event = field(default_factory=threading.Event)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        kind, body = "application/json", series_of_all()
        match self.mode:
            case "hangs":
                self.over.wait(SECONDS)
                return
            case "redirects":
                handler.send_response(302)
                handler.send_header("Location", "http://169.254.169.254/latest/meta-data/")
                handler.end_headers()
                return
            case "floods":
                handler.send_response(200)
                handler.send_header("Content-Type", kind)
                handler.end_headers()
                for _ in range(50):
                    handler.wfile.write(b" " * (1 << 20))
                return
            case "a million rows":
                body = MILLION
            case "rows up to the limit":
                body = LARGEST
            case "no numbers":
                body = vector(
                    *((name, "NaN") for name in NODES[:50]), *((n, "1") for n in NODES[50:])
                )
            case "negative":
                body = series_of_all("-1")
            case "one key twice":
                body = vector(("n1", "1"), ("n1", "2"))
            case "bad UTF-8":
                body = series_of_all().replace(b'"n1"', b'"\xff\xfe"')
            case "a web page":
                kind, body = "text/html", b"<html>"
            case "another result":
                body = b'{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}'
            case _:
                pass
        handler.send_response(200)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


@contextmanager
def source() -> Iterator[Source]:
    """A source, as long as the block runs."""
    made = Source()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            # Whoever asked may have had enough.
            with suppress(OSError):
                made.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with answering(Handler) as made.port:
        try:
            yield made
        finally:
            made.over.set()


# What the status says; None of a source that is as it should be.
SAID = {
    "hangs": "there is no whole answer within 3 s",
    "redirects": "redirects, which is not followed",
    "floods": "answers with more than 8 MiB",
    "a million rows": "answers with more than 8 MiB",
    "rows up to the limit": "it has more than 20,000 rows",
    "no numbers": None,
    "negative": None,
    "one key twice": "series 2 has the key `n1` again",
    "bad UTF-8": "line 1 is not UTF-8",
    "a web page": "answers with `text/html`, and not with JSON",
    "another result": "it must be an instant vector",
}
FILES = {
    "too large": (b"x" * (9 << 20), "it has 9,437,184 bytes; the limit is 8,388,608"),
    "too many rows": (
        b"node,watts\n" + b"".join(b"%d,1\n" % number for number in range(MANY // 2)),
        "it has more than 20,000 rows",
    ),
    "no number": (b"node,watts\nn1,NaN\n", "line 2, column `watts`: `NaN` is not a number"),
    "one key twice": (b"node,watts\nn1,1\nn1,2\n", "line 3 has the key `n1` again"),
    "bad UTF-8": (b"node,watts\nn1,\xff\n", "line 2 is not UTF-8"),
    "other columns": (b"node,power\nn1,1\n", "there is no column `watts`, only `power`"),
}


@dataclass
class Server:
    """A server under calls, and the longest of them."""

    placet: Placet
    longest: float = 0.0

    def status(self, table: str) -> str:
        lines = self.placet.get("/readyz?verbose")[1].splitlines()
        return next(line for line in lines if f"data/{table}" in line)

    def memory(self) -> int:
        """The bytes that the process holds."""
        status = Path(f"/proc/{self.placet.process.child.pid}/status").read_text()
        line = next(each for each in status.splitlines() if each.startswith("VmRSS:"))
        return int(line.split()[1]) << 10

    def ask(self, seconds: float) -> None:
        """Calls of filter for so long."""
        end, asked = time.monotonic() + seconds, pod("web", "shop")
        while (began := time.monotonic()) < end:
            assert len(self.placet.filter(asked, NODES)["NodeNames"]) == len(NODES)
            self.longest = max(self.longest, time.monotonic() - began)
            time.sleep(0.01)

    def until_said(self, table: str, text: str) -> None:
        until(lambda: text in self.status(table), SECONDS, lambda: self.status(table))


@contextmanager
def served(folder: Path, url: str, rows: Path) -> Iterator[Server]:
    """A server that knows the nodes, with the folder of its rows."""
    snapshot, policies = folder / "c.json", folder / "p.policy"
    items = [node(name) for name in NODES]
    snapshot.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}))
    policies.write_text(POLICY.format(url=url))
    with placet(folder, policies, f"--cluster={snapshot}", f"--data-folder={rows}") as running:
        running.wait_ready()
        yield Server(running)


def test_a_source_that_lies_delays_nobody(tmp_path: Path) -> None:
    rows, good = tmp_path / "data", b"node,watts\nn1,1\n"
    rows.mkdir()
    file = rows / "rows.csv"
    file.write_bytes(good)
    with (
        source() as prometheus,
        served(tmp_path, f"http://127.0.0.1:{prometheus.port}", rows) as server,
    ):
        server.until_said("power", "ok")
        # The allocator keeps some memory of the first large texts, and not more of others.
        prometheus.mode = "rows up to the limit"
        file.write_bytes(FILES["too many rows"][0])
        server.until_said("power", "it has more than 20,000 rows")
        server.until_said("rows", "it has more than 20,000 rows")
        prometheus.mode = "good"
        file.write_bytes(good)
        server.until_said("power", "ok")
        server.until_said("rows", "ok")
        before, server.longest = server.memory(), 0.0
        for mode, said in SAID.items():
            prometheus.mode = mode
            prometheus.over.clear()
            if said is not None:
                server.until_said("power", said)
                assert "the last 100 rows are read" in server.status("power")
            server.ask(SHOWN_SECONDS)
            prometheus.mode = "good"
            prometheus.over.set()
            server.until_said("power", "ok")
            assert server.memory() - before < MEMORY_BYTES, mode
        for mode, (text, said) in FILES.items():
            file.write_bytes(text)
            server.until_said("rows", said)
            assert "the last row is read" in server.status("rows")
            server.ask(SHOWN_SECONDS)
            file.write_bytes(good)
            server.until_said("rows", "ok")
            assert server.memory() - before < MEMORY_BYTES, mode
        assert server.longest < DEADLINE_SECONDS


def test_a_restart_with_all_sources_down_serves(tmp_path: Path) -> None:
    """By what the policies say for missing."""
    with source() as prometheus:
        prometheus.mode = "hangs"
        rows = tmp_path / "data"
        rows.mkdir()
        (rows / "rows.csv").write_bytes(b"node\n")
        with served(tmp_path, f"http://127.0.0.1:{prometheus.port}", rows) as server:
            server.ask(SHOWN_SECONDS)
            server.until_said("power", "no rows are read")
            server.until_said("rows", "there is no column `watts`; no rows are read")
            assert server.longest < DEADLINE_SECONDS


def conditions(plane: ControlPlane, name: str) -> dict[str, Any]:
    """The condition of the sources of a cluster policy, and the version of the object."""
    path = f"/apis/{API_VERSION}/clusterplacementpolicies/{name}"
    found = Api(plane).request("GET", path)
    known = {each["type"]: each for each in found.get("status", {}).get("conditions", [])}
    version = found["metadata"]["resourceVersion"]
    return {**known.get("DataFailing", {}), "version": version, "types": sorted(known)}


def test_the_status_of_a_policy_says_which_and_why(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """It is written once, and not at each try."""
    define(cluster)
    name = f"hostile-{cluster.namespace}"
    with source() as prometheus:
        url = f"http://127.0.0.1:{prometheus.port}"
        table = f'data "power" {{ from prometheus "{url}" query "w" by "node" every 1s }}'
        rule = 'filter "power" { require data.power[node.name].value < 9.0 missing pass }'
        cluster.apply(cluster_policy(name, f"{table} {rule}"))
        with placet(tmp_path, None, f"--kubeconfig={plane.placet_kubeconfig}") as server:
            server.wait_ready()

            def becomes(status: str, reason: str, text: str) -> None:
                until(
                    lambda: (
                        (found := conditions(plane, name)).get("status") == status
                        and found["reason"] == reason
                        and text in found["message"]
                    ),
                    SECONDS,
                    lambda: f"{conditions(plane, name)} {server.process.tail()}",
                )

            becomes("False", "None", "")
            prometheus.mode = "one key twice"
            becomes("True", "OldRows", "power (prometheus): the last rows are read: series 2 has")
            becomes("True", "NoRows", "power (prometheus): no rows are read: series 2 has")
            # The last condition that comes is what a survey of pods has found.
            until(
                lambda: "Drifted" in conditions(plane, name)["types"],
                SECONDS,
                lambda: f"{conditions(plane, name)}",
            )
            version = conditions(plane, name)["version"]
            time.sleep(SHOWN_SECONDS)
            assert conditions(plane, name)["version"] == version
            prometheus.mode = "redirects"
            becomes("True", "NoRows", "redirects, which is not followed")
            prometheus.mode = "good"
            becomes("False", "None", "")
    cluster.kubectl("delete", "clusterplacementpolicies", name)
