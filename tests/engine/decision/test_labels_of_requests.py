"""Pods in flight that are counted by the labels of their requests, and when they are decoded."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import pytest

from engine.engine import Engine
from engine.errors import BriefWaitError, EngineError
from engine.objects.peer import Peer
from engine.objects.request_pod import ObjectCodec
from tests.support.builders import Object, node, pod, raw
from tests.support.engines import SCHEMA, Known, Silent, cache_of, registry_of

NODES = [node(f"n{i}", labels={"pool": "a" if i else "b"}) for i in range(2)]
NAMES = ["n0", "n1"]
SAME = 'pods where peer.labels["app"] == pod.labels["app"]'
BY_LABELS = f'limit "one" {{ {SAME} per cluster at most 2 strict }}'
BY_NAME = 'limit "one" { pods where peer.name.startsWith("web") per cluster at most 2 strict }'
SUM = f'limit "one" {{ sum peer.requests["cpu"] of {SAME} per cluster at most "2" strict }}'


class CountingCodec(ObjectCodec):
    """A codec that counts the pods that it decodes as peers."""

    def __init__(self) -> None:
        super().__init__(SCHEMA)
        self.decoded = 0
        decode = self.peer

        def counted(data: bytes | msgspec.Raw) -> Peer:
            self.decoded += 1
            return decode(data)

        self.peer: Callable[[bytes | msgspec.Raw], Peer] = counted


def engine_of(clause: str) -> tuple[Engine, CountingCodec]:
    codec = CountingCodec()
    text = f"policy p {{ for pods where true\n{clause}\n}}"
    return Engine(registry_of(text), Known(cache_of(NODES)), codec, Silent()), codec


def web(number: int, app: str = "web", **more: str) -> Object:
    made = pod(f"web-{number}", cpu="1", labels={"app": app})
    made["metadata"] |= {"uid": f"u{number}", **more}
    return made


def offered(engine: Engine, asked: Object) -> list[str]:
    """The nodes that filter leaves."""
    decided = engine.filter(raw(asked), NAMES, None, math.inf)
    return [name for name, code in zip(NAMES, decided.codes.tolist(), strict=True) if not code]


def test_labels_are_counted_without_decoding_a_pod() -> None:
    engine, codec = engine_of(BY_LABELS)
    assert offered(engine, web(0)) == NAMES
    assert offered(engine, web(1, app="db")) == NAMES
    assert offered(engine, web(2)) == NAMES
    # There is room for two.
    with pytest.raises(BriefWaitError, match="waiting for in-flight pods"):
        offered(engine, web(3))
    assert offered(engine, web(4, app="db")) == NAMES
    assert codec.decoded == 0


def test_the_oldest_of_many_pods_are_decoded_and_still_count() -> None:
    engine, codec = engine_of(BY_LABELS.replace("at most 2", "at most 100"))
    for number in range(100):
        assert offered(engine, web(number)) == NAMES
    assert 0 < codec.decoded < 50
    with pytest.raises(BriefWaitError, match="waiting for in-flight pods"):
        offered(engine, web(100))


def test_pods_that_are_being_deleted_count_as_if_they_were_decoded() -> None:
    gone = {"deletionTimestamp": "2026-11-21T10:00:00Z"}
    asked = [web(0, **gone), web(1), web(2, **gone), web(3)]

    def outcomes(clause: str) -> list[str]:
        engine, _ = engine_of(clause)
        found = []
        for each in asked:
            try:
                found.append(",".join(offered(engine, each)))
            except EngineError as error:
                found.append(str(error))
        return found

    assert outcomes(BY_LABELS) == outcomes(BY_NAME)


@pytest.mark.parametrize("clause", [BY_NAME, SUM])
def test_what_reads_more_than_labels_decodes_each_pod_after_its_answer(clause: str) -> None:
    engine, codec = engine_of(clause)
    assert offered(engine, web(0)) == NAMES
    assert codec.decoded == 1
    assert offered(engine, web(1)) == NAMES
    with pytest.raises(BriefWaitError, match="waiting for in-flight pods"):
        offered(engine, web(2))


def test_other_policies_count_anew() -> None:
    engine, _ = engine_of(BY_LABELS)
    offered(engine, web(0))
    offered(engine, web(1))
    engine.adopt(
        registry_of(f"policy p {{ for pods where true\n{BY_LABELS.replace('most 2', 'most 1')}\n}}")
    )
    with pytest.raises(BriefWaitError, match="waiting for in-flight pods"):
        offered(engine, web(2))
    assert offered(engine, web(3, app="db")) == NAMES
