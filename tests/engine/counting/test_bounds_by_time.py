"""Bounds that change with the time: the number is that of the moment, and no event is needed."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from engine.cache.cache import Cache
from engine.decision.verdict import Feasible
from engine.engine import Engine
from engine.errors import EngineError
from engine.program.policy_time import DecisionTime
from grammar.values.time import Timestamp
from tests.support.builders import node, pod, raw
from tests.support.engines import CODEC, Known, Silent, cache_of, peer_of, registry_of

LABELS = {"app": "web"}
WEB = 'pods where peer.labels[?"app"].orValue("") == "web"'
# Four by day and one by night.
BY_DAY = "now.getHours() >= 8 && now.getHours() < 20 ? 4 : 1"
NODES = [node("a", "x", labels={"spot": "y"}), node("b", "y"), node("c", "z")]


class Day:
    """An engine whose time is set by hand, and the pods that it has placed."""

    def __init__(self, clause: str) -> None:
        self.now = datetime(2026, 11, 26, 12, tzinfo=UTC)
        self.cache: Cache = cache_of(NODES)
        self.seconds = 0.0
        self.engine = Engine(
            registry_of(f"cluster policy p {{ {clause} }}"),
            Known(self.cache),
            CODEC,
            Silent(),
            time=DecisionTime(lambda: self.seconds, lambda: Timestamp.parse(self.now.isoformat())),
        )
        self._asked = 0

    def at(self, hour: int, minute: int = 0) -> Day:
        self.now = self.now.replace(hour=hour, minute=minute)
        return self

    def open(self, names: str = "abc") -> str:
        """The nodes that a new pod would get, which is then gone."""
        # So that many questions are no loop.
        self.seconds += 3600
        self._asked += 1
        asked = pod(f"asked-{self._asked}", cpu="1", labels=LABELS)
        found = ""
        for name in names:
            (verdict,) = self.engine.filter(raw(asked), [name], None, math.inf)
            found += name if isinstance(verdict, Feasible) else ""
            self.engine.in_flight.forget(peer_of(asked).uid)
        return found

    def put(self, name: str, on: str) -> None:
        self.cache.put_pod(peer_of(pod(name, cpu="1", labels=LABELS, on=on)))


@pytest.mark.parametrize(
    ("clause", "night", "day"),
    [
        pytest.param(f"limit 'l' {{ {WEB} per node at most {BY_DAY} strict }}", "c", "abc"),
        pytest.param(f"limit 'l' {{ {WEB} per cluster at most {BY_DAY} strict }}", "", "abc"),
        pytest.param(
            f"limit 'l' {{ {WEB} per zone at most zone.value == 'x' ? ({BY_DAY}) : 9 strict }}",
            "bc",
            "abc",
        ),
        pytest.param(
            f"group zone by node.zone limit 'l' {{ {WEB} per zone"
            f" at most zone.nodes * ({BY_DAY}) strict }}",
            "c",
            "abc",
        ),
        pytest.param(
            f"limit 'l' {{ sum peer.requests['cpu'] of {WEB} per node"
            f" at most quantity(string({BY_DAY})) strict }}",
            "c",
            "abc",
        ),
        pytest.param(f"limit 'l' {{ {WEB} used node at most {BY_DAY} strict }}", "ab", "abc"),
        pytest.param(
            f"limit 'l' {{ {WEB} used node where node.name != 'c' || now.getHours() >= 8"
            " at most 2 strict }",
            "abc",
            "ab",
        ),
        pytest.param(
            f"let part = now.getHours() < 8 ? 10 : 80 share 's' {{ of {WEB}"
            " on nodes where has(node.labels['spot']) at most part% strict }",
            "bc",
            "abc",
        ),
        pytest.param(
            f"share 's' {{ of {WEB} on nodes where has(node.labels['spot']) || now.getHours() < 8"
            " at most 1 strict }",
            "",
            "bc",
        ),
        pytest.param(
            f"spread 's' {{ {WEB} over node.zone skew at most now.getHours() < 8 ? 1 : 5 strict }}",
            "c",
            "abc",
        ),
        pytest.param(
            f"spread 's' {{ {WEB} over node.zone == 'x' skew at most 1"
            " at least now.getHours() < 8 ? 9 : 2 strict }",
            "",
            "abc",
        ),
    ],
)
def test_a_bound_is_that_of_the_moment(clause: str, night: str, day: str) -> None:
    world = Day(clause.replace("'", '"'))
    world.put("one", on="a")
    world.put("two", on="b")
    for _ in range(2):
        assert world.at(12).open() == day
        assert world.at(3).open() == night
    # The clock is set back.
    world.at(12).now += timedelta(days=1)
    assert world.open() == day
    world.now -= timedelta(days=2)
    assert world.at(3).open() == night
    assert world.at(12).open() == day


def test_a_bound_lasts_until_its_minute() -> None:
    world = Day(f'limit "l" {{ {WEB} per cluster at most {BY_DAY} strict }}')
    world.put("one", on="a")
    assert world.at(19, 59).open() == "abc"
    world.now += timedelta(seconds=59.999)
    assert world.open() == "abc"
    world.now += timedelta(seconds=0.001)
    assert world.open() == ""


def test_a_bound_of_now_itself_turns_at_its_nanosecond() -> None:
    opens = 'now >= timestamp("2026-11-26T12:00:00.5Z")'
    world = Day(f'limit "l" {{ {WEB} per cluster at most {opens} ? 9 : 0 strict }}')
    assert world.open() == ""
    world.now += timedelta(seconds=0.499999)
    assert world.open() == ""
    world.now += timedelta(seconds=0.000001)
    assert world.open() == "abc"


def test_a_pod_is_not_bound_after_its_bound_has_fallen() -> None:
    world = Day(f'limit "l" {{ {WEB} per cluster at most {BY_DAY} strict }}')
    world.put("one", on="a")
    asked = raw(pod("late", labels=LABELS))
    (verdict,) = world.at(19, 59).engine.filter(asked, ["b"], None, math.inf)
    assert isinstance(verdict, Feasible)
    world.at(20)
    with pytest.raises(EngineError):
        world.engine.admit(asked, "b", math.inf)
    assert world.at(12).engine.admit(asked, "b", math.inf).is_counted


def test_a_rejected_pod_would_pass_when_its_bound_has_risen() -> None:
    """The requeuer asks this once a second."""
    world = Day(f'limit "l" {{ {WEB} per cluster at most {BY_DAY} strict }}')
    world.put("one", on="a")
    asked = world.engine.looks.read(raw(pod("waits", labels=LABELS)))
    assert not world.at(7, 59).engine.looks.would_pass(asked)
    assert world.at(8).engine.looks.would_pass(asked)


@pytest.mark.parametrize("seed", range(5))
def test_no_binding_passes_the_bound_of_its_moment(seed: int) -> None:
    """Pods come in bursts, are bound late or not at all, and leave, while the hours pass."""
    random, world = Random(seed), Day(f'limit "l" {{ {WEB} per node at most {BY_DAY} strict }}')
    bound: dict[str, str] = {}
    offered: list[tuple[bytes, str, str]] = []
    for number in range(300):
        world.seconds += 1
        world.now += timedelta(minutes=random.randrange(30))
        most = 4 if 8 <= world.now.hour < 20 else 1
        match random.randrange(4):
            case 0 | 1:
                name, place = f"p{number}", random.choice("abc")
                body = raw(pod(name, labels=LABELS))
                try:
                    (verdict,) = world.engine.filter(body, [place], None, math.inf)
                except EngineError:
                    continue
                if isinstance(verdict, Feasible):
                    offered.append((body, name, place))
            case 2 if offered:
                body, name, place = offered.pop(random.randrange(len(offered)))
                try:
                    world.engine.admit(body, place, math.inf)
                except EngineError:
                    world.engine.in_flight.forget(peer_of(pod(name)).uid)
                    continue
                there = sum(each == place for each in bound.values())
                assert there < most
                bound[name] = place
                world.put(name, on=place)
                world.engine.in_flight.forget(peer_of(pod(name)).uid)
            case 3 if bound:
                name = random.choice(sorted(bound))
                world.cache.remove_pod(f"default/{name}")
                del bound[name]
            case _:
                pass
