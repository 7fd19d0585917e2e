"""PolicyReloader: keeps the engine up to date with policy files and policy objects.

It belongs to a running server. Files are read in a thread; the engine adopts a new registry as a
whole, on the event loop. Policies that cannot be read leave the enforced ones as they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from logging import Logger
from typing import Protocol

from engine.cache.informers import Needs
from engine.decision.call import ClusterView
from engine.decision.registry import Registry
from engine.engine import Engine
from engine.objects.request_pod import NO_EXEMPTIONS, Exemptions
from grammar.checks.cluster_costs import ClusterSize
from policies.loader import INTERVAL_SECONDS
from server.health import Check
from server.runtime.policies import Policies


class View(ClusterView, Protocol):
    """A source of the cluster's state: files, the API server, or nothing."""

    def checks(self) -> Sequence[Check]:
        """Readiness of the view."""

    def policies(self) -> Mapping[str, bytes] | None:
        """The cluster's policies as JSON by resource and key; None while they are not known.

        It is another mapping when any policy has changed.
        """

    def cluster_size(self) -> ClusterSize:
        """The size of the cluster as far as it is known; from any thread."""

    def adopt(self, needs: Needs) -> None:
        """Keeps what policies read from now on; from any thread."""

    def refresh(self) -> None:
        """Reads changed files again; from any thread."""


class PolicyReloader:
    """Looks for changed policies again and again, and has the engine adopt them."""

    def __init__(
        self,
        policies: Policies,
        objects: Mapping[str, bytes] | None,
        view: View,
        engine: Engine,
        log: Logger,
        exemptions: Exemptions = NO_EXEMPTIONS,
    ) -> None:
        """The engine enforces the policies, which have been read with these objects."""
        self.policies = policies
        self.view = view
        self.engine = engine
        self._objects = objects
        self._log = log
        self._exemptions = exemptions
        self._lock = asyncio.Lock()
        self._warn_of_exempt(engine.registry)

    def readiness(self) -> Sequence[Check]:
        """Readiness: policies have been compiled, and the view is ready."""
        return (Check("policies"), *self.view.checks())

    async def run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            await self.catch_up()

    async def catch_up(self) -> None:
        """Looks once; returns when what it found is enforced."""
        # Requests are answered while files are read, but never by half of a change.
        async with self._lock:
            if (registry := await asyncio.to_thread(self._look)) is not None:
                self.engine.adopt(registry)

    def _look(self) -> Registry | None:
        """The new registry, or None without a change. Never raises."""
        try:
            self.view.refresh()
            objects = self.view.policies()
            have_changed = self._have_changed(objects)
            self._objects = objects
            if not self.policies.changed() and not have_changed:
                return None
            registry = self.policies.read(objects, self.view.cluster_size())
            self.view.adopt(self.policies.needs)
            self._warn_of_exempt(registry)
        except Exception:  # noqa: BLE001 - whatever it is, serving goes on
            self._log.exception("reading changed policies failed; the enforced policies stay")
            return None
        return registry

    def _have_changed(self, objects: Mapping[str, bytes] | None) -> bool:
        if objects is None or self._objects is None:
            return objects is not self._objects
        # Also without a new change: some may still wait for their turn to be checked.
        return self.policies.objects.changed(objects)

    def _warn_of_exempt(self, registry: Registry) -> None:
        for program in registry.programs:
            if program.namespace in self._exemptions.namespaces:
                text = "policy %s concerns no pod: namespace `%s` is exempt"
                self._log.warning(text, program.address, program.namespace)
