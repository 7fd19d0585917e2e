"""CertificateKeeper: keeps the serving certificate of `--tls-secret` in its Secret and in a file.

A server with that flag has one for its whole life. Every replica has its own, and all do the same:
they look at the Secret again and again, and whoever finds something due writes it. The file is for
`server.http.tls.Credentials`, which loads changed files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from logging import Logger
from pathlib import Path

from engine.cache.reflector import Report
from engine.cluster.client import Api
from engine.cluster.serving_certificate import TlsSecret, trust
from engine.errors import ApiError, ApiUnreachableError, why
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
