"""TLS: the credentials of a server, reloaded when their files change, and their expiry."""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from logging import ERROR, WARNING, Logger
from pathlib import Path

from engine.work import shared_pause
from grammar.messages.texts import os_reason
from policies.disk import Disk, Visit, contents
from policies.loader import Watcher
from server.answers import CertificateInUse
from server.call import LimitedLog, LogEntry, RecentNews
from server.http.health import ReadinessCheck
from server.metrics.metrics import Metrics
from server.settings import SettingsError, TlsFiles

_DAY = 86_400.0
WARNING_SECONDS = 7 * _DAY
# Files with an error are tried again even if they look unchanged: the cause may have been their
# permissions, or a moment without free file descriptors.
RETRY_SECONDS = 10.0


class TlsError(SettingsError):
    """TLS files that cannot be used; the text is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class LoadedFiles:
    """Loaded files: the TLS context of new connections until the files change, and the expiry."""

    context: ssl.SSLContext
    # Unix seconds.
    expires: float


class Credentials:
    """The credentials of a server: the newest usable state of its TLS files.

    A server keeps one for its whole life. Files that cannot be used leave the previous ones
    in use.
    """

    def __init__(
        self, files: TlsFiles, metrics: Metrics, log: Logger, clock: Callable[[], float] = time.time
    ) -> None:
        """Reads the files. Raises TlsError."""
        self._files = files
        self._metrics = metrics
        self._log = log
        self._clock = clock
        self._disk = Disk()
        self._watcher = Watcher(lambda _: files.paths, self._disk)
        self._problem = ""
        self._tried = 0.0
        self._warned = ""
        # A client that cannot connect tries again and again.
        self._news = RecentNews()
        self._limited = LimitedLog(log)
        self.loaded = self._disk.run(self._read)
        self._report_loaded()

    @property
    def in_use(self) -> CertificateInUse:
        """The certificate of new connections."""
        now, expires = self._clock(), self.loaded.expires
        return CertificateInUse(self._files.shown, _date(expires), expiry_warning(expires, now))

    def checks(self) -> Sequence[ReadinessCheck]:
        """What is wrong with the certificate, for `/readyz`."""
        used = self.in_use
        failure = f"`{used.file}` {used.warning}" if used.warning else ""
        if self._problem:
            failure = f"{failure}; {self._problem}" if failure else self._problem
        return [ReadinessCheck("certificate", failure, is_warning=True)]

    async def run(self) -> None:
        while True:
            await shared_pause(self._watcher.pause)
            await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Reads the files again if they have changed. Never raises.

        It may run in any thread, but not in two at the same time.
        """
        try:
            has_changed = self._watcher.changed()
            is_due = not 0 <= self._clock() - self._tried < RETRY_SECONDS
            if has_changed or (self._problem and is_due):
                self._reload(has_changed=has_changed)
            self._warn()
        except Exception:  # noqa: BLE001 - whatever it is, the server goes on
            self._log.exception("TLS: cannot read changed files; the previous ones stay in use")

    def handshake_failed(self, host: str, error: ssl.SSLError) -> None:
        """Counts and logs a failed handshake with the client at this address."""
        self._metrics.count("placet_tls_handshake_failures_total")
        reason = _reason(error)
        if isinstance(error, ssl.SSLCertVerificationError):
            reason = f"{reason}: {error.verify_message}"
        if self._news.is_new(host, reason):
            entry = LogEntry(f"TLS: handshake with {host} failed: {reason}", {})
            self._limited.write(WARNING, "handshake", entry)

    def _reload(self, *, has_changed: bool) -> None:
        self._tried = self._clock()
        try:
            loaded = self._disk.run(self._read)
            # An expired certificate never takes the place of one that is still valid.
            if loaded.expires <= self._clock() < self.loaded.expires:
                text = f"`{self._files.shown}` expired on {_date(loaded.expires)}"
                raise TlsError(text)  # noqa: TRY301
        except TlsError as error:
            if has_changed or str(error) != self._problem:
                self._log.error("TLS: %s; the previous certificates stay in use", error)
            self._problem = str(error)
        else:
            self.loaded, self._problem = loaded, ""
            self._report_loaded()

    def _read(self, visit: Visit) -> LoadedFiles:
        for path in self._files.paths:
            try:
                visit(path)
            except OSError as error:
                raise _unreadable(path, error) from None
        return load(self._files)

    def _report_loaded(self) -> None:
        file, expires = self._files.shown, self.loaded.expires
        self._metrics.certificate_expires(file, expires)
        if expires > self._clock():
            self._log.info("TLS: loaded certificate %s, valid until %s", file, _date(expires))
        self._warn()

    def _warn(self) -> None:
        """Logs the expiry warning whenever its text changes, which is once a day."""
        expires, now = self.loaded.expires, self._clock()
        warning = expiry_warning(expires, now)
        if warning and warning != self._warned:
            level = ERROR if expires <= now else WARNING
            self._log.log(level, "TLS: certificate %s %s", self._files.shown, warning)
        self._warned = warning


