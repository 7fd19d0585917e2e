"""Where the API server is and as whom we speak to it: a kubeconfig, or the pod's service account.

The order is controller-runtime's: the file given, $KUBECONFIG, the service account of the pod we
run in, `~/.kube/config`. A context is a kubeconfig's, so who names one does not mean the pod's.
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

# Reads everything anew: files, tokens, and what an exec plugin says.
Load = Callable[[], Awaitable[Any]]


def find(kubeconfig: Path | None, context: str | None, service_account: Path) -> Load:
    """What reads the configuration of the cluster that is meant.

    It raises ClusterConfigurationError, and so does this when there is nothing to read.
    """
    if kubeconfig is not None:
        return _reading_files(str(kubeconfig), context)
    if named := os.environ.get("KUBECONFIG"):
        return _reading_files(named, context)
    if context is None and _in_cluster(service_account):
        return lambda: _from_service_account(service_account)
    return _reading_files("~/.kube/config", context)


def own_namespace(service_account: Path = SERVICE_ACCOUNT) -> str:
    """The namespace of the pod we run in, or `kube-system`."""
    try:
        return (service_account / "namespace").read_text().strip()
    except OSError:
        return "kube-system"


def _in_cluster(service_account: Path) -> bool:
    files = (service_account / "token", service_account / "ca.crt")
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and all(f.is_file() for f in files)


def _reading_files(files: str, context: str | None) -> Load:
    """Reads kubeconfigs; `files` may be several, as $KUBECONFIG has them."""
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
        # It sets a hook that reads the token again when a minute has gone by. It has no types.
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
    except Exception as error:  # a file that is malformed brings out errors of every kind
        raise _unusable(f"the kubeconfig `{files}`", error) from error

    # A plugin that does not say until when its word holds is asked again only when the server
    # refuses it, as client-go does; anything else costs a look at files.
    user = loader._user  # noqa: SLF001
    asks = user is not None and "exec" in user and not hasattr(loader, "exec_plugin_expiry")
    due = time.monotonic() + _REREAD_SECONDS

    async def reread(configuration: Any) -> None:
        nonlocal due
        if not asks and time.monotonic() >= due:
            await loader.load_and_set(configuration)
            due = time.monotonic() + _REREAD_SECONDS

    configuration.refresh_api_key_hook = reread
    return configuration


def _unusable(what: str, error: Exception) -> ClusterConfigurationError:
    detail = " ".join(str(error).split()) or type(error).__name__
    return ClusterConfigurationError(f"{what} cannot be used: {detail}")
