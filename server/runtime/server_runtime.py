"""Serve: builds a server from its options, on the event loop, and runs it until the stop.

Every part is whole when it is built: policies first, then the view of the cluster, the engine over
both, and the application over the engine.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from logging import Logger
from pathlib import Path

from aiohttp import web

from engine.cache.informers import Needs
from engine.cluster.binding import Binder
from engine.cluster.client import Api
from engine.cluster.data_fetching import DataApi
from engine.counting.in_flight_pods import DEFAULT_SCHEDULERS, Schedulers
from engine.decision.after import AfterDecision
from engine.decision.journal import Journal
from engine.decision.placement import ReplicaRole, open_gate
from engine.decision.recent_answers import LastAnswers, RejectedPods
from engine.enforced import EnforcedPolicies
from engine.engine import Engine
from engine.errors import NotSyncedError
from engine.objects.codec import ObjectCodec
from engine.objects.peer import DEFAULT_SCHEDULER
from engine.objects.request_pod import Exemptions
from engine.portable.label_conditions import NOTHING_FROZEN, Frozen
from engine.program.policy_time import DecisionTime, PolicyTimes, WorkClock
from grammar.meaning.schema import Schema
from policies.admission import Examiner
from server.admission.checking_process import CheckingProcess
from server.admission.webhooks import WebhookParts
from server.api_failures import ApiFailures
from server.app import WARNINGS, WEBHOOKS, AppParts, create_app
from server.http import sockets as running
from server.http.bodies import ByteBudget
from server.http.connections import Connections
from server.http.health import Heartbeat, Readiness, ReadinessCheck
from server.http.middleware import Traced
from server.http.sockets import Shutdown
from server.http.tls import Credentials
from server.log_limit import LimitedLog
from server.metrics.metrics import Metrics
from server.runtime.cluster_runtime import (
    Access,
    Background,
    ClusterRuntime,
    Deciding,
    open_cluster,
)
from server.runtime.data_tables import DataAccess, DataTables
from server.runtime.file_cluster import FileCluster, NoCluster, SnapshotOrigin
from server.runtime.observers import LogObserver
from server.runtime.policies import PolicyReader
from server.runtime.policy_first import PolicyFirst
from server.runtime.portable_pods import PortablePods
from server.runtime.reloader import (
    ClusterSource,
    PolicyReloader,
)
from server.settings import SelfSigned, Settings, TraceTarget
from server.supervisor import Supervisor
from server.view.drafts import DRAFT_MEMORY_MIB, Drafts
from server.view.explaining import Explainer
from server.view.history import History, SampledNumbers
from server.view.overview import Overview
from server.view.page import DEFAULT_PORT, HOST
from server.view.policy_states import PolicyStates
from server.view.simulating import Simulator
from server.view.status import StatusReader
from server.view.view import (
    MOST_CONNECTIONS,
    MOST_SHARED_CONNECTIONS,
    View,
    view_app,
)
from server.view.view_access import ViewAccess

# Seconds from a rejection to the first requeue, and the longest pause between two requeues.
_FIRST_PAUSE_SECONDS, _MOST_PAUSE_SECONDS = 1.0, 60.0
# Processes for the webhooks; a second one, so that no namespace keeps the others waiting.
_ADMISSION_PROCESSES = 2
# Drafts get what decisions leave of the processor.
_NICEST = 19


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a server. `cluster` is watched, an origin of snapshots, or None.

    `schedulers` are those that call it. It has the verb bind only if they call that, and only in a
    watched cluster. Without a `view_port` there is no view.
    """

    settings: Settings
    policies: Sequence[Path]
    cluster: Access | SnapshotOrigin | None
    exemptions: Exemptions
    version: str
    schedulers: Schedulers = DEFAULT_SCHEDULERS
    view_port: int | None = DEFAULT_PORT
    # The `schedulerName` of new pods of namespaces that opt in.
    scheduler: str = DEFAULT_SCHEDULER
    # What nobody can change in a pod.
    frozen: Frozen = NOTHING_FROZEN
    # The certificate that Placet keeps in the cluster; `settings.tls` names its file.
    self_signed: SelfSigned | None = None
    data: DataAccess = field(default_factory=DataAccess)
    # The namespaces whose new pods wait for policies that are older than them.
    policy_first: frozenset[str] = frozenset()
    # The file in which the numbers of the page survive a restart.
    history: Path | None = None
    # Where the spans of calls go.
    traces: TraceTarget | None = None


