"""Self-signed certificates: the CA and the serving certificate that Placet makes, and when.

Everything here is about the data of one Secret, by key, and does no I/O:

    ca.crt   the CAs that clients trust, the current first; an old CA until its end
    ca.key   the key of the current CA
    tls.crt  the serving certificate; tls.key has its key

A certificate is replaced when two thirds of its life are over. A new CA signs nothing before
clients have had time to learn of it: the serving certificate of the old CA stays in use until it is
due itself, and clients trust both CAs meanwhile.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

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
    if _public(key.public_key()) != _public(certificates[0].public_key()):
        return None
    return _Pair(certificates[0], key)


def _public(key: CertificatePublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


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
    builder = (
        _builder(name, name, key.public_key(), now, now + CA_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
        )
    )
    return _Pair(builder.sign(key, SHA256()), key)


def _new_serving(ca: _Pair, names: Sequence[str], now: datetime) -> _Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    # A certificate must not outlive the one that vouches for it.
    ends = min(now + LIFE, ca.certificate.not_valid_after_utc)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca.key.public_key())
    builder = (
        _builder(_named("placet"), ca.certificate.subject, key.public_key(), now, ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([*map(_general, names)]), critical=False)
        .add_extension(issuer, critical=False)
    )
    return _Pair(builder.sign(ca.key, SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    ends: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
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
