"""Serve: builds a server from its options, on the event loop, and runs it until the stop.

Every part is whole when it is built: policies first, then the view of the cluster, the engine over
both, and the application over the engine.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from dataclasses import replace
from functools import partial
from logging import Logger

import msgspec
from aiohttp import web

from engine.cache.informers import Needs
from engine.cluster.client import Api
from engine.program.tables import texts_of
from grammar.meaning.schema import Schema
from grammar.messages.diagnostics import UserError
from grammar.messages.texts import os_reason
from grammar.values.time import Timestamp
from policies.admission import Examiner
from server.admission.checking_process import CheckingProcess
from server.admission.webhooks import WebhookParts
from server.answers import ClauseRejections, FailedCheck, InFlight, ReplicaStatus
from server.app import WEBHOOKS, AppParts, create_app
from server.call import LimitedLog
from server.capabilities.table import CAPABILITIES, CAPABILITY_ROUTES
from server.http import sockets as running
from server.http.bodies import ByteBudget
from server.http.connections import Connections
from server.http.health import Heartbeat
from server.http.middleware import MisconfigurationWarnings
from server.http.tls import Credentials
from server.metrics.metrics import Metrics
from server.options import Options
from server.runtime.cluster_runtime import ClusterRuntime, Deciding, open_cluster
from server.runtime.file_cluster import ClusterSource, FileCluster
from server.runtime.policies import PolicyReader, PolicyReloader
from server.settings import Settings
from server.supervisor import Background
from server.view.drafts import DRAFT_MEMORY_MIB, Drafts
from server.view.explaining import Explainer
from server.view.history import History, SampledNumbers
from server.view.overview import Overview
from server.view.page import HOST
from server.view.policy_states import PolicyStates
from server.view.view import (
    MOST_CONNECTIONS,
    MOST_SHARED_CONNECTIONS,
    View,
    policies_in_force,
    view_app,
)
from server.view.view_access import ViewAccess

# Processes for the webhooks; a second one, so that no namespace keeps the others waiting.
_ADMISSION_PROCESSES = 2
# The pods in flight that are named, and the clauses.
_MOST_NAMED = 20
# Drafts get what decisions leave of the processor.
_NICEST = 19


class CannotListenError(UserError):
    """An address that cannot be listened on; `flag` is the flag that names it."""

    def __init__(self, error: OSError, address: tuple[str, int], flag: str) -> None:
        hint = f"name another with {flag} {'PORT' if flag == '--view-port' else 'HOST:PORT'}"
        why = os_reason(error)
        if error.errno == errno.EADDRINUSE:
            why, hint = "the port is in use", f"{hint}, or stop the program that uses it"
        super().__init__(f"cannot listen on `{address[0]}:{address[1]}`: {why}", hint)


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
        background = Background(stack, log, metrics)
        server = _Server(options, schema, background)
        server.serve_health()
        policies = PolicyReader(options.policies, schema, log, server.process())
        policies.read(None if options.watches else {})
        view = await server.open_view(policies.enforced.needs)
        cluster = view if isinstance(view, ClusterRuntime) else None
        if cluster is not None:
            credentials = await server.kept_certificate(cluster.api) or credentials
        deciding = Deciding(options, schema, view, policies, background)
        warnings = MisconfigurationWarnings(log, metrics, view.node_count)
        app = server.application(deciding, warnings)
        of_certificate = [credentials.checks] if credentials is not None else []
        reloader, checks = deciding.reloader, (each.checks for each in deciding.opened)
        background.begin(reloader.readiness, *checks, *of_certificate, warnings.checks)
        await server.serve_view(server.view(deciding, credentials), cluster, credentials)
        if cluster is not None:
            cluster.follow(deciding)
        background.run("policies", reloader.run)
        if credentials is not None:
            background.supervisor.start("certificates", credentials.run)
        if (address := options.webhook_listen) is not None:
            webhooks = server.served(app[WEBHOOKS], address, "--webhook-listen", credentials)
            await stack.enter_async_context(webhooks)
            credentials = None
        with _listening((options.host, options.port), "--listen"):
            await running.serve(
                app, options, lambda url: started(url, reloader), credentials, background.shutdown
            )


class _Server:
    """The server's steps, in their order. What they begin ends with the background."""

    def __init__(self, options: Options, schema: Schema, background: Background) -> None:
        self._options = options
        self._schema = schema
        self._background = background
        self._stack = background.stack
        self._replica = socket.gethostname()
        self._started = Timestamp.now().to_second()

    def process(self, *limits: int, **more: int) -> CheckingProcess:
        """A process that reads what may be hostile."""
        process = CheckingProcess(self._schema, *limits, **more)
        self._stack.callback(process.close)
        return process

    def serve_health(self) -> None:
        """Serves health and metrics from a thread of their own, if there is an address for them.

        Raises CannotListenError.
        """
        options, background = self._options, self._background
        if options.health_listen is None:
            return
        heartbeat = Heartbeat(background.readiness)
        background.supervisor.start("heartbeat", heartbeat.run)
        own, metrics, log = self._at(options.health_listen), background.metrics, background.log
        serving = running.health_server(own, heartbeat, metrics, options.version, log)
        with _listening(options.health_listen, "--health-listen"):
            url = self._stack.enter_context(serving)
        log.info("health and metrics on %s", url)

    async def open_view(self, needs: Needs) -> ClusterSource:
        """The view of the cluster."""
        options = self._options
        if options.watches:
            opening = open_cluster(options, self._schema, needs, self._background)
            return await self._stack.enter_async_context(opening)
        if options.snapshots is None:
            return ClusterSource()
        return FileCluster(options.snapshots, self._schema, needs, self._background.log)

    async def kept_certificate(self, api: Api) -> Credentials | None:
        """The credentials of a certificate that Placet keeps in a Secret, once there is one.

        None without such a Secret. Raises TlsError.
        """
        wanted, files, background = self._options.self_signed, self._options.tls, self._background
        if wanted is None or files is None:
            return None
        # No other server needs the library for certificates.
        from server.runtime.certificate_keeper import CertificateKeeper  # noqa: PLC0415

        log = background.log
        keeper = CertificateKeeper(api, wanted, files.certificate, log, background.report)
        await keeper.first()
        background.supervisor.start("tls-secret", keeper.run)
        return Credentials(files, background.metrics, log)

    def application(
        self, deciding: Deciding, warnings: MisconfigurationWarnings
    ) -> web.Application:
        """The verbs and the webhooks; these check in processes."""
        options, background, reloader = self._options, self._background, deciding.reloader
        examiner = Examiner(self._schema, lambda: reloader.enforced.validation)
        processes = [self.process() for _ in range(_ADMISSION_PROCESSES)]
        return create_app(
            AppParts(
                deciding.engine,
                background.readiness,
                options,
                background.metrics,
                background.log,
                options.version,
                warnings,
                deciding.binder,
                WebhookParts(examiner, processes, options.scheduler, deciding.patch),
                background.shutdown,
            )
        )

    def view(self, deciding: Deciding, credentials: Credentials | None) -> View:
        """The view of the server, whose metrics and numbers are followed from now on."""
        engine, journal, source = deciding.engine, deciding.journal, deciding.reloader.view
        background, replica, enforced = self._background, self._replica, deciding.enforced
        metrics = background.metrics
        history = History(replica, self._options.history, background.log)
        status = partial(self._status, deciding, credentials)
        background.supervisor.start("metrics", lambda: metrics.follow(status, deciding.samples))
        explainer = Explainer(replica, engine, journal, source, self._schema, enforced)
        states = PolicyStates(explainer, history)
        overview = Overview(explainer, states)
        samples = SampledNumbers(source, overview.fills, metrics.rejections, metrics.durations)
        if self._options.view_port is not None:
            # It asks the cluster, whose client is closed after it.
            background.run("history", lambda: history.follow(samples.take, states.look))
        checked = Drafts(
            # A trial keeps a cluster from one part to the next.
            self.process(_NICEST, DRAFT_MEMORY_MIB, kept_mib=DRAFT_MEMORY_MIB),
            explainer,
            lambda: asyncio.to_thread(texts_of, [*engine.tables.values()], Timestamp.now().nanos),
        )
        differences = source.compare if isinstance(source, ClusterRuntime) else None
        own = states.answers, explainer.answers, overview.answers, history.answers, checked.answers
        answers = [*own, *(each.answers for each in deciding.opened)]

        def whole() -> ReplicaStatus:
            broken = deciding.reloader.enforced.broken
            return msgspec.structs.replace(status(), facts=deciding.facts(), broken=broken)

        return View(explainer, whole, differences, answers, CAPABILITY_ROUTES)

    def _status(self, deciding: Deciding, credentials: Credentials | None) -> ReplicaStatus:
        """The status of the server now, but for what capabilities know."""
        engine, journal, view = deciding.engine, deciding.journal, deciding.reloader.view
        readiness, rejections = self._background.readiness(), self._background.metrics.rejections()
        ranked = sorted(rejections.items(), key=lambda each: (-each[1], each[0]))
        return ReplicaStatus(
            replica=self._replica,
            version=self._options.version,
            at=Timestamp.now().to_second(),
            started=self._started,
            ready=all(check.is_warning for check in readiness if check.failure),
            failing=[FailedCheck(c.name, c.failure, c.is_warning) for c in readiness if c.failure],
            policies=policies_in_force(engine),
            notInForce=sorted(program.address for program in engine.registry.refusing),
            cluster=view.status() if isinstance(view, ClusterRuntime) else None,
            podsInFlight=len(engine.in_flight),
            inFlight=[
                InFlight(known.name, round(seconds, 1), known.offered)
                for known, seconds in engine.in_flight.first(_MOST_NAMED)
            ],
            rejections=[ClauseRejections(*names, n) for names, n in ranked],
            decisions=journal.number,
            recorded=len(journal),
            certificate=credentials.in_use if credentials is not None else None,
            capabilities=[each.name for each in CAPABILITIES],
        )

    async def serve_view(
        self, view: View, cluster: ClusterRuntime | None, credentials: Credentials | None
    ) -> None:
        """Serves the view, if it has a port: over HTTP, to this host alone.

        If it has an address besides, also over HTTPS, to users of the cluster. What is asked there
        decides nothing: an address that is taken is tried again, and the server serves meanwhile.
        """
        options = self._options
        if options.view_port is not None:
            here, most = (HOST, options.view_port), MOST_CONNECTIONS
            await self._keep(lambda: self.served(view_app(view), here, "--view-port", most=most))
        if (where := options.view_listen) is not None and cluster is not None:
            access, own = ViewAccess(cluster.api), (where, "--view-listen", credentials)
            shared = partial(self.served, most=MOST_SHARED_CONNECTIONS)
            await self._keep(lambda: shared(view_app(view, access), *own), "shared-view")

    async def _keep(
        self, served: Callable[[], AbstractAsyncContextManager[None]], name: str = "view"
    ) -> None:
        """Serves in a task of this name; returns when that has been tried."""
        is_tried = asyncio.Event()

        async def work() -> None:
            try:
                async with served():
                    is_tried.set()
                    await asyncio.Event().wait()
            except CannotListenError as error:
                raise OSError(f"{error.message} ({error.hint})") from None
            finally:
                is_tried.set()

        self._background.run(name, work)
        await is_tried.wait()

    def _at(self, address: tuple[str, int], most: int | None = None) -> Settings:
        """The settings of another address, with so many connections."""
        host, port = address
        most = self._options.max_connections if most is None else most
        one = host == HOST
        return replace(self._options, host=host, port=port, max_connections=most, one_address=one)

    @asynccontextmanager
    async def served(
        self,
        app: web.Application,
        address: tuple[str, int],
        flag: str,
        credentials: Credentials | None = None,
        most: int | None = None,
    ) -> AsyncIterator[None]:
        """Serves another application than the verbs. Raises CannotListenError."""
        own, background = self._at(address, most), self._background
        if running.CONNECTIONS not in app:
            # The bodies of drafts are bounded by the view.
            budget = ByteBudget(own.bytes_of_bodies)
            limited = LimitedLog(background.log)
            app[running.CONNECTIONS] = Connections(own, budget, background.metrics, limited)
        async with AsyncExitStack() as stack:
            with _listening(address, flag):
                url = await stack.enter_async_context(running.listening(app, own, credentials))
            background.log.info("%s on %s", _SERVED[flag], url)
            yield


_SERVED = {"--view-port": "view", "--view-listen": "shared view", "--webhook-listen": "webhooks"}


@contextmanager
def _listening(address: tuple[str, int], flag: str) -> Iterator[None]:
    """Raises CannotListenError for an OSError of the block."""
    try:
        yield
    except OSError as error:
        raise CannotListenError(error, address, flag) from error
