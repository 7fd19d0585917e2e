"""The application, put together from the parts it is given."""

from __future__ import annotations

from collections.abc import Callable
from logging import Logger

from aiohttp import web

from server.debug import Debug, Inspection
from server.handlers import Decider, Handlers
from server.health import Health, Readiness
from server.metrics import Metrics
from server.middleware import Observation
from server.notices import Notices
from server.routes import debug_routes, operations_routes, verb_routes, verbs_by_path
from server.settings import Settings


def create_app(
    decider: Decider,
    readiness: Readiness,
    settings: Settings,
    metrics: Metrics,
    log: Logger,
    version: str,
    cluster_size: Callable[[], int | None] = lambda: None,
    inspection: Inspection | None = None,
) -> web.Application:
    """The application; `cluster_size` is the number of nodes in the cluster, None if not known.

    `inspection` is of a live view of the cluster, if there is one.
    """
    notices = Notices(log, metrics, settings.warning_interval, cluster_size)
    verbs = verbs_by_path(Handlers(decider, settings, notices, log))
    observation = Observation(metrics, log)
    refusals = observation.refusals({path: verb for path, (verb, _) in verbs.items()})
    app = web.Application(middlewares=[refusals])
    app.add_routes(verb_routes(verbs, observation))
    app.add_routes(operations_routes(Health(readiness, version), metrics))
    if inspection is not None:
        app.add_routes(debug_routes(Debug(inspection)))
    return app
