"""The engine of a server, kept up to date with its policies and its cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from logging import Logger
from pathlib import Path
from typing import Protocol

from engine.cache.cache import Cache
from engine.cache.informers import Needs
from engine.cache.snapshot import Snapshot
from engine.decision.registry import Registry
from engine.engine import Engine
from engine.objects.codec import ObjectCodec
from engine.objects.request_pod import NO_EXEMPTIONS, Exemptions
from grammar.schema import Schema
from policies.loader import INTERVAL_SECONDS
from server.health import Check
from server.runtime.observers import LogObserver
from server.runtime.policies import Policies


class View(Protocol):
    """Where the cluster is known from: files, the API server, or nowhere."""

    def snapshot(self) -> Snapshot:
        """Raises NotSyncedError while there is none."""
        ...

    @property
    def pods(self) -> Cache:
        """The pods of the snapshot, for counting."""
        ...

    def size(self) -> int | None:
        """How many nodes the cluster has; None where that is not known."""
        ...

    def checks(self) -> Sequence[Check]:
        """Whether the cluster is known, and what else must be so before it is asked."""
        ...

    def policies(self) -> Mapping[str, bytes] | None:
        """The policies that the cluster has, as JSON by resource and key; None if nobody knows yet.

        It is another mapping when they are others.
        """
        ...

    def adopt(self, needs: Needs) -> None:
        """Keeps what policies read from now on; from any thread."""
        ...

    def refresh(self) -> None:
        """Looks whether files have changed; from any thread."""
        ...


class PolicyReloader:
    """Builds the engine, and brings it up to date when policies change."""

    def __init__(
        self,
        policies: Sequence[Path],
        view: View,
        schema: Schema,
        observer: LogObserver,
        log: Logger,
        exemptions: Exemptions = NO_EXEMPTIONS,
    ) -> None:
        """Reads the policies."""
        self._log = log
        self._exemptions = exemptions
        self.observer = observer
        self.view = view
        self.policies = Policies(policies, schema, log)
        self._looking = asyncio.Lock()
        self._objects = view.policies()
        registry = self.policies.read(self._objects)
        self._adopt(registry)
        self.engine = Engine(registry, view, ObjectCodec(schema), observer, exemptions=exemptions)

    def readiness(self) -> Sequence[Check]:
        """Policies are compiled before the server starts."""
        return (Check("policies"), *self.view.checks())

    async def run(self) -> None:
        """Looks at the files again and again, until it is cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            await self.catch_up()

    async def catch_up(self) -> None:
        """Looks once; returns when what it found decides."""
        # Requests are answered while files are read, and never by half of a change.
        async with self._looking:
            if (registry := await asyncio.to_thread(self._look)) is not None:
                self.engine.adopt(registry)

    def refresh(self) -> None:
        """Looks at the files once."""
        if (registry := self._look()) is not None:
            self.engine.adopt(registry)

    def _look(self) -> Registry | None:
        """The policies if they are others now. Never raises: what was in force stays so."""
        try:
            self.view.refresh()
            objects = self.view.policies()
            others = self._are_others(objects)
            self._objects = objects
            if not self.policies.changed() and not others:
                return None
            registry = self.policies.read(objects)
            self._adopt(registry)
        except Exception:  # noqa: BLE001 - whatever it is, serving goes on
            self._log.exception("reading changed policies failed; what was in force stays so")
            return None
        return registry

    def _are_others(self, objects: Mapping[str, bytes] | None) -> bool:
        if objects is self._objects:
            return False
        if objects is None or self._objects is None:
            return True
        return self.policies.objects.changed(objects)

    def _adopt(self, registry: Registry) -> None:
        self.view.adopt(self.policies.needs)
        for program in registry.programs:
            if program.namespace in self._exemptions.namespaces:
                text = "policy %s decides about no pod: namespace `%s` is exempt"
                self._log.warning(text, program.address, program.namespace)
