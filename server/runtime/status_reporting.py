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
from grammar.values.maps import EMPTY_RECORD
from grammar.values.time import Timestamp
from policies.admission import CheckedObject, lines
from policies.resource import ClusterSpec, Condition, InForce, Manifest, Metadata, Status
from policies.sugar import CLAUSE, matches
from policies.validation import CheckedFile
from server.runtime.policies import Policies

GROUP_PATH = "/apis/placement-policy.scheduling.x-k8s.io/v1"
_MOST_LINES, _MOST_TEXT = 64, 1024

# The status, reason and message of a condition.
_Outcome = tuple[Literal["True", "False"], str, str]


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
        self,
        objects: Mapping[str, bytes],
        programs: Mapping[str, Program | None],
        conflicts: Mapping[str, str],
        snapshot: Snapshot,
    ) -> Iterator[Reported]:
        """The report of each object. `programs` and `conflicts` are by the names of the objects.

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
            program, file = programs[name], files.get(name, checked.file)
            conflict = conflicts.get(name, "")
            wanted = _status(checked, file, written, metadata, program, conflict)
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
            share_status = ShareStatus(("status", version), scope, counts, _share(program))
            kept = self._kept[name] = version, share_status
        slots = program.slots if program is not None else 0
        frame = Frame(EMPTY_RECORD, Timestamp.now(), slots=slots)
        return kept[1].count(self._cache, snapshot, frame)

    def _namespaces(self, manifest: Manifest) -> frozenset[str] | None:
        """The namespaces that a cluster policy selects; None without a namespace selector."""
        if not isinstance(manifest.spec, ClusterSpec) or manifest.spec.namespaceSelector is None:
            return None
        selector = manifest.spec.namespaceSelector
        known = self._cache.namespaces()
        return frozenset(each.name for each in known if matches(selector, each.labels))

    def _selects(self, manifest: Manifest) -> Callable[[Peer], bool]:
        selector, inside = manifest.spec.podSelector, self._namespaces(manifest)

        def counts(pod: Peer) -> bool:
            if inside is not None and pod.namespace not in inside:
                return False
            return pod.deletionTimestamp is None and matches(selector, pod.labels)

        return counts


def _read(raw: bytes) -> tuple[Metadata, Status]:
    """The metadata and status of an object; a status in another format counts as empty."""
    policy = msgspec.json.decode(raw, type=_Object)
    try:
        return policy.metadata, msgspec.json.decode(policy.status, type=Status)
    except msgspec.MsgspecError:
        return policy.metadata, Status()


def _status(
    checked: CheckedObject,
    file: CheckedFile,
    written: Status,
    metadata: Metadata,
    program: Program | None,
    conflict: str,
) -> Status:
    """The status of an object without its counts."""
    errors = lines(file, "error")
    good = checked.holds and not errors
    in_force = written.inForce
    if good and checked.manifest is not None:
        in_force = InForce(metadata.generation, checked.manifest.spec.rules or "")
    ready: _Outcome
    if program is None:
        ready = ("False", "NotInForce", "no version of it has compiled")
    elif good:
        ready = ("True", "InForce", "")
    else:
        ready = ("False", "LastGoodInForce", "the last version that compiled stays enforced")
    first = errors[0] if errors else ""
    outcomes: Mapping[str, _Outcome] = {
        "Ready": ready,
        "Compiled": ("True", "Compiled", "") if good else ("False", "Errors", first),
        "Conflicting": ("True", "Overruled", conflict) if conflict else ("False", "None", ""),
    }
    texts = tuple(line[:_MOST_TEXT] for line in (*errors, *lines(file, "warning")))
    return Status(
        observedGeneration=metadata.generation,
        conditions=tuple(
            Condition(kind, *outcome, "", metadata.generation) for kind, outcome in outcomes.items()
        ),
        inForce=in_force,
        diagnostics=texts[:_MOST_LINES],
    )


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
        programs = {name: self._policies.program(name) for name in objects}
        conflicts = {
            name: f"`{winner}` governs pods that this policy selects too"
            for name, program in programs.items()
            if program is not None and (winner := self._lost.get(program.address))
        }
        now = micro_time(Timestamp.now())
        reports = list(self._statuses.reports(objects, programs, conflicts, snapshot))
        for name, note in conflicts.items():
            self._events.add(_conflict_event(objects[name], note))
        await self._requeuer.requeue(snapshot.pending, now)
        await self._events.send(now)
        await status.write(self._client, reports, f"{now[:19]}Z")


def _conflict_event(raw: bytes, note: str) -> Event:
    policy = msgspec.json.decode(raw, type=_Object)
    meta = policy.metadata
    about = Regarding(policy.apiVersion, policy.kind, meta.namespace, meta.name, meta.uid)
    return Event(about, "Warning", "Conflicting", "Select", note)
