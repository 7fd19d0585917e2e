"""A live Placet behind a proxy that is at fault, and what has to be so after any fault."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.manifests import node, pod
from tests.e2e.placet import Placet
from tests.e2e.process import kubeconfig, until
from tests.e2e.stage import GOVERNED, Stage
from tests.support.api_proxy import ApiProxy, api_proxy
from tests.support.fake_api_server import Request

NODES = 30
PODS = 150
# It reads no pods of nodes: otherwise disruption budgets would be watched as well.
POLICY = """
  filter "large" {
    require node.allocatable["cpu"] - pod.requests["cpu"] >= "1" message "too small"
  }
"""
WATCHED = ("/api/v1/nodes", "/api/v1/pods")
HEALED_SECONDS = 40.0
# Connections of probes and comparisons come and go.
SLACK = 4


class Trial:
    """What a fault is tried on; it begins synced, with `NODES` nodes and `PODS` pods on them."""

    def __init__(self, cluster: Cluster, proxy: ApiProxy, server: Placet) -> None:
        """Remember what is open and what was asked for before the fault."""
        self.cluster = cluster
        self.proxy = proxy
        self.server = server
        self._changes = 0
        self._assert_sound()
        self._open = self._opened()
        self._lists = self._listed()
        self._asked = self._requests()

    def change(self) -> None:
        """Make, alter and remove nodes and pods: other ones at each call, as many as there were."""
        self._changes += 1
        number = self._changes
        self.cluster.create_nodes([node(f"new-{number}", cpu="4")])
        self.cluster.create_pods(
            pod(f"new-{number}-{each}", self.cluster.namespace, nodeName="n0") for each in "ab"
        )
        self.cluster.label_node(f"n{number}", {"changed": str(number)})
        self.cluster.delete_pod(f"p{number}")
        self.cluster.delete_pod(f"new-{number}-b")
        self.cluster.delete_node(f"n{NODES - number}")

    def knows_change(self) -> bool:
        """Whether Placet has the node of the last change."""
        names = [f"new-{self._changes}"]
        question = pod("asked", self.cluster.namespace, GOVERNED)
        return bool(self.server.filter(question, names)["NodeNames"] == names)

    def wait_changed(self, seconds: float = HEALED_SECONDS) -> None:
        """Return once Placet has the last change."""
        until(
            lambda: self.knows_change() and self.objects() == {"nodes": NODES, "pods": PODS},
            seconds,
            lambda: f"the change known; {json.dumps(self.server.cache(), indent=1)}",
        )

    def objects(self) -> dict[str, int]:
        """Return how many objects Placet has of each resource."""
        return {name: each["objects"] for name, each in self.server.resources().items()}

    def check(self, most_lists: int, most_requests: int) -> None:
        """Assert what has to be so once a fault is over.

        All of a resource was asked for at most `most_lists` times, and anything at most
        `most_requests` times; the cache is as the server; Placet decides; nothing has leaked.
        """
        lists, asked = self._listed() - self._lists, self._requests() - self._asked
        relists = self.server.relists()
        print(f"{lists} lists, {asked} requests, relists {relists}")  # noqa: T201 - for -rP
        assert lists <= most_lists, relists
        assert asked <= most_requests, self._about_resources()[self._asked :]
        self._assert_sound()
        until(self._is_tidy, 20.0, lambda: f"{self._open} open, not {self._opened()}")

    def _assert_sound(self) -> None:
        assert self.server.is_ready()
        # Resources whose watch was not what broke may be a moment later.
        until(
            lambda: self.server.compare()["differences"] == [],
            HEALED_SECONDS,
            lambda: f"no differences: {self.server.compare()}",
        )
        answer = self.server.filter(pod("asked", self.cluster.namespace, GOVERNED), ["n0", "n9"])
        assert answer["NodeNames"] == ["n0", "n9"], answer

    def _listed(self) -> int:
        """How often all of a resource was asked for; without the proxy, how often it came."""
        came = sum(sum(reasons.values()) for reasons in self.server.relists().values())
        lists = sum(request.kind in ("stream", "list") for request in self._about_resources())
        return max(lists, came)

    def _requests(self) -> int:
        return len(self._about_resources())

    def _about_resources(self) -> list[Request]:
        """What was asked through the proxy about nodes and pods: the Lease is renewed all along."""
        return [request for request in self.proxy.requests if request.path in WATCHED]

    def _is_tidy(self) -> bool:
        opened = zip(self._opened(), self._open, strict=True)
        return all(now <= before + SLACK for now, before in opened)

    def _opened(self) -> tuple[int, int]:
        """Files and connections, and tasks."""
        return self.server.descriptors(), self.server.cache()["tasks"]


Start = Callable[..., Trial]


@contextmanager
def trials(plane: ControlPlane, cluster: Cluster, stage: Stage, folder: Path) -> Iterator[Start]:
    """Yield what starts a trial, with flags for Placet, by default as its own user."""
    cluster.create_nodes(node(f"n{number}") for number in range(NODES))
    cluster.create_pods(
        pod(f"p{number}", cluster.namespace, nodeName=f"n{number % NODES}")
        for number in range(PODS)
    )
    certificate = folder / "proxy.crt"
    with api_proxy(plane.url, plane.authority, certificate) as proxy:

        def start(*flags: str, user: dict[str, str] | None = None, directly: bool = False) -> Trial:
            server, authority = proxy.url, certificate
            if directly:
                server, authority = plane.url, plane.authority
            identity = user or {"token": plane.placet_token}
            file = kubeconfig(folder / "placet.kubeconfig", server, authority, identity)
            running = stage.watch(POLICY, file, *flags)
            running.wait_ready()
            return Trial(cluster, proxy, running)

        yield start
