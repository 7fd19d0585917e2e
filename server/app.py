"""The application, put together from the parts it is given."""

from __future__ import annotations

from collections.abc import Callable
from logging import Logger

from aiohttp import web
from aiohttp.typedefs import Middleware

from server.access import access
from server.admission import Admission, Examiner
from server.debug import Debug, Decided, Inspection
from server.decisions import Decisions
from server.departure import Departure
from server.handlers import Binder, Decider, Handlers
from server.health import Health, Readiness
from server.metrics import Metrics
from server.middleware import Observation
from server.notices import Notices
from server.routes import (
    OPEN_PATHS,
    READING_PATHS,
    admission_by_path,
    debug_routes,
    decision_routes,
    operations_routes,
    verb_handlers,
    verb_routes,
    verbs_by_path,
)
from server.running import DIRECT
from server.settings import Settings
from server.turns import Turns


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
    departure: Departure | None = None,
) -> web.Application:
    """The application; `cluster_size` is the number of nodes in the cluster, None if not known.

    `inspection` is of a live view of the cluster, if there is one, and `binder` binds pods in it.
    With an `examiner` there are admission webhooks; `decisions` are the last ones of the decider.
    `departure` begins before the server ends.
    """
    notices = Notices(log, metrics, settings.warning_interval, cluster_size)
    turns = Turns(settings.max_in_flight)
    handlers = Handlers(decider, binder, settings, notices, turns, log)
    verbs = {**verbs_by_path(handlers)}
    if examiner is not None:
        verbs |= admission_by_path(Admission(examiner, settings, metrics, log))
    observation = Observation(metrics, log, departure or Departure())
    refusals = observation.refusals({path: verb for path, (verb, _) in verbs.items()})
    guards = _access(settings)
    app = web.Application(middlewares=[refusals, *guards])
    by_path = verb_handlers(verbs, observation)
    app.add_routes(verb_routes(by_path))
    if not guards:
        app[DIRECT] = by_path
    app.add_routes(operations_routes(Health(readiness, version), metrics))
    if inspection is not None:
        app.add_routes(debug_routes(Debug(inspection)))
    if decisions is not None:
        app.add_routes(decision_routes(Decided(decisions)))
    return app


def _access(settings: Settings) -> list[Middleware]:
    if settings.tls is None or settings.tls.client_ca is None:
        return []
    return [access(settings.tls.client_names, OPEN_PATHS, READING_PATHS)]
