"""The demo cluster: twelve nodes in three zones, forty pods and two that wait, and a question.

The objects stand in `shop_test.policy`, in the words of tests. The start of the demo is
here too: free ports where its own are taken, and a log that waits for the introduction.
"""

from __future__ import annotations

import argparse
import errno
import logging
import secrets
import socket
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec

from cli.written_objects import Object, objects_of
from engine.decision import scoring
from engine.engine import Engine
from engine.explanation.inspection import Inspection
from engine.work import finished
from grammar.meaning.schema import load_schema
from grammar.syntax.parser import parse_file
from grammar.tree.policy import Test, TestObject
from grammar.tree.source import Source
from grammar.values.time import Timestamp
from policies.disk import Visit
from server.runtime.policies import PolicyReloader
from server.settings import DEFAULT_LISTEN
from server.view.page import DEFAULT_PORT, HOST, ROOT


@cache
def _written() -> Test:
    text = files("cli.demo").joinpath("shop_test.policy").read_text("utf-8")
    (test,) = parse_file(Source("demo", text))[0].tests
    return test


def node_names() -> list[str]:
    items = (item for item in _written().items if isinstance(item, TestObject))
    return [item.name for item in items if item.kind == "node"]


def demo_cluster(now: Timestamp) -> Object:
    """The whole cluster as one `kind: List`; ages are relative to `now`."""
    return {"apiVersion": "v1", "kind": "List", "items": objects_of(_written(), load_schema(), now)}


class Demo:
    """The demo cluster as an origin of snapshots; its ages are of the server's start."""

    def __init__(self) -> None:
        self._document = msgspec.json.encode(demo_cluster(Timestamp.now()))

    def files(self, _visit: Visit) -> Iterable[Path]:
        return ()

    def contents(self) -> Iterable[tuple[Path, bytes]]:
        return [(Path("demo"), self._document)]


POD: Object = {
    "metadata": {
        "name": "web-7d9c6b-6new",
        "namespace": "shop",
        "uid": "3f0c8a52-6a0e-4b55-9d0e-0c6f0d1e7a11",
        "labels": {"app": "web", "tier": "web"},
    },
    "spec": {
        "containers": [{"name": "web", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}]
    },
}


def answer(engine: Engine) -> Iterator[str]:
    """The answer of the engine at this moment, in lines; nothing is offered or recorded."""
    nodes = node_names()
    inspection = Inspection(engine, msgspec.json.encode(POD), nodes)
    objections = finished(inspection.objections())
    passing: list[str] = []
    failed: dict[str, list[str]] = {}
    for index, name in enumerate(nodes):
        reasons = [o.message for o in objections if o.refused[index]]
        (failed.setdefault(reasons[0], []) if reasons else passing).append(name)
    yield f"NodeNames, where the pod may go: {', '.join(passing) or 'none'}"
    for reason, names in failed.items():
        yield f"FailedAndUnresolvableNodes: {', '.join(names)}: {reason}"
    given = finished(inspection.contributions(passing)) if passing else ()
    if given:
        scores = scoring.scores([(each.weight, each.points) for each in given]).tolist()
        ranked = sorted(zip(passing, scores, strict=True), key=lambda found: -found[1])
        best = ", ".join(f"{name} {score}" for name, score in ranked)
        yield f"asked to prioritize instead of filter, it scores them: {best}"


def announcement(
    url: str, view_port: int | None, reloader: PolicyReloader, moved: Sequence[str] = ()
) -> Iterator[str]:
    """The lines that `--demo` prints: what runs, a link, a call with its answer, and the policies.

    `view_port` is the port of the page, if there is one; `moved` says which ports were taken.
    """
    snapshot = reloader.view.snapshot()
    nodes, pods = len(snapshot.table.rows), len(snapshot.pods())
    yield f"Placet decides about a demo cluster of {nodes} nodes and {pods} pods. Ctrl-C stops it."
    yield from moved
    yield ""
    if view_port is not None:
        yield f"Open it in your browser: http://{HOST}:{view_port}{ROOT}/"
        yield ""
    yield "Ask it, in another terminal, where a web pod may go:"
    yield ""
    # The request of kube-scheduler with nodeCacheCapable, on one line.
    body = msgspec.json.encode({"Pod": POD, "NodeNames": node_names()}).decode()
    yield f"curl -s {url}/api/scheduler/filter -d '{body}'"
    yield ""
    yield "It would answer now:"
    yield from (f"  {line}" for line in answer(reloader.engine))
    if view_port is not None:
        yield "The decision then appears in the browser, with its reasons."
    yield ""
    in_force = reloader.enforced.in_force.active
    applied = [active for active in in_force if not active.checked.policy.only_used]
    used = len(in_force) - len(applied)
    more = f"; {used} more only provide clauses that a policy can `use`" if used else ""
    yield f"{len(applied)} of its {len(in_force)} policies apply to pods{more}."
    yield "Edit one of these files, and the edit is enforced half a second later:"
    for active in applied:
        policy = active.checked.policy
        kind = "cluster policy" if policy.cluster else "policy"
        description = policy.setting("description", "no description")
        yield f"  {kind} {policy.address}: {description}"
        yield f"    {active.file}"


# ---- the start

# Outgoing connections get the ports above: on Linux from 32768 on, elsewhere from 49152 on.
_BELOW_EPHEMERAL = range(20_000, 32_768)


class QuietStart(logging.Filter):
    """A quiet log until the introduction to the demo, which says the same.

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
