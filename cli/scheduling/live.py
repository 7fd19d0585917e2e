"""Configurations in a cluster: the ConfigMaps beside kube-scheduler, where there are such."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cli.exits import CommandError
from cli.version import version
from engine.cluster.client import connect
from engine.errors import ApiError, ApiUnreachableError, ClusterConfigurationError

NAMESPACE = "kube-system"


def config_maps(kubeconfig: Path | None, context: str | None) -> tuple[str, str]:
    """A name for them, and the JSON of all ConfigMaps of NAMESPACE. Raises CommandError."""
    hint = "check `--kubeconfig`, or name the configuration's file"
    try:
        return asyncio.run(_config_maps(kubeconfig, context))
    except ClusterConfigurationError as error:
        raise CommandError(str(error), error.hint) from None
    except (ApiError, ApiUnreachableError) as error:
        raise CommandError(f"cannot read the ConfigMaps of {NAMESPACE}: {error}", hint) from None


async def _config_maps(kubeconfig: Path | None, context: str | None) -> tuple[str, str]:
    async with connect(kubeconfig, context, version=version()) as client:
        body = await client.request("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps")
        return client.host, body.decode()
