"""CertificateKeeper: keeps the serving certificate of `--tls-secret` in its Secret and in a file.

A server with that flag has one for its whole life. Every replica has its own, and all do the same:
they look at the Secret again and again, and whoever finds something due writes it. The file is for
`server.http.tls.Credentials`, which loads changed files.

Who writes the Secret or a webhook configuration reads it before, and writes only what differs.
Replicas may do so at the same time: an update names the version that was read, so that one of them
succeeds and the others read again.

The Secret has, by key:

    ca.crt   the CAs that clients trust, the current first; an old CA until its end
    ca.key   the key of the current CA
    tls.crt  the serving certificate; tls.key has its key

A certificate is replaced when two thirds of its life are over. A new CA signs nothing before
clients have had time to learn of it: the serving certificate of the old CA stays in use until it is
due itself, and clients trust both CAs meanwhile.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from logging import Logger
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from engine.cache.reflector import Report
from engine.cluster.client import CORE, Api, patch, path_of, read_as
from engine.errors import ApiError, ApiUnreachableError, why
from policies.resource import Metadata
from server.settings import SelfSigned

CA, CA_KEY, CERTIFICATE, KEY = "ca.crt", "ca.key", "tls.crt", "tls.key"

CA_LIFE, LIFE = timedelta(days=365), timedelta(days=90)
# How long a CA is known to clients before it signs: API servers read a webhook's CA within seconds.
SETTLED = timedelta(hours=1)
# Clocks of clients may be behind ours.
_SKEW = timedelta(minutes=5)


class ForeignCertificateError(ValueError):
    """The Secret has a certificate that Placet did not make."""


@dataclass(frozen=True, slots=True)
class _Pair:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def changes(data: Mapping[str, bytes], names: Sequence[str], now: datetime) -> Mapping[str, bytes]:
    """The keys of the Secret that are due, with their new values; empty if none is.

    `names` are the DNS names and IP addresses of the serving certificate. Raises
    ForeignCertificateError: what others put there is not overwritten.
    """
    if not data.get(CA_KEY) and any(data.get(key) for key in (CA, CERTIFICATE, KEY)):
        raise ForeignCertificateError
    found: dict[str, bytes] = {}
    trusted = [each for each in _certificates(data.get(CA, b"")) if _is_valid(each, now)]
    current = _pair(trusted, data.get(CA_KEY, b""))
    if current is None or _is_due(current.certificate, now):
        current = _new_ca(now)
        trusted = [current.certificate, *trusted]
        found[CA] = b"".join(each.public_bytes(Encoding.PEM) for each in trusted)
        found[CA_KEY] = _pem(current.key)
    serving = _serving(data, trusted, names, now)
    settles = current.certificate.not_valid_before_utc + _SKEW + SETTLED
    if serving is None or (_is_due(serving, now) and now >= settles):
        made = _new_serving(current, names, now)
        found[CERTIFICATE] = made.certificate.public_bytes(Encoding.PEM)
        found[KEY] = _pem(made.key)
    return found


def is_usable(data: Mapping[str, bytes], names: Sequence[str], now: datetime) -> bool:
    """Whether a server can serve with the certificate: it is valid, and clients trust it."""
    trusted = [each for each in _certificates(data.get(CA, b"")) if _is_valid(each, now)]
    return _serving(data, trusted, names, now) is not None


# ---- what there is


def _serving(
    data: Mapping[str, bytes],
    trusted: Sequence[x509.Certificate],
    names: Sequence[str],
    now: datetime,
) -> x509.Certificate | None:
    pair = _pair(_certificates(data.get(CERTIFICATE, b"")), data.get(KEY, b""))
    if pair is None or not _is_valid(pair.certificate, now):
        return None
    if _names(pair.certificate) != {*names}:
        return None
    if not any(_has_issued(each, pair.certificate) for each in trusted):
        return None
    return pair.certificate


def _certificates(pem: bytes) -> Sequence[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return ()


def _pair(certificates: Sequence[x509.Certificate], pem: bytes) -> _Pair | None:
    """The first certificate with its key; None if one of them is missing or not ours."""
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError):
        return None
    if not certificates or not isinstance(key, ec.EllipticCurvePrivateKey):
        return None
    if key.public_key() != certificates[0].public_key():
        return None
    return _Pair(certificates[0], key)


def _names(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return set()
    return {
        *found.get_values_for_type(x509.DNSName),
        *map(str, found.get_values_for_type(x509.IPAddress)),
    }


def _has_issued(ca: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _is_valid(certificate: x509.Certificate, now: datetime) -> bool:
    return now < certificate.not_valid_after_utc


def _is_due(certificate: x509.Certificate, now: datetime) -> bool:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now >= begin + (end - begin) * 2 / 3


# ---- what is made


def _new_ca(now: datetime) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    # Clients tell CAs of one bundle apart by their names.
    name = _named(f"placet-ca-{now:%Y%m%d%H%M%S}")
    usual = _builder(key, key, now, now + CA_LIFE, is_ca=True)
    return _Pair(usual.subject_name(name).issuer_name(name).sign(key, SHA256()), key)


def _new_serving(ca: _Pair, names: Sequence[str], now: datetime) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    # A certificate must not outlive the one that vouches for it.
    ends = min(now + LIFE, ca.certificate.not_valid_after_utc)
    builder = (
        _builder(key, ca.key, now, ends, is_ca=False)
        .subject_name(_named("placet"))
        .issuer_name(ca.certificate.subject)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([*map(_general, names)]), critical=False)
    )
    return _Pair(builder.sign(ca.key, SHA256()), key)


def _builder(
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    now: datetime,
    ends: datetime,
    *,
    is_ca: bool,
) -> x509.CertificateBuilder:
    """What both certificates have beside their names."""
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    constraints = x509.BasicConstraints(ca=is_ca, path_length=0 if is_ca else None)
    return (
        x509.CertificateBuilder()
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(issuer, critical=False)
        .add_extension(constraints, critical=True)
        .add_extension(_usage(signs_certificates=is_ca), critical=True)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


# The pause between two looks: how long a webhook can have a wrong `caBundle`, as after an upgrade.
INTERVAL_SECONDS = 10.0
# Replicas that start together try at the same time, and one of them succeeds.
_TRIES = 5
_SECRET, _BUNDLE = "keep the certificate in its Secret", "keep the caBundle of webhooks"
_REQUEST_SECONDS = 5.0
_NOT_FOUND, _CONFLICT = 404, 409
_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"
_KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


def _now() -> datetime:
    # Certificates have whole seconds.
    return datetime.now(UTC).replace(microsecond=0)


class _StoredSecret(msgspec.Struct):
    """A stored Secret; msgspec reads and writes bytes as base64."""

    metadata: Metadata
    data: dict[str, bytes] | None = None


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
        secret = path_of(CORE, "secrets", *self.wanted.secret)
        for _ in range(_TRIES):
            stored = await read_as(self.api, secret, _StoredSecret, _REQUEST_SECONDS)
            data = (stored.data if stored is not None else None) or {}
            # First what is there: it serves even if it cannot be replaced now.
            self._put(data)
            due = changes(data, self.wanted.names, self.now())
            if not due:
                return data[CA]
            if await self._write(stored, due):
                data = {**data, **due}
                self.log.info("TLS: wrote %s to `%s`", ", ".join(sorted(due)), self.wanted.shown)
                self._put(data)
                return data[CA]
        raise ApiUnreachableError("other replicas change it all the time")

    async def _write(self, stored: _StoredSecret | None, due: Mapping[str, bytes]) -> bool:
        """Creates or changes the Secret; False if it is no longer what was read.

        Raises ApiError and ApiUnreachableError.
        """
        namespace, name = self.wanted.secret
        try:
            if stored is None:
                head = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls"}
                body = msgspec.json.encode({**head, "metadata": {"name": name}, "data": due})
                path = path_of(CORE, "secrets", namespace)
                await self.api.request("POST", path, body=body, timeout_seconds=_REQUEST_SECONDS)
            else:
                version = {"resourceVersion": stored.metadata.resourceVersion}
                change = {"metadata": version, "data": due}
                path = path_of(CORE, "secrets", namespace, name)
                await patch(self.api, path, change, seconds=_REQUEST_SECONDS)
        except ApiError as error:
            if error.status == _CONFLICT:
                return False
            raise
        return True

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
    if (found := await read_as(api, path, _Configuration, _REQUEST_SECONDS)) is None:
        return False
    changes: list[Mapping[str, object]] = []
    for at, webhook in enumerate(found.webhooks or ()):
        if webhook.clientConfig.caBundle != bundle:
            # The test makes a change of the list since the reading an error, not a wrong bundle.
            changes += (
                {"op": "test", "path": f"/webhooks/{at}/name", "value": webhook.name},
                {"op": "add", "path": f"/webhooks/{at}/clientConfig/caBundle", "value": bundle},
            )
    if changes:
        await patch(api, path, changes, "json", _REQUEST_SECONDS)
    return True
