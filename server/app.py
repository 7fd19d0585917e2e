"""Application: every path of the server and its handler, built from the parts it is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from logging import Logger

from aiohttp import web
from aiohttp.typedefs import Middleware

from policies.admission import Examiner
from server.admission import AdmissionWebhooks
from server.debug import CachePage, DecisionPages, Decisions, Inspection
from server.health import Health, Readiness, health_routes
from server.metrics import Metrics
from server.middleware import CallRecorder, VerbHandler, access
from server.running import DIRECT
from server.runtime.shutdown import Shutdown
from server.settings import Settings
from server.verbs.answering import DecisionQueue, MisconfigurationWarnings
from server.verbs.handlers import Binder, Decider, Handlers

# Extenders usually have `urlPrefix: http://…/api/scheduler`; a URL without a path works too.
PREFIXES = ("/api/scheduler", "")
MUTATE, VALIDATE = "/admission/mutate", "/admission/validate"

# A server with a client CA still serves these paths without a client certificate: probes have none,
# and an API server has one only if it is configured for each webhook. A webhook's answer is about
# the object in the request, and changes nothing.
OPEN_PATHS = frozenset({"/livez", "/healthz", "/readyz", "/version", MUTATE, VALIDATE})
# These paths accept a certificate of the client CA with any name, so that a scraper does not need
# the name of kube-scheduler.
READING_PATHS = frozenset({"/metrics"})


def create_app(
    decider: Decider,
    readiness: Readiness,
    settings: Settings,
    metrics: Metrics,
    log: Logger,
    version: str,
    cluster_size: Callable[[], int | None] = lambda: None,
    inspection: Inspection | None = None,
    binder: Binder | None = None,
    examiner: Examiner | None = None,
    decisions: Decisions | None = None,
    shutdown: Shutdown | None = None,
) -> web.Application:
    """The application of one server.

    `cluster_size` is the number of nodes in the cluster, None if unknown. `inspection` shows the
    view of a watched cluster, and `binder` binds its pods. With an `examiner`, the application has
    admission webhooks; with `decisions`, pages about the last decisions. `shutdown` begins before
    the server ends.
    """
    warnings = MisconfigurationWarnings(log, metrics, settings.warning_interval, cluster_size)
    queue = DecisionQueue(settings.max_in_flight)
    handlers = Handlers(decider, binder, settings, warnings, queue, log)
    verbs = {**verbs_by_path(handlers)}
    if examiner is not None:
        webhooks = AdmissionWebhooks(examiner, settings, metrics, log)
        verbs[MUTATE] = ("mutate", webhooks.mutate)
        verbs[VALIDATE] = ("validate", webhooks.validate)
    recorder = CallRecorder(metrics, log, shutdown or Shutdown())
    by_path = {path: recorder.handler(*verb) for path, verb in verbs.items()}
    plain_errors = recorder.plain_errors({path: verb for path, (verb, _) in verbs.items()})
    guards = _access(settings)
    app = web.Application(middlewares=[plain_errors, *guards])
    app.add_routes([web.post(path, handler) for path, handler in by_path.items()])
    if not guards:
        app[DIRECT] = by_path
    app.add_routes(health_routes(Health(readiness, version), metrics))
    if inspection is not None:
        app.router.add_get("/debug/cache", CachePage(inspection).show)
    if decisions is not None:
        pages = DecisionPages(decisions)
        app.router.add_get("/debug/decisions", pages.index)
        app.router.add_get("/debug/decisions/{namespace}/{name}", pages.show)
    return app


def verbs_by_path(handlers: Handlers) -> Mapping[str, tuple[str, VerbHandler]]:
    """The name and the handler of a verb at each of its paths.

    Each path is served with and without a final slash: a redirect from one to the other would
    arrive as GET (C1).
    """
    verbs: Mapping[str, VerbHandler] = {
        "/filter": handlers.filter,
        "/prioritize": handlers.prioritize,
        "/preempt": handlers.preempt,
        "/bind": handlers.bind,
    }
    return {
        f"{prefix}{path}{slash}": (path.removeprefix("/"), handle)
        for prefix in PREFIXES
        for path, handle in verbs.items()
        for slash in ("", "/")
    }


def _access(settings: Settings) -> list[Middleware]:
    if settings.tls is None or settings.tls.client_ca is None:
        return []
    return [access(settings.tls.client_names, OPEN_PATHS, READING_PATHS)]
