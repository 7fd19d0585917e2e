"""Until when a certificate is valid: the one thing of it that a server tells its operators."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from datetime import UTC, datetime

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
# Tags of DER, as far as the way to the dates leads past them (X.690 8.1.2, RFC 5280 4.1).
_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18


class CertificateError(ValueError):
    """What was given is no certificate."""


def not_after(pem: bytes) -> float:
    """The Unix time at which the first certificate of a PEM file ends. Raises CertificateError.

    Nothing else is checked: OpenSSL does that when it loads the same file.
    """
    found = _PEM.search(pem)
    if found is None:
        raise CertificateError("no certificate")
    try:
        return _not_after(base64.b64decode(found[1]))
    except (binascii.Error, IndexError, ValueError) as error:
        raise CertificateError("not a certificate") from error


def _not_after(der: bytes) -> float:
    """Of `Certificate ::= SEQUENCE { tbsCertificate SEQUENCE { ... validity ... } ... }`."""
    certificate = _content(der, _SEQUENCE)
    fields = list(_elements(_content(certificate, _SEQUENCE)))
    if fields[0][0] == _VERSION:
        del fields[0]
    # What is left begins with serialNumber, signature, issuer, validity.
    tag, validity = fields[3]
    if tag != _SEQUENCE:
        raise ValueError("no validity")
    _, (tag, end) = _elements(validity)
    return _time(tag, end.decode("ascii")).timestamp()


def _time(tag: int, text: str) -> datetime:
    if tag == _UTC_TIME:
        # Two digits are of the years 1950 to 2049 (RFC 5280 4.1.2.5.1).
        text = f"{'19' if text >= '50' else '20'}{text}"
    elif tag != _GENERALIZED_TIME:
        raise ValueError("no time")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _content(data: bytes, wanted: int) -> bytes:
    tag, content = next(_elements(data), (0, b""))
    if tag != wanted:
        raise ValueError("not the expected tag")
    return content


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each element, one after the other. Raises IndexError and ValueError."""
    at = 0
    while at < len(data):
        tag, length = data[at], data[at + 1]
        at += 2
        if length >= 0x80:
            count = length & 0x7F
            length = int.from_bytes(data[at : at + count], "big")
            at += count
        if at + length > len(data):
            raise ValueError("cut off")
        yield tag, data[at : at + length]
        at += length
