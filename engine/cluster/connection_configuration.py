"""Configuration: the address of the API server and our identity, from files or the service account.

The order is controller-runtime's: the given file, $KUBECONFIG, the service account of our own pod,
`~/.kube/config`. Contexts are in kubeconfigs only, so a given context excludes the service account.
Several files are merged as kubectl does it: of two values for one thing, that of the first file
counts. The library gets one context with its cluster and user, whose paths are absolute.
"""

from __future__ import annotations

import binascii
import json
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit

from engine.errors import ClusterConfigurationError
from grammar.messages.texts import os_hint, os_reason
from policies import documents
from policies.disk import contents, expanded
from policies.documents import DocumentError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_NAME_ONE = "name one with `--kubeconfig` or in $KUBECONFIG, or run in a cluster"
_ANOTHER = "correct it, or name another with `--kubeconfig`"
_REREAD_SECONDS = 60.0  # as client-go reads a token file again


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity: the configuration of the library, and the headers of whom a user acts as."""

    configuration: Any
    headers: Sequence[tuple[str, str]] = ()


# Reads files, tokens and the answer of an exec plugin, each time again.
Load = Callable[[], Awaitable[Identity]]


def find(kubeconfig: Path | None, context: str | None, service_account: Path) -> Load:
    """The function that reads the configuration of the cluster.

    Both raise ClusterConfigurationError; this one if there is no file to read.
    """
    files = _files(kubeconfig, context, service_account)
    if files is None:
        return lambda: _from_service_account(service_account)
    present = os.pathsep.join(map(str, _present(files)))
    return lambda: _from_files(present, context)


def _files(kubeconfig: Path | None, context: str | None, service_account: Path) -> str | None:
    """The kubeconfigs to read; None for the service account."""
    if kubeconfig is not None:
        return str(kubeconfig)
    if named := os.environ.get("KUBECONFIG"):
        return named
    own = (service_account / "token", service_account / "ca.crt")
    is_inside = bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and all(f.is_file() for f in own)
    return None if context is None and is_inside else "~/.kube/config"


@dataclass(frozen=True, slots=True)
class Context:
    """A context by name, empty for the service account; its namespace, cluster and user."""

    name: str
    namespace: str
    cluster: str = field(default="", compare=False)
    user: str = field(default="", compare=False)


def chosen_context(
    kubeconfig: Path | None, context: str | None, service_account: Path = SERVICE_ACCOUNT
) -> Context:
    """The context that `find` would use. Raises ClusterConfigurationError."""
    files = _files(kubeconfig, context, service_account)
    if files is None:
        return Context("", own_namespace(service_account))
    return _chosen(_read(files), files, context)


def _chosen(read: Sequence[Mapping[str, Any]], files: str, context: str | None) -> Context:
    """The context of the kubeconfigs that were read. Raises ClusterConfigurationError."""
    if not read:
        text = f"the kubeconfig `{files}` cannot be used: it is empty or no map"
        raise ClusterConfigurationError(text, _NAME_ONE)
    current = next((str(c) for file in read if (c := file.get("current-context"))), "")
    name = context if context is not None else current
    no_name = f"the kubeconfig `{files}` has no current context"
    hint = "`kubectl config get-contexts` lists them; choose one with `--context`"
    error = f"there is no context `{name}` in `{files}`" if name else no_name
    found = _named(read, "context", name, ClusterConfigurationError(error, hint))
    namespace, cluster, user = (str(found.get(k) or "") for k in ("namespace", "cluster", "user"))
    return Context(name, namespace or "default", cluster, user)


def _read(files: str) -> list[Mapping[Any, Any]]:
    """The kubeconfigs that say anything. Raises ClusterConfigurationError."""
    read = list[Mapping[Any, Any]]()
    for path in _present(files):
        try:
            found = [*documents.read(contents(path).decode())]
        except DocumentError as error:
            text = f"the kubeconfig `{path}` cannot be used: it {error}"
            raise ClusterConfigurationError(text, _ANOTHER) from None
        except (OSError, UnicodeDecodeError) as error:
            raise _unusable(f"the kubeconfig `{path}`", error) from error
        if found and isinstance(found[0].value, dict):
            read.append({**found[0].value, _FOLDER: path.absolute().parent})
    return read


def _present(files: str) -> list[Path]:
    """The kubeconfigs that are there; `files` may be several, as in $KUBECONFIG."""
    paths = [expanded(Path(path)) for path in files.split(os.pathsep) if path]
    try:
        present = [path for path in paths if path.is_file()]
    except OSError as error:
        # Such as one in a folder of somebody else.
        raise _unusable(f"the kubeconfig `{files}`", error) from error
    if not present and any(path.exists() for path in paths):
        raise ClusterConfigurationError(
            f"the kubeconfig `{files}` is not a regular file", _NAME_ONE
        )
    if not present:
        raise ClusterConfigurationError(f"there is no kubeconfig `{files}`", _NAME_ONE)
    return present


def own_namespace(service_account: Path = SERVICE_ACCOUNT) -> str:
    """The namespace of our own pod, or `kube-system` outside a pod."""
    try:
        return (service_account / "namespace").read_text().strip()
    except OSError:
        return "kube-system"


# ---- what a context names, with absolute paths

# The key of a kubeconfig that was read, under which its folder stands; no text is this key.
_FOLDER = object()
_FILES = {"certificate-authority", "client-certificate", "client-key", "tokenFile"}
_CREDENTIAL = "client.authentication.k8s.io/exec"
# What may stand in the name of a header (RFC 7230); client-go quotes the rest, `%` too.
_HEADER = "!#$&'*+-.^_`|~"


def _used(
    read: Iterable[Mapping[Any, Any]], context: Context, what: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The cluster and the user of a context, with those credentials that kubectl would send."""
    hint = "add it, or choose another context with `--context`"

    def named(kind: str, name: str) -> dict[str, Any]:
        error = ClusterConfigurationError(f"{what} has no {kind} `{name}`", hint)
        return _named(read, kind, name, error)

    cluster = named("cluster", context.cluster)
    user = named("user", context.user) if context.user else {}
    if not str(cluster.get("server")).startswith("https:"):
        # Others could read them on their way.
        user = {key: each for key, each in user.items() if key.startswith("as")}
    _read_token(user)
    if "token" in user:
        user.pop("exec", None)
    elif user.get("exec", {}).get("provideClusterInfo"):
        _tell_cluster(user["exec"], cluster)
    return cluster, user


