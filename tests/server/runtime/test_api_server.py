"""A running server and an API server that refuses it or is away: the cause is told everywhere."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from pathlib import Path

import pytest

from tests.server.runtime.test_tasks import Server, running
from tests.support.served import names_request

UNAUTHORIZED = (
    "cannot watch nodes: the API server does not accept the credentials of Placet: "
    "renew the user of the kubeconfig, or the token of the service account"
)


async def said(server: Server, cause: str) -> None:
    """The cause is in `/readyz`, in a metric and in the error of a call, in the same words."""
    text = await server.until("/readyz", lambda text: cause in text)
    assert f"[-]cluster failed: not synced: {cause}" in text
    metric = f'placet_api_failing{{cause="{cause}",work="watch nodes"}} 1.0'
    assert metric in await server.get("/metrics")
    async with server.session.post(f"{server.url}/filter", json=names_request("a")) as response:
        assert cause in (await response.json())["Error"]


async def test_a_wrong_token_is_told_everywhere_in_the_same_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    lease = ("kube-system", "placet")
    async with running(tmp_path, lease=lease, authorization="Bearer other") as server:
        await said(server, UNAUTHORIZED)
        assert caplog.messages.count(UNAUTHORIZED) == 1
        of_lease = UNAUTHORIZED.replace("watch nodes", "hold the Lease")
        assert caplog.messages.count(of_lease) == 1
        server.api.authorization = None
        # This API server has no Leases.
        warning = "ok\nwarn: api: cannot hold the Lease: the API server answers 404"
        await server.until("/readyz", lambda text: text.startswith(warning))
    assert any(line.startswith("can watch nodes again after ") for line in caplog.messages)


async def test_a_wrong_port_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    cause = (
        f"cannot watch nodes: `{url}` cannot be reached: connection refused: "
        "check that the API server runs, and that the kubeconfig has its address"
    )
    async with running(tmp_path, url=url) as server:
        await said(server, cause)
    assert cause in caplog.messages


@pytest.mark.fake_clock
async def test_missing_definitions_are_told_once_with_the_remedy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with running(tmp_path, definitions=False) as server:
        await server.until("/readyz", lambda text: text.startswith("ok"))
        began = len(server.api.requests)
        await asyncio.sleep(300.0)
        asked = Counter(request.path.rpartition("/")[2] for request in server.api.requests[began:])
    told = [line for line in caplog.messages if "placet crds" in line]
    remedy = "`placet crds | kubectl apply --server-side -f -` installs them"
    kinds = "no placementpolicies and no clusterplacementpolicies"
    assert told == [f"the API server has {kinds} ({remedy})"]
    assert 14 <= asked["placementpolicies"] <= 20
