"""The engine of a server, kept up to date with the files of its policies and its cluster."""

from __future__ import annotations

from collections.abc import Sequence
from logging import Logger
from pathlib import Path

from cli.serving.cluster import Cluster, NoCluster, Origin
from cli.serving.policies import PolicyFiles
from engine.cache.cluster_file import ClusterFileReader
from engine.engine import Engine, Observer
from engine.objects import ObjectCodec
from grammar.schema import load_schema
from policies.validation import Validator
from server.health import Check


class Upkeep:
    """Builds the engine, and brings it up to date when files change."""

    def __init__(
        self, policies: Sequence[Path], origin: Origin | None, observer: Observer, log: Logger
    ) -> None:
        """Reads everything once. Raises ClusterFileError."""
        self._schema = load_schema()
        self._log = log
        self.policies = PolicyFiles(policies, Validator(self._schema), log)
        registry = self.policies.read()
        self._annotations = self.policies.annotations
        self._reader = self._new_reader()
        self._cluster = None if origin is None else Cluster(origin, self._reader, log)
        self.view = self._cluster or NoCluster()
        self.engine = Engine(registry, self.view, ObjectCodec(self._schema), observer)

    def readiness(self) -> Sequence[Check]:
        """Everything was read before the server started."""
        return (Check("policies"), Check("cluster"))

    def cluster_size(self) -> int | None:
        """How many nodes the cluster has; None without one."""
        return None if self._cluster is None else len(self._cluster.snapshot().table.places)

    def refresh(self) -> None:
        """Looks at the files once. Never raises: what was in force before stays so."""
        try:
            self._refresh()
        except Exception:  # noqa: BLE001 - whatever it is, serving goes on
            self._log.exception("reading changed files failed; what was in force stays so")

    def _refresh(self) -> None:
        if self.policies.changed():
            registry = self.policies.read()
            self._keep_annotations()
            self.engine.registry = registry
        if self._cluster is not None and self._cluster.changed():
            self._cluster.read(self._reader)

    def _keep_annotations(self) -> None:
        """A snapshot has only the annotations that policies read: others need it read again."""
        if self.policies.annotations <= self._annotations:
            return
        self._annotations |= self.policies.annotations
        self._reader = self._new_reader()
        if self._cluster is not None:
            self._cluster.read(self._reader)

    def _new_reader(self) -> ClusterFileReader:
        return ClusterFileReader(ObjectCodec(self._schema, self._annotations))
