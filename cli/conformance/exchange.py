"""Exchange: what is asked of an extender about each line of the contract, and what came back.

The requests are read from `cases.yaml`, with the bodies that kube-scheduler sends, for a small or a
given cluster. A line that an extender cannot break, because it speaks of kube-scheduler alone, says
so in place of cases.

The client sends what kube-scheduler sends: a POST with JSON, no credentials, and `Accept-Encoding:
gzip`. It follows no redirects. Beside it are clients that misbehave, with bytes that no HTTP client
would send, and one that stays idle.
"""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import aiohttp
import msgspec
import yaml

from cli.command import CommandError
from cli.written_objects import merged, objects_of
from engine.cache.cluster_copy import ClusterDocuments, read_documents
from engine.cache.cluster_file import objects_in
from grammar.meaning.schema import load_schema
from grammar.messages.texts import os_reason
from grammar.syntax.parser import parse_file
from grammar.tree.source import Source

Json = dict[str, Any]
Verb = Literal["filter", "prioritize", "preempt", "bind"]
Severity = Literal["fail", "warn"]
# How calls are made: one, several after each other, one about all nodes and one about each, many at
# once, with one body of text, or as a client does that is slow, goes away or stays idle.
Way = Literal["once", "repeated", "apart", "at-once", "text", "slow", "broken", "idle"]


