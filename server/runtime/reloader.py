"""Reloader: keeps the engine up to date with policy files and objects.

It belongs to a running server. Policies are read in a thread, which hands over one immutable
value, `EnforcedPolicies`; the event loop adopts it as a whole. If reading fails, the enforced
policies stay, and the failure is that of the background task.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from logging import Logger
from typing import Protocol

import msgspec

from engine.cache.cache import Cache
from engine.cache.informers import Needs
from engine.decision.registry import Registry
from engine.decision.verb_call import ClusterState
from engine.enforced import EnforcedPolicies
from engine.engine import Engine
from grammar.meaning.costs import ClusterSize
from policies.file_signs import LOOK_SECONDS, FileSigns
from policies.loader import INTERVAL_SECONDS
from server.http.health import ReadinessCheck
from server.runtime.policies import PolicyReader


class ClusterSource(ClusterState, Protocol):
    """A source of the cluster's state: files, the API server, or nothing."""

    def checks(self) -> Sequence[ReadinessCheck]:
        """Readiness of the view."""

    def policies(self) -> Mapping[str, bytes] | None:
        """The cluster's policies as JSON by resource and key; None while they are not known.

        It is another mapping when any policy has changed.
        """

    def cluster_size(self) -> ClusterSize:
        """The size of the cluster as far as it is known; from any thread."""

    async def pods_named(self, keys: Collection[str]) -> Mapping[str, bytes]:
        """The JSON of pods by `namespace/name`, without those that are gone. Raises EngineError."""

    @property
    def pods(self) -> Cache:
        """What is known of pods, for counting and for copies."""

    async def pods_on(self, node: str) -> Mapping[str, bytes | msgspec.Raw]:
        """The JSON of the pods on a node by `namespace/name`. Raises EngineError."""

    def documents(self, needs: Needs) -> AsyncIterator[bytes]:
        """The objects now, as JSON in parts, of the kinds that are needed. Raises EngineError."""

    def adopt(self, needs: Needs) -> None:
        """Keeps what policies read from now on; from any thread."""

    def stirs(self) -> bool:
        """Whether it is time for `refresh`; from any thread."""

    def refresh(self) -> None:
        """Reads changed files again; from any thread."""


class PolicyReloader:
    """Looks for changed policies again and again, and has the engine adopt them."""

    def __init__(
        self,
        policies: PolicyReader,
        enforced: EnforcedPolicies,
        objects: Mapping[str, bytes] | None,
        view: ClusterSource,
        engine: Engine,
        log: Logger,
        *,
        binds: bool = True,
        adopted: Callable[[Registry], None] = lambda _: None,
    ) -> None:
        """The engine has adopted the `enforced` policies, which were read with these objects.

        `binds` says that this server has the verb bind. `adopted` is told of policies whenever the
        engine has adopted others.
        """
        self.enforced = enforced
        self.view = view
        self.engine = engine
        # INVARIANT: the thread alone uses these three, but for a failure of reading, and the lock
        # lets one thread at a time run.
        self._policies = policies
        self._objects = objects
        self._is_due = False
        self._log = log
        self._known_exempt: frozenset[str] = frozenset()
        self._binds = binds
        self._adopted = adopted
        self._known_unbound: frozenset[str] = frozenset()
        self._lock = asyncio.Lock()
        self._signs = FileSigns(self._stirs)
        # Whether something has to be read, or to be checked later, without a new sign.
        self._is_waiting = False
        self._warn_of_exempt()
        self._warn_of_unbound()

    def readiness(self) -> Sequence[ReadinessCheck]:
        """Readiness: policies have been compiled, and the view is ready."""
        policies = ReadinessCheck("policies", self._policies.failure, is_warning=True)
        return (policies, *self.view.checks())

    async def run(self) -> None:
        while True:
            await self._signs.next(INTERVAL_SECONDS if self._is_waiting else LOOK_SECONDS)
            await self.catch_up()

    def _stirs(self) -> bool:
        objects = self.view.policies()
        return objects is not self._objects or self._policies.stirs() or self.view.stirs()

    async def catch_up(self) -> None:
        """Looks once; returns when what it found is enforced."""
        # Requests are answered while files are read, but never by half of a change.
        async with self._lock:
            enforced = await asyncio.to_thread(
                self._look, self.view.policies(), self.view.cluster_size()
            )
            if enforced is not None:
                self.enforced = enforced
                self.engine.adopt(enforced.registry)
                self._adopted(enforced.registry)
                self._warn_of_exempt()
                self._warn_of_unbound()

    def _look(
        self, objects: Mapping[str, bytes] | None, size: ClusterSize
    ) -> EnforcedPolicies | None:
        """The policies to enforce from now on, or None without a change; in a thread."""
        self.view.refresh()
        # A change whose reading fails is still due the next time.
        self._is_due |= self._policies.changed() or self._have_changed(objects)
        self._is_waiting = True
        enforced = None
        if self._is_due:
            enforced = self._policies.read(objects, size)
            self.view.adopt(enforced.needs)
        self._objects, self._is_due = objects, False
        self._is_waiting = self._policies.objects.waiting(objects or {})
        return enforced

    def _have_changed(self, objects: Mapping[str, bytes] | None) -> bool:
        if objects is None or self._objects is None:
            return objects is not self._objects
        # Also without a new change: some may still wait for their turn to be checked.
        return self._policies.objects.changed(objects)

    def _warn_of_exempt(self) -> None:
        """Logs each policy that became one without pods."""
        exempt = {
            program.address: program.namespace
            for program in self.enforced.registry.programs
            if program.namespace in self.engine.exemptions.namespaces
        }
        for address in exempt.keys() - self._known_exempt:
            text = "policy %s concerns no pod: namespace `%s` is exempt"
            self._log.warning(text, address, exempt[address])
        self._known_exempt = frozenset(exempt)

    def _warn_of_unbound(self) -> None:
        """Logs each policy that became one with work at bind where nothing is bound."""
        programs = () if self._binds else self.enforced.registry.programs
        unbound = {p.address: work for p in programs if (work := p.binding_work)}
        for address in unbound.keys() - self._known_unbound:
            self._log.warning("policy %s %s at bind: %s", address, unbound[address], TO_BIND)
        self._known_unbound = frozenset(unbound)


# What a server without the verb bind needs for such a policy.
TO_BIND = "serve with `--bind`, and set the extender's `bindVerb`"
