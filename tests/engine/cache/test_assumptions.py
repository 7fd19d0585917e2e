"""Assumptions: where a pod is until a watch shows what became of its Binding."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from engine.cache.cache import Cache
from engine.cache.tallies import Adding, Scope
from engine.objects.peer import Peer
from engine.objects.request_pod import RequestPodReader
from tests.support.builders import node, pod, raw
from tests.support.engines import CODEC, cache_of, peer_of
from tests.support.rows import rows

KEY, UNTIL = "default/p", 10.0
TAKES: Mapping[str, str] = {"placet.dev/cards": "0"}
OWN = {"team": "red"}
WAITING = msgspec.structs.replace(peer_of(pod("p")), annotations=OWN)
ANOTHER = msgspec.structs.replace(WAITING, uid="another")
Step = Callable[[Cache], object]


def shown(on: str = "", annotations: Mapping[str, str] = OWN) -> Step:
    """A watch shows the pod."""
    made = msgspec.structs.replace(WAITING, nodeName=on, annotations={**annotations})
    return lambda cache: cache.put_pod(made)


def assumed(on: str, pod: Peer = WAITING, until: float = UNTIL) -> Step:
    return lambda cache: cache.assume(pod, on, until, TAKES)


def confirmed(uid: str = WAITING.uid) -> Step:
    return lambda cache: cache.confirm(KEY, uid)


def expired(now: float) -> Step:
    return lambda cache: cache.expire(now)


def forgotten(cache: Cache) -> None:
    cache.forget(KEY)


def deleted(cache: Cache) -> None:
    cache.remove_pod(KEY)


@rows(
    ("steps", "at", "takes", "doubted", "unseen"),
    {
        "it waits": ([shown()], "", False, False, False),
        "it is assumed": ([shown(), assumed("a")], "a", True, True, False),
        "before a watch has shown it": ([assumed("a")], "a", True, True, True),
        "and a watch shows it late": ([assumed("a"), shown()], "a", True, True, False),
        "on another node, later": ([shown(), assumed("a"), assumed("b")], "b", True, True, False),
        "unseen on another one": ([assumed("a"), assumed("b")], "b", True, True, True),
        "it is bound": ([shown(), assumed("a"), confirmed()], "a", True, False, False),
        "unseen and bound": ([assumed("a"), confirmed()], "a", True, False, True),
        "bound, of a watch that is late": (
            [shown(), assumed("a"), confirmed(), shown()],
            "a",
            True,
            False,
            False,
        ),
        "another pod is bound": ([shown(), assumed("a"), confirmed("b")], "a", True, True, False),
        "a watch shows its node": (
            [shown(), assumed("a"), shown("a", TAKES)],
            "a",
            True,
            False,
            False,
        ),
        "a watch shows another one": (
            [shown(), assumed("a"), shown("b")],
            "b",
            False,
            False,
            False,
        ),
        "a watch shows another pod of its name": (
            [shown(), assumed("a"), lambda cache: cache.put_pod(ANOTHER)],
            "",
            False,
            False,
            False,
        ),
        "it is forgotten": ([shown(), assumed("a"), forgotten], "", False, False, False),
        "forgotten, and was never seen": ([assumed("a"), forgotten], None, False, False, False),
        "its time is over": ([shown(), assumed("a"), expired(10.0)], "", False, False, False),
        "its time is not over": ([shown(), assumed("a"), expired(9.9)], "a", True, True, False),
        "it is deleted": ([shown(), assumed("a"), deleted], None, False, False, False),
    },
)
def test_where_a_pod_is(
    steps: list[Step], at: str | None, *, takes: bool, doubted: bool, unseen: bool
) -> None:
    """`at` a node or none, None if the pod is not there; it `takes` what it is assumed to take."""
    cache = cache_of([node("a"), node("b")])
    tally = cache.tallies.get("all", Scope(), Adding(lambda _: 1))
    for step in steps:
        step(cache)
    there, snapshot = cache.pod(KEY), cache.snapshot()
    assert (there and there.nodeName) == at
    assert dict(tally.nodes) == ({at: 1} if at else {})
    assert tally.waiting == ({KEY} if at == "" else set())
    assert set(snapshot.pending) == ({KEY} if at == "" else set())
    if there is not None:
        assert "placet.dev/cards" in there.annotations if takes else there.annotations == OWN
    assert [*cache.assumed()] == ([there] if doubted else [])
    assert cache.assumption(KEY, WAITING.uid) == ((at, TAKES) if doubted else None)
    assert cache.assumption(KEY, "another") is None
    assert [*cache.unseen(UNTIL)] == ([there] if unseen else [])
    assert [*cache.unseen(UNTIL - 0.1)] == []


def test_who_expires_is_named() -> None:
    cache = cache_of([node("a")])
    assumed("a")(cache)
    assert cache.expire(9.9) == []
    assert cache.expire(10.0) == [KEY]
    assert cache.expire(10.0) == []


@rows(
    ("steps", "node", "version", "watched", "wanted"),
    {
        "nobody has shown it": ([], "", 3, 0, True),
        "the watch has not come so far": ([], "", 3, 2, True),
        "the watch has passed it: it is gone": ([], "", 3, 3, False),
        "its version is not known, nor that of the watch": ([], "", 0, 0, True),
        "it says itself where it is": ([], "a", 3, 2, False),
        "a watch has shown that it waits": ([shown()], "", 3, 9, True),
        "a watch has shown its node": ([shown("a")], "", 3, 3, False),
        "its binding is not shown": ([shown(), assumed("a")], "", 3, 3, True),
    },
)
def test_whether_a_pod_may_wait(
    steps: list[Step], node: str, version: int, watched: int, wanted: bool
) -> None:
    cache = cache_of([])
    for step in steps:
        step(cache)
    cache.shown["pods"] = watched
    asked = pod("p", on=node)
    asked["metadata"]["resourceVersion"] = str(version)
    assert cache.may_wait(RequestPodReader(CODEC).read(raw(asked))) is wanted


def test_a_pod_of_another_uid_may_wait_where_the_watch_is_behind() -> None:
    cache = cache_of([])
    shown("a")(cache)
    asked = pod("p")
    asked["metadata"] |= {"uid": "another", "resourceVersion": "3"}
    for cache.shown["pods"], wanted in ((2, True), (3, False)):
        assert cache.may_wait(RequestPodReader(CODEC).read(raw(asked))) is wanted
