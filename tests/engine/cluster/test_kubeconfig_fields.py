"""Every field of a kubeconfig is used as kubectl uses it, or refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.cluster.client import connect
from engine.errors import ClusterConfigurationError
from tests.support.fake_api_server import fake_api_server
from tests.support.kubeconfig_fields import ROWS, Fields, context, written, wrong

PODS = "/api/v1/pods"


@pytest.mark.parametrize("fields", ROWS, ids=lambda each: each.what)
async def test_a_field_of_a_kubeconfig(tmp_path: Path, fields: Fields) -> None:
    async with fake_api_server(context(fields, tmp_path)) as server:
        server.put(PODS, "a")
        file = written(fields, server.url, tmp_path)
        if fields.refused:
            with pytest.raises(ClusterConfigurationError, match=re.escape(fields.refused)):
                async with connect(file, None, version="1"):
                    pass
            return
        async with connect(file, None, version="1") as client:
            await client.request("GET", PODS)
        (request,) = server.requests
        assert not wrong(fields, list(request.headers.items()))
