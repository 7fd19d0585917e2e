"""Requests as kube-scheduler makes them: of all nodes each time others, and in another order."""

from __future__ import annotations

import json
import random
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import quantiles
from types import MappingProxyType

_BUFFER = 1 << 20
_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """The body of an answer, and how long it took from the first byte sent to the last received."""

    body: bytes
    seconds: float


class KeepAlive:
    """One open connection."""

    def __init__(
        self,
        connection: socket.socket,
        prefix: str,
        paths: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`paths` has those verbs that are not at their names."""
        self._connection = connection
        self._prefix = prefix
        self._paths = paths
        self._received = bytearray()

    def post(self, verb: str, body: bytes) -> Answer:
        """The answer to a body of JSON; anything but 200 fails."""
        path = f"{self._prefix}/{self._paths.get(verb, verb)}"
        head = (
            f"POST {path} HTTP/1.1\r\nHost: bench\r\nUser-Agent: bench\r\n"
            f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\n\r\n"
        )
        request = head.encode() + body
        began = time.perf_counter()
        self._connection.sendall(request)
        answer = self._answer()
        return Answer(answer, time.perf_counter() - began)

    def _answer(self) -> bytes:
        while (end := self._received.find(_END)) < 0:
            self._receive()
        head = bytes(self._received[:end]).lower()
        del self._received[: end + len(_END)]
        assert head.startswith(b"http/1.1 200 "), head
        if b"transfer-encoding: chunked" in head:
            return b"".join(self._chunks())
        _, _, length = head.partition(b"content-length:")
        return self._take(int(length.partition(b"\r\n")[0]))

    def _chunks(self) -> Iterator[bytes]:
        """The pieces of a body whose sender did not say how long it is."""
        while size := int(self._line(), 16):
            yield self._take(size)
            self._line()
        self._line()

    def _line(self) -> bytes:
        while (end := self._received.find(b"\r\n")) < 0:
            self._receive()
        return self._take(end + 2)[:-2]

    def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            self._receive()
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    def _receive(self) -> None:
        data = self._connection.recv(_BUFFER)
        assert data, "the server has closed the connection"
        self._received += data


@contextmanager
def keep_alive(
    port: int, prefix: str = "", paths: Mapping[str, str] = MappingProxyType({})
) -> Iterator[KeepAlive]:
    """Connect to a server on loopback; the verbs are below `prefix`, at their names or `paths`."""
    with socket.create_connection(("127.0.0.1", port), timeout=60.0) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield KeepAlive(connection, prefix, paths)


# kube-scheduler's own filters leave some nodes out, and other ones for each pod.
_THINNED = 0.02
# Its workers take so many nodes at a time, and finish in any order.
_CHUNK = 16
# The most that one pod waits while the server meets pods of its shape, and the most pods for that.
_WARM_SECONDS = 60.0
_MOST_WARM = 400


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

    They are as many more as it takes until all have decided about a block without a pause. All must
    find the same nodes feasible. p50 and p99 of `pods` each.
    """
    taken: dict[str, list[float]] = {}

    def ask(*, again: bool) -> bool:
        """Whether all have decided without a pause."""
        turn = [offers.next() for _ in range(block)]
        feasible: list[list[str]] = []
        paused = False
        for name, connection in contestants.items():
            answers = list(asked(connection, offers, turn, again=again))
            found = [each.feasible for each in answers]
            assert not feasible or feasible == found, name
            feasible = found
            paused |= any(each.paused for each in answers)
            taken.setdefault(name, []).extend(each.seconds for each in answers)
        return not paused

    asked_pods, is_warm = 0, False
    while asked_pods < warm or not is_warm:
        is_warm = ask(again=True)
        asked_pods += block
        assert asked_pods < warm + _MOST_WARM, "a contestant does not get warm"
    taken.clear()
    for _ in range(0, pods, block):
        ask(again=False)
    return {name: latency(seconds) for name, seconds in taken.items()}


def latency(seconds: Sequence[float]) -> Latency:
    """Median and 99th percentile, in milliseconds."""
    cut = quantiles(seconds, n=100, method="inclusive")
    return Latency(cut[49] * 1000, cut[98] * 1000)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a contestant answered about a pod: the feasible nodes, and the seconds of both verbs.

    `paused`: it had to be asked about the pod again, after the last `error`.
    """

    feasible: list[str]
    seconds: float
    paused: bool
    error: str


def asked(
    connection: KeepAlive, offers: Offers, pods: Sequence[tuple[bytes, list[str]]], *, again: bool
) -> Iterator[Asked]:
    """The answer about each pod.

    `again` asks once more while there is no decision: a policy that meets new pods on thousands of
    nodes may need more than its budget of time.
    """
    for pod, names in pods:
        ends, paused, error = time.monotonic() + _WARM_SECONDS, False, ""
        body = offers.body(pod, names)
        filtered = connection.post("filter", body)
        while again and _error(filtered.body) and time.monotonic() < ends:
            paused, error = True, _error(filtered.body)
            time.sleep(0.05)
            filtered = connection.post("filter", body)
        feasible = _feasible(filtered.body)
        prioritized = connection.post("prioritize", offers.body(pod, feasible))
        yield Asked(feasible, filtered.seconds + prioritized.seconds, paused, error)


def _error(body: bytes) -> str:
    return str(json.loads(body)["Error"])


def _feasible(body: bytes) -> list[str]:
    answer = json.loads(body)
    assert not answer["Error"], answer["Error"]
    if answer["NodeNames"] is not None:
        return list(answer["NodeNames"])
    return [item["metadata"]["name"] for item in answer["Nodes"]["items"]]
