"""Edits: policies of one world that change between its pods, in a file and as objects.

What tells that a change is in force is a policy of its own, in a file that is written last: it
refuses a pod that nobody else asks about, and its message names the change.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from tests.recorder import answers
from tests.recorder.api_server import ApiServer, Object, key_of
from tests.recorder.dice import Dice
from tests.recorder.policies import Theme, objects, policies
from tests.recorder.served import Served

_SECONDS = 30.0


def write_probe(folder: Path, text: str = "") -> None:
    """Writes the policy of the probes. It is there from the start, or the first one would pass."""
    rule = f'filter "probe" {{ require false message "{text}" }}'
    _write(folder / "probe.policy", f'policy probe in namespace "probe" {{ {rule} }}')


@dataclass
class Edits:
    """The changes of one world, in order."""

    world: str
    theme: Theme
    folder: Path
    api: ApiServer
    served: Served
    _made: list[Object] = field(default_factory=list)
    _change: int = 0
    _asked: int = 0

    async def next(self) -> str:
        """Makes the next change; returns what it is, when it decides."""
        self._change += 1
        dice = Dice(f"edit {self.world} {self._change}")
        what = dice.choice(("text", "text", "broken", "gone", "objects", "no objects", "nothing"))
        file = self.folder / f"{self.world}.policy"
        match what:
            case "text":
                _write(file, policies(dice, self.theme, self.world))
            case "broken" if file.exists():
                text = file.read_text("utf-8").replace("node.zone", "node.zoo")
                _write(file, f'{text}\npolicy broken in namespace "nobody" {{ filter }}')
            case "gone":
                file.unlink(missing_ok=True)
            case "objects":
                self._remove()
                self._made = objects(dice, self.world, self.theme)
                for item in self._made:
                    self.api.store(item["kind"], item)
            case "no objects":
                self._remove()
            case _:
                return "nothing"
        await self._in_force()
        return what

    async def end(self) -> None:
        """Takes the policies of the world away."""
        (self.folder / f"{self.world}.policy").unlink(missing_ok=True)
        self._remove()
        self._change += 1
        await self._in_force()

    async def _in_force(self) -> None:
        await self.served.knows(self.api)
        text = f"<<{self.world} {self._change}>>"
        write_probe(self.folder, text)
        async with asyncio.timeout(_SECONDS):
            told = await self._tells(text)
            while not told:
                await asyncio.sleep(0.05)
                told = await self._tells(text)

    async def _tells(self, text: str) -> bool:
        """Whether the probe is refused with this text. Each time it is another pod."""
        self._asked += 1
        uid = f"probe-{self.world}-{self._asked}"
        pod = {"metadata": {"name": uid, "namespace": "probe", "uid": uid}, "spec": {}}
        names = list(self.api.kinds_of["Node"]) or ["probe"]
        body = {"Pod": pod, "Nodes": None, "NodeNames": names[:1]}
        answer = answers.filtered(*await self.served.post("filter", body), None)
        return [text] in list(answer["FailedAndUnresolvableNodes"].values())

    def _remove(self) -> None:
        for item in self._made:
            self.api.remove(item["kind"], key_of(item))
        self._made.clear()


def _write(path: Path, text: str) -> None:
    """Never half of it is there."""
    draft = path.with_suffix(".draft")
    draft.write_text(text, "utf-8")
    draft.replace(path)
