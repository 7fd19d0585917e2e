"""Policies: the policy files and policy objects of a server, read, checked and compiled.

They belong to a running server. A version with errors never replaces a valid one: the last valid
version stays enforced, also across a restart, by the version that the status of an object keeps.

Policies are read in a thread, which hands over one immutable value, `EnforcedPolicies`; the event
loop adopts it as a whole. If reading fails, the enforced policies stay, and the failure is that of
the background task.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from logging import ERROR, WARNING, Logger
from pathlib import Path

import msgspec

from engine.cache.store import namespace_of
from engine.cluster.client import TokenBucket
from engine.decision.registry import Registry
from engine.enforced import EnforcedPolicies, enforced
from engine.engine import Engine
from engine.work import shared_pause
from grammar.meaning.schema import Schema
from grammar.messages.diagnostics import Diagnostic, plain
from grammar.messages.texts import shown
from grammar.tree.source import Source
from policies.admission import (
    StoredObject,
    check_stored,
    likeness,
    of_another,
    stopped_object,
    unchecked_object,
    unread_object,
)
from policies.disk import Disk
from policies.loader import INTERVAL_SECONDS, Search, UnreadFile, Watcher, load
from policies.resource import Metadata
from policies.validation import InForce, Validation, Validator
from server.admission.checking_process import (
    CheckFailedError,
    CheckingProcess,
    CheckLimitError,
    CheckTimeoutError,
)
from server.capabilities.policy_statuses import TO_BIND
from server.http.health import ReadinessCheck
from server.runtime.file_cluster import ClusterSource

# The findings of one policy that are logged; `placet check` and the object's status have more.
MOST_FINDINGS = 10
MOST_TEXT = 1024
# A start logs everything at once; later, edits alone make lines.
_PER_SECOND, BURST = 5.0, 1000


class PolicyLog:
    """The log of policies: their findings when they change, and which are enforced."""

    def __init__(self, log: Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._bucket = TokenBucket(_PER_SECOND, BURST, clock)
        self._left_out = 0
        self._told: set[object] = set()
        self._count = -1

    def read(
        self, problems: Sequence[UnreadFile], validation: Validation, in_force: InForce
    ) -> None:
        """The policies have been read again, with these results; what is new is logged."""
        stale = (each.checked.policy.address for each in in_force.stale)
        states = [f"{each.message} ({each.hint})" for each in problems]
        states += [f"policy {each}: the last valid version stays enforced" for each in stale]
        why = "is not enforced: no valid version loaded yet"
        states += [f"policy {each} {why}" for each in in_force.idle]
        for text in states:
            if text not in self._told:
                self._write(ERROR, text)
        told: set[object] = {*states}
        for file in validation.files:
            of_policies = ((each.policy.address, each.diagnostics) for each in file.policies)
            for address, diagnostics in (("", file.unread), *of_policies):
                # Without its place: an edit of another policy in the same file does not change it.
                keys = [(file.source.name, address, d.code, d.message, d.hint) for d in diagnostics]
                new = [d for key, d in zip(keys, diagnostics, strict=True) if key not in self._told]
                told.update(keys)
                self._tell(new, file.source)
        self._told = told
        count = len(in_force.active)
        if count != self._count:
            self._log.info("%d %s enforced", count, "policy" if count == 1 else "policies")
        self._count = count

    def _tell(self, diagnostics: Sequence[Diagnostic], source: Source) -> None:
        # Errors first, because they are what keeps a policy from being enforced.
        ordered = sorted(diagnostics, key=lambda found: found.severity != "error")
        for found in ordered[:MOST_FINDINGS]:
            self._write(ERROR if found.severity == "error" else WARNING, plain(found, source))
        if more := ordered[MOST_FINDINGS:]:
            word = "finding" if len(more) == 1 else "findings"
            self._write(WARNING, f"{source.name}: {len(more):,} more {word}")

    def _write(self, level: int, text: str) -> None:
        if not self._bucket.try_take():
            self._left_out += 1
            return
        if self._left_out:
            missing = "%d lines about policies were left out, because too many came at once"
            self._log.warning(missing, self._left_out)
            self._left_out = 0
        self._log.log(level, "%s", shown(text, MOST_TEXT))


class _PolicyObject(msgspec.Struct):
    metadata: Metadata


# Seconds for the check of one object, on a busy machine; its processor time is limited too.
_CHECK_SECONDS = 20.0
# Seconds for checks between two looks at the cluster, and before a server first decides.
_ROUND_SECONDS, _START_SECONDS = 1.0, 20.0
# Checks and compilation of what one namespace writes may take this part of the time, but these
# seconds at once: so others' edits and the decisions of the server do not wait for them.
_SHARE, _BURST_SECONDS = 0.2, 0.4
# The longest pause of a namespace.
_PAUSE_SECONDS = 30.0
# The pauses before an object is checked again that could not be checked: each twice the last one.
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 300.0
_WAITING = "its turn to be checked has not come yet"
_BUSY = "wait: this namespace or the cluster has many changed policies"
_AGAIN = "wait: it is checked again"


@dataclass(frozen=True, slots=True)
class _CheckedObject:
    """An object as it was checked, and when. `version` is None while it has not been checked.

    `pause` is 0 for a result. What came of a late or failed check says nothing about the object:
    it is checked again after the pause.
    """

    version: object
    found: StoredObject
    at: float
    pause: float = 0.0


class Objects:
    """The checked policy objects of the cluster. An unchanged object is not checked again.

    They are checked in a process that can be killed, in the order of their namespaces' turns: a
    namespace whose objects change again and again delays only itself, and of an object only the
    newest version counts. What has had no turn yet keeps its last version.
    """

    def __init__(
        self, process: CheckingProcess, log: Logger, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._process = process
        self._log = log
        self._clock = clock
        # Never changed in place: the event loop reads it while a thread checks objects.
        self._known: Mapping[str, _CheckedObject] = {}
        # The newest JSON of each object, and its version.
        self._versions: dict[str, tuple[bytes, object]] = {}
        # Until when a namespace has used its part of the time.
        self._used: dict[str, float] = {}
        self._has_started = False

    @property
    def stored(self) -> Mapping[str, StoredObject]:
        """The objects as they were checked last, by name."""
        return {name: known.found for name, known in self._known.items()}

    def changed(self, objects: Mapping[str, bytes]) -> bool:
        """Whether `read` would find anything; the status of an object does not matter."""
        if not self._known.keys() <= objects.keys():
            return True
        changed = map(namespace_of, self._changed(objects))
        return any(self._is_due(self._used.get(each, 0.0)) for each in changed)

    def waiting(self, objects: Mapping[str, bytes]) -> bool:
        """Whether `read` would find anything now or later, when a namespace has its turn."""
        is_again = any(known.pause for known in self._known.values())
        return is_again or not self._known.keys() <= objects.keys() or bool(self._changed(objects))

    def read(self, objects: Mapping[str, bytes]) -> Mapping[str, StoredObject]:
        """The objects as far as they are checked, in the order of their names."""
        known = {name: each for name, each in self._known.items() if name in objects}
        changed = self._changed(objects)
        self._forget(objects)
        ends = self._clock() + (_ROUND_SECONDS if self._has_started else _START_SECONDS)
        # By namespace, the objects that are left in their order. First comes the first object of
        # the namespace that has used the least.
        left: dict[str, deque[tuple[int, str]]] = {}
        for number, name in enumerate(changed):
            left.setdefault(namespace_of(name), deque()).append((number, name))
        turns = [(self._used.get(each, 0.0), own[0][0], each) for each, own in left.items()]
        heapify(turns)
        alike: dict[object, StoredObject] = {}
        while turns and self._clock() < ends and self._is_due(turns[0][0]):
            _, _, namespace = heappop(turns)
            _, name = left[namespace].popleft()
            known[name] = self._check(name, objects[name], alike)
            if own := left[namespace]:
                heappush(turns, (self._used[namespace], own[0][0], namespace))
        if not self._has_started:
            for name in (name for own in left.values() for _, name in own):
                if self._clock() < ends + _START_SECONDS:
                    found, _ = self._without_rules(name, objects[name], _WAITING, _BUSY)
                else:
                    found = unread_object(name, self._process.schema, _WAITING, _BUSY)
                known[name] = _CheckedObject(None, found, 0.0)
            self._has_started = bool(objects)
        self._known = dict(sorted(known.items()))
        return self.stored

    def _changed(self, objects: Mapping[str, bytes]) -> list[str]:
        """The objects to check, that of the oldest check first."""
        found: list[tuple[float, str]] = []
        for name, raw in objects.items():
            known = self._known.get(name)
            if known is None or known.version != self._version(name, raw):
                found.append((known.at if known is not None else 0.0, name))
            elif known.pause and self._clock() >= known.at + known.pause:
                found.append((known.at, name))
        return [name for _, name in sorted(found)]

    def _version(self, name: str, raw: bytes) -> object:
        seen = self._versions.get(name)
        if seen is None or seen[0] is not raw:
            seen = self._versions[name] = raw, _version(raw)
        return seen[1]

    def _is_due(self, used_until: float) -> bool:
        """Whether a namespace that has used its part until then may have another turn."""
        latest = self._clock() + _BURST_SECONDS / _SHARE
        return not self._has_started or used_until <= latest

    def _check(self, name: str, raw: bytes, alike: dict[object, StoredObject]) -> _CheckedObject:
        """The object as it is checked; `alike` are those of the same round by `likeness`."""
        began, namespace = self._clock(), namespace_of(name)
        like, pause = likeness(name, raw), 0.0
        found = of_another(name, raw, alike[like]) if like in alike else None
        if found is None:
            found, is_result = self._checked(name, raw)
            if not is_result:
                before = self._known.get(name)
                is_same = before is not None and before.version == self._version(name, raw)
                last = before.pause if before is not None and is_same else 0.0
                pause = min(2 * last, _LONGEST_PAUSE) or _FIRST_PAUSE
            if like is not None:
                alike[like] = found
        ended = self._clock()
        used = max(self._used.get(namespace, 0.0), began)
        self._used[namespace] = min(used + (ended - began) / _SHARE, ended + _PAUSE_SECONDS)
        return _CheckedObject(self._version(name, raw), found, ended, pause)

    def _checked(self, name: str, raw: bytes) -> tuple[StoredObject, bool]:
        """The object as it is checked, and whether that is a result about it."""
        try:
            checking = check_stored, name, raw, self._process.schema
            return self._process.run(_CHECK_SECONDS, *checking), True
        except CheckLimitError as error:
            return self._without_rules(name, raw, error.message, error.hint)
        except CheckTimeoutError as error:
            return self._without_rules(name, raw, error.message, _AGAIN)[0], False
        except CheckFailedError as error:
            self._log.error("the check of %s failed: %s", name, error)
            hint = "report this, with the log of Placet"
            return self._without_rules(name, raw, "the check failed", hint)[0], False

    def _without_rules(
        self, name: str, raw: bytes, message: str, hint: str
    ) -> tuple[StoredObject, bool]:
        schema = self._process.schema
        try:
            reading = unchecked_object, name, raw, schema, message, hint
            return self._process.run(_CHECK_SECONDS, *reading), True
        except CheckLimitError:
            return stopped_object(name, message, hint), True
        except (CheckTimeoutError, CheckFailedError):
            return unread_object(name, schema, message, _AGAIN), False

    def _forget(self, objects: Mapping[str, bytes]) -> None:
        """Forgets absent objects, and namespaces without objects that have nothing to wait for."""
        self._versions = {n: seen for n, seen in self._versions.items() if n in objects}
        present, now = set(map(namespace_of, objects)), self._clock()
        self._used = {n: at for n, at in self._used.items() if n in present or at > now}


def _version(raw: bytes) -> object:
    """A value that changes with the spec of the object, and not with its status."""
    try:
        metadata = msgspec.json.decode(raw, type=_PolicyObject).metadata
    except msgspec.MsgspecError:
        return raw
    return (metadata.uid, metadata.generation) if metadata.generation else raw


class PolicyReader:
    """Reads the policies of a server, from files and from the cluster.

    INVARIANT: one thread uses it at a time. What others use of the result is `EnforcedPolicies`.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        schema: Schema,
        log: Logger,
        process: CheckingProcess,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """The files are checked by the caller's thread, the objects of the cluster by `process`."""
        self._paths = paths
        self._validator = Validator(schema)
        self._report = PolicyLog(log)
        self._disk = Disk()
        self._watcher = Watcher(lambda visit: Search(paths, visit).paths, self._disk)
        self.objects = Objects(process, log, clock)
        self._enforced: EnforcedPolicies | None = None
        # Those of the cluster when the policies were read last.
        self.read_objects: Mapping[str, bytes] | None = None
        # What cannot be read although policies of it are in force; from any thread.
        self.failure = ""

    @property
    def enforced(self) -> EnforcedPolicies:
        """What was read last."""
        assert self._enforced is not None, "policies are read before they are enforced"
        return self._enforced

    def changed(self) -> bool:
        return self._watcher.changed()

    def read(self, objects: Mapping[str, bytes] | None) -> EnforcedPolicies:
        """Reads everything again, and logs what has become wrong, with its effect.

        `objects` are those of the cluster as JSON by resource and key, None while not known.
        """
        self.read_objects = objects
        loaded = self._disk.run(lambda visit: load(self._paths, visit))
        stored = self.objects.read(objects or {})
        validation = self._validator.validate(
            loaded.sources, [each.checked.file for each in stored.values()]
        )
        kept = {each.message: list(self._unread(each)) for each in loaded.problems}
        failed = "; ".join(message for message, files in kept.items() if files)
        self.failure = shown(f"{failed}: the last versions stay enforced") if failed else ""
        self._enforced = enforced(
            validation,
            stored,
            previous=self._enforced,
            unread=[file for files in kept.values() for file in files],
            is_complete=objects is not None,
        )
        self._report.read(loaded.problems, validation, self._enforced.in_force)
        return self._enforced

    def _unread(self, failure: UnreadFile) -> Iterator[str]:
        """The files of enforced policies that can no longer be read, though they may exist.

        A file that is gone is read: it has no policies. Where a folder was, nobody can look.
        """
        if self._enforced is None:
            return
        for active in self._enforced.in_force.active:
            is_in_folder = failure.is_gone and active.file != failure.path
            if (failure.unread or is_in_folder) and Path(active.file).is_relative_to(failure.path):
                yield active.file


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
