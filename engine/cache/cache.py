"""Cache: the newest state of every object and what follows from it, kept event by event.

One cache belongs to one source of a cluster (informers, files) and lives as long as the source. A
snapshot costs what has changed since the last one.

The contract for one object is that of client-go's SharedInformer: its states arrive in order, some
may be left out, and an object that was deleted and created again may arrive as one change. There is
no order between objects. Assumed pods follow the state machine of kube-scheduler's cache:

    pending --assume--> assumed --a watch shows its node--> bound
       ^                   |
       +--forget, expire---+
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar
from weakref import WeakSet

import msgspec
import numpy as np

from engine.cache.ended_pods import EndedPods
from engine.cache.node_table import (
    NameIndex,
    NodeTable,
    NodeWithPods,
    RowUse,
    Snapshot,
    Versions,
    with_pods,
)
from engine.cache.tallies import Scope, Tallies
from engine.fairness import ByteAccounts
from engine.objects.disruption_budget import DisruptionBudget, by_namespace
from engine.objects.peer import (
    ENDED,
    FAILED,
    UNLABELLED,
    Controller,
    Peer,
    Workload,
    key_of,
    labelled,
    root_of,
    rooted,
)
from engine.objects.pod_group import GroupName, PodGroup
from engine.objects.request_pod import Namespace, Node, RequestPod
from engine.objects.resources import Quota

T = TypeVar("T")

# The bytes of the JSON of waiting pods; a namespace alone has half of them.
MOST_BODIES = 48 << 20

# ---- nodes


class NodeStore:
    """Nodes and the pods on them, whether the node is known or not.

    A node that has changed gets a new view when the next table is made. That is once, however many
    changes there were.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, dict[str, Peer]] = {}
        # The rows of the nodes that are gone, by name, each with the number of the last use that
        # has it; the oldest first.
        self._left: dict[str, tuple[int, int]] = {}
        self._uses: WeakSet[RowUse] = WeakSet()
        self._version = 0
        self._changed: dict[str, None] = {}  # a set in insertion order
        self._missing: set[str] = set()
        self._table = NodeTable(self, {}, (None,), np.zeros(1, np.int64))

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, name: str) -> Node | None:
        return self._nodes.get(name)

    def names(self) -> Iterable[str]:
        return self._nodes.keys()

    def labels(self) -> Mapping[str, Mapping[str, str]]:
        """The labels of each node, by its name. Each call makes a new mapping."""
        return {name: node.metadata.labels or {} for name, node in self._nodes.items()}

    def had(self, name: str) -> bool:
        """Whether there is such a node, or was one lately."""
        return name in self._nodes or name in self._left or name in self._table.rows

    def put(self, node: Node) -> None:
        self._nodes[node.name] = node
        self._changed[node.name] = None

    def remove(self, name: str) -> None:
        """Remove a node. Its pods stay, as strays."""
        if self._nodes.pop(name, None) is not None:
            self._changed[name] = None

    def pods(self, name: str) -> dict[str, Peer]:
        """The pods on a node, by key. A caller that changes them calls `touch` too."""
        return self._pods.setdefault(name, {})

    def touch(self, name: str) -> None:
        """Note that the pods on a node have changed; an empty name means no node."""
        if name:
            self._changed[name] = None

    def strays(self) -> Mapping[str, Peer]:
        """The pods on nodes that were unknown when the last table was made."""
        return {key: pod for name in self._missing for key, pod in self._pods[name].items()}

    def table(self) -> NodeTable:
        """The current nodes. Without a change it is the last table again.

        Costs a copy of a pointer and of a number for each node, and a view of each changed node.
        """
        if not self._changed:
            return self._table
        changed, self._changed = self._changed, {}
        rows, views, use = self._assigned(changed)
        versions: Versions = np.zeros(len(views), np.int64)
        versions[: len(self._table.versions)] = self._table.versions
        for name in changed:
            pods = self._pods.get(name, {})
            self._missing.discard(name)
            if (row := rows.get(name)) is not None:
                self._version += 1
                versions[row] = self._version
                views[row] = with_pods(self._nodes[name], tuple(pods.values()))
            elif pods:
                self._missing.add(name)
            else:
                self._pods.pop(name, None)
        known, index = self._table.rows, self._table.index
        if rows is not known or index is None:
            index = NameIndex(rows)
        self._table = NodeTable(self, rows, views, versions, index, use)
        return self._table

    def _assigned(
        self, changed: Iterable[str]
    ) -> tuple[Mapping[str, int], list[NodeWithPods | None], RowUse]:
        """The rows of the current nodes, and the views of the last table.

        A node that is back takes its row again. A new node takes a row that nobody uses. Its
        version is new, so results that were kept for an earlier node of the row are not used.
        """
        known, views = self._table.rows, list(self._table.nodes)
        arrived = [n for n in changed if n in self._nodes and n not in known]
        gone = [n for n in changed if n in known and n not in self._nodes]
        if not arrived and not gone:
            return known, views, self._table.use
        rows, last = dict(known), self._table.use.number
        for name in gone:
            row = rows.pop(name)
            self._left[name] = row, last
            views[row] = None
        self._uses.add(self._table.use)
        oldest = min(use.number for use in self._uses)
        for name in arrived:
            rows[name] = row = self._row_for(name, oldest, len(views))
            if row == len(views):
                views.append(None)
        return rows, views, RowUse(last + 1)

    def _row_for(self, name: str, oldest: int, new: int) -> int:
        """The row that the name had, else a row that no use has any more, else a new one.

        `oldest` is the number of the oldest use.
        """
        if name in self._left:
            return self._left.pop(name)[0]
        first = next(iter(self._left), None)
        if first is not None and self._left[first][1] < oldest:
            return self._left.pop(first)[0]
        return new


