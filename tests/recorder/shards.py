"""Shards: the worlds of one theme, played one after the other on one server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.recorder.api_server import api_server
from tests.recorder.dice import Dice
from tests.recorder.policies import Theme, policies
from tests.recorder.served import kubeconfig, serving
from tests.recorder.worlds import World

PER_THEME = 50
_COUNTS = ("share", "spread", "limit")
THEMES = (
    Theme("filters", ("filter", "filter", "score")),
    Theme("scores", ("score", "score", "filter"), full_nodes=0.3),
    Theme("strict", (*_COUNTS, "filter"), strict=1.0),
    Theme("wishes", (*_COUNTS, "score"), strict=0.0),
    Theme("counts", (*_COUNTS, *_COUNTS, "filter", "score", "bind"), strict=0.6),
    Theme("victims", ("preempt", "filter", "limit", "preempt"), strict=0.7, resolvable=True),
    Theme("audit", ("filter", "score", *_COUNTS, "preempt"), audit=0.5),
    Theme("times", ("filter", "score", "spread", "bind"), is_timely=True, full_nodes=0.2),
    Theme("library", ("filter", "score", *_COUNTS, "preempt"), uses_library=True),
    Theme("all", ("filter", "score", *_COUNTS, "bind", "preempt"), audit=0.1, resolvable=True),
)

Records = dict[str, list[Any]]


def worlds(theme: Theme) -> Sequence[str]:
    """The names of the worlds of a theme."""
    return [f"{theme.name}-{number:03}" for number in range(PER_THEME)]


async def play(placet: Path, theme: Theme, names: Sequence[str]) -> Records:
    """What is answered in these worlds of a theme, by their names."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "policies").mkdir()
        for world in names:
            text = policies(Dice(f"policies {world}"), theme, world)
            (folder / "policies" / f"{world}.policy").write_text(text, "utf-8")
        async with api_server() as api:
            flags = ["--policies", f"{folder / 'policies'}", "--lease", "none"]
            flags += ["--kubeconfig", str(kubeconfig(folder, api.url)), "--lameduck", "0s"]
            flags += ["--resolvable-rejections"] if theme.resolvable else []
            async with serving(placet, folder, *flags) as served:
                records: Records = {}
                for world in names:
                    played = World(world, theme, api, served)
                    await played.play()
                    records[world] = played.steps
                for metric, policy, clause, nodes in await served.rejections():
                    if (world := policy.rpartition("/")[2].partition(" ")[0]) in records:
                        records[world].append([metric, policy, clause, nodes])
    return records
