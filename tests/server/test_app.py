"""The application as a whole: answers, metrics and logs of ordinary calls fit together."""

from __future__ import annotations

import logging

import pytest

from tests.server.conftest import Serve
from tests.support.served import names_request, nodes_request
from tests.support.table_decider import TableDecider, rejected

DECIDER = TableDecider(verdicts={"b": rejected("no ssd")}, scores={"a": 7})


async def test_a_pod_is_filtered_and_scored(serve: Serve) -> None:
    served = await serve(decider=DECIDER)
    filtered = await served.post("/filter", names_request("a", "b"))
    scored = await served.post("/prioritize", names_request("a"))
    assert filtered.json["NodeNames"] == ["a"]
    assert scored.json == [{"Host": "a", "Score": 7}]
    for verb, offered, returned in (("filter", 2, 1), ("prioritize", 1, 1)):
        assert served.metric("placet_nodes_offered_total", verb=verb) == offered
        assert served.metric("placet_nodes_returned_total", verb=verb) == returned
        assert served.metric("placet_requests_in_flight", verb=verb) == 0
        labels = {"verb": verb, "code": "200", "outcome": "answered"}
        assert served.metric("placet_requests_total", **labels) == 1
    sent = len(filtered.body)
    assert served.metric("placet_response_body_bytes_total", verb="filter") == sent


async def test_metrics_are_exposed(serve: Serve) -> None:
    served = await serve()
    await served.post("/filter", names_request("a"))
    answer = await served.get("/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/plain")
    lines = answer.body.decode().splitlines()
    assert 'placet_requests_total{code="200",outcome="answered",verb="filter"} 1.0' in lines


async def test_open_metrics_for_who_prefers_them(serve: Serve) -> None:
    wanted = {"Accept": "application/openmetrics-text; version=1.0.0"}
    answer = await (await serve()).request("GET", "/metrics", headers=wanted)
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert answer.body.endswith(b"# EOF\n")


async def test_one_line_a_call_however_many_nodes(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "placet")
    served = await serve(decider=DECIDER)
    await served.post("/filter", names_request("b", *(f"n{number}" for number in range(50))))
    await served.get("/livez")
    (line,) = caplog.messages
    assert line.startswith(
        'answered verb="filter" pod="shop/web-1" mode="names" offered=51 returned=50 code=200 '
    )


@pytest.mark.parametrize(("level", "lines"), [(logging.INFO, 10), (logging.DEBUG, 30)])
async def test_a_busy_server_does_not_fill_the_log(
    level: int, lines: int, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """Within a second, unless everything is to be logged; what fails always is."""
    caplog.set_level(level, "placet")
    served = await serve(decider=DECIDER)
    for _ in range(30):
        await served.post("/filter", names_request("a"))
    answered = [line for line in caplog.messages if line.startswith("answered")]
    # The thirty may lie on both sides of a second's end.
    assert lines <= len(answered) <= 2 * lines
    await served.post("/filter", b"{")
    assert ("leftOut" in caplog.messages[-1]) is (level == logging.INFO)
    assert 'outcome="bad_request"' in caplog.messages[-1]


async def test_full_nodes_from_kube_scheduler_are_warned_about_once(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """It scores the nodes it gets back as if they were empty."""
    served = await serve()
    agent = {"User-Agent": "Go-http-client/1.1"}
    for _ in range(3):
        await served.post("/filter", nodes_request("a"), agent)
    assert len([line for line in caplog.messages if "nodeCacheCapable" in line]) == 1
    assert served.metric("placet_full_node_requests_total", verb="filter") == 3


async def test_a_sample_of_the_nodes_is_warned_about(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """C12."""
    served = await serve(cluster_size=150)
    await served.post("/filter", names_request(*(f"n{number}" for number in range(100))))
    assert "percentageOfNodesToScore" in caplog.text
