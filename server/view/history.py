"""History: numbers of the last week, one sample each minute, in memory and on request in a file.

It belongs to a replica with a view. The file survives restarts; it has the samples of the memory,
and is written anew when it has twice as many. What cannot be written is told once, and is not kept.
"""

from __future__ import annotations

import asyncio
import fcntl
import math
import os
import time
import zlib
from array import array
from collections.abc import Awaitable, Callable, Mapping, Sequence
from logging import Logger
from pathlib import Path

import msgspec

from grammar.messages.texts import os_reason
from server.answers.overview_answers import HistorySeries, NumberHistory

EVERY_SECONDS = 60
_MOST_SAMPLES = 7 * 24 * 60
# Beside the named series; further bounds are left out while others have values.
_MOST_SERIES = 128
# The points of an answer: of more samples, the largest of some stands for them.
_MOST_POINTS = 720
_MAGIC = b"placet history 1\n"
# A file of more bytes is none of these; a sample has less than so many.
MOST_FILE, _MOST_SAMPLE = 64 << 20, 16 << 10
_HEAD = 8


class HistoryError(Exception):
    """A file that cannot be a history; the text says why."""


class _SavedSample(msgspec.Struct, frozen=True, array_like=True):
    """A sample in the file: the second of its time, and numbers by the names of series."""

    at: int
    numbers: Mapping[str, float]


Sample = Mapping[str, float]


