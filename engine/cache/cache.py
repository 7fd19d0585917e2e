"""Controllers as they come and go, the root of each, and the pods that belong to them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from engine.cache.node_table import NodeStore
from engine.cache.snapshot import ENDED, Snapshot, key_of, rooted
from engine.cache.tallies import Scope, Tallies, Tally
from engine.objects.codec import Namespace, Node
from engine.objects.controllers import Controller, Workload, root_of
from engine.objects.peer import Peer


class Workloads:
    """Controllers by uid, with the keys of the pods that name each.

    A controller that is gone leaves its pods the root that they had.
    """

    def __init__(self) -> None:
        self._controllers: dict[str, Controller] = {}
        self._owned: dict[str, set[str]] = {}
        self._pods: dict[str, set[str]] = {}
        self._roots: dict[str, Workload] = {}

    @property
    def roots(self) -> Mapping[str, Workload]:
        """The root of each controller by its uid; another mapping each time one changes."""
        return self._roots

    def uids(self) -> Iterable[str]:
        return self._controllers.keys()

    def get(self, uid: str) -> Controller | None:
        return self._controllers.get(uid)

    def add_pod(self, uid: str, key: str) -> None:
        """A pod whose direct controller has this uid; empty for one without a controller."""
        if uid:
            self._pods.setdefault(uid, set()).add(key)

    def remove_pod(self, uid: str, key: str) -> None:
        if uid:
            _discard(self._pods, uid, key)

    def put(self, controller: Controller) -> frozenset[str]:
        """Returns the uids of the controllers that have another root now."""
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
        if uid in self._roots:
            self._roots = {k: v for k, v in self._roots.items() if k != uid}
            self._settle(self._owned.get(uid, ()))

    def pods(self, uid: str) -> frozenset[str]:
        """The keys of the pods whose direct controller this is."""
        return frozenset(self._pods.get(uid, ()))

    def _settle(self, uids: Iterable[str]) -> frozenset[str]:
        """Works out the roots of these anew; returns those whose root is another object."""
        found = {uid: root_of(self._controllers[uid], self._controllers) for uid in uids}
        changed = {uid: root for uid, root in found.items() if self._roots.get(uid) != root}
        if not changed:
            return frozenset()
        before, self._roots = self._roots, {**self._roots, **changed}
        return frozenset(u for u, root in changed.items() if not _same(before.get(u), root))

    def _forget_owner(self, uid: str, controller: Controller | None) -> None:
        if controller is not None and controller.owner is not None:
            _discard(self._owned, controller.owner.uid, uid)


def _discard(sets: dict[str, set[str]], key: str, item: str) -> None:
    """Takes an item out of the set under a key; an empty set does not stay."""
    items = sets[key]
    items.discard(item)
    if not items:
        del sets[key]


def _same(old: Workload | None, new: Workload) -> bool:
    """Whether pods can tell the two apart: how many pods one wants is nothing that they carry."""
    return old is not None and (old.uid, old.kind, old.name) == (new.uid, new.kind, new.name)


# ---- What is known of the cluster, kept up to date event by event; snapshots of it cost what
# changed.
#
# The contract is client-go's SharedInformer's: the states of one object are seen in order, some
# left
# out; there is no order between objects; an object that was deleted and made again may show as one
# change. Assumed pods follow kube-scheduler's cache:
#
# pending --assume--> assumed --the watch shows its node--> bound
# ^                   |
# +---forget, expire--+


@dataclass(frozen=True, slots=True)
class _Assumption:
    """A pod on a node that no watch has shown it on: which one, and until when (seconds).

    `seen` says whether a watch has shown the pod at all.
    """

    uid: str
    node: str
    until: float
    seen: bool


# Told of each change of a pod: what it was, what it is, and the resource version of that, or 0.
PodEventHandler = Callable[[Peer | None, Peer | None, int], None]


class Cache:
    """The newest state of every object, and what follows from them."""

    def __init__(self) -> None:
        self.nodes = NodeStore()
        self.tallies = Tallies()
        self._workloads = Workloads()
        self._pods: dict[str, Peer] = {}
        self._pending: dict[str, Peer] = {}
        # The pods without a node that are nominated to one, by key.
        self.nominated: dict[str, Peer] = {}
        self._namespaces: dict[str, Namespace] = {}
        self._assumed: dict[str, _Assumption] = {}
        self._snapshot: Snapshot | None = None
        self._event_handlers: list[PodEventHandler] = []

    # ---- events

    def add_event_handler(self, handler: PodEventHandler) -> None:
        """Calls the handler for each change of a pod from now on."""
        self._event_handlers.append(handler)

    def put_node(self, node: Node) -> None:
        self.nodes.put(node)
        self._snapshot = None

    def remove_node(self, name: str) -> None:
        self.nodes.remove(name)
        self._snapshot = None

    def put_pod(self, pod: Peer, revision: int = 0) -> None:
        """A pod as the API server has it, at a resource version where that is known."""
        key = key_of(pod)
        if pod.phase in ENDED:
            self.remove_pod(key)
            return
        assumed = self._assumed.get(key)
        if assumed is not None:
            if pod.nodeName or pod.uid != assumed.uid:
                del self._assumed[key]
            else:
                self._assumed[key] = replace(assumed, seen=True)
                pod = msgspec.structs.replace(pod, nodeName=assumed.node)
        self._replace(key, rooted(pod, self._workloads.roots), revision)

    def remove_pod(self, key: str) -> None:
        self._assumed.pop(key, None)
        self._replace(key, None)

    def put_namespace(self, namespace: Namespace) -> None:
        if self._namespaces.get(namespace.name) != namespace:
            self._namespaces = {**self._namespaces, namespace.name: namespace}
            self._snapshot = None

    def remove_namespace(self, name: str) -> None:
        self._namespaces = {k: v for k, v in self._namespaces.items() if k != name}
        self._snapshot = None

    def put_controller(self, controller: Controller) -> None:
        for uid in self._workloads.put(controller):
            for key in self._workloads.pods(uid):
                self._replace(key, rooted(self._pods[key], self._workloads.roots))
        self._snapshot = None

    def remove_controller(self, uid: str) -> None:
        self._workloads.remove(uid)
        self._snapshot = None

    # ---- assumed pods

    def assume(self, pod: Peer, node: str, until: float) -> None:
        """Counts a pod on a node before the API server shows it there.

        It ends when a watch shows the pod on a node or gone, by `forget`, or when it expires.
        """
        key = key_of(pod)
        known = self._pods.get(key)
        self._assumed[key] = _Assumption(pod.uid, node, until, seen=known is not None)
        there = msgspec.structs.replace(known or pod, nodeName=node)
        self._replace(key, rooted(there, self._workloads.roots))

    def forget(self, key: str) -> None:
        """The pod is not going there after all."""
        assumed = self._assumed.pop(key, None)
        if assumed is not None:
            waiting = msgspec.structs.replace(self._pods[key], nodeName="")
            self._replace(key, waiting if assumed.seen else None)

    def expire(self, now: float) -> list[str]:
        """Forgets what was assumed for longer than it may be; the keys of those pods."""
        late = [key for key, assumed in self._assumed.items() if assumed.until <= now]
        for key in late:
            self.forget(key)
        return late

    # ---- reading

    def pod(self, key: str) -> Peer | None:
        return self._pods.get(key)

    def within(self, scope: Scope) -> Iterator[tuple[str, Peer]]:
        """The pods of a scope, by key."""
        return ((key, pod) for key, pod in self._pods.items() if scope.holds(pod))

    def assumed(self) -> Sequence[Peer]:
        """The pods on nodes that no watch has shown them on."""
        return [self._pods[key] for key in self._assumed]

    def holds_pod(self, key: str, pod: Peer) -> bool:
        """Whether what is known of a pod follows from this state of it."""
        known = self._pods.get(key)
        if pod.phase in ENDED or known is None:
            return pod.phase in ENDED and known is None
        node = self._assumed[key].node if key in self._assumed else pod.nodeName
        return known == msgspec.structs.replace(pod, nodeName=node, workload=known.workload)

    def namespace(self, name: str) -> Namespace | None:
        return self._namespaces.get(name)

    def namespaces(self) -> Iterable[Namespace]:
        return self._namespaces.values()

    def controller(self, uid: str) -> Controller | None:
        return self._workloads.get(uid)

    def tally(self, name: Hashable, scope: Scope, counts: Callable[[Peer], bool]) -> Tally:
        """How many pods of a scope are on each node, of those for which `counts` is true.

        It is kept right from now on. `name` stands for the function, which must say the same of a
        pod each time, and must not raise but for the first time.
        """
        return self.tallies.get(name, scope, counts, self._pods.items())

    def snapshot(self) -> Snapshot:
        """The cluster as it is now; the last snapshot again if nothing has happened."""
        if self._snapshot is None:
            self._snapshot = Snapshot(
                table=self.nodes.table(),
                pending=self._pending.copy(),
                strays=self.nodes.strays(),
                namespaces=self._namespaces,
                workloads=self._workloads.roots,
            )
        return self._snapshot

    # ---- changes

    def _replace(self, key: str, pod: Peer | None, revision: int = 0) -> None:
        """The one way in which a pod changes: what it was leaves, what it is arrives."""
        old = self._pods.get(key)
        if old == pod:
            return
        if old is not None:
            del self._pods[key]
            del self._beside(old)[key]
            self.nodes.touch(old.nodeName)
            self.nominated.pop(key, None)
            self._workloads.remove_pod(old.controller, key)
            self.tallies.leaves(key, old)
        if pod is not None:
            self._pods[key] = self._beside(pod)[key] = pod
            self.nodes.touch(pod.nodeName)
            if pod.nominatedNodeName and not pod.nodeName:
                self.nominated[key] = pod
            self._workloads.add_pod(pod.controller, key)
            self.tallies.arrives(key, pod)
        for handle in self._event_handlers:
            handle(old, pod, revision)
        self._snapshot = None

    def _beside(self, pod: Peer) -> dict[str, Peer]:
        """The pods on the same node, or those that wait like it."""
        return self.nodes.pods(pod.nodeName) if pod.nodeName else self._pending
