"""Credentials: what can be used, what cannot and why, and what is said about it."""

from __future__ import annotations

import logging
import os
import ssl
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from prometheus_client import CollectorRegistry

from server.metrics import Metrics
from server.tls import RETRY_SECONDS, Credentials, TlsError, expiry_warning, load
from tests.support.certificates import LONG_AGO, Keyring, in_days, put

LOG = logging.getLogger("placet")
DAY = 86_400.0


@pytest.fixture
def keyring(tmp_path: Path) -> Keyring:
    keyring = Keyring(tmp_path)
    keyring.write()
    return keyring


@dataclass
class Clock:
    seconds: float

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Kept:
    """Credentials of a keyring, with the clock and the registry that they got."""

    keyring: Keyring
    clock: Clock
    registry: CollectorRegistry
    credentials: Credentials

    def look(self) -> None:
        """A change counts at the second look that sees it."""
        self.credentials.look()
        self.credentials.look()

    @property
    def expiry(self) -> float | None:
        name = "placet_tls_certificate_expiry_timestamp_seconds"
        file = str(self.keyring.files.certificate)
        return self.registry.get_sample_value(name, {"file": file})


def keep(keyring: Keyring) -> Kept:
    clock, registry = Clock(in_days(0).timestamp()), CollectorRegistry()
    made = Credentials(keyring.mutual(), Metrics(registry, "1.2.3"), LOG, clock)
    return Kept(keyring, clock, registry, made)


