"""The pods that make up a count, by name: bound, in flight and nominated."""

from __future__ import annotations

import math
from collections.abc import Generator
from random import Random

import pytest

from engine.counting.groups import CountGroups, PodInGroup
from engine.explanation.inspection import Inspection
from engine.work import finished
from tests.engine.counting.helpers import ASKED, Counting, clause_of, counting_of, update
from tests.support.books import examples
from tests.support.builders import Object, node, pod, raw, web
from tests.support.engines import cache_of, engine_over, peer_of

WEB = {"app": "web"}
NODES = [
    node("n1", "a", labels={"cap": "spot"}),
    node("n2", "a"),
    node("n3", "b", labels={"cap": "spot"}),
]
PODS = 'pods where peer.labels["app"] == "web"'
CLAUSES = (
    f'limit "l" {{ {PODS} per node at most 9 strict }}',
    f'limit "l" {{ {PODS} per zone at most 9 strict }}',
    f'limit "l" {{ {PODS} per cluster at most 9 strict }}',
    f'spread "l" {{ {PODS} over node.zone skew at most 9 strict }}',
    f'share "l" {{ of {PODS} on nodes where node.labels["cap"] == "spot" at most 9 strict }}',
)


def nominated(name: str, to: str, priority: int = 5) -> Object:
    made = web(name, priority=priority)
    made["status"]["nominatedNodeName"] = to
    return made


def result_of(work: Generator[None, None, list[PodInGroup]]) -> list[PodInGroup]:
    while True:
        try:
            next(work)
        except StopIteration as end:
            found: list[PodInGroup] = end.value
            return found


def pods_by_group(counting: Counting, text: str) -> tuple[list[int], list[list[PodInGroup]]]:
    """The count of each group, and its pods by name."""
    clause = clause_of(text)
    groups = CountGroups(clause)
    update(groups, counting.table)
    counter = counting.counter()
    counts = counter.count(clause, groups, predicted=False).high.tolist()
    numbers = range(len(counts))
    works = [counter.counted_pods(clause, groups, [n]) for n in numbers]
    return counts, [result_of(work) for work in works]


def test_each_pod_says_how_it_is_there() -> None:
    there = [web("a", on="n1"), web("asked", on="n1"), pod("other", on="n1"), nominated("d", "n1")]
    counting = counting_of(NODES, [*there, nominated("low", "n1", priority=-1)])
    counting.offer(web("b"), "n1", "n2")
    counting.cache.put_pod(peer_of(web("c")))
    counting.cache.assume(peer_of(web("c")), "n1", 60.0)
    text = f'limit "l" {{ {PODS} per zone at most 9 strict }}'
    counts, (first, *_) = pods_by_group(counting, text)
    assert counts[0] == len(first)
    assert first == [
        ("default/a", "bound"),
        ("default/b", "in flight"),
        ("default/c", "in flight"),
        ("default/d", "nominated"),
    ]


@pytest.mark.parametrize("seed", range(examples(30)))
def test_there_are_as_many_as_are_counted(seed: int) -> None:
    random = Random(seed)
    names = [each["metadata"]["name"] for each in NODES]
    made = []
    for number in range(random.randint(0, 8)):
        name, to = f"p{number}", random.choice(names)
        choices = (web(name, on=to), web(name), pod(name, on=to), nominated(name, to))
        made.append(random.choice(choices))
    counting = counting_of(NODES, made)
    for each in made:
        if "nodeName" not in each["spec"] and random.random() < 0.5:
            counting.offer(each, *random.sample(names, random.randint(1, 3)))
    for text in CLAUSES:
        counts, pods = pods_by_group(counting, text)
        assert counts == [len(each) for each in pods], text


def test_a_sum_leaves_out_what_adds_nothing() -> None:
    counting = counting_of(NODES, [web("a", cpu="1", on="n1"), web("b", on="n1")])
    sum_of = 'sum peer.requests["cpu"] of pods where "cpu" in peer.requests'
    _, pods = pods_by_group(counting, f'limit "l" {{ {sum_of} per node at most 9 strict }}')
    assert [each for group in pods for each in group] == [("default/a", "bound")]


def test_the_pods_whose_mutual_limit_keeps_the_pod_out() -> None:
    alone = (
        'cluster policy apart { for pods where pod.labels["app"] == "db"\n'
        'limit "quiet" { all pods where peer.labels["app"] != "db" per node at most 0 strict'
        " mutual } }"
    )
    db = {"app": "db"}
    waiting = pod("db-2", labels=db, priority=7)
    waiting["status"]["nominatedNodeName"] = "n1"
    there = [pod("db-0", labels=db, on="n1"), pod("db-1", labels=db, on="n2"), web("w", on="n1")]
    cache = cache_of(NODES, [*there, waiting, pod("db-3", labels=db)])
    engine = engine_over(alone, cache)
    engine.filter(raw(pod("db-3", labels=db)), ["n3"], None, math.inf)
    inspection = Inspection(engine, raw(ASKED))
    (objection,) = finished(inspection.objections())
    assert objection.is_mutual
    clause = objection.program
    keepers = {name: inspection.keepers(clause, name) for name in ("n1", "n2", "n3")}  # type: ignore[arg-type]
    assert keepers == {
        "n1": [("default/db-0", "bound"), ("default/db-2", "nominated")],
        "n2": [("default/db-1", "bound")],
        "n3": [("default/db-3", "in flight")],
    }


def test_pods_that_have_ended_are_named() -> None:
    counting = counting_of(NODES)
    for name in ("one", "two"):
        counting.cache.put_ended(peer_of(web(name, on="n2", phase="Failed")))
    counts, pods = pods_by_group(
        counting, f'limit "l" {{ ended {PODS} per node at most 9 strict }}'
    )
    assert sum(counts) == 2
    named = [each for group in pods for each in group]
    assert named == [PodInGroup(f"default/{name}", "bound") for name in ("one", "two")]
