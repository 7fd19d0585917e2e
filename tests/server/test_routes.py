"""Paths: the verbs with and without prefix and slash, and nothing that redirects."""

from __future__ import annotations

import pytest

from tests.server.conftest import Serve
from tests.support.served import names_request

VERBS = ("filter", "prioritize", "preempt", "bind")


@pytest.mark.parametrize("prefix", ["/api/scheduler", ""])
@pytest.mark.parametrize("slash", ["", "/", "?timeout=5s"])
async def test_every_verb_is_where_it_may_be_configured(
    prefix: str, slash: str, serve: Serve
) -> None:
    """C1: a redirect would make a GET of it."""
    served = await serve()
    answers = [await served.post(f"{prefix}/{verb}{slash}", names_request("a")) for verb in VERBS]
    assert [answer.status for answer in answers] == [200, 200, 400, 200]
    assert answers[0].json["NodeNames"] == ["a"]
    assert answers[1].json == []
    assert "NodeNameToMetaVictims" in answers[2].body.decode()
    assert answers[3].json["Error"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"])
@pytest.mark.parametrize("path", ["/filter", "/api/scheduler/bind/"])
async def test_other_methods(method: str, path: str, serve: Serve) -> None:
    answer = await (await serve()).request(method, path)
    assert answer.status == 405
    assert answer.headers["Allow"] == "POST"
    if method != "HEAD":
        assert answer.body.decode() == f"{path} accepts POST, not {method}\n"


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/version"])
async def test_other_methods_of_what_is_only_read(path: str, serve: Serve) -> None:
    answer = await (await serve()).post(path, {})
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "path", ["/", "/filters", "/Filter", "/api/scheduler", "/api/scheduler/filter/x", "/filter//"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_unknown_paths(method: str, path: str, serve: Serve) -> None:
    answer = await (await serve()).request(method, path, b"{}")
    assert answer.status == 404
    assert answer.body.decode() == f"{path} is not a path of this server\n"
    assert answer.headers["Content-Type"].startswith("text/plain")