# ---- workloads


class Workloads:
    """Workloads: controllers by uid, the root of each, and the `keys` of the pods of each.

    `roots` are the root workloads by the uid of a controller; a change replaces the mapping. When a
    controller is removed, its pods keep the root that they have.
    """

    def __init__(self) -> None:
        self.roots: Mapping[str, Workload] = {}
        self._controllers: dict[str, Controller] = {}
        self._owned: dict[str, set[str]] = {}
        self.keys: dict[str, set[str]] = {}

    def get(self, uid: str) -> Controller | None:
        return self._controllers.get(uid)

    def copied(self) -> Workloads:
        """The same controllers, without pods."""
        made = Workloads()
        made.roots, made._controllers = self.roots, self._controllers.copy()
        made._owned = {uid: owned.copy() for uid, owned in self._owned.items()}
        return made

    def add_pod(self, uid: str, key: str) -> None:
        """Note a pod of the direct controller `uid`, which is empty for a pod without one."""
        if uid:
            self.keys.setdefault(uid, set()).add(key)

    def remove_pod(self, uid: str, key: str) -> None:
        if uid:
            _discard(self.keys, uid, key)

    def put(self, controller: Controller) -> frozenset[str]:
        """Add or replace a controller. Returns the uids of the controllers whose root changed."""
        uid = controller.workload.uid
        old = self._controllers.get(uid)
        if old == controller:
            return frozenset()
        self._forget_owner(uid, old)
        self._controllers[uid] = controller
        if controller.owner is not None:
            self._owned.setdefault(controller.owner.uid, set()).add(uid)
        return self._settle({uid, *self._owned.get(uid, ())})

    def remove(self, uid: str) -> None:
        self._forget_owner(uid, self._controllers.pop(uid, None))
        if uid in self.roots:
            self.roots = {k: v for k, v in self.roots.items() if k != uid}
            self._settle(self._owned.get(uid, ()))

    def pods(self, uid: str) -> frozenset[str]:
        """The keys of the pods with this direct controller."""
        return frozenset(self.keys.get(uid, ()))

    def made(self, uid: str) -> int:
        """How many pods a controller has made, itself or by those that it owns."""
        return sum(len(self.keys.get(each, ())) for each in (uid, *self._owned.get(uid, ())))

    def _settle(self, uids: Iterable[str]) -> frozenset[str]:
        """Compute the roots of controllers. Return the controllers whose root has changed."""
        found = {uid: root_of(self._controllers[uid], self._controllers) for uid in uids}
        changed = {uid: root for uid, root in found.items() if self.roots.get(uid) != root}
        if not changed:
            return frozenset()
        before, self.roots = self.roots, {**self.roots, **changed}
        # Pods see no `replicas`: it is not part of what a pod carries.
        return frozenset(
            uid
            for uid, root in changed.items()
            if (old := before.get(uid)) is None
            or (old.uid, old.kind, old.name) != (root.uid, root.kind, root.name)
        )

    def _forget_owner(self, uid: str, controller: Controller | None) -> None:
        if controller is not None and controller.owner is not None:
            _discard(self._owned, controller.owner.uid, uid)


