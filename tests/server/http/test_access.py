"""Access to a server with TLS: which certificates each path requires."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientError, ClientSession
from trustme import CA, LeafCert

from server.http.middleware import common_name
from tests.support.certificates import LONG_AGO, Keyring, Secured, secured
from tests.support.fake_clock import settled

NAMES = ("system:kube-scheduler", "scheduler.example")
VERBS = ("/filter", "/prioritize", "/preempt", "/bind")
OPEN = ("/livez", "/healthz", "/readyz", "/version")


@pytest.fixture
async def server(keyring: Keyring) -> AsyncIterator[Secured]:
    async with secured(keyring.mutual(*NAMES)) as served:
        yield served


def scheduler(keyring: Keyring) -> LeafCert:
    """The certificate that kubeadm makes: it has a common name and no alternative name."""
    return keyring.client_ca.issue_cert(common_name="system:kube-scheduler")


async def test_without_a_client_ca_no_certificate_is_required(keyring: Keyring) -> None:
    async with secured(keyring.files) as server:
        answer = await server.ask(keyring.client())
    assert server.url.startswith("https://127.0.0.1:")
    assert answer.json["NodeNames"] == ["a"]


async def test_a_listed_common_name_is_allowed(keyring: Keyring, server: Secured) -> None:
    answer = await server.ask(keyring.client(scheduler(keyring)))
    assert (answer.status, answer.json["NodeNames"]) == (200, ["a"])


@pytest.mark.parametrize("name", ["anybody", None])
@pytest.mark.parametrize("alternative", ["scheduler.example", "scheduler@scheduler.example"])
async def test_an_alternative_name_does_not_count(
    keyring: Keyring, alternative: str, name: str | None
) -> None:
    """A CA may let clients choose it."""
    leaf = keyring.client_ca.issue_cert(alternative, common_name=name)
    async with secured(keyring.mutual(*NAMES, alternative)) as server:
        assert (await server.ask(keyring.client(leaf))).status == 403


def test_of_several_common_names_the_last_counts() -> None:
    """As for kube-apiserver."""
    names = ((("commonName", "system:kube-scheduler"),), (("commonName", "eve"),))
    assert common_name({"subject": names, "subjectAltName": (("DNS", "mallory"),)}) == "eve"
    assert common_name({"subjectAltName": (("DNS", "mallory"),)}) == ""


async def test_without_a_list_every_name_is_allowed(keyring: Keyring) -> None:
    async with secured(keyring.mutual()) as server:
        leaf = keyring.client_ca.issue_cert("whoever.example")
        assert (await server.ask(keyring.client(leaf))).status == 200
        assert (await server.ask(keyring.client())).status == 401


@pytest.mark.parametrize("path", [*VERBS, "/metrics", "/debug", "/livez/", "/nothing"])
async def test_a_client_without_a_certificate_gets_401(
    keyring: Keyring, server: Secured, path: str
) -> None:
    """On unknown paths too."""
    answer = await server.ask(keyring.client(), path)
    assert (answer.status, answer.body) == (401, f"{path} requires a client certificate\n".encode())
    assert answer.headers["Connection"] == "close"


@pytest.mark.parametrize("path", OPEN)
async def test_probes_need_no_certificate(keyring: Keyring, server: Secured, path: str) -> None:
    assert (await server.ask(keyring.client(), path)).status == 200


@pytest.mark.parametrize("path", [*VERBS, "/debug", "/nothing"])
async def test_a_name_that_is_not_listed_gets_403(
    keyring: Keyring, server: Secured, path: str
) -> None:
    """Prefixes and suffixes of a listed name do not match."""
    leaf = keyring.client_ca.issue_cert("scheduler.example.org", common_name="kube-scheduler")
    answer = await server.ask(keyring.client(leaf), path)
    text = b"the client certificate is for `kube-scheduler`, which no --client-name allows\n"
    assert (answer.status, answer.body) == (403, text)


async def test_a_scraper_needs_no_listed_name(keyring: Keyring, server: Secured) -> None:
    leaf = keyring.client_ca.issue_cert(common_name="prometheus")
    assert (await server.ask(keyring.client(leaf), "/metrics")).status == 200


async def test_names_in_other_fields_do_not_count(keyring: Keyring, server: Secured) -> None:
    leaf = keyring.client_ca.issue_cert(
        "a.example", organization_name=NAMES[0], organization_unit_name=NAMES[1]
    )
    assert (await server.ask(keyring.client(leaf))).status == 403


async def test_denied_calls_are_logged(
    keyring: Keyring, server: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    await server.ask(keyring.client())
    await server.ask(keyring.client(keyring.client_ca.issue_cert(common_name="eve")))
    first, second = (record.getMessage() for record in caplog.records)
    assert 'verb="filter" code=401 outcome="unauthenticated"' in first
    assert 'verb="filter" code=403 outcome="forbidden"' in second
    assert 'err="the client certificate is for `eve`, which no --client-name allows"' in second


def of_another_ca(_: Keyring) -> LeafCert:
    return CA().issue_cert(common_name="system:kube-scheduler")


def expired(keyring: Keyring) -> LeafCert:
    return keyring.client_ca.issue_cert(common_name="system:kube-scheduler", not_after=LONG_AGO)


def of_the_server_ca(keyring: Keyring) -> LeafCert:
    return keyring.server_ca.issue_cert(common_name="system:kube-scheduler")


@pytest.mark.parametrize(
    "leaf", [of_another_ca, expired, of_the_server_ca], ids=lambda made: made.__name__
)
@pytest.mark.parametrize("path", ["/filter", "/livez"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_an_invalid_certificate_ends_the_handshake(
    keyring: Keyring, server: Secured, leaf: object, path: str, version: ssl.TLSVersion
) -> None:
    """On open paths too."""
    assert callable(leaf)
    client = keyring.client(leaf(keyring))
    client.maximum_version = version
    with pytest.raises((ClientError, OSError)):
        await server.ask(client, path)


async def test_an_intermediate_ca_is_trusted_without_its_root(
    tmp_path: Path,
) -> None:
    keyring = Keyring(tmp_path, client_ca=CA().create_child_ca())
    keyring.write()
    async with secured(keyring.mutual(*NAMES)) as server:
        assert (await server.ask(keyring.client(scheduler(keyring)))).status == 200


async def test_plain_http_gets_no_answer(server: Secured, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        async with ClientSession() as session:
            with pytest.raises(ClientError):
                await session.get(f"http://127.0.0.1:{server.port}/livez")
    assert messages(caplog) == ["TLS: handshake with 127.0.0.1 failed: http request"]


async def test_failed_handshakes_are_logged_and_counted(
    keyring: Keyring, server: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has each address and reason once: kube-scheduler tries again for each pod."""
    for leaf in (of_another_ca(keyring), of_another_ca(keyring), expired(keyring)):
        with pytest.raises((ClientError, OSError)):
            await server.ask(keyring.client(leaf))
    start = "TLS: handshake with 127.0.0.1 failed: certificate verify failed: "
    first, second = messages(caplog)
    assert first.startswith(start)
    assert second == f"{start}certificate has expired"
    assert server.registry.get_sample_value("placet_tls_handshake_failures_total") == 3


@pytest.mark.fake_clock
async def test_a_connection_without_a_handshake_is_not_a_failure(
    server: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    """For example a probe of the port."""
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.close()
    await writer.wait_closed()
    await settled()
    assert messages(caplog) == []


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
async def test_tls_1_1_is_refused(keyring: Keyring, server: Secured) -> None:
    client = keyring.client()
    client.set_ciphers("ALL:@SECLEVEL=0")
    client.minimum_version = ssl.TLSVersion.TLSv1_1
    client.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ClientError, OSError)):
        await server.ask(client, "/livez")