class CannotListenError(Exception):
    """An address that cannot be listened on; `flag` is the flag that names it."""

    def __init__(self, error: OSError, address: tuple[str, int], flag: str) -> None:
        super().__init__(str(error))
        self.error = error
        self.address = address
        self.flag = flag


class ServerReadiness:
    """The checks of `/readyz`: the start, or what `begin` was told; and what runs beside it."""

    def __init__(self, shutdown: Shutdown, supervisor: Supervisor, failures: ApiFailures) -> None:
        self._shutdown = shutdown
        self._supervisor = supervisor
        self._failures = failures
        self._begun: Readiness = lambda: (ReadinessCheck("start", "not started yet"),)

    def begin(self, readiness: Readiness) -> None:
        """The server has started, and is ready from now on if this is."""
        self._begun = readiness

    def __call__(self) -> Sequence[ReadinessCheck]:
        others = (*self._supervisor.checks(), *self._failures.checks())
        return (self._shutdown.check(), *self._begun(), *others)


@dataclass(frozen=True, slots=True)
class _Common:
    """What is common to all parts of a server: options, metrics, and the background."""

    options: Options
    schema: Schema
    metrics: Metrics
    shutdown: Shutdown
    background: Background
    readiness: ServerReadiness

    @property
    def log(self) -> Logger:
        return self.background.log

    @property
    def supervisor(self) -> Supervisor:
        return self.background.supervisor


@dataclass(frozen=True, slots=True)
class _CheckingProcesses:
    """The processes that read what may be hostile, by what they read."""

    drafts: CheckingProcess
    policies: CheckingProcess
    admission: Sequence[CheckingProcess]


async def serve(
    options: Options,
    schema: Schema,
    metrics: Metrics,
    credentials: Credentials | None,
    log: Logger,
    started: Callable[[str, PolicyReloader], None],
) -> None:
    """Serves until SIGTERM or SIGINT; `started` is called with the URL.

    Raises ClusterFileError, ClusterConfigurationError, CannotListenError and TlsError.
    """
    # What has been imported stays, so no collection has to visit it while the cluster is read.
    gc.freeze()
    async with AsyncExitStack() as stack:
        stack.enter_context(running.ended_by_sigterm())
        common = _common(stack, options, schema, metrics, log)
        _serve_health(stack, common)
        processes = _checking_processes(stack, schema)
        policies = PolicyReader(options.policies, schema, log, processes.policies)
        objects: Mapping[str, bytes] | None = None if isinstance(options.cluster, Access) else {}
        enforced = policies.read(objects)
        view = await _open_view(stack, common, enforced.needs)
        cluster = view if isinstance(view, ClusterRuntime) else None
        if cluster is not None:
            credentials = await _kept_certificate(common, cluster.api) or credentials
        answers = None
        if cluster is not None and options.schedulers.call_bind:
            answers = cluster.last_answers()
        deciding = _deciding(stack, common, view, answers, policies, objects, enforced)
        binder = None
        if cluster is not None and answers is not None:
            binder = cluster.binder(deciding.engine, answers, options.schedulers)
        app = _application(stack, common, deciding, binder, processes.admission)
        common.readiness.begin(_readiness(deciding, app, credentials))
        shown = _shown(stack, common, deciding, processes.drafts, credentials)
        access = ViewAccess(cluster.api) if cluster is not None else None
        await _serve_view(stack, common, shown, access, credentials)
        if cluster is not None:
            await cluster.follow(stack, deciding, binder, metrics.pod_seen)
        common.background.run(stack, "policies", deciding.reloader.run)
        if credentials is not None:
            common.supervisor.start("certificates", credentials.run)
        settings = options.settings
        if (address := settings.webhooks) is not None:
            own = replace(settings, host=address[0], port=address[1])
            await _listen(stack, common, app[WEBHOOKS], own, "--webhook-listen", credentials)
            credentials = None
        with _listening((settings.host, settings.port), "--listen"):
            await running.serve(
                app,
                settings,
                lambda url: started(url, deciding.reloader),
                credentials,
                common.shutdown,
            )


