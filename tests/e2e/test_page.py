"""The page on a real cluster: `placet ui` leads a browser to it through the API server.

kube-scheduler asks Placet, which watches the API server. kwok is the kubelet of the node where a
pod stands for Placet's own, and forwards the port of that pod.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tests.browser.editing import write
from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import forwarded, kwok, kwok_node
from tests.e2e.manifests import node, pod
from tests.e2e.placet import REPOSITORY
from tests.e2e.process import Process, built_tool, free_port, running, until
from tests.e2e.stage import GOVERNED, Stage

pytestmark = pytest.mark.e2e

CHROMIUM = shutil.which("chromium")
SECONDS = 60.0
REPLICA, LABELS = "placet-0", {"app.kubernetes.io/name": "placet"}
POOLS = {"n-1": "blue", "n-2": "green", "n-3": "green"}
CLAUSES = """
  let pool = node.labels["pool"]
  filter "pool" { require pool == pod.labels["pool"] message "another pool" }
"""


@dataclass(frozen=True, slots=True)
class Shown:
    """A page of the browser at the address that `placet ui` printed."""

    page: Page
    address: str

    def open(self, view: str) -> None:
        self.page.goto(f"{self.address}#/{view}")


def ui(kubeconfig: Path, namespace: str, port: int) -> list[str | Path]:
    """Return the command of an operator."""
    where = ("--placet-namespace", namespace, "--port", str(port), "--no-browser")
    return [sys.executable, "-m", "cli", "ui", "--kubeconfig", kubeconfig, *where]


def printed(process: Process) -> str:
    """Return the address that the command prints."""
    pattern = re.compile(r"the view of replica \S+: (http://\S+)")
    until(lambda: bool(pattern.search(process.log.read_text())), SECONDS, process.tail)
    (address,) = pattern.findall(process.log.read_text())
    return str(address)


@contextmanager
def replica(
    program: Path, plane: ControlPlane, namespace: str, port: int, folder: Path
) -> Iterator[None]:
    """Run a pod for Placet, whose port leads to this one, on a node of kwok's."""
    api, name = Api(plane), f"kubelet-of-{namespace}"
    with kwok(program, plane, folder, forwarded(namespace, REPLICA, port)) as kubelet:
        made = kwok_node(name)
        made["status"] |= {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port}},
        }
        api.request("POST", "/api/v1/nodes", made)
        pods = f"/api/v1/namespaces/{namespace}/pods"
        api.request("POST", pods, pod(REPLICA, namespace, LABELS, nodeName=name))
        path = f"{pods}/{REPLICA}"
        until(
            lambda: api.request("GET", path)["status"]["phase"] == "Running",
            SECONDS,
            kubelet.process.tail,
        )
        yield


@pytest.fixture
def shown(
    plane: ControlPlane,
    cluster: Cluster,
    served: Stage,
    tmp_path: Path,
    pytestconfig: pytest.Config,
) -> Iterator[Shown]:
    """Placet with a policy about three nodes, and its page in a browser by a forwarded port."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium; on Debian run: apt-get install chromium")
    program = built_tool(pytestconfig, "kwok")
    cluster.create_nodes(node(name, {"pool": pool}) for name, pool in POOLS.items())
    server = served.watch(CLAUSES, None, "--lease=none")
    server.wait_ready()
    served.schedule(server)
    with ExitStack() as stack:
        port = server.view_port
        stack.enter_context(replica(program, plane, cluster.namespace, port, tmp_path))
        command = ui(plane.admin_kubeconfig, cluster.namespace, port)
        forward = stack.enter_context(running(command, tmp_path / "ui.log", cwd=REPOSITORY))
        address = printed(forward)
        playwright = stack.enter_context(sync_playwright())
        # Its sandbox needs rights that a container has not; it shows pages of this test only.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(20_000)
        expect.set_options(timeout=20_000)
        yield Shown(page, address)
        browser.close()


def governed(cluster: Cluster, name: str, pool: str) -> None:
    cluster.apply(pod(name, cluster.namespace, {**GOVERNED, "pool": pool}))


def test_the_page_says_why_a_pod_waits_and_what_would_help(shown: Shown, cluster: Cluster) -> None:
    page, name = shown.page, cluster.namespace
    # The stream: a pod appears while one looks.
    shown.open("decisions")
    expect(page.locator(".live")).to_have_text("live")
    governed(cluster, "placed", "green")
    expect(page.locator("tr", has_text=f"{name}/placed")).to_contain_text("2 of 3")
    governed(cluster, "refused", "red")
    row = page.locator("tr", has_text=f"{name}/refused").first
    expect(row).to_contain_text("none pass")
    expect(row.locator(".took")).to_have_text(re.compile(r"filter [\d.]+ ms"))
    # Why: the clause, and its values on a node.
    row.get_by_role("link", name=f"{name}/refused").click()
    expect(page.locator(".answer").first).to_contain_text("0 of 4 nodes pass")
    page.locator(".group", has_text="another pool").first.get_by_text("n-2", exact=True).click()
    clause = page.get_by_role("region", name="Node n-2").locator("details[open]").first
    expect(clause).to_contain_text(f"{name}/web: pool")
    expect(clause.locator(".values")).to_contain_text("green")
    expect(clause.locator(".values")).to_contain_text("red")
    # The playground: another draft, another number, on the cluster as it is.
    shown.open(f"playground/{name}/web")
    expect(page.get_by_label("Text of the draft")).to_contain_text("another pool")
    page.get_by_role("button", name="Try it").click()
    result = page.get_by_role("heading", name="What would change").locator("..")
    expect(result).to_contain_text("0 pods would get another answer.")
    draft = f"""policy web in namespace "{name}" {{
  filter "pool" {{ require node.labels["pool"] == "blue" }}
}}"""
    write(page, draft)
    page.get_by_role("button", name="Try it").click()
    expect(result.locator("tr", has_text=f"{name}/refused")).to_contain_text("0 → 1")
    expect(result.locator("tr", has_text=f"{name}/placed")).to_contain_text("2 → 1")
    shown.open("home")
    expect(page.get_by_role("region", name="What rejects most")).to_contain_text(f"{name}/web")
    page.screenshot(path=REPOSITORY / "build" / "screenshots" / "page-on-a-cluster.png")


def test_who_may_not_forward_a_port_sees_no_page(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    program, port = built_tool(pytestconfig, "kwok"), free_port()
    with replica(program, plane, cluster.namespace, port, tmp_path):
        found = subprocess.run(
            ui(plane.placet_kubeconfig, cluster.namespace, port),
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    assert (found.returncode, found.stdout) == (2, "")
    assert f"you may not forward a port of pod `{REPLICA}`" in found.stderr
