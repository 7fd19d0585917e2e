"""Pods that have ended: which are kept, for how long, and what they add up to."""

from __future__ import annotations

from typing import Any

import pytest

from engine.cache import ended_pods
from engine.cache.ended_pods import EndedPods
from engine.cache.tallies import Scope
from engine.objects.peer import Peer
from grammar.values.time import NEVER, SECOND, Timestamp
from tests.support.builders import pod
from tests.support.engines import peer_of

NOON = Timestamp.parse("2026-11-21T12:00:00Z").nanos
MINUTE = 60 * SECOND
EVERYWHERE = Scope()


def ended(name: str, minutes: int | None = 0, **more: Any) -> Peer:
    """A pod that failed so many minutes after noon; None: nobody knows when."""
    made = pod(name, on="n1", phase="Failed", **more)
    if minutes is not None:
        at = str(Timestamp.of(NOON + minutes * MINUTE))
        made["status"]["conditions"] = [{"type": "Ready", "lastTransitionTime": at}]
    return peer_of(made)


def number(pods: EndedPods, minutes: int) -> int:
    """How many of them count so many minutes after noon."""
    now = NOON + minutes * MINUTE
    adds = ended_pods.for_an_hour(lambda _: (1, NEVER), now)
    return pods.tallies.timed("all", EVERYWHERE, adds, now).placed


def test_a_pod_counts_for_an_hour() -> None:
    pods = EndedPods()
    pods.put(ended("a"))
    pods.put(ended("b", 30))
    assert [number(pods, minutes) for minutes in (31, 59, 60, 89, 90)] == [2, 2, 1, 1, 0]


def test_a_clock_that_is_set_back_counts_anew() -> None:
    pods = EndedPods()
    pods.put(ended("a"))
    assert [number(pods, minutes) for minutes in (61, 59)] == [0, 1]


def test_a_pod_counts_once_and_as_it_is_now() -> None:
    pods = EndedPods()
    for labels in ({"app": "a"}, {"app": "a"}, {"app": "b"}):
        pods.put(ended("a", labels=labels))
    assert number(pods, 1) == 1
    ((key, kept),) = pods.within(EVERYWHERE)
    assert (key, kept.labels) == ("default/a", {"app": "b"})


def test_nobody_knows_when_a_pod_ended() -> None:
    """It counts as long as it is kept; one that started counts from its start."""
    pods = EndedPods()
    pods.put(ended("a", None))
    assert number(pods, 10_000) == 1
    started = pod("b", on="n1", phase="Failed")
    started["status"]["startTime"] = str(Timestamp.of(NOON))
    pods.put(peer_of(started))
    assert [number(pods, minutes) for minutes in (10_001, 10_002)] == [1, 1]


def test_pods_of_earlier_hours_go_when_others_come() -> None:
    pods = EndedPods()
    pods.put(ended("a"))
    pods.put(ended("b", 61))
    pods.put(ended("late", -30))
    assert [key for key, _ in pods.within(EVERYWHERE)] == ["default/b"]


@pytest.mark.parametrize("bound", ["_MOST", "_MOST_BYTES"])
def test_the_first_ones_go_when_there_are_too_many(
    bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended_pods, bound, 2 if bound == "_MOST" else 1)
    pods = EndedPods()
    for name in "abc":
        pods.put(ended(name))
    left = [key for key, _ in pods.within(EVERYWHERE)]
    assert left == (["default/b", "default/c"] if bound == "_MOST" else ["default/c"])
    assert number(pods, 1) == len(left)
