"""TLS files: which can be used, how changes are loaded, and the expiry of a certificate."""

from __future__ import annotations

import logging
import os
import ssl
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from prometheus_client import CollectorRegistry
from trustme import CA

from server.http.health import ReadinessCheck
from server.http.tls import (
    RETRY_SECONDS,
    Credentials,
    TlsError,
    expiry_warning,
    load,
)
from server.metrics.metrics import Metrics
from server.settings import TlsFiles
from tests.support.certificates import LONG_AGO, Keyring, in_days, put
from tests.support.fake_clock import HandClock
from tests.support.served import LOG

DAY = 86_400.0


@dataclass
class Loaded:
    """Credentials of a keyring, with their clock and their registry."""

    keyring: Keyring
    clock: HandClock
    registry: CollectorRegistry
    credentials: Credentials

    def look(self) -> None:
        """Looks twice: a change is loaded when a second look finds it unchanged."""
        self.credentials.look()
        self.credentials.look()

    @property
    def expiry(self) -> float | None:
        name = "placet_tls_certificate_expiry_timestamp_seconds"
        file = str(self.keyring.files.certificate)
        return self.registry.get_sample_value(name, {"file": file})


def credentials_of(keyring: Keyring) -> Loaded:
    clock, registry = HandClock(in_days(0).timestamp()), CollectorRegistry()
    credentials = Credentials(keyring.mutual(), Metrics(registry, "1.2.3"), LOG, clock)
    return Loaded(keyring, clock, registry, credentials)


