"""The end of a certificate, as it is in its DER."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

import pytest
from trustme import CA

from server.tls import CertificateError, not_after
from tests.support.certificates import LONG_AGO

AUTHORITY = CA()
PEM = AUTHORITY.issue_cert("a.example", not_after=LONG_AGO).cert_chain_pems[0].bytes()


@pytest.mark.parametrize(
    "end",
    [
        datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime(2050, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
    ],
    ids=["two digits of the year", "four digits", "no end (RFC 5280)"],
)
def test_the_end_is_read(end: datetime) -> None:
    leaf = AUTHORITY.issue_cert("a.example", not_after=end)
    assert not_after(leaf.cert_chain_pems[0].bytes()) == end.timestamp()


def test_what_is_around_it_is_skipped() -> None:
    """Keys and text may be in the same file; of a chain, the first is the server's own."""
    chain = AUTHORITY.cert_pem.bytes()
    around = AUTHORITY.private_key_pem.bytes() + "Aussteller: Ü\n".encode()
    assert not_after(around + PEM + chain) == LONG_AGO.timestamp()


def test_a_certificate_that_somebody_else_made() -> None:
    """Of version 1, which does not say so, and with two digits before 1950's turn."""
    der = _element(
        0x30,
        _element(
            0x30,
            _element(0x02, b"\x01")
            + _element(0x30, b"")
            + _element(0x30, b"")
            + _element(0x30, _element(0x17, b"500101000000Z") + _element(0x17, b"990101000000Z")),
        ),
    )
    assert not_after(_pem(der)) == datetime(1999, 1, 1, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("length", range(0, 260, 13))
def test_a_certificate_that_is_cut_off_is_none(length: int) -> None:
    with pytest.raises(CertificateError):
        not_after(_pem(_der(PEM)[:length]))


@pytest.mark.parametrize(
    "text",
    [b"", b"hello", AUTHORITY.private_key_pem.bytes(), PEM[:100], PEM.replace(b"M", b"\xff", 1)],
    ids=["nothing", "text", "a key", "half", "no base64"],
)
def test_other_files_are_none(text: bytes) -> None:
    with pytest.raises(CertificateError):
        not_after(text)


def _der(pem: bytes) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem.decode())


def _pem(der: bytes) -> bytes:
    return ssl.DER_cert_to_PEM_cert(der).encode()


def _element(tag: int, content: bytes) -> bytes:
    assert len(content) < 0x80
    return bytes((tag, len(content))) + content
