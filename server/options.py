"""Options of a server: the flags and fields of `placet serve`, and what follows from them.

The fields are the flags by their keys, but for those that are made of several flags.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.counting.in_flight_pods import DEFAULT_SCHEDULERS, Schedulers
from engine.drift.drift_document import RepairMode
from engine.objects.peer import DEFAULT_SCHEDULER
from engine.objects.request_pod import NO_EXEMPTIONS, Exemptions
from engine.selectors.terms import NOTHING_FROZEN, Frozen
from policies.disk import Visit
from server.settings import SelfSigned, Settings


class SnapshotOrigin(Protocol):
    """A source of snapshots that can be read repeatedly."""

    def files(self, visit: Visit) -> Iterable[Path]:
        """The files to watch for changes. Raises ClusterFileError."""

    def contents(self) -> Iterable[tuple[Path, bytes]]:
        """The JSON documents, each with its file. Raises ClusterFileError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Settings):
    """The options of a server, with the settings of its main address.

    A server that `watches` has a running cluster; another one has that of `snapshots`, or none.
    """

    version: str = "0"
    policies: Sequence[Path] = ()
    snapshots: SnapshotOrigin | None = None
    watches: bool = False
    kubeconfig: Path | None = None
    context: str | None = None
    # The namespace and name of the Lease that replicas share; None if there are no other replicas.
    lease: tuple[str, str] | None = None
    # Whether it is ready only while it holds the Lease.
    standby: bool = False
    watch_idle: float = 120.0
    kube_api_qps: float = 200.0
    kube_api_burst: int = 400
    repair: RepairMode = "off"
    exemptions: Exemptions = NO_EXEMPTIONS
    # Those that call it. It binds only if they have a bindVerb, and only in a watched cluster.
    schedulers: Schedulers = DEFAULT_SCHEDULERS
    # The `schedulerName` of new pods of namespaces that opt in.
    scheduler: str = DEFAULT_SCHEDULER
    # What nobody can change in a pod.
    frozen: Frozen = NOTHING_FROZEN
    # The namespaces whose new pods wait for policies that are older than them.
    policy_first: frozenset[str] = frozenset()
    # The certificate that Placet keeps in the cluster; `tls` names its file.
    self_signed: SelfSigned | None = None
    # The folder of files that policies read; CA, token and headers of Prometheus servers.
    data_folder: Path | None = None
    data_ca: Path | None = None
    data_token: Path | None = None
    data_headers: Path | None = None
    # None for no view.
    view_port: int | None = None
    # The file in which the numbers of the page survive a restart.
    history: Path | None = None