def expiry_warning(expires: float, now: float) -> str:
    """The warning about a certificate that expires soon, in Unix seconds; usually empty."""
    left = expires - now
    if left <= 0:
        return f"expired on {_date(expires)}: clients refuse it until the file has another one"
    if left > WARNING_SECONDS:
        return ""
    days = int(left / _DAY)
    when = "in less than a day" if days == 0 else f"in {days} {'day' if days == 1 else 'days'}"
    return f"expires {when}, on {_date(expires)}"


def _date(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


# ---- reading the files


def load(files: TlsFiles) -> LoadedFiles:
    """Reads the files. Raises TlsError."""
    # No server without HTTPS needs the library for certificates.
    from cryptography.x509 import load_pem_x509_certificate  # noqa: PLC0415

    content = _read(files.certificate)
    try:
        certificate = load_pem_x509_certificate(content)
    except ValueError:
        raise TlsError(f"`{files.certificate}` contains no certificate") from None
    if b"PRIVATE KEY-----" not in _read(files.key):
        raise TlsError(f"`{files.key}` contains no private key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A renegotiation costs the server more than the client.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    _load_pair(context, files)
    if files.client_ca is not None:
        # Only client certificates of this CA; `access` says which paths require one.
        load_authority(context, files.client_ca)
        context.verify_mode = ssl.CERT_OPTIONAL
        # As in kube-apiserver: an intermediate CA is trusted without its root.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return LoadedFiles(context, certificate.not_valid_after_utc.timestamp())


def _load_pair(context: ssl.SSLContext, files: TlsFiles) -> None:
    def refuse() -> str:
        raise TlsError(f"the key `{files.key}` is encrypted")

    try:
        # Without `refuse`, OpenSSL would ask for the password on the terminal.
        context.load_cert_chain(files.certificate, files.key, password=refuse)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            text = f"the key `{files.key}` does not belong to the certificate `{files.certificate}`"
            raise TlsError(text) from None
        text = f"cannot use `{files.certificate}` and `{files.key}`: {_reason(error)}"
        raise TlsError(text) from None
    except OSError as error:
        # The files were removed after they were read.
        raise TlsError(f"cannot read `{files.certificate}` or `{files.key}`") from error


def load_authority(context: ssl.SSLContext, file: Path) -> None:
    """Accepts certificates of the CA in the file. Raises TlsError."""
    if b"-----BEGIN CERTIFICATE-----" not in _read(file):
        raise TlsError(f"`{file}` contains no certificate")
    try:
        context.load_verify_locations(file)
    except OSError as error:
        reason = _reason(error) if isinstance(error, ssl.SSLError) else "it cannot be read"
        raise TlsError(f"cannot use `{file}` as a CA: {reason}") from None


def _read(file: Path) -> bytes:
    try:
        return contents(file)
    except OSError as error:
        raise _unreadable(file, error) from None


def _unreadable(file: Path, error: OSError) -> TlsError:
    return TlsError(f"cannot read `{file}`: {os_reason(error)}")


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "OpenSSL cannot read it").lower().replace("_", " ")


# ---- a file for a certificate from elsewhere

_MEMORY = Path("/dev/shm")  # noqa: S108 - the folder made there is private


@contextmanager
def private_file() -> Iterator[Path]:
    """A path in a new folder that only this user reads; the folder is removed afterwards.

    The folder is in memory where the system has a file system in memory: the key is on no disk, and
    a container needs no other folder to write to.
    """
    parent = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="placet-", dir=parent) as folder:
        yield Path(folder, "tls.pem")
