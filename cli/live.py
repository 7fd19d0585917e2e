"""Live clusters: their objects, listed once, for the commands about pods and for `doctor`.

Everything is read by `get` and `list`, a chunk at a time. What the caller may not read is named as
a right that is missing, and nothing is guessed in its place.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec

from cli.command import CommandError
from cli.streams import put_line, waiting_for
from cli.version import version
from cli.world import ForbiddenError, Found
from engine.cache.cluster_copy import ClusterDocuments, DataText
from engine.cache.informers import PODS, POLICIES, Needs, object_lists
from engine.cache.list_watch import CHUNK, ContinueExpiredError, GarbageError, Resource, bodies
from engine.cluster.client import CORE, ApiClient, connect, path_of
from engine.cluster.connection_configuration import Context, chosen_context
from engine.cluster.data_fetching import PrometheusClient
from engine.cluster.data_sources import DataKeeper, SourceParts
from engine.cluster.scales import Scales
from engine.errors import ApiError, ClusterConfigurationError, EngineError
from engine.explanation.cause import event_time
from engine.objects.request_pod import ObjectCodec
from engine.program.tables import TableSpec, texts_of
from grammar.meaning.schema import load_schema
from grammar.tree.policy import FromFile
from grammar.values.time import Timestamp

_CHUNK_SECONDS = 60.0
_OF_SERVER = "its file is in a folder of the server"
# How long all sources of data, and all owners of pods, have for their answers.
_DATA_SECONDS = 10.0
_FORBIDDEN, _ABSENT = 403, 404
# Offline, a command reads files instead.
OFFLINE = "give --cluster SNAPSHOT, which `kubectl get nodes,pods,replicasets -A -o json` writes"
ONLINE = "name a kubeconfig with --kubeconfig or in $KUBECONFIG"
Read = TypeVar("Read")
Json = dict[str, Any]


class MissingRightError(CommandError):
    """A missing right to list something."""

    def __init__(self, right: str, otherwise: str) -> None:
        super().__init__(f"you may not {right}", f"ask for the right to {right}, or {otherwise}")
        self.right = right


class LiveCluster:
    """The cluster of a context, between the begin and the end of `opened`.

    `name` and `namespace` are those of the context; commands without `-n` take this namespace.
    """

    def __init__(
        self, client: ApiClient, context: Context, runner: asyncio.Runner, otherwise: str
    ) -> None:
        self._otherwise = otherwise
        self._client = client
        self._runner = runner
        self.name = context.name or "the service account"
        self.namespace = context.namespace
        self.host = client.host

    def read(self, namespace: str) -> Found:
        """The objects that policies read, and the policy objects of a namespace, or of all.

        Raises CommandError, and ForbiddenError without the right to list all nodes and pods.
        """
        contents, policies = list[tuple[Path, bytes]](), dict[str, bytes]()
        file, lacks = Path(self.name), dict[str, str]()

        def read(kind: str, resource: Resource) -> None:
            try:
                contents.extend((file, each) for each in self._list(resource))
            except MissingRightError as error:
                lacks[kind] = error.right

        lists = dict(object_lists(Needs(namespaces=True, workloads=True, groups=True, quotas=True)))
        for kind in ("Node", "Pod"):
            read(kind, lists.pop(kind))
        may_decide = not lacks
        for resource in POLICIES:
            try:
                policies |= self._policies(resource, namespace)
            except MissingRightError as error:
                lacks[resource.name] = error.right
        if not may_decide:
            raise ForbiddenError(policies, [*lacks.values()])
        # Only policies that read them need these, and not every user may list them.
        for kind, resource in lists.items():
            read(kind.partition(" ")[0], resource)
        return Found(ClusterDocuments([file], contents, Timestamp.now(), policies), lacks)

    def data(self, tables: Iterable[TableSpec]) -> tuple[Mapping[str, DataText], Mapping[str, str]]:
        """The rows of tables, by their digests, and why those of others cannot be read."""
        with waiting_for("the sources of data", _DATA_SECONDS):
            return self._run(self._data({table.digest: table for table in tables}))

    async def _data(
        self, tables: Mapping[str, TableSpec]
    ) -> tuple[Mapping[str, DataText], Mapping[str, str]]:
        def start(_: str, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
            return asyncio.ensure_future(work())

        of_files = {d for d, table in tables.items() if isinstance(table.source, FromFile)}
        changed = asyncio.Event()
        parts = SourceParts(self._client, PrometheusClient(f"placet/{version()}"), None)
        keeper = DataKeeper(parts, start, lambda _: changed.set(), lambda *_: changed.set())
        keeper.adopt({d: table for d, table in tables.items() if d not in of_files}, {})
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_DATA_SECONDS):
                    while any(each.age is None and not each.error for each in keeper.statuses()):
                        await changed.wait()
                        changed.clear()
            states = keeper.statuses()
            found = texts_of(keeper.tables.values(), Timestamp.now().nanos)
        finally:
            await keeper.close()
        late = f"there is no answer within {_DATA_SECONDS:g} s"
        failed = (each for each in states if each.digest not in found)
        files = dict.fromkeys(of_files, _OF_SERVER)
        return found, files | {each.digest: each.error or late for each in failed}

    def completed(self, read: ClusterDocuments, needs: Needs) -> ClusterDocuments:
        """What was read, and what only some policies read. Raises CommandError."""
        if (ended := object_lists(needs).get("ended Pod")) is not None:
            more = [(Path(self.name), each) for each in self._list(ended)]
            read = replace(read, contents=[*read.contents, *more])
        if not needs.workloads:
            return read
        cache = read.cluster(ObjectCodec(load_schema(), needs.annotations)).pods
        failure = f"some owners of pods did not say within {_DATA_SECONDS:g} s how many they want"
        with waiting_for("the owners of pods", _DATA_SECONDS), suppress(TimeoutError):
            taken = Scales(self._client, cache).take()
            failure = self._run(asyncio.wait_for(taken, _DATA_SECONDS))
        if failure:
            put_line(f"note: {failure}", sys.stderr)
        return replace(read, decoded=cache)

    def pods(self, namespace: str) -> list[Json]:
        """The pods of one namespace. Raises CommandError."""
        return self._items(_within(PODS, namespace))

    def events(self, namespace: str, pod: str) -> list[Json] | str:
        """The events about a pod, the newest last, or the right that is missing for that."""
        selector = f"involvedObject.kind=Pod,involvedObject.name={pod}"
        events = Resource("events", path_of(CORE, "events", namespace), selector)
        try:
            items = self._items(events)
        except MissingRightError as error:
            return error.right
        about = [e for e in items if (e.get("involvedObject") or {}).get("name") == pod]
        return sorted(about, key=event_time)

    def scheduler_objects(self) -> SchedulerObjects:
        """What a kube-scheduler depends on. Raises CommandError."""
        maps = Resource("configmaps", path_of(CORE, "configmaps", NAMESPACE))
        found = {"kind": "ConfigMapList", "items": self._items(maps)}
        policies = dict[str, bytes]()
        for resource in POLICIES:
            with suppress(MissingRightError):
                policies |= self._policies(resource, "")
        return SchedulerObjects(self.host, json.dumps(found), policies)

    def _policies(self, resource: Resource, namespace: str) -> dict[str, bytes]:
        """The policy objects by `resource/key`; a list does not repeat their kind in its items.

        Raises MissingRightError.
        """
        try:
            items = self._items(resource)
        except MissingRightError:
            if not namespace or resource is not POLICIES[0]:
                raise
            # Policies of other namespaces do not concern a pod of this one.
            items = self._items(_within(resource, namespace))
        kind = "PlacementPolicy" if resource is POLICIES[0] else "ClusterPlacementPolicy"
        head = {"apiVersion": "/".join(resource.path.split("/")[2:4]), "kind": kind}
        policies = {}
        for item in items:
            key = "/".join(filter(None, map(item["metadata"].get, ("namespace", "name"))))
            policies[f"{resource.name}/{key}"] = msgspec.json.encode({**head, **item})
        return policies

    def _items(self, resource: Resource) -> list[Json]:
        """The objects of a list. Raises MissingRightError."""
        found = [msgspec.json.decode(body)["items"] for body in self._list(resource)]
        return [item for items in found for item in items or ()]

    def _list(self, resource: Resource) -> list[bytes]:
        """All objects as lists, as the API server sends them. Raises MissingRightError."""
        return self._run(self._chunks(resource))

    async def _chunks(self, resource: Resource) -> list[bytes]:
        sent: list[bytes] = []
        try:
            with waiting_for(self.host, _CHUNK_SECONDS) as line:
                async for body in bodies(self._client, resource, CHUNK, _CHUNK_SECONDS):
                    sent.append(body)
                    if len(sent) > 1:
                        line.show(f"{resource.name}: {sum(map(len, sent)) >> 20:,} MiB …")
        except ApiError as error:
            if error.status not in (_FORBIDDEN, _ABSENT):
                raise
            raise MissingRightError(_right(resource), self._otherwise) from None
        return sent

    def _run(self, work: Coroutine[Any, Any, Read]) -> Read:
        same = "check that `kubectl get nodes,pods -A` works with the same kubeconfig"
        hint = f"{same}, or {self._otherwise}"
        try:
            return self._runner.run(work)
        except (EngineError, GarbageError) as error:
            raise CommandError(str(error), hint) from None
        except ContinueExpiredError:
            raise CommandError("the list took too long", "try again") from None


@contextmanager
def opened(
    kubeconfig: Path | None, context: str | None, otherwise: str = OFFLINE
) -> Iterator[LiveCluster]:
    """The cluster of a context of a kubeconfig; `otherwise` is done without one.

    Raises CommandError.
    """
    with asyncio.Runner() as runner:
        try:
            chosen = chosen_context(kubeconfig, context)
            connection = connect(kubeconfig, context, version=version())
            client = runner.run(connection.__aenter__())
        except ClusterConfigurationError as error:
            hint = error.hint if error.hint and "--kubeconfig" not in error.hint else ONLINE
            raise CommandError(str(error), f"{hint}; or {otherwise}") from None
        try:
            yield LiveCluster(client, chosen, runner, otherwise)
        finally:
            runner.run(connection.__aexit__(None, None, None))


def _within(resource: Resource, namespace: str) -> Resource:
    """A resource in one namespace."""
    group, _, name = resource.path.rpartition("/")
    path = path_of(group, name, namespace)
    return Resource(name, path, resource.field_selector, optional=resource.optional)


def _right(resource: Resource) -> str:
    """The right that a request needs, as in `list pods in all namespaces`."""
    _, within, rest = resource.path.partition("/namespaces/")
    if within:
        return f"list {resource.name} in the namespace `{unquote(rest.partition('/')[0])}`"
    if resource.name in ("nodes", "namespaces", "clusterplacementpolicies"):
        return f"list {resource.name}"
    return f"list {resource.name} in all namespaces"


# ---- what `doctor` reads

# The namespace of ConfigMaps that may hold a configuration of kube-scheduler.
NAMESPACE = "kube-system"


@dataclass(frozen=True, slots=True)
class SchedulerObjects:
    """What a kube-scheduler depends on in a cluster, at the URL of the `server`.

    `config_maps` is the JSON of all ConfigMaps of NAMESPACE. `policies` are the policy objects by
    `resource/key`, none without the rights to list them.
    """

    server: str
    config_maps: str
    policies: Mapping[str, bytes]
