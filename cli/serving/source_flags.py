"""Sources of data as operators set them up: the flags of a server, and the rights that it needs.

Rights are exactly those for what policies declare: the kinds of objects, the ConfigMaps, and the
metrics of nodes.
"""

from __future__ import annotations

import argparse
import stat
from collections.abc import Iterable, Iterator
from functools import partial
from ssl import PROTOCOL_TLS_CLIENT, SSLContext
from typing import Any

from cli.command import CommandError, given_path, read_text, unreadable
from grammar.tree.data import FromConfigMap, FromMetrics, FromObjects, TableSource
from policies.disk import Disk, Visit
from server.http.tls import TlsError, load_authority
from server.runtime.data_tables import DataAccess


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags, in a group of their own."""
    data = parser.add_argument_group("data")
    data.add_argument(
        "--data-folder",
        metavar="FOLDER",
        type=given_path,
        help="the folder of the files that policies read by `data NAME { from file … }`",
    )
    data.add_argument(
        "--data-ca",
        metavar="FILE",
        type=given_path,
        help="the CA of the Prometheus servers that policies read (default: those of the system)",
    )
    data.add_argument(
        "--data-token",
        metavar="FILE",
        type=given_path,
        help="a file with a bearer token for these servers, which is sent over https only",
    )


def data_access(args: argparse.Namespace) -> DataAccess:
    """What the flags give to sources. Raises CommandError for what cannot be used."""
    access = DataAccess(args.data_folder, args.data_ca, args.data_token)
    Disk().run(partial(_check, access))
    return access


def _check(access: DataAccess, visit: Visit) -> None:
    for path in (access.files, access.ca, access.token):
        if path is None:
            continue
        try:
            visit(path)
            is_folder = stat.S_ISDIR(path.stat().st_mode)
        except OSError as error:
            raise unreadable(str(path), error, "check the path") from None
        if path is access.files and not is_folder:
            raise CommandError(f"`{path}` is not a folder", "name the folder of the files")
    if access.ca is not None:
        try:
            load_authority(SSLContext(PROTOCOL_TLS_CLIENT), access.ca)
        except TlsError as error:
            raise CommandError(str(error), "use a PEM file of certificates") from None
    if access.token is not None and not read_text(str(access.token), "check the path").strip():
        raise CommandError(f"`{access.token}` contains no token", "write the token into the file")


# ---- rights

_RBAC = "rbac.authorization.k8s.io"
_READ, _WATCH = ["get", "list"], ["list", "watch"]


def data_rights(
    sources: Iterable[TableSource], account: str, namespace: str
) -> Iterator[dict[str, Any]]:
    """The roles and bindings that a service account needs to read these sources, as manifests."""
    rules: dict[tuple[str, str], list[str]] = {}
    maps: dict[str, set[str]] = {}
    for source in sources:
        match source:
            case FromMetrics():
                rules["metrics.k8s.io", "nodes"] = _READ
            case FromObjects(kind):
                group, _, _ = kind.rpartition("/")[0].rpartition("/")
                rules[group, resource_name(kind.rpartition("/")[2])] = _WATCH
            case FromConfigMap(name):
                where, _, short = name.partition("/")
                maps.setdefault(where, set()).add(short)
            case _:
                pass
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    if rules:
        texts = [
            {"apiGroups": [group], "resources": [resource], "verbs": verbs}
            for (group, resource), verbs in sorted(rules.items())
        ]
        yield from _role("ClusterRole", {"name": f"{account}-data"}, texts, subject)
    for where, names in sorted(maps.items()):
        rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": sorted(names)}
        metadata = {"name": f"{account}-data", "namespace": where}
        yield from _role("Role", metadata, [{**rule, "verbs": ["get", *_WATCH]}], subject)


def _role(
    kind: str, metadata: dict[str, str], rules: list[dict[str, Any]], subject: dict[str, str]
) -> Iterator[dict[str, Any]]:
    yield {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, "rules": rules}
    yield {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": metadata["name"]},
        "subjects": [subject],
    }


def resource_name(kind: str) -> str:
    """The resource of a kind as Kubernetes guesses it (UnsafeGuessKindToResource).

    A definition may have another name for it, and then the right is to be corrected.
    """
    word = kind.lower()
    if word.endswith("s"):
        return f"{word}es"
    if word.endswith("y"):
        return f"{word[:-1]}ies"
    return f"{word}s"
