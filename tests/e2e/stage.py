"""Placet, the recorder and kube-scheduler in front of one test's nodes, wired together."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from tests.e2e.cluster import Cluster
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kube_scheduler import extender, kube_scheduler
from tests.e2e.placet import Placet, placet
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
        view = "--no-cluster"
        if mode == "names":
            view = f"--cluster={self._cluster.write_snapshot(self._folder / 'snapshot.json')}"
        server = self._serve(clauses, view)
        server.wait_ready()
        return self._schedule(server, percentage, node_cache_capable=mode == "names")

    def watch(self, clauses: str, kubeconfig: Path | None = None, *flags: str) -> Placet:
        """Serve a policy of these clauses from the API server itself; it may not be ready yet."""
        return self._serve(
            clauses, f"--kubeconfig={kubeconfig or self._plane.placet_kubeconfig}", *flags
        )

    def watch_objects(self, kubeconfig: Path | None = None, *flags: str) -> Placet:
        """Serve the policies that the cluster has; it may not be ready yet."""
        reach = f"--kubeconfig={kubeconfig or self._plane.placet_kubeconfig}"
        return self._programs.enter_context(placet(self._folder, None, reach, *flags))

    def schedule(
        self,
        server: Placet,
        percentage: int | None = None,
        *,
        binds: bool = False,
        mode: Mode = "names",
    ) -> Recorder:
        """Schedule by a Placet that knows the nodes, and may bind; return what is asked of it."""
        capable = mode == "names"
        return self._schedule(server, percentage, node_cache_capable=capable, binds=binds)

    def write_policy(self, clauses: str) -> None:
        """Let these clauses govern the pods labelled GOVERNED in the test's namespace."""
        label, value = next(iter(GOVERNED.items()))
        self._policies.write_text(
            f'policy web in namespace "{self._cluster.namespace}" {{\n'
            f'  for pods where pod.labels["{label}"] == "{value}"\n'
            f"{clauses}\n"
            "}\n"
        )

    def _serve(self, clauses: str, *flags: str) -> Placet:
        self.write_policy(clauses)
        return self._programs.enter_context(placet(self._folder, self._policies, *flags))

    def _schedule(
        self,
        server: Placet,
        percentage: int | None,
        *,
        node_cache_capable: bool,
        binds: bool = False,
    ) -> Recorder:
        calls = self._programs.enter_context(recorder(server.port))
        entry = extender(calls.address, node_cache_capable=node_cache_capable, binds=binds)
        self._programs.enter_context(kube_scheduler(self._plane, self._folder, [entry], percentage))
        return calls


@contextmanager
def stage(plane: ControlPlane, cluster: Cluster, folder: Path) -> Iterator[Stage]:
    """Yield a stage and end what it started, the scheduler first: it is a client of the rest."""
    with ExitStack() as programs:
        yield Stage(plane, cluster, folder, programs)
