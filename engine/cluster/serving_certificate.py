"""TlsSecret and `trust`: where a serving certificate is kept, and the webhooks that rely on it.

Both read before they write, and write only what differs. Replicas may do so at the same time: an
update names the version that was read, so that one of them succeeds and the others read again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from engine.cluster.client import CORE, Api, path_of, read_if_there
from engine.errors import ApiError, ApiUnreachableError
from policies.resource import Metadata

_REQUEST_SECONDS = 5.0
_NOT_FOUND, _CONFLICT = 404, 409
_MERGE_PATCH, _JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"
T = TypeVar("T")
_KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


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
