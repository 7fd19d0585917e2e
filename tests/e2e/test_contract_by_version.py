"""Contract by version: what kube-scheduler asks of an extender, and makes of its answers.

An extender that does as the test says stands where Placet does, so that answers may be such as
Placet never gives. What is observed must be what tests/contract/versions.json has for this minor
version; `make contract` writes it there, and into the table of docs/extender.md.
"""

import json
import os
import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.contract import versions
from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.manifests import node, pod, priority_class
from tests.e2e.process import MINOR, Process, until
from tests.e2e.recorder import answering
from tests.e2e.test_scheduler_config import read_by_kube_scheduler

pytestmark = pytest.mark.e2e

Answer = Callable[[dict[str, Any]], Any]

# kube-scheduler takes a pod again after a second of backoff; what it does not do by then, it does
# five minutes later.
AGAIN_SECONDS = 3.0
LOOP_SECONDS = 5.0
MANY_CALLS = 8
LOOP_NODES = 20
# What of kube-scheduler's features extenders notice.
GATES = (
    "OpportunisticBatching",
    "NominatedNodeNameForExpectation",
    "SchedulerAsyncPreemption",
    "SchedulerPopFromBackoffQ",
    "SchedulerAsyncAPICalls",
    "GenericWorkload",
    "GangScheduling",
)


class Extender:
    """What it was asked by verb and pod, and what it answers where a test says so."""

    def __init__(self, api: Api, namespace: str) -> None:
        """Accept everything and prefer nothing."""
        self.asked: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        self.answers: dict[tuple[str, str], Answer] = {}
        self._api = api
        self._pods = f"/api/v1/namespaces/{namespace}/pods"

    def answer(self, verb: str, request: dict[str, Any]) -> Any:
        """Remember a request and answer it."""
        pod = request["PodName"] if verb == "bind" else request["Pod"]["metadata"]["name"]
        self.asked[verb, pod].append(request)
        usual: Answer = getattr(self, f"_{verb}")
        return self.answers.get((verb, pod), usual)(request)

    def _filter(self, request: dict[str, Any]) -> Any:
        return {"Nodes": request["Nodes"], "NodeNames": request["NodeNames"]}

    def _prioritize(self, request: dict[str, Any]) -> Any:
        # Of hosts that no answer lists, kube-scheduler takes the first (C51).
        items = (request["Nodes"] or {}).get("items", ())
        names = request["NodeNames"] or [each["metadata"]["name"] for each in items]
        return [{"Host": name, "Score": 0} for name in names]

    def _preempt(self, request: dict[str, Any]) -> Any:
        return {"NodeNameToMetaVictims": request["NodeNameToMetaVictims"]}

    def _bind(self, request: dict[str, Any]) -> Any:
        target = {"kind": "Node", "name": request["Node"]}
        metadata = {"name": request["PodName"], "uid": request["PodUID"]}
        path = f"{self._pods}/{request['PodName']}/binding"
        self._api.request("POST", path, {"metadata": metadata, "target": target})
        return {"Error": ""}


class Bench:
    """One kube-scheduler with the extender, and the cluster that both know."""

    def __init__(self, cluster: Cluster, extender: Extender, process: Process) -> None:
        self.cluster = cluster
        self.extender = extender
        self.process = process

    def create(self, name: str, **spec: Any) -> None:
        self.cluster.create_pods([pod(name, self.cluster.namespace, **spec)])

    def placed(self, *names: str) -> set[str]:
        """The nodes of pods that get one."""
        return set(self.cluster.wait_placed(names, 30.0).values())

    def calls(self, verb: str, name: str) -> list[dict[str, Any]]:
        return self.extender.asked[verb, name]

    def again(self, name: str, event: Callable[[], object]) -> str:
        """Whether a rejected pod is asked about again after an event."""
        time.sleep(AGAIN_SECONDS)
        before = len(self.calls("filter", name))
        event()
        time.sleep(AGAIN_SECONDS)
        return "retried" if len(self.calls("filter", name)) > before else "not retried"


@contextmanager
def bench(plane: ControlPlane, cluster: Cluster, folder: Path, **entry: Any) -> Iterator[Bench]:
    """Run kube-scheduler with the extender in an entry like this."""
    folder.mkdir()
    ours = Extender(Api(plane), cluster.namespace)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = json.dumps(ours.answer(self.path.rsplit("/", 1)[-1], json.loads(body)))
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ExitStack() as programs:
        port = programs.enter_context(answering(Handler))
        binds = entry.pop("binds", False)
        made = extender(f"http://127.0.0.1:{port}", node_cache_capable=True, binds=binds)
        scheduler = kube_scheduler(plane, folder, [{**made, "weight": 10, **entry}], 100)
        yield Bench(cluster, ours, programs.enter_context(scheduler))


def rejection(part: str) -> Answer:
    """Reject every node in one of the maps."""
    return lambda request: {"NodeNames": [], part: dict.fromkeys(request["NodeNames"], "no")}


