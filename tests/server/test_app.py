"""The application: its paths, and the answer, metrics and log line of a call."""

from __future__ import annotations

import asyncio
import logging

import pytest

from engine.errors import DeadlineExceededError
from tests.server.conftest import Serve
from tests.support.served import POD, TableDecider, names_request, rejected

DECIDER = TableDecider(verdicts={"b": rejected("no ssd")}, scores={"a": 7})
VERBS = ("filter", "prioritize", "preempt", "bind")

# ---- paths


@pytest.mark.parametrize("prefix", ["/api/scheduler", ""])
@pytest.mark.parametrize("slash", ["", "/", "?timeout=5s"])
async def test_every_path_of_a_verb_is_served(prefix: str, slash: str, serve: Serve) -> None:
    """C1: a redirect would become a GET."""
    served = await serve()
    answers = [await served.post(f"{prefix}/{verb}{slash}", names_request("a")) for verb in VERBS]
    assert [answer.status for answer in answers] == [200, 200, 400, 200]
    assert answers[0].json["NodeNames"] == ["a"]
    assert answers[1].json == []
    assert "NodeNameToMetaVictims" in answers[2].text
    assert answers[3].json["Error"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])
@pytest.mark.parametrize("path", ["/filter", "/api/scheduler/bind/"])
async def test_verbs_accept_post_only(method: str, path: str, serve: Serve) -> None:
    answer = await (await serve()).request(method, path)
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")
    if method != "HEAD":
        assert answer.text == f"{path} accepts POST, not {method}\n"


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/version"])
async def test_operators_paths_accept_get_only(path: str, serve: Serve) -> None:
    answer = await (await serve()).post(path, {})
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "path", ["/", "/filters", "/Filter", "/api/scheduler", "/api/scheduler/filter/x", "/filter//"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_unknown_paths(method: str, path: str, serve: Serve) -> None:
    answer = await (await serve()).request(method, path, b"{}")
    assert (answer.status, answer.text) == (404, f"{path} is not a path of this server\n")
    assert answer.headers["Content-Type"].startswith("text/plain")


# ---- metrics


async def test_calls_are_answered_and_counted(serve: Serve) -> None:
    served = await serve(decider=DECIDER)
    filtered = await served.post("/filter", names_request("a", "b"))
    scored = await served.post("/prioritize", names_request("a"))
    assert filtered.json["NodeNames"] == ["a"]
    assert scored.json == [{"Host": "a", "Score": 7}]
    for verb, offered, returned in (("filter", 2, 1), ("prioritize", 1, 1)):
        assert served.metric("placet_nodes_offered_total", verb=verb) == offered
        assert served.metric("placet_nodes_returned_total", verb=verb) == returned
        assert served.metric("placet_requests_in_flight", verb=verb) == 0
        assert served.calls(verb, "answered") == 1
    sent = len(filtered.body)
    assert served.metric("placet_response_body_bytes_total", verb="filter") == sent


async def test_scores_that_are_sent_are_counted(serve: Serve) -> None:
    decider = TableDecider(scores={"a": 7, "b": 10})
    served = await serve(decider=decider)
    await served.post("/prioritize", names_request("a", "b", "c"))
    assert served.metric("placet_scores_count") == 3
    assert served.metric("placet_scores_sum") == 17
    decider.error = DeadlineExceededError("too late")
    await served.post("/prioritize", names_request("a", "b", "c"))
    assert served.metric("placet_scores_count") == 3


async def test_victims_are_counted(serve: Serve) -> None:
    served = await serve(decider=TableDecider(verdicts={"b": rejected("no ssd")}))
    victims = {"a": {"Pods": [{"UID": "1"}, {"UID": "2"}]}, "b": {"Pods": [{"UID": "3"}]}}
    await served.post("/preempt", {"Pod": POD, "NodeNameToMetaVictims": victims})
    assert served.metric("placet_victims_offered_total") == 3
    assert served.metric("placet_victims_returned_total") == 2


async def test_metrics_are_exposed(serve: Serve) -> None:
    served = await serve()
    await served.post("/filter", names_request("a"))
    answer = await served.get("/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/plain")
    lines = answer.text.splitlines()
    assert 'placet_requests_total{code="200",outcome="answered",verb="filter"} 1.0' in lines


async def test_metrics_in_the_openmetrics_format(serve: Serve) -> None:
    wanted = {"Accept": "application/openmetrics-text; version=1.0.0"}
    answer = await (await serve()).request("GET", "/metrics", headers=wanted)
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert answer.body.endswith(b"# EOF\n")


async def test_unknown_paths_are_not_labels(serve: Serve) -> None:
    """A client can invent any number of them."""
    served = await serve()
    for number in range(3):
        await served.get(f"/admin-{number}")
    assert served.calls("none", "unknown_path", 404) == 3


@pytest.mark.fake_clock
async def test_calls_in_flight_are_counted(listen: Serve) -> None:
    served = await listen()
    _, writer = await asyncio.open_connection(*served.address)
    writer.write(b"POST /bind HTTP/1.1\r\nHost: placet\r\nContent-Length: 5\r\n\r\n")
    await served.until("placet_requests_in_flight", 1, verb="bind")
    writer.close()


# ---- the log


async def test_a_call_is_one_line_however_many_nodes_it_has(
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
async def test_lines_about_answered_calls_are_limited(
    level: int, lines: int, serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """The limit is for one second and one outcome; a verbose log has every answered call."""
    caplog.set_level(level, "placet")
    served = await serve(decider=DECIDER)
    for _ in range(30):
        await served.post("/filter", names_request("a"))
    answered = [line for line in caplog.messages if line.startswith("answered")]
    # The thirty calls may fall into two seconds.
    assert lines <= len(answered) <= 2 * lines
    for _ in range(30):
        await served.post("/filter", b"{")
    assert 'outcome="bad_request"' in caplog.messages[-1]
    assert 10 <= sum('"bad_request"' in line for line in caplog.messages) <= 20


async def test_a_wrong_method_is_a_call_of_its_verb(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    served = await serve()
    await served.get("/api/scheduler/filter")
    assert served.calls("filter", "wrong_method", 405) == 1
    (line,) = caplog.messages
    assert line.startswith('answered verb="filter" code=405 outcome="wrong_method" seconds=')


async def test_probes_are_not_calls(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "placet")
    served = await serve()
    for path in ("/livez", "/readyz", "/metrics", "/version"):
        await served.get(path)
    assert [record for record in caplog.records if record.name == "placet"] == []


async def test_connections_stay_open(serve: Serve) -> None:
    answer = await (await serve()).post("/filter", names_request("a"))
    assert "Connection" not in answer.headers
