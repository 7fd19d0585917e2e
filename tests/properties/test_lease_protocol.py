"""The protocol of the Lease: whatever happens to the object, no two replicas are the leader.

The replicas and their Leases are the real ones; their requests are carried out one by one. Every
sequence of a few events is tried, and some long ones: turns of the replicas, time, calls, and
people who delete, make, restore and edit the object. A replica that gets no turn is frozen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from random import Random
from types import coroutine
from typing import Any

import pytest

from engine.cluster.lease import DURATION, Lease
from grammar.values.time import SECOND, Timestamp
from tests.support.books import examples
from tests.support.lease_api import LeaseApi
from tests.support.rows import rows

# The longest time, in seconds, that an event of the past can have an effect.
LONG = 2 * DURATION + 1
Event = tuple[str, str | float]


@coroutine
def _pause() -> Generator[None]:
    """The time in which a request or an answer is on its way."""
    yield


class StepwiseApi(LeaseApi):
    """The API server of which a test says when it does something."""

    async def _travel(self) -> None:
        await _pause()

    async def _travel_back(self) -> None:
        await _pause()

    async def _carried_out(
        self, method: str, sent: dict[str, Any], content_type: str
    ) -> dict[str, Any]:
        return self._act(method, sent, content_type)


@dataclass
class World:
    """Some replicas, and one Lease. All clocks go alike."""

    names: str
    api: StepwiseApi = field(default_factory=StepwiseApi)
    seconds: float = 100.0
    stamps: int = 0
    backups: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.leases = {
            name: Lease(self.api, ("n", "n"), name, clock=lambda: self.seconds, now=self._now)
            for name in self.names
        }
        self.turns: dict[str, Coroutine[Any, Any, None]] = {}

    def _now(self) -> Timestamp:
        """Another time at each call: clocks have microseconds, and need not agree."""
        self.stamps += 1
        return Timestamp(self.stamps * SECOND)

    def holders(self) -> list[str]:
        return [name for name, lease in self.leases.items() if lease.held]

    def happen(self, event: Event) -> None:
        match event:
            case ("turn", str(name)):
                self.step(name)
                while name in self.turns:
                    self.step(name)
            case ("step", str(name)):
                self.step(name)
            case ("wait", float(seconds)):
                self.seconds += seconds
            case ("call", str(name)):
                self.leases[name].need()
            case ("delete", _):
                self._back_up()
                self.api.delete()
            case ("restore", _) if self.backups:
                self.api.restore(self.backups[-1])
            case ("make", _):
                self.api.restore({"metadata": {"name": "n"}})
            case ("holder", str(name)):
                self.api.edit(holderIdentity=name)
            case ("transitions", _):
                self.api.edit(leaseTransitions=0)
            case ("wipe", _) if self.api.lease is not None:
                self.api.edit(holderIdentity=None, acquireTime=None, renewTime=None)
            case ("fault", fault):
                self.api.broken, self.api.lost = fault == "broken", fault == "lost"
            case _:
                """There is nothing to restore, or to wipe."""

    def step(self, name: str) -> None:
        """The replica begins a turn, or its request arrives, or the answer."""
        turn = self.turns.get(name)
        if turn is None:
            turn = self.turns[name] = self.leases[name].turn()
        try:
            turn.send(None)
        except StopIteration:
            del self.turns[name]

    def _back_up(self) -> None:
        if self.api.lease is not None:
            self.backups.append(self.api.lease)

    # ---- states, while no turn is under way

    def save(self) -> tuple[Any, ...]:
        api = self.api
        leases = {name: dict(vars(lease)) for name, lease in self.leases.items()}
        return dict(vars(api)), self.seconds, self.stamps, [*self.backups], leases

    def load(self, saved: tuple[Any, ...]) -> None:
        api, self.seconds, self.stamps, backups, leases = saved
        self.backups = [*backups]
        vars(self.api).update(api)
        for name, lease in self.leases.items():
            vars(lease).update(leases[name])

    def key(self) -> str:
        """The state, as far as it has an effect on what happens later."""
        leases = [self._of(lease) for lease in self.leases.values()]
        values = [self.api.lease, self.backups[-1:], leases]
        numbers: dict[str, int] = {}

        def numbered(found: re.Match[str]) -> str:
            return f"#{numbers.setdefault(found[0], len(numbers))}"

        # Only which of them are equal says something.
        return re.sub(r"uid-\d+|\d{4}-\d\d-\d\dT[\d:.]+Z|'\d+'", numbered, repr(values))

    def _of(self, lease: Lease) -> list[object]:
        skipped = ("_api", "_clock", "_now", "_report", "_ends", "_due", "_times", "failure")
        return [
            max(-LONG, value - self.seconds) if isinstance(value, float) else value
            for name, value in vars(lease).items()
            if name not in skipped
        ]


def _held_by_a(world: World) -> None:
    for name in world.names:
        world.happen(("turn", name))
    assert world.holders() == ["a"]


def _edited(world: World) -> None:
    _held_by_a(world)
    world.happen(("holder", ""))


def _without_a_lease(world: World) -> None:
    world.api.delete()


DELETED: list[Event] = [("delete", ""), ("restore", ""), ("make", "")]
EDITED: list[Event] = [("holder", ""), ("holder", "b"), ("transitions", ""), ("wipe", "")]


def _events(kinds: Sequence[str], names: str) -> list[Event]:
    return [(kind, name) for kind in kinds for name in names]


@pytest.mark.parametrize("begin", [_held_by_a, _edited, _without_a_lease])
@pytest.mark.parametrize("others", [DELETED, EDITED], ids=["deleted", "edited"])
@pytest.mark.parametrize(("names", "depth"), [("ab", 5), ("abc", 4)])
def test_no_few_events_make_two_leaders(
    begin: Callable[[World], None], others: list[Event], names: str, depth: int
) -> None:
    """Every sequence, but of those that lead to the same state one is continued."""
    world = World(names)
    begin(world)
    waits: list[Event] = [("wait", 3.0), ("wait", 8.0)]
    events = [*_events(("turn", "call"), names), *waits, *others]
    states: dict[str, tuple[Any, list[Event]]] = {world.key(): (world.save(), [])}
    seen = set(states)
    for _ in range(depth):
        found: dict[str, tuple[Any, list[Event]]] = {}
        for saved, path in states.values():
            for event in events:
                world.load(saved)
                world.happen(event)
                assert len(world.holders()) <= 1, [*path, event]
                if (key := world.key()) not in seen:
                    seen.add(key)
                    found[key] = world.save(), [*path, event]
        states = found


@pytest.mark.parametrize("names", ["ab", "abc"])
def test_no_many_events_make_two_leaders(names: str) -> None:
    """Requests and answers are on their way meanwhile; in the end somebody is the leader."""
    faults: list[Event] = [("fault", "broken"), ("fault", "lost"), *[("fault", "")] * 6]
    for seed in range(examples(400)):
        random, world, events = Random(seed), World(names), list[Event]()
        for _ in range(150):
            kinds = _events(("turn", "step", "step", "step", "call"), names)
            waits: list[Event] = [("wait", random.choice((0.1, 1.0, 2.0, 5.0, 15.0)))] * 4
            event = random.choice([*kinds, *waits, random.choice([*DELETED, *EDITED, *faults])])
            events.append(event)
            world.happen(event)
            assert len(world.holders()) <= 1, (seed, events)
        world.happen(("fault", ""))
        for _ in range(30):
            world.happen(("wait", 2.0))
            for name in names:
                world.happen(("turn", name))
        assert len(world.holders()) == 1, (seed, events)


# ---- how long it takes


def _seconds_until_held(world: World, name: str) -> float:
    """The time until this replica is the leader; the others are frozen meanwhile."""
    began = world.seconds
    while not world.leases[name].held:
        world.happen(("wait", 0.5))
        world.happen(("call", name))
        world.happen(("turn", name))
    return world.seconds - began


@rows(
    "events",
    {
        "deleted": [("delete", "")],
        "restored from a backup": [("delete", ""), ("restore", "")],
        "made by others": [("delete", ""), ("make", "")],
        "the holder taken out": [("holder", "")],
        "another holder written": [("holder", "b")],
        "counted anew": [("transitions", "")],
        "emptied": [("wipe", "")],
    },
)
def test_nobody_decides_until_any_earlier_leader_has_stopped(events: list[Event]) -> None:
    """That takes 15 s, also if the leader does not notice, as when it is frozen."""
    world = World("ab")
    _held_by_a(world)
    lease = world.leases["a"]
    for event in events:
        world.happen(event)
    assert lease.held, "it does not know"
    assert DURATION <= _seconds_until_held(world, "b") <= DURATION + 1
    assert world.holders() == ["b"]
    world.happen(("turn", "a"))
    assert world.holders() == ["b"]


def test_a_leader_that_notices_does_not_decide_any_more() -> None:
    world = World("ab")
    _held_by_a(world)
    world.happen(("delete", ""))
    world.happen(("turn", "a"))
    assert world.holders() == []
    assert DURATION <= _seconds_until_held(world, "a") <= DURATION + 1
    assert world.holders() == ["a"]
