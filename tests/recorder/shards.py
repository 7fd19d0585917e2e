"""Shards: the worlds of one theme, played one after the other on one server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.recorder.api_server import Object, api_server
from tests.recorder.dice import Dice
from tests.recorder.edits import Edits, write_probe
from tests.recorder.policies import Theme, objects, policies
from tests.recorder.served import kubeconfig, serving
from tests.recorder.worlds import World

_COUNTS = ("share", "spread", "limit")
THEMES = (
    Theme("filters", ("filter", "filter", "score")),
    Theme("scores", ("score", "score", "filter"), full_nodes=0.3),
    Theme("strict", (*_COUNTS, "filter"), strict=1.0),
    Theme("wishes", (*_COUNTS, "score"), strict=0.0),
    Theme("counts", (*_COUNTS, *_COUNTS, "filter", "score", "bind"), strict=0.6),
    Theme(
        "victims",
        ("preempt", "filter", "limit", "preempt"),
        strict=0.7,
        resolvable=True,
        preempts=0.7,
    ),
    Theme("audit", ("filter", "score", *_COUNTS, "preempt"), audit=0.5),
    Theme("times", ("filter", "score", "spread", "bind"), is_timely=True, full_nodes=0.2),
    Theme("library", ("filter", "score", *_COUNTS, "preempt"), uses_library=True),
    Theme("all", ("filter", "score", *_COUNTS, "bind", "preempt"), audit=0.1, resolvable=True),
    Theme("objects", ("filter", "score", *_COUNTS, "preempt"), as_objects=True),
    Theme("edits", ("filter", "score", *_COUNTS), count=6),
)

Records = dict[str, list[Any]]


def worlds(theme: Theme) -> Sequence[str]:
    """The names of the worlds of a theme."""
    return [f"{theme.name}-{number:03}" for number in range(theme.count)]


async def play(placet: Path, theme: Theme, names: Sequence[str]) -> Records:
    """What is answered in these worlds of a theme, by their names."""
    files = {world: policies(Dice(f"policies {world}"), theme, world) for world in names}
    made: list[Object] = []
    if theme.as_objects:
        files = {}
        made = [o for w in names for o in objects(Dice(f"objects {w}"), w, theme)]
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "policies").mkdir()
        for world, text in files.items():
            (folder / "policies" / f"{world}.policy").write_text(text, "utf-8")
        write_probe(folder / "policies")
        async with api_server(made) as api:
            flags = ["--policies", f"{folder / 'policies'}", "--lease", "none"]
            flags += [
                "--kubeconfig",
                str(kubeconfig(folder, api.url)),
                "--lameduck",
                "0s",
                "--bind",
            ]
            flags += ["--resolvable-rejections"] if theme.resolvable else []
            async with serving(placet, folder, *flags) as served:
                records: Records = {}
                for world in names:
                    played = World(world, theme, api, served)
                    if theme.name == "edits":
                        edits = Edits(world, theme, folder / "policies", api, served)
                        await played.play(edits.next)
                        await edits.end()
                    else:
                        await played.play()
                    records[world] = played.steps
                for metric, policy, clause, nodes in await served.rejections():
                    if world := next((w for w in names if w in policy), ""):
                        records[world].append([metric, policy, clause, nodes])
    return records
