"""MisconfigurationWarnings: each warning once in ten minutes, and counted every time."""

from __future__ import annotations

import logging
from dataclasses import astuple, replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from server.call import CallRecord
from server.errors import Outcome
from server.http.middleware import MisconfigurationWarnings, sample_size
from server.metrics.metrics import Metrics
from server.settings import Settings, TlsFiles, exposure

GO = "Go-http-client/1.1"
TLS = TlsFiles(Path("tls.crt"), Path("tls.key"))


class Situation:
    """Warnings with a clock and a number of nodes that the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.nodes = 0
        self.registry = CollectorRegistry()
        log = logging.getLogger("placet")
        metrics = Metrics(self.registry, "1")
        self.warnings = MisconfigurationWarnings(log, metrics, lambda: self.nodes, lambda: self.now)

    def look(self, verb: str, offered: int, *, full_nodes: bool = False, agent: str = GO) -> None:
        self.warnings.look(CallRecord(verb, 0.0, agent, offered=offered, full_nodes=full_nodes))


@pytest.fixture
def situation() -> Situation:
    return Situation()


def test_whole_nodes_give_one_warning_an_interval(
    situation: Situation, caplog: pytest.LogCaptureFixture
) -> None:
    for now in (0.0, 1.0, 599.0, 600.0, 601.0):
        situation.now = now
        situation.look("filter", 3, full_nodes=True)
    assert len(caplog.messages) == 2
    assert all("nodeCacheCapable: true" in message for message in caplog.messages)
    counted = situation.registry.get_sample_value(
        "placet_full_node_requests_total", {"verb": "filter"}
    )
    assert counted == 5


def test_what_was_seen_is_shown_for_a_quarter_of_an_hour(situation: Situation) -> None:
    situation.look("filter", 3, full_nodes=True)
    failed = CallRecord("validate", 0.0, GO)
    failed.outcome = Outcome.INTERNAL
    situation.warnings.look(failed)
    situation.warnings.look(CallRecord("pods", 0.0, GO))
    (requests, nodes, _), (webhooks, text, _) = map(astuple, situation.warnings.checks())
    assert (requests, webhooks) == ("requests", "webhooks")
    assert "nodeCacheCapable: true" in nodes
    assert text == "the webhook `validate` failed: the log has the reason"
    situation.now += 901
    assert not situation.warnings.checks()


def test_whole_nodes_of_other_clients_give_no_warning(
    situation: Situation, caplog: pytest.LogCaptureFixture
) -> None:
    situation.look("filter", 3, full_nodes=True, agent="curl/8.0")
    situation.look("filter", 3, full_nodes=True, agent="")
    assert caplog.messages == []


def test_a_sample_of_the_nodes_gives_a_warning(
    situation: Situation, caplog: pytest.LogCaptureFixture
) -> None:
    """C12: a pod that fits on no node of the sample stays pending, even if others would do."""
    situation.nodes = 600
    situation.look("filter", sample_size(600))
    situation.look("filter", sample_size(600))
    (message,) = caplog.messages
    assert "percentageOfNodesToScore: 100" in message
    assert message.endswith("offered=276 nodes=600")
    assert situation.registry.get_sample_value("placet_sampled_requests_total") == 2


@pytest.mark.parametrize(
    ("nodes", "verb", "offered"),
    [
        (0, "filter", 100),
        (600, "filter", 600),
        (600, "filter", 1),
        (600, "filter", 275),
        (600, "prioritize", 276),
        (100, "filter", 100),
        (8, "filter", 3),
    ],
)
def test_fewer_nodes_for_other_reasons_give_no_warning(
    nodes: int,
    verb: str,
    offered: int,
    situation: Situation,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C11, C13: kube-scheduler's own filters leave fewer; a nominated node comes alone."""
    situation.nodes = nodes
    situation.look(verb, offered)
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("nodes", "sample"),
    [(1, 1), (99, 99), (100, 100), (150, 100), (1000, 420), (5000, 500), (6000, 300), (15000, 750)],
)
def test_sample_sizes_are_those_of_kube_scheduler(nodes: int, sample: int) -> None:
    """C12."""
    assert sample_size(nodes) == sample


@pytest.mark.parametrize(
    ("settings", "flags"),
    [
        (Settings(), ()),
        (Settings(host="localhost"), ()),
        (Settings(host="::1"), ()),
        (Settings(host=""), ("--tls-cert", "--tls-key", "--client-ca", "--listen 127.0.0.1:12345")),
        (Settings(host="0.0.0.0", tls=TLS), ("--client-ca", "--client-name")),  # noqa: S104
        (Settings(host="", tls=replace(TLS, client_ca=Path("ca.pem"))), ()),
    ],
)
def test_a_server_that_answers_anybody_says_so(settings: Settings, flags: tuple[str, ...]) -> None:
    warning = exposure(settings)
    assert bool(warning) is bool(flags)
    assert all(flag in warning for flag in flags)
