"""Fields of kubeconfigs, each with the headers that kubectl sends for it, or how it is refused.

The same rows are held against Placet in `tests/engine/cluster`, and against kubectl in `tests/e2e`.
"""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trustme
import yaml

_V1 = "client.authentication.k8s.io/v1"
# Sends what the plugin was told of the cluster as its token.
_PLUGIN = """#!/bin/sh
token=$(printf '%s' "${KUBERNETES_EXEC_INFO:-none} $1 $GREETING" | tr -dc 'a-z0-9A-Z:/.' )
printf '{"kind":"ExecCredential","apiVersion":"%s","status":{"token":"%s"}}' "$VERSION" "$token"
"""


@dataclass(frozen=True)
class Fields:
    """Fields of a user or a cluster, and what an API server then gets: headers in lower case.

    `told` is a part of a plugin's token. `refused` is a part of Placet's error.
    """

    what: str
    user: dict[str, Any] = field(default_factory=dict)
    cluster: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    told: str = ""
    refused: str = ""
    tls: bool = True


def _plugin(**more: Any) -> dict[str, Any]:
    env = [{"name": "VERSION", "value": _V1}, {"name": "GREETING", "value": "hi"}]
    named = {"apiVersion": _V1, "command": "./plugin", "interactiveMode": "Never"}
    return {"exec": {**named, "env": env, **more}}


ROWS = (
    Fields("no user", tls=False),
    Fields("token", {"token": "t"}, headers={"authorization": "Bearer t"}),
    Fields("tokenFile", {"tokenFile": "token"}, headers={"authorization": "Bearer of-file"}),
    Fields(
        "tokenFile beside token",
        {"token": "t", "tokenFile": "token"},
        headers={"authorization": "Bearer of-file"},
    ),
    Fields(
        "tokenFile that is not there, beside token",
        {"token": "t", "tokenFile": "none"},
        headers={"authorization": "Bearer t"},
    ),
    Fields("username", {"username": "a", "password": "b"}, headers={"authorization": "Basic YTpi"}),
    Fields("exec", _plugin(args=["x"]), told="xhi"),
    Fields("token beside exec", {**_plugin(), "token": "t"}, headers={"authorization": "Bearer t"}),
    Fields(
        "provideClusterInfo",
        _plugin(provideClusterInfo=True),
        {"extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"a": "seen"}}]},
        told="config:a:seen",
    ),
    Fields(
        "as",
        {"token": "t", "as": "jane", "as-uid": "7", "as-groups": ["dev", "ops"]},
        headers={
            "authorization": "Bearer t",
            "impersonate-user": "jane",
            "impersonate-uid": "7",
            "impersonate-group": "dev, ops",
        },
    ),
    Fields(
        "as-user-extra",
        {"token": "t", "as": "jane", "as-user-extra": {"example.com/a%": ["1", "2"]}},
        headers={
            "authorization": "Bearer t",
            "impersonate-user": "jane",
            "impersonate-extra-example.com%2fa%25": "1, 2",
        },
    ),
    Fields("as-groups without as", {"as-groups": ["dev"]}, refused="whom it does not name"),
    Fields("as-uid without as", {"as-uid": "7"}, refused="whom it does not name"),
    Fields(
        "empty fields",
        {"token": "", "tokenFile": "token", "as": "", "client-certificate-data": ""},
        headers={"authorization": "Bearer of-file"},
    ),
    Fields(
        "disable-compression",
        {"token": "t"},
        {"disable-compression": True},
        headers={"authorization": "Bearer t"},
    ),
    Fields(
        "tls-server-name",
        {"token": "t"},
        {"tls-server-name": "localhost"},
        headers={"authorization": "Bearer t"},
    ),
    Fields("client-certificate", {"client-certificate": "own.pem", "client-key": "own.key"}),
    Fields(
        "a server without TLS gets no credentials",
        {"token": "t", "as": "jane", **_plugin()},
        headers={"impersonate-user": "jane"},
        tls=False,
    ),
    Fields("proxy-url of socks5", {}, {"proxy-url": "socks5://127.0.0.1:1"}, refused="socks5"),
    Fields("proxy-url of nothing", {}, {"proxy-url": "127.0.0.1:1"}, refused="127.0.0.1:1"),
)


def context(fields: Fields, folder: Path) -> ssl.SSLContext | None:
    """The context of a server; the folder gets the certificates that kubeconfigs name."""
    made = trustme.CA()
    made.cert_pem.write_to_path(str(folder / "ca.pem"))
    own = made.issue_cert("client@example.com")
    own.cert_chain_pems[0].write_to_path(str(folder / "own.pem"))
    own.private_key_pem.write_to_path(str(folder / "own.key"))
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.issue_cert("127.0.0.1", "localhost").configure_cert(found)
    return found if fields.tls else None


def written(fields: Fields, url: str, folder: Path) -> Path:
    """A kubeconfig with these fields, beside the files that they name by relative paths."""
    (folder / "token").write_text("of-file\n")
    (folder / "plugin").write_text(_PLUGIN)
    (folder / "plugin").chmod(0o755)
    chosen = {"cluster": "c", **({"user": "u"} if fields.user else {})}
    cluster = {"server": url, "certificate-authority": "ca.pem", **fields.cluster}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "contexts": [{"name": "x", "context": chosen}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": fields.user}],
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(json.loads(json.dumps(document))))
    return folder / "kubeconfig"


def wrong(fields: Fields, headers: list[tuple[str, str]]) -> str:
    """What differs between these headers of a request and the wanted ones; empty if nothing."""
    got: dict[str, str] = {}
    for name, value in headers:
        if name.lower() == "authorization" or name.lower().startswith("impersonate-"):
            got[name.lower()] = ", ".join(filter(None, (got.get(name.lower()), value)))
    if fields.told:
        return "" if fields.told in got.pop("authorization", "") and not got else f"{headers}"
    return "" if got == fields.headers else f"{got}"
