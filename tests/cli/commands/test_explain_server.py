"""`placet explain --server`: what a running server tells of its last decisions."""

import contextlib
import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import shop
from tests.cli.conftest import Placet
from tests.cli.test_serve import post, serving
from tests.support.builders import Object, pod
from tests.support.certificates import Keyring

NAMES = ["n-4", "n-3", "n-2", "n-1"]
_TIME = re.compile(r"20\d\d-\S+Z")


@pytest.fixture(autouse=True)
def files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "96")
    shop.write(folder)
    text = re.sub(r"(?m)^  limit .*\n", "", shop.POLICY)
    (folder / "shop.policy").write_text(text, encoding="utf-8")


def question(name: str, namespace: str, names: list[str], labels: dict[str, str]) -> Object:
    asked = pod(name, namespace, cpu="1", memory="1Gi", labels=labels)
    return {"Pod": asked, "NodeNames": names}


def test_a_decision_is_told_as_the_server_came_to_it(placet: Placet, folder: Path) -> None:
    web = question("web-1", "shop", NAMES, {"tier": "web", "guarded": "yes"})
    with serving(folder, *shop.WORLD) as server:

        def told(*arguments: str) -> tuple[int, str, str]:
            done = placet("explain", *arguments, "--server", server.url)
            out, err = (_TIME.sub("T", text) for text in (done.out, done.err))
            return done.code, out, err.replace(server.url, "URL")

        assert told() == (0, "there are no decisions yet\n", "")
        server.ask(web)
        assert told("shop/web-1", "n-1")[1].endswith("node n-1 passes\nnot scored\n")
        post(f"{server.url}/prioritize", json.dumps(web | {"NodeNames": ["n-1", "n-4"]}))
        server.ask(question("web-1", "far", ["n-1", "n-2"], {}))
        server.ask(question("tool", "else", ["n-1"], {}))
        assert told() == (0, LISTING, "")
        head, _ = DECISION.split("\n\nnodes", 1)
        assert told("shop/web-1") == (0, DECISION, "")
        assert told("shop/web-1", "n-3") == (
            0,
            f"{head}\n\nnode n-3 fails by shop/shop: zone\n",
            "",
        )
        assert told("shop/web-1", "n-1")[1].endswith("node n-1 passes\nscore 4 of 10\n")
        assert told("tool")[1].endswith("1 of 1 node passes\n")
        assert told("web-1") == (2, "", SEVERAL)
        assert told("shop/web-1", "n-9")[2] == NOT_OFFERED
        assert told("shop/web-9") == (2, "", UNKNOWN)
        assert told("web-9")[2] == UNKNOWN.replace("shop/web-9", "web-9")
        (folder / "shop.policy").write_text("", encoding="utf-8")
        while "the policies have changed since then" not in told("shop/web-1")[1]:
            pass


LISTING = """\
pod         asked at              pass  of  governed by
else/tool   T     1   1  fallback
far/web-1   T     2   2  far/far
shop/web-1  T     2   4  shop/shop
"""
DECISION = """\
pod shop/web-1, asked about at T

policy        applies
guards        as a guardrail
shop/shop     governs
fallback      no: `shop/shop` governs
shop/lenient  in audit

nodes  verdict  why                                      which
    2  pass     score 4                                  n-1, n-4
    1  fail     shop/shop: headroom: needs 1Gi to spare  n-2
    1  fail     shop/shop: zone                          n-3

2 of 4 nodes pass
"""
SEVERAL = """\
error: several pods are called `web-1`: `far/web-1`, `shop/web-1`
  = help: give the namespace too, as in `far/web-1`
"""
NOT_OFFERED = """\
error: kube-scheduler did not send node `n-9` as a candidate
  = help: it sends only nodes that pass its own filters
"""
UNKNOWN = """\
error: the server has no decision about `shop/web-9`
  = help: list the recorded decisions with: placet explain --server URL
"""


