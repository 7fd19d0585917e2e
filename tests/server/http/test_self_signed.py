"""The certificates that Placet makes: what they are, when they change, and what clients trust."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography import x509

from server.runtime.certificate_keeper import (
    CA,
    CA_KEY,
    CA_LIFE,
    CERTIFICATE,
    KEY,
    LIFE,
    SETTLED,
    ForeignCertificateError,
    changes,
    is_usable,
)

NAMES = ("placet.kube-system.svc", "127.0.0.1")
# Certificates have whole seconds, and real clients compare them with the real clock.
NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)


def made(now: datetime = NOW) -> Mapping[str, bytes]:
    return changes({}, NAMES, now)


def after(data: Mapping[str, bytes], now: datetime) -> Mapping[str, bytes]:
    return {**data, **changes(data, NAMES, now)}


def handshake(server: Mapping[str, bytes], trusted: bytes, folder: Path, name: str) -> str:
    """Why a client that checks strictly refuses the server; empty if it does not."""
    pair = folder / "tls.pem"
    pair.write_bytes(server[CERTIFICATE] + server[KEY])
    serves = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serves.load_cert_chain(pair)
    asks = ssl.create_default_context(cadata=trusted.decode())
    asks.verify_flags |= ssl.VERIFY_X509_STRICT
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asks.wrap_bio(down, up, server_hostname=name)
    served = serves.wrap_bio(up, down, server_side=True)
    for _ in range(4):
        for side in (client, served):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                return error.verify_message
    return ""


@pytest.mark.parametrize("name", NAMES)
def test_a_client_that_trusts_the_ca_accepts_the_server(tmp_path: Path, name: str) -> None:
    data = made()
    assert set(data) == {CA, CA_KEY, CERTIFICATE, KEY}
    assert handshake(data, data[CA], tmp_path, name) == ""


def test_a_client_refuses_another_name_and_another_ca(tmp_path: Path) -> None:
    data = made()
    assert "mismatch" in handshake(data, data[CA], tmp_path, "other.svc")
    assert "unable to get local issuer" in handshake(data, made()[CA], tmp_path, NAMES[0])


def test_nothing_is_due_before_two_thirds_of_a_life() -> None:
    data = made()
    assert changes(data, NAMES, NOW) == {}
    assert changes(data, NAMES, NOW + LIFE * 2 / 3 - DAY) == {}
    assert set(changes(data, NAMES, NOW + LIFE * 2 / 3)) == {CERTIFICATE, KEY}


def test_the_old_ca_stays_trusted_and_signs_until_the_next_renewal(tmp_path: Path) -> None:
    """At no time does a server show a certificate that a client of the last bundle refuses."""
    data, bundle, cas = made(), b"", set()
    for day in range(0, 1200, 5):
        now = NOW + day * DAY
        before, data = data, after(data, now)
        assert is_usable(data, NAMES, now)
        # Clients have the bundle from before this day.
        assert is_usable({**data, CA: before[CA]}, NAMES, now), f"day {day}"
        bundle = data[CA]
        found = x509.load_pem_x509_certificates(bundle)
        assert len(found) <= 2
        cas |= {each.serial_number for each in found}
    assert len(cas) == 5


def test_after_a_long_pause_all_is_new_at_once() -> None:
    data = made()
    late = after(data, NOW + 2 * CA_LIFE)
    assert all(late[key] != data[key] for key in data)
    assert len(x509.load_pem_x509_certificates(late[CA])) == 1


def test_a_ca_and_a_certificate_that_are_due_together_change_one_after_the_other() -> None:
    """Replicas were away for some months: clients learn of the new CA first."""
    authority = {key: value for key, value in made().items() if key in (CA, CA_KEY)}
    due = NOW + CA_LIFE * 2 / 3
    old = after(authority, due - LIFE * 2 / 3)
    first = changes(old, NAMES, due)
    assert set(first) == {CA, CA_KEY}
    assert changes({**old, **first}, NAMES, due + SETTLED / 2) == {}
    second = changes({**old, **first}, NAMES, due + SETTLED)
    assert set(second) == {CERTIFICATE, KEY}


@pytest.mark.parametrize("key", [CERTIFICATE, KEY, CA, CA_KEY])
def test_what_is_broken_is_made_anew(key: str) -> None:
    data = {**made(), key: b"broken"}
    repaired = after(data, NOW)
    assert not is_usable(data, NAMES, NOW) or key == CA_KEY
    assert is_usable(repaired, NAMES, NOW)
    assert changes(repaired, NAMES, NOW) == {}


def test_other_names_need_another_certificate() -> None:
    data = made()
    found = changes(data, ("other.svc",), NOW)
    assert set(found) == {CERTIFICATE, KEY}
    assert not is_usable(data, ("other.svc",), NOW)


def test_what_others_put_there_stays() -> None:
    leaf = trustme.CA().issue_cert("placet.kube-system.svc")
    data = {CERTIFICATE: leaf.cert_chain_pems[0].bytes(), KEY: leaf.private_key_pem.bytes()}
    with pytest.raises(ForeignCertificateError):
        changes(data, NAMES, NOW)
