"""Status reporting: what the leader writes into the cluster: statuses, events, and requeues.

The StatusReporter belongs to a running server and writes once a second what has changed. Statuses
works out the status of each policy object.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from logging import Logger
from typing import Literal

import msgspec

from engine.cache.cache import Cache
from engine.cache.informers import Informers
from engine.cache.snapshot import Snapshot
from engine.cache.tallies import Scope
from engine.cluster import status
from engine.cluster.client import ApiClient
from engine.cluster.events import Event, Events, Regarding
from engine.cluster.lease import micro_time
from engine.cluster.requeue import Requeuer
from engine.cluster.status import Reported
from engine.counting.share_status import PodCounts, ShareStatus
from engine.decision.recent_answers import RejectedPods
from engine.engine import Engine
from engine.errors import ApiError, ApiUnreachableError, NotSyncedError
from engine.objects.peer import Peer
from engine.program.frame import Frame
from engine.program.program import Program, ShareProgram
from grammar.texts import shown
from grammar.values.maps import EMPTY_RECORD
from grammar.values.time import Timestamp
from policies.admission import CheckedObject, lines
from policies.resource import ClusterSpec, Condition, InForce, Manifest, Metadata, Status
from policies.sugar import CLAUSE, matches
from policies.validation import CheckedFile
from server.runtime.policies import Policies, holds

GROUP_PATH = "/apis/placement-policy.scheduling.x-k8s.io/v1"
_MOST_LINES, _MOST_TEXT = 64, 1024


class _Object(msgspec.Struct):
    metadata: Metadata
    apiVersion: str = ""
    kind: str = ""
    status: msgspec.Raw = msgspec.Raw(b"{}")


class Statuses:
    """The statuses of policy objects, from the enforced policies and the pods of the cluster."""

    def __init__(self, policies: Policies, cache: Cache) -> None:
        self._policies = policies
        self._cache = cache
        # By the name of an object: its version and program, and their counts.
        self._kept: dict[str, tuple[object, ShareStatus]] = {}

    def reports(
        self, objects: Mapping[str, bytes], snapshot: Snapshot, lost: Mapping[str, str]
    ) -> Iterator[Reported]:
        """The report of each object. `lost` has, by the address of a policy, which governs instead.

        An object that has changed since it was read is left out.
        """
        files = {file.source.name: file for file in self._policies.validation.files}
        for name, checked in self._policies.objects.checked.items():
            if name not in objects:
                continue
            metadata, written = _read(objects[name])
            manifest = checked.manifest
            if manifest is not None and manifest.metadata.generation != metadata.generation:
                continue
            wanted = self._status(name, checked, files.get(name, checked.file), written, metadata)
            program = self._policies.program(name)
            winner = lost.get(program.address, "") if program is not None else ""
            conditions = (*wanted.conditions, _conflicting(winner, metadata.generation))
            wanted = msgspec.structs.replace(wanted, conditions=conditions)
            if manifest is not None:
                counts = self._counts(name, manifest, program, snapshot)
                wanted = msgspec.structs.replace(
                    wanted,
                    matchedPods=counts.matched,
                    placedPods=counts.placed,
                    targetPods=counts.target,
                    violations=counts.violations,
                )
            yield Reported(_path(name), metadata.resourceVersion, written, wanted)

    def _status(
        self,
        name: str,
        checked: CheckedObject,
        file: CheckedFile,
        written: Status,
        metadata: Metadata,
    ) -> Status:
        errors = tuple(shown(line, _MOST_TEXT) for line in lines(file, "error"))
        good = holds(checked) and not errors
        stands = self._policies.program(name) is not None
        in_force = written.inForce
        if good and checked.manifest is not None:
            in_force = InForce(metadata.generation, checked.manifest.spec.rules or "")
        said = (*errors, *(shown(line, _MOST_TEXT) for line in lines(file, "warning")))
        return Status(
            observedGeneration=metadata.generation,
            conditions=tuple(_conditions(errors, metadata.generation, good=good, stands=stands)),
            inForce=in_force,
            diagnostics=said[:_MOST_LINES],
        )

    def _counts(
        self, name: str, manifest: Manifest, program: Program | None, snapshot: Snapshot
    ) -> PodCounts:
        metadata = manifest.metadata
        version = (metadata.uid, metadata.generation, id(program), self._namespaces(manifest))
        kept = self._kept.get(name)
        if kept is None or kept[0] != version:
            is_cluster = isinstance(manifest.spec, ClusterSpec)
            scope = Scope(None if is_cluster else metadata.namespace)
            counts = self._selects(manifest)
            standing = ShareStatus(("status", version), scope, counts, _share(program))
            kept = self._kept[name] = version, standing
        slots = program.slots if program is not None else 0
        frame = Frame(EMPTY_RECORD, Timestamp.now(), slots=slots)
        return kept[1].count(self._cache, snapshot, frame)

    def _namespaces(self, manifest: Manifest) -> frozenset[str] | None:
        """The namespaces that a cluster policy selects; None without a namespace selector."""
        if not isinstance(manifest.spec, ClusterSpec) or manifest.spec.namespaceSelector is None:
            return None
        selector = manifest.spec.namespaceSelector
        there = self._cache.namespaces()
        return frozenset(each.name for each in there if matches(selector, each.labels))

    def _selects(self, manifest: Manifest) -> Callable[[Peer], bool]:
        selector, inside = manifest.spec.podSelector, self._namespaces(manifest)

        def counts(pod: Peer) -> bool:
            if inside is not None and pod.namespace not in inside:
                return False
            return pod.deletionTimestamp is None and matches(selector, pod.labels)

        return counts


def _read(raw: bytes) -> tuple[Metadata, Status]:
    """The metadata and status of an object; a status in another format counts as empty."""
    there = msgspec.json.decode(raw, type=_Object)
    try:
        return there.metadata, msgspec.json.decode(there.status, type=Status)
    except msgspec.MsgspecError:
        return there.metadata, Status()


def _conditions(
    errors: tuple[str, ...], generation: int, *, good: bool, stands: bool
) -> Iterator[Condition]:
    first = errors[0] if errors else ""
    compiled: tuple[Literal["True", "False"], str, str]
    ready: tuple[Literal["True", "False"], str, str]
    compiled = ("True", "Compiled", "") if good else ("False", "Errors", first)
    if good and stands:
        ready = ("True", "InForce", "")
    elif stands:
        ready = ("False", "LastGoodInForce", "the last version that compiled stays enforced")
    else:
        ready = ("False", "NotInForce", "no version of it has compiled")
    for kind, (value, reason, message) in (("Ready", ready), ("Compiled", compiled)):
        yield Condition(kind, value, reason, message, "", generation)


def _conflicting(winner: str, generation: int) -> Condition:
    if not winner:
        return Condition("Conflicting", "False", "None", "", "", generation)
    message = f"`{winner}` governs pods that this policy selects too"
    return Condition("Conflicting", "True", "Overruled", message, "", generation)


def _share(program: Program | None) -> ShareProgram | None:
    """The share that the declarative part of an object is compiled to."""
    shares = program.shares if program is not None else ()
    return next((share for share in shares if share.count.name == CLAUSE), None)


def _path(name: str) -> str:
    """The API path of the object `placementpolicies/shop/web`."""
    resource, _, key = name.partition("/")
    namespace, slash, short = key.rpartition("/")
    where = f"/namespaces/{namespace}" if slash else ""
    return f"{GROUP_PATH}{where}/{resource}/{short}"


_PERIOD_SECONDS = 1.0


class StatusReporter:
    """Writes what has changed once a second, while this replica leads."""

    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        policies: Policies,
        engine: Engine,
        lost: dict[str, str],
        rejected_pods: RejectedPods,
        identity: str,
        log: Logger,
    ) -> None:
        """`lost` has, by the address of a policy, which one governs its pods instead."""
        self._client = client
        self._informers = informers
        self._policies = policies
        self._lost = lost
        self._statuses = Statuses(policies, informers.cache)
        self._events = Events(client, identity)
        self._requeuer = Requeuer(client, engine, rejected_pods)
        self._in_force: object = None
        self._log = log
        self._failure = ""

    async def run(self, leads: Callable[[], bool]) -> None:
        while True:
            await asyncio.sleep(_PERIOD_SECONDS)
            if not leads():
                self._events.forget()
                continue
            try:
                await self._report()
                self._failure = ""
            except NotSyncedError:
                continue
            except (ApiError, ApiUnreachableError) as error:
                # The same failure may last for long: it is logged once.
                if str(error) != self._failure:
                    self._log.warning("writing to the cluster failed: %s", error)
                self._failure = str(error)

    async def _report(self) -> None:
        snapshot, objects = self._informers.snapshot(), self._informers.policies
        if self._policies.in_force is not self._in_force:
            self._in_force = self._policies.in_force
            self._lost.clear()
        now = micro_time(Timestamp.now())
        lost = dict(self._lost)
        reports = list(self._statuses.reports(objects, snapshot, lost))
        self._tell_conflicts(objects, lost)
        await self._requeuer.requeue(snapshot.pending, now)
        await self._events.send(now)
        await status.write(self._client, reports, f"{now[:19]}Z")

    def _tell_conflicts(self, objects: Mapping[str, bytes], lost: Mapping[str, str]) -> None:
        for name in objects:
            program = self._policies.program(name)
            if program is None or (winner := lost.get(program.address)) is None:
                continue
            note = f"`{winner}` governs pods that this policy selects too"
            there = msgspec.json.decode(objects[name], type=_Object)
            meta = there.metadata
            about = Regarding(there.apiVersion, there.kind, meta.namespace, meta.name, meta.uid)
            self._events.add(Event(about, "Warning", "Conflicting", "Select", note))