def test_a_server_with_tls_wants_its_ca_and_a_certificate(placet: Placet, folder: Path) -> None:
    keyring = Keyring(folder)
    keyring.write()
    (folder / "server-ca.crt").write_bytes(keyring.server_ca.cert_pem.bytes())
    leaf = keyring.client_ca.issue_cert(common_name="admin")
    (folder / "me.key").write_bytes(leaf.private_key_pem.bytes())
    (folder / "me.crt").write_bytes(b"".join(blob.bytes() for blob in leaf.cert_chain_pems))
    tls = ("--tls-cert", "tls.crt", "--tls-key", "tls.key", "--client-ca", "ca.crt")
    me = ("--client-cert", "me.crt", "--client-key", "me.key")
    with serving(folder, "--demo", *tls) as server:

        def told(*arguments: str, url: str = server.url) -> str:
            done = placet("explain", "--server", url, *arguments)
            return (done.out + done.err.partition("\n")[0]).replace(server.url, "URL").rstrip()

        nobody_asked = "there are no decisions yet"
        assert told("--ca-file", "server-ca.crt", *me) == nobody_asked
        url = f"{server.url}/api/scheduler/"
        assert told("--ca-file", "server-ca.crt", *me, url=url) == nobody_asked
        wanted = "error: `URL` requires another client certificate"
        assert told("--ca-file", "server-ca.crt") == wanted
        assert told().startswith("error: `URL` is not trusted: ")
        assert told(url=server.url.replace("https", "http")).startswith(
            "error: cannot reach `http:"
        )
        assert told("--ca-file", "shop.policy").startswith("error: cannot use `shop.policy`: ")
        assert told("--ca-file", "none.crt").startswith("error: cannot use `none.crt`: ")
        assert told("--client-cert", "me.key").startswith("error: cannot use `me.key`: ")
        assert told("--client-key", "me.key") == "error: there is a key without a certificate"


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Listen on loopback, and say this to whoever comes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    with client:
                        client.recv(65536)
                        client.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "`URL` has no decisions"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "`URL` answers 200, and not as Placet does",
        ),
        (
            b'HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{"decisions": 1}',
            "`URL` answers 200, and not as Placet does",
        ),
        (
            b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
            "`URL` answers 502, and not as Placet does",
        ),
        (b"SSH-2.0-OpenSSH\r\n", "cannot reach `URL`: it does not speak HTTP"),
        (b"", "cannot reach `URL`: remote end closed connection without response"),
    ],
    ids=["not-found", "text", "other-json", "gateway", "no-http", "nothing"],
)
def test_what_is_no_placet_is_a_clear_error(placet: Placet, answer: bytes, message: str) -> None:
    with answering(answer) as url:
        done = placet("explain", "--server", url)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[0].replace(url, "URL") == f"error: {message}"
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--server nowhere", "`nowhere` is not a URL of a server"),
        ("--server ftp://host", "`ftp://host` is not a URL of a server"),
        ("--server http://host:99999", "`http://host:99999` is not a URL of a server"),
        ("--server http://", "`http://` is not a URL of a server"),
        ("--server http://[::1", "`http://[::1` is not a URL of a server"),
        ("--server http://127.0.0.1:1", "cannot reach `http://127.0.0.1:1`: connection refused"),
        (
            "--server http://h --ca-file a.crt",
            "--ca-file works only with a URL that begins with https",
        ),
        ("--server http://h --cluster c.json", "--server does not work with --cluster"),
        ("--server http://h --pod-file p.yaml", "--server does not work with --pod-file"),
        ("web-1 --policies shop.policy", "there is no cluster"),
        ("--server http://h --context c", "--server does not work with --context"),
        ("web-1 --cluster cluster.json", "there are no policies"),
        (
            "web-1 --cluster cluster.json --policies shop.policy --ca-file a",
            "--ca-file works only with a server",
        ),
    ],
)
def test_wrong_flags_are_clear_errors(placet: Placet, arguments: str, message: str) -> None:
    done = placet("explain", *arguments.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[0] == f"error: {message}"