# ---- the steps, in their order


def _common(
    stack: AsyncExitStack, options: Options, schema: Schema, metrics: Metrics, log: Logger
) -> _Common:
    """What the parts share. Background tasks end with the stack."""
    shutdown, failures = Shutdown(), ApiFailures(log)
    metrics.api_failing(lambda: failures.failing)
    supervisor = Supervisor(log, metrics.task_restarted)
    stack.push_async_callback(supervisor.stop)
    background = Background(log, supervisor, failures, lambda: shutdown.has_begun)
    readiness = ServerReadiness(shutdown, supervisor, failures)
    return _Common(options, schema, metrics, shutdown, background, readiness)


def _serve_health(stack: AsyncExitStack, common: _Common) -> None:
    """Serves health and metrics from a thread of their own until the stack ends, if it is told to.

    Raises CannotListenError.
    """
    settings, metrics, log = common.options.settings, common.metrics, common.log
    if settings.health is None:
        return
    heartbeat = Heartbeat(common.readiness)
    common.supervisor.start("heartbeat", heartbeat.run)
    host, port = settings.health
    own = replace(settings, host=host, port=port, tls=None, webhooks=None)
    serving = running.health_server(own, heartbeat, metrics, common.options.version, log)
    with _listening(settings.health, "--health-listen"):
        url = stack.enter_context(serving)
    log.info("health and metrics on %s", url)


def _checking_processes(stack: AsyncExitStack, schema: Schema) -> _CheckingProcesses:
    """The processes for checks, until the stack ends."""
    policies, *admission = [CheckingProcess(schema) for _ in range(1 + _ADMISSION_PROCESSES)]
    # A trial keeps a cluster from one part to the next.
    drafts = CheckingProcess(schema, _NICEST, DRAFT_MEMORY_MIB, kept_mib=DRAFT_MEMORY_MIB)
    for process in (drafts, policies, *admission):
        stack.callback(process.close)
    return _CheckingProcesses(drafts, policies, admission)


async def _open_view(stack: AsyncExitStack, common: _Common, needs: Needs) -> ClusterSource:
    """The view of the cluster, until the stack ends."""
    match common.options.cluster:
        case None:
            return NoCluster()
        case Access() as access:
            version, background = common.options.version, common.background
            opening = open_cluster(access, common.schema, needs, version, background)
            return await stack.enter_async_context(opening)
        case origin:
            return FileCluster(origin, common.schema, needs, common.log)


async def _kept_certificate(common: _Common, api: Api) -> Credentials | None:
    """The credentials of a certificate that Placet keeps in a Secret, once there is one.

    None without such a Secret. Raises TlsError.
    """
    wanted, files = common.options.self_signed, common.options.settings.tls
    if wanted is None or files is None:
        return None
    # No other server needs the library for certificates.
    from server.runtime.certificate_keeper import CertificateKeeper  # noqa: PLC0415

    report = common.background.failures.report
    keeper = CertificateKeeper(api, wanted, files.certificate, common.log, report)
    await keeper.first()
    common.supervisor.start("tls-secret", keeper.run)
    return Credentials(files, common.metrics, common.log)