def messages(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


def test_clients_need_no_certificate_unless_there_is_a_ca(keyring: Keyring) -> None:
    plain, mutual = load(keyring.files).context, load(keyring.mutual()).context
    assert plain.verify_mode == ssl.CERT_NONE
    assert mutual.verify_mode == ssl.CERT_OPTIONAL
    assert plain.minimum_version == mutual.minimum_version == ssl.TLSVersion.TLSv1_2


def encrypted(key: bytes) -> bytes:
    form = (Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    return load_pem_private_key(key, None).private_bytes(*form)


def test_what_cannot_be_used_is_one_sentence(keyring: Keyring, tmp_path: Path) -> None:
    files = keyring.mutual()
    certificate, key = files.certificate, files.key
    other = tmp_path / "other"
    put(other, keyring.client_ca.issue_cert("a.example").private_key_pem.bytes())
    locked = tmp_path / "locked"
    put(locked, encrypted(key.read_bytes()))
    half = tmp_path / "half"
    put(half, certificate.read_bytes()[:200])
    bent = tmp_path / "bent"
    put(bent, key.read_bytes().replace(b"M", b"N", 1))
    missing = tmp_path / "missing"
    cases = {
        replace(files, certificate=missing): f"cannot read `{missing}`: no such file or directory",
        replace(files, key=missing): f"cannot read `{missing}`: no such file or directory",
        replace(files, client_ca=missing): f"cannot read `{missing}`: no such file or directory",
        replace(files, key=tmp_path): f"cannot read `{tmp_path}`: is a directory",
        replace(files, certificate=key): f"`{key}` contains no certificate",
        replace(files, certificate=half): f"`{half}` contains no certificate",
        replace(files, key=certificate): f"`{certificate}` contains no private key",
        replace(files, client_ca=key): f"`{key}` contains no certificate",
        replace(files, key=other): f"the key `{other}` does not belong to the certificate "
        f"`{certificate}`",
        replace(files, key=locked): f"the key `{locked}` is encrypted",
    }
    for wrong, sentence in cases.items():
        with pytest.raises(TlsError) as caught:
            load(wrong)
        assert str(caught.value) == sentence
    with pytest.raises(TlsError, match=f"cannot use `{certificate}` and `{bent}`: "):
        load(replace(files, key=bent))
    corrupt = tmp_path / "corrupt"
    put(corrupt, b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
    with pytest.raises(TlsError, match=f"cannot use `{corrupt}` as a CA: "):
        load(replace(files, client_ca=corrupt))


def test_a_new_pair_is_taken_up(keyring: Keyring, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    kept = keep(keyring)
    first = kept.credentials.loaded
    kept.look()
    assert kept.credentials.loaded is first
    end = in_days(90).replace(microsecond=0)
    keyring.write_pair(end)
    kept.look()
    assert kept.credentials.loaded is not first
    assert kept.expiry == end.timestamp()
    assert messages(caplog, logging.INFO)[-1].endswith(
        f"tls.crt, valid until {end:%Y-%m-%dT%H:%M:%SZ}"
    )


def test_files_of_a_volume_change_by_a_link_above_them(tmp_path: Path) -> None:
    """As a Secret is mounted: the files are links through `..data`, which is switched."""
    for name in ("1", "2"):
        (tmp_path / name).mkdir()
        Keyring(tmp_path / name).write()
    (tmp_path / "..data").symlink_to("1")
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    kept = keep(Keyring(tmp_path))
    first = kept.credentials.loaded
    (tmp_path / "..new").symlink_to("2")
    (tmp_path / "..new").replace(tmp_path / "..data")
    kept.look()
    assert kept.credentials.loaded is not first


def test_a_corrupt_pair_keeps_the_last_and_is_told_once(
    keyring: Keyring, caplog: pytest.LogCaptureFixture
) -> None:
    kept = keep(keyring)
    first = kept.credentials.loaded
    key = keyring.files.key
    for content in (b"hello", b"hello again"):
        put(key, content)
        for _ in range(3):
            kept.look()
            kept.clock.seconds += RETRY_SECONDS
    assert kept.credentials.loaded is first
    sentence = f"TLS: `{key}` contains no private key; the previous certificates stay in use"
    assert messages(caplog) == [sentence, sentence]
    keyring.write()
    kept.look()
    assert kept.credentials.loaded is not first


def test_the_halves_of_a_pair_may_come_one_after_the_other(keyring: Keyring) -> None:
    kept = keep(keyring)
    first = kept.credentials.loaded
    old_key = keyring.files.key.read_bytes()
    keyring.write_pair()
    new_key = keyring.files.key.read_bytes()
    put(keyring.files.key, old_key)
    kept.look()
    assert kept.credentials.loaded is first
    put(keyring.files.key, new_key)
    kept.look()
    assert kept.credentials.loaded is not first


def test_what_could_not_be_used_is_tried_again(keyring: Keyring) -> None:
    """Not every remedy shows on the file: permissions, or free file descriptors, do not."""
    kept = keep(keyring)
    first = kept.credentials.loaded
    key = keyring.files.key
    good = key.read_bytes()
    put(key, b"?" * len(good))
    kept.look()
    before = key.stat()
    with key.open("r+b") as file:
        file.write(good)
    os.utime(key, ns=(before.st_atime_ns, before.st_mtime_ns))
    kept.look()
    assert kept.credentials.loaded is first
    kept.clock.seconds += RETRY_SECONDS
    kept.look()
    assert kept.credentials.loaded is not first


def test_the_end_of_a_certificate_is_announced_once_a_day(
    keyring: Keyring, caplog: pytest.LogCaptureFixture
) -> None:
    end = in_days(8.5).replace(microsecond=0)
    keyring.write_pair(end)
    kept = keep(keyring)
    for _ in range(9 * 24 + 6):
        kept.clock.seconds += DAY / 24
        kept.look()
    days = ["in 6 days", "in 5 days", "in 4 days", "in 3 days", "in 2 days", "in 1 day"]
    when = f"{end:%Y-%m-%dT%H:%M:%SZ}"
    assert messages(caplog) == [
        *(
            f"TLS: certificate {keyring.files.certificate} expires {left}, on {when}"
            for left in (*days, "in less than a day")
        ),
        f"TLS: certificate {keyring.files.certificate} expired on {when}",
    ]


def test_an_expired_certificate_is_served_and_is_an_error(
    keyring: Keyring, caplog: pytest.LogCaptureFixture
) -> None:
    """Without it nobody would be served; and the clock may be what is wrong."""
    keyring.write_pair(LONG_AGO)
    assert keep(keyring).expiry == LONG_AGO.timestamp()
    (message,) = messages(caplog, logging.ERROR)
    assert message.endswith("tls.crt expired on 2020-01-01T00:00:00Z")


def test_long_before_its_end_there_is_nothing_to_say() -> None:
    assert expiry_warning(7 * DAY + 1, 0) == ""
