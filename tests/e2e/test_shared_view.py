"""A view that users share, on a real API server: tokens of accounts, and their rights by RBAC."""

import http.client
import json
import shutil
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import expect, sync_playwright
from trustme import CA

from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.manifests import node, pod
from tests.e2e.placet import placet
from tests.e2e.process import answers_ok, free_port, until
from tests.e2e.service_account import GROUP, USER, bind_role

pytestmark = pytest.mark.e2e

SECONDS = 60.0
CHROMIUM = shutil.which("chromium")
BUILD = Path(__file__).parents[2] / "build"
Ask = Callable[..., tuple[int, str]]


@pytest.fixture
def jane(plane: ControlPlane, cluster: Cluster) -> str:
    """The token of an account that may list the pods of the test's namespace alone."""
    api, namespace = Api(plane), cluster.namespace
    path, roles = f"/api/v1/namespaces/{namespace}", f"/apis/{GROUP}/v1/namespaces/{namespace}"
    api.request("POST", f"{path}/serviceaccounts", {"metadata": {"name": "jane"}})
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    api.request("POST", f"{roles}/roles", {"metadata": {"name": "pods"}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "jane", "namespace": namespace}
    role = {"apiGroup": GROUP, "kind": "Role", "name": "pods"}
    bound = {"metadata": {"name": "jane"}, "subjects": [subject], "roleRef": role}
    api.request("POST", f"{roles}/rolebindings", bound)
    made = api.request("POST", f"{path}/serviceaccounts/jane/token", {"spec": {}})
    token: str = made["status"]["token"]
    return token


@pytest.fixture
def port() -> int:
    """That of the shared view."""
    return free_port()


@pytest.fixture
def view_url(port: int) -> str:
    return f"https://127.0.0.1:{port}"


@pytest.fixture
def ask(plane: ControlPlane, cluster: Cluster, tmp_path: Path, port: int) -> Iterator[Ask]:
    """Asks the shared view of a Placet; it has the right of deploy/rbac/view after the first."""
    authority = CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.private_key_pem.write_to_path(str(tmp_path / "tls.key"))
    issued.cert_chain_pems[0].write_to_path(str(tmp_path / "tls.crt"))
    ca = tmp_path / "ca.crt"
    authority.cert_pem.write_to_path(str(ca))
    cluster.create_nodes([node("n0")])
    cluster.create_pods([pod("web-0", cluster.namespace, nodeName="n0")])
    flags = (
        f"--kubeconfig={plane.placet_kubeconfig}",
        "--lease=none",
        f"--tls-cert={tmp_path / 'tls.crt'}",
        f"--tls-key={tmp_path / 'tls.key'}",
        f"--view-listen=127.0.0.1:{port}",
    )

    def asked(path: str, authorization: str = "", **headers: str) -> tuple[int, str]:
        context = ssl.create_default_context(cafile=str(ca))
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
        given = {"Authorization": authorization} if authorization else {}
        with closing(connection):
            connection.request("GET", path, headers={**given, **headers})
            response = connection.getresponse()
            return response.status, response.read().decode()

    with placet(tmp_path, None, *flags) as server:
        server.process.wait_ready(lambda: answers_ok(server.port, "/readyz", ca), SECONDS)
        yield asked


def test_users_see_what_they_may_list(
    plane: ControlPlane, cluster: Cluster, jane: str, ask: Ask
) -> None:
    admin, own = f"Bearer {plane.admin_token}", f"/api/v1/explain/{cluster.namespace}/web-0"
    status, text = ask("/ui/", admin)
    assert (status, "deploy/rbac/view" in text) == (503, True), text
    bind_role(Api(plane), "placet-shared-view", USER, "system:auth-delegator")
    until(lambda: ask("/ui/", admin)[0] == 200, SECONDS, lambda: ask("/ui/", admin)[1])
    # Whoever may list all pods sees everything.
    assert ask("/api/v1/overview", admin)[0] == 200
    assert json.loads(ask(own, admin)[1])["pod"] == f"{cluster.namespace}/web-0"
    # An account sees its namespace: as a bearer, and as the password of a browser.
    for header in (f"Bearer {jane}", "Basic " + b64encode(f"jane:{jane}".encode()).decode()):
        assert ask(own, header)[0] == 200
        assert ask("/ui/", header)[0] == 200
        status, text = ask("/api/v1/explain/kube-system/other", header)
        assert status == 403
        account = f"system:serviceaccount:{cluster.namespace}:jane"
        assert text == f"`{account}` may not list the pods of the namespace `kube-system`\n"
        assert ask("/api/v1/overview", header)[0] == 403
    # Nobody else sees anything, and no page of another site does.
    assert ask("/ui/")[0] == 401
    assert ask("/ui/", "Bearer made-up")[0] == 401
    assert ask(own, admin, Origin="https://evil.example")[0] == 403


def test_a_browser_asks_for_the_token_and_follows_a_link(
    plane: ControlPlane, cluster: Cluster, jane: str, ask: Ask, view_url: str
) -> None:
    if CHROMIUM is None:
        pytest.skip("there is no chromium; on Debian run: apt-get install chromium")
    bind_role(Api(plane), "placet-shared-view-again", USER, "system:auth-delegator")
    until(lambda: ask("/ui/", f"Bearer {jane}")[0] == 200, SECONDS, lambda: "no right yet")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = chromium.new_context(
            http_credentials={"username": "jane", "password": jane}, ignore_https_errors=True
        )
        page = context.new_page()
        expect.set_options(timeout=30_000)
        page.goto(f"{view_url}/ui/#/pods/{cluster.namespace}/web-0")
        expect(page.get_by_role("heading", name="web-0")).to_be_visible()
        page.goto(f"{view_url}/ui/#/")
        expect(page.get_by_text("may not list the pods of all namespaces").first).to_be_visible()
        expect(page.get_by_text("Links to the pods and policies of your").first).to_be_visible()
        page.screenshot(path=BUILD / "page-shared.png")
        chromium.close()
