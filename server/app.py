"""Which path is what, at one glance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from logging import Logger
from typing import Protocol

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from server.admission import Admission, Examiner
from server.debug import CachePages, DecisionPages, Decisions, Inspection
from server.health import Health, Readiness, operations_routes
from server.metrics import Metrics
from server.middleware import Observation, VerbHandler, access
from server.misconfiguration import MisconfigurationWarnings
from server.running import DIRECT
from server.runtime.shutdown import Shutdown
from server.settings import Settings
from server.verbs.answering import DecisionQueue, Verb, VerbAnswerer
from server.verbs.bind import Binder, BindVerb
from server.verbs.filter import Decider as FilterDecider
from server.verbs.filter import FilterVerb
from server.verbs.names_mode import AnsweredNames, NameFragments
from server.verbs.preempt import Decider as PreemptDecider
from server.verbs.preempt import PreemptVerb
from server.verbs.prioritize import Decider as PrioritizeDecider
from server.verbs.prioritize import PrioritizeVerb

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


class Decider(FilterDecider, PrioritizeDecider, PreemptDecider, Protocol):
    """An engine that decides the verbs."""


def verbs_by_path(
    decider: Decider, binder: Binder | None, settings: Settings, log: Logger
) -> Mapping[str, tuple[str, VerbHandler]]:
    """The name and the handler of a verb, by each of its paths.

    Every path is there with and without a slash at its end: a redirect would arrive as GET (C1).
    """
    queue = DecisionQueue(settings.max_in_flight)
    answerer = VerbAnswerer(queue, settings, log)
    answered, fragments = AnsweredNames(), NameFragments()
    resolvable = settings.resolvable_rejections
    verbs: Mapping[str, Verb] = {
        "filter": FilterVerb(decider, answered, fragments, resolvable_rejections=resolvable),
        "prioritize": PrioritizeVerb(decider, answered, fragments),
        "preempt": PreemptVerb(decider, queue),
        "bind": BindVerb(binder),
    }
    return {
        f"{prefix}/{name}{slash}": (name, partial(answerer.answer, verb))
        for prefix in PREFIXES
        for name, verb in verbs.items()
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


def debug_routes(debug: CachePages) -> list[web.RouteDef]:
    """What people call who look for a mistake."""
    return [web.get("/debug/cache", debug.cache)]


def decision_routes(decided: DecisionPages) -> list[web.RouteDef]:
    """What people and `placet explain` call who look for a reason."""
    return [
        web.get("/debug/decisions", decided.every),
        web.get("/debug/decisions/{namespace}/{name}", decided.one),
    ]


# ---- The application, put together from the parts it is given.


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
    """The application; `cluster_size` is the number of nodes in the cluster, None if not known.

    `inspection` is of a live view of the cluster, if there is one, and `binder` binds pods in it.
    With an `examiner` there are admission webhooks; `decisions` are the last ones of the decider.
    `shutdown` begins before the server ends.
    """
    warnings = MisconfigurationWarnings(log, metrics, settings.warning_interval, cluster_size)
    verbs = {**verbs_by_path(decider, binder, settings, log)}
    if examiner is not None:
        verbs |= admission_by_path(Admission(examiner, settings, metrics, log))
    observation = Observation(metrics, log, shutdown or Shutdown(), warnings)
    rejected_pods = observation.rejected_pods({path: verb for path, (verb, _) in verbs.items()})
    guards = _access(settings)
    app = web.Application(middlewares=[rejected_pods, *guards])
    by_path = verb_handlers(verbs, observation)
    app.add_routes(verb_routes(by_path))
    if not guards:
        app[DIRECT] = by_path
    app.add_routes(operations_routes(Health(readiness, version), metrics))
    if inspection is not None:
        app.add_routes(debug_routes(CachePages(inspection)))
    if decisions is not None:
        app.add_routes(decision_routes(DecisionPages(decisions)))
    return app


def _access(settings: Settings) -> list[Middleware]:
    if settings.tls is None or settings.tls.client_ca is None:
        return []
    return [access(settings.tls.client_names, OPEN_PATHS, READING_PATHS)]
