"""History: numbers of the last week, one sample a minute, and the texts that policies had.

A replica has one, in memory and on request in a file, which survives restarts. The file is written
whole or not at all: on a full disk the last whole one stays, and the next minute tries again. A
clock that is set back loses nothing, and what is ahead of the clock is not shown.
"""

from __future__ import annotations

import asyncio
import math
import os
import sys
import time
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from logging import Logger
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from engine.decision.verb_call import ClusterState
from engine.enforced import EnforcedPolicies
from engine.errors import NotSyncedError
from engine.explanation.fills import BoundFill
from grammar.messages.texts import os_reason
from server.answers.overview_answers import Action, HistorySeries, NumberHistory, RevisionOfPolicy
from server.view.policy_yaml import EditedObject, as_written
from server.view.routes import Answer, ViewQuestion
from server.view.status import latency

EVERY_SECONDS = 60
# The samples of a week, the named series in them, and the points of an answer.
MOST_SAMPLES, _MOST_SERIES, _MOST_POINTS = 7 * 24 * 60, 128, 720
# The texts of one policy, the bytes of all, and what a text takes besides its own.
_MOST_TEXTS, MOST_BYTES, _TEXT_BYTES = 20, 4 << 20, 500
# Numbers are in the order of bytes of this machine.
_MAGIC = f"placet history 3 {sys.byteorder}\n".encode()
_MOST_FILE = 64 << 20
# The bounds that are kept of one sample, the fullest ones; the clauses that reject most in the
# minute; and the bytes of a name, with which samples stay small.
_MOST_BOUNDS, _MOST_CLAUSES, _LONGEST_NAME = 10, 10, 300
# Its type has parameters only for the type checker.
if TYPE_CHECKING:
    _Numbers = array[float]
else:
    _Numbers = array
Sample = Mapping[str, float]
Durations = Mapping[str, Sequence[tuple[float, float]]]
Rejections = Mapping[tuple[str, str], int]


class HistoryError(Exception):
    """An error of a history file; the text says why."""


class Edit(msgspec.Struct, frozen=True, array_like=True):
    """An edit of a policy, with the text since: a `file`, or the JSON of an `object`."""

    address: str
    at: str
    by: str
    action: Action
    file: str = ""
    object: bytes = b""

    @property
    def content(self) -> str | bytes:
        return self.object or self.file

    @property
    def is_deletion(self) -> bool:
        return self.action == "deleted"

    def in_full(self) -> RevisionOfPolicy:
        """The edit with what its author wrote. For a thread."""
        text = as_written(self.object) if self.object else self.file
        return RevisionOfPolicy(self.at, self.by, self.action, text)


class _Kept(msgspec.Struct, array_like=True):
    """The kept content of a file: times, by series a number for each, and edits by policy.

    A number is NaN where there is none. The policies that were edited last are at the end.
    """

    times: _Numbers = msgspec.field(default_factory=lambda: array("d"))
    series: dict[str, _Numbers] = {}
    edits: dict[str, list[Edit]] = {}


