"""`placet serve` with TLS: its flags, their mistakes, and the process that they make."""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from tests.cli.conftest import Placet
from tests.cli.test_serve import BARE, serving, until
from tests.support.books import section
from tests.support.certificates import Keyring, in_days
from tests.support.reviews import review

pytestmark = pytest.mark.process

PAIR = ("--tls-cert", "tls.crt", "--tls-key", "tls.key")
MUTUAL = (*PAIR, "--client-ca", "ca.crt")


@pytest.fixture
def keyring(folder: Path) -> Keyring:
    keyring = Keyring(folder)
    keyring.write()
    return keyring


def get(url: str, path: str, client: ssl.SSLContext) -> tuple[int, str]:
    return ask(url, "GET", path, client)


def ask(
    url: str, method: str, path: str, client: ssl.SSLContext, body: str | None = None
) -> tuple[int, str]:
    connection = http.client.HTTPSConnection(urlsplit(url).netloc, context=client, timeout=10)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_https_with_client_certificates_and_new_files(folder: Path, keyring: Keyring) -> None:
    """A certificate that ends soon, and then one that does not."""
    keyring.write_pair(in_days(3.5))
    names = ("--client-name", "system:kube-scheduler", "--client-name", "prometheus")
    leaf = keyring.client_ca.issue_cert(common_name="prometheus")
    client = keyring.client(leaf)
    with serving(folder, *BARE, *MUTUAL, *names) as server:
        log = server.err.read_text("utf-8")
        assert "TLS: certificate tls.crt expires in 3 days, on " in log
        status, ready = get(server.url, "/readyz", keyring.client())
        assert (status, ready.splitlines()[0]) == (200, "ok")
        assert "warn: certificate: `tls.crt` expires in 3 days" in ready
        assert get(server.url, "/metrics", keyring.client())[0] == 401
        assert get(server.url, "/api/v1/status", client)[0] == 404
        name = 'placet_tls_certificate_expiry_timestamp_seconds{file="tls.crt"}'
        assert name in get(server.url, "/metrics", client)[1]
        keyring.write_pair(in_days(90))
        said = "TLS: loaded certificate tls.crt"
        until(lambda: server.err.read_text("utf-8").count(said) == 2)
        assert get(server.url, "/readyz", keyring.client()) == (200, "ok")


KEPT = ("--tls-secret", "kube-system/placet-tls")
NAMED = (*KEPT, "--tls-name", "placet.kube-system.svc")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (KEPT, "--tls-secret has no effect without --tls-name"),
        ((*NAMED, *PAIR), "--tls-secret and --tls-cert each name a certificate"),
        ((*NAMED, "--no-cluster"), "--tls-secret has no effect with --no-cluster: "),
        (NAMED[2:], "--tls-name has no effect without --tls-secret"),
        (("--webhook-configuration", "a"), "--webhook-configuration has no effect without --tls-"),
        ((*NAMED, "--client-name", "a"), "--client-name has no effect without --client-ca"),
    ],
    ids=lambda case: " ".join(case) if isinstance(case, tuple) else "",
)
def test_mistakes_about_a_certificate_that_placet_makes(
    placet: Placet, arguments: tuple[str, ...], message: str
) -> None:
    done = placet("serve", *arguments)
    assert (done.code, done.out) == (2, "")
    error, hint = done.err.splitlines()[-2:]
    assert error.startswith(f"error: {message}")
    assert hint.startswith("  = help: ")


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        (
            "--tls-secret",
            "placet-tls",
            "`placet-tls` is not NAMESPACE/NAME, such as kube-system/placet",
        ),
        ("--tls-secret", "a/../b", "`../b` is not a valid name of an object"),
        ("--tls-name", "https://placet", "`https://placet` is not a DNS name or an IP address"),
        ("--webhook-configuration", "A", "`A` is not a valid name of an object"),
    ],
)
def test_values_that_are_not_valid(placet: Placet, flag: str, value: str, message: str) -> None:
    done = placet("serve", flag, value)
    assert done.code == 2
    assert message in done.err


