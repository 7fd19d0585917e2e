"""Configuration: the address of the API server and our identity, from files or the service account.

The order is controller-runtime's: the given file, $KUBECONFIG, the service account of our own pod,
`~/.kube/config`. Contexts are in kubeconfigs only, so a given context excludes the service account.
Several files are merged as kubectl does it: of two values for one thing, that of the first file
counts.
"""

from __future__ import annotations

import binascii
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from engine.errors import ClusterConfigurationError
from grammar.messages.texts import os_hint, os_reason
from policies import documents
from policies.disk import contents, expanded
from policies.documents import DocumentError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_NAME_ONE = "name one with `--kubeconfig` or in $KUBECONFIG, or run in a cluster"
_ANOTHER = "correct it, or name another with `--kubeconfig`"
_REREAD_SECONDS = 60.0  # as client-go reads a token file again

# Reads files, tokens and the answer of an exec plugin, each time again.
Load = Callable[[], Awaitable[Any]]


def find(kubeconfig: Path | None, context: str | None, service_account: Path) -> Load:
    """The function that reads the configuration of the cluster.

    Both raise ClusterConfigurationError; this one if there is no file to read.
    """
    files = _files(kubeconfig, context, service_account)
    if files is None:
        return lambda: _from_service_account(service_account)
    return _reading_files(files, context)


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
    """A context by name, empty for the service account, its namespace and the name of its user."""

    name: str
    namespace: str
    user: str = field(default="", compare=False)


def chosen_context(
    kubeconfig: Path | None, context: str | None, service_account: Path = SERVICE_ACCOUNT
) -> Context:
    """The context that `find` would use. Raises ClusterConfigurationError."""
    files = _files(kubeconfig, context, service_account)
    if files is None:
        return Context("", own_namespace(service_account))
    return _chosen(list(_read(_present(files))), files, context)


def _chosen(read: Sequence[Mapping[str, Any]], files: str, context: str | None) -> Context:
    """The context of the kubeconfigs that were read. Raises ClusterConfigurationError."""
    if not any(read):
        text = f"the kubeconfig `{files}` cannot be used: it is empty or no map"
        raise ClusterConfigurationError(text, _NAME_ONE)
    name = context if context is not None else _current(read)
    for each in contexts(read):
        if each.name == name:
            return each
    hint = "`kubectl config get-contexts` lists them; choose one with `--context`"
    if not name:
        raise ClusterConfigurationError(f"the kubeconfig `{files}` has no current context", hint)
    raise ClusterConfigurationError(f"there is no context `{name}` in `{files}`", hint)


def known_contexts(kubeconfig: Path | None) -> list[str]:
    """The names of all contexts. Raises ClusterConfigurationError."""
    files = str(kubeconfig) if kubeconfig is not None else os.environ.get("KUBECONFIG")
    return [each.name for each in contexts(_read(_present(files or "~/.kube/config")))]


def contexts(files: Iterable[Mapping[str, Any]]) -> Iterator[Context]:
    """The contexts of kubeconfigs; of one name the first counts."""
    seen = set()
    for item in _items(files, "contexts"):
        match item:
            case {"name": str() | int() as name, "context": {**inner}} if name not in seen:
                seen.add(name)
                namespace, user = inner.get("namespace") or "default", inner.get("user") or ""
                yield Context(str(name), str(namespace), str(user))
            case _:
                pass


def _items(files: Iterable[Mapping[str, Any]], key: str) -> Iterator[Any]:
    """The items of a list that each kubeconfig has."""
    for file in files:
        items = file.get(key)
        yield from items if isinstance(items, list) else ()


def _current(files: Iterable[Mapping[str, Any]]) -> str:
    return next((str(c) for file in files if (c := file.get("current-context"))), "")


def _read(paths: Iterable[Path]) -> Iterator[Mapping[str, Any]]:
    """The kubeconfigs that say anything."""
    for path in paths:
        try:
            found = documents.read(contents(path).decode())
        except DocumentError as error:
            text = f"the kubeconfig `{path}` cannot be used: it {error}"
            raise ClusterConfigurationError(text, _ANOTHER) from None
        except (OSError, UnicodeDecodeError) as error:
            raise _unusable(f"the kubeconfig `{path}`", error) from error
        if found and isinstance(found[0].value, dict):
            yield found[0].value


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


def _reading_files(files: str, context: str | None) -> Load:
    """A function that reads kubeconfigs; `files` may be several, as in $KUBECONFIG."""
    present = _present(files)
    if len(present) == 1:
        return lambda: _from_files(str(present[0]), context)

    async def load() -> Any:
        # The library takes the last current context, and does not take empty files.
        said = [path for path in present if contents(path).strip()]
        chosen = context if context is not None else _current(_read(said)) or None
        return await _from_files(os.pathsep.join(map(str, said)), chosen)

    return load


# The library takes as long to import as Placet, and servers without a cluster do not need it.


async def _from_service_account(folder: Path) -> Any:
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
    return configuration


async def _from_files(files: str, context: str | None) -> Any:
    from kubernetes_asyncio.client import Configuration  # noqa: PLC0415
    from kubernetes_asyncio.config import load_kube_config  # noqa: PLC0415

    configuration: Any = Configuration()
    what, read = f"the kubeconfig `{files}`", list(_read(_present(files)))
    chosen = _chosen(read, files, context)
    users = {str(item.get("name")) for item in _items(read, "users") if isinstance(item, dict)}
    if chosen.user and chosen.user not in users:
        # The library takes nobody in its place.
        hint = "add it, or choose another context with `--context`"
        raise ClusterConfigurationError(f"{what} has no user `{chosen.user}`", hint)
    # The other errors that the library logs are exceptions of it, too.
    log = logging.getLogger("kubernetes_asyncio.config.kube_config")
    log.addFilter(lambda record: "missing" in record.getMessage())
    try:
        _check_token(files, chosen.user)
        loader: Any = await load_kube_config(
            config_file=files, context=context, client_configuration=configuration
        )
    except Exception as error:  # a malformed file raises errors of every kind
        raise _unusable(what, error) from error
    if of_server(configuration.host) is None:
        host = f"`{configuration.host}` is not the URL of a server"
        hint = "correct `server` in the kubeconfig, as in `https://10.0.0.1:6443`"
        text = f"{what} cannot be used: {host if configuration.host else 'it names no `server`'}"
        raise ClusterConfigurationError(text, hint)

    # As in client-go, a plugin without an expiry runs again only after the server has not accepted
    # its token. Everything else is read from files, which is cheap.
    user = loader._user  # noqa: SLF001
    is_plugin = user is not None and "exec" in user and not hasattr(loader, "exec_plugin_expiry")
    due = time.monotonic() + _REREAD_SECONDS

    async def reread(configuration: Any) -> None:
        nonlocal due
        if not is_plugin and time.monotonic() >= due:
            _check_token(files, chosen.user)
            await loader.load_and_set(configuration)
            due = time.monotonic() + _REREAD_SECONDS

    configuration.refresh_api_key_hook = reread
    return configuration


def _check_token(files: str, user: str) -> None:
    """Raises OSError for a token file that the library would wait for, or never stop to read."""
    for path in _present(files):
        for item in _items(_read([path]), "users"):
            match item:
                case {"name": name, "user": {"tokenFile": str(file)}} if str(name) == user:
                    try:
                        contents(path.parent / file, takes_pipes=False)
                    except OSError as error:
                        error.filename = str(path.parent / file)
                        raise
                case _:
                    pass


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
