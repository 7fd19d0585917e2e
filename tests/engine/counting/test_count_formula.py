"""The formula of a count: members, there, assumed, in flight and nominated, as a table.

A cell has one word for each pod of the app web: `n1` for one on that node, or bound or nominated
to it, `-` for one that waits, and `n1/n2` for one in flight that was offered both and probably ends
on the first.
"""

from __future__ import annotations

import pytest

from engine.program.program import CountClause
from tests.engine.counting.helpers import ASKED, LIMIT, Counted, Counting, clause_of, counting_of
from tests.support.builders import Object, node, pod

NODES = ["n1", "n2", "n3"]
PER_NODE = clause_of(LIMIT % "node at most 9")
CORES = clause_of(
    'limit "l" { sum peer.requests["cpu"] of pods where peer.labels["app"] == "web" per node'
    ' at most "64" strict }'
)

# At most and at least on n1, n2 and n3; at most if each pod in flight ends where it probably does;
# and how many pods there are in the cluster, with the one in question.
TABLE = """
members  | there | assumed | in flight | nominated | high  | low   | predicted | all
         |       |         |           |           | 0 0 0 | 0 0 0 | 0 0 0     | 1
n1 n1 n2 |       |         |           |           | 2 1 0 | 2 1 0 | 2 1 0     | 4
n1 - -   |       |         |           |           | 1 0 0 | 1 0 0 | 1 0 0     | 4
n1       | n1    |         |           |           | 1 0 0 | 1 0 0 | 1 0 0     | 2
n1       | -     |         |           |           | 1 0 0 | 1 0 0 | 1 0 0     | 2
n1       |       | n1 n2   |           |           | 2 1 0 | 1 0 0 | 2 1 0     | 4
n1       |       |         | n1/n2     |           | 2 1 0 | 1 0 0 | 2 0 0     | 2
         |       |         | n1/n2 n2  |           | 1 2 0 | 0 0 0 | 1 1 0     | 1
n1       |       |         |           | n1 n3     | 2 0 1 | 1 0 0 | 2 0 1     | 4
n2 -     | n2    | n1      | n2/n3     | n3        | 1 2 2 | 0 1 0 | 1 2 1     | 5
"""
ROWS = [[cell.strip() for cell in line.split("|")] for line in TABLE.strip().splitlines()[1:]]


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


def numbers(cell: str, times: int = 1) -> dict[str, int]:
    pairs = zip(NODES, map(int, cell.split()), strict=True)
    return {name: times * number for name, number in pairs if number}


def counted(row: list[str], clause: CountClause, *, predicted: bool = False) -> Counted:
    return counting(*row[:5]).count(clause, web("asked"), predicted=predicted)


@pytest.mark.parametrize("row", ROWS, ids=" | ".join)
def test_a_count(row: list[str]) -> None:
    high, low, predicted, total = row[5:]
    found = counted(row, PER_NODE)
    assert (found.high, found.low) == (numbers(high), numbers(low))
    assert (found.own, found.total, found.pods) == (1, int(total), int(total))
    likely = counted(row, PER_NODE, predicted=True)
    assert (likely.high, likely.low) == (numbers(predicted), numbers(low))


@pytest.mark.parametrize("row", ROWS, ids=" | ".join)
def test_a_sum_has_the_amounts_of_the_same_pods(row: list[str]) -> None:
    """Each requests two cores, which are 2,000 thousandths."""
    found = counted(row, CORES)
    assert (found.high, found.low) == (numbers(row[5], 2000), numbers(row[6], 2000))
    assert found.own == 2000