def messages(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


def test_a_client_ca_makes_client_certificates_optional(keyring: Keyring) -> None:
    plain, mutual = load(keyring.files).context, load(keyring.mutual()).context
    assert plain.verify_mode == ssl.CERT_NONE
    assert mutual.verify_mode == ssl.CERT_OPTIONAL
    assert plain.minimum_version == mutual.minimum_version == ssl.TLSVersion.TLSv1_2


def encrypted(key: bytes) -> bytes:
    form = (Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    return load_pem_private_key(key, None).private_bytes(*form)


def test_an_unusable_file_is_one_sentence(keyring: Keyring, tmp_path: Path) -> None:
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


def test_a_new_pair_is_loaded(keyring: Keyring, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    found = credentials_of(keyring)
    first = found.credentials.loaded
    found.look()
    assert found.credentials.loaded is first
    end = in_days(90).replace(microsecond=0)
    keyring.write_pair(end)
    found.look()
    assert found.credentials.loaded is not first
    assert found.expiry == end.timestamp()
    assert messages(caplog, logging.INFO)[-1].endswith(
        f"tls.crt, valid until {end:%Y-%m-%dT%H:%M:%SZ}"
    )


def test_files_of_a_volume_change_by_a_symbolic_link(tmp_path: Path) -> None:
    """A mounted Secret: the files are links through `..data`, which is replaced."""
    for name in ("1", "2"):
        (tmp_path / name).mkdir()
        Keyring(tmp_path / name).write()
    (tmp_path / "..data").symlink_to("1")
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    found = credentials_of(Keyring(tmp_path))
    first = found.credentials.loaded
    (tmp_path / "..new").symlink_to("2")
    (tmp_path / "..new").replace(tmp_path / "..data")
    found.look()
    assert found.credentials.loaded is not first


def test_a_corrupt_pair_keeps_the_previous_one_and_is_logged_once(
    keyring: Keyring, caplog: pytest.LogCaptureFixture
) -> None:
    found = credentials_of(keyring)
    first = found.credentials.loaded
    key = keyring.files.key
    for content in (b"hello", b"hello again"):
        put(key, content)
        for _ in range(3):
            found.look()
            found.clock.seconds += RETRY_SECONDS
    assert found.credentials.loaded is first
    sentence = f"TLS: `{key}` contains no private key; the previous certificates stay in use"
    assert messages(caplog) == [sentence, sentence]
    keyring.write()
    found.look()
    assert found.credentials.loaded is not first


def test_certificate_and_key_may_change_one_after_the_other(keyring: Keyring) -> None:
    found = credentials_of(keyring)
    first = found.credentials.loaded
    old_key = keyring.files.key.read_bytes()
    keyring.write_pair()
    new_key = keyring.files.key.read_bytes()
    put(keyring.files.key, old_key)
    found.look()
    assert found.credentials.loaded is first
    put(keyring.files.key, new_key)
    found.look()
    assert found.credentials.loaded is not first


def test_an_unusable_file_is_tried_again(keyring: Keyring) -> None:
    """A fix may leave the file unchanged: new permissions, or free file descriptors."""
    found = credentials_of(keyring)
    first = found.credentials.loaded
    key = keyring.files.key
    good = key.read_bytes()
    put(key, b"?" * len(good))
    found.look()
    before = key.stat()
    with key.open("r+b") as file:
        file.write(good)
    os.utime(key, ns=(before.st_atime_ns, before.st_mtime_ns))
    found.look()
    assert found.credentials.loaded is first
    found.clock.seconds += RETRY_SECONDS
    found.look()
    assert found.credentials.loaded is not first


REFUSED = "clients refuse it until the file has another one"


def test_a_coming_expiry_is_logged_once_a_day(
    keyring: Keyring, caplog: pytest.LogCaptureFixture
) -> None:
    end = in_days(8.5).replace(microsecond=0)
    keyring.write_pair(end)
    found = credentials_of(keyring)
    for _ in range(9 * 24 + 6):
        found.clock.seconds += DAY / 24
        found.look()
    days = ["in 6 days", "in 5 days", "in 4 days", "in 3 days", "in 2 days", "in 1 day"]
    when = f"{end:%Y-%m-%dT%H:%M:%SZ}"
    assert messages(caplog) == [
        *(
            f"TLS: certificate {keyring.files.certificate} expires {left}, on {when}"
            for left in (*days, "in less than a day")
        ),
        f"TLS: certificate {keyring.files.certificate} expired on {when}: {REFUSED}",
    ]


def test_an_expired_certificate_is_used_and_logged_as_an_error(
    keyring: Keyring, caplog: pytest.LogCaptureFixture
) -> None:
    """Without it no client would be served; and the clock may be wrong."""
    keyring.write_pair(LONG_AGO)
    assert credentials_of(keyring).expiry == LONG_AGO.timestamp()
    (message,) = messages(caplog, logging.ERROR)
    assert message.endswith(f"tls.crt expired on 2020-01-01T00:00:00Z: {REFUSED}")
    assert not [line for line in caplog.messages if "loaded certificate" in line]


def test_readyz_tells_of_a_certificate_before_and_after_its_end(keyring: Keyring) -> None:
    """And of files that cannot be used, while the previous ones are."""
    keyring.write_pair(in_days(8.5))
    found = credentials_of(keyring)
    file = keyring.files.certificate
    assert [*found.credentials.checks()] == [ReadinessCheck("certificate", is_warning=True)]
    found.clock.seconds += 2 * DAY
    assert found.credentials.checks()[0].failure.startswith(f"`{file}` expires in 6 days, on ")
    assert found.credentials.in_use.warning.startswith("expires in 6 days")
    found.clock.seconds += 7 * DAY
    assert found.credentials.checks()[0].failure.endswith(f": {REFUSED}")
    file.write_text("nothing")
    found.look()
    assert found.credentials.checks()[0].failure.endswith(f"; `{file}` contains no certificate")
    assert found.credentials.checks()[0].is_warning


def test_an_expired_certificate_does_not_replace_a_valid_one(
    keyring: Keyring, caplog: pytest.LogCaptureFixture
) -> None:
    """It was in force first, and an error then."""
    found = credentials_of(keyring)
    first = found.credentials.loaded
    caplog.clear()
    keyring.write_pair(LONG_AGO)
    for _ in range(3):
        found.look()
    assert found.credentials.loaded is first
    (message,) = messages(caplog, logging.ERROR)
    assert message.endswith(
        "tls.crt` expired on 2020-01-01T00:00:00Z; the previous certificates stay in use"
    )
    keyring.write_pair()
    found.look()
    found.look()
    assert found.credentials.loaded is not first


def test_there_is_no_warning_long_before_the_expiry() -> None:
    assert expiry_warning(7 * DAY + 1, 0) == ""


# ---- the expiry


@pytest.mark.parametrize("year", [2020, 2050, 9999])
def test_the_expiry_is_that_of_the_first_certificate(tmp_path: Path, year: int) -> None:
    """A file may also contain keys and text; in a chain, the first certificate is the server's."""
    end, authority = datetime(year, 1, 1, tzinfo=UTC), CA()
    leaf = authority.issue_cert("a.example", not_after=end)
    key, chain = leaf.private_key_pem.bytes(), authority.cert_pem.bytes()
    file = tmp_path / "tls.pem"
    file.write_bytes(key + "Aussteller: Ü\n".encode() + leaf.cert_chain_pems[0].bytes() + chain)
    assert load(TlsFiles(file, file)).expires == end.timestamp()
