"""The certificate in a Secret: replicas that agree, renewal, webhooks and failures."""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest

from engine.errors import ApiError
from server.http.tls import private_file
from server.runtime.certificate_keeper import CA, CA_KEY, CERTIFICATE, KEY, LIFE, CertificateKeeper
from server.settings import SelfSigned, TlsFiles
from tests.server.runtime.test_tasks import running
from tests.support.object_api import Object, ObjectApi

LOG = logging.getLogger("placet.test")
SECRETS = "/api/v1/namespaces/kube-system/secrets"
SECRET = f"{SECRETS}/placet-tls"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{CONFIGURATIONS}/mutatingwebhookconfigurations/placet"
VALIDATING = f"{CONFIGURATIONS}/validatingwebhookconfigurations/placet"
WANTED = SelfSigned(("kube-system", "placet-tls"), ("127.0.0.1",), ("placet",))


@dataclass
class Clock:
    now: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))

    def __call__(self) -> datetime:
        return self.now


@dataclass
class Replica:
    """A keeper, its file, and what it reports by kind of work."""

    file: Path
    failures: dict[str, str]
    keeper: CertificateKeeper

    @property
    def failing(self) -> list[str]:
        return [text for text in self.failures.values() if text]


Make = Callable[..., Replica]


@pytest.fixture
def api() -> ObjectApi:
    api = ObjectApi()
    for path in (MUTATING, VALIDATING):
        api.put(path, webhooks=[{"name": "a", "clientConfig": {}}, webhook("b", b"old")])
    return api


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def replica(api: ObjectApi, clock: Clock, tmp_path: Path) -> Make:
    count: Iterator[int] = iter(range(10))

    def make(wanted: SelfSigned = WANTED) -> Replica:
        file, failures = tmp_path / f"{next(count)}.pem", dict[str, str]()
        keeper = CertificateKeeper(api, wanted, file, LOG, failures.__setitem__, clock)
        return Replica(file, failures, keeper)

    return make


def webhook(name: str, bundle: bytes) -> Object:
    return {"name": name, "clientConfig": {"caBundle": base64.b64encode(bundle).decode()}}


def stored(api: ObjectApi) -> dict[str, bytes]:
    data = api.objects[SECRET]["data"]
    return {key: base64.b64decode(value) for key, value in data.items()}


def bundles(api: ObjectApi, path: str) -> list[bytes]:
    found = (each["clientConfig"].get("caBundle", "") for each in api.objects[path]["webhooks"])
    return [base64.b64decode(each) for each in found]


async def test_replicas_that_start_together_agree(api: ObjectApi, replica: Make) -> None:
    replicas = [replica() for _ in range(3)]
    await asyncio.gather(*(each.keeper.first() for each in replicas))
    assert api.written.count(SECRET) == 1
    data = stored(api)
    assert set(data) == {CA, CA_KEY, CERTIFICATE, KEY}
    assert api.objects[SECRET]["type"] == "kubernetes.io/tls"
    for each in replicas:
        assert each.file.read_bytes() == data[CERTIFICATE] + data[KEY]
        assert each.failing == []


async def test_one_replica_renews_and_all_serve_the_same(
    api: ObjectApi, replica: Make, clock: Clock
) -> None:
    replicas = [replica() for _ in range(3)]
    for each in replicas:
        await each.keeper.first()
    before = stored(api)
    clock.now += LIFE * 2 / 3
    for _ in range(2):
        await asyncio.gather(*(each.keeper.look() for each in replicas))
    assert api.written.count(SECRET) == 2
    after = stored(api)
    assert (after[CA], after[CERTIFICATE] == before[CERTIFICATE]) == (before[CA], False)
    assert {each.file.read_bytes() for each in replicas} == {after[CERTIFICATE] + after[KEY]}


async def test_an_empty_secret_needs_no_right_to_create_one(api: ObjectApi, replica: Make) -> None:
    api.put(SECRET, data={"tls.crt": "", "tls.key": ""}, type="kubernetes.io/tls")
    api.denied[f"POST {SECRETS}"] = denied("create", "secrets")
    one = replica()
    await one.keeper.first()
    assert (one.failing, one.file.exists()) == ([], True)


