"""FileCluster: the cluster of a server that watches none: in files. ClusterSource has none.

It belongs to a running server. Files are read again when they change; a snapshot that cannot be
read leaves the last one as it is.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from logging import Logger
from pathlib import Path

import msgspec

from engine.cache.cache import Cache
from engine.cache.cluster_copy import ClusterCopy
from engine.cache.cluster_file import (
    ClusterFileError,
    bodies,
    documents,
    files_of,
    parts,
    read_cluster,
)
from engine.cache.informers import Needs
from engine.cache.list_watch import CHUNK
from engine.cache.node_table import Snapshot
from engine.decision.verb_call import ClusterState
from engine.errors import NotSyncedError
from engine.objects.peer import key_of
from engine.objects.request_pod import ObjectCodec
from grammar.meaning.schema import Schema
from grammar.messages.texts import os_reason
from policies.disk import Disk, Visit
from policies.loader import Watcher
from server.http.health import ReadinessCheck
from server.options import SnapshotOrigin

_NO_POLICIES: Mapping[str, bytes] = {}


def leave_uncollected() -> None:
    """Collects garbage now, and leaves what remains out of later collections.

    Else a collection stops the server for longer than a decision. What was left out stays so.
    """
    gc.collect()
    gc.freeze()


class ClusterFiles:
    """Files that `kubectl get -o json|yaml` wrote."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths

    def files(self, visit: Visit) -> Iterable[Path]:
        for path in self._paths:
            try:
                visit(path)
            except OSError as error:
                hint = "check what is mounted there"
                raise ClusterFileError(f"cannot read `{path}`: {os_reason(error)}", hint) from None
        return files_of(self._paths)

    def contents(self) -> Iterable[tuple[Path, bytes]]:
        return ((f, d) for f in files_of(self._paths) for d in documents(f))


class ClusterSource(ClusterState):
    """A source of the cluster's state. This one has none: requests carry their nodes.

    Others override what they know.
    """

    def snapshot(self) -> Snapshot:
        raise NotSyncedError("no cluster view: start placet serve without --no-cluster")

    @property
    def pods(self) -> Cache:
        """What is known of pods, for counting and for copies."""
        return Cache()

    def checks(self) -> Sequence[ReadinessCheck]:
        """Readiness of the view."""
        return (ReadinessCheck("cluster"),)

    def policies(self) -> Mapping[str, bytes] | None:
        """The cluster's policies as JSON by resource and key; None while they are not known.

        It is another mapping when any policy has changed.
        """
        return _NO_POLICIES

    def node_count(self) -> int:
        """The number of nodes, 0 while it is not known."""
        return 0

    async def pods_named(self, _keys: Collection[str]) -> Mapping[str, bytes]:
        """The JSON of pods by `namespace/name`, without those that are gone. Raises EngineError."""
        return {}

    async def pods_on(self, _node: str) -> Mapping[str, bytes | msgspec.Raw]:
        """The JSON of the pods on a node by `namespace/name`. Raises EngineError."""
        return {}

    async def documents(self, _needs: Needs) -> AsyncIterator[bytes]:
        """The objects now, as JSON in parts, of the kinds that are needed. Raises EngineError."""
        self.snapshot()
        yield b""

    def adopt(self, needs: Needs) -> None:
        """Keeps what policies read from now on; from any thread."""

    def refresh(self) -> None:
        """Reads changed files again; from any thread."""


class FileCluster(ClusterSource):
    """The cluster in files: the newest snapshot that could be read.

    INVARIANT: a thread replaces the copy as a whole, and does not touch it after that.
    """

    def __init__(self, origin: SnapshotOrigin, schema: Schema, needs: Needs, log: Logger) -> None:
        """Reads the snapshot; `needs` is what the policies read. Raises ClusterFileError."""
        self._origin = origin
        self._schema = schema
        self._log = log
        self._disk = Disk()
        self._watcher = Watcher(self._files, self._disk)
        self._needs = needs
        self._copy = self._read()
        leave_uncollected()

    def snapshot(self) -> Snapshot:
        return self._copy.snapshot()

    @property
    def pods(self) -> Cache:
        return self._copy.pods

    def node_count(self) -> int:
        return len(self.pods.nodes)

    async def pods_on(self, node: str) -> Mapping[str, bytes]:
        view = self.snapshot().node(node)
        return await self.pods_named([key_of(pod) for pod in (view and view.pods) or ()])

    async def pods_named(self, keys: Collection[str]) -> Mapping[str, bytes]:
        """In one reading. Raises NotSyncedError."""
        found: dict[str, bytes] = {}
        async for document in self.documents(Needs()):
            pods = await asyncio.to_thread(bodies, [document], "Pod")
            found |= {key: bytes(pods[key]) for key in keys if key in pods}
        return found

    async def documents(self, _needs: Needs) -> AsyncIterator[bytes]:
        """The JSON documents of the files, lists in parts. Raises NotSyncedError."""
        contents = (part for _, whole in self._origin.contents() for part in parts(whole, CHUNK))
        try:
            while (found := await asyncio.to_thread(next, contents, None)) is not None:
                yield found
        except (ClusterFileError, msgspec.MsgspecError) as error:
            raise NotSyncedError(f"the files of the cluster cannot be read: {error}") from None

    def adopt(self, needs: Needs) -> None:
        """A snapshot has only the annotations that policies read: others need it read again.

        Everything else in the files is kept.
        """
        known = self._needs.annotations
        self._needs = replace(needs, annotations=needs.annotations | known)
        if not needs.annotations <= known:
            self._read_again()

    def _files(self, visit: Visit) -> Iterable[Path]:
        try:
            return self._origin.files(visit)
        except ClusterFileError:
            return ()

    def refresh(self) -> None:
        """Reads again if the files have changed since they were read last."""
        if self._watcher.changed():
            self._read_again()

    def _read_again(self) -> None:
        try:
            self._copy = self._read()
        except ClusterFileError as error:
            self._log.error("%s (%s): the last snapshot stays", error.message, error.hint)
        else:
            # The snapshot that has been replaced is garbage now.
            gc.unfreeze()
            leave_uncollected()

    def _read(self) -> ClusterCopy:
        files = list(self._disk.run(self._origin.files))
        # One of this thread, whose memory it takes.
        codec = ObjectCodec(self._schema, self._needs.annotations)
        reading = read_cluster(codec, files, self._origin.contents())
        snapshot = reading.cache.snapshot()
        nodes, pods = len(snapshot.table.rows), len(snapshot.pods())
        self._log.info("cluster of %d nodes and %d pods", nodes, pods)
        copy = ClusterCopy(reading.cache)
        for notice in (*reading.notices, *copy.notes(self._needs)):
            self._log.warning("cluster: %s", notice)
        return copy
