"""Placet, the recorder and kube-scheduler in front of one test's nodes, wired together."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.placet import placet
from tests.e2e.recorder import Recorder, recorder

Mode = Literal["names", "full"]

GOVERNED = {"app": "web"}


class Stage:
    """Starts what a test needs once its nodes are registered; a second start is not foreseen."""

    def __init__(
        self, plane: ControlPlane, cluster: Cluster, folder: Path, programs: ExitStack
    ) -> None:
        """Prepare a folder for policies and logs; nothing runs yet."""
        self._plane = plane
        self._cluster = cluster
        self._folder = folder
        self._programs = programs
        self._policies = folder / "web.policy"

    def start(self, clauses: str, mode: Mode = "names", percentage: int | None = None) -> Recorder:
        """Serve a policy of these clauses and schedule by it; return what the scheduler asks.

        In names mode Placet knows the nodes from a snapshot taken now, in full mode from each call.
        """
        self.write_policy(clauses)
        snapshot = None
        if mode == "names":
            snapshot = self._cluster.write_snapshot(self._folder / "snapshot.json")
        port = self._programs.enter_context(placet(self._folder, self._policies, snapshot))
        calls = self._programs.enter_context(recorder(port))
        entry = extender(calls.address, node_cache_capable=mode == "names")
        self._programs.enter_context(kube_scheduler(self._plane, self._folder, [entry], percentage))
        return calls

    def write_policy(self, clauses: str) -> None:
        """Let these clauses govern the pods labelled GOVERNED in the test's namespace."""
        label, value = next(iter(GOVERNED.items()))
        self._policies.write_text(
            f'policy web in namespace "{self._cluster.namespace}" {{\n'
            f'  for pods where pod.labels["{label}"] == "{value}"\n'
            f"{clauses}\n"
            "}\n"
        )


@contextmanager
def stage(plane: ControlPlane, cluster: Cluster, folder: Path) -> Iterator[Stage]:
    """Yield a stage and end what it started, the scheduler first: it is a client of the rest."""
    with ExitStack() as programs:
        yield Stage(plane, cluster, folder, programs)