def _deciding(
    stack: AsyncExitStack,
    common: _Common,
    view: ClusterSource,
    answers: LastAnswers | None,
    policies: PolicyReader,
    objects: Mapping[str, bytes] | None,
    enforced: EnforcedPolicies,
) -> Deciding:
    """The engine over the view, and all that hears of its decisions or changes its policies.

    `answers` keeps those of filter for a binder. `enforced` was read from files and `objects`.
    """
    options, metrics, codec = common.options, common.metrics, ObjectCodec(common.schema)
    cluster = view if isinstance(view, ClusterRuntime) else None
    rejected = RejectedPods(
        time.monotonic, _FIRST_PAUSE_SECONDS, _MOST_PAUSE_SECONDS, lambda: view.snapshot().table
    )
    observer, journal, work = LogObserver(common.log, metrics), Journal(), WorkClock()
    stack.callback(work.close)
    times = PolicyTimes(
        time.monotonic,
        work,
        observer.expensive,
        metrics.charged,
        lambda: view.cluster_size().nodes,
    )
    gate = cluster.gate if cluster is not None else open_gate
    has_first = cluster is not None and options.policy_first
    first = PolicyFirst(options.policy_first) if has_first else None
    hold = first.check if first is not None else None
    schedulers = options.schedulers
    engine = Engine(
        enforced.registry,
        view,
        codec,
        observer,
        exemptions=options.exemptions,
        role=ReplicaRole(gate, schedulers.call_bind, cluster is not None, hold, schedulers),
        time=DecisionTime(policies=times),
        after=AfterDecision(
            journal=journal,
            rejected=rejected if cluster is not None else None,
            answers=answers,
            later=asyncio.get_running_loop().call_soon,
        ),
    )
    data = _tables(stack, common, engine, cluster.api if cluster is not None else None)
    reloader = PolicyReloader(
        policies,
        enforced,
        objects,
        view,
        engine,
        common.log,
        binds=schedulers.call_bind,
        adopted=data.adopt,
    )
    told = PortablePods(engine, codec, options.frozen, times)
    return Deciding(engine, journal, observer, rejected, reloader, told, schedulers, data, first)


def _tables(
    stack: AsyncExitStack, common: _Common, engine: Engine, api: DataApi | None
) -> DataTables:
    """The tables of the policies of an engine, until the stack ends."""
    options, start = common.options, common.supervisor.start
    tables = DataTables(
        options.data, api, engine, start, common.metrics, common.log, options.version
    )
    stack.push_async_callback(tables.close)
    tables.adopt(engine.registry)
    return tables


def _application(
    stack: AsyncExitStack,
    common: _Common,
    deciding: Deciding,
    binder: Binder | None,
    processes: Sequence[CheckingProcess],
) -> web.Application:
    """The verbs and the webhooks; these check in processes."""
    options, reloader = common.options, deciding.reloader
    view = reloader.view
    examiner = Examiner(common.schema, lambda: reloader.enforced.validation, view.cluster_size)
    return create_app(
        AppParts(
            deciding.engine,
            common.readiness,
            options.settings,
            common.metrics,
            common.log,
            options.version,
            lambda: _node_count(view),
            binder,
            WebhookParts(examiner, processes, options.scheduler, deciding.portable.patch),
            common.shutdown,
            _traced(stack, common, deciding.journal),
        )
    )


def _traced(stack: AsyncExitStack, common: _Common, journal: Journal) -> Traced | None:
    """What makes spans of calls until the stack ends, if the server is told where to send them."""
    options = common.options
    if options.traces is None:
        return None
    # No other server needs the library.
    from server.metrics.call_traces import CallTraces, exporter  # noqa: PLC0415

    sender, replica = exporter(options.traces), socket.gethostname()
    traces = CallTraces(options.traces, sender, journal.find, options.version, replica)
    stack.push_async_callback(asyncio.to_thread, traces.close)
    return traces.ended


def _readiness(
    deciding: Deciding, app: web.Application, credentials: Credentials | None
) -> Readiness:
    """The checks of a server that has started."""
    begun, data, warnings = deciding.reloader.readiness, deciding.data, app[WARNINGS]

    def checks() -> Sequence[ReadinessCheck]:
        certificate = () if credentials is None else (credentials.check(),)
        seen = (ReadinessCheck(name, text, is_warning=True) for name, text in warnings.seen)
        return (*begun(), *data.checks(), *certificate, *seen)

    return checks


def _node_count(view: ClusterSource) -> int | None:
    try:
        return len(view.snapshot().table.rows)
    except NotSyncedError:
        return None


