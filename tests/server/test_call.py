"""A call: its log line."""

from __future__ import annotations

from server.call import CallRecord, LogEntry, log_entry
from server.errors import Outcome


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
