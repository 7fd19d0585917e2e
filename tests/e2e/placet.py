"""A Placet server, started as users start it, for as long as a block runs."""

import http.client
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.e2e.control_plane import ControlPlane
from tests.e2e.process import Process, answers_ok, free_port, running, until
from tests.support.tcp_switch import TcpSwitch, tcp_switch

REPOSITORY = Path(__file__).parents[2]
READY_SECONDS = 60.0
LEASE_SECONDS = 30.0
# Comparing looks several times at what differs, a second apart.
TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Placet:
    """A running server, asked over HTTP as operators and kube-scheduler do."""

    port: int
    view_port: int
    process: Process

    def get(self, path: str) -> tuple[int, str]:
        """Return status and text of an answer."""
        return self._ask("GET", path, None)

    def filter(self, pod: dict[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
        """Return the answer to what kube-scheduler asks with nodeCacheCapable."""
        body = {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)}
        status, text = self._ask("POST", "/api/scheduler/filter", json.dumps(body))
        assert status == http.client.OK, text
        answer: dict[str, Any] = json.loads(text)
        return answer

    def bind(self, pod: dict[str, Any], node: str) -> tuple[int, str]:
        """Return status and text of the answer to kube-scheduler's request to bind a pod."""
        metadata = pod["metadata"]
        body = {
            "PodName": metadata["name"],
            "PodNamespace": metadata["namespace"],
            "PodUID": metadata["uid"],
            "Node": node,
        }
        return self._ask("POST", "/api/scheduler/bind", json.dumps(body))

    def cache(self) -> dict[str, Any]:
        """Return what is known of the cluster and how that came."""
        cluster: dict[str, Any] = self._view("/status")["cluster"]
        return cluster

    def compare(self) -> dict[str, Any]:
        """Return how that differs from what the API server has, once it is not on its way."""
        found = self._view("/cache/compare")
        objects = {k: v for k, v in found["objects"].items() if not k.endswith("policies")}
        return {**found, "objects": objects}

    def relists(self) -> dict[str, dict[str, int]]:
        """Return the complete lists of each resource of Kubernetes' own by their reasons."""
        return {name: each["relists"] for name, each in self.resources().items()}

    def resources(self) -> dict[str, dict[str, Any]]:
        """Return what is known of each resource of Kubernetes' own: ours may be defined or not."""
        found = self.cache()["resources"].items()
        return {name: each for name, each in found if not name.endswith("policies")}

    def decision(self, pod: str) -> dict[str, Any]:
        """Return the last decision about a pod, `namespace/name`."""
        return self._view(f"/decisions/{pod}")

    def policies(self) -> set[str]:
        """Return the addresses of the policies that are known."""
        return {each["address"] for each in self._view("/policies")["policies"]}

    def simulate(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return what would become of pods."""
        body, kind = json.dumps(question), {"Content-Type": "application/json"}
        status, text = self._ask("POST", "/api/v1/simulate", body, self.view_port, kind)
        assert status == http.client.OK, text
        answer: dict[str, Any] = json.loads(text)
        return answer

    def drift(self) -> dict[str, Any]:
        """Return what has drifted, as the view says."""
        return self._view("/drift")

    def answers(self, path: str) -> bool:
        """Whether the answer is 200; also false while nobody listens."""
        return answers_ok(self.port, path)

    def wait_ready(self) -> None:
        """Return once the server is."""
        self.process.wait_ready(self.is_ready, READY_SECONDS)

    def wait_leading(self) -> None:
        """Return once the server holds the Lease, which one that was killed leaves to run out."""
        until(lambda: bool(self.cache()["lease"]["held"]), LEASE_SECONDS, self.process.tail)

    def is_ready(self) -> bool:
        return self.answers("/readyz")

    def descriptors(self) -> int:
        """Return how many files and connections the process has open."""
        return len(os.listdir(f"/proc/{self.process.child.pid}/fd"))  # noqa: PTH208 - no paths

    def _view(self, path: str) -> dict[str, Any]:
        status, text = self._ask("GET", f"/api/v1{path}", None, self.view_port)
        assert status == http.client.OK, text
        answer: dict[str, Any] = json.loads(text)
        return answer

    def _ask(
        self,
        method: str,
        path: str,
        body: str | None,
        port: int | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[int, str]:
        port = self.port if port is None else port
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
        with closing(connection):
            given = {"Content-Type": "application/json", **headers}
            connection.request(method, path, body, given)
            response = connection.getresponse()
            return response.status, response.read().decode()


@contextmanager
def placet(
    folder: Path,
    policies: Path | None,
    *view: str,
    environment: Mapping[str, str] | None = None,
    program: str = "cli",
) -> Iterator[Placet]:
    """Serve a file of policies, or none; `view` are the flags that say what it knows otherwise.

    `environment` comes on top of that of the tests, and `program` is the module that is run.
    """
    port, view_port = free_port(), free_port()
    command = [
        sys.executable,
        "-m",
        program,
        "serve",
        f"--listen=127.0.0.1:{port}",
        f"--view-port={view_port}",
        # A test that ends a server has nobody to tell of it, unless it says so.
        "--lameduck=0s",
        *([f"--policies={policies}"] if policies is not None else []),
        *view,
    ]
    # No API server but one that a test names, least of all that of whoever runs the tests.
    own = {"KUBECONFIG": os.devnull}
    with running(
        command,
        folder / "placet.log",
        cwd=REPOSITORY,
        environment={**own, **(environment or {})},
    ) as process:
        yield Placet(port, view_port, process)


# ---- two Placets behind one address, which stays when one of them is restarted or killed


SECONDS = 90.0


class Replicas:
    """Two Placets, one of them the decider, and the switch before them."""

    def __init__(
        self,
        plane: ControlPlane,
        folder: Path,
        running: ExitStack,
        policies: str,
        *flags: str,
        kubeconfig: Path | None = None,
    ) -> None:
        """Start both with a file of these policies, and wait until one leads."""
        self._kubeconfig = kubeconfig or plane.placet_kubeconfig
        self._folder = folder
        self._running = running
        self._started = 0
        self._policies = folder / "a.policy"
        self._policies.write_text(policies)
        self._flags = flags
        self.servers = [self._start(), self._start()]
        until(lambda: bool(self.leading()), SECONDS, self.servers[0].process.tail)
        self.switch: TcpSwitch = running.enter_context(tcp_switch(self._ports()))

    def leading(self) -> list[Placet]:
        """The holder of the Lease, if there is one."""
        return [each for each in self.servers if each.cache()["lease"]["held"]]

    def restart(self) -> int:
        """End the one that is asked, as a rollout does once another is ready; return its status."""
        old, self.servers[:] = self._asked()
        old.process.child.terminate()
        status = old.process.child.wait(60)
        self._replace()
        return status

    def kill(self) -> None:
        """End the one that is asked without a word."""
        self._kill(self.asked())

    def kill_leader(self) -> None:
        """End the holder of the Lease without a word."""
        (leader,) = self.leading()
        self._kill(leader)

    def write(self, policies: str) -> None:
        """Edit the policies of both."""
        self._policies.write_text(policies)

    def _kill(self, old: Placet) -> None:
        self.servers.remove(old)
        old.process.kill()
        self._replace()

    def asked(self) -> Placet:
        """The one to which new connections go."""
        return self._asked()[0]

    def _asked(self) -> tuple[Placet, list[Placet]]:
        (asked,) = (each for each in self.servers if each.port == self.switch.current)
        return asked, [each for each in self.servers if each is not asked]

    def _replace(self) -> None:
        self.servers.append(self._start())
        self.switch.ports = self._ports()

    def _ports(self) -> tuple[int, ...]:
        return tuple(each.port for each in self.servers)

    def _start(self) -> Placet:
        self._started += 1
        folder = self._folder / f"placet-{self._started}"
        folder.mkdir()
        reach = f"--kubeconfig={self._kubeconfig}"
        server = self._running.enter_context(placet(folder, self._policies, reach, *self._flags))
        server.wait_ready()
        return server