class History:
    """The history of one replica. On one event loop; the file is written in a thread."""

    def __init__(
        self, replica: str, path: Path | None, log: Logger, clock: Callable[[], float] = time.time
    ) -> None:
        """Reads the file if there is a path. Raises HistoryError."""
        self._replica = replica
        self._log = log
        self._clock = clock
        self._path = path
        self._fails = False
        kept = _Kept() if path is None else _read(path)
        if kept is None:
            log.warning("the history `%s` is damaged: it begins anew", path)
        self._kept = kept or _Kept()
        # What was seen of policies last; None before the first look.
        self._seen: Mapping[str, str | bytes] | None = None

    @property
    def answers(self) -> Mapping[str, Answer]:
        return {"history": self.answer}

    async def follow(
        self, sample: Callable[[], Awaitable[Sample]], look: Callable[[], None]
    ) -> None:
        """Takes the numbers of now each minute after a look at policies, until it is cancelled."""
        while True:
            look()
            await self.take(await sample())
            await asyncio.sleep(EVERY_SECONDS)

    async def take(self, numbers: Sample) -> None:
        """Keeps the numbers of now."""
        self.add(int(self._clock()), numbers)
        if self._path is None:
            return
        content = msgspec.msgpack.encode(self._kept, enc_hook=array.tobytes)
        try:
            await asyncio.to_thread(_write, self._path, content)
        except OSError as error:
            if not self._fails:
                self._log.warning("the history cannot be written: %s", os_reason(error))
            self._fails = True
        else:
            self._fails = False

    def add(self, at: int, numbers: Sample) -> None:
        """Adds the sample of now. After a clock was set back, it is not the last one."""
        times, series = self._kept.times, self._kept.series
        place = bisect_left(times, at)
        if place < len(times) and times[place] == at:
            return
        for name in numbers:
            if name not in series and len(series) < _MOST_SERIES:
                series[name] = array("d", [math.nan]) * len(times)
        times.insert(place, at)
        for name, found in series.items():
            found.insert(place, numbers.get(name, math.nan))
        if len(times) > MOST_SAMPLES:
            # What is ahead of the clock goes first.
            gone = -1 if times[-1] > at else 0
            for found in (times, *series.values()):
                del found[gone]
            self._kept.series = {n: s for n, s in series.items() if not all(map(math.isnan, s))}

    async def answer(self, asked: ViewQuestion) -> object:
        """Numbers of the last hours: all, or those of one policy."""
        hours, policy = asked.numbers["hours"], asked.query.get("policy")
        return lambda: self.listed(hours, policy)

    def listed(self, hours: int, policy: str | None = None) -> NumberHistory:
        """The points of the last hours: of each stretch the largest number."""
        times, now = self._kept.times, int(self._clock())
        first, end = bisect_left(times, now - hours * 3600), bisect_right(times, now)
        size = max(1, -(-(end - first) // _MOST_POINTS))
        starts = range(first, end, size)
        own = ("",) if policy is None else (f"full {policy}: ", f"rejected {policy}: ")
        series = [
            HistorySeries(name, [_largest(found[n : min(n + size, end)]) for n in starts])
            for name, found in sorted(self._kept.series.items())
            if name.startswith(own)
        ]
        points = [int(times[n]) for n in starts]
        return NumberHistory(self._replica, self._path is not None, points, series)

    # ---- the edits of policies

    def look(self, read: EnforcedPolicies, objects: Mapping[str, bytes], at: str) -> None:
        """Adds the edits of policies since the last look."""
        if not read.registry.complete:
            return
        seen = {
            each.policy.address: objects.get(file.source.name, file.source.text)
            for file in read.validation.files
            if not file.private
            for each in file.policies
        }
        for address, content in seen.items():
            if self._seen is None or self._seen.get(address) is not content:
                self._look_at(address, content, at)
        for address in self._kept.edits.keys() - seen.keys():
            if not self._kept.edits[address][-1].is_deletion:
                self._keep(Edit(address, at, "", "deleted"))
        self._seen = seen

    def of(self, address: str) -> Sequence[Edit]:
        """The texts of one policy, the oldest first."""
        return tuple(self._kept.edits.get(address, ()))

    def edits(self, number: int) -> Sequence[Edit]:
        """The last edits, the newest first, each policy once; of a file only since the start."""
        newest = (found[-1] for found in self._kept.edits.values())
        last = [each for each in newest if each.action != "in force since the start"]
        return sorted(last, key=lambda each: (each.at, each.address), reverse=True)[:number]

    def _look_at(self, address: str, content: str | bytes, at: str) -> None:
        before = self._kept.edits.get(address, [Edit(address, at, "", "deleted")])[-1]
        mark, by, when = _author(content)
        action: Action = "changed"
        if before.is_deletion and self._seen is not None:
            action = "created"
        elif before.is_deletion:
            action = "edited" if by else "in force since the start"
        elif _author(before.content)[0] == mark:
            return
        file, stored = (content, b"") if isinstance(content, str) else ("", content)
        self._keep(Edit(address, when or at, by, action, file, stored))

    def _keep(self, edit: Edit) -> None:
        edits = self._kept.edits
        edits[edit.address] = [*edits.pop(edit.address, ()), edit][-_MOST_TEXTS:]
        # Those that were edited least recently give way; of a policy that is there one stays.
        while (
            sum(_TEXT_BYTES + len(e.content) for kept in edits.values() for e in kept) > MOST_BYTES
        ):
            many = (a for a, found in edits.items() if len(found) > 1 or found[-1].is_deletion)
            if (address := next(many, None)) is None:
                return
            del edits[address][0]
            if not edits[address]:
                del edits[address]


def _read(path: Path) -> _Kept | None:
    """What was written last; None if that is damaged. Raises HistoryError."""
    try:
        with path.open("rb") as file:
            data, more = file.read(_MOST_FILE), file.read(1)
    except FileNotFoundError:
        return _Kept()
    except OSError as error:
        raise HistoryError(f"cannot read `{path}`: {os_reason(error)}") from None
    if more or not data.startswith(b"placet history "):
        raise HistoryError(f"`{path}` is no history of Placet")
    unpacking = zlib.decompressobj()
    try:
        found = unpacking.decompress(data.removeprefix(_MAGIC), _MOST_FILE)
        if not unpacking.eof:
            return None
        return msgspec.msgpack.decode(
            found, type=_Kept, dec_hook=lambda _, numbers: array("d", numbers)
        )
    except (ValueError, zlib.error):
        return None


def _write(path: Path, content: bytes) -> None:
    """Takes the place of what was written before. Raises OSError; the file is then as it was."""
    beside = path.with_name(f"{path.name}.new")
    try:
        # Others read nothing: it has the texts of policies.
        with open(beside, "wb", opener=lambda file, flags: os.open(file, flags, 0o600)) as file:
            file.write(_MAGIC + zlib.compress(content, 1))
            file.flush()
            os.fsync(file.fileno())
        beside.rename(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _author(content: str | bytes) -> tuple[object, str, str]:
    """What an edit would change, and who has written it and when, as far as an object says that."""
    if isinstance(content, str):
        return content, "", ""
    found = msgspec.json.decode(content, type=EditedObject)
    writer = found.last_writer
    mark = (found.metadata.uid, bytes(found.spec))
    return mark, writer.manager, writer.time or found.metadata.creationTimestamp or ""


def _largest(numbers: _Numbers) -> float | None:
    known = [number for number in numbers if not math.isnan(number)]
    return round(max(known), 6) if known else None


# ---- the numbers of now


class SampledNumbers:
    """The numbers of one replica. Those of calls are of the time since the last sample."""

    def __init__(
        self,
        cluster: ClusterState,
        fullest: Callable[[], Awaitable[Sequence[BoundFill]]],
        rejections: Callable[[], Rejections],
        durations: Callable[[], Durations],
    ) -> None:
        self._cluster = cluster
        self._fullest = fullest
        self._rejections = rejections
        self._durations = durations
        self._before = Counter(rejections()), durations()

    async def take(self) -> Sample:
        """The numbers by the names of their series; those that are not known have none."""
        (rejected, called), now = self._before, (Counter(self._rejections()), self._durations())
        self._before = now
        new = now[0] - rejected
        found = {"rejected nodes": float(new.total())}
        for (policy, clause), nodes in new.most_common(_MOST_CLAUSES):
            found[f"rejected {policy}: {clause}"] = float(nodes)
        for verb, buckets in now[1].items():
            old = [calls for _, calls in called.get(verb, ())] or [0.0] * len(buckets)
            since = [(b, calls - o) for (b, calls), o in zip(buckets, old, strict=True)]
            # Beyond the last bucket there is no p99.
            if since[-1][1] > 0 and (p99 := latency(verb, since).p99) is not None:
                found[f"p99 {verb}"] = p99
        try:
            found["waiting pods"] = float(len(self._cluster.snapshot().pending))
        except NotSyncedError:
            return found
        for bound in (await self._fullest())[:_MOST_BOUNDS]:
            of = f" of {bound.of}" if bound.of else ""
            name = f"full {bound.policy}: {bound.clause}{of}"
            found[name] = max(found.get(name, 0.0), round(100 * bound.part, 1))
        return {name: each for name, each in found.items() if len(name.encode()) <= _LONGEST_NAME}
