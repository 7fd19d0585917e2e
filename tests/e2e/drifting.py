"""Drifting: a Deployment of which all pods are on spot nodes, until its policy is edited.

A real kube-controller-manager makes pods anew that are evicted, and there are kubelets for them.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.api import watched_bindings
from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import DEPLOYMENTS, ControlPlane, controller_manager
from tests.e2e.deployments import Rolled, Rollouts
from tests.e2e.manifests import node
from tests.e2e.placet import Placet
from tests.e2e.process import until
from tests.e2e.stage import GOVERNED, Stage

_REASON = "EvictionByEvictionAPI"


class Evictions:
    """Each eviction with the time and the name of its pod; and how few pods were ready at once."""

    def __init__(self) -> None:
        self.made: list[tuple[float, str]] = []
        self.fewest: int | None = None
        self._ready: set[str] = set()
        self._uids: set[str] = set()
        self._is_counting = False

    def begin(self) -> None:
        """Begin to look how few are ready: all are now."""
        self.fewest, self._is_counting = len(self._ready), True

    def names(self) -> Sequence[str]:
        return [name for _, name in list(self.made)]

    def most_in(self, seconds: float) -> int:
        """The most evictions in so many seconds."""
        times = [at for at, _ in list(self.made)]
        return max((sum(0 <= t - at < seconds for t in times) for at in times), default=0)

    def event(self, line: bytes) -> None:
        """Takes an event of the watch."""
        event = json.loads(line)
        pod = event["object"]
        uid, ends = pod["metadata"]["uid"], "deletionTimestamp" in pod["metadata"]
        conditions = {each["type"]: each for each in pod["status"].get("conditions", ())}
        if conditions.get("Ready", {}).get("status") == "True" and not ends:
            self._ready.add(uid)
        else:
            self._ready.discard(uid)
        if self._is_counting and self.fewest is not None:
            self.fewest = min(self.fewest, len(self._ready))
        if ends and uid not in self._uids and _was_evicted(conditions):
            self._uids.add(uid)
            self.made.append((time.monotonic(), pod["metadata"]["name"]))


def _was_evicted(conditions: dict[str, Any]) -> bool:
    return bool(conditions.get("DisruptionTarget", {}).get("reason") == _REASON)


@contextmanager
def watched_evictions(plane: ControlPlane, namespace: str) -> Iterator[Evictions]:
    """Follow the evictions of a namespace while the block runs."""
    found = Evictions()
    with watched_bindings(plane, namespace, found.event):
        yield found


# The policy of a stage is of a file, and no other replica may lead.
FLAGS = ("--lease=none", "--repair=on")
SPOT = 'node.labels["capacity"] == "spot"'
FIRST = f'  filter "spot" {{ require {SPOT} }}'
PERCENT = 40
WEB = "web"
BUDGETS = (*DEPLOYMENTS, "disruption-controller")
SHARE = f'  share "spot" {{ of replicas on nodes where {SPOT} at most {PERCENT}% strict }}'


def repair(rate: int) -> str:
    """The clauses of a policy that is repaired."""
    return f"  repair at most {rate} per minute\n{SHARE}"


def budget(namespace: str) -> dict[str, Any]:
    """A PodDisruptionBudget: one pod may be missing."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": WEB, "namespace": namespace},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": GOVERNED}},
    }


@dataclass(frozen=True)
class Drifting:
    """The Deployment `web`, its pods, and their evictions."""

    rollouts: Rollouts
    evictions: Evictions
    pods: int

    @property
    def wanted(self) -> int:
        """So many pods may be on spot nodes."""
        return self.pods * PERCENT // 100

    @property
    def moved(self) -> int:
        """So many pods have to move."""
        return self.pods - self.wanted

    def on_spot(self) -> int:
        placed = self.rollouts.placed(WEB).items()
        return sum(number for name, number in placed if name.startswith("spot"))

    def is_repaired(self) -> bool:
        is_whole = sum(self.rollouts.placed(WEB).values()) == self.pods
        return is_whole and self.on_spot() == self.wanted

    def wait_evicted(self, number: int, seconds: float, report: Callable[[], str]) -> None:
        """Return once so many pods were evicted."""
        until(lambda: len(self.evictions.made) >= number, seconds, report)


def spot_and_steady(steady_cpu: str) -> list[dict[str, Any]]:
    return [
        *(node(f"spot-{number}", {"capacity": "spot"}, cpu="64") for number in range(2)),
        node("steady-0", {"capacity": "steady"}, cpu=steady_cpu),
    ]


@contextmanager
def deployed(
    plane: ControlPlane,
    cluster: Cluster,
    folder: Path,
    deployments: Sequence[Rolled],
    controllers: Sequence[str] = BUDGETS,
) -> Iterator[Drifting]:
    """The pods of these Deployments, once all are placed, by whatever policy is in force."""
    rollouts = Rollouts(plane, cluster, lambda *_: None)
    with (
        rollouts.running(),
        watched_evictions(plane, cluster.namespace) as evictions,
        controller_manager(plane, folder, controllers),
    ):
        rollouts.create(deployments)
        rollouts.wait_complete(120.0)
        yield Drifting(rollouts, evictions, deployments[0].replicas)


def web(pods: int) -> Rolled:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    return Rolled(WEB, pods, strategy)


@contextmanager
def drifted(
    plane: ControlPlane,
    cluster: Cluster,
    served: Stage,
    folder: Path,
    pods: int,
    rate: int,
    steady_cpu: str = "64",
) -> Iterator[tuple[Drifting, Placet]]:
    """All pods are on spot nodes, with a budget of one, and the policy is edited then."""
    cluster.create_nodes(spot_and_steady(steady_cpu))
    server = served.watch(FIRST, None, *FLAGS)
    server.wait_ready()
    served.schedule(server)
    cluster.apply(budget(cluster.namespace))
    with deployed(plane, cluster, folder, [web(pods)]) as found:
        assert found.on_spot() == pods
        found.evictions.begin()
        served.write_policy(repair(rate))
        yield found, server


def said(server: Placet, policy: str = WEB) -> dict[str, Any]:
    """What the server says of the repair of a policy."""
    repairs = server.drift().get("repairs", ())
    found = (each for each in repairs if each["policy"].rpartition("/")[2] == policy)
    return next(found, {"state": "", "text": ""})
