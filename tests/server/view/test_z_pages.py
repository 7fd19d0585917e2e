"""The z-pages of the view: the forms that Kubernetes' components have."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession

from engine.decision.journal import Journal
from grammar.values.time import Timestamp
from tests.support.view_server import Parts, view_of

STRUCTURED = "application/json;v=v1alpha1;g=config.k8s.io;as=Statusz"


@pytest.fixture
async def client() -> AsyncIterator[ClientSession]:
    async with view_of(Parts(Journal())) as url, ClientSession(url) as session:
        yield session


async def asked(client: ClientSession, path: str, accept: str) -> tuple[int, str, str]:
    async with client.get(path, headers={"Accept": accept}) as response:
        return response.status, response.content_type, await response.text()


@pytest.mark.parametrize("accept", ["text/plain", "*/*", "application/json, text/plain;q=0.5"])
async def test_statusz_is_text_for_people(client: ClientSession, accept: str) -> None:
    status, kind, text = await asked(client, "/statusz", accept)
    assert (status, kind) == (200, "text/plain")
    head, warning, empty, started, up, python, version, paths = text.splitlines()
    assert (head, empty, version) == ("placet statusz", "", "Binary version: 1.2.3")
    assert warning.startswith("Warning: This endpoint is not meant to be machine parseable")
    assert re.fullmatch(r"Started: \w{3} \w{3} \d\d \d\d:\d\d:\d\d UTC \d{4}", started)
    assert re.fullmatch(r"Up: 0 hr 00 min 0\d sec", up)
    assert python.startswith("Python version: 3.")
    assert {"/statusz", "/configz", "/api/v1/status"} <= set(paths.split()[1:])


@pytest.mark.parametrize("accept", [STRUCTURED, f"{STRUCTURED}, text/plain"])
async def test_statusz_is_structured_on_demand(client: ClientSession, accept: str) -> None:
    async with client.get("/statusz", headers={"Accept": accept}) as response:
        found = await response.json()
    now = Timestamp.now().nanos
    assert abs(Timestamp.parse(found.pop("startTime")).nanos - now) < 10**11
    assert found.pop("uptimeSeconds") < 100
    assert "/statusz" in found.pop("paths")
    assert found == {
        "kind": "Statusz",
        "apiVersion": "config.k8s.io/v1alpha1",
        "metadata": {"name": "placet"},
        "binaryVersion": "1.2.3",
    }


@pytest.mark.parametrize("accept", ["application/json", "application/json;as=Statusz", "image/png"])
async def test_other_forms_are_not_acceptable(client: ClientSession, accept: str) -> None:
    status, _, text = await asked(client, "/statusz", accept)
    assert status == 406
    assert "application/json;as=Statusz;g=config.k8s.io;v=v1alpha1" in text


async def test_configz_has_the_configuration_by_its_group(client: ClientSession) -> None:
    async with client.get("/configz") as response:
        assert await response.json() == {"placet.dev": {"listen": "127.0.0.1:12345"}}
