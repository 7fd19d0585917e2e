"""The probe: a running Placet is asked over the configured connection, and faults are named."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from cli.doctor.configuration_text import configurations
from cli.doctor.context import Found
from cli.doctor.probe import probe, started
from cli.doctor.schema import ExtenderEntry
from engine.decision.journal import Journal
from tests.cli.conftest import Placet
from tests.support.certificates import Keyring, secured
from tests.support.scheduler_configs import BIND_APART, Json, configuration, ours
from tests.support.served import Parts, serving
from tests.support.view_server import Parts as ViewParts
from tests.support.view_server import running

RUNNING = "1.2.3"


def probed(url: str, version: str = RUNNING, **fields: Any) -> list[tuple[str, str, str]]:
    """Return severity, field and message of each finding."""
    given = ours(urlPrefix=url, **fields)
    found: list[Found] = list(probe(entries(given), version))
    return [(d.severity, path.removeprefix("extenders[0]."), d.message) for path, d in found]


def entries(*given: Json) -> tuple[ExtenderEntry, ...]:
    text = json.dumps(configuration(*given))
    return configurations([("s.yaml", text)])[0].extenders


async def ask(url: str, version: str = RUNNING, **fields: Any) -> list[tuple[str, str, str]]:
    return await asyncio.to_thread(probed, url, version, **fields)


@pytest.mark.parametrize("names", [True, False], ids=["names", "nodes"])
async def test_a_sound_pair_has_no_findings(names: bool) -> None:
    async with serving(Parts()) as served:
        url = "http://{}:{}/api/scheduler".format(*served.address)
        assert await ask(url, nodeCacheCapable=names) == []
        asked = [call.verb for call in served.parts.decider.calls]
        assert asked == ["filter", "prioritize", "preempt"]


async def test_another_version_is_named() -> None:
    async with serving(Parts()) as served:
        url = "http://{}:{}/api/scheduler".format(*served.address)
        found = await ask(url, "2.0.0")
    message = "the running Placet is 1.2.3, and this command is 2.0.0"
    assert found == [("warning", "urlPrefix", message)]


async def test_a_wrong_path_and_a_wrong_port_are_named() -> None:
    async with serving(Parts()) as served:
        found = await ask("http://{}:{}/other".format(*served.address))
        assert {path for _, path, _ in found} == {"filterVerb", "prioritizeVerb", "preemptVerb"}
        said = (
            "`filter` is answered with 404: Placet answers at `/api/scheduler/filter` of this port"
        )
        assert found[0][2] == said
        (plain,) = await ask("https://{}:{}/api/scheduler".format(*served.address))
        assert plain[2].endswith("answers without TLS")
    with running(ViewParts(Journal())) as views:
        found = await ask(f"{views.urls[0]}/api/scheduler")
    assert all("this is the port of Placet's view" in message for *_, message in found)
    assert len(found) == 3


async def test_another_server_is_not_taken_for_a_port_of_placet() -> None:
    async def ready(_: web.Request) -> web.Response:
        return web.json_response({"gitVersion": "v1.36.0"})

    app = web.Application()
    app.router.add_get("/{path:.*}", ready)
    async with TestServer(app) as other:
        found = await ask(f"http://127.0.0.1:{other.port}/api/scheduler")
    assert {message for *_, message in found} == {
        f"`{verb}` is answered with 405" for verb in ("filter", "prioritize", "preempt")
    }


async def test_nobody_there_and_a_silent_server_are_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert [m for *_, m in await ask(url, httpTimeout="200ms")] == [
            f"`{url}` does not answer within 0.2 s"
        ]
    (found,) = await ask(url)
    assert found == (
        *("error", "urlPrefix"),
        f"nothing that speaks HTTP answers at `{url}`: connection refused",
    )


async def test_tls_is_that_of_the_configuration(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    keyring.write_pair()
    ca = base64.b64encode(keyring.server_ca.cert_pem.bytes()).decode()
    other = base64.b64encode(keyring.client_ca.cert_pem.bytes()).decode()
    async with secured(keyring.files) as served:
        url = f"https://127.0.0.1:{served.port}/api/scheduler"
        assert await ask(url, tlsConfig={"caData": ca}) == []
        assert await ask(url, tlsConfig={"caData": ca, "serverName": "localhost"}) == []
        assert await ask(url, tlsConfig={"insecure": True}) == []
        for wrong in ({"caData": other}, {"caData": ca, "serverName": "placet"}):
            (found,) = await ask(url, tlsConfig=wrong)
            assert found[:2] == ("error", "tlsConfig")
            assert "there is no TLS connection" in found[2]


async def test_of_bind_alone_the_connection_is_tried(tmp_path: Path) -> None:
    """Not the verb, and with no more patience than for others."""
    keyring = Keyring(tmp_path)
    keyring.write_pair()
    ca = base64.b64encode(keyring.server_ca.cert_pem.bytes()).decode()
    other = base64.b64encode(keyring.client_ca.cert_pem.bytes()).decode()
    async with secured(keyring.files) as served:
        url = f"https://127.0.0.1:{served.port}/api/scheduler"
        main = ours(urlPrefix=url, tlsConfig={"caData": ca})
        for name, expected in ((ca, []), (other, ["extenders[1].tlsConfig"])):
            apart = BIND_APART | {"urlPrefix": url, "tlsConfig": {"caData": name}}
            both = entries(main, apart)
            found = await asyncio.to_thread(lambda given: list(probe(given, "2.0.0")), both)
            assert [path for path, _ in found] == ["extenders[0].urlPrefix", *expected]


def test_the_command_asks_only_when_it_is_told(placet: Placet) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}/api/scheduler"
    text = json.dumps(configuration(ours(urlPrefix=url)))
    assert placet("doctor", "-", stdin=text).code == 0
    done = placet("doctor", "--probe", "-", stdin=text)
    assert done.code == 1
    assert "error[probe]: nothing that speaks HTTP answers" in done.out


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 0", []),
        (
            r"""echo 'E1 run.go:72] "command failed" err="no plugin \"Mine\""' >&2; exit 1""",
            ['kube-scheduler refuses to start: no plugin "Mine"'],
        ),
        ("echo first; echo second >&2; exit 1", ["kube-scheduler refuses to start: second"]),
        ("exit 1", ["kube-scheduler refuses to start: it says nothing"]),
    ],
    ids=["starts", "log", "no log", "nothing"],
)
def test_kube_scheduler_says_why_it_does_not_start(
    tmp_path: Path, script: str, said: list[str]
) -> None:
    program = tmp_path / "kube-scheduler"
    program.write_text(f'#!/bin/sh\ngrep -q urlPrefix "${{1#--config=}}" || exit 9\n{script}\n')
    program.chmod(0o755)
    found = list(started(str(program), json.dumps(configuration())))
    assert [(d.severity, path, d.message) for path, d in found] == [("error", "", s) for s in said]


def test_a_program_that_is_not_there_is_an_error(placet: Placet) -> None:
    asking = ("doctor", "--kube-scheduler", "/none", "-")
    done = placet(*asking, stdin=json.dumps(configuration()))
    assert (done.code, done.out) == (2, "")
    assert "`/none` cannot be asked: no such file or directory" in done.err