def _discard(sets: dict[str, set[str]], key: str, item: str) -> None:
    """Remove an item from the set under a key, and the set when it is empty."""
    items = sets[key]
    items.discard(item)
    if not items:
        del sets[key]


# ---- the cache


@dataclass(frozen=True, slots=True)
class _Assumption:
    """A pod that is assumed on `node`, with some annotations more, until a time in seconds.

    `seen` says whether a watch has shown the pod at all, `confirmed` whether the API server has
    acknowledged its Binding.
    """

    uid: str
    node: str
    until: float
    annotations: Mapping[str, str]
    seen: bool
    confirmed: bool = False

    def placed(self, pod: Peer) -> Peer:
        """The pod on the node."""
        annotations = {**pod.annotations, **self.annotations} if self.annotations else None
        return msgspec.structs.replace(
            pod, nodeName=self.node, annotations=annotations or pod.annotations
        )

    def waiting(self, pod: Peer) -> Peer:
        """The pod without the node."""
        kept = {k: v for k, v in pod.annotations.items() if k not in self.annotations}
        return msgspec.structs.replace(pod, nodeName="", annotations=kept)


# Called at each change of a pod with its old state, its new state, and the resource version of the
# new state, 0 if that is unknown.
PodEventHandler = Callable[[Peer | None, Peer | None, int], None]


# What a PodGroup takes besides its texts, measured, with its version and its account; and with all.
_GROUP_BYTES, _LARGEST_GROUP = 900, 3000
# The names of PodGroups without room that are remembered of a namespace.
_MOST_WANTED = 100


