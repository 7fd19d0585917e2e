"""Rollouts by a real kube-controller-manager: they end, and no upper bound is passed meanwhile."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane, controller_manager
from tests.e2e.deployments import LABEL, Check, Rolled, Rollouts
from tests.e2e.kubelets import PlacedPod
from tests.e2e.manifests import node
from tests.e2e.stage import Stage

ALONE = "--lease=none"
SPOT = 'node.labels["capacity"] == "spot"'
ZONES = "abc"
PERCENT = 40
ROLL = "RollingUpdate"


def rolling(surge: int | str, unavailable: int | str) -> dict[str, Any]:
    return {"type": ROLL, "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}


DEFAULT = rolling("25%", "25%")
RECREATE = {"type": "Recreate"}
STRATEGIES = {
    "default": DEFAULT,
    "surge": rolling(1, 0),
    "in-place": rolling(0, 1),
    "double": rolling("100%", 0),
    "half": rolling(0, "50%"),
    "numbers": rolling(3, 2),
    "recreate": RECREATE,
}
PEERS = f'pods where peer.labels["{LABEL}"] == pod.labels["{LABEL}"]'


def share(of: str, bound: str) -> str:
    return f'share "s" {{ of {of} on nodes where {SPOT} {bound} strict }}'


def on(where: Counter[str]) -> int:
    return sum(number for name, number in where.items() if name.startswith("spot"))


def share_check(pods: list[PlacedPod], to: str, replicas: int) -> str | None:
    """No more than 40 % of the wanted pods are on spot nodes after one more got there."""
    found = on(Counter(each.node for each in pods if not each.terminating))
    if to.startswith("spot") and found > replicas * PERCENT // 100:
        return f"{found} pods on spot nodes"
    return None


def no_check(pods: list[PlacedPod], to: str, replicas: int) -> str | None:
    return None


def limit_check(pods: list[PlacedPod], to: str, replicas: int) -> str | None:
    """No node has more than ten pods, terminating ones included."""
    found = Counter(each.node for each in pods)[to]
    return f"{found} pods on {to}" if found > 10 else None


@contextmanager
def rollouts(
    plane: ControlPlane,
    cluster: Cluster,
    served: Stage,
    folder: Path,
    clauses: str,
    check: Check,
    *,
    binds: bool = False,
) -> Iterator[Rollouts]:
    """Run a control plane with controllers under a policy of these clauses."""
    cluster.create_nodes(
        node(f"{kind}-{zone}", {"capacity": kind, "topology.kubernetes.io/zone": zone}, cpu="64")
        for kind in ("spot", "steady")
        for zone in ZONES
    )
    server = served.watch(clauses, None, ALONE, *(["--bind"] if binds else []))
    server.wait_ready()
    served.schedule(server, binds=binds)
    found = Rollouts(plane, cluster, check)
    with found.running(), controller_manager(plane, folder):
        yield found
        found.wait_complete(60.0)
    assert server.compare()["count"] == 0


def play(found: Rollouts, deployments: list[Rolled], seconds: float) -> None:
    """Each rollout ends: the first one, one that is rolled back in the middle, and scaled ones."""
    names = [each.name for each in deployments]
    found.create(deployments)
    found.wait_complete(seconds)
    found.roll_out("v2")
    found.wait_complete(seconds)
    found.roll_out("v3")
    found.wait_middle("v3")
    found.roll_out("v2")
    found.wait_complete(seconds)
    found.roll_out("v4")
    found.wait_middle("v4")
    found.scale({name: found.deployments[name].replicas + 3 for name in names})
    found.wait_complete(seconds)
    found.roll_out("v5")
    found.wait_middle("v5")
    found.scale({name: max(1, found.deployments[name].replicas // 2) for name in names})
    found.wait_complete(seconds)
    found.roll_out("v6")
    found.wait_complete(seconds)


def is_within_the_surge(found: Rollouts) -> None:
    """At the end no more pods are on spot nodes than wanted, and at most the surge is missing."""
    for name, rolled in found.deployments.items():
        there, wanted = on(found.placed(name)), rolled.replicas * PERCENT // 100
        assert wanted - found.surge(name) <= there <= wanted, (rolled, there)


def few() -> list[Rolled]:
    sizes = (1, 2, 3, 10)
    return [
        *(Rolled(f"default-{size}", size, DEFAULT) for size in sizes),
        *(Rolled(f"surge-{size}", size, rolling(1, 0)) for size in sizes),
        Rolled("recreate-3", 3, RECREATE),
    ]


@pytest.mark.e2e
@pytest.mark.parametrize("of", ["replicas", PEERS], ids=["replicas", "pods"])
def test_rollouts_under_an_exact_share(
    plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path, of: str
) -> None:
    """Every pod has a place; what is missing at the end is at most the surge."""
    clauses = share(of, f"exactly {PERCENT}%")
    with rollouts(plane, cluster, served, tmp_path, clauses, share_check) as found:
        play(found, few(), 60.0)
        is_within_the_surge(found)


@pytest.mark.e2e
def test_what_a_rollout_leaves_is_mended_when_it_is_scaled_down(
    plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path
) -> None:
    """With a bindVerb the deletion cost says which pods are the first to go."""
    clauses = share("replicas", f"exactly {PERCENT}%")
    with rollouts(plane, cluster, served, tmp_path, clauses, share_check, binds=True) as found:
        found.create([Rolled(f"web-{surge}", 10, rolling(surge, 0)) for surge in (1, 3, 10)])
        found.wait_complete(60.0)
        found.roll_out("v2")
        found.wait_complete(60.0)
        is_within_the_surge(found)
        before = {name: on(found.placed(name)) for name in found.deployments}
        found.scale(dict.fromkeys(found.deployments, 5))
        found.wait_complete(60.0)
        after = {name: on(found.placed(name)) for name in found.deployments}
        assert after == {name: min(number, 2) for name, number in before.items()}


@pytest.mark.e2e
def test_ten_restarts_end_within_the_skew(
    plane: ControlPlane, cluster: Cluster, served: Stage, tmp_path: Path
) -> None:
    """A spread counts the pods of the same template: those that go do not matter."""
    clauses = 'spread "zones" { over node.zone skew at most 1 strict }'
    sizes = [Rolled(f"web-{size}", size, rolling(1, 0)) for size in (4, 7, 10)]
    with rollouts(plane, cluster, served, tmp_path, clauses, no_check) as found:
        found.create(sizes)
        found.wait_complete(60.0)
        for restart in range(10):
            found.roll_out(f"v{restart + 2}")
            found.wait_complete(60.0)
            for name in found.deployments:
                zones = Counter(dict.fromkeys(ZONES, 0))
                for placed, number in found.placed(name).items():
                    zones[placed[-1]] += number
                assert max(zones.values()) - min(zones.values()) <= 1, (restart, name, zones)


# ---- the whole matrix

WIDE = {
    "exactly-replicas": (share("replicas", f"exactly {PERCENT}%"), share_check),
    "exactly-pods": (share(PEERS, f"exactly {PERCENT}%"), share_check),
    "at-most": (share("replicas", f"at most {PERCENT}%"), share_check),
    "at-most-all": (share("replicas", "at most 100%").replace(SPOT, "node.ready"), no_check),
    "at-least": (share("replicas", f"at least {PERCENT}%"), no_check),
    "spread": ('  spread "zones" { over node.zone skew at most 1 strict }', no_check),
    "limit": ('  limit "few" { per node at most 10 strict }', limit_check),
}


@pytest.mark.rollouts
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("bound", WIDE)
def test_every_strategy_and_size(
    plane: ControlPlane,
    cluster: Cluster,
    served: Stage,
    tmp_path: Path,
    bound: str,
    strategy: str,
) -> None:
    """Sizes 1 to 20 at once."""
    clauses, check = WIDE[bound]
    with rollouts(plane, cluster, served, tmp_path, clauses, check) as found:
        sizes = range(1, 21)
        deployments = [Rolled(f"web-{size}", size, STRATEGIES[strategy]) for size in sizes]
        play(found, deployments, 300.0)
        if bound.startswith("exactly"):
            is_within_the_surge(found)
