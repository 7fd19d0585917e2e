"""Keyring: certificates made for a test, in files as `placet serve` reads them, and clients."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from aiohttp import ClientSession, TCPConnector, TraceConfig
from prometheus_client import CollectorRegistry
from trustme import CA, LeafCert

from policies.admission import Examiner
from server.http.sockets import listening
from server.http.tls import Credentials
from server.metrics.metrics import Metrics
from server.settings import Settings, TlsFiles
from server.supervisor import Supervisor
from tests.support.served import LOG, Answer, Parts, names_request

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def in_days(days: float) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def put(file: Path, content: bytes) -> None:
    """Replaces a file atomically, as a Secret's volume does."""
    fresh = file.with_name(f"{file.name}.new")
    fresh.write_bytes(content)
    fresh.replace(file)


@dataclass
class Keyring:
    """A CA for servers, one for clients, and the files of a server on loopback."""

    folder: Path
    server_ca: CA = field(default_factory=CA)
    client_ca: CA = field(default_factory=CA)

    @property
    def files(self) -> TlsFiles:
        """The server's files, without a client CA."""
        return TlsFiles(self.folder / "tls.crt", self.folder / "tls.key")

    def mutual(self, *names: str) -> TlsFiles:
        """The server's files with a client CA, for clients with one of these names."""
        pair = self.files
        return TlsFiles(pair.certificate, pair.key, self.folder / "ca.crt", frozenset(names))

    def write_pair(self, not_after: datetime | None = None) -> LeafCert:
        """Writes a new certificate of the server, and its key."""
        leaf = self.server_ca.issue_cert("127.0.0.1", "localhost", not_after=not_after)
        put(self.files.key, leaf.private_key_pem.bytes())
        put(self.files.certificate, b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
        return leaf

    def write_client_ca(self) -> None:
        put(self.folder / "ca.crt", self.client_ca.cert_pem.bytes())

    def write(self) -> LeafCert:
        """Writes all files; the server's certificate last, which shows that all are loaded."""
        self.write_client_ca()
        return self.write_pair()

    def client(self, certificate: LeafCert | None = None) -> ssl.SSLContext:
        """The TLS context of a client that trusts the server's CA and has this certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.server_ca.configure_trust(context)
        if certificate is not None:
            certificate.configure_cert(context)
        return context


# ---- secured: a running server with TLS, and clients with certificates that a test chooses


@dataclass(frozen=True)
class Secured:
    """A running server."""

    url: str
    registry: CollectorRegistry

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    async def ask(self, client: ssl.SSLContext, path: str = "/filter") -> Answer:
        """Sends a request on a new connection: POST for a verb, GET for any other path."""
        async with self.session(client) as session:
            return await ask(session, path)

    def session(self, client: ssl.SSLContext, *traces: TraceConfig) -> ClientSession:
        """A session with one connection at a time, which stays open."""
        connector = TCPConnector(ssl=client, limit=1)
        return ClientSession(self.url, connector=connector, trace_configs=[*traces])

    async def shown(self, client: ssl.SSLContext) -> bytes | None:
        """The server's certificate on a new connection."""
        _, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=client)
        found: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
        return found

    async def shows(self, leaf: LeafCert, client: ssl.SSLContext) -> None:
        """Returns when new connections get this certificate."""
        wanted = ssl.PEM_cert_to_DER_cert(leaf.cert_chain_pems[0].bytes().decode())
        # A fake clock is faster than the thread that looks at files.
        async with asyncio.timeout(60):
            while await self.shown(client) != wanted:  # noqa: ASYNC110 - polls the server
                await asyncio.sleep(0.1)


async def ask(session: ClientSession, path: str = "/filter") -> Answer:
    verb = path in {"/filter", "/prioritize", "/preempt", "/bind"}
    body = msgspec.json.encode(names_request("a")) if verb else None
    async with session.request("POST" if verb else "GET", path, data=body) as response:
        return Answer(response.status, dict(response.headers), await response.read())


@asynccontextmanager
async def secured(files: TlsFiles, examiner: Examiner | None = None) -> AsyncIterator[Secured]:
    """Listens as `placet serve` does with these files, on a free port."""
    settings = Settings(port=0, tls=files)
    registry = CollectorRegistry()
    credentials = Credentials(files, Metrics(registry, "1.2.3"), LOG)
    supervisor = Supervisor(LOG, lambda _: None)
    supervisor.start("certificates", credentials.run)
    app = Parts(settings=settings, examiner=examiner).app()
    try:
        async with listening(app, settings, credentials) as url:
            yield Secured(url, registry)
    finally:
        await supervisor.stop()
