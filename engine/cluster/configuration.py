"""Configuration: the address of the API server and our identity, from files or the service account.

The order is controller-runtime's: the given file, $KUBECONFIG, the service account of our own pod,
`~/.kube/config`. Contexts are in kubeconfigs only, so a given context excludes the service account.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import load_incluster_config, load_kube_config

from engine.errors import ClusterConfigurationError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_REREAD_SECONDS = 60.0  # as client-go reads a token file again

# Reads files, tokens and the answer of an exec plugin, each time again.
Load = Callable[[], Awaitable[Any]]


def find(kubeconfig: Path | None, context: str | None, service_account: Path) -> Load:
    """The function that reads the configuration of the cluster.

    Both raise ClusterConfigurationError; this one if there is no file to read.
    """
    if kubeconfig is not None:
        return _reading_files(str(kubeconfig), context)
    if named := os.environ.get("KUBECONFIG"):
        return _reading_files(named, context)
    if context is None and _in_cluster(service_account):
        return lambda: _from_service_account(service_account)
    return _reading_files("~/.kube/config", context)


def own_namespace(service_account: Path = SERVICE_ACCOUNT) -> str:
    """The namespace of our own pod, or `kube-system` outside a pod."""
    try:
        return (service_account / "namespace").read_text().strip()
    except OSError:
        return "kube-system"


def _in_cluster(service_account: Path) -> bool:
    files = (service_account / "token", service_account / "ca.crt")
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and all(f.is_file() for f in files)


def _reading_files(files: str, context: str | None) -> Load:
    """A function that reads kubeconfigs; `files` may be several, as in $KUBECONFIG."""
    paths = [Path(path).expanduser() for path in files.split(os.pathsep) if path]
    if not any(path.is_file() for path in paths):
        raise ClusterConfigurationError(
            f"there is no kubeconfig `{files}`",
            "name one with `--kubeconfig` or in $KUBECONFIG, or run in a cluster",
        )
    return lambda: _from_files(files, context)


async def _from_service_account(folder: Path) -> Any:
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
        raise _unusable("the service account", error) from error
    return configuration


async def _from_files(files: str, context: str | None) -> Any:
    configuration: Any = Configuration()
    try:
        loader: Any = await load_kube_config(
            config_file=files, context=context, client_configuration=configuration
        )
    except Exception as error:  # a malformed file raises errors of every kind
        raise _unusable(f"the kubeconfig `{files}`", error) from error

    # As in client-go, a plugin without an expiry runs again only after the server has not accepted
    # its token. Everything else is read from files, which is cheap.
    user = loader._user  # noqa: SLF001
    is_plugin = user is not None and "exec" in user and not hasattr(loader, "exec_plugin_expiry")
    due = time.monotonic() + _REREAD_SECONDS

    async def reread(configuration: Any) -> None:
        nonlocal due
        if not is_plugin and time.monotonic() >= due:
            await loader.load_and_set(configuration)
            due = time.monotonic() + _REREAD_SECONDS

    configuration.refresh_api_key_hook = reread
    return configuration


def _unusable(what: str, error: Exception) -> ClusterConfigurationError:
    detail = " ".join(str(error).split()) or type(error).__name__
    return ClusterConfigurationError(f"{what} cannot be used: {detail}")
