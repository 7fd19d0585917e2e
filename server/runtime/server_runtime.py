"""Serve: builds a server from its options, on the event loop, and runs it until it is told to stop.

Every part is whole when it is built: policies first, then the view of the cluster, the engine over
both, and the application over the engine.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from logging import Logger
from pathlib import Path

from aiohttp import web

from engine.cache.informers import Needs
from engine.cluster.client import Api
from engine.counting.in_flight_pods import DEFAULT_SCHEDULERS, Schedulers
from engine.decision.after import AfterDecision
from engine.decision.journal import Journal
from engine.decision.placement import ReplicaRole, open_gate
from engine.decision.recent_answers import RejectedPods
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
from server.api_failures import ApiFailures
from server.app import ADOPTERS, WEBHOOKS, create_app
from server.http import sockets as running
from server.http.bodies import ByteBudget
from server.http.connections import Connections
from server.http.health import Check, Heartbeat, Readiness
from server.http.sockets import Shutdown
from server.http.tls import Credentials
from server.log_limit import LimitedLog
from server.metrics.metrics import Metrics
from server.runtime.cluster_runtime import Access, ClusterRuntime, open_cluster
from server.runtime.configuration_reloader import (
    GROUP,
    ConfigurationFile,
    ConfigurationReloader,
    ServerConfiguration,
)
from server.runtime.file_cluster import FileCluster, NoCluster, SnapshotOrigin
from server.runtime.observers import LogObserver, start_logging
from server.runtime.policies import PolicyReader
from server.runtime.portable_pods import PortablePods
from server.runtime.reloader import ClusterSource, PolicyReloader
from server.runtime.view_status import status_reader
from server.settings import SelfSigned, Settings
from server.supervisor import Supervisor, end
from server.view.drafts import DRAFT_MEMORY_MIB, Drafts
from server.view.explaining import Explainer
from server.view.policy_states import PolicyStates
from server.view.view import DEFAULT_PORT, HOST, MOST_CONNECTIONS, View, view_app
from server.view.z_pages import ZPages

# Seconds from a rejection to the first requeue, and the longest pause between two requeues.
_FIRST_PAUSE_SECONDS, _MOST_PAUSE_SECONDS = 1.0, 60.0
# Processes for the webhooks; a second one, so that no namespace keeps the others waiting.
_ADMISSION_PROCESSES = 2
# Drafts get what decisions leave of the processor.
_NICEST = 19
_STARTING: Sequence[Check] = (Check("start", "not started yet"),)


@dataclass(frozen=True, slots=True)
class Options:
    """The parts of a server. `cluster` is watched, an origin of snapshots, or None.

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
    # The configuration of the start, and its file if it is read again.
    configuration: Mapping[str, object] = field(default_factory=dict)
    file: ConfigurationFile | None = None


