"""Limits that count nodes: how many nodes are in use, and where one more pod may go."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from random import Random

import numpy as np
import pytest

from engine.counting.bounds import places_in_use
from engine.decision.verdict import Feasible
from engine.errors import BriefWaitError
from tests.engine.counting.helpers import ASKED, Counting, counting_of
from tests.support.books import examples
from tests.support.builders import Object, node, pod, raw, web
from tests.support.engines import cache_of, engine_over

WEB = 'pods where peer.labels["app"] == "web"'
NODES = [node(name, labels={"pool": "a"}) for name in ("n1", "n2", "n3")] + [node("other")]


def used(bound: str, pool: str = ' where node.labels["pool"] == "a"') -> str:
    return f'limit "l" {{ {WEB} used node{pool} {bound} strict }}'


def empty(bound: str) -> str:
    return f'limit "l" {{ {WEB} empty node where node.labels["pool"] == "a" {bound} strict }}'


def offered(counting: Counting, text: str, asked: Object = ASKED) -> tuple[list[str], list[str]]:
    """The nodes that are open, and those that are hopeful."""
    (headroom,) = counting.headrooms(text, asked)
    assert headroom.roomy is None, "an offer takes one node at most"
    names = list(counting.table.rows)
    return (
        [n for n, is_open in zip(names, headroom.open, strict=True) if is_open],
        [n for n, is_hopeful in zip(names, headroom.hopeful, strict=True) if is_hopeful],
    )


@pytest.mark.parametrize(
    ("text", "on", "opened"),
    [
        (used("at most 2"), [], ["n1", "n2", "n3", "other"]),
        (used("at most 2"), ["n1"], ["n1", "n2", "n3", "other"]),
        (used("at most 2"), ["n1", "n1", "n2"], ["n1", "n2", "other"]),
        (used("at most 0"), [], ["other"]),
        # Too many are in use already, and a pod there makes it no worse.
        (used("at most 1"), ["n1", "n2"], ["n1", "n2", "other"]),
        (used("at most 1"), ["other"], ["n1", "n2", "n3", "other"]),
        (used("at most 1", pool=""), ["other"], ["other"]),
        (used("at most 3 - 1"), ["n1", "n2"], ["n1", "n2", "other"]),
        (empty("at least 2"), [], ["n1", "n2", "n3", "other"]),
        (empty("at least 2"), ["n3"], ["n3", "other"]),
        (empty("at least 4"), ["n3"], ["n3", "other"]),
    ],
)
def test_nodes_with_headroom(text: str, on: Sequence[str], opened: Sequence[str]) -> None:
    counting = counting_of(NODES, [web(f"p{i}", n) for i, n in enumerate(on)])
    assert offered(counting, text) == (opened, opened)


IN_ZONES = [
    node(name, labels={"topology.kubernetes.io/zone": zone} if zone else {})
    for name, zone in {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c", "none": ""}.items()
]
AB, EVERYWHERE = ["a1", "a2", "b1", "b2"], ["a1", "a2", "b1", "b2", "c1"]


@pytest.mark.parametrize(
    "place", ["zone", "node.zone", 'node.labels["topology.kubernetes.io/zone"]']
)
@pytest.mark.parametrize(
    ("bound", "on", "flying", "opened", "hopeful"),
    [
        ("used {} at most 2", [], [], EVERYWHERE, EVERYWHERE),
        ("used {} at most 2", ["a1", "b2"], [], AB, AB),
        ("used {} at most 1", ["a1", "a2"], [], ["a1", "a2"], ["a1", "a2"]),
        ("empty {} at least 1", ["a1", "b2"], [], AB, AB),
        # All nodes that the pod was offered are in one zone, which it takes for certain.
        ("used {} at most 2", ["a1"], [["b1", "b2"]], AB, EVERYWHERE),
        ("used {} at most 2", ["a1"], [["b1", "c1"]], ["a1", "a2"], EVERYWHERE),
        ("used {} at most 2", ["a1"], [["a1", "a2"]], EVERYWHERE, EVERYWHERE),
    ],
)
def test_used_zones(
    place: str,
    bound: str,
    on: Sequence[str],
    flying: Sequence[Sequence[str]],
    opened: Sequence[str],
    hopeful: Sequence[str],
) -> None:
    counting = counting_of(IN_ZONES, [web(f"p{i}", n) for i, n in enumerate(on)])
    for number, nodes in enumerate(flying):
        counting.offer(web(f"flying-{number}"), *nodes)
    text = f'limit "l" {{ {WEB} {bound.format(place)} strict missing fail }}'
    found = offered(counting, text)
    assert [[n for n in names if n != "none"] for names in found] == [opened, hopeful]


@pytest.mark.parametrize(
    ("on", "opened"),
    [
        ([], ["small", "large"]),
        (["small"], ["small"]),
        (["large"], ["large"]),
    ],
)
def test_amounts_of_used_nodes(on: Sequence[str], opened: Sequence[str]) -> None:
    cores = {"small": "2", "large": "8"}
    nodes = [node(name, labels={"cores": n}) for name, n in cores.items()]
    counting = counting_of(nodes, [web(f"p{i}", n) for i, n in enumerate(on)])
    for amount, bound in (("int({})", "9"), ("quantity({})", '"9"')):
        adds = amount.format('node.labels["cores"]')
        text = f'limit "l" {{ {WEB} sum {adds} over used node at most {bound} strict }}'
        assert offered(counting, text) == (opened, opened)


def test_a_bound_that_is_a_part_of_the_nodes() -> None:
    text = f'group all by true limit "l" {{ {WEB} used node at most all.nodes / 2 strict }}'
    engine = engine_over(f"cluster policy p {{ for pods where true {text} }}", cache_of(NODES))
    names = [each["metadata"]["name"] for each in NODES]

    for number in range(2):
        verdicts = engine.filter(raw(web(f"p{number}")), names, None, math.inf)
        assert all(isinstance(each, Feasible) for each in verdicts)
    # Two are on their way, and may take two of the four nodes.
    with pytest.raises(BriefWaitError):
        engine.filter(raw(web("p2")), names, None, math.inf)


def test_pods_in_flight_take_the_nodes_that_add_most() -> None:
    nodes = [node(name, labels={"cores": n}) for name, n in (("a", "1"), ("b", "2"), ("c", "4"))]
    counting = counting_of(nodes)
    counting.offer(web("flying"), "a", "b", "c")
    text = f'limit "l" {{ {WEB} sum int(node.labels["cores"]) over used node at most %s strict }}'
    everywhere = ["a", "b", "c"]
    assert offered(counting, text % 5) == (["a"], everywhere)
    assert offered(counting, text % 6) == (everywhere, everywhere)


def test_a_rule_that_reads_the_time_with_no_pod_in_flight() -> None:
    there = 'pods where now - peer.created >= duration("0s")'
    text = f'limit "l" {{ {there} used node at most 1 strict }}'
    assert offered(counting_of(NODES, [web("p", "n1")]), text)[0] == ["n1"]


def test_a_pod_that_does_not_count_goes_anywhere() -> None:
    counting = counting_of(NODES, [web("p", "n1")])
    everywhere = ["n1", "n2", "n3", "other"]
    assert offered(counting, used("at most 1"), pod("asked")) == (everywhere, everywhere)


def test_an_in_flight_pod_takes_one_node_wherever_it_was_offered() -> None:
    counting = counting_of(NODES)
    counting.offer(web("flying"), "n1", "n2", "n3")
    everywhere = ["n1", "n2", "n3", "other"]
    assert offered(counting, used("at most 2")) == (everywhere, everywhere)
    assert offered(counting, used("at most 1")) == (["other"], everywhere)


def test_in_flight_pods_take_no_more_nodes_than_they_were_offered() -> None:
    counting = counting_of(NODES)
    for name in ("a", "b", "c"):
        counting.offer(web(name), "n1", "n2")
    assert offered(counting, used("at most 2"))[0] == ["n1", "n2", "other"]
    assert offered(counting, used("at most 3"))[0] == ["n1", "n2", "n3", "other"]


def test_an_in_flight_pod_on_a_node_in_use_takes_none() -> None:
    counting = counting_of(NODES, [web("there", "n1")])
    counting.offer(web("flying"), "n1", "other")
    assert offered(counting, used("at most 2"))[0] == ["n1", "n2", "n3", "other"]


@pytest.mark.parametrize("seed", range(examples(100)))
def test_never_fewer_nodes_than_pods_can_take(seed: int) -> None:
    """Against every way in which the pods may end, and exact if they were offered the same."""
    random = Random(seed)
    size = random.randint(2, 5)
    placed = np.array([random.choice((0, 0, 1, 2)) for _ in range(size)], np.int64)
    certain = np.array([random.randint(0, n) for n in placed], np.int64)
    same = random.random() < 0.5
    offers = [
        random.sample(range(size), random.randint(1, size)) for _ in range(random.randint(0, 3))
    ]
    if same:
        offers = offers[:1] * random.randint(1, 3)
    # Several nodes of an offer can be in one place.
    in_flight = [np.array(sorted(offer * random.randint(1, 2)), np.int32) for offer in offers]
    adds = np.array([random.choice((0, 1, 3)) for _ in range(size)], np.int64)
    most, fewest = places_in_use(placed, certain, in_flight, adds)
    taken = {n for n in range(1, size) if placed[n]}
    for place in range(1, size):
        ended = ((taken | {*ends, place}) - {0} for ends in product(*offers))
        outcomes = [int(adds[sorted(used)].sum()) for used in ended]
        if place in taken:
            assert most[place] == fewest[place] == 0
            continue
        assert most[place] >= max(outcomes)
        assert most[place] == max(outcomes) or not same
        reachable = any(place in offer for offer in offers)
        least = int(adds[1:][certain[1:] > 0].sum() + adds[place])
        assert fewest[place] == (0 if reachable else least)
