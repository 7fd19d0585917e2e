"""Requests as kube-scheduler makes them: of all nodes each time others, and in another order."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import quantiles

from tests.benchmarks.keep_alive import KeepAlive

# kube-scheduler's own filters leave some nodes out, and other ones for each pod.
_THINNED = 0.02
# Its workers take so many nodes at a time, and finish in any order.
_CHUNK = 16
# The most that one pod waits while the server meets pods of its shape.
_WARM_SECONDS = 60.0


class Offers:
    """Makes the bodies of filter and prioritize calls; the same seed makes the same ones."""

    def __init__(
        self, pods: Sequence[bytes], names: Sequence[str], nodes: Sequence[bytes] | None = None
    ) -> None:
        """`nodes` are those of `names` as JSON, for requests that carry them."""
        self._pods = pods
        self._names = names
        self._nodes = None if nodes is None else dict(zip(names, nodes, strict=True))
        self._random = random.Random(8)
        self._made = 0

    def next(self) -> tuple[bytes, list[str]]:
        """The next pod, and the names that are offered to it."""
        pod = self._pods[self._made % len(self._pods)]
        self._made += 1
        chance = self._random
        start = chance.randrange(len(self._names))
        turned = [*self._names[start:], *self._names[:start]]
        chunks = [turned[i : i + _CHUNK] for i in range(0, len(turned), _CHUNK)]
        for i in range(0, len(chunks), _CHUNK):
            some = chunks[i : i + _CHUNK]
            chance.shuffle(some)
            chunks[i : i + _CHUNK] = some
        names = [name for chunk in chunks for name in chunk]
        return pod, [name for name in names if chance.random() >= _THINNED]

    def body(self, pod: bytes, names: Sequence[str]) -> bytes:
        """The body of a call of either verb."""
        if self._nodes is None:
            listed = json.dumps(names, separators=(",", ":")).encode()
            return b"".join((b'{"Pod":', pod, b',"Nodes":null,"NodeNames":', listed, b"}\n"))
        items = b",".join(self._nodes[name] for name in names)
        head = b',"Nodes":{"metadata":{},"items":['
        return b"".join((b'{"Pod":', pod, head, items, b']},"NodeNames":null}\n'))


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds that filter and prioritize took together, a pod."""

    half: float
    most: float

    def __str__(self) -> str:
        return f"{self.half:.3g} ms, p99 {self.most:.3g}"


def latencies(
    contestants: Mapping[str, KeepAlive], offers: Offers, pods: int, *, block: int, warm: int
) -> dict[str, Latency]:
    """Ask all contestants about the same pods, in turns of `block`; the first `warm` are no part.

    All must find the same nodes feasible. p50 and p99 of `pods` each.
    """
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for first in range(0, warm + pods, block):
        turn = [offers.next() for _ in range(block)]
        feasible: list[list[str]] = []
        for name, connection in contestants.items():
            seconds, found = zip(*asked(connection, offers, turn, again=first < warm), strict=True)
            assert not feasible or feasible == list(found), name
            feasible = list(found)
            if first >= warm:
                taken[name] += seconds
    return {name: latency(seconds) for name, seconds in taken.items()}


def latency(seconds: Sequence[float]) -> Latency:
    """Median and 99th percentile, in milliseconds."""
    cut = quantiles(seconds, n=100, method="inclusive")
    return Latency(cut[49] * 1000, cut[98] * 1000)


def asked(
    connection: KeepAlive, offers: Offers, pods: Sequence[tuple[bytes, list[str]]], *, again: bool
) -> Iterator[tuple[float, list[str]]]:
    """The seconds of each pod, and the feasible nodes.

    `again` asks once more while there is no decision: a policy that meets new pods on thousands of
    nodes may need more than its budget of time.
    """
    for pod, names in pods:
        ends = time.monotonic() + _WARM_SECONDS
        body = offers.body(pod, names)
        filtered = connection.post("filter", body)
        while again and _error(filtered.body) and time.monotonic() < ends:
            time.sleep(0.05)
            filtered = connection.post("filter", body)
        feasible = _feasible(filtered.body)
        prioritized = connection.post("prioritize", offers.body(pod, feasible))
        yield filtered.seconds + prioritized.seconds, feasible


def _error(body: bytes) -> str:
    return str(json.loads(body)["Error"])


def _feasible(body: bytes) -> list[str]:
    answer = json.loads(body)
    assert not answer["Error"], answer["Error"]
    if answer["NodeNames"] is not None:
        return list(answer["NodeNames"])
    return [item["metadata"]["name"] for item in answer["Nodes"]["items"]]