class Case(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """A case: a question about a verb, and the checks of its answers.

    `expect` names checks of `run.py`. `change` is a JSON merge patch (RFC 7396) of the
    request. `node_bytes` is the least size of each node. `why` is what kube-scheduler does with
    another answer.
    """

    name: str
    ask: Verb
    expect: tuple[str, ...]
    why: str
    otherwise: Severity = "fail"
    way: Way = "once"
    times: int = 3
    nodes: int = 3
    node_bytes: int = 0
    names_only: bool = False
    objects_only: bool = False
    lower_case: bool = False
    change: dict[str, Any] | None = None
    text: str = ""


class Contract(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """A line of the contract, as C19: its cases, or why an extender cannot break it."""

    id: str
    says: str
    cases: tuple[Case, ...] = ()
    not_applicable: str = ""


@lru_cache(maxsize=1)
def _document(name: str) -> Any:
    """A YAML document beside this module. The last one is kept."""
    return yaml.safe_load((files("cli.conformance") / name).read_text("utf-8"))


@cache
def contracts() -> Sequence[Contract]:
    """All lines in their order."""
    return msgspec.convert(_document("cases.yaml"), tuple[Contract, ...])


# ---- a cluster to ask with

# The pod that asks has a priority, and those that run have none: they can be victims.
_OWN = """
test "three nodes in two zones, each with a pod, and one pod that asks for nothing special" {
  node "conformance-0" {"zone": "zone-0", "labels": {"kubernetes.io/os": "linux"}}
  node "conformance-1" {"zone": "zone-1", "labels": {"kubernetes.io/os": "linux"}}
  node "conformance-2" {"zone": "zone-0", "labels": {"kubernetes.io/os": "linux"}}
  pod "running-0" {"labels": {"app": "conformance"}, "requests": {"cpu": "100m"}} on "conformance-0"
  pod "running-1" {"labels": {"app": "conformance"}, "requests": {"cpu": "100m"}} on "conformance-1"
  pod "running-2" {"labels": {"app": "conformance"}, "requests": {"cpu": "100m"}} on "conformance-2"
  pod "pending" {"labels": {"app": "conformance"}, "requests": {"cpu": "100m"}, "priority": 1000}
}
"""
# A case about at most so many nodes takes those that there are.
_SOME = 3


@dataclass(frozen=True, slots=True)
class ConformanceCluster:
    """A cluster to ask with: nodes, the pods that are asked about, and pods that run on the nodes.

    `others` are objects of other kinds, which the stand-in of an API server has too.
    """

    nodes: Sequence[Json]
    pods: Sequence[Json]
    bound: Sequence[Json]
    others: Sequence[Json] = ()

    def first(self, count: int) -> list[Json]:
        """So many nodes: some of those there are, or many, most of which nobody knows.

        Unknown nodes are copies of the first node under new names.
        """
        count = min(count, len(self.nodes)) if count <= _SOME else count
        found = [deepcopy(node) for node in self.nodes[:count]]
        for number in range(len(found), count):
            copy = deepcopy(self.nodes[0])
            copy["metadata"]["name"] = f"conformance-{number}"
            found.append(copy)
        return found


def own_cluster() -> ConformanceCluster:
    """The cluster of the kit itself."""
    (test,) = parse_file(Source("conformance", _OWN))[0].tests
    objects = objects_of(test, load_schema())
    for item in objects:
        item["metadata"]["resourceVersion"] = "1"
    return ConformanceCluster(objects[:3], objects[6:], objects[3:6])


def read_cluster(paths: Sequence[Path]) -> ConformanceCluster:
    """The cluster of files that kubectl writes; what they lack is that of the kit itself.

    The pods to ask about are those without a node. Raises UserError.
    """
    own, read = own_cluster(), read_documents(paths)
    nodes, pods = _objects(read, "Node"), _objects(read, "Pod")
    if not (nodes or pods):
        hint = "add `kubectl get nodes`"
        raise CommandError("the files of `--cluster` have no nodes and no pods", hint)
    pending = [pod for pod in pods if not pod["spec"].get("nodeName")]
    bound = [pod for pod in pods if pod["spec"].get("nodeName")]
    others = [
        {**msgspec.json.decode(body), "kind": head.kind}
        for file, document in read.contents
        for head, body in objects_in(document, file)
        if head.kind not in ("Node", "Pod")
    ]
    running = bound or (() if nodes else own.bound)
    return ConformanceCluster(nodes or own.nodes, pending or own.pods, running, others)


def _objects(read: ClusterDocuments, kind: str) -> list[Json]:
    found: list[Json] = [msgspec.json.decode(body) for body in read.bodies(kind).values()]
    for item in found:
        metadata = item.setdefault("metadata", {})
        metadata.setdefault("uid", f"uid-of-{metadata.get('name')}")
        if kind == "Pod":
            metadata.setdefault("namespace", "default")
    return found


def body(case: Case, cluster: ConformanceCluster, pod: Json, *, names: bool) -> Json:
    """The request of a case about a pod, with names of nodes or with whole nodes."""
    nodes = cluster.first(case.nodes)
    if case.ask == "bind":
        made: Json = {
            "PodName": pod["metadata"]["name"],
            "PodNamespace": pod["metadata"].get("namespace", "default"),
            "PodUID": pod["metadata"]["uid"],
            "Node": nodes[0]["metadata"]["name"],
        }
    elif case.ask == "preempt":
        made = _preemption(cluster, _sent(pod), nodes, names=names)
    elif names:
        listed = [node["metadata"]["name"] for node in nodes]
        made = {"Pod": _sent(pod), "Nodes": None, "NodeNames": listed}
    else:
        items = [_padded(_sent(node), case.node_bytes) for node in nodes]
        made = {"Pod": _sent(pod), "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}
    if case.change:
        made = merged(made, case.change)
    # Callers wrote the keys of the protocol so before Kubernetes 1.9.
    return {key.lower(): value for key, value in made.items()} if case.lower_case else made


def _sent(item: Json) -> Json:
    """An object as kube-scheduler sends it: without `kind` and `apiVersion` (C6)."""
    return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}


def _padded(node: Json, size: int) -> Json:
    """The node with an annotation that makes it so many bytes long."""
    lacking = size - len(msgspec.json.encode(node))
    if lacking <= 0:
        return node
    metadata: Json = node["metadata"]
    annotations = {**metadata.get("annotations", {}), "example.com/notes": "x" * lacking}
    return node | {"metadata": metadata | {"annotations": annotations}}


def _preemption(
    cluster: ConformanceCluster, pod: Json, nodes: Sequence[Json], *, names: bool
) -> Json:
    """A request of preempt: each node with the pods on it, or else one of ours, as victims."""
    victims: dict[str, Json] = {}
    for node in nodes:
        name = node["metadata"]["name"]
        found = [each for each in cluster.bound if each["spec"]["nodeName"] == name]
        if not found:
            other = merged(own_cluster().bound[0], {"spec": {"nodeName": name}})
            own = {"name": f"running-on-{name}", "uid": f"uid-of-running-on-{name}"}
            found = [merged(other, {"metadata": own})]
        pods = [{"UID": each["metadata"]["uid"]} if names else _sent(each) for each in found]
        # A PodDisruptionBudget protects one on the first node.
        victims[name] = {"Pods": pods, "NumPDBViolations": int(not victims)}
    both: Json = {"NodeNameToVictims": None, "NodeNameToMetaVictims": None}
    both["NodeNameToMetaVictims" if names else "NodeNameToVictims"] = victims
    return {"Pod": pod, **both}


HEADERS = {
    "Content-Type": "application/json",
    "User-Agent": "Go-http-client/1.1",
    "Accept-Encoding": "gzip",
}


@dataclass(frozen=True, slots=True)
class Exchange:
    """An exchange: a request and its answer; `error` says why there is no answer.

    `value` is the answer as JSON, and `malformed` says why Go does not decode it.
    """

    verb: str
    request: Any
    status: int = 0
    text: bytes = b""
    error: str = ""
    value: Any = None
    malformed: str = ""


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls the verbs of one extender."""

    session: aiohttp.ClientSession
    url: str
    paths: Mapping[Verb, str]
    timeout: float
    tls: ssl.SSLContext | None

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or (80 if self.tls is None else 443)

    def address(self, verb: Verb) -> str:
        """The URL of a verb."""
        return f"{self.url}/{self.paths[verb]}"

    async def ask(self, verb: Verb, request: Any) -> Exchange:
        """Sends a request; bytes are sent as they are."""
        data = request if isinstance(request, bytes) else msgspec.json.encode(request)
        try:
            async with (
                asyncio.timeout(self.timeout),
                self.session.post(
                    self.address(verb),
                    data=io.BytesIO(data),
                    headers=HEADERS,
                    allow_redirects=False,
                    ssl=self.tls if self.tls is not None else True,
                ) as response,
            ):
                text = await response.read()
                status = response.status
        except TimeoutError:
            return Exchange(verb, request, error=f"no answer within {self.timeout:g} s")
        except (aiohttp.ClientError, OSError) as problem:
            return Exchange(verb, request, error=_why(problem))
        value, malformed = decoded(verb, text)
        return Exchange(verb, request, status, text, value=value, malformed=malformed)


def _why(problem: Exception) -> str:
    if isinstance(problem, aiohttp.ClientConnectorError):
        return f"no connection: {os_reason(problem.os_error)}"
    if isinstance(problem, OSError) and problem.strerror:
        return os_reason(problem)
    return str(problem) or type(problem).__name__


# Types of JSON, as `answers.yaml` names them.
_KINDS: Mapping[type, str] = {
    list: "an array",
    dict: "an object",
    str: "a text",
    int: "an integer",
    float: "a number that is no integer",
    bool: "a boolean",
}
_QUANTITIES = (_KINDS[str], _KINDS[int], _KINDS[float])


def decoded(verb: str, text: bytes) -> tuple[Any, str]:
    """The value of an answer, or why encoding/json refuses it for the type of its verb (C4)."""
    if not text.strip():
        return None, "the answer is empty"
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as problem:
        return None, f"the answer is not one JSON value: {problem}"
    return value, _refused(value, _document("answers.yaml")[verb], "")


def _refused(value: Any, wanted: Any, path: str) -> str:
    """The first part that is of another type, as `Error`; null stands for any type in Go."""
    if value is None:
        return ""
    what, found = f"`{path}`" if path else "the answer", _KINDS[type(value)]
    kind = wanted if isinstance(wanted, str) else _KINDS[type(wanted)]
    if found != kind and not (kind == "a quantity" and found in _QUANTITIES):
        return f"{what} is {found} in place of {kind}"
    if kind == "an integer" and not -(2**63) <= value < 2**63:
        return f"{what} is an integer of more than 64 bits"
    parts: Iterable[tuple[str, Any, Any]] = ()
    if isinstance(wanted, list):
        parts = ((f"{path}[{at}]", each, wanted[0]) for at, each in enumerate(value))
    elif isinstance(wanted, dict):
        fields = {str(name).lower(): of for name, of in wanted.items()}
        parts = (
            (f"{path}.{key}".strip("."), each, of)
            for key, each in value.items()
            if (of := fields.get(key.lower(), wanted.get("..."))) is not None
        )
    return next(filter(None, (_refused(each, of, name) for name, each, of in parts)), "")


# ---- clients that misbehave, beside which good calls must be answered; and one that stays idle

_CLIENTS = 20
_PLAIN = {name: value for name, value in HEADERS.items() if name != "Accept-Encoding"}


@asynccontextmanager
async def slow_clients(caller: Caller, verb: Verb, request: Any) -> AsyncIterator[None]:
    """Clients that have sent half a body, and send no more while the block runs."""
    message = _message(caller, verb, request)
    writers = [await _opened(caller) for _ in range(_CLIENTS)]
    try:
        for writer in writers:
            writer.write(message[: len(message) // 2 + 1])
            await writer.drain()
        yield
    finally:
        for writer in writers:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


async def broken_clients(caller: Caller, verb: Verb, request: Any) -> None:
    """Clients that go away in the middle of a body, and clients that read no answer."""
    message = _message(caller, verb, request)
    for number in range(_CLIENTS):
        writer = await _opened(caller)
        writer.write(message if number % 2 else message[:-20])
        with suppress(ConnectionError):
            await writer.drain()
        writer.transport.abort()


async def idle_client(caller: Caller, verb: Verb, request: Any, seconds: float) -> Exchange:
    """Calls twice on one connection, which is idle for so long between the calls."""
    opened, trace = list[object](), aiohttp.TraceConfig()

    async def note(*_: object) -> None:
        opened.append(None)

    trace.on_connection_create_end.append(note)
    connector = aiohttp.TCPConnector(keepalive_timeout=seconds + caller.timeout)
    async with aiohttp.ClientSession(connector=connector, trace_configs=[trace]) as session:
        alone = replace(caller, session=session)
        await alone.ask(verb, request)
        await asyncio.sleep(seconds)
        found = await alone.ask(verb, request)
    closed = f"the connection was closed within {seconds:g} s"
    return found if len(opened) < 2 else Exchange(verb, request, error=closed)


async def _opened(caller: Caller) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection(caller.host, caller.port, ssl=caller.tls)
    return writer


def _message(caller: Caller, verb: Verb, request: Any) -> bytes:
    data = msgspec.json.encode(request)
    path = urlsplit(caller.address(verb)).path
    lines = [f"POST {path} HTTP/1.1", f"Host: {caller.host}:{caller.port}"]
    lines += [f"{name}: {value}" for name, value in _PLAIN.items()]
    lines.append(f"Content-Length: {len(data)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data
