"""The damper: a pod that is rejected again and again gets an error, which backs off."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from engine.decision.rejected_pods import Damper


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
