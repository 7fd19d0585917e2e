"""`placet decisions` and `placet status` through a real API server, and who may ask."""

import asyncio
import json
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from tests.e2e.api import Api
from tests.e2e.cluster import AT_ONCE
from tests.e2e.control_plane import ControlPlane
from tests.e2e.manifests import namespace, node, pod
from tests.e2e.permissions import GROUP, USER
from tests.e2e.placet import REPOSITORY, placet
from tests.e2e.waiting import free_port
from tests.support.view_server import forward

pytestmark = pytest.mark.e2e

NAMESPACE, NODE, REPLICA = "asking", "asking-node", "placet-0"
LABELS = {"app.kubernetes.io/name": "placet"}
POLICY = 'policy all { for pods where true filter "here" { require node.ready message "down" } }\n'
# The rights of an operator; without `create`, API servers of 1.35 and later refuse.
RULES = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["pods/portforward"], "verbs": ["get", "create"]},
]


@contextmanager
def forwarding_kubelet() -> Iterator[int]:
    """The port of a kubelet whose pods are this host: it does nothing but forward ports."""
    port, end, begun = free_port(), asyncio.Event(), threading.Event()
    loops: list[asyncio.AbstractEventLoop] = []
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)

    async def answer(request: web.Request) -> web.StreamResponse:
        return await forward(request, int(request.query["port"]))

    async def serve() -> None:
        app = web.Application()
        app.router.add_get("/portForward/{namespace}/{pod}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
        loops.append(asyncio.get_running_loop())
        begun.set()
        await end.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert begun.wait(60)
    try:
        yield port
    finally:
        loops[0].call_soon_threadsafe(end.set)
        thread.join(60)


def ask(kubeconfig: Path, port: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    where = ("--placet-namespace", NAMESPACE, "--port", str(port))
    return subprocess.run(
        [sys.executable, "-m", "cli", *arguments, "--kubeconfig", kubeconfig, *where],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def create_replica(api: Api, kubelet: int) -> None:
    """A node with this kubelet, and a running pod there that stands for the server."""
    api.request("POST", "/api/v1/nodes", node(NODE))
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet}},
    }
    api.request("PATCH", f"/api/v1/nodes/{NODE}/status", {"status": status})
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    api.request("POST", pods, pod(REPLICA, NAMESPACE, LABELS, nodeName=NODE))
    api.request("PATCH", f"{pods}/{REPLICA}/status", {"status": {"phase": "Running"}})


def test_operators_may_ask_and_others_may_not(plane: ControlPlane, tmp_path: Path) -> None:
    api = Api(plane)
    api.request("POST", "/api/v1/namespaces", namespace(NAMESPACE))
    (tmp_path / "all.policy").write_text(POLICY)
    watching = (f"--kubeconfig={plane.placet_kubeconfig}", "--lease=none")
    try:
        with (
            forwarding_kubelet() as kubelet,
            placet(tmp_path, tmp_path / "all.policy", *watching) as server,
        ):
            create_replica(api, kubelet)
            server.wait_ready()
            server.filter(pod("web-1", NAMESPACE, {}), [NODE])
            port = server.view_port
            admin = ask(plane.admin_kubeconfig, port, "decisions", "-o", "json")
            assert admin.returncode == 0, admin.stderr
            (answer,) = json.loads(admin.stdout)["replicas"]
            assert [each["pod"] for each in answer["decisions"]] == [f"{NAMESPACE}/web-1"]
            nobody = ask(plane.placet_kubeconfig, port, "status", "--replica", REPLICA)
            assert (nobody.returncode, nobody.stdout) == (2, "")
            assert f"you may not forward a port of pod `{REPLICA}`" in nobody.stderr
            allow(api)
            operator = ask(plane.placet_kubeconfig, port, "status")
            assert operator.stdout.startswith("replica "), operator.stderr
    finally:
        # The pods of other tests are in the same cluster, and they count them.
        api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods", AT_ONCE)
        api.request("DELETE", f"/api/v1/nodes/{NODE}")


def allow(api: Api) -> None:
    """Lets the user that Placet's kubeconfig names ask, as docs/asking.md says."""
    rights = f"/apis/{GROUP}/v1/namespaces/{NAMESPACE}"
    api.request("POST", f"{rights}/roles", {"metadata": {"name": "operator"}, "rules": RULES})
    binding = {
        "metadata": {"name": "operator"},
        "subjects": [USER],
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "operator"},
    }
    api.request("POST", f"{rights}/rolebindings", binding)
