"""Where a server's view of the cluster comes from: files that are watched, the demo, or nowhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from logging import Logger
from pathlib import Path
from typing import Protocol

import msgspec

from cli.demo.cluster import demo_cluster
from engine.cache.cluster_file import ClusterFileReader, Reading
from engine.cache.documents import ClusterFileError, files_of
from engine.cache.snapshot import Snapshot
from engine.errors import NotSyncedError
from policies.watcher import Watcher


class Origin(Protocol):
    """Something that snapshots can be read from, again and again."""

    def files(self) -> Iterable[Path]:
        """The files whose change makes another reading worth while."""

    def read(self, reader: ClusterFileReader) -> Reading:
        """Raises ClusterFileError."""


class Files:
    """What kubectl wrote."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths

    def files(self) -> Iterable[Path]:
        try:
            return files_of(self._paths)
        except ClusterFileError:
            return ()

    def read(self, reader: ClusterFileReader) -> Reading:
        return reader.read(self._paths)


class Demo:
    """The demo's cluster, as it was when the server started."""

    def __init__(self) -> None:
        self._document = msgspec.json.encode(demo_cluster(datetime.now(UTC)))

    def files(self) -> Iterable[Path]:
        return ()

    def read(self, reader: ClusterFileReader) -> Reading:
        name = Path("demo")
        return reader.take([name], [(name, self._document)])


class NoCluster:
    """The view of a server that was given no cluster."""

    def snapshot(self) -> Snapshot:
        raise NotSyncedError("no cluster view: start placet serve with --cluster")


class Cluster:
    """The view of a server: the newest snapshot that could be read."""

    def __init__(self, origin: Origin, reader: ClusterFileReader, log: Logger) -> None:
        """Reads the first one. Raises ClusterFileError."""
        self._origin = origin
        self._log = log
        self._watcher = Watcher(origin.files)
        self._snapshot = self._read(reader)

    def snapshot(self) -> Snapshot:
        return self._snapshot

    def changed(self) -> bool:
        """Whether the files are others than those that were read last."""
        return self._watcher.changed()

    def read(self, reader: ClusterFileReader) -> None:
        """Reads again; says in the log what is wrong, and then the last snapshot stays."""
        try:
            self._snapshot = self._read(reader)
        except ClusterFileError as error:
            self._log.error("%s (%s): the last snapshot stays", error.message, error.hint)

    def _read(self, reader: ClusterFileReader) -> Snapshot:
        reading = self._origin.read(reader)
        nodes, pods = len(reading.snapshot.table.places), len(reading.snapshot.pods())
        self._log.info("cluster of %d nodes and %d pods", nodes, pods)
        for notice in reading.notices:
            self._log.warning("cluster: %s", notice)
        return reading.snapshot