def test_a_file_that_never_answers_ends_the_start(placet: Placet, folder: Path) -> None:
    """As on a mount whose server is gone; it was waited for in silence."""
    os.mkfifo(folder / "pipe")
    done = placet("serve", "--demo", "--tls-cert", "pipe", "--tls-key", "pipe")
    os.close(os.open(folder / "pipe", os.O_WRONLY | os.O_NONBLOCK))  # whoever reads it goes on
    assert done.code == 2
    assert "error: cannot read `pipe`: the file system does not answer" in done.err


def test_webhooks_have_a_port_of_their_own(folder: Path, keyring: Keyring) -> None:
    """Where nothing else is; the rest is plain HTTP, for a kube-scheduler beside it."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {}}
    pods = {"group": "", "version": "v1", "resource": "pods"}
    text = json.dumps(review(pod, "CREATE", resource=pods, namespace="shop"))
    with serving(folder, *BARE, *PAIR, "--webhook-listen", "127.0.0.1:0") as server:
        assert server.url.startswith("http://")
        (url,) = re.findall(r"webhooks on (https://\S+)", server.err.read_text("utf-8"))
        client = keyring.client()
        status, answer = ask(url, "POST", "/admission/pods", client, text)
        assert (status, json.loads(answer)["response"]["allowed"]) == (200, True)
        for path in ("/filter", "/api/scheduler/bind", "/metrics"):
            assert ask(url, "POST", path, client, "{}")[0] == 404


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--webhook-listen", ":0"), "--webhook-listen has no effect without a certificate"),
        (
            (*MUTUAL, "--webhook-listen", ":0"),
            "--client-ca has no effect with --webhook-listen",
        ),
        (PAIR[:2], "--tls-cert has no effect without --tls-key"),
        (PAIR[2:], "--tls-key has no effect without --tls-cert"),
        (MUTUAL[4:], "--client-ca has no effect without --tls-cert"),
        ((*PAIR, "--client-name", "a"), "--client-name has no effect without --client-ca"),
        (("--tls-cert", "tls.crt", "--tls-key", "no.key"), "cannot read `no.key`: no such file"),
        (("--tls-cert", "tls.key", "--tls-key", "tls.key"), "`tls.key` contains no certificate"),
        (("--tls-cert", "tls.crt", "--tls-key", "ca.crt"), "`ca.crt` contains no private key"),
        (
            ("--tls-cert", "ca.crt", "--tls-key", "tls.key"),
            "the key `tls.key` does not belong to the certificate `ca.crt`",
        ),
        ((*PAIR, "--client-ca", "tls.key"), "`tls.key` contains no certificate"),
    ],
    ids=lambda case: " ".join(case) if isinstance(case, tuple) else "",
)
def test_mistakes_are_one_line_and_a_hint(
    placet: Placet, keyring: Keyring, arguments: tuple[str, ...], message: str
) -> None:
    done = placet("serve", "--demo", *arguments)
    assert (done.code, done.out) == (2, "")
    error, hint = done.err.splitlines()[-2:]
    assert error.startswith(f"error: {message}")
    assert hint.startswith("  = help: ")


def test_the_example_of_kube_scheduler_s_side_adds_what_the_page_says(placet: Placet) -> None:
    example = r"```sh\nplacet (scheduler-config .*?)```\n\nIt adds `enableHTTPS: true`"
    (command,) = re.findall(example, section("operations", "TLS"), re.DOTALL)
    done = placet(*shlex.split(command.replace("\\\n", "")))
    assert done.code == 0
    (entry,) = yaml.safe_load(done.out)["extenders"]
    assert entry["enableHTTPS"] is True
    assert entry["tlsConfig"] == {
        "caFile": "/etc/kubernetes/placet/ca.crt",
        "certFile": "/etc/kubernetes/placet/client.crt",
        "keyFile": "/etc/kubernetes/placet/client.key",
    }
