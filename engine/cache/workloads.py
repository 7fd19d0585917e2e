"""Controllers as they come and go, the root of each, and the pods that belong to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.cache.controllers import Controller, root_of
from engine.workload import Workload


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
