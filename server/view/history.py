"""History: numbers of the last week, one sample a minute, and the last edits of policies.

A replica has one, in memory and on request in a file, which survives restarts. The file is written
whole or not at all: on a full disk the last whole one stays, and the next minute tries again. So it
does where the disk does not answer, for which nothing waits. A clock that is set back loses
nothing, and what is ahead of the clock is not shown.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import math
import os
import time
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from logging import Logger
from pathlib import Path

import msgspec

from engine.decision.verb_call import ClusterState
from engine.enforced import EnforcedPolicies
from engine.errors import NotSyncedError
from grammar.messages.texts import os_reason
from policies.disk import Disk, Visit, contents
from server.answers import FillList, NumberHistory, PolicyEdit
from server.view.policy_yaml import EditedObject, FieldsManager
from server.view.routes import Answer

EVERY_SECONDS = 60
# The samples of a week, and the points and the series of an answer.
MOST_SAMPLES, _MOST_POINTS, _MOST_SERIES = 7 * 24 * 60, 720, 128
MOST_EDITS = 100
_MAGIC = b"placet history 5\n"
_MOST_FILE, _MOST_CONTENT = 64 << 20, 128 << 20
# The bounds that are kept of one sample, the fullest ones; the clauses that reject most in the
# minute; and the bytes of a name, with which the samples of a week stay within a file.
_MOST_BOUNDS, _MOST_CLAUSES, _LONGEST_NAME = 10, 10, 250
Sample = Mapping[str, float]
Durations = Mapping[str, Sequence[tuple[float, float]]]
Rejections = Mapping[tuple[str, str], int]
_NUMBERS = msgspec.msgpack.Decoder(dict[str, float])


class _Kept(msgspec.Struct, array_like=True):
    """The kept content of a file: samples by the second, each in msgpack, and the last edits.

    `edits` has each policy once, the newest at the end, and `marks` the digest of each policy that
    was there at the last look.
    """

    samples: dict[int, bytes] = {}
    edits: list[PolicyEdit] = []
    marks: dict[str, bytes] = {}


@dataclass(eq=False, slots=True)
class History:
    """The history of one replica. On one event loop; the file is written in a thread."""

    _replica: str
    _path: Path | None
    _log: Logger
    clock: Callable[[], float] = time.time
    _kept: _Kept = field(default_factory=_Kept)
    _has_read: bool = False
    _disk: Disk = field(default_factory=Disk)
    # What was seen of policies last; None before the first look.
    _seen: Mapping[str, str | bytes] | None = None

    @property
    def answers(self) -> Mapping[str, Answer]:
        return {
            "history": lambda asked: partial(
                self.listed, asked.numbers["hours"], asked.query.get("policy")
            )
        }

    async def follow(
        self, sample: Callable[[], Awaitable[Sample]], look: Callable[[], None]
    ) -> None:
        """Takes the numbers of now each minute after a look at policies, until it is cancelled."""
        while True:
            await self.read()
            look()
            await self.take(await sample())
            await asyncio.sleep(EVERY_SECONDS)

    async def read(self) -> None:
        """Reads the file if it is not read yet; one that is not a history is left as it is."""
        if self._has_read or self._path is None:
            return
        try:
            kept = await asyncio.to_thread(self._disk.run, partial(_read, self._path))
        except OSError as error:
            is_silent, why = isinstance(error, TimeoutError), os_reason(error)
            failed = "not read yet" if is_silent else "not read or written"
            self._log.warning("the history `%s` is %s: %s", self._path, failed, why)
            self._path = self._path if is_silent else None
            return
        self._has_read = True
        if kept is None:
            self._log.warning("the history `%s` is damaged: it begins anew", self._path)
        else:
            kept.samples |= self._kept.samples
            self._kept = kept

    async def take(self, numbers: Sample) -> None:
        """Keeps the numbers of now."""
        self.add(int(self.clock()), numbers)
        if self._path is None or not self._has_read:
            return
        write = partial(_write, self._path, msgspec.msgpack.encode(self._kept))
        try:
            await asyncio.to_thread(self._disk.run, write)
        except OSError as error:
            self._log.warning("the history cannot be written: %s", os_reason(error))

    def add(self, at: int, numbers: Sample) -> None:
        """Adds the sample of now. Of too many goes one ahead of the clock, else the oldest."""
        samples = self._kept.samples
        samples[at] = msgspec.msgpack.encode(numbers)
        if len(samples) > MOST_SAMPLES:
            last = max(samples)
            del samples[last if last > at else min(samples)]

    def listed(self, hours: int, policy: str | None = None) -> NumberHistory:
        """The points of the last hours: of each stretch the largest number. Also in a thread."""
        samples, now = self._kept.samples.copy(), int(self.clock())
        times = sorted(at for at in samples if now - hours * 3600 <= at <= now)
        size = max(1, -(-len(times) // _MOST_POINTS))
        points = times[::size]
        own = ("",) if policy is None else (f"full {policy}: ", f"rejected {policy}: ")
        series: dict[str, list[float | None]] = {}
        # The newest first: their series are those that an answer has room for.
        for place, at in reversed(list(enumerate(times))):
            for name, number in _NUMBERS.decode(samples[at]).items():
                if name not in series and name.startswith(own) and len(series) < _MOST_SERIES:
                    series[name] = [None] * len(points)
                if (found := series.get(name)) is not None:
                    most = found[place // size]
                    found[place // size] = number if most is None else max(most, number)
        ordered = dict(sorted(series.items()))
        return NumberHistory(self._replica, self._path is not None, points, ordered)

    # ---- the edits of policies

    def look(self, read: EnforcedPolicies, objects: Mapping[str, bytes], at: str) -> None:
        """Adds the edits of policies since the last look, once what was there before is read."""
        if not (read.registry.complete and (self._has_read or self._path is None)):
            return
        seen = {
            each.policy.address: objects.get(file.source.name, file.source.text)
            for file in read.validation.files
            if not file.private
            for each in file.policies
        }
        marks, before, edits = self._kept.marks, self._seen, list[PolicyEdit]()
        for address, content in seen.items():
            if before is not None and before.get(address) is content:
                continue
            mark, by, when = _author(content)
            known, marks[address] = marks.get(address), mark
            # What is there at the first look is an edit only if it says by whom.
            if mark != known and (by or known is not None or before is not None):
                # Who writes an object sets this time, and no edit is ahead of the clock.
                edits.append(PolicyEdit(address, min(when or at, at), by, "edited"))
        for address in marks.keys() - seen.keys():
            del marks[address]
            edits.append(PolicyEdit(address, at, "", "deleted"))
        edits.sort(key=lambda each: (each.at, each.address))
        new = {each.address for each in edits}
        others = [each for each in self._kept.edits if each.address not in new]
        self._kept.edits, self._seen = [*others, *edits][-MOST_EDITS:], seen

    @property
    def edits(self) -> Sequence[PolicyEdit]:
        """The last edits, the newest first, each policy once; of a file only since the start."""
        return self._kept.edits[::-1]


def _read(path: Path, visit: Visit) -> _Kept | None:
    """What was written last; None if that is damaged. Raises OSError for another file."""
    visit(path)
    try:
        data = contents(path, _MOST_FILE, takes_pipes=False)
    except FileNotFoundError:
        return _Kept()
    if data and not data.startswith(b"placet history "):
        raise OSError(errno.EINVAL, "it is no history")
    reading = zlib.decompressobj()
    try:
        whole = reading.decompress(data.removeprefix(_MAGIC), _MOST_CONTENT)
        kept = msgspec.msgpack.decode(whole, type=_Kept)
    except (ValueError, zlib.error):
        return None
    return kept if reading.eof else None


def _write(path: Path, content: bytes, visit: Visit) -> None:
    """Takes the place of what was written before. Raises OSError; the file is then as it was."""
    visit(path)
    beside = path.with_name(f"{path.name}.new")
    try:
        with open(beside, "wb", opener=_opened) as file:
            file.write(_MAGIC + zlib.compress(content, 1))
            file.flush()
            os.fsync(file.fileno())
        beside.rename(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _opened(path: str, flags: int) -> int:
    """Opens a file that others cannot read, for it names policies and who edits them.

    A pipe without a reader is an error, and no wait for one.
    """
    return os.open(path, flags | os.O_NONBLOCK, 0o600)


def _author(content: str | bytes) -> tuple[bytes, str, str]:
    """The digest of what an edit would change, and by whom and when, as far as an object says."""
    if isinstance(content, str):
        return hashlib.sha256(content.encode()).digest(), "", ""
    found = msgspec.json.decode(content, type=EditedObject)
    # Who has written last, the status aside.
    writers = [each for each in found.metadata.managedFields if not each.subresource]
    writer = max(writers, key=lambda each: each.time, default=FieldsManager())
    mark = hashlib.sha256(found.metadata.uid.encode() + bytes(found.spec)).digest()
    return mark, writer.manager, writer.time or found.metadata.creationTimestamp or ""


# ---- the numbers of now


@dataclass(eq=False, slots=True)
class SampledNumbers:
    """The numbers of one replica. Those of calls are of the time since the last sample."""

    cluster: ClusterState
    fills: Callable[[], Awaitable[FillList]]
    rejections: Callable[[], Rejections]
    durations: Callable[[], Durations]
    _before: tuple[Counter[tuple[str, str]], Durations] = field(init=False)

    def __post_init__(self) -> None:
        self._before = Counter(self.rejections()), self.durations()

    async def take(self) -> Sample:
        """The numbers by the names of their series; those that are not known have none."""
        (rejected, called), now = self._before, (Counter(self.rejections()), self.durations())
        self._before = now
        new = now[0] - rejected
        found = {"rejected nodes": float(new.total())}
        for (policy, clause), nodes in new.most_common(_MOST_CLAUSES):
            found[f"rejected {policy}: {clause}"] = float(nodes)
        for verb, buckets in now[1].items():
            old = dict(called.get(verb, ()))
            since = [(bound, calls - old.get(bound, 0.0)) for bound, calls in buckets]
            # Beyond the last bucket there is no p99.
            if (p99 := within(since, 0.99)) is not None:
                found[f"p99 {verb}"] = round(p99, 6)
        try:
            found["waiting pods"] = float(len(self.cluster.snapshot().pending))
            fills = await self.fills()
        except NotSyncedError:
            return found
        for bound in fills.bounds[:_MOST_BOUNDS]:
            of = f" of {bound.of}" if bound.of else ""
            name = f"full {bound.policy}: {bound.clause}{of}"
            found[name] = max(found.get(name, 0.0), round(100 * bound.part, 1))
        return {name: each for name, each in found.items() if len(name.encode()) <= _LONGEST_NAME}


def within(buckets: Sequence[tuple[float, float]], part: float) -> float | None:
    """The bound that a part of the calls is below, in proportion between the bounds of a bucket.

    `buckets` are cumulative counts by upper bound, of which the last one is infinite.
    """
    rank = buckets[-1][1] * part
    place = bisect_left(buckets, rank, key=lambda bucket: bucket[1])
    bound, count = buckets[place]
    if rank <= 0 or bound == math.inf:
        return None
    low, below = buckets[place - 1] if place else (0.0, 0.0)
    return round(low + (bound - low) * (rank - below) / (count - below), 6)
