"""A site for capabilities: a server without HTTP, over a cluster that stands still."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from prometheus_client import CollectorRegistry

from engine.cluster.events import Events
from engine.decision.journal import Journal
from engine.decision.recent_answers import AfterDecision
from engine.engine import Engine
from engine.program.policy_time import PolicyTimes, WorkClock
from server.capabilities.capability import LedCluster, Site
from server.capabilities.table import CAPABILITY_METRICS
from server.metrics.metrics import Metrics
from server.options import Options
from server.supervisor import Background
from tests.support.builders import Object
from tests.support.engines import CODEC, Known, Silent, cache_of
from tests.support.repaired import policies_of

LOG = logging.getLogger("placet.test")


class NoApi:
    """An API server that takes everything, and has nothing."""

    async def request(self, *_: Any, **_more: Any) -> bytes:
        return b"{}"


@asynccontextmanager
async def site(
    policies: str = "",
    nodes: Iterable[Object] = (),
    pods: Iterable[Object] = (),
    *,
    watched: bool = True,
    **options: Any,
) -> AsyncIterator[Site]:
    """The site of a server with these policies and options, which leads if it is `watched`."""
    cache, enforced, api = cache_of(nodes, pods), policies_of(policies), NoApi()
    journal, metrics = Journal(), Metrics(CollectorRegistry(), "0", CAPABILITY_METRICS)
    async with AsyncExitStack() as stack:
        background = Background(stack, LOG, metrics)
        work = WorkClock()
        stack.callback(work.close)
        engine = Engine(
            enforced.registry,
            Known(cache),
            CODEC,
            Silent(),
            after=AfterDecision(journal=journal),
        )
        led = LedCluster(
            api,
            cache,
            cache.snapshot,
            dict,
            lambda: True,
            Events(api, "a"),
            background.report,
        )

        async def catch_up() -> None:
            """There is nothing newer."""

        yield Site(
            "a",
            engine,
            Known(cache),
            led if watched else None,
            None,
            Options(**options),
            background,
            CODEC,
            PolicyTimes(lambda: 0.0, work, Silent().expensive, lambda *_: None, lambda: 1),
            lambda: enforced,
            catch_up,
        )