async def test_the_bundle_of_every_webhook_is_kept_right(api: ObjectApi, replica: Make) -> None:
    one = replica()
    await one.keeper.look()
    ca = stored(api)[CA]
    assert bundles(api, MUTATING) == bundles(api, VALIDATING) == [ca, ca]
    # An upgrade puts its own object there.
    api.put(MUTATING, webhooks=[webhook("a", b"other"), webhook("b", ca)])
    writes = len(api.written)
    for _ in range(2):
        await one.keeper.look()
    assert bundles(api, MUTATING) == [ca, ca]
    assert api.written[writes:] == [MUTATING]


async def test_one_kind_of_configuration_is_enough_and_none_is_a_failure(
    api: ObjectApi, replica: Make
) -> None:
    del api.objects[VALIDATING]
    one = replica()
    await one.keeper.look()
    assert one.failing == []
    del api.objects[MUTATING]
    await one.keeper.look()
    text = (
        "cannot keep the caBundle of webhooks: the API server answers 404: "
        "there is no Mutating- or ValidatingWebhookConfiguration `placet`"
    )
    assert one.failing == [text]
    assert one.file.exists()


def denied(verb: str, resource: str) -> ApiError:
    user = 'User "system:serviceaccount:kube-system:placet"'
    return ApiError(403, "Forbidden", f'{user} cannot {verb} resource "{resource}"')


async def test_a_missing_right_is_named_with_its_file(api: ObjectApi, replica: Make) -> None:
    api.denied[f"GET {SECRET}"] = denied("get", "secrets")
    one = replica()
    await one.keeper.look()
    text = (
        "cannot keep the certificate in its Secret: the service account `kube-system/placet` may "
        "not get secrets: run `kubectl apply -f deploy/rbac/certificates/placet.yaml`"
    )
    assert one.failing == [text]
    assert not one.file.exists()


async def test_a_certificate_that_cannot_be_renewed_is_served_by_a_new_replica(
    api: ObjectApi, replica: Make, clock: Clock
) -> None:
    await replica().keeper.first()
    clock.now += LIFE - timedelta(days=1)
    api.denied[f"PATCH {SECRET}"] = denied("patch", "secrets")
    late = replica()
    await late.keeper.first()
    data = stored(api)
    assert late.file.read_bytes() == data[CERTIFICATE] + data[KEY]
    assert "may not patch secrets" in late.failing[0]


async def test_the_certificate_of_somebody_else_is_not_replaced(
    api: ObjectApi, replica: Make
) -> None:
    api.put(SECRET, data={"tls.crt": "bWluZQ==", "tls.key": "bWluZQ=="})
    one = replica()
    await one.keeper.look()
    text = (
        "cannot keep the certificate in its Secret: `Secret kube-system/placet-tls` has a "
        "certificate that Placet did not make: name another Secret with --tls-secret"
    )
    assert one.failing == [text]
    assert api.written == []
    assert not one.file.exists()


def test_the_file_is_private_and_gone_afterwards() -> None:
    with private_file() as file:
        assert file.parent.stat().st_mode & 0o077 == 0
        file.write_bytes(b"key")
    assert not file.parent.exists()


async def test_a_running_server_serves_the_certificate_of_the_secret(tmp_path: Path) -> None:
    """And shows it in its metrics by the name of the Secret."""
    file = tmp_path / "tls.pem"
    files = TlsFiles(file, file, origin=WANTED.shown)
    async with running(tmp_path, tls=files, self_signed=WANTED) as server:
        data = stored(server.api.single)
        trusted = ssl.create_default_context(cadata=data[CA].decode())
        async with server.session.get(f"{server.url}/metrics", ssl=trusted) as answer:
            text = await answer.text()
        assert '_expiry_timestamp_seconds{file="Secret kube-system/placet-tls"}' in text
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await server.session.get(f"{server.url}/metrics", ssl=ssl.create_default_context())
