"""The formula of a count: members, there, assumed, in flight and nominated, as a table.

A cell has one word for each pod of the app web: `n1` for one on that node, or bound or nominated
to it, `-` for one that waits, and `n1/n2` for one in flight that was offered both and probably ends
on the first.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.engine.counting.helpers import ASKED, LIMIT, Counting, clause_of, counting_of
from tests.support.books import integers, table
from tests.support.builders import Object, node, pod

NODES = ["n1", "n2", "n3"]
PER_NODE = clause_of(LIMIT % "node at most 9")
CORES = clause_of(
    'limit "l" { sum peer.requests["cpu"] of pods where peer.labels["app"] == "web" per node'
    ' at most "64" strict }'
)

# `high` and `low` are by node, and so is `likely`, which is `high` if each pod in flight ends where
# it probably does. `all` are the pods of the cluster with the one in question.
COUNTS = table(
    """
    case             | members  | there | assumed | flying   | ahead | high  | low   | likely | all
    nobody           |          |       |         |          |       | 0 0 0 | 0 0 0 | 0 0 0  | 1
    members          | n1 n1 n2 |       |         |          |       | 2 1 0 | 2 1 0 | 2 1 0  | 4
    some that wait   | n1 - -   |       |         |          |       | 1 0 0 | 1 0 0 | 1 0 0  | 4
    itself on a node | n1       | n1    |         |          |       | 1 0 0 | 1 0 0 | 1 0 0  | 2
    itself waiting   | n1       | -     |         |          |       | 1 0 0 | 1 0 0 | 1 0 0  | 2
    assumed on nodes | n1       |       | n1 n2   |          |       | 2 1 0 | 1 0 0 | 2 1 0  | 4
    in flight to two | n1       |       |         | n1/n2    |       | 2 1 0 | 1 0 0 | 2 0 0  | 2
    two in flight    |          |       |         | n1/n2 n2 |       | 1 2 0 | 0 0 0 | 1 1 0  | 1
    nominated to two | n1       |       |         |          | n1 n3 | 2 0 1 | 1 0 0 | 2 0 1  | 4
    all of these     | n2 -     | n2    | n1      | n2/n3    | n3    | 1 2 2 | 0 1 0 | 1 2 1  | 5
    """,
    high=integers,
    low=integers,
    likely=integers,
    all=int,
)


def web(name: str, on: str = "-", *, nominated: bool = False) -> Object:
    made = pod(name, labels={"app": "web"}, cpu="2", on=None if nominated or on == "-" else on)
    return made | {"status": {"phase": "Pending", "nominatedNodeName": on}} if nominated else made


def counting(members: str, there: str, assumed: str, in_flight: str, nominated: str) -> Counting:
    pods = [web(f"member-{i}", on) for i, on in enumerate(members.split())]
    pods += [web(ASKED["metadata"]["name"], on) for on in there.split()]
    pods += [web(f"assumed-{i}") for i, _ in enumerate(assumed.split())]
    pods += [web(f"ahead-{i}", on, nominated=True) for i, on in enumerate(nominated.split())]
    found = counting_of(map(node, NODES), pods)
    for i, on in enumerate(assumed.split()):
        known = found.cache.pod(f"default/assumed-{i}")
        assert known is not None
        found.cache.assume(known, on, until=60.0)
    for i, offered in enumerate(in_flight.split()):
        found.offer(web(f"flying-{i}"), *offered.split("/"))
    return found


def by_node(numbers: Sequence[int], times: int = 1) -> dict[str, int]:
    return {n: times * number for n, number in zip(NODES, numbers, strict=True) if number}


@COUNTS
def test_a_count(
    members: str,
    there: str,
    assumed: str,
    flying: str,
    ahead: str,
    high: list[int],
    low: list[int],
    likely: list[int],
    all: int,  # noqa: A002 - the name of a column
) -> None:
    """Of ones, and of two cores each, which are 2,000 thousandths."""
    cluster = counting(members, there, assumed, flying, ahead)
    found = cluster.count(PER_NODE, web("asked"))
    assert (found.high, found.low) == (by_node(high), by_node(low))
    assert (found.own, found.total, found.pods) == (1, all, all)
    found = cluster.count(PER_NODE, web("asked"), predicted=True)
    assert (found.high, found.low) == (by_node(likely), by_node(low))
    summed = cluster.count(CORES, web("asked"))
    assert (summed.high, summed.low) == (by_node(high, 2000), by_node(low, 2000))
    assert summed.own == 2000
