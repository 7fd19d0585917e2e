"""ClusterCopy: a cluster that stands still: of files, listed from a running one, or sent in parts.

It changes only for the time of a `with copy.asking`. Commands, drafts, tests of policies and the
REPL ask an offline engine about one; a server without an API server decides by one, which it
replaces as a whole. A CacheCopy is the cluster of a running server at one moment, for a question
that changes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Literal

import msgspec

from engine.cache.cache import Cache, NodeStore
from engine.cache.cluster_file import (
    ClusterFileError,
    bodies,
    documents,
    files_of,
    read_cluster,
    workload_uids,
)
from engine.cache.informers import Needs
from engine.cache.node_table import NodeWithPods, RowUse, Snapshot
from engine.cache.tallies import Scope
from engine.objects.api_types import mapping
from engine.objects.peer import (
    TEMPLATE_HASH,
    Peer,
    PeerDecoder,
    Workload,
    decode_controller,
    key_of,
)
from engine.objects.request_pod import ObjectCodec
from engine.objects.workload_pods import (
    ANY_CLUSTER,
    ClusterDefaults,
    Json,
    WorkloadError,
    default_pod,
    defaults_in,
    pods_of,
)
from engine.work import Work, finished
from grammar.meaning.environment import ClusterFacts
from grammar.messages.catalogue import listed
from grammar.messages.diagnostics import nearest
from grammar.messages.texts import counted, named
from grammar.values.time import Timestamp
from policies.resource import KINDS as POLICY_KINDS

# The most names that a message lists.
_SHOWN = 5
# The pods of a portion of a copy, which takes a millisecond or two.
_PER_PORTION = 500


def read_documents(paths: Sequence[Path]) -> ClusterDocuments:
    """The JSON documents of snapshot files. Raises ClusterFileError."""
    files = files_of(paths)
    return ClusterDocuments(files, [(file, d) for file in files for d in documents(file)])


# The forms of a text with rows.
Form = Literal["csv", "yaml"]


@dataclass(frozen=True, slots=True)
class DataText:
    """Data as text: the rows of a table in the text of a file."""

    file: str
    text: bytes
    form: Form


NO_DATA: Mapping[str, DataText] = {}


@dataclass(frozen=True, slots=True)
class ClusterDocuments:
    """The JSON documents of a snapshot, each with its file.

    `read_at` is the time of a running cluster. The time of files is the newest timestamp in them.
    `objects` are the policy objects of a running cluster. The policy objects of files are in the
    documents. `data` are tables beside the cluster, by their names or their digests. `decoded` is
    what the documents say, with the owners of pods that are in none, if somebody has read it.
    """

    files: Sequence[Path]
    contents: Sequence[tuple[Path, bytes]]
    read_at: Timestamp | None = None
    objects: Mapping[str, bytes] | None = None
    data: Mapping[str, DataText] = field(default_factory=dict)
    decoded: Cache | None = None

    @property
    def defaults(self) -> ClusterDefaults:
        """What the cluster gives to new pods."""
        now = self.read_at.to_second() if self.read_at is not None else ""
        return defaults_in((document for _, document in self.contents), ClusterDefaults(now=now))

    def policies(self) -> Mapping[str, bytes]:
        """The JSON of the policy objects, by `resource/key`. Raises ClusterFileError."""
        if self.objects is not None:
            return self.objects
        return {
            f"{kind.lower()[:-1]}ies/{key.removeprefix('/')}": bytes(body)
            for kind in POLICY_KINDS
            for key, body in self.bodies(kind).items()
        }

    def bodies(self, kind: str) -> Mapping[str, bytes | msgspec.Raw]:
        """The JSON of every object of a kind, by `namespace/name`. Raises ClusterFileError."""
        found: dict[str, bytes | msgspec.Raw] = {}
        for file, document in self.contents:
            found |= bodies([document], kind, file)
        return found

    def cluster(self, codec: ObjectCodec) -> ClusterCopy:
        """The cluster in the documents. Raises ClusterFileError, also where they have no nodes."""
        if self.decoded is None:
            cache = read_cluster(codec, self.files, self.contents).cache
        else:
            # Whoever asks may change it.
            cache = finished(copied(self.decoded))
        # Of a running cluster they are not read.
        cache.trust_budgets(known=self.read_at is None)
        documents = [document for _, document in self.contents]
        return ClusterCopy(cache, documents, self.files, self.read_at, self.data)


@dataclass(frozen=True, slots=True)
class NamedPod:
    """A pod to decide about: its JSON as kube-scheduler would send it, without a node.

    `node` is its node in the snapshot; empty for a pending pod and for one outside the snapshot.
    `owners` are the JSON of the workloads of a pod that does not exist yet, and `bound` the node
    that its manifest names.
    """

    namespace: str
    name: str
    body: bytes
    node: str = ""
    owners: Sequence[Json] = ()
    bound: str = ""

    @classmethod
    def of(cls, body: bytes | msgspec.Raw) -> NamedPod:
        """The pod of a JSON object, as it was before it had a node. Raises ClusterFileError."""
        try:
            pod = msgspec.json.decode(body)
        except msgspec.ValidationError:
            raise ClusterFileError("a pod has a number beyond 64 bits") from None
        metadata, node = mapping(pod, "metadata"), mapping(pod, "spec").pop("nodeName", None)
        own = msgspec.json.encode(pod)
        named = metadata.get("namespace") or "", metadata.get("name") or ""
        return cls(*named, own, node or "")

    @classmethod
    def created(
        cls,
        pod: Json,
        owners: Sequence[Json] = (),
        defaults: ClusterDefaults = ANY_CLUSTER,
    ) -> NamedPod:
        """A pod as it will be created, whose metadata has a name and a namespace."""
        metadata = pod["metadata"]
        default_pod(pod, defaults)
        spec = mapping(pod, "spec")
        bound = str(spec.get("nodeName") or "")
        whole = {**pod, "spec": {k: v for k, v in spec.items() if k != "nodeName"}}
        body = msgspec.json.encode(whole)
        return cls(metadata["namespace"], metadata["name"], body, "", owners, bound)

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(eq=False)
class ClusterCopy:
    """A cluster at one time, which an engine can decide by.

    `now` is the newest timestamp in it, so that ages do not depend on the time of the command, or
    the time when it was read from a running cluster. `documents` are the JSON of the `files`;
    without them the copy does not give the JSON of its objects. `data` are tables beside it.
    """

    _cache: Cache
    _documents: Sequence[bytes] = ()
    _files: Sequence[Path] = ()
    read_at: Timestamp | None = None
    data: Mapping[str, DataText] = field(default_factory=dict)

    @property
    def _where(self) -> str:
        return ", ".join(f"`{file}`" for file in self._files)

    @cached_property
    def now(self) -> Timestamp:
        return self.read_at or self.snapshot().newest() or Timestamp.now()

    def snapshot(self) -> Snapshot:
        return self._cache.snapshot()

    @property
    def pods(self) -> Cache:
        return self._cache

    def facts(self) -> ClusterFacts:
        """What the rules ask of a cluster."""
        nodes = self._cache.nodes.labels()
        labels = Counter(key for labels in nodes.values() for key in labels)
        return ClusterFacts(labels, len(nodes))

    def notes(self, needs: Needs) -> Iterator[str]:
        """What a reader should know: clocks that are ahead, and what policies read and it lacks."""
        if self.read_at is None and (ahead := self.snapshot().clocks_ahead()):
            them = f"the clock of node `{ahead[0]}`"
            if len(ahead) > 1:
                them = f"{them} and {counted(len(ahead) - 1, 'other')}"
            yield f"{them} is ahead of all others: the time of the snapshot is without it"
        yield from self._lacks(needs)

    def _lacks(self, needs: Needs) -> Iterator[str]:
        """A note about what policies read and the copy lacks, which counts as absent."""
        pods, known = self.snapshot().pods().values(), self._cache
        owned = (p for p in pods if p.workload is not None and p.workload.kind == "ReplicaSet")
        groups = {(p.namespace, p.group) for p in pods if p.group}
        is_lacking = {
            "nodes": not self.snapshot().table.rows,
            # Without its ReplicaSet, a pod belongs to no Deployment.
            "replicasets": needs.workloads and any(not known.workload(p.controller) for p in owned),
            "namespaces": needs.namespaces and not known.namespaces(),
            "podgroups": needs.groups and any(not known.group(*each) for each in groups),
        }
        if not (kinds := [kind for kind, is_so in is_lacking.items() if is_so]):
            return
        text = f"the snapshot lacks {listed(kinds, 'and')} that policies read: they count as absent"
        names = ",".join(dict.fromkeys(("nodes", "pods", *kinds)))
        yield f"{text}; `kubectl get {names} -A` writes them too"

    def node(self, name: str) -> NodeWithPods:
        """The node of this name. Raises ClusterFileError if there is none."""
        found = self.snapshot().node(name)
        if found is None:
            names = sorted(self.snapshot().table.rows)
            raise ClusterFileError(
                f"there is no node `{name}` in {self._where}", similar(name, names)
            )
        return found

    def pod(self, name: str, namespace: str = "") -> NamedPod:
        """The pod of a `NAMESPACE/NAME`, or of a name that only one pod has, or one of a namespace.

        Raises ClusterFileError for an unknown or ambiguous name.
        """
        known = self.pod_bodies
        if namespace:
            name = f"{namespace}/{name}"
        keys = sorted(key for key in known if name in (key, key.partition("/")[2]))
        if not keys:
            names = known if "/" in name else {key.partition("/")[2] for key in known}
            hint = similar(name, sorted(names))
            raise ClusterFileError(f"there is no pod `{name}` in {self._where}", hint)
        if len(keys) > 1:
            raise ambiguous(name, keys)
        return NamedPod.of(known[keys[0]])

    def pod_of(self, kind: str, name: str, namespace: str) -> tuple[NamedPod, Sequence[str]]:
        """The pod of a workload that is asked about, how it was chosen, and which quotas are full.

        A pending pod comes before a pod with a node. Without pods it is the one that the workload
        would create. Raises ClusterFileError for an unknown workload.
        """
        title = f"{Workload(kind, name, uid='').title} in namespace `{namespace}`"
        chain = {(kind, name)}
        found = [
            pod
            for key, pod in sorted(self.snapshot().pods().items())
            if pod.namespace == namespace and chain & set(self._owners_of(pod))
        ]
        if found:
            pending = [pod for pod in found if not pod.nodeName]
            chosen = (pending or found)[0]
            counts = f"{counted(len(found), 'pod')}, {len(pending)} of them pending"
            pod = self.pod(chosen.name, namespace)
            text = f"{title} has {counts}: this is {chosen.name}"
            return pod, [text, *self._used_up(kind, name, pod, len(found))]
        known = bodies(self._documents, kind)
        if (body := known.get(f"{namespace}/{name}")) is None:
            near = nearest(f"{namespace}/{name}", sorted(known))
            hint = f"a similar name exists: `{near}`" if near is not None else ""
            raise ClusterFileError(f"there is no {kind} `{namespace}/{name}`", hint)
        try:
            made = pods_of({"kind": kind, **msgspec.json.decode(body)}, namespace, self.uid)
        except WorkloadError as error:
            raise ClusterFileError(str(error), "") from None
        text = f"{title} has no pod: this is the pod that it would create"
        pod = NamedPod.created(made.example, made.controllers, self.defaults)
        return pod, [text, *self._used_up(kind, name, pod, 0)]

    def _used_up(self, kind: str, name: str, pod: NamedPod, made: int) -> Iterator[str]:
        """The full quotas that keep a workload from making more pods such as this one."""
        known = self._cache.workload(self.uid(kind, f"{pod.namespace}/{name}") or "")
        if known is not None and made < (known.replicas or 0):
            for full in self._cache.full_quotas(PeerDecoder().decode(pod.body)):
                yield f"{known.title} has made {made} of its {known.replicas} pods: {full}"

    def _owners_of(self, pod: Peer) -> Iterator[tuple[str, str]]:
        """The kinds and names of the workloads above a pod, as far as they are known."""
        if pod.workload is not None:
            yield pod.workload.kind, pod.workload.name
            # Without its ReplicaSet in a snapshot, the name tells the Deployment.
            if pod.workload.kind == "ReplicaSet" and (digest := pod.labels.get(TEMPLATE_HASH)):
                yield "Deployment", pod.workload.name.removesuffix(f"-{digest}")
        if (direct := self._cache.workload(pod.controller)) is not None:
            yield direct.kind, direct.name

    def uid(self, kind: str, key: str) -> str | None:
        """The uid of a workload, by `NAMESPACE/NAME`; None if it is not in the cluster."""
        return self._uids.get((kind, key))

    @cached_property
    def defaults(self) -> ClusterDefaults:
        """What the cluster gives to new pods."""
        return defaults_in(self._documents, ClusterDefaults(now=self.now.to_second()))

    @cached_property
    def _uids(self) -> Mapping[tuple[str, str], str]:
        return workload_uids(self._documents)

    @cached_property
    def pod_bodies(self) -> Mapping[str, bytes | msgspec.Raw]:
        """The JSON of every pod, including finished ones, by `NAMESPACE/NAME`."""
        return bodies(self._documents, "Pod")

    @contextmanager
    def asking(self, pod: NamedPod) -> Iterator[None]:
        """The cluster as before the pod was bound, inside the `with`; its owners are there."""
        read = [decode_controller(each["kind"], msgspec.json.encode(each)) for each in pod.owners]
        owners = [each for each in read if self._cache.workload(each.workload.uid) is None]
        for owner in owners:
            self._cache.put_controller(owner)
        known = self._cache.pod(pod.key)
        is_bound = known is not None and bool(known.nodeName)
        if known is not None and is_bound:
            self._cache.put_pod(msgspec.structs.replace(known, nodeName=""))
        try:
            yield
        finally:
            if known is not None and is_bound:
                self._cache.put_pod(known)
            for owner in owners:
                self._cache.remove_controller(owner.workload.uid)


def ambiguous(name: str, keys: Sequence[str]) -> ClusterFileError:
    listed = named([f"`{key}`" for key in keys], _SHOWN)
    hint = f"give the namespace too, as in `{keys[0]}`"
    return ClusterFileError(f"several pods are called `{name}`: {listed}", hint)


def similar(name: str, names: Sequence[str]) -> str:
    """A hint for an unknown name: the nearest one, or some that exist."""
    close = nearest(name, names)
    if close is not None:
        return f"a similar name exists: `{close}`"
    some = [n for n in names if name in n] or list(names)
    shown = ", ".join(f"`{n}`" for n in some[:_SHOWN])
    return f"there is {shown}{' …' if len(some) > _SHOWN else ''}" if some else ""


# ---- the copy of a running cluster


class _CopiedNodes(NodeStore):
    """The nodes of another store, without their pods, as they were in its last table."""

    def __init__(self, nodes: NodeStore) -> None:
        super().__init__()
        table = nodes.table()
        known = ((name, nodes.get(name)) for name in nodes.names())
        self._nodes = {name: node for name, node in known if node is not None}
        self._missing = {pod.nodeName for pod in nodes.strays().values()}
        self._version = int(table.versions.max())
        self._table = replace(table, owner=self, use=RowUse())

    def keep_table(self) -> None:
        """Has the pods that came since be those of the table, which has them already."""
        self._changed.clear()


class CacheCopy(Cache):
    """A copy of a cache, which nobody tells of events."""

    def take(self, cache: Cache) -> Work[None]:
        """Takes the cluster as it is now, once; yields after each portion.

        Assumed pods are there for certain. Handlers, and what was counted, are left behind.
        """
        snapshot = cache.snapshot()
        bodies = [(pod.uid, cache.body(pod.uid)) for pod in snapshot.pending.values()]
        ended = [pod for _, pod in cache.ended.within(Scope())]
        self.nodes, self.workloads = _CopiedNodes(cache.nodes), cache.workloads.copied()
        self.groups, self.accounts = cache.groups.copy(), cache.accounts
        self.crowded = {each: {} for each in cache.crowded}
        self.quotas = cache.quotas.copy()
        self._namespaces = {each.name: each for each in cache.namespaces()}
        budgets = chain.from_iterable((snapshot.budgets or {}).values())
        self.budgets = {f"{each.namespace}/{each.name}": each for each in budgets}
        self._knows_budgets = snapshot.budgets is not None
        self.tallies.group(cache.tallies.alike)
        placed = (view.pods or () for view in snapshot.table.nodes if view is not None)
        left = (snapshot.strays.values(), snapshot.pending.values())
        for number, pod in enumerate(chain.from_iterable(chain(placed, left)), 1):
            self._replace(key_of(pod), pod)
            if not number % _PER_PORTION:
                yield
        self.nodes.keep_table()
        for number, ended_pod in enumerate(ended, 1):
            self.ended.put(ended_pod)
            if not number % _PER_PORTION:
                yield
        self._bodies = {uid: body for uid, body in bodies if body is not None}

    def close(self) -> None:
        """Gives its memory back at once; nothing may be asked after that.

        An engine over it is a part of circles of objects, which the garbage collector finds late.
        """
        vars(self).clear()


def copied(cache: Cache) -> Work[CacheCopy]:
    """A copy of the cluster as it is now; yields after each portion."""
    made = CacheCopy()
    yield from made.take(cache)
    return made