class SeriesRing:
    """The samples of the last week: times, and a number of each series for each, NaN for none."""

    def __init__(self, most: int = _MOST_SAMPLES) -> None:
        self._most = most
        self.times: array[int] = array("q")
        self._series: dict[str, array[float]] = {}

    def add(self, at: int, numbers: Sample) -> None:
        if self.times and at <= self.times[-1]:
            # The clock went back: what was later is not true any more.
            return
        for name in numbers:
            if name not in self._series and len(self._series) < _MOST_SERIES:
                self._series[name] = array("f", [math.nan]) * len(self.times)
        self.times.append(at)
        for name, found in self._series.items():
            found.append(numbers.get(name, math.nan))
        if len(self.times) > self._most:
            del self.times[0]
            for found in self._series.values():
                del found[0]
        if len(self.times) % 60 == 0:
            self._series = {n: s for n, s in self._series.items() if not all(map(math.isnan, s))}

    def sample(self, index: int) -> _SavedSample:
        numbers = {name: found[index] for name, found in self._series.items()}
        known = {name: number for name, number in numbers.items() if not math.isnan(number)}
        return _SavedSample(self.times[index], known)

    def listed(self, since: int) -> tuple[Sequence[int], Sequence[HistorySeries]]:
        """The points since a second: of each stretch the largest number."""
        first = next((i for i, at in enumerate(self.times) if at >= since), len(self.times))
        size = max(1, -(-(len(self.times) - first) // _MOST_POINTS))
        starts = range(first, len(self.times), size)
        series = [
            HistorySeries(name, [_largest(found[start : start + size]) for start in starts])
            for name, found in sorted(self._series.items())
        ]
        return [self.times[start] for start in starts], series


def _largest(numbers: array[float]) -> float | None:
    known = [number for number in numbers if not math.isnan(number)]
    return round(max(known), 6) if known else None


class HistoryFile:
    """The file of a history, which this process alone writes."""

    def __init__(self, path: Path, file: int) -> None:
        self._path = path
        self._file = file
        self.written = 0

    @classmethod
    def open(cls, path: Path, ring: SeriesRing, log: Logger) -> HistoryFile:
        """The file with its samples in the ring. Raises HistoryError."""
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise HistoryError(f"cannot open `{path}`: {os_reason(error)}") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            size = os.fstat(file).st_size
            data = os.pread(file, MOST_FILE + 1, 0) if size <= MOST_FILE else b"?"
        except BlockingIOError:
            os.close(file)
            raise HistoryError(f"`{path}` is the history of another process") from None
        except OSError as error:
            os.close(file)
            raise HistoryError(f"cannot read `{path}`: {os_reason(error)}") from None
        if data and not data.startswith(_MAGIC):
            os.close(file)
            raise HistoryError(f"`{path}` is no history of Placet")
        found = cls(path, file)
        end = found._read(data, ring)
        if end < len(data):
            text = "the history `%s` is damaged after %d samples: the rest is left out"
            log.warning(text, path, found.written)
        try:
            os.ftruncate(file, end)
            if not data:
                os.pwrite(file, _MAGIC, 0)
            os.lseek(file, 0, os.SEEK_END)
        except OSError as error:
            os.close(file)
            raise HistoryError(f"cannot write `{path}`: {os_reason(error)}") from None
        return found

    def _read(self, data: bytes, ring: SeriesRing) -> int:
        """Reads the samples; what comes after the returned offset cannot be read."""
        at = len(_MAGIC) if data else 0
        while at + _HEAD <= len(data):
            size, check = (int.from_bytes(data[at + n : at + n + 4], "big") for n in (0, 4))
            payload = data[at + _HEAD : at + _HEAD + size]
            if size > _MOST_SAMPLE or len(payload) < size or zlib.crc32(payload) != check:
                break
            try:
                sample = msgspec.msgpack.decode(payload, type=_SavedSample)
            except msgspec.MsgspecError:
                break
            ring.add(sample.at, sample.numbers)
            self.written += 1
            at += _HEAD + size
        return at

    @property
    def is_full(self) -> bool:
        """Whether another sample may be too much."""
        return os.fstat(self._file).st_size > MOST_FILE - _HEAD - _MOST_SAMPLE

    def append(self, sample: _SavedSample) -> None:
        """Raises OSError."""
        _write(self._file, _record(sample))
        self.written += 1

    def rewrite(self, samples: Sequence[_SavedSample]) -> None:
        """Has these samples only. Raises OSError; the file is then as it was."""
        beside = self._path.with_name(f"{self._path.name}.new")
        file = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write(file, _MAGIC + b"".join(map(_record, samples)))
            os.fsync(file)
            beside.rename(self._path)
        except OSError:
            os.close(file)
            raise
        os.close(self._file)
        self._file, self.written = file, len(samples)

    def close(self) -> None:
        os.close(self._file)


def _record(sample: _SavedSample) -> bytes:
    payload = msgspec.msgpack.encode(sample)
    return len(payload).to_bytes(4, "big") + zlib.crc32(payload).to_bytes(4, "big") + payload


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


class History:
    """The history of one replica. `sample` works out the numbers of now."""

    def __init__(
        self,
        replica: str,
        sample: Callable[[], Awaitable[Sample]],
        path: Path | None,
        log: Logger,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Reads the file if there is a path. Raises HistoryError."""
        self._replica = replica
        self._sample = sample
        self._log = log
        self._clock = clock
        self._ring = SeriesRing()
        self._file = None if path is None else HistoryFile.open(path, self._ring, log)
        self._fails = False

    async def follow(self) -> None:
        """Takes a sample each minute, until it is cancelled."""
        while True:
            await self.take()
            await asyncio.sleep(EVERY_SECONDS)

    async def take(self) -> None:
        """Takes a sample, and keeps it."""
        numbers = await self._sample()
        before = len(self._ring.times), self._ring.times[-1:]
        self._ring.add(int(self._clock()), numbers)
        if self._file is not None and before != (len(self._ring.times), self._ring.times[-1:]):
            try:
                await asyncio.to_thread(self._save, self._file)
            except OSError as error:
                if not self._fails:
                    self._log.warning("the history cannot be written: %s", os_reason(error))
                self._fails = True
            else:
                self._fails = False

    def _save(self, file: HistoryFile) -> None:
        number = len(self._ring.times)
        if file.written >= 2 * _MOST_SAMPLES or file.is_full:
            # Of samples that would fill it soon again the newer ones stay.
            first = number // 2 if file.is_full else 0
            file.rewrite([self._ring.sample(index) for index in range(first, number)])
        else:
            file.append(self._ring.sample(number - 1))

    def listed(self, hours: int, policy: str | None = None) -> NumberHistory:
        """The numbers of the last hours: all, or those of one policy."""
        times, series = self._ring.listed(int(self._clock()) - hours * 3600)
        if policy is not None:
            own = tuple(f"{kind} {policy}: " for kind in ("full", "rejected"))
            series = [each for each in series if each.name.startswith(own)]
        return NumberHistory(self._replica, self._file is not None, times, series)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