def keys(request: dict[str, Any]) -> str:
    """The keys of a request, and which of them are null."""
    return ", ".join(f"`{key}`{' null' if request[key] is None else ''}" for key in sorted(request))


def observe_program(programs: Path, folder: Path) -> Iterator[tuple[str, str]]:
    """Which versions of its configuration kube-scheduler reads, and what it has switched on."""
    kind = "KubeSchedulerConfiguration"
    read = [
        version
        for version in ("v1beta1", "v1beta2", "v1beta3", "v1")
        if isinstance(
            read_by_kube_scheduler(
                programs,
                folder,
                json.dumps({"apiVersion": f"kubescheduler.config.k8s.io/{version}", "kind": kind}),
            ),
            dict,
        )
    ]
    yield "versions of the configuration", ", ".join(f"`{version}`" for version in read)
    command = [str(programs / "kube-scheduler"), "--help"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for gate in GATES:
        found = re.search(rf"kube:{gate}=true\|false \((\w+) - default=(\w+)\)", told)
        stage, on = found.groups() if found else ("", "")
        yield (
            f"feature `{gate}`",
            f"{stage.lower()}, {'on' if on == 'true' else 'off'}" if on else "",
        )


def observe_placement(here: Bench) -> Iterator[tuple[str, str]]:
    """Requests, scores and what follows a rejection, on two nodes."""
    here.create("first")
    here.placed("first")
    yield "filter has", keys(here.calls("filter", "first")[0])
    yield "prioritize has", keys(here.calls("prioritize", "first")[0])

    here.extender.answers["filter", "alone"] = lambda _: {"NodeNames": ["n1"]}
    here.create("alone")
    here.placed("alone")
    yield (
        "C29 prioritize for one node",
        "called" if here.calls("prioritize", "alone") else "not called",
    )

    def scores(value: str) -> Answer:
        return lambda _: json.loads(f'[{{"Host": "n1", "Score": {value}}}]')

    for value, fact in (("5", "integers"), ("5.0", "a score `5.0`")):
        names = [f"scored-{value}-{number}" for number in range(4)]
        for name in names:
            here.extender.answers["prioritize", name] = scores(value)
            here.create(name, cpu="1")
            here.placed(name)
        where = here.placed(*names)
        yield f"C26 {fact}", "counts" if where == {"n1"} else "discards all scores"

    here.extender.answers["filter", "partial"] = lambda _: {"NodeNames": None}
    here.create("partial")
    condition = here.cluster.wait_refused("partial")
    yield "C21 an answer without nodes", f"`{condition['reason']}`"

    here.extender.answers["filter", "failing"] = lambda _: {"Error": "broken"}
    here.create("failing")
    yield "C30 an `Error`", f"`{here.cluster.wait_refused('failing')['reason']}`"


def observe_retries(here: Bench) -> Iterator[tuple[str, str]]:
    """What has a rejected pod asked about again."""
    cluster, where = here.cluster, here.cluster.namespace
    here.extender.answers["filter", "rejected"] = rejection("FailedAndUnresolvableNodes")
    here.create("rejected")
    cluster.wait_refused("rejected")

    def annotate(kind: str, name: str) -> None:
        cluster.kubectl("annotate", "--overwrite", kind, name, f"a={time.monotonic()}", "-n", where)

    events: dict[str, Callable[[], object]] = {
        "nothing": lambda: None,
        "an annotation of the pod": lambda: annotate("pod", "rejected"),
        "a label of a node": lambda: cluster.label_node("n1", {"a": str(time.monotonic_ns())}),
        "an annotation of a node": lambda: annotate("node", "n1"),
        "another pod is bound": lambda: here.create("bound", nodeName="n1"),
        "another pod is deleted": lambda: cluster.delete_pod("bound"),
    }
    for event, happens in events.items():
        yield f"C32 a rejected pod after: {event}", here.again("rejected", happens)
    cluster.delete_pod("rejected")


def observe_loops(here: Bench) -> Iterator[tuple[str, str]]:
    """A pod of high priority that is rejected on nodes with a pod of low priority each."""
    for number in range(LOOP_NODES):
        here.cluster.create_nodes([node(f"l{number}")])
        here.create(f"low-{number}", nodeName=f"l{number}")
    for part in ("FailedAndUnresolvableNodes", "FailedNodes"):
        name = part.lower()
        here.extender.answers["filter", name] = rejection(part)
        here.create(name, priorityClassName="contract-high")
        here.cluster.wait_refused(name)
        time.sleep(LOOP_SECONDS)
        calls = len(here.calls("filter", name))
        here.cluster.delete_pod(name)
        yield f"C48 rejected in `{part}`", "many calls" if calls > MANY_CALLS else "a few calls"
    asked = here.calls("preempt", "failednodes")
    yield (
        "C40 preempt for nodes where only an extender rejects",
        "called" if asked else "not called",
    )
    for number in range(LOOP_NODES):
        here.cluster.delete_node(f"l{number}")
    here.cluster.delete_pods()


def observe_preemption(here: Bench) -> Iterator[tuple[str, str]]:
    """Preempt on two nodes, each full of a pod of low priority."""
    cluster, request = here.cluster, {"cpu": "2", "priorityClassName": "contract-high"}

    def fill() -> None:
        cluster.delete_pods()
        for name in ("n3", "n4"):
            here.create(f"low-{name}", cpu="2", nodeName=name)

    def preempt(name: str, answer: Answer) -> None:
        here.extender.answers["preempt", name] = answer
        fill()
        here.create(name, **request)
        until(lambda: bool(here.calls("preempt", name)), 30.0, lambda: f"preempt about {name}")

    preempt("empty", lambda _: {"NodeNameToMetaVictims": {"n3": {"Pods": []}}})
    yield "preempt has", keys(here.calls("preempt", "empty")[0])
    condition = cluster.wait_refused("empty")
    yield "C40 a node without victims in the answer", f"`{condition['reason']}`"

    def other_goes(request: dict[str, Any]) -> Any:
        cluster.delete_pod("low-n4")
        return {"NodeNameToMetaVictims": {"n3": request["NodeNameToMetaVictims"]["n3"]}}

    preempt("nominated", other_goes)
    here.placed("nominated")
    nodes = here.calls("filter", "nominated")[-1]["NodeNames"]
    yield "C13 filter about a nominated pod has", f"{len(nodes)} of 2 nodes"

    preempt("null", lambda _: {"NodeNameToMetaVictims": {"n3": None}})
    time.sleep(AGAIN_SECONDS)
    ended = here.process.child.poll() is not None
    yield "C39 `null` among nodes of preempt", "kube-scheduler ends" if ended else "goes on"


def observe_bindings(here: Bench, *, ignorable: bool) -> Iterator[tuple[str, str]]:
    """A bind call, and one that fails once."""
    here.create("bound-by-us")
    here.placed("bound-by-us")
    kind = "ignorable: " if ignorable else ""
    if not ignorable:
        yield "bind has", keys(here.calls("bind", "bound-by-us")[0])

    def fail_once(request: dict[str, Any]) -> Any:
        del here.extender.answers["bind", "fails"]
        return {"Error": "broken"}

    here.extender.answers["bind", "fails"] = fail_once
    here.create("fails")
    here.placed("fails")
    times = len(here.calls("bind", "fails"))
    yield (
        f"C46 {kind}after an error of bind",
        ("bind is called again" if times > 1 else "kube-scheduler binds"),
    )
    if not ignorable:
        nodes = [len(each["NodeNames"]) for each in here.calls("filter", "fails")]
        yield "C13 filter after an error of bind", f"{nodes[-1]} of {nodes[0]} nodes"


def observe_whole_nodes(here: Bench) -> Iterator[tuple[str, str]]:
    """An ignorable extender that gets whole nodes, of which one is nearly full."""
    yield from observe_bindings(here, ignorable=True)
    first = here.calls("filter", "fails")[0]
    yield "filter with whole nodes has", keys(first)
    yield "C6 keys of their list", ", ".join(f"`{key}`" for key in sorted(first["Nodes"]))
    here.extender.answers["filter", "skipped"] = lambda _: {"Error": "broken"}
    here.create("skipped")
    here.placed("skipped")
    yield "C31 ignorable: an error of filter", "skipped"

    here.create("load", cpu="7", nodeName="n1")
    time.sleep(0.5)
    names = [f"light-{number}" for number in range(8)]
    for name in names:
        here.create(name)
    where = here.placed(*names)
    yield (
        "pods of nodes in built-in scores, with whole nodes",
        ("count" if where == {"n2"} else "do not count"),
    )


def test_what_kube_scheduler_does(plane: ControlPlane, cluster: Cluster, tmp_path: Path) -> None:
    cluster.apply(priority_class("contract-high", 1000))
    found = dict(observe_program(plane.programs, tmp_path))
    cluster.create_nodes(node(f"n{number}") for number in (1, 2))
    whole = {"nodeCacheCapable": False, "ignorable": True, "binds": True}
    with bench(plane, cluster, tmp_path / "whole", **whole) as here:
        found |= observe_whole_nodes(here)
    cluster.delete_pods()
    with bench(plane, cluster, tmp_path / "binds", binds=True) as here:
        found |= observe_bindings(here, ignorable=False)
    cluster.delete_pods()
    with bench(plane, cluster, tmp_path / "names") as here:
        found |= observe_placement(here)
        found |= observe_retries(here)
        for name in ("n1", "n2"):
            cluster.delete_node(name)
        found |= observe_loops(here)
        cluster.create_nodes(node(name, cpu="2") for name in ("n3", "n4"))
        found |= observe_preemption(here)
    if os.environ.get("CONTRACT") == "write":
        versions.write(f"1.{MINOR}", found)
    assert found == versions.read()[f"1.{MINOR}"]
