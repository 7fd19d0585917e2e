"""The line a call leaves in the log."""

from __future__ import annotations

from server.call import CallRecord, LogEntry, log_entry
from server.errors import Outcome


def test_a_line_says_who_asked_what_and_how_it_ended() -> None:
    pod = b'{"metadata":{"name":"web-1","namespace":"shop"}}'
    call = CallRecord("filter", 1.0, pod=pod, offered=5, returned=2)
    assert str(log_entry(call, 200, 0.0123456)) == (
        'answered verb="filter" pod="shop/web-1" mode="names" offered=5 returned=2 '
        'code=200 outcome="answered" seconds=0.012346'
    )


def test_a_failed_call_says_why() -> None:
    call = CallRecord("bind", 1.0, outcome=Outcome.BAD_REQUEST, error="the request has no body")
    assert log_entry(call, 200, 0.5).fields == {
        "verb": "bind",
        "code": 200,
        "outcome": "bad_request",
        "seconds": 0.5,
        "err": "the request has no body",
    }


def test_names_from_a_request_start_no_line_of_their_own() -> None:
    line = str(LogEntry("answered", {"pod": 'a\nERROR b="c"'}))
    assert line == 'answered pod="a\\nERROR b=\\"c\\""'