def _named(
    read: Iterable[Mapping[Any, Any]], kind: str, name: str, error: ClusterConfigurationError
) -> dict[str, Any]:
    """The first context, cluster or user of this name; what is empty is absent, as in client-go."""
    for file in read:
        items = file.get(f"{kind}s")
        for item in items if isinstance(items, list) else ():
            match item:
                case {"name": str() | int() as other, **rest} if str(other) == name:
                    fields = rest.get(kind) or {}
                    if not isinstance(fields, dict):
                        raise error
                    made = {key: each for key, each in fields.items() if each}
                    _make_absolute(made, file[_FOLDER])
                    return made
                case _:
                    pass
    raise error


def _make_absolute(part: dict[str, Any], folder: Path) -> None:
    for key in _FILES & part.keys():
        part[key] = str(folder / part[key])
    plugin = part.get("exec")
    if plugin and "/" in plugin["command"]:
        plugin["command"] = str(folder / plugin["command"])


def _tell_cluster(plugin: dict[str, Any], cluster: Mapping[str, Any]) -> None:
    """Has `env` give the plugin the cluster that client-go tells it of.

    The library sets KUBERNETES_EXEC_INFO without the cluster, after what the kubeconfig sets.
    """
    keys = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url")
    told = {key: cluster[key] for key in keys if key in cluster}
    if authority := cluster.get("certificate-authority-data"):
        told["certificate-authority-data"] = authority
    elif authority := cluster.get("certificate-authority"):
        data = binascii.b2a_base64(contents(Path(authority)), newline=False)
        told["certificate-authority-data"] = data.decode()
    for each in cluster.get("extensions") or ():
        if each["name"] == _CREDENTIAL:
            told["config"] = each["extension"]
    info = {
        "apiVersion": plugin["apiVersion"],
        "kind": "ExecCredential",
        "spec": {"cluster": told, "interactive": False},
    }
    variable = f"KUBERNETES_EXEC_INFO={json.dumps(info)}"
    plugin["args"] = [variable, plugin["command"], *(plugin.get("args") or ())]
    plugin["command"] = "env"


def _read_token(user: dict[str, Any]) -> None:
    """Reads the token of a file; where that fails, a token beside it counts."""
    if file := user.get("tokenFile"):
        try:
            user["token"] = contents(Path(file), takes_pipes=False).decode().strip()
        except OSError as error:
            error.filename = file
            if not user.get("token"):
                raise