class CannotListenError(Exception):
    """An address that cannot be listened on; `flag` is the flag that names it."""

    def __init__(self, error: OSError, address: tuple[str, int], flag: str) -> None:
        super().__init__(str(error))
        self.error = error
        self.address = address
        self.flag = flag


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
    settings, shutdown = options.settings, Shutdown()
    reloader: PolicyReloader | None = None

    def readiness() -> Sequence[Check]:
        begun = reloader.readiness() if reloader is not None else _STARTING
        return (shutdown.check(), *begun, *supervisor.checks(), *failures.checks())

    failures = ApiFailures(log)
    metrics.api_failing(lambda: failures.failing)
    async with AsyncExitStack() as stack:
        supervisor = Supervisor(log, metrics.task_restarted)
        stack.push_async_callback(supervisor.stop)
        _serve_health(stack, settings, readiness, supervisor, metrics, options.version, log)
        drafts, *checking = _checking_processes(stack, schema)
        policies = PolicyReader(options.policies, schema, log, checking[0])
        objects: Mapping[str, bytes] | None = None if isinstance(options.cluster, Access) else {}
        enforced = policies.read(objects)
        view = await _open_view(
            stack, options, schema, enforced.needs, log, supervisor, failures, shutdown
        )
        cluster = view if isinstance(view, ClusterRuntime) else None
        if cluster is not None:
            kept = await _kept_certificate(options, cluster.api, metrics, log, supervisor, failures)
            credentials = kept or credentials
        schedulers = options.schedulers
        answers = cluster.last_answers() if cluster is not None and schedulers.call_bind else None
        rejected = RejectedPods(time.monotonic, _FIRST_PAUSE_SECONDS, _MOST_PAUSE_SECONDS)
        observer, journal, work = LogObserver(log, metrics), Journal(), WorkClock()
        stack.callback(work.close)
        times = PolicyTimes(
            time.monotonic,
            work,
            observer.expensive,
            metrics.charged,
            lambda: view.cluster_size().nodes,
        )
        engine = Engine(
            enforced.registry,
            view,
            ObjectCodec(schema),
            observer,
            exemptions=options.exemptions,
            role=ReplicaRole(
                cluster.gate if cluster is not None else open_gate, schedulers.call_bind
            ),
            time=DecisionTime(policies=times),
            after=AfterDecision(
                journal=journal,
                listeners=() if cluster is None else (rejected.answered,),
                answers=answers,
                later=asyncio.get_running_loop().call_soon,
            ),
            schedulers=schedulers,
        )
        reloader = PolicyReloader(
            policies, enforced, objects, view, engine, log, options.exemptions
        )
        announced = reloader
        binder = None
        if cluster is not None and answers is not None:
            binder = cluster.binder(engine, answers, schedulers)
        portable = PortablePods(engine, ObjectCodec(schema), options.frozen, times)
        app = create_app(
            engine,
            readiness,
            settings,
            metrics,
            log,
            options.version,
            lambda: _node_count(view),
            binder,
            Examiner(schema, lambda: announced.enforced.validation, view.cluster_size),
            checking[1:],
            shutdown,
            options.scheduler,
            portable.patch,
        )
        replica = socket.gethostname()
        status = status_reader(
            replica, options.version, readiness, engine, journal, metrics, cluster
        )
        supervisor.start("metrics", lambda: metrics.state.follow(status))
        shown = View(
            replica,
            journal,
            status,
            cluster,
            Explainer(replica, engine, journal, view, schema, lambda: announced.enforced),
            _follow_policies(replica, engine, journal, announced, supervisor),
            Drafts(replica, drafts, lambda: announced.enforced, view.policies, view.documents),
            lambda: shutdown.has_begun,
        )
        configuration = _follow_file(options, app, announced, metrics, log, supervisor)
        await _serve_view(stack, shown, options, configuration, metrics, log)
        if cluster is not None:
            await cluster.follow(
                stack,
                engine,
                reloader,
                binder,
                rejected,
                observer,
                schedulers,
                metrics.pod_seen,
                portable.portability,
            )
        stack.push_async_callback(end, supervisor.start("policies", reloader.run))
        if credentials is not None:
            supervisor.start("certificates", credentials.run)
        try:
            await running.serve(
                app,
                settings,
                lambda url: started(url, announced),
                await _serve_webhooks(stack, app, settings, credentials, log),
                shutdown,
            )
        except OSError as error:
            address = (settings.host, settings.port)
            raise CannotListenError(error, address, "--listen") from error


def _checking_processes(stack: AsyncExitStack, schema: Schema) -> Sequence[CheckingProcess]:
    """Those for drafts, for the policies of the cluster and for the webhooks, until the end."""
    others = [CheckingProcess(schema) for _ in range(1 + _ADMISSION_PROCESSES)]
    # A trial keeps a cluster from one part to the next.
    drafts = CheckingProcess(schema, _NICEST, DRAFT_MEMORY_MIB, kept_mib=DRAFT_MEMORY_MIB)
    found = [drafts, *others]
    for process in found:
        stack.callback(process.close)
    return found


def _follow_policies(
    replica: str,
    engine: Engine,
    journal: Journal,
    policies: PolicyReloader,
    supervisor: Supervisor,
) -> PolicyStates:
    """The states of policies, whose numbers are followed from now on."""
    view = policies.view
    states = PolicyStates(replica, engine, journal, lambda: policies.enforced, view.policies)
    supervisor.start("policy-numbers", states.follow)
    return states


def _follow_file(
    options: Options,
    app: web.Application,
    policies: PolicyReloader,
    metrics: Metrics,
    log: Logger,
    supervisor: Supervisor,
) -> Callable[[], Mapping[str, object]]:
    """Applies changes of the configuration file, if there is one; gives what is in force."""
    if options.file is None:
        return lambda: options.configuration

    def apply(configuration: ServerConfiguration) -> None:
        for adopt in app[ADOPTERS]:
            adopt(configuration.settings)
        policies.exempt(configuration.exemptions)
        start_logging(configuration.log_format, verbose=configuration.is_verbose)

    reloader = ConfigurationReloader(options.file, options.configuration, apply, log, metrics)
    supervisor.start("configuration", reloader.run)
    return lambda: reloader.document


