"""The demo cluster: twelve nodes in three zones, forty pods and two that wait, and a question.

The objects stand in `shop_test.policy`, in the words of tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec

from cli.written_objects import Object, objects_of
from grammar.meaning.schema import load_schema
from grammar.syntax.parser import parse_file
from grammar.tree.policy import Test, TestObject
from grammar.tree.source import Source
from grammar.values.time import Timestamp
from policies.disk import Visit
from server.runtime.policies import PolicyReloader
from server.view.page import HOST, ROOT


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


def announcement(url: str, view_port: int | None, reloader: PolicyReloader) -> Iterator[str]:
    """The lines that `--demo` prints: what runs, a link, a call, and the policies.

    `view_port` is the port of the page, if that was chosen.
    """
    snapshot = reloader.view.snapshot()
    nodes, pods = len(snapshot.table.rows), len(snapshot.pods())
    yield f"Placet decides about a demo cluster of {nodes} nodes and {pods} pods. Ctrl-C stops it."
    yield ""
    if view_port:
        yield f"Open it in your browser: http://{HOST}:{view_port}{ROOT}/"
        yield ""
    yield "Ask it, in another terminal, where a web pod may go:"
    yield ""
    # The request of kube-scheduler with nodeCacheCapable, on one line.
    body = msgspec.json.encode({"Pod": POD, "NodeNames": node_names()}).decode()
    yield f"curl -s {url}/api/scheduler/filter -d '{body}'"
    if view_port:
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
