"""Calls and errors in the log: their lines, their words, and how many of them there are."""

from __future__ import annotations

import logging

import pytest

from engine.errors import BadObjectError, DeadlineExceededError, EngineError, NotSyncedError
from server.call import MOST_LINES_A_SECOND, CallRecord, LimitedLog, LogEntry, RecentNews, log_entry
from server.errors import CallFailure, Outcome, RequestError, failure_of


def test_a_log_line_has_the_facts_of_the_call() -> None:
    pod = b'{"metadata":{"name":"web-1","namespace":"shop"}}'
    call = CallRecord("filter", 1.0, pod=pod, offered=5, returned=2)
    assert str(log_entry(call, 200, 0.0123456)) == (
        'answered verb="filter" pod="shop/web-1" mode="names" offered=5 returned=2 '
        'code=200 outcome="answered" seconds=0.012346'
    )


def test_the_line_of_a_failed_call_has_its_error() -> None:
    call = CallRecord("bind", 1.0, outcome=Outcome.BAD_REQUEST, error="the request has no body")
    assert log_entry(call, 200, 0.5).fields == {
        "verb": "bind",
        "code": 200,
        "outcome": "bad_request",
        "seconds": 0.5,
        "err": "the request has no body",
    }


def test_names_of_a_request_cannot_start_a_new_line() -> None:
    line = str(LogEntry("answered", {"pod": 'a\nERROR b="c"'}))
    assert line == 'answered pod="a\\nERROR b=\\"c\\""'


def test_a_long_text_of_a_request_is_cut() -> None:
    entry = LogEntry("answered", {"pod": "x" * 100_000, "code": 200})
    assert len(str(entry)) < 1200
    assert str(entry).endswith('" code=200')


# ---- failures: the text and the outcome of each exception


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (RequestError("sentence"), Outcome.BAD_REQUEST),
        (RequestError("sentence", Outcome.SLOW_BODY), Outcome.SLOW_BODY),
        (RequestError("sentence", Outcome.UNSUPPORTED), Outcome.UNSUPPORTED),
        (NotSyncedError("sentence"), Outcome.NOT_SYNCED),
        (DeadlineExceededError("sentence"), Outcome.DEADLINE),
        (BadObjectError("sentence"), Outcome.BAD_OBJECT),
        (EngineError("sentence"), Outcome.UNDECIDED),
    ],
    ids=repr,
)
def test_expected_errors_keep_their_words(error: Exception, outcome: Outcome) -> None:
    assert failure_of(error) == CallFailure("placet: sentence", outcome)


@pytest.mark.parametrize("error", [KeyError("secret"), RecursionError("secret"), MemoryError()])
def test_unexpected_errors_get_a_constant_text(error: Exception) -> None:
    failure = failure_of(error)
    assert failure.outcome is Outcome.INTERNAL
    assert failure.text.startswith("placet: internal error")
    assert "secret" not in failure.text


def test_texts_of_errors_are_one_bounded_line() -> None:
    """A request or a policy can be quoted in them."""
    text = failure_of(EngineError("a\n\u202e" + "b" * 10_000)).text
    assert text.startswith(r"placet: a\n\u202eb")
    assert len(text) == 1024


# ---- limitedLog: the lines of a kind in a second, and the count of those left out; and RecentNews


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
