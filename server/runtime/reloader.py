"""PolicyReloader: keeps the engine up to date with policy files and policy objects.

It belongs to a running server. Policies are read in a thread, which hands over one immutable value,
`EnforcedPolicies`; the event loop adopts it as a whole. If reading fails, the enforced policies
stay, and the failure is that of the background task.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from logging import Logger
from typing import Protocol

from engine.cache.informers import Needs
from engine.decision.verb_call import ClusterState
from engine.enforced import EnforcedPolicies
from engine.engine import Engine
from engine.objects.request_pod import NO_EXEMPTIONS, Exemptions
from grammar.checks.cluster_costs import ClusterSize
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

    async def pod(self, namespace: str, name: str) -> bytes | None:
        """The JSON of a pod, None if there is none. Raises EngineError."""

    def documents(self, needs: Needs) -> AsyncIterator[bytes]:
        """The objects now, as JSON in parts, of the kinds that are needed. Raises EngineError."""

    def adopt(self, needs: Needs) -> None:
        """Keeps what policies read from now on; from any thread."""

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
        exemptions: Exemptions = NO_EXEMPTIONS,
    ) -> None:
        """The engine has adopted the `enforced` policies, which were read with these objects."""
        self.enforced = enforced
        self.view = view
        self.engine = engine
        # INVARIANT: the thread alone uses these three, and the lock lets one thread at a time run.
        self._policies = policies
        self._objects = objects
        self._is_due = False
        self._log = log
        self._exemptions = exemptions
        self._known_exempt: frozenset[str] = frozenset()
        self._lock = asyncio.Lock()
        self._warn_of_exempt()

    def readiness(self) -> Sequence[ReadinessCheck]:
        """Readiness: policies have been compiled, and the view is ready."""
        return (ReadinessCheck("policies"), *self.view.checks())

    def exempt(self, exemptions: Exemptions) -> None:
        """Exempts other pods from now on."""
        self._exemptions = exemptions
        self.engine.exempt(exemptions)
        self._warn_of_exempt()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            await self.catch_up()

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
                self._warn_of_exempt()

    def _look(
        self, objects: Mapping[str, bytes] | None, size: ClusterSize
    ) -> EnforcedPolicies | None:
        """The policies to enforce from now on, or None without a change; in a thread."""
        self.view.refresh()
        # A change whose reading fails is still due the next time.
        self._is_due |= self._policies.changed() or self._have_changed(objects)
        if not self._is_due:
            self._objects = objects
            return None
        enforced = self._policies.read(objects, size)
        self.view.adopt(enforced.needs)
        self._objects, self._is_due = objects, False
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
            if program.namespace in self._exemptions.namespaces
        }
        for address in exempt.keys() - self._known_exempt:
            text = "policy %s concerns no pod: namespace `%s` is exempt"
            self._log.warning(text, address, exempt[address])
        self._known_exempt = frozenset(exempt)