class Cache:
    """The cache of a cluster, as the cluster is known. On one event loop."""

    def __init__(self) -> None:
        # Of what is kept of each namespace, here and elsewhere.
        self.accounts = ByteAccounts()
        self.nodes = NodeStore()
        # By namespace, and by key in each, because counts are mostly of one namespace.
        self._spaces: dict[str, dict[str, Peer]] = {}
        self.tallies = Tallies(self._spaces)
        self.ended = EndedPods()
        self.workloads = Workloads()
        self.groups: dict[tuple[str, GroupName], PodGroup] = {}
        # Those that were asked about in vain, of each namespace without room for one of its own.
        self.crowded: dict[str, dict[GroupName, None]] = {}
        self._pending: dict[str, Peer] = {}
        # The pods without a node that are nominated to one, by key.
        self.nominated: dict[str, Peer] = {}
        self._namespaces: dict[str, Namespace] = {}
        # By `namespace/name`.
        self.budgets: dict[str, DisruptionBudget] = {}
        self.quotas: dict[str, Quota] = {}
        self._knows_budgets = True
        self.assumptions: dict[str, _Assumption] = {}
        # The versions up to which watches have shown the nodes and the pods, 0 if unknown.
        self.shown = {"nodes": 0, "pods": 0}
        # By uid.
        self._bodies: dict[str, bytes] = {}
        self._room = ByteAccounts(MOST_BODIES)
        self._snapshot: Snapshot | None = None
        self._event_handlers: list[PodEventHandler] = []
        self._node_handlers: list[Callable[[str], None]] = []
        self._body_handlers: list[Callable[[str], None]] = []

    # ---- events

    def add_event_handler(self, handler: PodEventHandler) -> None:
        self._event_handlers.append(handler)

    def add_body_handler(self, handler: Callable[[str], None]) -> None:
        """Has a function called with the uid of each waiting pod that the API server shows anew."""
        self._body_handlers.append(handler)

    def add_node_handler(self, handler: Callable[[str], None]) -> None:
        """Has a function called with the name of each node that has changed."""
        self._node_handlers.append(handler)

    def put_node(self, node: Node) -> None:
        self.nodes.put(node)
        self._node_changed(node.name)

    def remove_node(self, name: str) -> None:
        self.nodes.remove(name)
        self._node_changed(name)

    def _node_changed(self, name: str) -> None:
        self._snapshot = None
        for handle in self._node_handlers:
            handle(name)

    def put_pod(self, pod: Peer, revision: int = 0, body: bytes | msgspec.Raw = b"") -> None:
        """Add or replace a pod as the API server has it; `revision` is 0 if unknown.

        Its JSON is kept while it waits for a node.
        """
        key = key_of(pod)
        self._forget_body(pod.uid)
        if body and not pod.nodeName and pod.phase not in ENDED:
            if self._room.keep(pod.namespace, pod.uid, len(body)):
                self._bodies[pod.uid] = bytes(body)
            # What the cache keeps of it may be the same.
            for handle in self._body_handlers:
                handle(pod.uid)
        if pod.phase in ENDED:
            self.remove_pod(key)
            self.put_ended(pod)
            return
        assumed = self.assumptions.get(key)
        if assumed is not None:
            if pod.nodeName or pod.uid != assumed.uid:
                del self.assumptions[key]
            else:
                self.assumptions[key] = replace(assumed, seen=True)
                pod = assumed.placed(pod)
        self._replace(key, self._completed(pod), revision)

    def _forget_body(self, uid: str) -> None:
        if self._bodies.pop(uid, None) is not None:
            self._room.drop(uid)

    def put_ended(self, pod: Peer) -> None:
        """Remember a pod that has ended."""
        if pod.phase in ENDED:
            self.ended.put(self._completed(pod))
            if pod.phase == FAILED:
                self._snapshot = None

    def holds_ended(self, pod: Peer) -> bool:
        """Whether the cache remembers a pod that has ended as it is."""
        return pod.phase not in ENDED or self.ended.holds(self._completed(pod))

    def remove_pod(self, key: str) -> None:
        self.assumptions.pop(key, None)
        if (gone := self.pod(key)) is not None:
            self._forget_body(gone.uid)
        self._replace(key, None)

    def put_namespace(self, namespace: Namespace) -> None:
        if self._namespaces.get(namespace.name) != namespace:
            self._namespaces = {**self._namespaces, namespace.name: namespace}
            self._relabel(namespace.name, namespace.labels)

    def remove_namespace(self, name: str) -> None:
        self._namespaces = {k: v for k, v in self._namespaces.items() if k != name}
        self._relabel(name, UNLABELLED)

    def keep(self, among: dict[str, T], key: str, found: T | None) -> None:
        """Add or replace an object that is kept among others by its key; None if it is gone."""
        if found is None:
            among.pop(key, None)
        else:
            among[key] = found
        self._snapshot = None

    def trust_budgets(self, *, known: bool) -> None:
        """Say whether all disruption budgets are known; so they are if nobody says anything."""
        if known is not self._knows_budgets:
            self._knows_budgets = known
            self._snapshot = None

    def put_controller(self, controller: Controller) -> None:
        """Add or replace a controller, and give its pods their new root."""
        for uid in self.workloads.put(controller):
            for key in self.workloads.pods(uid):
                self._replace(key, self._completed(self._known(key)))
        self._snapshot = None

    def remove_controller(self, uid: str) -> None:
        self.workloads.remove(uid)
        self._snapshot = None

    def put_group(self, namespace: str, name: GroupName, group: PodGroup) -> bool:
        """Add or replace a PodGroup; false without room for it, and an earlier one stays."""
        size = _GROUP_BYTES + 5 * len(name.name) + 2 * len(group.topology)
        if not self.accounts.keep(namespace, f"{name.api}/{namespace}/{name.name}", size):
            self.crowded.setdefault(namespace, {})
            return False
        self.groups[namespace, name] = group
        self._snapshot = None
        return True

    def remove_group(self, namespace: str, name: GroupName) -> None:
        self.groups.pop((namespace, name), None)
        self.accounts.drop(f"{name.api}/{namespace}/{name.name}")
        self._snapshot = None

    def groups_due(self) -> list[tuple[str, GroupName]]:
        """PodGroups that were asked about in vain, one of each namespace that has room now."""
        asked = self.crowded.items()
        return [(n, of.popitem()[0]) for n, of in asked if of and not self.lacks_room(n)]

    def lacks_room(self, namespace: str) -> bool:
        """Whether a namespace had too many PodGroups, and has no room for another one."""
        return namespace in self.crowded and self.accounts.room(namespace, "") < _LARGEST_GROUP

    # ---- assumed pods

    def assume(
        self, pod: Peer, node: str, until: float, annotations: Mapping[str, str] | None = None
    ) -> None:
        """Count a pod on a node, with these annotations, before the API server shows it there.

        This ends when a watch shows the pod on a node or deleted, by `forget`, or by `expire`.
        """
        key = key_of(pod)
        known = self.pod(key)
        before = self.assumptions.get(key)
        seen = known is not None and (before is None or before.seen)
        assumed = _Assumption(pod.uid, node, until, annotations or {}, seen=seen)
        self.assumptions[key] = assumed
        self._replace(key, self._completed(assumed.placed(known or pod)))

    def assumption(self, key: str, uid: str) -> tuple[str, Mapping[str, str]] | None:
        """The node and the annotations that a pod is assumed to have, and that nobody confirmed."""
        assumed = self.assumptions.get(key)
        if assumed is None or assumed.uid != uid or assumed.confirmed:
            return None
        return assumed.node, assumed.annotations

    def confirm(self, key: str, uid: str) -> None:
        """Note that the API server has bound an assumed pod: from now on it is there for certain.

        A watch may show an older state for a while.
        """
        assumed = self.assumptions.get(key)
        if assumed is not None and assumed.uid == uid:
            self.assumptions[key] = replace(assumed, confirmed=True)

    def forget(self, key: str) -> None:
        assumed = self.assumptions.pop(key, None)
        if assumed is not None:
            self._replace(key, assumed.waiting(self._known(key)) if assumed.seen else None)

    def unseen(self, until: float) -> Sequence[Peer]:
        """The assumed pods that no watch has shown at all, and that end by a time at the latest."""
        found = self.assumptions.items()
        return [self._known(key) for key, a in found if not a.seen and a.until <= until]

    def expire(self, now: float) -> list[str]:
        """Forget the pods whose assumption has run out. Returns their keys."""
        late = [key for key, assumed in self.assumptions.items() if assumed.until <= now]
        for key in late:
            self.forget(key)
        return late

    # ---- reading

    def pod(self, key: str) -> Peer | None:
        pods = self._spaces.get(key.partition("/")[0])
        return pods.get(key) if pods is not None else None

    def may_wait(self, pod: RequestPod) -> bool:
        """Whether a pod has no node for certain, or no watch has come to this version of it."""
        known = self.pod(key := f"{pod.namespace}/{pod.name}")
        if pod.node or known is None or known.uid != pod.uid:
            return not pod.node and not 0 < self.shown["pods"] >= pod.revision
        return not known.nodeName or self.assumption(key, pod.uid) is not None

    def never_had(self, name: str, revision: int) -> bool:
        """Whether there is and was no such node, and watches have come to this version of it."""
        return not self.nodes.had(name) and not 0 < self.shown["nodes"] < revision

    def body(self, uid: str) -> bytes | None:
        """The JSON of a pod that waits for a node; None if it is not kept."""
        return self._bodies.get(uid)

    def _known(self, key: str) -> Peer:
        """A pod that is known."""
        return self._spaces[key.partition("/")[0]][key]

    def every(self) -> Sequence[Peer]:
        """Every pod as it is now, however long the caller takes."""
        return [pod for pods in self._spaces.values() for pod in pods.values()]

    def within(self, scope: Scope) -> Iterator[tuple[str, Peer]]:
        """Every pod of a scope with its key, as they are now, however long the caller takes.

        Decisions use tallies, which look at each pod once.
        """
        spaces = self._spaces
        names = list(spaces) if scope.namespace is None else [scope.namespace]
        found = [list(spaces[name].items()) for name in names if name in spaces]
        return ((key, pod) for pairs in found for key, pod in pairs if scope.holds(pod))

    def assumed(self) -> Sequence[Peer]:
        """The pods that count on a node although nobody has said that they are there."""
        return [
            self._known(key) for key, assumed in self.assumptions.items() if not assumed.confirmed
        ]

    def holds_pod(self, key: str, pod: Peer) -> bool:
        """Whether the cache has this state of a pod, its assumption, root and namespace aside."""
        known = self.pod(key)
        if pod.phase in ENDED or known is None:
            return pod.phase in ENDED and known is None
        if key in self.assumptions:
            pod = self.assumptions[key].placed(pod)
        workload, labels = known.workload, known.namespaceLabels
        return known == msgspec.structs.replace(pod, workload=workload, namespaceLabels=labels)

    def namespace(self, name: str) -> Namespace | None:
        return self._namespaces.get(name)

    def namespaces(self) -> Iterable[Namespace]:
        return self._namespaces.values()

    def controller(self, uid: str) -> Controller | None:
        return self.workloads.get(uid)

    def workload(self, uid: str) -> Workload | None:
        """A controller with the number of its pods; None if it is not known."""
        controller = self.workloads.get(uid)
        return controller.workload if controller is not None else None

    def full_quotas(self, pod: Peer) -> Iterator[str]:
        """The quotas of a namespace that have no room for another pod such as this one."""
        for key, quota in sorted(self.quotas.items()):
            within, _, name = key.partition("/")
            if within == pod.namespace and (used := quota.lacks(pod.requests, pod.limits)):
                yield f"ResourceQuota/{name} has used {used}"

    def owned(self) -> Sequence[tuple[Peer, int]]:
        """A pod of each direct controller, and how many pods it has."""
        return [(self._known(next(iter(e))), len(e)) for e in self.workloads.keys.values()]

    def group(self, namespace: str, name: GroupName) -> PodGroup | None:
        """A PodGroup; None if it is not known, which is looked for again in a crowded namespace."""
        found, wanted = self.groups.get((namespace, name)), self.crowded.get(namespace)
        if found is None and wanted is not None and len(wanted) < _MOST_WANTED:
            wanted[name] = None
        return found

    def snapshot(self) -> Snapshot:
        """The cluster now. Without a change it is the last snapshot again."""
        if self._snapshot is None:
            self._snapshot = Snapshot(
                table=self.nodes.table(),
                pending=self._pending.copy(),
                strays=self.nodes.strays(),
                namespaces=self._namespaces,
                workloads=self.workloads.roots,
                failures=self.ended.failures(),
                budgets=by_namespace(self.budgets.values()) if self._knows_budgets else None,
            )
        return self._snapshot

    # ---- changes

    def _completed(self, pod: Peer) -> Peer:
        """The pod with its root, and with the labels of its namespace."""
        pod = rooted(pod, self.workloads.roots)
        if not self._namespaces:
            return pod
        namespace = self._namespaces.get(pod.namespace)
        return pod if namespace is None else labelled(pod, namespace.labels)

    def _relabel(self, name: str, labels: Mapping[str, str]) -> None:
        """Gives the pods of a namespace its labels: now, so that no call waits for all of these."""
        for key, pod in [*self._spaces.get(name, {}).items()]:
            if pod.namespaceLabels != labels:
                self._replace(key, labelled(pod, labels))
        self._snapshot = None

    def _replace(self, key: str, pod: Peer | None, revision: int = 0) -> None:
        """Replace the state of a pod. Every change of a pod passes here."""
        old = self.pod(key)
        if old == pod:
            return
        is_visible = not _differ_in_readiness(old, pod)
        if old is not None:
            pods = self._spaces[old.namespace]
            del pods[key]
            if not pods:
                del self._spaces[old.namespace]
            del self._beside(old)[key]
            if is_visible:
                self.nodes.touch(old.nodeName)
            self.nominated.pop(key, None)
            self.workloads.remove_pod(old.controller, key)
            self.tallies.leaves(key, old)
        if pod is not None:
            pods = self._spaces.setdefault(pod.namespace, {})
            pods[key] = self._beside(pod)[key] = pod
            if pod.nominatedNodeName and not pod.nodeName:
                self.nominated[key] = pod
            self.workloads.add_pod(pod.controller, key)
            if is_visible:
                self.nodes.touch(pod.nodeName)
            self.tallies.arrives(key, pod)
        for handle in self._event_handlers:
            handle(old, pod, revision)
        self._snapshot = None

    def _beside(self, pod: Peer) -> dict[str, Peer]:
        """The pods on the same node, or the pending ones, by key."""
        return self.nodes.pods(pod.nodeName) if pod.nodeName else self._pending


def _differ_in_readiness(old: Peer | None, new: Peer | None) -> bool:
    """Whether nothing else of a pod has changed, which no rule about its node reads."""
    if old is None or new is None or old.ready is new.ready:
        return False
    return msgspec.structs.replace(new, ready=old.ready) == old
