"""The log of decisions: everything is counted, and news is told once."""

import logging

import pytest
from prometheus_client import CollectorRegistry

from server.metrics import Metrics
from server.runtime.observers import LogObserver

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
