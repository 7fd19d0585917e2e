"""Objects of a running cluster, listed once: a snapshot for the REPL, ConfigMaps for `doctor`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from cli.command import CommandError, version
from cli.world import Documents
from engine.cache.informers import CONTROLLERS, NAMESPACES, NODES, PODS
from engine.cache.list_watch import PAGE, ContinueExpiredError, GarbageError, Resource, pages
from engine.cluster.client import ApiClient, connect
from engine.errors import ApiError, ApiUnreachableError, ClusterConfigurationError, EngineError

# The name of the snapshot in messages.
_NAME = Path("cluster")
_KINDS = {NODES.path: "Node", PODS.path: "Pod", NAMESPACES.path: "Namespace"}
_PAGE_SECONDS = 60.0
_REFUSED = (401, 403, 404)


def read_running(kubeconfig: Path) -> Documents:
    """The objects that rules read, in a kubeconfig's cluster. Raises CommandError."""
    hint = "check that `kubectl get nodes,pods -A` works with the same kubeconfig"
    try:
        return asyncio.run(_read(kubeconfig))
    except (EngineError, GarbageError) as error:
        raise CommandError(str(error), hint) from None
    except ContinueExpiredError:
        raise CommandError("the list took too long", "try again") from None


async def _read(kubeconfig: Path) -> Documents:
    async with connect(kubeconfig, None, version=version()) as client:
        found = [await _listed(client, r, _KINDS[r.path]) for r in (NODES, PODS)]
        # Only `namespaceObject` and `workload` need these, and not every user may list them.
        useful = {"Namespace": NAMESPACES, **CONTROLLERS}
        for kind, resource in useful.items():
            try:
                found.append(await _listed(client, resource, kind))
            except ApiError as error:
                if error.status not in _REFUSED:
                    raise
    return Documents([_NAME], [(_NAME, document) for document in found])


async def _listed(client: ApiClient, resource: Resource, kind: str) -> bytes:
    """All objects of a resource as one list, as `kubectl get -o json` prints them."""
    listed = pages(client, resource, "", PAGE, _PAGE_SECONDS)
    items = [item async for page in listed for item in page.items or ()]
    group = resource.path.removeprefix("/apis/").rpartition("/")[0]
    api_version = "v1" if resource.path.startswith("/api/") else group
    document = {"kind": f"{kind}List", "apiVersion": api_version, "items": items}
    return msgspec.json.encode(document)


# The namespace of ConfigMaps that may hold a configuration of kube-scheduler.
NAMESPACE = "kube-system"


def config_maps(kubeconfig: Path | None, context: str | None) -> tuple[str, str]:
    """The server's URL and the JSON of all ConfigMaps of NAMESPACE. Raises CommandError."""
    hint = "check `--kubeconfig`, or give the file of the configuration"
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
