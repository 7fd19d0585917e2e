"""Policies: the policy files and policy objects of a server, read, checked and compiled.

They belong to a running server. A version with errors never replaces a valid one: the last valid
version stays enforced, also across a restart, by the version that the status of an object keeps.

Policies are read in a thread, which hands over one immutable value, `EnforcedPolicies`; the event
loop adopts it as a whole. If reading fails, the enforced policies stay, and the failure is that of
the background task.
"""

from __future__ import annotations

import asyncio
import math
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import heapify, heappop, heappush
from logging import ERROR, WARNING, Logger
from pathlib import Path
from typing import Generic, TypeVar

from engine.cache.policy_objects import namespace_of
from engine.cluster.client import TokenBucket
from engine.decision.registry import Registry
from engine.enforced import EnforcedPolicies, InForce, enforced
from engine.engine import Engine
from engine.work import shared_pause
from grammar.checker.policy_checker import check_policy
from grammar.meaning.schema import Schema
from grammar.messages.diagnostics import Diagnostic, plain
from grammar.messages.texts import named, shown
from grammar.tree.policy import Policy
from grammar.tree.source import Source
from policies.admission import (
    StoredObject,
    check_stored,
    likeness,
    of_another,
    stopped_object,
    unchecked_object,
    version_of,
)
from policies.disk import Disk
from policies.loader import Search, UnreadFile, Watcher, load
from policies.validation import (
    CheckedFile,
    Validation,
    Validator,
    check_source,
    stopped_file,
    unchecked_file,
)
from server.admission.checking_process import (
    CheckFailedError,
    CheckingProcess,
    CheckLimitError,
    CheckStoppedError,
    CheckTimeoutError,
)
from server.capabilities.policy_statuses import TO_BIND
from server.http.health import ReadinessCheck
from server.runtime.file_cluster import ClusterSource

# The findings of one policy that are logged; `placet check` and the object's status have more.
MOST_FINDINGS = 10
MOST_TEXT = 1024
# The policies that readiness names.
_MOST_NAMED = 3
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


# What is checked, and what a check finds.
Given = TypeVar("Given")
Found = TypeVar("Found")

# Seconds for one check, on a busy machine; its processor time is limited too.
_CHECK_SECONDS = 20.0
# Seconds for checks between two looks, and before a server first decides.
_ROUND_SECONDS, _START_SECONDS = 1.0, 20.0
# Checks and compilation of what one namespace writes may take this part of the time, but these
# seconds at once: so others' edits and the decisions of the server do not wait for them.
_SHARE, _BURST_SECONDS = 0.2, 0.4
# The longest pause of a namespace.
_PAUSE_SECONDS = 30.0
# The pauses before a check is made again that could not be made: each twice the last one.
_FIRST_PAUSE, _LONGEST_PAUSE = 2.0, 300.0
_WAITING = "its turn to be checked has not come yet"
_BUSY = "wait: this namespace or the cluster has many changed policies"
_AGAIN = "wait: it is checked again"


@dataclass(frozen=True, slots=True)
class _LastCheck(Generic[Found]):
    """A last check: what it found, and when. `version` is None where none has been made yet.

    `pause` is 0 for a result. What came of a late or failed check says nothing about the text: it
    is checked again after the pause. `lacks_hints` says that hints are still to be looked for.
    """

    version: object
    found: Found
    at: float
    pause: float = 0.0
    lacks_hints: bool = False


