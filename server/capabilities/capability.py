"""Capability: something of a server that can be taken out, as a value made of its parts.

The verbs answer without it. It is opened once, in a Site, and lives as long as the server. The
server asks and tells each capability alike, so nobody else knows one by its name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from engine.cache.cache import Cache, PodEventHandler
from engine.cache.node_table import Snapshot
from engine.cache.reflector import Report
from engine.cluster.client import CORE, Api, path_of, read_if_there
from engine.cluster.data_fetching import DataApi
from engine.cluster.events import Events, PodEvent, regarding
from engine.decision.registry import Registry
from engine.decision.verb_call import ClusterState
from engine.enforced import EnforcedPolicies
from engine.engine import Engine
from engine.facts import Facts
from engine.objects.peer import Peer, key_of
from engine.objects.request_pod import ObjectCodec, RequestPod
from engine.program.policy_time import PolicyTimes
from server.capabilities.policy_statuses import StatusTopic
from server.http.health import Readiness
from server.metrics.families import Sample
from server.options import Options
from server.supervisor import Background, Work
from server.view.routes import Answer, Route


@dataclass(frozen=True, slots=True)
class LedCluster:
    """A cluster that one of several replicas writes to: while it `leads`.

    `snapshot` raises NotSyncedError, `objects` are the policy objects as JSON by resource and key,
    and `report` takes what could not be done.
    """

    api: Api
    cache: Cache
    snapshot: Callable[[], Snapshot]
    objects: Callable[[], Mapping[str, bytes]]
    leads: Callable[[], bool]
    events: Events
    report: Report

    async def pod(self, key: str) -> bytes | None:
        """The JSON of a pod, None if there is none. Raises ApiError and ApiUnreachableError."""
        namespace, _, name = key.partition("/")
        return await read_if_there(self.api, path_of(CORE, "pods", namespace, name))

    def has(self, pod: Peer) -> bool:
        """Whether the cache has this pod, not only another of the same name."""
        known = self.cache.pod(key_of(pod))
        return known is not None and known.uid == pod.uid

    def tell(
        self, name: str, kind: Literal["Normal", "Warning"], reason: str, action: str, note: str
    ) -> None:
        """Adds an event about a policy object; a policy of a file has none."""
        if (raw := self.objects().get(name)) is not None:
            self.events.add(PodEvent(regarding(raw), kind, reason, action, note))


@dataclass(frozen=True, slots=True)
class Site:
    """The site of capabilities: the server in which they are opened.

    Without a watched cluster `led` and `api` are None, and `view` has what files say. `times` has
    the time of policies. `enforced` gives what is in force now, and `catch_up` looks for newer
    policies first.
    """

    replica: str
    engine: Engine
    view: ClusterState
    led: LedCluster | None
    api: DataApi | None
    options: Options
    background: Background
    codec: ObjectCodec
    times: PolicyTimes
    enforced: Callable[[], EnforcedPolicies]
    catch_up: Callable[[], Awaitable[None]]


def _ignored(*_: object) -> None:
    """Does nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An opened capability: functions that the server calls, and tasks that it runs.

    `adopted` takes the policies at the start and after each change. `pod_changed` hears of the pods
    of the cache, and must be quick. `hold` raises BriefWaitError for a pod that filter does not
    decide about yet. `status` is a part of the statuses of policies, `facts` are tables in the
    status of the replica, `samples` metrics, and `checks` lines of `/readyz`. `events` are those
    since the last call, which the leader writes. `answers` are to questions of its routes, by their
    names. `work` has tasks by name, which begin once the cluster is known. `patch` is the JSON
    patch of a new pod; it raises BadObjectError.
    """

    adopted: Callable[[Registry], None] = _ignored
    pod_changed: PodEventHandler | None = None
    hold: Callable[[RequestPod], None] = _ignored
    status: StatusTopic = lambda: _ignored
    facts: Callable[[], Facts] = dict
    samples: Callable[[], Iterable[Sample]] = tuple
    checks: Readiness = tuple
    events: Callable[[], Iterable[PodEvent]] = tuple
    answers: Mapping[str, Answer] = field(default_factory=dict)
    work: Mapping[str, Work] = field(default_factory=dict)
    patch: Callable[[bytes], Sequence[object]] = lambda _: ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """A capability by its name; `metrics` are rows of the table of metrics.

    Who asks one of its `routes` must be allowed to list the pods of the cluster. `keys` says of its
    labels and annotations what they are, as docs/keys.md does. `rights` has, by the value of the
    chart that gives them, what it may do in the cluster, as in `list,watch jobs.batch`.
    """

    name: str
    open: Callable[[Site], Opened]
    metrics: Mapping[str, str] = field(default_factory=dict)
    routes: Sequence[Route] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    rights: Mapping[str, str] = field(default_factory=dict)
