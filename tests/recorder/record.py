"""Record: a digest for each world, and what to do with it: write, compare, show.

Worlds are recorded in lots: a theme of random worlds is one lot, for they share a server. Lots are
played side by side, and none knows of another.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from tests.recorder import openb, recordings, shards
from tests.recorder.shards import THEMES, Records

Digests = dict[str, str]
# What is in a sample: servers for policies of files, one for policies of objects, one whose files
# are edited, and two that kube-scheduler's recorded requests reach.
_THEMES = ("strict", "all", "objects", "edits")
_SINGLES = ("recordings-live-counts", "recordings-snapshot-zones")
GOLDEN = Path(__file__).parents[1] / "golden" / "answers.json"


@dataclass(frozen=True)
class Lot:
    """Worlds that are played together, by their names. `theme` is empty for all but random ones."""

    worlds: tuple[str, ...]
    theme: str = ""

    def play(self, placet: Path) -> Records:
        """What is answered in each of the worlds."""
        return asyncio.run(self._played(placet))

    async def _played(self, placet: Path) -> Records:
        for theme in THEMES:
            if theme.name == self.theme:
                return await shards.play(placet, theme, self.worlds)
        return {world: await _single(placet, world) for world in self.worlds}


def lots(wanted: Sequence[str] = ()) -> list[Lot]:
    """Those that there are, the longest first.

    With `wanted` only worlds of these names, or whose names begin so.
    """
    found = [Lot(tuple(shards.worlds(theme)), theme.name) for theme in reversed(THEMES)]
    found += [Lot((world,)) for world in openb.worlds()]
    found += [Lot((world,)) for world in recordings.worlds()]
    if not wanted:
        return found
    chosen = (Lot(_among(lot.worlds, wanted), lot.theme) for lot in found)
    return [lot for lot in chosen if lot.worlds]


def sample() -> list[Lot]:
    """A few worlds, for those who cannot wait for all."""
    themes = [theme for theme in THEMES if theme.name in _THEMES]
    first = [world for theme in themes for world in shards.worlds(theme)[: theme.count // 12]]
    return lots([*first, *_SINGLES])


def play(placet: Path, chosen: Sequence[Lot], jobs: int) -> Records:
    """What is answered in all worlds of these lots, so many lots at a time."""
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        futures = [pool.submit(lot.play, placet) for lot in chosen]
        return {world: steps for future in futures for world, steps in future.result().items()}


def digests(records: Records) -> Digests:
    return {world: _digest(steps) for world, steps in sorted(records.items())}


def differences(recorded: Mapping[str, str], found: Mapping[str, str]) -> list[str]:
    """The worlds that are not as they were recorded, or were not."""
    return [world for world, digest in found.items() if recorded.get(world) != digest]


def read(path: Path) -> Digests:
    content: Digests = json.loads(path.read_text("utf-8"))
    return content


def write(path: Path, found: Digests) -> None:
    path.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n", "utf-8")


def _digest(steps: Sequence[Any]) -> str:
    text = json.dumps(steps, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


async def _single(placet: Path, world: str) -> list[Any]:
    if world.startswith("openb-"):
        return await openb.play(placet, world)
    return await recordings.play(placet, world)


def _among(worlds: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    return tuple(world for world in worlds if world.startswith(tuple(wanted)))
