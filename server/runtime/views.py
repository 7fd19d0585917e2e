"""Where a server's view of the cluster comes from: files that are watched, the demo, or nowhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from logging import Logger
from pathlib import Path
from typing import Protocol

from engine.cache.cache import Cache
from engine.cache.cluster_file import ClusterFileError, ClusterFileReader, Reading, files_of
from engine.cache.informers import Needs
from engine.cache.snapshot import Snapshot
from engine.errors import NotSyncedError
from engine.objects.codec import ObjectCodec
from grammar.schema import Schema
from policies.loader import Watcher
from server.health import Check

_NO_POLICIES: Mapping[str, bytes] = {}


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


class NoCluster:
    """The view of a server that was told to have none."""

    def snapshot(self) -> Snapshot:
        raise NotSyncedError("no cluster view: start placet serve without --no-cluster")

    @property
    def pods(self) -> Cache:
        return Cache()

    def size(self) -> int | None:
        return None

    def policies(self) -> Mapping[str, bytes]:
        """None: there is nobody to have applied any."""
        return _NO_POLICIES

    def checks(self) -> Sequence[Check]:
        return (Check("cluster"),)

    def adopt(self, needs: Needs) -> None:
        """Nothing: requests bring all that policies can read."""

    def refresh(self) -> None:
        """Nothing: there is nothing to read."""


class Snapshots:
    """The view of a server of files: the newest snapshot that could be read."""

    def __init__(self, origin: Origin, schema: Schema, log: Logger) -> None:
        self._origin = origin
        self._schema = schema
        self._log = log
        self._watcher = Watcher(origin.files)
        self._annotations: frozenset[str] = frozenset()
        self._reader = ClusterFileReader(ObjectCodec(schema))
        self._cache: Cache | None = None

    def read(self) -> None:
        """Reads the first time. Raises ClusterFileError."""
        self._cache = self._read()

    def snapshot(self) -> Snapshot:
        if self._cache is None:
            raise NotSyncedError("not synced: the files have not been read yet")
        return self._cache.snapshot()

    @property
    def pods(self) -> Cache:
        """The pods of the snapshot, for counting."""
        return self._cache or Cache()

    def size(self) -> int | None:
        """How many nodes there are."""
        return len(self.snapshot().table.rows)

    def policies(self) -> Mapping[str, bytes]:
        """None: there is nobody to have applied any."""
        return _NO_POLICIES

    def checks(self) -> Sequence[Check]:
        """Everything was read before the server started."""
        return (Check("cluster"),)

    def adopt(self, needs: Needs) -> None:
        """A snapshot has only the annotations that policies read: others need it read again.

        Of what else there is in the files, everything is kept.
        """
        if not needs.annotations <= self._annotations:
            self._annotations |= needs.annotations
            self._reader = ClusterFileReader(ObjectCodec(self._schema, self._annotations))
            if self._cache is not None:
                self._read_again()

    def refresh(self) -> None:
        """Reads again if the files are others than those that were read last."""
        if self._watcher.changed():
            self._read_again()

    def _read_again(self) -> None:
        """Says in the log what is wrong, and then the last snapshot stays."""
        try:
            self._cache = self._read()
        except ClusterFileError as error:
            self._log.error("%s (%s): the last snapshot stays", error.message, error.hint)

    def _read(self) -> Cache:
        reading = self._origin.read(self._reader)
        snapshot = reading.cache.snapshot()
        nodes, pods = len(snapshot.table.rows), len(snapshot.pods())
        self._log.info("cluster of %d nodes and %d pods", nodes, pods)
        for notice in reading.notices:
            self._log.warning("cluster: %s", notice)
        return reading.cache
