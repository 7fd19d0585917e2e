"""Reloader: keeps the engine up to date with policy files and objects.

It belongs to a running server. Policies are read in a thread, which hands over one immutable
value, `EnforcedPolicies`; the event loop adopts it as a whole. If reading fails, the enforced
policies stay, and the failure is that of the background task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from logging import Logger

from engine.decision.registry import Registry
from engine.enforced import EnforcedPolicies
from engine.engine import Engine
from engine.work import shared_pause
from policies.loader import INTERVAL_SECONDS
from server.capabilities.policy_statuses import TO_BIND
from server.http.health import ReadinessCheck
from server.runtime.file_cluster import ClusterSource
from server.runtime.policies import PolicyReader


class PolicyReloader:
    """Looks for changed policies again and again, and has the engine adopt them."""

    def __init__(
        self,
        policies: PolicyReader,
        view: ClusterSource,
        engine: Engine,
        log: Logger,
        *,
        binds: bool = True,
        adopted: Callable[[Registry], None] = lambda _: None,
    ) -> None:
        """The engine has adopted the policies that were read.

        `binds` says that this server has the verb bind. `adopted` is told of policies whenever the
        engine has adopted others.
        """
        self.enforced = policies.enforced
        self.view = view
        self.engine = engine
        # INVARIANT: the thread alone uses these three, but for a failure of reading, and the lock
        # lets one thread at a time run.
        self._policies = policies
        self._objects = policies.read_objects
        self._is_due = False
        self._log = log
        self._warned: set[str] = set()
        self._binds = binds
        self._adopted = adopted
        self._lock = asyncio.Lock()
        # Whether objects still have to be checked later, when their namespaces have a turn.
        self._is_waiting = True
        self._warn()

    def readiness(self) -> Sequence[ReadinessCheck]:
        """Readiness: policies have been compiled, and the view is ready."""
        policies = ReadinessCheck("policies", self._policies.failure, is_warning=True)
        return (policies, *self.view.checks())

    async def run(self) -> None:
        while True:
            await shared_pause(INTERVAL_SECONDS)
            await self.catch_up()

    async def catch_up(self) -> None:
        """Looks once; returns when what it found is enforced."""
        # Requests are answered while files are read, but never by half of a change.
        async with self._lock:
            enforced = await asyncio.to_thread(self._look, self.view.policies())
            if enforced is not None:
                self.enforced = enforced
                self.engine.adopt(enforced.registry)
                self._adopted(enforced.registry)
                self._warn()

    def _look(self, objects: Mapping[str, bytes] | None) -> EnforcedPolicies | None:
        """The policies to enforce from now on, or None without a change; in a thread."""
        self.view.refresh()
        has_news = self._is_waiting or objects is not self._objects
        # A change whose reading fails is still due the next time.
        self._is_due |= self._policies.changed() or (has_news and self._have_changed(objects))
        enforced = None
        if self._is_due:
            enforced = self._policies.read(objects)
            self.view.adopt(enforced.needs)
        self._objects, self._is_due = objects, False
        self._is_waiting = has_news and self._policies.objects.waiting(objects or {})
        return enforced

    def _have_changed(self, objects: Mapping[str, bytes] | None) -> bool:
        if objects is None or self._objects is None:
            return objects is not self._objects
        # Also without a new change: some may still wait for their turn to be checked.
        return self._policies.objects.changed(objects)

    def _warn(self) -> None:
        """Logs each policy that became one without pods, or with work at bind and no verb bind."""
        texts: set[str] = set()
        for each in self.enforced.registry.programs:
            if each.namespace in self.engine.exemptions.namespaces:
                why = f"concerns no pod: namespace `{each.namespace}` is exempt"
                texts.add(f"policy {each.address} {why}")
            if each.binding_work and not self._binds:
                texts.add(f"policy {each.address} {each.binding_work} at bind: {TO_BIND}")
        for text in sorted(texts - self._warned):
            self._log.warning("%s", text)
        self._warned = texts
