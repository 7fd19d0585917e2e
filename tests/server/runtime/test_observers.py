"""The log of decisions: everything is counted, and news is told once."""

import io
import json
import logging
import os

import pytest
from prometheus_client import CollectorRegistry

from server.call import LogEntry
from server.metrics.metrics import Metrics
from server.runtime.observers import LogObserver, start_logging

LOG = logging.getLogger("placet.test")


def test_news_is_told_once_and_counted_always(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger=LOG.name)
    registry = CollectorRegistry()
    observer = LogObserver(LOG, Metrics(registry, "0"))
    for _ in range(3):
        observer.conflict("shop/web", "everyone")
        observer.failed("shop/web", "disk", "division by zero")
        observer.would_reject("trial", "disk", 4)
    observer.failed("shop/web", "disk", "no such key")
    assert caplog.messages == [
        "policies shop/web and everyone select the same pods: the first one governs them",
        "policy shop/web: disk could not be evaluated: division by zero",
        "policy trial in audit mode: disk would have rejected 4 nodes",
        "policy shop/web: disk could not be evaluated: no such key",
    ]
    labels = {"policy": "shop/web", "clause": "disk"}
    assert registry.get_sample_value("placet_evaluation_errors_total", labels) == 4


def test_rejections_are_only_for_those_who_ask(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=LOG.name)
    LogObserver(LOG, Metrics(CollectorRegistry(), "0")).rejected("a", "disk", 2)
    assert caplog.messages == []


def test_a_long_message_is_logged_once_for_its_clause(caplog: pytest.LogCaptureFixture) -> None:
    """However many pods there are: their names make each text another one."""
    caplog.set_level(logging.INFO, logger=LOG.name)
    observer = LogObserver(LOG, Metrics(CollectorRegistry(), "0"))
    for pod in range(100):
        observer.shortened("shop/web", "disk", f"no disk for {pod}")
    observer.shortened("shop/web", "zone", "no zone")
    assert caplog.messages == [
        "policy shop/web: disk has a long message: no disk for 0",
        "policy shop/web: zone has a long message: no zone",
    ]


def test_a_scheduler_that_no_flag_names_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=LOG.name)
    observer = LogObserver(LOG, Metrics(CollectorRegistry(), "0"))
    for _ in range(3):
        observer.unnamed_scheduler("batch")
    (message,) = caplog.messages
    assert message.startswith("filter is asked about pods of scheduler `batch`, which no --sched")


HOSTILE = "a\r\nFAKE INFO bound\x1b[31m\u202e\u2028\x85"


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_hostile_text_is_part_of_one_line(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    kept = logging.getLogger().handlers[:]
    try:
        log = start_logging(form, verbose=False)
        log.info("policy %s: %s", HOSTILE, "x" * 100_000)
        log.info("%s", LogEntry("answered", {"pod": HOSTILE}))
        log.error("failed", exc_info=ValueError(HOSTILE.replace("\n", "")))
    finally:
        logging.getLogger().handlers[:] = kept
    lines = stream.getvalue().split("\n")
    assert len(lines) == (4 if form == "json" else 5)
    assert all(line.isprintable() for line in lines)
    assert max(map(len, lines)) < 10_000
    if form == "json":
        assert json.loads(lines[1])["pod"] == HOSTILE


def test_lines_that_nobody_has_read_are_left_out_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Writers never wait, and what is kept for a slow reader has a bound."""
    reading, writing = os.pipe()
    kept = logging.getLogger().handlers[:]
    with os.fdopen(writing, "w", encoding="utf-8") as stream, monkeypatch.context() as patched:
        patched.setattr("sys.stderr", stream)
        try:
            log = start_logging("text", verbose=False)
        finally:
            handlers, logging.getLogger().handlers[:] = logging.getLogger().handlers[:], kept
    (handler,) = handlers
    record = log.makeRecord("placet", logging.INFO, "", 0, "%s", ("x" * 1000,), None)
    for _ in range(5000):
        handler.handle(record)
    with os.fdopen(reading, encoding="utf-8") as lines:
        found = [lines.readline() for _ in range(2048)]
        handler.flush()
        handler.handle(log.makeRecord("placet", logging.INFO, "", 0, "the last", (), None))
        text = " lines of the log were left out: nobody has read them"
        while "the last" not in found[-1]:
            found.append(lines.readline())
    told = [line.split(text)[0].rsplit(maxsplit=1)[1] for line in found if text in line]
    assert len(found) < 2200
    assert len(found) - len(told) + sum(map(int, told)) == 5001, "each is written or counted"
