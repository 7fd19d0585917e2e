"""Deployments under a bound, rolled out by a real kube-controller-manager, and what it must keep.

A Rollouts has the Deployments of one test, created, changed and waited for together. It looks at
the counts of a Deployment whenever a pod of it gets a node.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.api import Api
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kubelets import Kubelets, PlacedPod, kubelets
from tests.e2e.manifests import pod
from tests.e2e.process import until
from tests.e2e.stage import GOVERNED

LABEL = "deployment"
# To look at all Deployments takes the API server some milliseconds.
INTERVAL_SECONDS = 0.5
# Says why the pods of a Deployment must not be where they are, after one of them got a node there:
# by the pods, the node, and the replicas that are wanted.
Check = Callable[[list[PlacedPod], str, int], str | None]


@dataclass(slots=True)
class Rolled:
    """A Deployment of a test: its replicas now, and the most since its last rollout has ended."""

    name: str
    replicas: int
    strategy: Mapping[str, Any]
    most: int = field(init=False)

    def __post_init__(self) -> None:
        self.most = self.replicas


class Rollouts:
    """The Deployments by name."""

    def __init__(self, plane: ControlPlane, cluster: Cluster, check: Check) -> None:
        self.deployments: dict[str, Rolled] = {}
        self.broken: list[str] = []
        self._kubelets: Kubelets | None = None
        self._plane = plane
        self._api = Api(plane)
        self._cluster = cluster
        self._check = check
        self._path = f"/apis/apps/v1/namespaces/{cluster.namespace}/deployments"

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run kubelets for the pods."""
        with kubelets(self._plane, self._cluster.namespace, self._bound) as running:
            self._kubelets = running
            yield

    def create(self, deployments: Iterable[Rolled]) -> None:
        for each in deployments:
            self.deployments[each.name] = each
            self._api.request("POST", self._path, self._manifest(each))

    def roll_out(self, revision: str, names: Iterable[str] = ()) -> None:
        """Set another template; an earlier revision is a rollback."""
        template = {"metadata": {"annotations": {"revision": revision}}}
        for name in names or self.deployments:
            self._change(name, {"template": template})

    def pause_in_the_middle(self, name: str, revision: str) -> None:
        """Begin a rollout, and pause it when some pods are of the new template."""
        self.roll_out(revision, [name])
        self.wait_middle(revision)
        self._change(name, {"paused": True})

    def resume(self, name: str) -> None:
        self._change(name, {"paused": False})

    def scale(self, replicas: Mapping[str, int]) -> None:
        for name, wanted in replicas.items():
            rolled = self.deployments[name]
            rolled.replicas = wanted
            # What is bound now may have been offered its node before.
            rolled.most = max(rolled.most, wanted)
            self._change(name, {"replicas": wanted})

    def wait_middle(self, revision: str, seconds: float = 60.0) -> None:
        """Return once every Deployment has begun to roll out a revision, and some are not done."""

        def begun() -> bool:
            found = self._api.request("GET", self._path)["items"]
            return all(
                each["status"].get("updatedReplicas", 0) > 0
                and each["spec"]["template"]["metadata"]["annotations"]["revision"] == revision
                and _observed(each)
                for each in found
            )

        until(begun, seconds, self._report)

    def wait_complete(self, seconds: float) -> None:
        """Return once every Deployment has all its pods and no others; fail on a broken bound."""

        def complete() -> bool:
            assert not self.broken, self.broken
            return not self._incomplete() and self._is_settled()

        until(complete, seconds, self._report, INTERVAL_SECONDS)
        for each in self.deployments.values():
            each.most = each.replicas

    def placed(self, name: str) -> Counter[str]:
        """The pods of a Deployment by node, terminating ones left out."""
        pods = self._of(name)
        return Counter(each.node for each in pods if not each.terminating)

    def surge(self, name: str) -> int:
        """The pods that a Deployment may have beyond its replicas."""
        rolled = self.deployments[name]
        if rolled.strategy.get("type") == "Recreate":
            return 0
        value = rolled.strategy.get("rollingUpdate", {}).get("maxSurge", "25%")
        if isinstance(value, int):
            return value
        return -(-int(value.rstrip("%")) * rolled.replicas // 100)

    def _is_settled(self) -> bool:
        """Whether no pod is on its way, and the watch has told of all there are."""
        found = self._api.request("GET", f"/api/v1/namespaces/{self._cluster.namespace}/pods")
        there = {each["metadata"]["name"]: each for each in found["items"]}
        ending = any("deletionTimestamp" in each["metadata"] for each in there.values())
        return not ending and there.keys() == self._pods().keys()

    def _pods(self) -> Mapping[str, PlacedPod]:
        assert self._kubelets is not None, "they run"
        return dict(self._kubelets.pods)

    def _of(self, name: str) -> list[PlacedPod]:
        return [each for each in self._pods().values() if each.labels[LABEL] == name]

    def _bound(self, bound: PlacedPod) -> None:
        rolled = self.deployments[bound.labels[LABEL]]
        problem = self._check(self._of(rolled.name), bound.node, rolled.most)
        if problem is not None:
            self.broken.append(f"{rolled}: {problem}")

    def _incomplete(self) -> list[str]:
        found = self._api.request("GET", self._path)["items"]
        return [each["metadata"]["name"] for each in found if not self._is_complete(each)]

    def _is_complete(self, deployment: dict[str, Any]) -> bool:
        wanted, status = deployment["spec"]["replicas"], deployment["status"]
        numbers = ("replicas", "updatedReplicas", "availableReplicas")
        return _observed(deployment) and all(status.get(each, 0) == wanted for each in numbers)

    def _report(self) -> str:
        late = self._incomplete()
        return f"rollouts of {late}; {[self.deployments[name] for name in late]}"

    def _change(self, name: str, spec: dict[str, Any]) -> None:
        self._api.request("PATCH", f"{self._path}/{name}", {"spec": spec})

    def _manifest(self, rolled: Rolled) -> dict[str, Any]:
        where, labels = self._cluster.namespace, {LABEL: rolled.name}
        template = pod(
            "", where, {**GOVERNED, **labels}, cpu="1m", terminationGracePeriodSeconds=30
        )
        template["metadata"] = {
            "labels": {**GOVERNED, **labels},
            "annotations": {"revision": "v1"},
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": rolled.name, "namespace": where},
            "spec": {
                "replicas": rolled.replicas,
                "selector": {"matchLabels": labels},
                "strategy": dict(rolled.strategy),
                "template": {"metadata": template["metadata"], "spec": template["spec"]},
            },
        }


def _observed(deployment: dict[str, Any]) -> bool:
    """Whether the controller has seen the last change."""
    seen: int = deployment["status"].get("observedGeneration", 0)
    generation: int = deployment["metadata"]["generation"]
    return seen >= generation
