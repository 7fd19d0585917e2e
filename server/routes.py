"""Which path is what, at one glance."""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web
from aiohttp.typedefs import Handler

from server.admission import Admission
from server.debug import Debug, Decided
from server.handlers import Handlers
from server.health import Health
from server.metrics import Metrics
from server.middleware import Observation, VerbHandler

# With `urlPrefix: http://…/api/scheduler` as extenders are used to, or without any path in it.
PREFIXES = ("/api/scheduler", "")

# Of a server that wants client certificates, what is there for those who have none: probes.
# And webhooks, for the API server has no certificate to show unless it is given one for each: they
# tell of an object that comes with the question, and change nothing.
MUTATE, VALIDATE = "/admission/mutate", "/admission/validate"
OPEN_PATHS = frozenset({"/livez", "/healthz", "/readyz", "/version", MUTATE, VALIDATE})
# And what is there for any certificate of the CA, whatever its name: scrapers are not to be given
# the name of kube-scheduler.
READING_PATHS = frozenset({"/metrics"})


def verbs_by_path(handlers: Handlers) -> Mapping[str, tuple[str, VerbHandler]]:
    """Every path of every verb.

    With and without a slash at the end: a redirect from one to the other would arrive as GET (C1).
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


def admission_by_path(admission: Admission) -> Mapping[str, tuple[str, VerbHandler]]:
    """What the API server calls."""
    return {
        MUTATE: ("mutate", admission.mutate),
        VALIDATE: ("validate", admission.validate),
    }


def verb_handlers(
    verbs: Mapping[str, tuple[str, VerbHandler]], observation: Observation
) -> Mapping[str, Handler]:
    """What kube-scheduler and the API server call, by path."""
    return {path: observation.of(*verb) for path, verb in verbs.items()}


def verb_routes(handlers: Mapping[str, Handler]) -> list[web.RouteDef]:
    """The same as routes."""
    return [web.post(path, handle) for path, handle in handlers.items()]


def operations_routes(health: Health, metrics: Metrics) -> list[web.RouteDef]:
    """What operators and their probes call."""
    return [
        web.get("/livez", health.live),
        web.get("/healthz", health.live),
        web.get("/readyz", health.ready),
        web.get("/metrics", metrics.expose),
        web.get("/version", health.version),
    ]


def debug_routes(debug: Debug) -> list[web.RouteDef]:
    """What people call who look for a mistake."""
    return [web.get("/debug/cache", debug.cache)]


def decision_routes(decided: Decided) -> list[web.RouteDef]:
    """What people and `placet explain` call who look for a reason."""
    return [
        web.get("/debug/decisions", decided.every),
        web.get("/debug/decisions/{namespace}/{name}", decided.one),
    ]
