"""The configuration: where the API server is found, and changes of identity."""

from __future__ import annotations

import asyncio
import errno
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from engine.cluster import connection_configuration
from engine.cluster.client import connect
from engine.cluster.connection_configuration import Context, chosen_context
from engine.errors import ApiError, ApiUnreachableError, ClusterConfigurationError
from tests.support.fake_api_server import FakeApiServer, fake_api_server
from tests.support.kubeconfig import kubeconfig

PODS = "/api/v1/pods"
WATCH = [("watch", "1"), ("resourceVersion", "100")]


@pytest.fixture
async def secure(tmp_path: Path) -> AsyncIterator[tuple[FakeApiServer, str]]:
    """A server with TLS, to which tokens are sent, and the file by which it proves itself."""
    made = trustme.CA()
    made.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    async with fake_api_server(_tls(made)) as running:
        yield running, str(tmp_path / "ca.pem")


async def test_a_rotated_token_is_read_after_a_refusal(
    secure: tuple[FakeApiServer, str], tmp_path: Path
) -> None:
    server, authority = secure
    token = tmp_path / "token"
    token.write_text("old\n")
    server.authorization = "Bearer old"
    server.put(PODS, "a")
    file = kubeconfig(tmp_path / "k", server.url, {"tokenFile": str(token)}, authority=authority)
    async with connect(file, None, version="1") as client:
        await client.request("GET", PODS)
        token.write_text("new\n")
        server.authorization = "Bearer new"
        await asyncio.gather(*(client.request("GET", PODS) for _ in range(3)))
        async with client.stream(PODS, WATCH, 5.0) as lines:
            await anext(lines)
        server.authorization = "Bearer unknown"
        asked = len(server.requests)
        with pytest.raises(ApiError, match="401"):
            await client.request("GET", PODS)
        assert len(server.requests) == asked + 2  # one retry, not more


async def test_an_exec_plugin_runs_again_after_a_refusal(
    secure: tuple[FakeApiServer, str], tmp_path: Path
) -> None:
    server, authority = secure
    told = tmp_path / "token"
    version = "client.authentication.k8s.io/v1"

    def tell(token: str) -> None:
        found = {"kind": "ExecCredential", "apiVersion": version, "status": {"token": token}}
        told.write_text(json.dumps(found), encoding="utf-8")

    tell("first")
    command = {"apiVersion": version, "command": "cat", "args": [str(told)]}
    server.authorization = "Bearer first"
    server.put(PODS, "a")
    file = kubeconfig(tmp_path / "k", server.url, {"exec": command}, authority=authority)
    async with connect(file, None, version="1") as client:
        await client.request("GET", PODS)
        tell("second")
        server.authorization = "Bearer second"
        await client.request("GET", PODS)
        told.unlink()
        server.authorization = "Bearer third"
        with pytest.raises(ApiUnreachableError, match="cannot be used: exec: process returned 1"):
            await client.request("GET", PODS)


