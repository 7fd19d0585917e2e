"""Stalled tasks: each background task stands still for half a minute once, and nothing stays of it.

What comes of time is never kept as a result: afterwards a server is what it is without that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import pytest

from engine.cache.informers import NODES, POLICIES
from server.admission.checking_process import CheckingProcess
from server.runtime import server_runtime
from server.supervisor import Supervisor, Work
from tests.server.runtime.test_tasks import Server, running
from tests.support.builders import node, placement_policy, pod

pytestmark = [pytest.mark.fake_clock, pytest.mark.process]
SECONDS = 30.0
RULES = 'filter "place" {{ require node.labels["disk"] == "{}" }}'
TABLE = """
cluster policy prices {
  data "prices" { from file "prices.csv" by "type" columns { type: string, hour: double } }
  score "cheap" weight 10 { value data.prices["small"].hour missing 0 }
}
"""


class CheckingHere(CheckingProcess):
    """Checks in this process: another one has another clock."""

    def run(self, _seconds: float, function: Callable[..., Any], *args: object) -> Any:
        return function(*args)


class Stalled:
    """A coroutine that stands still once when that is due; what happens meanwhile comes late."""

    def __init__(self, work: Coroutine[Any, Any, None], is_due: Callable[[], bool]) -> None:
        self._work = work
        self._is_due = is_due

    def __await__(self) -> Generator[Any, Any, None]:
        error: BaseException | None = None
        while True:
            try:
                waits = self._work.send(None) if error is None else self._work.throw(error)
            except StopIteration:
                return
            error = None
            try:
                yield waits
            except BaseException as thrown:  # noqa: BLE001 - it is for the work
                error = thrown
            if self._is_due():
                late = yield from _pause().__await__()
                error = late or error


async def _pause() -> BaseException | None:
    """Stands still; a timeout that ends meanwhile is told afterwards."""
    found, ends = None, asyncio.get_running_loop().time() + SECONDS
    while (left := ends - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError as error:
            found = error
    return found


class Stall:
    """A stall of one task, that is due once after `begin`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.has_begun = self.is_over = False

    def begin(self) -> None:
        self.has_begun = True

    def is_due(self) -> bool:
        due = self.has_begun and not self.is_over
        self.is_over |= due
        return due

    def of(self, name: str, work: Work) -> Work:
        if name != self.name:
            return work

        async def stalled() -> None:
            coroutine = work()
            assert isinstance(coroutine, Coroutine)
            await Stalled(coroutine, self.is_due)

        return stalled


def change(server: Server, disk: str) -> None:
    """Another version of the policy, and another node that has what it wants."""
    generation = server.api.version
    about = {"namespace": "shop", "uid": "p", "generation": generation}
    made = placement_policy({"podSelector": {}, "rules": RULES.format(disk)}, "p")
    server.api.put(POLICIES[0].path, "shop/p", **{**made, "metadata": made["metadata"] | about})
    server.api.put(NODES.path, f"of-{disk}", **node(f"of-{disk}", labels={"disk": disk}))


async def state(server: Server) -> dict[str, Any]:
    """What a server says of itself and of a pod, without what is always another."""
    names = ["of-ssd", "of-hdd"]
    body = {"Pod": pod("web", namespace="shop"), "Nodes": None, "NodeNames": names}
    async with server.session.post(f"{server.url}/filter", json=body) as response:
        answer = await response.json()
    async with server.session.get(f"{server.view}/api/v1/status") as response:
        status = await response.json()
    return {
        "answer": (answer.get("Error"), answer["NodeNames"], answer["FailedNodes"]),
        "policies": status["policies"],
        "rows": [each["rows"] for each in status["facts"]["data"]],
        "known": {r: each["objects"] for r, each in status["cluster"]["resources"].items()},
        "ready": await server.get("/readyz?verbose"),
    }


async def lived(
    folder: Path, stall: Stall, monkeypatch: pytest.MonkeyPatch
) -> tuple[set[str], dict[str, Any]]:
    """The tasks of a server and its state, after a life in which one task may have stood still."""
    (folder / "data").mkdir()
    (folder / "data" / "prices.csv").write_text("type,hour\nsmall,0.5\n")
    (folder / "prices.policy").write_text(TABLE)
    start = Supervisor.start

    def stalling(
        self: Supervisor, name: str, work: Work, *, is_vital: bool = False
    ) -> asyncio.Task[None]:
        return start(self, name, stall.of(name, work), is_vital=is_vital)

    monkeypatch.setattr(Supervisor, "start", stalling)
    monkeypatch.setattr(server_runtime, "CheckingProcess", CheckingHere)
    given: dict[str, Any] = {"policies": [folder / "prices.policy"], "data_folder": folder / "data"}
    async with running(folder, watch_idle=3600.0, **given) as server:
        await server.synced()
        change(server, "ssd")
        await asyncio.sleep(10.0)
        stall.begin()
        await asyncio.sleep(5.0)
        change(server, "hdd")
        (folder / "data" / "prices.csv").write_text("type,hour\nsmall,0.5\nlarge,2\n")
        await asyncio.sleep(90.0)
        return set(await server.background()), await state(server)


async def test_a_task_that_stood_still_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def folder(name: str) -> Path:
        made = tmp_path / name.replace("/", "-")
        made.mkdir()
        return made

    tasks, wanted = await lived(folder("none"), Stall(""), monkeypatch)
    assert wanted["answer"][1] == ["of-hdd"]
    assert wanted["rows"] == [2]
    assert "failed" not in wanted["ready"]
    stood = set[str]()
    for name in sorted(tasks):
        with monkeypatch.context() as patched:
            stall = Stall(name)
            _, found = await lived(folder(name), stall, patched)
        stood |= {name} if stall.is_over else set()
        assert found == wanted, name
    # Those that wait for something that does not happen here cannot be stopped.
    assert stood >= {"policies", "data/prices (file)", "statuses", "drift"}
