"""Recent answers: rejections that are damped, and the bodies of offered pods.

Rejected pods are tested with the requeuer.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from engine.decision.recent_answers import Damper, OfferedBodies
from engine.objects.request_pod import RequestPod, RequestPodReader
from tests.support.builders import pod, raw
from tests.support.engines import CODEC

# ---- the damper


@dataclass
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.parametrize(
    ("times", "wanted"),
    [
        pytest.param([0], [False], id="the first rejection"),
        pytest.param([0, 1, 2], [False] * 3, id="three within ten seconds"),
        pytest.param([0, 1, 2, 3], [False] * 3 + [True], id="the fourth within ten seconds"),
        pytest.param([0, 1, 2, 3, 4], [False] * 3 + [True] * 2, id="and the fifth"),
        pytest.param([0, 1, 2, 10], [False] * 4, id="the fourth when the first is ten seconds old"),
        pytest.param([0, 1, 2, 9.9], [False] * 3 + [True], id="the fourth just before that"),
        pytest.param([0, 4, 8, 12, 16], [False] * 5, id="one every four seconds"),
        pytest.param([0, 0, 0, 0, 20, 21], [False] * 3 + [True, False, False], id="after a pause"),
    ],
)
def test_the_fourth_rejection_within_ten_seconds_is_an_error(
    times: list[float], wanted: list[bool]
) -> None:
    clock = Clock()
    damper = Damper(clock)
    found = []
    for after in times:
        clock.seconds = 1000 + after
        found.append(damper.rejected("a"))
    assert found == wanted


def test_each_pod_is_damped_by_itself() -> None:
    damper = Damper(Clock())
    assert [damper.rejected(uid) for uid in "abcabcabc"] == [False] * 9
    assert [damper.rejected(uid) for uid in "abd"] == [True, True, False]


# ---- the bodies of offered pods


def asked(uid: str, size: int = 0, app: str = "") -> RequestPod:
    """A pod with a body of at least this many bytes."""
    made = pod("asked", labels={"app": app})
    made["metadata"] |= {"uid": uid, "annotations": {"padding": "x" * size}}
    return RequestPodReader(CODEC).read(raw(made))


def test_the_body_of_a_pod_that_was_offered_a_node_is_kept() -> None:
    bodies = OfferedBodies()
    first, second = asked("a", app="web"), asked("b")
    bodies.answered(first, offered=True)
    bodies.answered(second, offered=False)
    assert bodies.get("a") == first.body
    assert bodies.get("b") is None
    again = asked("a", app="db")
    bodies.answered(again, offered=True)
    assert bodies.get("a") == again.body, "that of the last answer"


def test_the_bodies_used_last_are_kept() -> None:
    """They have 16 MiB together."""
    bodies, third = OfferedBodies(), 6 << 20
    for uid in "ab":
        bodies.answered(asked(uid, third), offered=True)
    assert bodies.get("a") is not None
    bodies.answered(asked("c", third), offered=True)
    assert [uid for uid in "abc" if bodies.get(uid) is not None] == ["a", "c"]
    bodies.answered(asked("huge", 17 << 20), offered=True)
    assert [uid for uid in ("a", "c", "huge") if bodies.get(uid) is not None] == ["a", "c"]