class Checks(Generic[Given, Found]):
    """The checks of policy objects or files. What has not changed is not checked again.

    They are made in a process that can be killed, by turns: a namespace whose objects change again
    and again delays only itself, and so does a file. Only the newest version counts. What has had
    no turn yet keeps its last version. Hints take much longer than checks, so they come after all
    checks, and those that were made in the same round wait for them a second at most.
    """

    def __init__(
        self, process: CheckingProcess, log: Logger, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._process = process
        self._log = log
        self._clock = clock
        self._known: dict[str, _LastCheck[Found]] = {}
        # The newest text of each, and its version.
        self._versions: dict[str, tuple[Given, object]] = {}
        # Until when a namespace or file has used its part of the time.
        self._used: dict[str, float] = {}
        self._has_started = False
        self._settled: Mapping[str, Given] | None = None

    @property
    def stored(self) -> Mapping[str, Found]:
        """What was found last, by name."""
        return {name: known.found for name, known in self._known.items()}

    def changed(self, given: Mapping[str, Given]) -> bool:
        """Whether `read` would find anything; the status of an object does not matter.

        A mapping with which nothing is left to do is not looked at again.
        """
        if given is self._settled:
            return False
        if not self._known.keys() <= given.keys():
            return True
        left = [*self._changed(given), *self._without_hints(given)]
        if not left and not any(known.pause for known in self._known.values()):
            self._settled = given
        return any(self._is_due(self._used.get(self._turn(each), 0.0)) for each in left)

    def read(self, given: Mapping[str, Given]) -> Mapping[str, Found]:
        """What is found of those that are checked, in the order of the given names."""
        self._known = {name: each for name, each in self._known.items() if name in given}
        changed, alike = self._changed(given), dict[object, Found]()
        self._forget(given)
        ends = self._clock() + (_ROUND_SECONDS if self._has_started else _START_SECONDS)
        seconds = _CHECK_SECONDS
        for name in self._in_turns(changed, ends):
            self._known[name] = self._check(name, given[name], alike)
            # What has been checked waits no longer for hints.
            seconds = _ROUND_SECONDS
        if not self._has_started:
            for name in (each for each in changed if each not in self._known):
                if self._clock() < ends + _START_SECONDS:
                    without = name, given[name], _WAITING, _BUSY
                    found, _ = self._without_rules(*without, is_late=True)
                else:
                    found = self._unread(name, _WAITING, _BUSY)
                self._known[name] = _LastCheck(None, found, 0.0)
            self._has_started = bool(given)
        for name in self._in_turns(self._without_hints(given), ends):
            self._known[name] = self._with_hints(name, given[name], self._known[name], seconds)
        self._known = {name: self._known[name] for name in given if name in self._known}
        return self.stored

    def _in_turns(self, names: Iterable[str], ends: float) -> Iterator[str]:
        """The names that have their turn until then; what is done with each is on its account.

        First comes the first one of the namespace or file that has used the least.
        """
        left: dict[str, deque[tuple[int, str]]] = {}
        for number, name in enumerate(names):
            left.setdefault(self._turn(name), deque()).append((number, name))
        turns = [(self._used.get(each, 0.0), own[0][0], each) for each, own in left.items()]
        heapify(turns)
        while turns and (began := self._clock()) < ends and self._is_due(turns[0][0]):
            used, _, turn = heappop(turns)
            _, name = left[turn].popleft()
            yield name
            ended = self._clock()
            used = max(used, began) + (ended - began) / _SHARE
            self._used[turn] = min(used, ended + _PAUSE_SECONDS)
            if own := left[turn]:
                heappush(turns, (self._used[turn], own[0][0], turn))

    def _changed(self, given: Mapping[str, Given]) -> list[str]:
        """Those to check, that of the oldest check first."""
        found: list[tuple[float, str]] = []
        for name, text in given.items():
            known = self._known.get(name)
            if known is None or known.version != self._version(name, text):
                found.append((known.at if known is not None else 0.0, name))
            elif known.pause and self._clock() >= known.at + known.pause:
                found.append((known.at, name))
        return [name for _, name in sorted(found)]

    def _without_hints(self, given: Mapping[str, Given]) -> list[str]:
        """Those whose text has been checked, but without hints."""
        lacking = (name for name, known in self._known.items() if known.lacks_hints)
        return [n for n in lacking if self._known[n].version == self._version(n, given[n])]

    def _version(self, name: str, text: Given) -> object:
        seen = self._versions.get(name)
        if seen is None or seen[0] is not text:
            seen = self._versions[name] = text, self._version_of(text)
        return seen[1]

    def _is_due(self, used_until: float) -> bool:
        """Whether what has used its part of the time until then may have another turn."""
        latest = self._clock() + _BURST_SECONDS / _SHARE
        return not self._has_started or used_until <= latest

    def _check(self, name: str, text: Given, alike: dict[object, Found]) -> _LastCheck[Found]:
        """What a check finds; `alike` has what is found in the same round, by `_likeness`."""
        version, like = self._version(name, text), self._likeness(name, text)
        found = self._of_another(name, text, alike[like]) if like in alike else None
        if found is not None:
            return _LastCheck(version, found, self._clock())
        found, is_result, lacks_hints = self._checked(name, text)
        if like is not None:
            alike[like] = found
        pause = 0.0
        if not is_result:
            before = self._known.get(name)
            last = before.pause if before is not None and before.version == version else 0.0
            pause = min(2 * last, _LONGEST_PAUSE) or _FIRST_PAUSE
        return _LastCheck(version, found, self._clock(), pause, lacks_hints)

    def _checked(self, name: str, text: Given) -> tuple[Found, bool, bool]:
        """What a check finds, whether that is a result about the text, and may have hints."""
        is_limit = False
        try:
            found = self._run(name, text, _CHECK_SECONDS, has_hints=False)
            return found, True, self._may_have_hints(found)
        except CheckLimitError as error:
            message, hint, is_limit = error.message, error.hint, True
        except CheckTimeoutError as error:
            message, hint = error.message, _AGAIN
        except CheckFailedError as error:
            self._log.error("the check of %s failed: %s", name, error)
            message, hint = "the check failed", "report this, with the log of Placet"
        found, is_read = self._without_rules(name, text, message, hint, is_late=not is_limit)
        return found, is_limit and is_read, False

    def _run(self, name: str, text: Given, seconds: float, *, has_hints: bool) -> Found:
        """What the process finds; raises as it does."""
        check = partial(self._check_function, has_hints=has_hints)
        return self._process.run(seconds, check, *self._given(name, text), self._process.schema)

    def _without_rules(
        self, name: str, text: Given, message: str, hint: str, *, is_late: bool
    ) -> tuple[Found, bool]:
        """What holds without the rules, and whether that is a result about the text.

        The pods that it selects wait, and while not even these are known, all that it may select.
        """
        given = *self._given(name, text), self._process.schema, message, hint
        reading = self._late_function if is_late else self._unchecked_function
        try:
            return self._process.run(_CHECK_SECONDS, reading, *given), True
        except (CheckStoppedError, CheckFailedError) as error:
            is_read = isinstance(error, CheckLimitError)
            return self._unread(name, message, hint, is_late=not is_read), is_read

    def _with_hints(
        self, name: str, text: Given, plain: _LastCheck[Found], seconds: float
    ) -> _LastCheck[Found]:
        """The check with hints, or without them where they cannot be made."""
        try:
            found = self._run(name, text, seconds, has_hints=True)
            return replace(plain, found=found, lacks_hints=False)
        except CheckTimeoutError:
            # Next time it may have as long as a check.
            return replace(plain, lacks_hints=seconds < _CHECK_SECONDS)
        except CheckLimitError:
            pass
        except CheckFailedError as error:
            self._log.error("the hints of %s failed: %s", name, error)
        return replace(plain, lacks_hints=False)

    def _forget(self, given: Mapping[str, Given]) -> None:
        """Forgets what is absent, and turns of nothing that have nothing to wait for."""
        self._versions = {n: seen for n, seen in self._versions.items() if n in given}
        present, now = set(map(self._turn, given)), self._clock()
        self._used = {n: at for n, at in self._used.items() if n in present or at > now}

    # ---- what objects and files differ in

    # Run in the process, with what is `_given` and the schema.
    _check_function: Callable[..., Found]
    _unchecked_function: Callable[..., Found]
    _late_function: Callable[..., Found]

    @abstractmethod
    def _given(self, name: str, text: Given) -> Sequence[object]:
        """The text as the functions take it."""

    @abstractmethod
    def _may_have_hints(self, found: Found) -> bool:
        """Whether a check with hints can say more."""

    @abstractmethod
    def _unread(self, name: str, message: str, hint: str, *, is_late: bool = True) -> Found:
        """What holds while nothing is known of the text, or, if not `is_late`, can be."""

    @abstractmethod
    def _turn(self, name: str) -> str:
        """Whose turn it is when this one is checked."""

    @abstractmethod
    def _version_of(self, text: Given) -> object:
        """A value that changes with what is checked."""

    def _likeness(self, name: str, text: Given) -> object | None:
        """A value that is equal for those of which one check is enough, or None."""

    def _of_another(self, name: str, text: Given, other: Found) -> Found | None:
        """What is found, taken from another one of the same likeness, if that is possible."""


class Objects(Checks[bytes, StoredObject]):
    """The objects of the cluster as checks find them, by turns of their namespaces."""

    _check_function = staticmethod(check_stored)
    _unchecked_function = staticmethod(unchecked_object)
    _late_function = partial(unchecked_object, is_late=True)

    def _given(self, name: str, text: bytes) -> Sequence[object]:
        return name, text

    def _may_have_hints(self, found: StoredObject) -> bool:
        return not found.checked.holds

    def _unread(self, name: str, message: str, hint: str, *, is_late: bool = True) -> StoredObject:
        return stopped_object(name, message, hint, self._process.schema, is_late=is_late)

    def _turn(self, name: str) -> str:
        return namespace_of(name)

    def _version_of(self, text: bytes) -> object:
        return version_of(text)

    def _likeness(self, name: str, text: bytes) -> object | None:
        return likeness(name, text)

    def _of_another(self, name: str, text: bytes, other: StoredObject) -> StoredObject | None:
        return of_another(name, text, other)


class Files(Checks[str, CheckedFile]):
    """The checks of policy files. What has used the least time comes first; none has to pause."""

    _check_function = staticmethod(check_source)
    _unchecked_function = _late_function = staticmethod(unchecked_file)

    def _given(self, name: str, text: str) -> Sequence[object]:
        return (Source(name, text),)

    def _may_have_hints(self, found: CheckedFile) -> bool:
        return found.may_have_hints

    def _unread(self, name: str, message: str, hint: str, *, is_late: bool = True) -> CheckedFile:
        """The pods that waited for it wait on, if it is late."""
        before = self._known.get(name)
        refusing = before.found.refusing if before is not None and is_late else ()
        return replace(stopped_file(Source(name, ""), message, hint), refusing=refusing)

    def _turn(self, name: str) -> str:
        return name

    def _version_of(self, text: str) -> object:
        return text

    def _is_due(self, used_until: float) -> bool:
        del used_until
        return True


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
        """Files, and the objects of the cluster, are checked by `process`."""
        self._paths = paths
        self._validator = Validator(schema)
        self._schema = schema
        # The paths of which nobody has known all pods since the start; None before it.
        self.unknown: set[Path] | None = None
        self._report = PolicyLog(log)
        self._disk = Disk()
        self.watcher = Watcher(lambda visit: Search(paths, visit).paths, self._disk)
        self._files = Files(process, log, clock)
        self._texts: Mapping[str, str] = {}
        self.objects = Objects(process, log, clock)
        self._enforced: EnforcedPolicies | None = None
        # Those of the cluster when the policies were read last.
        self.read_objects: Mapping[str, bytes] | None = None
        # What cannot be read or is not in force as it is written; from any thread.
        self.failure = ""
        # When files are read again that could not be read, and the last pause before that.
        self._again, self._pause = math.inf, 0.0
        self._clock = clock

    @property
    def enforced(self) -> EnforcedPolicies:
        """What was read last."""
        assert self._enforced is not None, "policies are read before they are enforced"
        return self._enforced

    def changed(self) -> bool:
        """Whether a file is another one, has its turn to be checked, or was not readable."""
        is_again = self._clock() >= self._again
        return self.watcher.changed() or is_again or self._files.changed(self._texts)

    def read(self, objects: Mapping[str, bytes] | None) -> EnforcedPolicies:
        """Reads everything again, and logs what has become wrong, with its effect.

        `objects` are those of the cluster as JSON by resource and key, None while not known.
        """
        self.read_objects = objects
        loaded = self._disk.run(lambda visit: load(self._paths, visit))
        self._texts = {source.name: source.text for source in loaded.sources}
        files = self._files.read(self._texts)
        stored = self.objects.read(dict(sorted((objects or {}).items())))
        of_objects = (each.checked.file for each in stored.values())
        awaited = self._awaited(files.values(), loaded.problems)
        validation = self._validator.validate((), [*awaited, *of_objects])
        kept = {each.message: list(self._unread(each)) for each in loaded.problems}
        is_unread = any(each.unread for each in loaded.problems)
        self._pause = (min(2 * self._pause, _LONGEST_PAUSE) or _FIRST_PAUSE) if is_unread else 0.0
        self._again = self._clock() + self._pause if is_unread else math.inf
        self._enforced = enforced(
            validation,
            stored,
            previous=self._enforced,
            unread=[file for files in kept.values() for file in files],
            is_complete=objects is not None,
        )
        self._report.read(loaded.problems, validation, self._enforced.in_force)
        self.failure = "; ".join(_troubles(loaded.problems, kept, self._enforced))
        return self._enforced

    def _awaited(
        self, files: Iterable[CheckedFile], problems: Iterable[UnreadFile]
    ) -> Iterator[CheckedFile]:
        """The files, and what cannot be read: all pods wait for what nobody knew at the start."""
        unread = [stopped_file(Source(e.path, ""), e.message, e.hint) for e in problems if e.unread]
        found = {Path(each.source.name): each for each in (*files, *unread)}
        unknown = {path for path, each in found.items() if not (each.knows_pods or each.private)}
        if (old := self.unknown) is not None:
            # What was unknown for its folder may be so by itself, and the other way round.
            unknown = {
                path
                for path in unknown
                if any(path in (e, *e.parents) or e in path.parents for e in old)
            }
        self.unknown = unknown
        for path, each in found.items():
            if path in unknown:
                all_pods = check_policy(Policy(each.source.name, (), cluster=True), self._schema)
                yield replace(each, refusing=(*each.refusing, all_pods))
            elif each not in unread:
                yield each

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


def _troubles(
    problems: Iterable[UnreadFile], kept: Mapping[str, Sequence[str]], found: EnforcedPolicies
) -> Iterator[str]:
    """The troubles of readiness: what cannot be read, or is not in force as it is written.

    `kept` are the files of policies that stay in force, by the message of the problem.
    """
    if failed := "; ".join(message for message, files in kept.items() if files):
        yield shown(f"{failed}: the last versions stay enforced")
    lost = [p.message for p in problems if (p.unread or p.is_gone) and not kept[p.message]]
    if lost:
        yield shown(named(lost, _MOST_NAMED))
    if broken := [f"{each.policy} ({each.instead})" for each in found.broken]:
        are = "policy is" if len(broken) == 1 else "policies are"
        said = f"{len(broken)} {are} not in force as written: {named(broken, _MOST_NAMED)}"
        yield shown(said, MOST_TEXT)


@dataclass(eq=False, slots=True)
class PolicyReloader:
    """Looks for changed policies again and again, and has the engine adopt them.

    The engine has adopted the policies that were read. `binds` says that this server has the verb
    bind. `adopted` is told of policies whenever the engine has adopted others.
    """

    _policies: PolicyReader
    view: ClusterSource
    engine: Engine
    _log: Logger
    binds: bool = True
    adopted: Callable[[Registry], None] = lambda _: None
    enforced: EnforcedPolicies = field(init=False)
    # INVARIANT: the thread alone uses these two and `_policies`, but for a failure of reading, and
    # the lock lets one thread at a time run.
    _objects: Mapping[str, bytes] | None = field(init=False)
    _is_due: bool = False
    _warned: set[str] = field(default_factory=set)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.enforced, self._objects = self._policies.enforced, self._policies.read_objects
        self._warn()

    def readiness(self) -> Sequence[ReadinessCheck]:
        """Readiness: policies have been compiled, and the view is ready."""
        found = self._policies
        # Nobody knows the pods of a file, so all wait: a rollout must not go on to other replicas.
        policies = ReadinessCheck("policies", found.failure, is_warning=not found.unknown)
        return (policies, *self.view.checks())

    async def run(self) -> None:
        while True:
            await shared_pause(self._policies.watcher.pause)
            await self.catch_up()

    async def catch_up(self) -> None:
        """Looks once; returns when what it found is enforced."""
        # Requests are answered while files are read, but never by half of a change.
        async with self._lock:
            enforced = await asyncio.to_thread(self._look, self.view.policies())
            if enforced is not None:
                self.enforced = enforced
                self.engine.adopt(enforced.registry)
                self.adopted(enforced.registry)
                self._warn()

    def _look(self, objects: Mapping[str, bytes] | None) -> EnforcedPolicies | None:
        """The policies to enforce from now on, or None without a change; in a thread."""
        self.view.refresh()
        # A change whose reading fails is still due the next time.
        self._is_due |= self._policies.changed() or self._have_changed(objects)
        enforced = None
        if self._is_due:
            enforced = self._policies.read(objects)
            self.view.adopt(enforced.needs)
        self._objects, self._is_due = objects, False
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
            if each.binding_work and not self.binds:
                texts.add(f"policy {each.address} {each.binding_work} at bind: {TO_BIND}")
        for text in sorted(texts - self._warned):
            self._log.warning("%s", text)
        self._warned = texts