async def _serve_webhooks(
    stack: AsyncExitStack,
    app: web.Application,
    settings: Settings,
    credentials: Credentials | None,
    log: Logger,
) -> Credentials | None:
    """Serves the webhooks until the stack ends, if they have an address of their own.

    Returns the credentials that are left for the main address.
    """
    if settings.webhooks is None:
        return credentials
    host, port = settings.webhooks
    own = replace(settings, host=host, port=port)
    try:
        url = await stack.enter_async_context(running.listening(app[WEBHOOKS], own, credentials))
    except OSError as error:
        raise CannotListenError(error, (host, port), "--webhook-listen") from error
    log.info("webhooks on %s", url)
    return None


async def _serve_view(
    stack: AsyncExitStack,
    view: View,
    options: Options,
    configuration: Callable[[], Mapping[str, object]],
    metrics: Metrics,
    log: Logger,
) -> None:
    """Serves the view until the stack ends, if it has a port: over HTTP, to this host alone."""
    if (port := options.view_port) is None:
        return
    app = view_app(view, ZPages(options.version, lambda: {GROUP: configuration()}))
    own = replace(
        options.settings,
        host=HOST,
        port=port,
        max_connections=MOST_CONNECTIONS,
        health=None,
        webhooks=None,
        tls=None,
    )
    # The bodies of drafts are bounded by the view.
    budget = ByteBudget(own.bytes_of_bodies)
    app[running.CONNECTIONS] = Connections(own, budget, metrics, LimitedLog(log))
    try:
        url = await stack.enter_async_context(running.listening(app, own))
    except OSError as error:
        raise CannotListenError(error, (HOST, port), "--view-port") from error
    log.info("view on %s", url)


def _node_count(view: ClusterSource) -> int | None:
    try:
        return len(view.snapshot().table.rows)
    except NotSyncedError:
        return None


async def _open_view(
    stack: AsyncExitStack,
    options: Options,
    schema: Schema,
    needs: Needs,
    log: Logger,
    supervisor: Supervisor,
    failures: ApiFailures,
    shutdown: Shutdown,
) -> ClusterSource:
    match options.cluster:
        case None:
            return NoCluster()
        case Access() as access:
            opening = open_cluster(
                access,
                schema,
                needs,
                log,
                options.version,
                supervisor,
                failures,
                lambda: shutdown.has_begun,
            )
            return await stack.enter_async_context(opening)
        case origin:
            return FileCluster(origin, schema, needs, log)


async def _kept_certificate(
    options: Options,
    api: Api,
    metrics: Metrics,
    log: Logger,
    supervisor: Supervisor,
    failures: ApiFailures,
) -> Credentials | None:
    """The credentials of a certificate that Placet keeps in a Secret, once there is one.

    None without such a Secret. Raises TlsError.
    """
    wanted, files = options.self_signed, options.settings.tls
    if wanted is None or files is None:
        return None
    # No other server needs the library for certificates.
    from server.runtime.certificate_keeper import CertificateKeeper  # noqa: PLC0415

    keeper = CertificateKeeper(api, wanted, files.certificate, log, failures.report)
    await keeper.first()
    supervisor.start("tls-secret", keeper.run)
    return Credentials(files, metrics, log)


def _serve_health(
    stack: AsyncExitStack,
    settings: Settings,
    readiness: Readiness,
    supervisor: Supervisor,
    metrics: Metrics,
    version: str,
    log: Logger,
) -> None:
    """Serves health and metrics from a thread of their own until the stack ends, if it is told to.

    Raises CannotListenError.
    """
    if settings.health is None:
        return
    heartbeat = Heartbeat(readiness)
    supervisor.start("heartbeat", heartbeat.run)
    host, port = settings.health
    own = replace(settings, host=host, port=port, tls=None, webhooks=None)
    try:
        url = stack.enter_context(running.health_server(own, heartbeat, metrics, version, log))
    except OSError as error:
        raise CannotListenError(error, settings.health, "--health-listen") from error
    log.info("health and metrics on %s", url)
