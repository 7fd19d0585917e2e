"""CertificateKeeper: keeps the serving certificate of `--tls-secret` in its Secret and in a file.

A server with that flag has one for its whole life. Every replica has its own, and all do the same:
they look at the Secret again and again, and whoever finds something due writes it. The file is for
`server.http.tls.Credentials`, which loads changed files.

Who writes the Secret or a webhook configuration reads it before, and writes only what differs.
Replicas may do so at the same time: an update names the version that was read, so that one of them
succeeds and the others read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from logging import Logger
from pathlib import Path
from typing import TypeVar

import msgspec

from engine.cache.reflector import Report
from engine.cluster.client import CORE, Api, path_of, read_if_there
from engine.errors import ApiError, ApiUnreachableError, why
from policies.resource import Metadata
from server.http.self_signed import (
    CA,
    CERTIFICATE,
    KEY,
    ForeignCertificateError,
    changes,
    is_usable,
)
from server.settings import SelfSigned

# The pause between two looks: how long a webhook can have a wrong `caBundle`, as after an upgrade.
INTERVAL_SECONDS = 10.0
# Replicas that start together try at the same time, and one of them succeeds.
_TRIES = 5
_SECRET, _BUNDLE = "keep the certificate in its Secret", "keep the caBundle of webhooks"
_REQUEST_SECONDS = 5.0
_NOT_FOUND, _CONFLICT = 404, 409
_MERGE_PATCH, _JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"
T = TypeVar("T")
_KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


def _now() -> datetime:
    # Certificates have whole seconds.
    return datetime.now(UTC).replace(microsecond=0)


@dataclass(slots=True)
class CertificateKeeper:
    """The keeper of one server's certificate: its Secret, the webhooks and the file.

    The certificate and its key are written to `file`, in a folder that nobody else reads.
    """

    api: Api
    wanted: SelfSigned
    file: Path
    log: Logger
    report: Report
    now: Callable[[], datetime] = _now
    _written: bytes = b""

    async def first(self) -> None:
        """Returns when the file has a certificate."""
        while not self._written:
            await self.look()
            if not self._written:
                await asyncio.sleep(INTERVAL_SECONDS)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Looks once, and does what is due. What cannot be done is reported."""
        failure = ""
        try:
            bundle = await self._keep()
        except ForeignCertificateError:
            name = self.wanted.shown
            text = f"`{name}` has a certificate that Placet did not make"
            failure = f"cannot {_SECRET}: {text}: name another Secret with --tls-secret"
        except (ApiError, ApiUnreachableError) as error:
            failure = why(_SECRET, error)
        self.report(_SECRET, failure)
        if not failure:
            await self._trust(bundle)

    async def _keep(self) -> bytes:
        """The CA bundle of the Secret, once nothing is due there."""
        secret = TlsSecret(self.api, *self.wanted.secret)
        for _ in range(_TRIES):
            stored = await secret.read()
            data = (stored.data if stored is not None else None) or {}
            # First what is there: it serves even if it cannot be replaced now.
            self._put(data)
            due = changes(data, self.wanted.names, self.now())
            if not due:
                return data[CA]
            if await secret.write(stored, due):
                data = {**data, **due}
                self.log.info("TLS: wrote %s to `%s`", ", ".join(sorted(due)), self.wanted.shown)
                self._put(data)
                return data[CA]
        raise ApiUnreachableError("other replicas change it all the time")

    async def _trust(self, bundle: bytes) -> None:
        failure = ""
        for name in self.wanted.webhooks:
            try:
                await trust(self.api, name, bundle)
            except (ApiError, ApiUnreachableError) as error:
                failure = failure or why(_BUNDLE, error)
        self.report(_BUNDLE, failure)

    def _put(self, data: Mapping[str, bytes]) -> None:
        """Writes the file if it changes; both parts at once, so that they always fit together."""
        if not is_usable(data, self.wanted.names, self.now()):
            return
        content = data[CERTIFICATE] + data[KEY]
        if content != self._written:
            fresh = self.file.with_suffix(".new")
            fresh.write_bytes(content)
            fresh.replace(self.file)
            self._written = content


# ---- the Secret, and the webhooks that rely on it


class StoredSecret(msgspec.Struct):
    """A Secret; msgspec reads and writes bytes as base64."""

    metadata: Metadata
    data: dict[str, bytes] | None = None


class TlsSecret:
    """One Secret, which need not exist yet."""

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self._api = api
        self._folder = path_of(CORE, "secrets", namespace)
        self._path = path_of(CORE, "secrets", namespace, name)
        self._name = name

    async def read(self) -> StoredSecret | None:
        """The Secret as it is stored, None if there is none.

        Raises ApiError and ApiUnreachableError.
        """
        body = await read_if_there(self._api, self._path, _REQUEST_SECONDS)
        return None if body is None else _decoded(body, StoredSecret)

    async def write(self, stored: StoredSecret | None, changes: Mapping[str, bytes]) -> bool:
        """Creates or changes the Secret; False if it is no longer what was read.

        Raises ApiError and ApiUnreachableError.
        """
        if stored is None:
            method, path, content_type = "POST", self._folder, "application/json"
            head = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls"}
            wanted = {**head, "metadata": {"name": self._name}, "data": changes}
        else:
            method, path, content_type = "PATCH", self._path, _MERGE_PATCH
            wanted = {
                "metadata": {"resourceVersion": stored.metadata.resourceVersion},
                "data": changes,
            }
        try:
            await self._api.request(
                method,
                path,
                body=msgspec.json.encode(wanted),
                content_type=content_type,
                timeout_seconds=_REQUEST_SECONDS,
            )
        except ApiError as error:
            if error.status == _CONFLICT:
                return False
            raise
        return True


# ---- webhook configurations


class _ClientConfig(msgspec.Struct):
    caBundle: bytes = b""


class _Webhook(msgspec.Struct):
    name: str
    clientConfig: _ClientConfig


class _Configuration(msgspec.Struct):
    webhooks: list[_Webhook] | None = None


async def trust(api: Api, name: str, bundle: bytes) -> None:
    """Has the API server trust this CA bundle in all webhooks of the configurations of this name.

    A mutating and a validating configuration may have the same name. Raises ApiError, for neither
    of them too, and ApiUnreachableError.
    """
    found = [await _trust_in(api, f"{_WEBHOOKS}/{kind}/{name}", bundle) for kind in _KINDS]
    if not any(found):
        text = f"there is no Mutating- or ValidatingWebhookConfiguration `{name}`"
        raise ApiError(_NOT_FOUND, "NotFound", text)


async def _trust_in(api: Api, path: str, bundle: bytes) -> bool:
    """Whether the configuration is there. If it is, all its webhooks have the bundle now."""
    if (body := await read_if_there(api, path, _REQUEST_SECONDS)) is None:
        return False
    changes: list[Mapping[str, object]] = []
    for at, webhook in enumerate(_decoded(body, _Configuration).webhooks or ()):
        if webhook.clientConfig.caBundle != bundle:
            # The test makes a change of the list since the reading an error, not a wrong bundle.
            changes += (
                {"op": "test", "path": f"/webhooks/{at}/name", "value": webhook.name},
                {"op": "add", "path": f"/webhooks/{at}/clientConfig/caBundle", "value": bundle},
            )
    if changes:
        await api.request(
            "PATCH",
            path,
            body=msgspec.json.encode(changes),
            content_type=_JSON_PATCH,
            timeout_seconds=_REQUEST_SECONDS,
        )
    return True


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise ApiUnreachableError(f"the answer cannot be read: {error}") from error
