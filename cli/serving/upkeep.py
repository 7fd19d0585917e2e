"""The engine of a server, kept up to date with its policies and its cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from logging import Logger
from pathlib import Path
from typing import Protocol

from cli.serving.policies import PolicyFiles
from engine.cache.snapshot import Snapshot
from engine.engine import Engine, Observer
from engine.objects import ObjectCodec
from engine.program.needs import Needs
from grammar.schema import Schema
from policies.validation import Validator
from policies.watcher import INTERVAL_SECONDS
from server.health import Check


class View(Protocol):
    """Where the cluster is known from: files, the API server, or nowhere."""

    def snapshot(self) -> Snapshot:
        """Raises NotSyncedError while there is none."""
        ...

    def size(self) -> int | None:
        """How many nodes the cluster has; None where that is not known."""
        ...

    def check(self) -> Check:
        """Whether the cluster is known."""
        ...

    def adopt(self, needs: Needs) -> None:
        """Keeps what policies read from now on; from any thread."""
        ...

    def refresh(self) -> None:
        """Looks whether files have changed; from any thread."""
        ...


class Upkeep:
    """Builds the engine, and brings it up to date when files change."""

    def __init__(
        self,
        policies: Sequence[Path],
        view: View,
        schema: Schema,
        observer: Observer,
        log: Logger,
    ) -> None:
        """Reads the policies."""
        self._log = log
        self.view = view
        self.policies = PolicyFiles(policies, Validator(schema), log)
        registry = self.policies.read()
        self._adopt()
        self.engine = Engine(registry, view, ObjectCodec(schema), observer)

    def readiness(self) -> Sequence[Check]:
        """Policies are compiled before the server starts."""
        return (Check("policies"), self.view.check())

    async def run(self) -> None:
        """Looks at the files again and again, until it is cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            # Requests are answered while files are read.
            await asyncio.to_thread(self.refresh)

    def refresh(self) -> None:
        """Looks at the files once. Never raises: what was in force before stays so."""
        try:
            self._refresh()
        except Exception:  # noqa: BLE001 - whatever it is, serving goes on
            self._log.exception("reading changed files failed; what was in force stays so")

    def _refresh(self) -> None:
        if self.policies.changed():
            registry = self.policies.read()
            self._adopt()
            self.engine.registry = registry
        self.view.refresh()

    def _adopt(self) -> None:
        self.view.adopt(self.policies.needs)