async def test_in_a_pod_the_service_account_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its token is renewed after a refusal, and so is the authority that the server proves by."""
    authority = trustme.CA()
    (tmp_path / "token").write_text("in-pod\n")
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.crt"))  # not the server's
    async with fake_api_server(_tls(authority)) as server:
        server.put(PODS, "a")
        server.authorization = "Bearer in-pod"
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", server.url.rpartition(":")[2])
        async with connect(None, None, version="1", service_account=tmp_path) as client:
            with pytest.raises(ApiUnreachableError, match="is not trusted"):
                await client.request("GET", PODS)
            authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
            await client.request("GET", PODS)
            (tmp_path / "token").write_text("rotated\n")
            server.authorization = "Bearer rotated"
            await client.request("GET", PODS)


def _tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


async def test_kubeconfigs_are_found_in_their_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ClusterConfigurationError, match=r"no kubeconfig `~/\.kube/config`"):
        await _host(None)
    kubeconfig(tmp_path / "home/.kube/config", "http://home", {})
    assert await _host(None) == "http://home"
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "env", "http://env", {})))
    assert await _host(None) == "http://env"
    assert await _host(kubeconfig(tmp_path / "given", "http://given", {})) == "http://given"
    with pytest.raises(ClusterConfigurationError, match="there is no context `other` in"):
        await _host(tmp_path / "given", "other")
    (tmp_path / "bad").write_text("- no kubeconfig")
    with pytest.raises(ClusterConfigurationError, match="bad` cannot be used: "):
        await _host(tmp_path / "bad")


async def _host(file: Path | None, context: str | None = None) -> str:
    async with connect(file, context, version="1") as client:
        return client.host


def test_of_several_kubeconfigs_the_first_one_that_says_something_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    kubeconfig(first, "https://one", {"token": "x"}, name="one", namespace="shop")
    kubeconfig(second, "https://two", {"token": "x"}, name="two")
    (tmp_path / "empty").write_text("")
    files = [tmp_path / "absent", tmp_path / "empty", first, second]
    monkeypatch.setenv("KUBECONFIG", ":".join(map(str, files)))
    assert chosen_context(None, None) == Context("one", "shop")
    assert chosen_context(None, "two") == Context("two", "default")


async def test_the_client_takes_the_first_current_context(
    server: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = {"token": "static"}
    kubeconfig(tmp_path / "a", server.url, user, name="one")
    kubeconfig(tmp_path / "b", "https://127.0.0.1:1", user, name="two")
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'a'}:{tmp_path / 'b'}")
    async with connect(None, None, version="1") as client:
        assert client.host == server.url


@pytest.mark.parametrize(
    ("context", "error"),
    [("nowhere", "there is no context `nowhere`"), (None, "has no current context")],
)
def test_a_context_that_is_not_there_is_an_error(
    tmp_path: Path, context: str | None, error: str
) -> None:
    (tmp_path / "k").write_text("contexts: []\n")
    with pytest.raises(ClusterConfigurationError, match=error):
        chosen_context(tmp_path / "k", context)


CONTEXT = "current-context: c\ncontexts: [{name: c, context: {cluster: d, user: u}}]\n"


def written(server: str = "server: 'https://a'", user: str = "token: t", name: str = "u") -> str:
    """A kubeconfig with one of each."""
    clusters = f"clusters: [{{name: d, cluster: {{{server}}}}}]\n"
    return f"{CONTEXT}{clusters}users: [{{name: {name}, user: {{{user}}}}}]\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "cannot be used: it is empty or no map"),
        ("42", "cannot be used: it is empty or no map"),
        ("[a]", "cannot be used: it is empty or no map"),
        ("users: 3\ncurrent-context: c", "there is no context `c` in "),
        ("users: 3", "has no current context"),
        ("contexts: [{name: c, context: 5}]\ncurrent-context: c", "there is no context `c` in "),
        (written(name="x"), "has no user `u`"),
        (written("insecure-skip-tls-verify: true"), "cannot be used: it names no `server`"),
        (written("server: 127.0.0.1:6443"), "`127.0.0.1:6443` is not the URL of a server"),
        (written("server: 'ftp://a'"), "`ftp://a` is not the URL of a server"),
        (written("server: 'http://a:99999'"), "`http://a:99999` is not the URL of a server"),
        (written("server: 5"), "a part of it is not what a kubeconfig has there"),
        (written(user="tokenFile: /no/token"), "`/no/token`: no such file or directory"),
        (written(user="tokenFile: /dev/zero"), "`/dev/zero`: it is not a regular file"),
        (
            written(user="exec: {apiVersion: client.authentication.k8s.io/v1, command: no-plugin}"),
            "cannot be used: `no-plugin`: no such file or directory",
        ),
        (
            written(user="client-certificate-data: hi, client-key-data: ho"),
            "cannot be used: a part of it is not base64",
        ),
        (
            written(user="client-certificate-data: aGk=, client-key-data: aGk="),
            "the certificates cannot be used: they are not in PEM form",
        ),
        ("a:\n\tb: 1", r"cannot be used: it is neither YAML nor JSON: .* in line 2, such as a tab"),
    ],
)
async def test_a_file_that_is_no_kubeconfig_is_told_in_plain_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, error: str
) -> None:
    """Once: what the library logs is not on standard error beside it."""
    (tmp_path / "k").write_text(text)
    with pytest.raises(ClusterConfigurationError, match=error):
        async with connect(tmp_path / "k", None, version="1"):
            pass
    assert not caplog.records


def test_a_kubeconfig_that_may_not_be_read_is_a_matter_of_rights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who runs this test may be allowed to read everything."""

    def refused(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    (tmp_path / "k").touch()
    monkeypatch.setattr(connection_configuration, "contents", refused)
    with pytest.raises(ClusterConfigurationError, match="k` cannot be used: permission") as told:
        chosen_context(tmp_path / "k", None)
    assert told.value.hint == "check its permissions"


def test_a_folder_is_no_kubeconfig(tmp_path: Path) -> None:
    with pytest.raises(ClusterConfigurationError, match="is not a regular file"):
        chosen_context(tmp_path, None)


def test_a_path_that_cannot_be_looked_at_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ClusterConfigurationError, match="cannot be used: file name too long"):
        chosen_context(tmp_path / ("a" * 300), None)


async def test_the_name_of_a_server_that_nobody_knows(tmp_path: Path) -> None:
    file = kubeconfig(tmp_path / "k", "http://nowhere.invalid:6443", {"token": "x"})
    async with connect(file, None, version="1") as client:
        with pytest.raises(ApiUnreachableError) as told:
            await client.request("GET", "/api")
    assert "unknown error" not in str(told.value)
    assert "`http://nowhere.invalid:6443` cannot be reached: " in str(told.value)