def _acts_as(user: Mapping[str, Any], what: str) -> list[tuple[str, str]]:
    """The headers that make the API server take us for whom the kubeconfig says."""
    groups, extra = user.get("as-groups") or (), user.get("as-user-extra") or {}
    made = [("Impersonate-User", user.get("as")), ("Impersonate-Uid", user.get("as-uid"))]
    made += [("Impersonate-Group", group) for group in groups]
    made += [
        (f"Impersonate-Extra-{quote(key, safe=_HEADER)}", each)
        for key, values in extra.items()
        for each in values
    ]
    headers = [(name, str(value)) for name, value in made if value]
    if headers and not user.get("as"):
        text = f"{what} cannot be used: it acts as somebody whom it does not name"
        raise ClusterConfigurationError(text, "add `as` with the name of a user")
    return headers


# The library takes as long to import as Placet, and servers without a cluster do not need it.


async def _from_service_account(folder: Path) -> Identity:
    from kubernetes_asyncio.client import Configuration  # noqa: PLC0415
    from kubernetes_asyncio.config import load_incluster_config  # noqa: PLC0415

    configuration = Configuration()
    try:
        # It sets a hook that reads the token again after a minute. It has no types.
        load: Any = load_incluster_config
        load(
            client_configuration=configuration,
            token_filename=str(folder / "token"),
            cert_filename=str(folder / "ca.crt"),
        )
    except Exception as error:
        raise _unusable("the service account", error, "") from error
    return Identity(configuration)


async def _from_files(files: str, context: str | None) -> Identity:
    from kubernetes_asyncio.client import Configuration  # noqa: PLC0415
    from kubernetes_asyncio.config import load_kube_config_from_dict  # noqa: PLC0415

    configuration: Any = Configuration()
    what, read = f"the kubeconfig `{files}`", _read(files)
    chosen = _chosen(read, files, context)
    # The errors that the library logs are exceptions of it, too.
    log = logging.getLogger("kubernetes_asyncio.config.kube_config")
    log.addFilter(lambda record: "missing" in record.getMessage())
    try:
        cluster, user = _used(read, chosen, what)
        headers = _acts_as(user, what)
        loader: Any = await load_kube_config_from_dict(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": user}],
            },
            client_configuration=configuration,
        )
    except ClusterConfigurationError:
        raise
    except Exception as error:  # a malformed file raises errors of every kind
        raise _unusable(what, error) from error
    _check_addresses(configuration, what)

    # As in client-go, a plugin without an expiry runs again only after the server has not accepted
    # its token. Everything else is read from files, which is cheap.
    is_plugin = "exec" in user and not hasattr(loader, "exec_plugin_expiry")
    due = time.monotonic() + _REREAD_SECONDS

    async def reread(configuration: Any) -> None:
        nonlocal due
        if not is_plugin and time.monotonic() >= due:
            _read_token(user)
            await loader.load_and_set(configuration)
            due = time.monotonic() + _REREAD_SECONDS

    configuration.refresh_api_key_hook = reread
    return Identity(configuration, headers)


def _check_addresses(configuration: Any, what: str) -> None:
    """Raises ClusterConfigurationError unless the server and its proxy are usable URLs."""
    host, proxy = configuration.host, configuration.proxy
    if of_server(host) is None:
        problem = f"`{host}` is not the URL of a server" if host else "it names no `server`"
        hint = "correct `server` in the kubeconfig, as in `https://10.0.0.1:6443`"
        raise ClusterConfigurationError(f"{what} cannot be used: {problem}", hint)
    if proxy and of_server(proxy) is None:
        problem = f"the proxy `{proxy}` speaks neither `http` nor `https`"
        hint = "name such a proxy in `proxy-url`, which may be one that passes on to another"
        raise ClusterConfigurationError(f"{what} cannot be used: {problem}", hint)


def _unusable(what: str, error: Exception, hint: str = _ANOTHER) -> ClusterConfigurationError:
    detail = " ".join(str(error).split()).removeprefix("Invalid kube-config file. ")
    detail = detail[:1].lower() + detail[1:]
    if isinstance(error, OSError):
        named = error.filename if isinstance(error.filename, str) else ""
        detail = f"{'' if named in what else f'`{named}`: '}{os_reason(error)}"
        hint = os_hint(error, hint)
    elif isinstance(error, binascii.Error):
        detail = "a part of it is not base64"
    elif isinstance(error, UnicodeDecodeError):
        detail = "it is not UTF-8 text"
    elif isinstance(error, TypeError | AttributeError | LookupError | AssertionError):
        detail = "a part of it is not what a kubeconfig has there"
    return ClusterConfigurationError(f"{what} cannot be used: {detail}", hint)


def of_server(text: str) -> SplitResult | None:
    """The parts of an `http` or `https` URL with a host; None for any other text."""
    try:
        parts = urlsplit(text)
        is_usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if is_usable else None
