"""Floors and ceilings of one policy: what can be met is met, in whatever order pods arrive."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.counting.count_clauses import UNMET, PodsToPlace, shortfall
from engine.decision.verdict import Feasible
from engine.errors import DeadlineExceededError, WaitingError
from tests.support.books import examples
from tests.support.builders import node, pod, raw
from tests.support.engines import cache_of, engine_over, node_of, peer_of

# The cells that nodes are in: one bit for each of up to three shares.
PLACES = {
    "three zones": (0b001, 0b010, 0b100),
    "two zones and others": (0b00, 0b01, 0b10),
    "one share within another": (0b00, 0b01, 0b11),
    "two shares that cross": (0b00, 0b01, 0b10, 0b11),
    "three shares that cross in pairs": (0b011, 0b101, 0b110),
    "three shares with everything": tuple(range(8)),
}
Bounds = Sequence[tuple[int, int]]
Placed = tuple[int, ...]


def spread_out(pods: int, cells: int) -> Iterator[Placed]:
    """Every way to have so many pods in so many cells."""
    if cells == 1:
        yield (pods,)
        return
    for here in range(pods + 1):
        for others in spread_out(pods - here, cells - 1):
            yield (here, *others)


def on_shares(placed: Placed, cells: Sequence[int], shares: int) -> list[int]:
    pairs = list(zip(cells, placed, strict=True))
    return [sum(n for cell, n in pairs if cell >> bit & 1) for bit in range(shares)]


def are_met(placed: Placed, cells: Sequence[int], bounds: Bounds) -> bool:
    on = on_shares(placed, cells, len(bounds))
    return all(low <= n <= high for n, (low, high) in zip(on, bounds, strict=True))


def open_cells(placed: Placed, cells: Sequence[int], bounds: Bounds, wanted: int) -> list[int]:
    """The positions of the cells that take another pod, by floors and by ceilings."""
    on = tuple(on_shares(placed, cells, len(bounds)))
    low, high = zip(*bounds, strict=True)
    pods = PodsToPlace(wanted, sum(placed), 0, 1, low, high, on, on, tuple(cells))
    found = dict(zip(cells, pods.open_cells(cells, lambda: None), strict=True))
    return [
        position
        for position, cell in enumerate(cells)
        if found[cell] and all(on[b] < high[b] for b in range(len(bounds)) if cell >> b & 1)
    ]


def check_every_order(cells: Sequence[int], bounds: Bounds, wanted: int) -> None:
    """Places pods one after another in every order that is open."""
    ways = spread_out(wanted, len(cells))
    can_be_met = any(are_met(way, cells, bounds) for way in ways)

    @cache
    def go_on(placed: Placed) -> None:
        if sum(placed) == wanted:
            assert are_met(placed, cells, bounds) or not can_be_met, placed
            return
        found = open_cells(placed, cells, bounds, wanted)
        assert found or not can_be_met, f"no cell takes another pod beside {placed}"
        for position in found:
            go_on((*placed[:position], placed[position] + 1, *placed[position + 1 :]))

    go_on((0,) * len(cells))


def share_count(cells: Sequence[int]) -> int:
    return max(cell.bit_length() for cell in cells)


@pytest.mark.parametrize("place", PLACES)
def test_what_can_be_met_is_met_in_every_order(place: str) -> None:
    """Every floor and ceiling of up to three pods."""
    cells = PLACES[place]
    for wanted in range(1, 4):
        pairs = [(low, high) for low in range(wanted + 1) for high in range(low, wanted + 1)]
        for bounds in product(pairs, repeat=share_count(cells)):
            check_every_order(cells, bounds, wanted)


@settings(max_examples=examples(2_000))
@given(st.data())
def test_what_can_be_met_is_met_with_up_to_eight_pods(data: st.DataObject) -> None:
    cells = PLACES[data.draw(st.sampled_from(sorted(PLACES)))]
    wanted = data.draw(st.integers(1, 8))
    number = st.integers(0, wanted)
    pairs = st.tuples(number, number).map(lambda pair: (min(pair), max(pair)))
    bounds = data.draw(st.tuples(*[pairs] * share_count(cells)))
    check_every_order(cells, bounds, wanted)


@settings(max_examples=examples(1_000))
@given(st.data())
def test_the_shortfall_is_that_of_a_plain_search(data: st.DataObject) -> None:
    cells = data.draw(st.sampled_from([c for c in PLACES.values() if len(c) < 8]))
    numbers = st.tuples(*[st.integers(0, 4)] * share_count(cells))
    needs, room, pods = data.draw(numbers), data.draw(numbers), data.draw(st.integers(0, 5))
    found = []
    for number in range(pods + 1):
        for placed in spread_out(number, len(cells)):
            on = on_shares(placed, cells, len(needs))
            if all(n <= r for n, r in zip(on, room, strict=True)):
                unmet = sum(max(0, n - o) for n, o in zip(needs, on, strict=True))
                found.append(pods - number + UNMET * unmet)
    assert shortfall(needs, room, cells, pods) == min(found)


WEB = 'pods where peer.labels["app"] == "web"'


def share(zone: str, bound: str) -> str:
    """A share of a zone, or of the nodes of a zone in capitals that have an ssd."""
    on = f'on nodes where node.labels["zone"] == "{zone.lower()}"'
    ssd = ' && node.labels["disk"] == "ssd"' if zone.isupper() else ""
    return f'share "{zone}" {{ of {WEB} {on}{ssd} {bound} strict }}'


def in_zone(name: str) -> dict[str, Any]:
    """A node of a zone, in capitals one that has an ssd."""
    return node(name, labels={"zone": name.lower(), "disk": "ssd" if name.isupper() else "hdd"})


@pytest.mark.parametrize(
    ("shares", "zones", "wanted", "placed"),
    [
        ((("a", "at least 2"),), "xy", 4, 2),
        ((("a", "at least 2"), ("x", "at least 1")), "xy", 4, 2),
        ((("a", "at least 2"), ("x", "at most 1")), "xy", 4, 2),
        ((("a", "exactly 50%"), ("x", "at least 25%")), "xy", 4, 2),
        ((("a", "at most 2"), ("x", "at least 1")), "xy", 4, 4),
        ((("a", "at least 1"), ("b", "at least 1"), ("c", "at least 1")), "ab", 3, 2),
        ((("a", "at least 1"), ("b", "at least 1"), ("c", "at least 1")), "b", 3, 1),
        # A floor within a floor.
        ((("a", "at least 2"), ("A", "at least 1")), "xy", 4, 2),
        ((("A", "at least 2"), ("a", "at least 50%"), ("b", "at least 1")), "x", 4, 1),
        ((("a", "at most 1"), ("A", "at least 2")), "x", 4, 3),
        # Not all of them can be met.
        ((("a", "at least 1"), ("b", "at least 1"), ("c", "at least 1")), "ab", 2, 2),
    ],
)
def test_pods_of_a_floor_wait_for_its_first_node(
    shares: Sequence[tuple[str, str]], zones: str, wanted: int, placed: int
) -> None:
    """As where a pool scales from zero: other floors take none of what it has to get."""
    clauses = " ".join(share(*each) for each in shares)
    waiting = [pod(f"p{i}", labels={"app": "web"}) for i in range(wanted)]
    known = cache_of(map(in_zone, zones), waiting)
    engine = engine_over(f"cluster policy p {{ {clauses} }}", known)
    known.add_event_handler(engine.in_flight.pod_changed)

    def ask(asked: dict[str, Any], names: str) -> bool:
        verdicts = engine.filter(raw(asked), list(names), None, math.inf)
        to = [n for n, v in zip(names, verdicts, strict=True) if isinstance(v, Feasible)]
        if to:
            known.put_pod(peer_of(asked | {"spec": asked["spec"] | {"nodeName": to[0]}}))
        return bool(to)

    left = [asked for asked in waiting if not ask(asked, zones)]
    assert wanted - len(left) == placed
    for name in {name for name, _ in shares} - set(zones):
        known.put_node(node_of(in_zone(name)))
    assert not [asked for asked in left if not ask(asked, "abcxyA")]


@pytest.mark.parametrize("nodes", [*permutations("AaXx")], ids="".join)
def test_the_last_pod_goes_where_it_is_for_every_floor(nodes: Sequence[str]) -> None:
    """In whichever order the nodes came, and though that node is the only one of its kind."""
    ssd = (
        f'share "ssd" {{ of {WEB} on nodes where node.labels["disk"] == "ssd" at least 1 strict }}'
    )
    asked = pod("p", labels={"app": "web"})
    text = f"cluster policy p {{ {share('a', 'at least 1')} {ssd} }}"
    engine = engine_over(text, cache_of(map(in_zone, nodes), [asked]))
    found = engine.filter(raw(asked), list(nodes), None, math.inf)
    assert [n for n, v in zip(nodes, found, strict=True) if isinstance(v, Feasible)] == ["A"]


def test_the_clock_is_looked_at_for_each_cell() -> None:
    looks = 0

    def check() -> None:
        nonlocal looks
        looks += 1
        if looks > 2:
            raise DeadlineExceededError

    pods = PodsToPlace(3, 0, 0, 1, (1, 1, 1), (3, 3, 3), (0, 0, 0), (0, 0, 0), tuple(range(8)))
    with pytest.raises(DeadlineExceededError):
        pods.open_cells(range(8), check)


ZONES = ("x", "y", "z")


@settings(max_examples=examples(200))
@given(st.data())
def test_floors_are_met_while_other_pods_are_in_flight(data: st.DataObject) -> None:
    """kube-scheduler asks about further pods before it binds, and binds to any offered node."""
    wanted = data.draw(st.integers(3, 8))
    least = [data.draw(st.integers(0, wanted // 3)) for _ in ZONES]
    clauses = " ".join(
        share(zone, f"at least {number}") for zone, number in zip(ZONES, least, strict=True)
    )
    nodes = [node(f"{zone}{i}", labels={"zone": zone}) for zone in (*ZONES, "w") for i in range(2)]
    names = [each["metadata"]["name"] for each in nodes]
    waiting = [pod(f"p{i}", labels={"app": "web"}) for i in range(wanted)]
    known = cache_of(nodes, waiting)
    engine = engine_over(f"cluster policy p {{ {clauses} }}", known)
    known.add_event_handler(engine.in_flight.pod_changed)
    offered: dict[str, list[str]] = {}
    where: Counter[str] = Counter()
    for _ in range(20 * wanted):
        if not waiting and not offered:
            break
        if waiting and (not offered or data.draw(st.booleans())):
            asked = waiting.pop(0)
            try:
                found = list(engine.filter(raw(asked), names, None, math.inf))
            except WaitingError:
                waiting.append(asked)
                continue
            to = [n for n, v in zip(names, found, strict=True) if isinstance(v, Feasible)]
            if to:
                offered[asked["metadata"]["name"]] = to
            else:
                waiting.append(asked)
        elif offered:
            name = data.draw(st.sampled_from(sorted(offered)))
            chosen = data.draw(st.sampled_from(offered.pop(name)))
            where[chosen[0]] += 1
            known.put_pod(peer_of(pod(name, labels={"app": "web"}, on=chosen)))
    assert not waiting
    assert all(where[zone] >= number for zone, number in zip(ZONES, least, strict=True)), where
