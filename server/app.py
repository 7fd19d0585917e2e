"""The app of a server: every path and its handler, built from parts that are passed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from logging import Logger
from typing import TypeVar

from aiohttp import web
from aiohttp.typedefs import Middleware

from server.admission.webhooks import WEBHOOK_VERBS, AdmissionWebhooks, WebhookParts
from server.call import LimitedLog
from server.http.bodies import BodyReader, ByteBudget
from server.http.connections import AnswerAtOnce, Connections
from server.http.health import Readiness, health_routes
from server.http.middleware import CallRecorder, MisconfigurationWarnings, VerbHandler, access
from server.http.sockets import CONNECTIONS, Shutdown
from server.metrics.metrics import Metrics
from server.settings import Settings
from server.verbs.answering import Decider, DecisionQueue, Verb, VerbAnswerer
from server.verbs.bind import BindVerb, PodBinder
from server.verbs.filter import AnsweredNames, FilterVerb, NameFragments
from server.verbs.preempt import PreemptVerb
from server.verbs.prioritize import PrioritizeVerb

Value = TypeVar("Value")

# Extenders usually have `urlPrefix: http://…/api/scheduler`; a URL without a path works too.
PREFIXES = ("/api/scheduler", "")
VALIDATE, PODS, GATE = (f"/admission/{verb}" for verb in WEBHOOK_VERBS)

# A server with a client CA still serves these paths without a client certificate: probes have none,
# and an API server has one only if it is configured for each webhook. A webhook's answer is about
# the object in the request, and changes nothing.
OPEN_PATHS = frozenset({"/livez", "/healthz", "/readyz", "/version", VALIDATE, PODS, GATE})
# These paths accept a certificate of the client CA with any name, so that a scraper does not need
# the name of kube-scheduler.
READING_PATHS = frozenset({"/metrics"})


# The application of the webhooks alone, for a port of their own.
WEBHOOKS = web.AppKey("WEBHOOKS", web.Application)


@dataclass(frozen=True, slots=True)
class AppParts:
    """The parts of an application.

    `warnings` look at each call. `binder` binds pods; without it, the paths of bind say how to get
    the verb. `webhooks` are the parts of the admission webhooks, None for an application without
    these. `shutdown` begins before the server ends.
    """

    decider: Decider
    readiness: Readiness
    settings: Settings
    metrics: Metrics
    log: Logger
    version: str
    warnings: MisconfigurationWarnings
    binder: PodBinder | None = None
    webhooks: WebhookParts | None = None
    shutdown: Shutdown = field(default_factory=Shutdown)


def create_app(parts: AppParts) -> web.Application:
    """The application of one server; `app[WEBHOOKS]` has only its webhooks, if it has any."""
    settings, metrics, limited = parts.settings, parts.metrics, LimitedLog(parts.log)
    budget = ByteBudget(settings.bytes_of_bodies)
    metrics.read(lambda: [("placet_bodies_held_bytes", (), budget.held)])
    metrics.configured(settings)
    bodies = BodyReader(budget, settings)
    recorder = CallRecorder(metrics, parts.log, limited, parts.shutdown, parts.warnings, bodies)
    queue = DecisionQueue(settings.max_in_flight)
    answerer = VerbAnswerer(queue, settings, bodies, recorder)
    prompt, others = _verbs(parts, queue)
    every = (*prompt.items(), *others.items())
    answers = {name: (name, partial(answerer.answer, verb)) for name, verb in every}
    verbs: dict[str, tuple[str, VerbHandler]] = dict(_by_path(answers))
    if parts.webhooks is not None:
        handlers = AdmissionWebhooks(parts.webhooks, settings, metrics, bodies).handlers
        verbs |= dict(zip((VALIDATE, PODS, GATE), handlers.items(), strict=True))
    plain_errors = recorder.plain_errors({path: verb for path, (verb, _) in verbs.items()})
    guards: list[Middleware] = []
    # These calls pass no middleware.
    at_once: Mapping[str, AnswerAtOnce] = {}
    if settings.tls is not None and settings.has_client_ca:
        guards = [access(settings.tls.client_names, OPEN_PATHS, READING_PATHS)]
    else:
        at_once = _by_path({name: answerer.at_once(name, verb) for name, verb in prompt.items()})
    routes = {
        path: web.post(path, recorder.handler(*verb), expect_handler=_ask_later)
        for path, verb in verbs.items()
    }
    app = web.Application(middlewares=[plain_errors, *guards])
    app[CONNECTIONS] = Connections(settings, budget, metrics, limited, at_once)
    app.add_routes(routes.values())
    app.add_routes(health_routes(parts.readiness, parts.version, metrics))
    if parts.webhooks is not None:
        alone = app[WEBHOOKS] = web.Application(middlewares=[plain_errors])
        alone[CONNECTIONS] = Connections(settings, budget, metrics, limited)
        alone.add_routes([routes[path] for path in (VALIDATE, PODS, GATE)])
    return app


def _verbs(parts: AppParts, queue: DecisionQueue) -> tuple[Mapping[str, Verb], Mapping[str, Verb]]:
    """The verbs that can be answered at once, and the others."""
    decider, answered, fragments = parts.decider, AnsweredNames(), NameFragments()
    resolvable = parts.settings.resolvable_rejections
    prompt: dict[str, Verb] = {
        "filter": FilterVerb(decider, queue, answered, fragments, resolvable_rejections=resolvable),
        "prioritize": PrioritizeVerb(decider, answered, fragments),
    }
    return prompt, {"preempt": PreemptVerb(decider, queue), "bind": BindVerb(parts.binder)}


def _by_path(verbs: Mapping[str, Value]) -> Mapping[str, Value]:
    """What belongs to each verb, by the paths of the verb instead of its name.

    Each path is served with and without a final slash: a redirect from one to the other would
    arrive as GET (C1).
    """
    return {
        f"{prefix}/{name}{slash}": value
        for prefix in PREFIXES
        for name, value in verbs.items()
        for slash in ("", "/")
    }


async def _ask_later(_request: web.Request) -> None:
    """Leaves `Expect: 100-continue` to the reader of the body: aiohttp asks for any body."""