def _shown(
    stack: AsyncExitStack,
    common: _Common,
    deciding: Deciding,
    drafts: CheckingProcess,
    credentials: Credentials | None,
) -> View:
    """The view of the server, whose metrics and numbers are followed from now on.

    Raises HistoryError.
    """
    engine, journal, reloader = deciding.engine, deciding.journal, deciding.reloader
    view, replica = reloader.view, socket.gethostname()
    cluster = view if isinstance(view, ClusterRuntime) else None
    history = History(replica, common.options.history, common.log)
    states = PolicyStates(
        replica,
        engine,
        journal,
        lambda: reloader.enforced,
        view.policies,
        history,
    )
    status = _status(common, deciding, credentials)
    common.supervisor.start("metrics", lambda: common.metrics.follow(status))
    explainer = Explainer(replica, engine, journal, view, common.schema, lambda: reloader.enforced)
    overview = Overview(replica, engine, view, explainer, states)
    metrics = common.metrics
    samples = SampledNumbers(view, overview.fullest, metrics.rejections, metrics.durations)
    if common.options.view_port is not None:
        # It asks the cluster, whose client is closed after it.
        common.background.run(stack, "history", lambda: history.follow(samples.take, states.look))
    checked = Drafts(
        drafts,
        lambda: reloader.enforced,
        view.policies,
        view.documents,
        deciding.data.texts,
        explainer,
        Simulator(replica, engine, view, lambda: deciding.data.tables),
    )
    parts = (states, explainer, overview, history, checked)
    return View(replica, status, cluster, journal, engine.audits.log, parts)


def _status(
    common: _Common,
    deciding: Deciding,
    credentials: Credentials | None,
) -> StatusReader:
    """What reads the status of the server."""
    view = deciding.reloader.view
    return StatusReader(
        socket.gethostname(),
        common.options.version,
        common.readiness,
        deciding.engine,
        deciding.journal,
        common.metrics,
        view.status if isinstance(view, ClusterRuntime) else lambda: None,
        lambda: deciding.data.statuses,
        lambda: credentials.in_use if credentials is not None else None,
    )


async def _serve_view(
    stack: AsyncExitStack,
    common: _Common,
    view: View,
    access: ViewAccess | None,
    credentials: Credentials | None,
) -> None:
    """Serves the view until the stack ends, if it has a port: over HTTP, to this host alone.

    If it has an address besides, also over HTTPS, to users of the cluster.
    """
    options = common.options
    alone = replace(options.settings, health=None, webhooks=None, shared_view=None)
    if options.view_port is not None:
        own = replace(
            alone, host=HOST, port=options.view_port, max_connections=MOST_CONNECTIONS, tls=None
        )
        await _listen(stack, common, view_app(view), own, "--view-port")
    if (where := options.settings.shared_view) is not None and access is not None:
        # A user has a token, not a certificate.
        tls = alone.tls and replace(alone.tls, client_ca=None)
        own = replace(
            alone, host=where[0], port=where[1], max_connections=MOST_SHARED_CONNECTIONS, tls=tls
        )
        app = view_app(view, access)
        await _listen(stack, common, app, own, "--view-listen", credentials)


_SERVED = {"--view-port": "view", "--view-listen": "shared view", "--webhook-listen": "webhooks"}


async def _listen(
    stack: AsyncExitStack,
    common: _Common,
    app: web.Application,
    own: Settings,
    flag: str,
    credentials: Credentials | None = None,
) -> None:
    """Serves another application than the verbs until the stack ends."""
    if running.CONNECTIONS not in app:
        # The bodies of drafts are bounded by the view.
        budget = ByteBudget(own.bytes_of_bodies)
        app[running.CONNECTIONS] = Connections(own, budget, common.metrics, LimitedLog(common.log))
    with _listening((own.host, own.port), flag):
        url = await stack.enter_async_context(running.listening(app, own, credentials))
    common.log.info("%s on %s", _SERVED[flag], url)


@contextmanager
def _listening(address: tuple[str, int], flag: str) -> Iterator[None]:
    """Raises CannotListenError for an OSError of the block."""
    try:
        yield
    except OSError as error:
        raise CannotListenError(error, address, flag) from error
