"""Keyring: certificates made for a test, in files as `placet serve` reads them, and clients."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from trustme import CA, LeafCert

from server.settings import TlsFiles

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
