"""LimitedLog: the lines of a kind in a second, and the count of those left out; and RecentNews."""

from __future__ import annotations

import logging

import pytest

from server.call import LogEntry
from server.log_limit import MOST_LINES_A_SECOND, LimitedLog, RecentNews

LOG = logging.getLogger("placet")


def test_each_kind_has_its_own_lines_and_the_next_one_counts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [0.0]
    limited = LimitedLog(LOG, lambda: now[0])
    for _ in range(1000):
        limited.write(logging.WARNING, "malformed", LogEntry("bad", {}))
    limited.write(logging.WARNING, "other", LogEntry("other", {}))
    assert caplog.messages == ["bad"] * MOST_LINES_A_SECOND + ["other"]
    now[0] = 1.0
    limited.write(logging.WARNING, "malformed", LogEntry("bad", {"code": 400}))
    assert caplog.messages[-1] == "bad code=400 leftOut=990"


def test_news_is_new_again_after_ten_minutes() -> None:
    now = [0.0]
    news = RecentNews(lambda: now[0])
    assert [news.is_new("web", "a"), news.is_new("web", "a"), news.is_new("web", "b")] == [
        True,
        False,
        True,
    ]
    now[0] = 599.0
    assert not news.is_new("web", "a")
    now[0] = 600.0
    assert news.is_new("web", "a")
